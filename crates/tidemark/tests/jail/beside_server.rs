//! A jail of level `reduced` that is of the same user as the server: what that user may do to his
//! own files and processes, the jail may not.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Child, Command, Stdio};

use functions::jail::JailLevel;

use super::{can, shell, turn};

/// Prints each command that does what it should.
const SCRIPT: &str = "for each in \"chmod 644 FILE\" \"chown USER FILE\" \"touch FILE\" \
    \"prlimit --pid PROCESS --nofile=64\" \"renice 19 -p PROCESS\" \
    \"ionice -c 3 -p PROCESS\" \"taskset -p 1 PROCESS\" \"chrt -b -p 0 PROCESS\"
    do $each >/dev/null 2>&1 && echo \"$each\"; done; echo end";

/// A process of the server's user, ended with the test.
struct Neighbour(Child);

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn as_user(user: Option<u32>) -> Command {
    match user {
        None => Command::new("env"),
        Some(user) => {
            let mut command = Command::new("setpriv");
            let user = user.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
            command
        }
    }
}

#[test]
fn a_reduced_jail_changes_no_file_and_no_process_of_its_user() {
    let _turn = turn();
    let own = rustix::process::geteuid();
    let other = own.is_root().then_some(65_534);
    if !can(JailLevel::Reduced, other) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    chown(&file, other, other).unwrap();
    let mut waiting = as_user(other);
    let waiting = waiting.args(["sleep", "600"]).stdout(Stdio::null());
    let neighbour = Neighbour(waiting.spawn().unwrap());
    let user = other.unwrap_or(own.as_raw()).to_string();
    let process = neighbour.0.id().to_string();
    let script = [
        ("FILE", file.display().to_string()),
        ("USER", user),
        ("PROCESS", process),
    ];
    let script = script
        .iter()
        .fold(SCRIPT.to_owned(), |script, (name, value)| {
            script.replace(name, value)
        });
    let inside = shell(JailLevel::Reduced, other, &script);
    let said = String::from_utf8_lossy(&inside.stdout);
    assert_eq!(said, "end\n", "{inside:?}");
    // Beside the jail that user may do all of it.
    let outside = as_user(other).args(["sh", "-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&outside.stdout);
    assert_eq!(said.lines().count(), 9, "{said}");
}
