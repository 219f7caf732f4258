//! Moving an end of the time over which a row is there.
//!
//! What is there without a gap may be many pieces, one for each change. Its last piece decides what
//! a later end adds, and its first one what an earlier beginning adds. A row that is changed often
//! has very many pieces in the past, so an end is moved without a look at those before both the
//! mark and the new end.

use std::sync::Arc;

use model::history::{Piece, Until, WriteRefusal};
use model::{HistoryGone, Mark, Period, Timestamp};

use super::halt::Step;
use super::ledger::known_within;
use super::row_write::Target;
use super::run::{RowStore, Run};
use super::versions::{Asserted, Stored};
use crate::refusal::Refusal;
use crate::row_op::PeriodEnd;

/// What moving an end comes to.
pub(crate) struct Resized {
    pub(crate) change: Resizing,
    /// The piece at that end as it will be.
    pub(crate) shown: ShownPiece,
}

pub(crate) enum Resizing {
    /// The end is there already.
    None,
    /// The row is absent over this period.
    Delete(Period),
    /// The content is this over this period.
    Write(Period, Arc<Asserted>),
}

/// A piece, as an answer shows it.
pub(crate) struct ShownPiece {
    pub(crate) valid: Period,
    /// Since when it is known so, and since when its content is.
    pub(crate) known: (Mark, Mark),
    pub(crate) value: Arc<Asserted>,
}

impl Resized {
    /// Over which period the operation changes, or at least looks at, what is known.
    pub(crate) fn period(&self) -> Period {
        match &self.change {
            Resizing::None => self.shown.valid,
            Resizing::Delete(period) | Resizing::Write(period, _) => *period,
        }
    }
}

/// The pieces that follow one another without a gap, and what comes after them.
struct Unbroken<'k> {
    pieces: Vec<Piece<'k, Arc<Asserted>>>,
    next: Option<Timestamp>,
}

impl<'k> Unbroken<'k> {
    /// Of the pieces, in their order: those around `now`, or the first ones after it.
    fn around(mut pieces: Vec<Piece<'k, Arc<Asserted>>>, now: Timestamp) -> Option<Unbroken<'k>> {
        let met = pieces.iter().position(|piece| piece.valid.end() > now)?;
        let touch = |pair: &[Piece<'_, _>]| pair[0].valid.end() == pair[1].valid.from();
        let gaps_before = pieces[..=met].windows(2).rposition(|pair| !touch(pair));
        let first = gaps_before.map_or(0, |gap| gap + 1);
        let gap_after = pieces[met..].windows(2).position(|pair| !touch(pair));
        let last = gap_after.map_or(pieces.len() - 1, |gap| met + gap);
        let next = pieces.get(last + 1).map(|piece| piece.valid.from());
        pieces.truncate(last + 1);
        pieces.drain(..first);
        Some(Unbroken { pieces, next })
    }

    fn first(&self) -> &Piece<'k, Arc<Asserted>> {
        &self.pieces[0]
    }

    fn last(&self) -> &Piece<'k, Arc<Asserted>> {
        &self.pieces[self.pieces.len() - 1]
    }

    /// The piece at `instant`, which lies within.
    fn at(&self, instant: Timestamp) -> Option<&Piece<'k, Arc<Asserted>>> {
        self.pieces
            .iter()
            .find(|piece| piece.valid.contains(instant))
    }
}

