//! Cached lists that are compared with fresh reads, in an engine that runs.

mod fixture;

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{Compared, Difference, Engine, ListAnswer, ListRows, Part, View};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, furnish, key, list_rows_of, open, row};
use futures_executor::block_on;
use list_cache::Rule;

const IS_ONE: &str = r#"{"method":"equal","attribute":"n","values":[1]}"#;

fn asked(texts: &[String]) -> ListRows<'_> {
    list_rows_of(texts)
}

fn ask(engine: &Engine) -> ListAnswer {
    let texts = [IS_ONE.to_owned()];
    block_on(engine.list_rows(&key(), &asked(&texts), View::CURRENT)).unwrap()
}

fn add(engine: &Engine, id: &str) {
    block_on(engine.create_row(&key(), PLACE, row(id, &[("n", 1)]))).unwrap();
}

#[test]
fn hits_are_confirmed_by_fresh_reads() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    add(&engine, "a");
    assert_eq!(engine.compared(), None);
    engine
        .compare_hits(2, |difference| panic!("{difference}"))
        .unwrap();
    // A miss, and eight hits: the first, third, fifth and seventh are compared.
    for _ in 0..9 {
        ask(&engine);
    }
    engine.close().unwrap();
    let Compared {
        same,
        different,
        overtaken,
        dropped,
        has_failed,
    } = engine.compared().unwrap();
    assert_eq!((different, overtaken, has_failed), (0, 0, false));
    // What comes while two wait is left out.
    assert!(same >= 1 && same + dropped == 4, "{same} {dropped}");
}

#[test]
fn an_entry_that_should_be_gone_is_noticed() {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    fn count(difference: &Difference) {
        let words = difference.to_string();
        assert!(
            words.starts_with("a cached list of table `t` differs"),
            "{words}"
        );
        let kind = match difference.part {
            Part::Rows(cached, read) => usize::from(cached < read),
            Part::Total(cached, read) => 100 * (read - cached) as usize,
            Part::Cursor => 10_000,
        };
        REPORTED.fetch_add(kind, Ordering::SeqCst);
    }
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    add(&engine, "a");
    engine.compare_hits(1, count).unwrap();
    ask(&engine);
    for rule in [Rule::BucketsSeeAfter, Rule::TotalsAreWithheld] {
        engine.list_rules().switch_off(rule);
    }
    add(&engine, "b");
    let stale = ask(&engine);
    assert!(stale.cached.is_some_and(|cached| cached.is_hit));
    engine.close().unwrap();
    assert_eq!(engine.compared().unwrap().different, 1);
    // One row and one match too few.
    assert_eq!(REPORTED.load(Ordering::SeqCst), 101);
}

#[test]
fn hits_that_are_found_by_name_are_compared_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    add(&engine, "a");
    engine.compare_hits(1, |_| ()).unwrap();
    ask(&engine);
    let texts = [IS_ONE.to_owned()];
    let prepared = engine.prepare(&key(), &asked(&texts)).unwrap().unwrap();
    assert_eq!(engine.held(&prepared).unwrap().total, 1);
    while engine.compared().unwrap().same == 0 {
        std::thread::yield_now();
    }
    engine.list_rules().switch_off(Rule::BucketsSeeAfter);
    add(&engine, "b");
    assert_eq!(engine.held(&prepared).unwrap().total, 1);
    engine.close().unwrap();
    let compared = engine.compared().unwrap();
    assert_eq!((compared.different, compared.overtaken), (1, 0));
}

