//! The static responder, as a child: the same bytes from the same threads, and nothing else.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use crate::aim::Aim;
use crate::connection::Connection;
use crate::live::{Process, without_surroundings};

/// A running responder; killed when dropped.
pub struct Floor {
    child: Child,
    /// The same request to it. It asks for no key, but gets one.
    pub aim: Aim,
}

impl Floor {
    /// Starts it with the answer that `subject` gets, and checks that it gives the same one.
    ///
    /// # Errors
    /// When it does not start, or answers with other bytes.
    pub fn beside(binary: &Path, subject: &Aim) -> Result<Floor> {
        let mut command = without_surroundings(binary);
        command.args(["bench", "floor", "--listen", "127.0.0.1:0"]);
        command.args(["--from", &subject.url()]);
        for header in &subject.headers {
            command.args(["--header", header]);
        }
        command.stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .context("the static responder does not start")?;
        let output = child.stdout.take().expect("it was asked for above");
        let process = Process(child.id());
        // Held from here on, so that a failure below ends the child as well.
        let mut floor = Floor {
            child,
            aim: subject.of(subject.address, vec![process]),
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        floor.aim.address = address(&line)
            .with_context(|| format!("the static responder says `{}`", line.trim()))?;
        floor.check(subject)?;
        Ok(floor)
    }

    fn check(&self, subject: &Aim) -> Result<()> {
        let mut connection = Connection::open(subject.address)?;
        let answer = connection.accepted(&subject.request())?;
        let mut own = Connection::open(self.aim.address)?;
        let repeated = own.accepted(&self.aim.request())?;
        ensure!(
            answer.body == repeated.body,
            "the static responder has another body"
        );
        let (wanted, got) = (answer.head.len(), repeated.head.len());
        // A mark or an age may take a digit more.
        ensure!(
            wanted.abs_diff(got) < 16,
            "its head has {got} bytes, the server's {wanted}"
        );
        Ok(())
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // It keeps nothing that an orderly end would save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(line: &str) -> Option<SocketAddr> {
    line.trim()
        .strip_prefix("listening on http://")?
        .trim_end_matches('/')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_its_first_line() {
        let wanted: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        assert_eq!(
            address("listening on http://127.0.0.1:4000\n"),
            Some(wanted)
        );
        assert_eq!(address("cannot listen"), None);
        assert_eq!(address(""), None);
    }
}
