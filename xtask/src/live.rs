//! A running server of our own, for the demonstration and the benchmarks.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use testing::{ChildServer, ServerLog};

/// Names the released binary to every test suite and benchmark.
pub const BINARY_VARIABLE: &str = "TIDEMARK_BIN";

/// Starts the server's `program` on a new data directory below `folder`, which is emptied first.
/// A Ctrl-C in the terminal reaches it directly, as it stays in this program's process group.
///
/// # Errors
/// When the folder cannot be emptied, or the server does not start.
pub fn start(program: Command, folder: &Path) -> Result<ChildServer> {
    if folder.exists() {
        let cannot = || format!("{} cannot be emptied", folder.display());
        std::fs::remove_dir_all(folder).with_context(cannot)?;
    }
    std::fs::create_dir_all(folder)?;
    let command = testing::serve(program, &folder.join("data"));
    ChildServer::start(command, ServerLog::File(&folder.join("server.log")))
}

/// Tells a child how to reach the server, by the variables that the official SDK's examples use:
/// arguments are readable by every user of the machine.
///
/// # Errors
/// When the server made no project or no key, because its directory was not new.
pub fn lend(server: &ChildServer, command: &mut Command) -> Result<()> {
    let project = server
        .projects
        .first()
        .context("the server has no project")?;
    let key = server.key.as_ref().context("the server made no key")?;
    command.env("APPWRITE_ENDPOINT", &server.endpoint);
    command.env("APPWRITE_PROJECT_ID", project);
    command.env("APPWRITE_API_KEY", key);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_emptied_and_access_is_lent() {
        let folder = std::env::temp_dir().join(format!("xtask-live-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("left"), "").unwrap();
        let banner = "echo Tidemark 0; echo; echo '  endpoint    http://e:1/v1'
            echo '  project id  p'; echo '  API key     k'; echo; exec sleep 100 >/dev/null";
        let mut shell = Command::new("sh");
        shell.args(["-c", banner, "server"]);
        let server = start(shell, &folder).unwrap();
        assert!(!folder.join("left").exists());
        let mut child = Command::new("true");
        lend(&server, &mut child).unwrap();
        let lent: Vec<_> = child.get_envs().filter_map(|(_, value)| value).collect();
        // By the order of the variables' names.
        assert_eq!(lent, ["k", "http://e:1/v1", "p"]);
        drop(server);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
