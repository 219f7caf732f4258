//! How many processes and threads a jail may have, and what it does where there is no room for its
//! first ones.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::parent_id;
use std::process;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, getuid};

/// Of one jail, its launcher included.
pub const PROCESSES_MAX: u64 = 64;

/// The limit of a jail that has no user of its own: the kernel counts all that the user has on the
/// host, and the server and other jails are no part of this one's share.
pub fn beside_others() -> io::Result<u64> {
    let mut statuses = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // It may have ended meanwhile.
        if let Ok(text) = fs::read(entry?.path().join("status")) {
            statuses.extend(ProcessStatus::parse(&String::from_utf8_lossy(&text)));
        }
    }
    let others = threads_of_others(&statuses, getuid().as_raw(), (process::id(), parent_id()));
    // No one but root may have more than the server.
    let most = getrlimit(Resource::Nproc).maximum.unwrap_or(u64::MAX);
    Ok(others.saturating_add(PROCESSES_MAX).min(most))
}

/// What `/proc/PID/status` says of a process.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStatus {
    pid: u32,
    user: u32,
    threads: u64,
    session: u32,
}

impl ProcessStatus {
    fn parse(text: &str) -> Option<ProcessStatus> {
        let first = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let (_, values) = lines.find(|(key, _)| *key == name)?;
            values.split_whitespace().next()?.parse::<u32>().ok()
        };
        Some(ProcessStatus {
            pid: first("Pid")?,
            // The real one, by which the kernel counts.
            user: first("Uid")?,
            threads: first("Threads")?.into(),
            // A kernel without namespaces of process ids does not say.
            session: first("NSsid").unwrap_or_default(),
        })
    }
}

/// Threads of the user that this process does not start.
///
/// A jail is one session, and what is in it can begin no other one. What has outlived the leader of
/// its session is not counted, unless it is of the server's: else a function that leaves children
/// behind would widen the room of the next one by as many, without end.
fn threads_of_others(statuses: &[ProcessStatus], user: u32, (own, server): (u32, u32)) -> u64 {
    let alive: BTreeSet<u32> = statuses.iter().map(|status| status.pid).collect();
    let server = statuses.iter().find(|status| status.pid == server);
    let session_of_server = server.map(|server| server.session);
    let counts = |status: &&ProcessStatus| {
        let has_leader = status.session == 0 || alive.contains(&status.session);
        let is_kept = has_leader || Some(status.session) == session_of_server;
        status.user == user && status.pid != own && is_kept
    };
    let counted = statuses.iter().filter(counts);
    counted.map(|status| status.threads).sum()
}

/// Pauses between attempts, in milliseconds: a second in all. That a host or a user is short of
/// processes passes as soon as others end.
const PAUSES_MS: [u64; 8] = [5, 10, 20, 40, 80, 160, 320, 365];

/// Starts a process, and tries again where there is no room for it.
pub fn start_patiently<T>(start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    try_patiently(start, thread::sleep)
}

fn try_patiently<T>(
    mut start: impl FnMut() -> io::Result<T>,
    mut pause: impl FnMut(Duration),
) -> io::Result<T> {
    for pause_ms in PAUSES_MS {
        match start() {
            Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {
                pause(Duration::from_millis(pause_ms));
            }
            ended => return ended,
        }
    }
    start()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(error: Errno) -> io::Error {
        error.into()
    }

    #[test]
    fn start_without_room_is_tried_again_for_a_second() {
        let mut paused = Duration::ZERO;
        let mut attempts = 0;
        let started = try_patiently(
            || {
                attempts += 1;
                if attempts < 4 {
                    return Err(refusal(Errno::AGAIN));
                }
                Ok("started")
            },
            |pause| paused += pause,
        );
        assert_eq!(started.unwrap(), "started");
        assert_eq!((attempts, paused), (4, Duration::from_millis(35)));

        let (mut paused, mut attempts) = (Duration::ZERO, 0);
        let refused = try_patiently(
            || {
                attempts += 1;
                Err::<(), _>(refusal(Errno::AGAIN))
            },
            |pause| paused += pause,
        );
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!((attempts, paused), (9, Duration::from_secs(1)));
    }

    #[test]
    fn start_that_fails_for_another_reason_is_not_tried_again() {
        let mut attempts = 0;
        let refused = try_patiently(
            || {
                attempts += 1;
                Err::<(), _>(refusal(Errno::NOENT))
            },
            |_| unreachable!("waiting does not help"),
        );
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(attempts, 1);
    }

    #[test]
    fn status_of_a_process_is_read() {
        // As a process in two namespaces is seen from the outer one; a program may choose its name.
        let text = "Name:\tUid: 0\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t31\nPid:\t31\n\
                    PPid:\t1\nUid:\t65534\t0\t0\t0\nGid:\t7\t7\t7\t7\nNSpid:\t31\t2\n\
                    NSsid:\t30\t1\nThreads:\t11\n";
        let status = ProcessStatus {
            pid: 31,
            user: 65_534,
            threads: 11,
            session: 30,
        };
        assert_eq!(ProcessStatus::parse(text), Some(status));
        assert_eq!(ProcessStatus::parse("Pid:\t31\nUid:\t0\n"), None);
    }

    #[test]
    fn only_threads_of_others_that_have_a_leader_are_counted() {
        let status = |pid, user, threads, session| ProcessStatus {
            pid,
            user,
            threads,
            session,
        };
        let cases = [
            ("none", vec![], 0),
            ("the launcher itself", vec![status(9, 7, 1, 9)], 0),
            ("another user's", vec![status(5, 8, 30, 5)], 0),
            ("a server", vec![status(3, 7, 20, 3)], 20),
            (
                "a server whose shell has ended",
                vec![status(3, 7, 20, 2)],
                20,
            ),
            (
                "another jail",
                vec![status(5, 7, 1, 5), status(6, 7, 11, 5)],
                12,
            ),
            ("what a jail has left behind", vec![status(6, 7, 1, 5)], 0),
            (
                "a session outside of this /proc",
                vec![status(6, 7, 2, 0)],
                2,
            ),
        ];
        for (case, statuses, expected) in cases {
            let counted = threads_of_others(&statuses, 7, (9, 3));
            assert_eq!(counted, expected, "{case}");
        }
    }
}