#[test]
fn rows_altered_during_the_audit_are_no_mistake() {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    fn count(_: &Difference) {
        REPORTED.fetch_add(1, Ordering::SeqCst);
    }
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    add(&engine, "a");
    engine.compare_hits(1, count).unwrap();
    for number in 0..200 {
        ask(&engine);
        ask(&engine);
        add(&engine, &format!("b{number}"));
    }
    engine.close().unwrap();
    let compared = engine.compared().unwrap();
    assert_eq!((compared.different, compared.has_failed), (0, false));
    assert_eq!(REPORTED.load(Ordering::SeqCst), 0);
    let all = compared.same + compared.overtaken + compared.dropped;
    // The rows of a full page stay where others come beyond it.
    assert!((200..=400).contains(&all), "{compared:?}");
    assert!(compared.same + compared.overtaken > 0, "{compared:?}");
}

#[test]
fn a_comparison_that_panics_is_no_proof() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    add(&engine, "a");
    engine
        .compare_hits(1, |difference| panic!("{difference}"))
        .unwrap();
    ask(&engine);
    assert!(engine.compared().unwrap().passes());
    engine.list_rules().switch_off(Rule::BucketsSeeAfter);
    add(&engine, "b");
    ask(&engine);
    engine.close().unwrap();
    let compared = engine.compared().unwrap();
    assert!(compared.has_failed && !compared.passes(), "{compared:?}");
}

#[test]
fn a_page_whose_cursor_has_lost_its_place_is_noticed() {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    fn count(difference: &Difference) {
        REPORTED.fetch_add(
            usize::from(difference.part == Part::Cursor),
            Ordering::SeqCst,
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    for id in ["a", "b"] {
        add(&engine, id);
    }
    engine.compare_hits(1, count).unwrap();
    let texts = [
        r#"{"method":"orderAsc","attribute":"n"}"#,
        r#"{"method":"cursorAfter","values":["a"]}"#,
        r#"{"method":"limit","values":[1]}"#,
    ]
    .map(str::to_owned);
    let list = || {
        let rows_only = ListRows {
            total: false,
            ..asked(&texts)
        };
        block_on(engine.list_rows(&key(), &rows_only, View::CURRENT)).unwrap()
    };
    list();
    for rule in [
        Rule::CursorRow,
        Rule::WindowSeesBefore,
        Rule::WindowSeesAfter,
        Rule::WindowOfFullPagesOnly,
    ] {
        engine.list_rules().switch_off(rule);
    }
    let mut change = row("a", &[]);
    change.members.push(("n".into(), model::Json::Null));
    block_on(engine.update_row(&key(), PLACE, change, None)).unwrap();
    assert!(list().cached.is_some_and(|cached| cached.is_hit));
    engine.close().unwrap();
    assert_eq!(engine.compared().unwrap().different, 1);
    assert_eq!(REPORTED.load(Ordering::SeqCst), 1);
}

#[test]
fn answers_at_fixed_coordinates_are_compared_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    let made = block_on(engine.create_row(&key(), PLACE, row("a", &[("n", 1)]))).unwrap();
    let as_of = format!(r#"{{"method":"asOf","values":[{}]}}"#, made.mark.0);
    let ask = |total| {
        let texts = [as_of.clone()];
        let list = ListRows {
            total,
            ..asked(&texts)
        };
        let answer = block_on(engine.list_rows(&key(), &list, View::CURRENT)).unwrap();
        answer.cached.is_some_and(|cached| cached.is_hit)
    };
    engine.compare_hits(1, |_| ()).unwrap();
    let same = || engine.compared().unwrap().same;
    for (total, before) in [(true, 0), (false, 1)] {
        assert_eq!((ask(total), ask(total)), (false, true));
        while same() == before {
            std::thread::yield_now();
        }
    }
    engine.list_rules().switch_off(Rule::RecastsAreFences);
    let mut shown = row("a", &[]);
    shown.permissions = Some(vec!["read(\"any\")".to_owned()]);
    block_on(engine.update_row(&key(), PLACE, shown, None)).unwrap();
    assert!(ask(true));
    engine.close().unwrap();
    let compared = engine.compared().unwrap();
    let said = (compared.same, compared.different, compared.overtaken);
    assert_eq!(said, (2, 1, 0));
}
