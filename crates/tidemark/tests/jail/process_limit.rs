//! How many processes there can be where jails have no user of their own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use functions::jail::JailLevel;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{can, shell, shell_command};

/// No one else has it.
const USER: u32 = 1_900_000_001;
/// More than a jail may have.
const OTHERS: &str = "i=0; while [ $i -lt 70 ]; do sleep 600 & i=$((i+1)); done; echo; wait";
/// Takes all it can, says how many that are, and leaves them behind.
const TAKES_ALL: &str = "i=0; while [ $i -lt 200 ]; do echo $i; \
                         sleep 600 >/dev/null 2>&1 & i=$((i+1)); done";

/// Kills its group when it is dropped.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.cast_signed()).unwrap();
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// How many children there could be; they are there until the group is dropped.
fn children(output: &Output) -> usize {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("Cannot fork"), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap().parse().unwrap()
}

fn take_all() -> (Group, usize) {
    let mut jail = shell_command(JailLevel::Reduced, Some(USER), TAKES_ALL);
    jail.stdout(Stdio::piped()).stderr(Stdio::piped());
    let jail = jail.spawn().unwrap();
    let group = Group(jail.id());
    let output = jail.wait_with_output().unwrap();
    (group, children(&output))
}

#[test]
fn reduced_jail_has_its_room_beside_others_of_its_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: other tests of this user would have no room meanwhile");
        return;
    }
    if !can(JailLevel::Reduced, Some(USER)) {
        return;
    }
    let user = USER.to_string();
    let mut others = Command::new("setpriv");
    others.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    others.args(["sh", "-c", OTHERS]).process_group(0);
    let mut others = others.stdout(Stdio::piped()).spawn().unwrap();
    let group = Group(others.id());
    let mut began = String::new();
    let stdout = others.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut began).unwrap();

    let output = shell(JailLevel::Reduced, Some(USER), "echo ran");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"ran\n", "{errors}");
    // Launcher and shell are counted as well.
    let (_first, children) = take_all();
    assert_eq!(children, 62);
    // What is left of the first one widens the room of no other.
    let (_second, children) = take_all();
    assert_eq!(children, 0);
    drop(group);
    others.wait().unwrap();
}
