//! The session of a jail. Where there are no control groups, the kernel's scheduler takes all that
//! one session runs for one program, whose weight is its own to set (sched(7), "The autogroup
//! feature").

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{AtStep, JailError};

/// How far functions stand back on the processors, as `nice` counts: a process within its session,
/// and a session among others.
pub const STANDS_BACK: i32 = 10;
/// The weight of this process's session.
const AUTOGROUP: &str = "/proc/self/autogroup";
/// A user other than root may set one weight in so long, on the whole host.
const WEIGHT_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Leaves the session of the server, with which processes of the user's would share its weight, and
/// its terminal. What becomes of the new one's weight is `None` where the kernel has none.
pub fn begin() -> Result<Option<SessionWeight>, JailError> {
    rustix::process::setsid().at("beginning a session")?;
    rustix::process::setpriority_process(None, STANDS_BACK).at("setting its priority")?;
    Ok(SessionWeight::open(Path::new(AUTOGROUP)))
}

/// A weight that is to be set, as long as the kernel lets this user wait for it.
#[derive(Debug)]
pub struct SessionWeight(File);

impl SessionWeight {
    /// Opened at once: the file of a process that hides its memory is no longer its own.
    fn open(path: &Path) -> Option<SessionWeight> {
        let file = OpenOptions::new().write(true).open(path).ok()?;
        let weight = SessionWeight(file);
        weight.is_refused_for_now().then_some(weight)
    }

    /// A kernel that knows no such weight has its own errors, and the priority of processes holds.
    fn is_refused_for_now(&self) -> bool {
        let set = (&self.0).write(STANDS_BACK.to_string().as_bytes());
        set.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sets it as soon as it may be set, unless this child ends before. Nothing of the user's waits
    /// for that, as others could make it wait.
    pub fn set_beside(&self, child: Pid) {
        let Ok(child) = pidfd_open(child, PidfdFlags::empty()) else {
            return;
        };
        while self.is_refused_for_now() {
            // No thread: a process whose children get a namespace of their own can have no other.
            let mut ends = [PollFd::new(&child, PollFlags::IN)];
            if poll(&mut ends, Some(&WEIGHT_PAUSE)) != Ok(0) {
                return;
            }
        }
    }
}
