//! What breaks a constraint over valid time that is to be declared: the first violation refuses
//! it, and some more are looked for, so that its author can put them right.

use std::time::{Duration, Instant};

use model::{ColumnNumber, Period, Table, TableNumber};

use super::halt::{Halt, Step};
use super::perform::BatchStore;
use super::period_search::{FoundPiece, SharedKey};
use super::run::Run;
use super::versions::VersionsWanted;
use crate::batch::Constraint;
use crate::error::corrupt;
use crate::refusal::{Refusal, VIOLATIONS_MAX, Violation, Violations};
use crate::stored::overlaps::{ReferringPiece, referring};

/// How long further violations are looked for. No other writer can go on meanwhile.
const FURTHER_MAX: Duration = Duration::from_millis(200);

/// So much of a text that refers is shown: an id is no longer.
const SHOWN_CHARS_MAX: usize = 36;

/// Pieces that refer and are read at once.
const REFERRING_AT_ONCE: usize = 1_000;
/// Rows that they refer to and that are looked for at once.
const REFERRED_AT_ONCE: usize = 100;

impl<D: BatchStore> Run<'_, D> {
    /// # Errors
    /// [`Refusal::NotKept`] when something known now breaks the constraint.
    pub(crate) fn need_kept(&self, table: &Table, constraint: &Constraint) -> Step<()> {
        match constraint {
            Constraint::Unique(columns) => {
                let key = columns.iter().filter_map(|c| table.numbered(*c)).collect();
                self.need_unique(table, key)
            }
            Constraint::Ref(column, to) => self.need_referred(table, *column, *to),
        }
    }

    fn need_unique(&self, table: &Table, key: Vec<usize>) -> Step<()> {
        let first = self.rows().overlaps(table, &key, 1, None)?.pieces;
        if first.is_empty() {
            return Ok(());
        }
        let few = VIOLATIONS_MAX + 1;
        let further = self.rows().overlaps(table, &key, few, Some(FURTHER_MAX))?;
        let more = further.is_cut || further.pieces.len() > VIOLATIONS_MAX;
        let mut found = further.pieces;
        if found.is_empty() {
            found = first;
        }
        found.truncate(VIOLATIONS_MAX);
        let clashes = found.into_iter();
        let clashes = clashes.map(|piece| self.clash_of(table, &key, piece));
        let found: Vec<Violation> = clashes.collect::<Step<_>>()?;
        let columns = key.iter().map(|at| table.columns[*at].key.to_string());
        let first = &found[0];
        Err(Refusal::NotKept {
            first: Box::new(Refusal::UniqueOverTime {
                columns: columns.collect(),
                other: first.row.clone(),
                shared: first.period,
            }),
            violations: Violations { found, more },
        }
        .into())
    }

    /// With which row a piece that was found shares values and an instant.
    fn clash_of(&self, table: &Table, key: &[usize], (number, row): FoundPiece) -> Step<Violation> {
        let gone = || corrupt("a piece that was found is not there");
        let piece = VersionsWanted::Numbered(number);
        let piece = self.rows().versions(table, row.as_str(), piece)?.pop();
        let piece = piece.ok_or_else(gone)?;
        let clash = self.clash(table, SharedKey::OverTime(key), &row, &piece)?;
        let (other, period) = clash.ok_or_else(gone)?;
        Ok(Violation {
            row,
            against: other.to_string(),
            period,
        })
    }

    fn need_referred(&self, table: &Table, column: ColumnNumber, to: TableNumber) -> Step<()> {
        let Some(position) = table.numbered(column) else {
            return Ok(());
        };
        let related = self.table_numbered(to)?;
        let mut first: Option<(Box<Refusal>, Instant)> = None;
        let mut violations = Violations::default();
        let mut behind = 0;
        'all: loop {
            let next = referring(table.number, column, behind, REFERRING_AT_ONCE);
            let pieces = self.rows().read_stored(&next)?;
            let Some(last) = pieces.last() else { break };
            behind = last.number;
            for pieces in pieces.chunks(REFERRED_AT_ONCE) {
                let wanted = pieces.iter().map(|piece| (&*piece.target, piece.valid));
                let wanted: Vec<(&str, Period)> = wanted.collect();
                let covered = self.covered(&related, &wanted)?;
                for (piece, covered) in pieces.iter().zip(covered) {
                    let is_late = |(_, since): &(_, Instant)| since.elapsed() >= FURTHER_MAX;
                    let is_full = violations.found.len() >= VIOLATIONS_MAX;
                    if is_full || first.as_ref().is_some_and(is_late) {
                        violations.more = true;
                        break 'all;
                    }
                    let (target, valid) = (&*piece.target, piece.valid);
                    let holder = (table, position);
                    let refusal = match self.need_within(&covered, &related, target, valid, holder)
                    {
                        Ok(()) => continue,
                        Err(Halt::Refused(refusal)) => refusal,
                        Err(halt) => return Err(halt),
                    };
                    violations.found.push(violation(piece, &refusal));
                    first.get_or_insert_with(|| (Box::new(refusal), Instant::now()));
                }
            }
        }
        match first {
            None => Ok(()),
            Some((first, _)) => Err(Refusal::NotKept { first, violations }.into()),
        }
    }
}

/// What is shown of a piece that refers to what is not there.
fn violation(piece: &ReferringPiece, refusal: &Refusal) -> Violation {
    Violation {
        row: piece.row.clone(),
        against: piece.target.chars().take(SHOWN_CHARS_MAX).collect(),
        period: match refusal {
            Refusal::ReferenceOverTime { missing, .. } => *missing,
            _ => piece.valid,
        },
    }
}
