//! The two vocabularies of reads and transactions over time: that of all routes of our own, and
//! the case language, which is served as its files are written.
//!
//! A member may be sent by either name. Answers are in the case language with integers, unless one
//! of our own names or a form of instants was asked for.

use model::{Mark, Period, Timestamp};

use crate::http::input::fields::Fields;
use crate::http::wire::error::ApiError;
use crate::http::wire::{InstantForm, SortedObject, WrittenJson};

/// A member, by its name in the two vocabularies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    own: &'static str,
    case: &'static str,
}

const fn term(own: &'static str, case: &'static str) -> Term {
    Term { own, case }
}

pub(super) const TABLE: Term = term("tableId", "table");
pub(super) const ROW: Term = term("rowId", "id");
pub(super) const CONTENT: Term = term("data", "doc");
pub(super) const SYSTEM: Term = term("asOf", "tt");
pub(super) const VALID: Term = term("validAt", "vt");
pub(super) const RANGE: Term = term("validBetween", "valid");
pub(super) const VALID_FROM: Term = term("$validFrom", "valid_from");
pub(super) const VALID_TO: Term = term("$validTo", "valid_to");
pub(super) const UNCHANGED: Term = term("unchangedSince", "unchanged_since");
pub(super) const RIGHT_EQUAL: Term = term("rightWhere", "right_where");

/// Members of answers alone.
pub(super) const SHOWN_ROW: Term = term("$id", "id");
pub(super) const SYSTEM_FROM: Term = term("$systemFrom", "sys_from");
pub(super) const SYSTEM_TO: Term = term("$systemTo", "sys_to");
pub(super) const COMMITTED: Term = term("$systemFrom", "tt");
pub(super) const ORIGIN: Term = term("$origin", "origin");
pub(super) const STEP_FROM: Term = term("$validFrom", "from");
pub(super) const STEP_TO: Term = term("$validTo", "to");
pub(super) const LEFT_CONTENT: Term = term("leftData", "left_doc");
pub(super) const RIGHT_CONTENT: Term = term("rightData", "right_doc");

/// What may be sent by either name.
const SENT: [Term; 10] = [
    TABLE,
    ROW,
    CONTENT,
    SYSTEM,
    VALID,
    RANGE,
    VALID_FROM,
    VALID_TO,
    UNCHANGED,
    RIGHT_EQUAL,
];

impl Term {
    /// The name by which the member was sent; that of the case language where it was not.
    ///
    /// # Errors
    /// Both names.
    pub(super) fn sent(self, fields: &Fields) -> Result<&'static str, ApiError> {
        match (fields.holds(self.own), fields.holds(self.case)) {
            (true, true) => {
                let why = format!("`{}` says the same as `{}`: send one", self.own, self.case);
                Err(fields.wrong(self.own, &why))
            }
            (true, false) => Ok(self.own),
            (false, _) => Ok(self.case),
        }
    }
}

/// What the case language calls a member that may be sent by either name.
pub(super) fn in_cases(name: &str) -> &str {
    let term = SENT.iter().find(|term| term.own == name);
    term.map_or(name, |term| term.case)
}

/// Whether something is called by one of our own names.
fn speaks_ours(fields: &Fields) -> bool {
    SENT.iter().any(|term| fields.holds(term.own))
}

/// # Errors
/// A member that is none of these, which stand in the words of the case language, in neither
/// vocabulary. Of two that are equally like it, the refusal names that of the one spoken.
pub(super) fn need_known(fields: &Fields, members: &[&'static str]) -> Result<(), ApiError> {
    let other = |name: &&'static str| SENT.iter().find(|term| term.case == *name);
    let ours = members.iter().filter_map(other).map(|term| term.own);
    let of_cases = members.iter().copied();
    let known: Vec<&str> = if speaks_ours(fields) {
        ours.chain(of_cases).collect()
    } else {
        of_cases.chain(ours).collect()
    };
    fields.need_known(&known)
}

/// The vocabulary of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    is_own: bool,
    form: InstantForm,
}

impl Vocabulary {
    /// The case language as it is written.
    pub const CASES: Vocabulary = Vocabulary {
        is_own: false,
        form: InstantForm::Integer,
    };

    /// That of the answer to what `fields` ask.
    pub(super) fn of(fields: &Fields, form: Option<InstantForm>) -> Vocabulary {
        let is_own = speaks_ours(fields);
        match form {
            Some(form) => Vocabulary { is_own: true, form },
            None if is_own => Vocabulary {
                is_own,
                form: InstantForm::Iso,
            },
            None => Vocabulary::CASES,
        }
    }

    /// The same, or our own where the first page of the answer was in it.
    pub(super) fn or_own(self, was_own: bool) -> Vocabulary {
        if self.is_own || !was_own {
            return self;
        }
        Vocabulary {
            is_own: true,
            form: InstantForm::Iso,
        }
    }

    /// Whether it is our own.
    pub(super) fn is_own(self) -> bool {
        self.is_own
    }

    /// The name of a member.
    pub(super) fn name(self, term: Term) -> &'static str {
        if self.is_own { term.own } else { term.case }
    }

    /// An instant; null where there is none.
    pub(super) fn at(self, at: impl Into<Option<Timestamp>>) -> WrittenJson {
        self.form.written(at)
    }

    /// The instant of a mark.
    pub(super) fn mark(self, mark: Mark) -> WrittenJson {
        self.form.written(mark.timestamp())
    }

    /// A period, as the members of an object.
    pub(super) fn over(self, period: &Period) -> SortedObject<'static> {
        SortedObject::from([
            (self.name(VALID_FROM), self.at(period.from())),
            (self.name(VALID_TO), self.at(period.to())),
        ])
    }
}
