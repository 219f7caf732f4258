//! The static responder, as a child: the same bytes from the same threads, and nothing else.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use crate::connection::{Access, Connection};
use crate::live::{Process, without_surroundings};

/// A running responder; killed when dropped.
pub struct Floor {
    child: Child,
    /// Where it answers. It asks for no key, but gets the same request.
    pub access: Access,
}

impl Floor {
    /// Starts it with the answer that `route` of the server gives, and checks that it gives the
    /// same one.
    ///
    /// # Errors
    /// When it does not start, or answers with other bytes.
    pub fn start(binary: &Path, server: &Access, route: &str) -> Result<Floor> {
        let mut command = without_surroundings(binary);
        command.args([
            "bench",
            "floor",
            "--listen",
            "127.0.0.1:0",
            "--from",
            &server.url(route),
        ]);
        for header in server.headers() {
            command.args(["--header", &header]);
        }
        command.stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .context("the static responder does not start")?;
        let output = child.stdout.take().expect("it was asked for above");
        // Held from here on, so that a failure below ends the child as well.
        let mut floor = Floor {
            child,
            access: server.clone(),
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        floor.access.address = address(&line)
            .with_context(|| format!("the static responder says `{}`", line.trim()))?;
        floor.check(server, route)?;
        Ok(floor)
    }

    fn check(&self, server: &Access, route: &str) -> Result<()> {
        let request = server.request("GET", route, "");
        let mut connection = Connection::open(server.address)?;
        let answer = connection.accepted(&request)?;
        let mut own = Connection::open(self.access.address)?;
        let repeated = own.accepted(&request)?;
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

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
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
