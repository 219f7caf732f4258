//! How many processes and threads a jail may have, and what it does where there is no room for its
//! first ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::process::parent_id;
use std::process;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, getuid};

/// `Seccomp` in `/proc/PID/status` where a filter holds. More than that has what its own filter
/// has killed.
const FILTERED: u32 = 2;

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
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessStatus {
    pid: u32,
    user: u32,
    threads: u64,
    session: u32,
    /// Whether it has what each jail has: a seccomp filter, and no way to new rights.
    is_jailed: bool,
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
            is_jailed: first("Seccomp").is_some_and(|mode| mode >= FILTERED)
                && first("NoNewPrivs") == Some(1),
        })
    }
}

/// Threads of the user that this process does not start.
///
/// A jail is one session, and what is in it can begin no other one. Of a session that is jailed as
/// a whole no more is counted than a jail should have, and nothing once its leader has ended: else
/// each jail that takes all it may, or leaves children behind, would widen the room of the next,
/// without end. The server's session is counted in full, as the server may be shut in itself.
fn threads_of_others(statuses: &[ProcessStatus], user: u32, (own, server): (u32, u32)) -> u64 {
    let alive: BTreeSet<u32> = statuses.iter().map(|status| status.pid).collect();
    let server = statuses.iter().find(|status| status.pid == server);
    let session_of_server = server.map(|server| server.session);
    let is_other = |status: &&ProcessStatus| status.user == user && status.pid != own;
    let mut sessions = BTreeMap::<u32, (u64, bool)>::new();
    for status in statuses.iter().filter(is_other) {
        let (threads, is_jailed) = sessions.entry(status.session).or_insert((0, true));
        *threads += status.threads;
        *is_jailed &= status.is_jailed;
    }
    let counted = sessions.into_iter().map(|(session, (threads, is_jailed))| {
        // Sessions outside of this `/proc` are all 0.
        if !is_jailed || session == 0 || Some(session) == session_of_server {
            return threads;
        }
        if alive.contains(&session) {
            threads.min(PROCESSES_MAX)
        } else {
            0
        }
    });
    counted.sum()
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
                    NSsid:\t30\t1\nThreads:\t11\nNoNewPrivs:\t1\nSeccomp:\t2\n\
                    Seccomp_filters:\t3\n";
        let status = ProcessStatus {
            pid: 31,
            user: 65_534,
            threads: 11,
            session: 30,
            is_jailed: true,
        };
        assert_eq!(ProcessStatus::parse(text), Some(status));
        assert_eq!(ProcessStatus::parse("Pid:\t31\nUid:\t0\n"), None);
    }

    #[test]
    fn jailed_is_what_has_a_filter_and_no_way_to_new_rights() {
        let is_jailed = |fences: &str| {
            let text = format!("Pid:\t31\nUid:\t7\t7\t7\t7\nThreads:\t1\n{fences}");
            ProcessStatus::parse(&text).unwrap().is_jailed
        };
        assert!(is_jailed("NoNewPrivs:\t1\nSeccomp:\t2\n"));
        // It has ended by a filter, and no one has waited for it.
        assert!(is_jailed("NoNewPrivs:\t1\nSeccomp:\t3\n"));
        assert!(!is_jailed("NoNewPrivs:\t0\nSeccomp:\t2\n"));
        assert!(!is_jailed("NoNewPrivs:\t1\nSeccomp:\t0\n"));
        assert!(!is_jailed("NoNewPrivs:\t1\nSeccomp:\t1\n"));
        // A kernel without seccomp does not say.
        assert!(!is_jailed(""));
    }

    /// A process as `/proc` describes it.
    fn status(pid: u32, user: u32, threads: u64, session: u32, fences: [u32; 2]) -> ProcessStatus {
        let [no_new_privs, seccomp] = fences;
        let text = format!(
            "Name:\tsh\nPid:\t{pid}\nUid:\t{user}\t{user}\t{user}\t{user}\nNSsid:\t{session}\n\
             Threads:\t{threads}\nNoNewPrivs:\t{no_new_privs}\nSeccomp:\t{seccomp}\n"
        );
        ProcessStatus::parse(&text).unwrap()
    }

    /// Counts for process 9 of user 7, which process 3 has started.
    fn assert_counted(cases: impl IntoIterator<Item = (&'static str, Vec<ProcessStatus>, u64)>) {
        for (case, statuses, expected) in cases {
            let counted = threads_of_others(&statuses, 7, (9, 3));
            assert_eq!(counted, expected, "{case}");
        }
    }

    const FREE: [u32; 2] = [0, 0];
    const JAILED: [u32; 2] = [1, 2];

    #[test]
    fn threads_of_others_are_counted() {
        assert_counted([
            ("none", vec![], 0),
            ("the launcher itself", vec![status(9, 7, 1, 9, FREE)], 0),
            ("another user's", vec![status(5, 8, 30, 5, FREE)], 0),
            ("a server", vec![status(3, 7, 200, 3, FREE)], 200),
            (
                "a server whose shell has ended",
                vec![status(3, 7, 200, 2, FREE)],
                200,
            ),
            ("a jailed server", vec![status(3, 7, 200, 3, JAILED)], 200),
            (
                "a jailed server whose shell has ended",
                vec![status(3, 7, 200, 2, JAILED)],
                200,
            ),
            (
                "a session outside of this /proc",
                vec![status(6, 7, 200, 0, JAILED)],
                200,
            ),
        ]);
    }

    #[test]
    fn a_jail_is_counted_with_no_more_than_it_should_have() {
        let jail = |session, threads| {
            let children = status(session + 1, 7, threads, session, JAILED);
            [status(session, 7, 1, session, JAILED), children]
        };
        let launcher = status(40, 7, 1, 40, FREE);
        assert_counted([
            ("a jail", jail(20, 11).into(), 12),
            ("one that has all it should have", jail(20, 63).into(), 64),
            ("one that has more", jail(20, 127).into(), 64),
            (
                "two, and one that is being made",
                [jail(20, 127), jail(30, 191)]
                    .concat()
                    .into_iter()
                    .chain([launcher])
                    .collect(),
                129,
            ),
            (
                "a session that only has jailed processes among others",
                vec![status(20, 7, 1, 20, FREE), status(21, 7, 127, 20, JAILED)],
                128,
            ),
        ]);
    }

    #[test]
    fn orphans_of_a_jail_are_not_counted_and_daemons_are() {
        let others = [[0, 2], [1, 0], FREE];
        assert_counted([("a jail's", vec![status(6, 7, 70, 5, JAILED)], 0)]);
        for fences in others {
            assert_counted([("a daemon", vec![status(6, 7, 70, 5, fences)], 70)]);
        }
    }
}
