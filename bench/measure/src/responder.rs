//! Programs that answer and keep nothing, as children: the responders, with the same bytes from
//! the same threads and nothing else, and whatever else says where it listens.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::cores::Cores;
use crate::process::{ChildProgram, ProcessNumber};

/// What a responder repeats besides the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponderKind {
    /// The whole head: the *static responder*.
    Static,
    /// `Content-Type` alone: the *lean responder*.
    Lean,
}

/// A running responder; killed when dropped, as it keeps nothing that an orderly end would save.
pub struct Responder {
    running: ChildProgram,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Responder {
    /// One that repeats what `url` answers with these headers: `tidemark bench floor`, a `command`
    /// that has no arguments yet.
    ///
    /// # Errors
    /// When it does not start, or does not say where it listens.
    pub fn start(
        mut command: Command,
        cores: Option<&Cores>,
        kind: ResponderKind,
        (url, headers): (&str, &[String]),
    ) -> Result<Responder> {
        command.args(["bench", "floor", "--listen", "127.0.0.1:0", "--from", url]);
        if kind == ResponderKind::Lean {
            command.arg("--lean");
        }
        for header in headers {
            command.args(["--header", header]);
        }
        Responder::begin(command, cores)
    }

    /// A program whose first line is `listening on http://ADDRESS:PORT`.
    ///
    /// # Errors
    /// When it does not start, or does not say where it listens.
    pub fn begin(mut command: Command, cores: Option<&Cores>) -> Result<Responder> {
        let program = command.get_program().display().to_string();
        command.stdout(Stdio::piped());
        let mut running = ChildProgram::spawn(&mut command, cores)?;
        let output = running.0.stdout.take().expect("it was asked for above");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = address(&line);
        let said = || format!("{program} says `{}`", line.trim());
        Ok(Responder {
            running,
            address: address.with_context(said)?,
        })
    }

    /// Its process.
    pub fn process(&self) -> ProcessNumber {
        self.running.process()
    }
}

fn address(line: &str) -> Option<SocketAddr> {
    let address = line.trim().strip_prefix("listening on http://")?;
    address.trim_end_matches('/').parse().ok()
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
