//! The responders that a request is measured beside, as children: the same body from the same
//! threads, with the server's whole head or with a short one, and nothing else.

use std::path::Path;

use anyhow::{Result, ensure};
use measure::connection::Connection;
use measure::costs::Costs;
use measure::responder::{Responder, ResponderKind};

use crate::aim::Aim;
use crate::figure::{Round, Slice};
use crate::surroundings;

/// What the static responder is called in reports.
pub const STATIC: &str = "static responder, same bytes";
/// What the lean one is called.
pub const LEAN: &str = "lean responder, same body, short head";
/// Most bytes of the lean responder's head: a status line and three headers.
const LEAN_HEAD_MAX: usize = 160;

/// Both responders of one request.
pub struct Floors {
    same: Floor,
    lean: Floor,
}

/// A running responder; killed when dropped.
struct Floor {
    _responder: Responder,
    /// The same request to it. It asks for no key, but gets one.
    aim: Aim,
}

/// One round: the subject, both responders, the subject again.
#[derive(Clone, Debug)]
pub struct FloorRound {
    /// Before the responders.
    pub first: Slice,
    /// The static responder.
    pub same: Slice,
    /// The lean one.
    pub lean: Slice,
    /// After them.
    pub second: Slice,
}

impl Floors {
    /// Starts both with the answer that `subject` gets, and checks that they give it.
    ///
    /// # Errors
    /// When one does not start, or answers with another body or a head of another length.
    pub fn beside(binary: &Path, subject: &Aim) -> Result<Floors> {
        Ok(Floors {
            same: Floor::start(binary, ResponderKind::Static, subject)?,
            lean: Floor::start(binary, ResponderKind::Lean, subject)?,
        })
    }

    /// The same request to the static responder, and to the lean one.
    pub fn aims(&self) -> [&Aim; 2] {
        [&self.same.aim, &self.lean.aim]
    }

    /// The round `number` of `subject`.
    ///
    /// # Errors
    /// Those of `ask`.
    pub fn round(
        &self,
        number: u32,
        subject: &Aim,
        ask: impl Fn(&Aim) -> Result<Slice>,
    ) -> Result<FloorRound> {
        let first = ask(subject)?;
        let [same, lean] = in_turns(number, self.aims(), &ask)?;
        let second = ask(subject)?;
        Ok(FloorRound {
            first,
            same,
            lean,
            second,
        })
    }
}

impl FloorRound {
    /// The subject with the static responder as its floor.
    pub fn to_same(&self) -> Round {
        Round::of(self.first.clone(), self.same.clone(), self.second.clone())
    }

    /// The subject with the lean responder as its floor.
    pub fn to_lean(&self) -> Round {
        Round::of(self.first.clone(), self.lean.clone(), self.second.clone())
    }
}

/// A slice of each. Another one begins in each round, so that each stands next to either slice of
/// the subject as often as the others.
///
/// # Errors
/// Those of `ask`.
pub fn in_turns<const N: usize>(
    number: u32,
    aims: [&Aim; N],
    ask: impl Fn(&Aim) -> Result<Slice>,
) -> Result<[Slice; N]> {
    let begin = number as usize % N;
    let turns = (begin..begin + N).map(|turn| ask(aims[turn % N]));
    let mut slices = turns.collect::<Result<Vec<Slice>>>()?;
    slices.rotate_right(begin);
    Ok(slices.try_into().expect("there is one of each"))
}

impl Floor {
    fn start(binary: &Path, kind: ResponderKind, subject: &Aim) -> Result<Floor> {
        let command = surroundings::command(binary);
        let what = (subject.url(), &subject.headers);
        let responder = Responder::start(command, None, kind, (&what.0, what.1))?;
        let floor = Floor {
            aim: subject.of(responder.address, Costs::of(vec![responder.process()])),
            _responder: responder,
        };
        floor.check(kind, subject)?;
        Ok(floor)
    }

    fn check(&self, kind: ResponderKind, subject: &Aim) -> Result<()> {
        let mut connection = Connection::open(subject.address)?;
        let answer = connection.accepted(&subject.request())?;
        let mut own = Connection::open(self.aim.address)?;
        let repeated = own.accepted(&self.aim.request())?;
        ensure!(
            answer.body == repeated.body,
            "the {kind:?} responder has another body"
        );
        let (wanted, got) = (answer.head.len(), repeated.head.len());
        let is_fit = match kind {
            // A mark or an age may take a digit more.
            ResponderKind::Static => wanted.abs_diff(got) < 16,
            ResponderKind::Lean => got <= LEAN_HEAD_MAX,
        };
        ensure!(
            is_fit,
            "the head of the {kind:?} responder has {got} bytes, the server's {wanted}"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn turns_begin_with_another_one_in_each_round_and_keep_their_places() {
        let aim = |port| Aim {
            address: ([127, 0, 0, 1], port).into(),
            path: String::new(),
            headers: Vec::new(),
            costs: Costs::of(Vec::new()),
        };
        let aims = [1, 2, 3].map(aim);
        let asked = RefCell::new(Vec::new());
        let ask = |aim: &Aim| {
            asked.borrow_mut().push(aim.address.port());
            Ok(Slice::of(f64::from(aim.address.port())))
        };
        for number in 0..3 {
            let slices = in_turns(number, aims.each_ref(), ask).unwrap();
            let values = slices.map(|slice| slice.value as u16);
            assert_eq!(values, [1, 2, 3]);
        }
        assert_eq!(*asked.borrow(), [1, 2, 3, 2, 3, 1, 3, 1, 2]);
    }
}
