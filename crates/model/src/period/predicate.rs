//! The period predicates of SQL:2011.

use super::Period;

/// What one period may be to another, in the words of SQL:2011 (ISO/IEC 9075-2, "period
/// predicate"). Several may hold at once; [`super::Allen`] tells each case from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeriodPredicate {
    /// They share an instant.
    Overlaps,
    /// Every instant of the other is in this one.
    Contains,
    /// Every instant of this one is in the other; SQL says it by `CONTAINS` the other way round.
    Within,
    /// They have the same instants.
    Equals,
    /// This one ends before the other begins, or at that instant.
    Precedes,
    /// This one begins after the other ends, or at that instant.
    Succeeds,
    /// This one ends at the instant at which the other begins.
    ImmediatelyPrecedes,
    /// This one begins at the instant at which the other ends.
    ImmediatelySucceeds,
}

impl PeriodPredicate {
    /// All of them.
    pub const ALL: [PeriodPredicate; 8] = [
        PeriodPredicate::Overlaps,
        PeriodPredicate::Contains,
        PeriodPredicate::Within,
        PeriodPredicate::Equals,
        PeriodPredicate::Precedes,
        PeriodPredicate::Succeeds,
        PeriodPredicate::ImmediatelyPrecedes,
        PeriodPredicate::ImmediatelySucceeds,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            PeriodPredicate::Overlaps => "overlaps",
            PeriodPredicate::Contains => "contains",
            PeriodPredicate::Within => "within",
            PeriodPredicate::Equals => "equals",
            PeriodPredicate::Precedes => "precedes",
            PeriodPredicate::Succeeds => "succeeds",
            PeriodPredicate::ImmediatelyPrecedes => "immediately_precedes",
            PeriodPredicate::ImmediatelySucceeds => "immediately_succeeds",
        }
    }

    /// The predicate of this name.
    pub fn named(name: &str) -> Option<PeriodPredicate> {
        Self::ALL
            .into_iter()
            .find(|predicate| predicate.as_str() == name)
    }

    /// Whether `period` is this to `other`.
    pub fn holds(self, period: &Period, other: &Period) -> bool {
        match self {
            PeriodPredicate::Overlaps => period.intersect(other).is_some(),
            PeriodPredicate::Contains => period.from <= other.from && other.end <= period.end,
            PeriodPredicate::Within => other.from <= period.from && period.end <= other.end,
            PeriodPredicate::Equals => period == other,
            PeriodPredicate::Precedes => period.end <= other.from,
            PeriodPredicate::Succeeds => other.end <= period.from,
            PeriodPredicate::ImmediatelyPrecedes => period.end == other.from,
            PeriodPredicate::ImmediatelySucceeds => other.end == period.from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::period;
    use super::*;

    #[test]
    fn each_place_of_a_period_satisfies_what_it_should() {
        let other = period(10, 20);
        for (this, names) in [
            (period(0, 9), "precedes"),
            (period(0, 10), "precedes immediately_precedes"),
            (period(0, 11), "overlaps"),
            (period(10, 12), "overlaps within"),
            (period(12, 15), "overlaps within"),
            (period(10, 20), "overlaps contains within equals"),
            (period(10, 100), "overlaps contains"),
            (period(19, 100), "overlaps"),
            (period(20, 100), "succeeds immediately_succeeds"),
            (period(21, 30), "succeeds"),
            (Period::ALWAYS, "overlaps contains"),
        ] {
            let held: Vec<&str> = PeriodPredicate::ALL
                .into_iter()
                .filter(|predicate| predicate.holds(&this, &other))
                .map(PeriodPredicate::as_str)
                .collect();
            assert_eq!(held.join(" "), names, "{this:?}");
        }
    }

    #[test]
    fn period_without_an_end_is_followed_by_none() {
        let follows = [
            PeriodPredicate::Precedes,
            PeriodPredicate::ImmediatelyPrecedes,
        ];
        for late in [period(99, 100), period(5, 100)] {
            assert!(
                !follows
                    .iter()
                    .any(|follows| follows.holds(&period(5, 100), &late))
            );
        }
    }

    #[test]
    fn a_name_leads_back_to_its_predicate() {
        for predicate in PeriodPredicate::ALL {
            assert_eq!(PeriodPredicate::named(predicate.as_str()), Some(predicate));
        }
        assert_eq!(PeriodPredicate::named("meets"), None);
    }
}
