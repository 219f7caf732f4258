//! What a jail without a namespace of processes leaves behind: the server ends it.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process};

/// How often, and after which pause, it is looked for what has not ended yet.
const LOOKS_MAX: usize = 100;
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Ends all that is left in the session of a launcher, which has ended and was waited for. All that
/// was in its jail is in this session, as no call in it begins another one; a process group would
/// not do, which anyone may leave.
pub async fn end_session(launcher: u32) {
    if let Some(leader) = Pid::from_raw(launcher.cast_signed()) {
        // It reads the whole of `/proc`.
        let _ = tokio::task::spawn_blocking(move || end_members(leader)).await;
    }
}

fn end_members(leader: Pid) {
    for _ in 0..LOOKS_MAX {
        if !kill_members(leader) {
            return;
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// Kills each; whether there was one.
fn kill_members(leader: Pid) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let members = numbers
        .filter_map(Pid::from_raw)
        .filter(|pid| is_member(*pid, leader));
    let mut was_one = false;
    for pid in members {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        // Asked again: the number may have become another process's before it was opened.
        if is_member(pid, leader) {
            was_one = true;
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
    was_one
}

/// Whether a process is in the session, and has not ended.
fn is_member(pid: Pid, leader: Pid) -> bool {
    // A number is given to no one as long as a session goes by it: what has it now may lead another
    // session, and of the one that is meant no one is left.
    if test_kill_process(leader) != Err(Errno::SRCH) {
        return false;
    }
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // It may have ended meanwhile.
    stat.is_ok_and(|stat| {
        lives_in(
            &String::from_utf8_lossy(&stat),
            leader.as_raw_nonzero().get(),
        )
    })
}

/// As proc_pid_stat(5) describes it.
fn lives_in(stat: &str, session: i32) -> bool {
    // A program may have any letters in its name.
    let Some((_, fields)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut fields = fields.split_whitespace();
    let has_ended = fields.next().is_none_or(|state| "ZX".contains(state));
    !has_ended
        && fields
            .nth(2)
            .is_some_and(|field| field.parse() == Ok(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_and_state_of_a_process_are_read_whatever_its_name() {
        let stat = |name: &str, state| format!("31 ({name}) {state} 1 32 30 0 -1 4194304 108 0");
        for name in ["sleep", "a b", "x) S 1 1 99", "(", ")"] {
            assert!(lives_in(&stat(name, "S"), 30), "{name}");
            // That of its parent, its group, and in its name.
            for other in [1, 32, 99, 0] {
                assert!(!lives_in(&stat(name, "R"), other), "{name}: {other}");
            }
            for ended in ["Z", "X"] {
                assert!(!lives_in(&stat(name, ended), 30), "{name}: {ended}");
            }
        }
        for broken in ["", "31 (sleep", "31 (sleep)", "31 (sleep) S 1 32"] {
            assert!(!lives_in(broken, 30), "{broken}");
        }
    }
}
