//! The static responder, as a child: the same bytes from the same threads, and nothing else.

use std::path::Path;

use anyhow::{Result, ensure};
use measure::connection::Connection;
use measure::responder::Responder;

use crate::aim::Aim;
use crate::surroundings;

/// A running responder; killed when dropped.
pub struct Floor {
    _responder: Responder,
    /// The same request to it. It asks for no key, but gets one.
    pub aim: Aim,
}

impl Floor {
    /// Starts it with the answer that `subject` gets, and checks that it gives the same one.
    ///
    /// # Errors
    /// When it does not start, or answers with other bytes.
    pub fn beside(binary: &Path, subject: &Aim) -> Result<Floor> {
        let command = surroundings::command(binary);
        let responder = Responder::start(command, None, &subject.url(), &subject.headers)?;
        let floor = Floor {
            aim: subject.of(responder.address, vec![responder.process()]),
            _responder: responder,
        };
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
