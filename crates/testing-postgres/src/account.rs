//! As whom a server runs: PostgreSQL refuses to run as root.

use std::ffi::OsStr;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Users that own nothing of value, in the order in which they are taken.
/// The second is by its number the one that no file belongs to.
const UNPRIVILEGED: [&str; 2] = ["postgres", "65534"];

/// The user that a cluster belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// `None` for the caller, who is not root.
    other: Option<Other>,
}

#[derive(Clone, Debug)]
struct Other {
    name: &'static str,
    uid: u32,
    gid: u32,
}

impl Account {
    /// # Errors
    /// When the caller is root, and there is no other user to be.
    pub(crate) fn choose() -> Result<Account> {
        if id("-u", None)? != 0 {
            return Ok(Account { other: None });
        }
        let found = UNPRIVILEGED.into_iter().find_map(|name| {
            let (uid, gid) = (id("-u", Some(name)).ok()?, id("-g", Some(name)).ok()?);
            Some(Other { name, uid, gid })
        });
        let other =
            found.context("there is neither a user `postgres` nor one of the number 65534")?;
        Ok(Account { other: Some(other) })
    }

    /// Gives the folder to the user.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn own(&self, folder: &Path) -> Result<()> {
        if let Some(other) = &self.other {
            chown(folder, Some(other.uid), Some(other.gid))?;
        }
        Ok(())
    }

    /// A program that this user runs, in a folder that any user can enter. `ends_with_caller`: it
    /// gets SIGINT once the thread that starts it is gone.
    pub(crate) fn command(&self, program: &OsStr, ends_with_caller: bool) -> Command {
        let mut command = Command::new("setpriv");
        if ends_with_caller {
            command.args(["--pdeathsig", "INT"]);
        }
        if let Some(other) = &self.other {
            command.arg(format!("--reuid={}", other.name));
            command.arg(format!("--regid={}", other.gid));
            command.arg("--init-groups");
        }
        command.arg("--").arg(program).current_dir("/");
        command
    }
}

/// What `id` says of a user, or of the caller.
fn id(what: &str, user: Option<&str>) -> Result<u32> {
    let mut command = Command::new("id");
    let output = command
        .arg(what)
        .args(user)
        .output()
        .context("id does not start")?;
    ensure!(output.status.success(), "there is no user {user:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("`id {what}` printed {text:?}"))
}
