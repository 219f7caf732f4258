//! The thirteen relations of Allen, of which exactly one holds between any two periods.

use std::cmp::Ordering::{Equal, Greater, Less};

use super::Period;

/// How one period lies to another (J. F. Allen, "Maintaining Knowledge about Temporal Intervals",
/// Communications of the ACM 26/11, 1983).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allen {
    /// It ends before the other begins, with time between them.
    Before,
    /// It ends at the instant at which the other begins.
    Meets,
    /// It begins first, and ends inside the other.
    Overlaps,
    /// It begins first, and they end together.
    FinishedBy,
    /// It begins first and ends last.
    Contains,
    /// They begin together, and it ends first.
    Starts,
    /// They begin and end together.
    Equals,
    /// They begin together, and it ends last.
    StartedBy,
    /// It begins last and ends first.
    During,
    /// It begins last, and they end together.
    Finishes,
    /// It begins inside the other, and ends last.
    OverlappedBy,
    /// It begins at the instant at which the other ends.
    MetBy,
    /// It begins after the other has ended, with time between them.
    After,
}

impl Allen {
    /// All of them, from left to right.
    pub const ALL: [Allen; 13] = [
        Allen::Before,
        Allen::Meets,
        Allen::Overlaps,
        Allen::FinishedBy,
        Allen::Contains,
        Allen::Starts,
        Allen::Equals,
        Allen::StartedBy,
        Allen::During,
        Allen::Finishes,
        Allen::OverlappedBy,
        Allen::MetBy,
        Allen::After,
    ];

    /// How `period` lies to `other`.
    pub fn of(period: &Period, other: &Period) -> Allen {
        match (period.end.cmp(&other.from), period.from.cmp(&other.end)) {
            (Less, _) => return Allen::Before,
            (Equal, _) => return Allen::Meets,
            (_, Equal) => return Allen::MetBy,
            (_, Greater) => return Allen::After,
            (Greater, Less) => {}
        }
        match (period.from.cmp(&other.from), period.end.cmp(&other.end)) {
            (Less, Less) => Allen::Overlaps,
            (Less, Equal) => Allen::FinishedBy,
            (Less, Greater) => Allen::Contains,
            (Equal, Less) => Allen::Starts,
            (Equal, Equal) => Allen::Equals,
            (Equal, Greater) => Allen::StartedBy,
            (Greater, Less) => Allen::During,
            (Greater, Equal) => Allen::Finishes,
            (Greater, Greater) => Allen::OverlappedBy,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Allen::Before => "before",
            Allen::Meets => "meets",
            Allen::Overlaps => "overlaps",
            Allen::FinishedBy => "finished_by",
            Allen::Contains => "contains",
            Allen::Starts => "starts",
            Allen::Equals => "equals",
            Allen::StartedBy => "started_by",
            Allen::During => "during",
            Allen::Finishes => "finishes",
            Allen::OverlappedBy => "overlapped_by",
            Allen::MetBy => "met_by",
            Allen::After => "after",
        }
    }

    /// The relation of this name.
    pub fn named(name: &str) -> Option<Allen> {
        Self::ALL
            .into_iter()
            .find(|relation| relation.as_str() == name)
    }

    /// How the other lies to this one.
    #[must_use]
    pub fn inverse(self) -> Allen {
        match self {
            Allen::Before => Allen::After,
            Allen::Meets => Allen::MetBy,
            Allen::Overlaps => Allen::OverlappedBy,
            Allen::FinishedBy => Allen::Finishes,
            Allen::Contains => Allen::During,
            Allen::Starts => Allen::StartedBy,
            Allen::Equals => Allen::Equals,
            Allen::StartedBy => Allen::Starts,
            Allen::During => Allen::Contains,
            Allen::Finishes => Allen::FinishedBy,
            Allen::OverlappedBy => Allen::Overlaps,
            Allen::MetBy => Allen::Meets,
            Allen::After => Allen::Before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PeriodPredicate;
    use super::super::tests::period;
    use super::*;

    #[test]
    fn each_place_has_its_relation() {
        let other = period(10, 20);
        let places = [
            (0, 9),
            (0, 10),
            (0, 15),
            (0, 20),
            (0, 25),
            (10, 15),
            (10, 20),
            (10, 100),
            (12, 15),
            (15, 20),
            (15, 25),
            (20, 25),
            (21, 25),
        ];
        for ((from, to), relation) in places.into_iter().zip(Allen::ALL) {
            assert_eq!(
                Allen::of(&period(from, to), &other),
                relation,
                "{from} {to}"
            );
        }
    }

    #[test]
    fn ends_that_are_open_together_are_the_same_end() {
        let of = |from, other| Allen::of(&period(from, 100), &period(other, 100));
        assert_eq!(of(5, 7), Allen::FinishedBy);
        assert_eq!(of(7, 7), Allen::Equals);
        assert_eq!(of(9, 7), Allen::Finishes);
        assert_eq!(
            Allen::of(&Period::ALWAYS, &period(9, 100)),
            Allen::FinishedBy
        );
    }

    #[test]
    fn the_relations_and_the_predicates_tell_the_same_story() {
        let all: Vec<Period> = (0..6)
            .flat_map(|from| {
                [1, 2, 3, 4, 5, 100]
                    .into_iter()
                    .filter(move |to| from < *to)
                    .map(move |to| period(from, to))
            })
            .chain([Period::ALWAYS])
            .collect();
        for (this, other) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let relation = Allen::of(this, other);
            assert_eq!(Allen::of(other, this), relation.inverse());
            assert_eq!(Allen::named(relation.as_str()), Some(relation));
            for (predicate, relations) in [
                (
                    PeriodPredicate::Precedes,
                    &[Allen::Before, Allen::Meets][..],
                ),
                (PeriodPredicate::Succeeds, &[Allen::After, Allen::MetBy]),
                (PeriodPredicate::ImmediatelyPrecedes, &[Allen::Meets]),
                (PeriodPredicate::ImmediatelySucceeds, &[Allen::MetBy]),
                (PeriodPredicate::Equals, &[Allen::Equals]),
                (
                    PeriodPredicate::Contains,
                    &[
                        Allen::Contains,
                        Allen::StartedBy,
                        Allen::FinishedBy,
                        Allen::Equals,
                    ],
                ),
                (
                    PeriodPredicate::Within,
                    &[Allen::During, Allen::Starts, Allen::Finishes, Allen::Equals],
                ),
                (PeriodPredicate::Overlaps, &Allen::ALL[2..11]),
            ] {
                let holds = predicate.holds(this, other);
                assert_eq!(holds, relations.contains(&relation), "{this:?} {other:?}");
            }
        }
    }
}
