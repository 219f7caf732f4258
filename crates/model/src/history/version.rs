//! What is stored of a row, and the pieces and rectangles it stands for.

use crate::period::Period;
use crate::time::{Mark, Timestamp};

/// Names a version within its table, as the store numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VersionNumber(pub i64);

/// A value over a valid period, as stored: written once, then cut at most once, then gone.
///
/// It stands for at most two rectangles of valid × system time: the whole of it until it is cut or
/// gone, and what the cut leaves until it is gone. So the everyday change, from now on until
/// further notice, alters three integers of it and writes one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Version<V> {
    /// Its name.
    pub number: VersionNumber,
    /// As it was written (`vf`, `vt`).
    pub valid: Period,
    /// Known from (`sf`).
    pub sys_from: Mark,
    /// What is left of it, and since when (`cut_tt`, `cut_vt`).
    pub cut: Option<Cut>,
    /// From here on nothing of it is believed (`st`).
    pub gone: Option<Mark>,
    /// The mark of the commit that asserted the value. Remainders of a version keep it.
    pub origin: Mark,
    /// The value.
    pub value: V,
}

/// The end of a version's tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// From here on only …
    pub mark: Mark,
    /// … what lies before this instant is believed. It lies inside the version's valid period.
    pub valid_to: Timestamp,
}

/// A version as some mark shows it: what was believed then. When it ceased to be is no part of
/// it, because that would leak the mark's future.
#[derive(Debug, PartialEq)]
pub struct Piece<'a, V> {
    /// The version it is of.
    pub number: VersionNumber,
    /// Believed to be valid.
    pub valid: Period,
    /// Known as exactly this since.
    pub sys_from: Mark,
    /// The mark of the commit that asserted the value.
    pub origin: Mark,
    /// The value.
    pub value: &'a V,
}

/// A piece with its system period, as some mark shows it.
#[derive(Debug, PartialEq)]
pub struct Rectangle<'a, V> {
    /// Valid over.
    pub valid: Period,
    /// Known from.
    pub sys_from: Mark,
    /// Known to, if that was over at the mark asked for.
    pub sys_to: Option<Mark>,
    /// The mark of the commit that asserted the value.
    pub origin: Mark,
    /// The value.
    pub value: &'a V,
}

impl<V> Version<V> {
    /// The piece that `mark` shows of it, if any.
    pub fn piece_at(&self, mark: Mark) -> Option<Piece<'_, V>> {
        let is_known = self.sys_from <= mark && self.gone.is_none_or(|gone| mark < gone);
        is_known.then(|| self.piece(self.cut.filter(|cut| cut.mark <= mark)))
    }

    /// The piece that is believed now, the steps of a transaction under way included.
    pub fn piece_now(&self) -> Option<Piece<'_, V>> {
        self.gone.is_none().then(|| self.piece(self.cut))
    }

    fn piece(&self, cut: Option<Cut>) -> Piece<'_, V> {
        Piece {
            number: self.number,
            valid: cut.map_or(self.valid, |cut| self.valid_until(cut)),
            sys_from: cut.map_or(self.sys_from, |cut| cut.mark),
            origin: self.origin,
            value: &self.value,
        }
    }

    /// The rectangles it stands for as `mark` knows them, the whole one first. What ends after
    /// the mark is open.
    pub fn rectangles_at(&self, mark: Mark) -> impl Iterator<Item = Rectangle<'_, V>> {
        let rectangle = |valid, sys_from, sys_to: Option<Mark>| Rectangle {
            valid,
            sys_from,
            sys_to: sys_to.filter(|to| *to <= mark),
            origin: self.origin,
            value: &self.value,
        };
        let whole_to = self.cut.map(|cut| cut.mark).or(self.gone);
        let whole = rectangle(self.valid, self.sys_from, whole_to);
        let left = self
            .cut
            .map(|cut| rectangle(self.valid_until(cut), cut.mark, self.gone));
        let is_known = move |rectangle: &Rectangle<'_, V>| rectangle.sys_from <= mark;
        [Some(whole), left].into_iter().flatten().filter(is_known)
    }

    /// The marks at which one of its rectangles begins or ends, rising.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        let cut = self.cut.map(|cut| cut.mark);
        [Some(self.sys_from), cut, self.gone].into_iter().flatten()
    }

    pub(super) fn valid_until(&self, cut: Cut) -> Period {
        Period::spanning(self.valid.from(), cut.valid_to)
            .expect("a version is cut inside its valid period, else it is gone")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::period::tests::period;

    /// Valid from 10 on, known from 100, cut at 200 to end at 50, gone at 300.
    fn version() -> Version<&'static str> {
        Version {
            number: VersionNumber(1),
            valid: period(10, 100),
            sys_from: Mark(100),
            cut: Some(Cut {
                mark: Mark(200),
                valid_to: Timestamp(50),
            }),
            gone: Some(Mark(300)),
            origin: Mark(90),
            value: "v",
        }
    }

    #[test]
    fn each_mark_shows_the_piece_it_knew() {
        let version = version();
        for (mark, shown) in [
            (99, None),
            (100, Some((period(10, 100), 100))),
            (199, Some((period(10, 100), 100))),
            (200, Some((period(10, 50), 200))),
            (299, Some((period(10, 50), 200))),
            (300, None),
        ] {
            let piece = version.piece_at(Mark(mark));
            let seen = piece.map(|piece| (piece.valid, piece.sys_from.0));
            assert_eq!(seen, shown, "{mark}");
        }
    }

    #[test]
    fn a_rectangle_that_ends_after_the_mark_is_open() {
        let version = version();
        let (whole, left) = (period(10, 100), period(10, 50));
        for (mark, known) in [
            (99, vec![]),
            (199, vec![(whole, 100, None)]),
            (200, vec![(whole, 100, Some(200)), (left, 200, None)]),
            (300, vec![(whole, 100, Some(200)), (left, 200, Some(300))]),
        ] {
            let seen: Vec<_> = version
                .rectangles_at(Mark(mark))
                .map(|r| (r.valid, r.sys_from.0, r.sys_to.map(|to| to.0)))
                .collect();
            assert_eq!(seen, known, "{mark}");
        }
    }
}
