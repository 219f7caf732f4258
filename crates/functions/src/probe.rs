//! Runs a program of the host to learn what it says.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A program that has not ended by then is killed.
pub const PROBE_MAX: Duration = Duration::from_secs(10);

/// What a program of the host prints, within [`PROBE_MAX`].
pub fn print_of(program: &Path, arguments: &[String]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.map_err(|error| error.to_string())?;
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(PROBE_MAX);
    if output.is_err() {
        // Not waited for yet, so the number is still of this child.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let _ = waiter.join();
    let output = output.map_err(|_| format!("no answer within {PROBE_MAX:?}"))?;
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, words.trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}
