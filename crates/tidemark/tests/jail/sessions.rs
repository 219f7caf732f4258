//! What the kernel's scheduler takes a jail for where there are no control groups: one session.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use functions::jail::JailLevel;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{can, shell_command, turn};

/// In it a process asks for a session of its own.
const SCRIPT: &str = "setsid sleep 60; true";
/// Looks, until the process is there and the weight is set.
const LOOKS: usize = 600;
const PAUSE: Duration = Duration::from_millis(50);

/// The process, and all that descend from it.
fn tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        found.extend(children.split_whitespace().flat_map(str::parse::<u32>));
        at += 1;
    }
    found
}

fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.unwrap_or_default().trim().to_owned()
}

/// Number and weight of its session, as `/autogroup-7 nice 0`.
fn autogroup(pid: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/autogroup"));
    text.unwrap_or_default().trim().to_owned()
}

/// The sessions of all its processes, once all is there and weighed.
fn sessions(jail: &Child) -> BTreeSet<String> {
    let mut sessions = BTreeSet::new();
    for _ in 0..LOOKS {
        let tree = tree(jail.id());
        let has_begun = tree.iter().any(|pid| name(*pid) == "sleep");
        sessions = tree.into_iter().map(autogroup).collect();
        if has_begun && sessions.iter().all(|session| session.ends_with(" nice 10")) {
            break;
        }
        thread::sleep(PAUSE);
    }
    sessions
}

#[test]
fn jail_is_one_session_of_low_weight_and_stays_one() {
    let _turn = turn();
    let own = autogroup(std::process::id());
    if own.is_empty() {
        eprintln!("not tried: this kernel has no groups of sessions");
        return;
    }
    let other = rustix::process::geteuid().is_root().then_some(65_534);
    for (level, user) in [
        (JailLevel::Full, None),
        (JailLevel::Reduced, None),
        (JailLevel::Full, other),
        (JailLevel::Reduced, other),
    ] {
        if !can(level, user) {
            continue;
        }
        // Of two at once that do not belong to root the kernel refuses one at first.
        let begin = || {
            let mut jail = shell_command(level, user, SCRIPT);
            jail.stdout(Stdio::null()).spawn().unwrap()
        };
        let mut jails = [begin(), begin()];
        let all = jails.each_ref().map(sessions);
        for jail in &mut jails {
            // Its group is that of all its processes.
            let group = Pid::from_raw(jail.id().cast_signed()).unwrap();
            kill_process_group(group, Signal::KILL).unwrap();
            jail.wait().unwrap();
        }
        for sessions in &all {
            assert_eq!(sessions.len(), 1, "{level:?} {user:?}: {sessions:?}");
            assert!(!sessions.contains(&own), "{level:?} {user:?}");
            let is_low = |session: &String| session.ends_with(" nice 10");
            assert!(sessions.iter().all(is_low), "{level:?} {user:?}: {all:?}");
        }
        assert_ne!(all[0], all[1], "{level:?} {user:?}");
    }
}
