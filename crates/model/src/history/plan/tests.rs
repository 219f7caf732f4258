use super::*;
use crate::error::ModelError;
use crate::history::{Cut, Until};
use crate::period::tests::period;

const MARK: Mark = Mark(90);

/// A version known from mark 10 on, named after the instant it begins at.
fn version(from: i64, to: i64) -> Version<&'static str> {
    Version {
        number: VersionNumber(from),
        valid: period(from, to),
        sys_from: Mark(10),
        cut: None,
        gone: None,
        origin: Mark(5),
        value: "old",
    }
}

fn cut(mark: Mark, valid_to: i64, version: Version<&'static str>) -> Version<&'static str> {
    let valid_to = Timestamp(valid_to);
    Version {
        cut: Some(Cut { mark, valid_to }),
        ..version
    }
}

fn own(version: Version<&'static str>) -> Version<&'static str> {
    Version {
        sys_from: MARK,
        ..version
    }
}

fn over(from: i64, to: i64) -> Range {
    let until = match to {
        100 => Until::Open,
        to => Until::At(Timestamp(to)),
    };
    let from = Some(Timestamp(from));
    Range { from, until }
}

fn plan(act: Act<'_, &'static str>, range: Range, versions: &[Version<&'static str>]) -> String {
    let known = Known {
        versions,
        last_change: None,
    };
    match Plan::new(Operation::Write(act, range), MARK, known) {
        Ok(plan) => show(&plan),
        Err(refusal) => format!("{refusal:?}"),
    }
}

fn show(plan: &Plan<&'static str>) -> String {
    let endings = plan.endings.iter().map(|(number, ending)| match ending {
        Ending::Remove => format!("remove {}", number.0),
        Ending::Cut(to) => format!("cut {} at {}", number.0, to.0),
        Ending::Close => format!("close {}", number.0),
        Ending::UncutAndClose => format!("uncut and close {}", number.0),
    });
    let writes = plan.writes.iter().map(|write| {
        let (valid, origin) = (write.valid, write.origin.0);
        format!("{} {valid:?} of {origin}", write.value)
    });
    endings.chain(writes).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_everyday_change_is_one_cut_and_one_version() {
    let versions = [version(0, 100)];
    let range = Range::default();
    assert_eq!(
        plan(Act::Put("new"), range, &versions),
        "cut 0 at 90, new [90, ∞) of 90"
    );
    assert_eq!(plan(Act::Delete, range, &versions), "cut 0 at 90");
    assert_eq!(plan(Act::Put("new"), range, &[]), "new [90, ∞) of 90");
    assert_eq!(plan(Act::Delete, range, &[]), "");
}

#[test]
fn each_way_of_meeting_a_version_ends_it_in_its_own_way() {
    let earlier = Mark(50);
    for (versions, range, expected) in [
        // The tail of one that is whole.
        (version(10, 40), over(20, 40), "cut 10 at 20"),
        (version(10, 40), over(20, 60), "cut 10 at 20"),
        (version(10, 100), over(20, 100), "cut 10 at 20"),
        // Its head, its middle, all of it.
        (version(10, 40), over(0, 20), "close 10, old [20, 40) of 5"),
        (version(10, 40), over(10, 20), "close 10, old [20, 40) of 5"),
        (
            version(10, 40),
            over(20, 30),
            "close 10, old [10, 20) of 5, old [30, 40) of 5",
        ),
        (version(10, 40), over(10, 40), "close 10"),
        (version(10, 40), over(0, 100), "close 10"),
        // One that an earlier commit has cut has no second cut to give.
        (
            cut(earlier, 40, version(10, 100)),
            over(20, 100),
            "close 10, old [10, 20) of 5",
        ),
        (cut(earlier, 40, version(10, 100)), over(40, 100), ""),
        // One that this batch has cut is cut again, or was never cut.
        (
            cut(MARK, 40, version(10, 100)),
            over(20, 40),
            "cut 10 at 20",
        ),
        (
            cut(MARK, 40, version(10, 100)),
            over(20, 30),
            "uncut and close 10, old [10, 20) of 5, old [30, 40) of 5",
        ),
        (
            cut(MARK, 40, version(10, 100)),
            over(0, 40),
            "uncut and close 10",
        ),
        // One that this batch has made was never known.
        (
            own(version(10, 40)),
            over(20, 40),
            "remove 10, old [10, 20) of 5",
        ),
        (own(version(10, 40)), over(0, 100), "remove 10"),
        // What it does not touch stays.
        (version(10, 40), over(40, 100), ""),
        (version(10, 40), over(0, 10), ""),
    ] {
        let shown = plan(Act::Delete, range, std::slice::from_ref(&versions));
        assert_eq!(shown, expected, "{versions:?} {range:?}");
    }
}

#[test]
fn a_piece_that_begins_at_the_very_mark_is_closed_and_not_cut_to_nothing() {
    let versions = [version(90, 100)];
    assert_eq!(
        plan(Act::Put("new"), Range::default(), &versions),
        "close 90, new [90, ∞) of 90"
    );
}

#[test]
fn merges_go_piece_by_piece_and_a_patch_fills_the_gaps() {
    let versions = [version(30, 40), version(10, 20)];
    let mut merge = |old: Option<&&'static str>| Ok(Some(old.map_or("made", |_| "merged")));
    assert_eq!(
        plan(Act::Update(&mut merge), over(15, 35), &versions),
        "cut 10 at 15, close 30, merged [15, 20) of 90, old [35, 40) of 5, merged [30, 35) of 90"
    );
    assert_eq!(
        plan(Act::Patch(&mut merge), over(15, 35), &versions),
        "cut 10 at 15, close 30, merged [15, 20) of 90, old [35, 40) of 5, merged [30, 35) of 90, \
         made [20, 30) of 90"
    );
    let mut nothing = |_: Option<&&'static str>| Ok(None);
    assert_eq!(plan(Act::Patch(&mut nothing), over(0, 100), &versions), "");
    let mut refused = |_: Option<&&'static str>| Err(ModelError::NulCharacter);
    assert_eq!(
        plan(Act::Update(&mut refused), over(0, 100), &versions),
        "Invalid(NulCharacter)"
    );
}

#[test]
fn an_insert_names_the_first_piece_in_its_way() {
    let versions = [version(30, 40), version(10, 20)];
    for (range, expected) in [
        (over(20, 30), "new [20, 30) of 90"),
        (over(40, 100), "new [40, ∞) of 90"),
        (over(0, 100), "Exists { valid: [10, 20) }"),
        (over(20, 31), "Exists { valid: [30, 40) }"),
    ] {
        assert_eq!(plan(Act::Insert("new"), range, &versions), expected);
    }
}

#[test]
fn erasing_takes_all_and_a_claim_nothing() {
    let versions = [version(10, 20)];
    let known = Known {
        versions: &versions,
        last_change: Some(Mark(10)),
    };
    let erased = Plan::new(Operation::Erase, MARK, known).unwrap();
    assert!(erased.erases && !erased.is_empty());
    for (since, is_held) in [(9, false), (10, true)] {
        let claim = crate::history::Claim::UnchangedSince(Mark(since));
        let plan = Plan::new(Operation::Assert(claim), MARK, known);
        assert_eq!(plan.map(|plan| plan.is_empty()).is_ok(), is_held);
    }
}