impl<D: RowStore> Run<'_, D> {
    /// The pieces that [`Run::resized`] needs.
    pub(crate) fn known_to_resize(
        &self,
        target: &Target<'_>,
        edge: PeriodEnd,
    ) -> Step<Vec<Stored>> {
        let now = self.mark.timestamp();
        let from = match edge {
            PeriodEnd::From(_) => Timestamp::BOT,
            // The piece that ends there begins before.
            PeriodEnd::Until(Until::At(end)) => now.min(Timestamp(end.0.saturating_sub(1))),
            PeriodEnd::Until(Until::Open | Until::Next) => now,
        };
        let (rows, id) = (self.rows(), target.id.as_str());
        known_within(rows, target.table, id, (from, Timestamp::END))
    }

    /// # Errors
    /// [`Refusal::RowNotFound`] of a row that is not there and will not be;
    /// [`Refusal::HistoryGone`] for an end that is forgotten; an empty period.
    pub(crate) fn resized(
        &self,
        target: &Target<'_>,
        edge: PeriodEnd,
        known: &[Stored],
    ) -> Step<Resized> {
        let mut pieces: Vec<_> = known.iter().filter_map(Stored::piece_now).collect();
        pieces.sort_by_key(|piece| piece.valid.from());
        let now = self.mark.timestamp();
        let kept_from = target.table.options.line(now);
        let unbroken =
            Unbroken::around(pieces, now).ok_or_else(|| Refusal::RowNotFound(target.id.clone()))?;
        let (from, end) = (unbroken.first().valid.from(), unbroken.last().valid.end());
        let (from, end, is_gone) = match edge {
            PeriodEnd::From(from) => (from, end, from < kept_from),
            PeriodEnd::Until(Until::Open) => (from, Timestamp::END, false),
            PeriodEnd::Until(Until::At(end)) => (from, end, end <= kept_from),
            PeriodEnd::Until(Until::Next) => (from, unbroken.next.unwrap_or(Timestamp::END), false),
        };
        if is_gone {
            return Err(Refusal::HistoryGone(HistoryGone { kept_from }).into());
        }
        if Period::spanning(from, end).is_none() {
            let refusal = WriteRefusal::EmptyRange { from, to: end };
            return Err(Refusal::of_write(refusal, target.id).into());
        }
        let resized = match edge {
            PeriodEnd::From(_) => self.beginning_at(&unbroken, from),
            PeriodEnd::Until(_) => self.ending_at(&unbroken, end),
        };
        Ok(resized)
    }

    fn ending_at(&self, unbroken: &Unbroken<'_>, end: Timestamp) -> Resized {
        let last = unbroken.last();
        let cut_off = Period::spanning(end, last.valid.end());
        let (Some(cut_off), Some(met)) = (cut_off, unbroken.at(Timestamp(end.0 - 1))) else {
            return self.lengthened(last, Period::spanning(last.valid.from(), end));
        };
        self.shortened(met, Period::spanning(met.valid.from(), end), cut_off)
    }

    fn beginning_at(&self, unbroken: &Unbroken<'_>, from: Timestamp) -> Resized {
        let first = unbroken.first();
        let cut_off = Period::spanning(first.valid.from(), from);
        let (Some(cut_off), Some(met)) = (cut_off, unbroken.at(from)) else {
            return self.lengthened(first, Period::spanning(from, first.valid.end()));
        };
        self.shortened(met, Period::spanning(from, met.valid.end()), cut_off)
    }

    fn shortened(
        &self,
        piece: &Piece<'_, Arc<Asserted>>,
        left: Option<Period>,
        cut_off: Period,
    ) -> Resized {
        let valid = left.unwrap_or(piece.valid);
        let is_whole = valid == piece.valid;
        let since = if is_whole { piece.sys_from } else { self.mark };
        Resized {
            change: Resizing::Delete(cut_off),
            shown: ShownPiece {
                valid,
                known: (since, piece.origin),
                value: Arc::clone(piece.value),
            },
        }
    }

    fn lengthened(&self, piece: &Piece<'_, Arc<Asserted>>, to: Option<Period>) -> Resized {
        let shown = |known, value: &Arc<Asserted>, valid| ShownPiece {
            valid,
            known,
            value: Arc::clone(value),
        };
        match to.filter(|to| *to != piece.valid) {
            None => Resized {
                change: Resizing::None,
                shown: shown((piece.sys_from, piece.origin), piece.value, piece.valid),
            },
            Some(to) => {
                let value = Arc::new(Asserted {
                    updated: self.mark.timestamp().cut_to_ms(),
                    ..Asserted::clone(piece.value)
                });
                Resized {
                    shown: shown((self.mark, self.mark), &value, to),
                    change: Resizing::Write(to, value),
                }
            }
        }
    }
}
