//! Each rule of the invalidation: a sequence of events that ends well with it and badly without it.

mod fixture;

use fixture::{
    EVERYBODY, EXACT, NOBODY, TABLE, TTL, World, guests, image, query, row, says, seen_by,
};
use list_cache::{Batch, Rule, Step};
use query::Query;

/// Whether the sequence ends well, with a rule switched off or none.
type Sequence = fn(Option<Rule>) -> bool;

const IS_ONE: &str = r#"{"method":"equal","attribute":"n","values":[1]}"#;
const ABOVE: &str = r#"{"method":"greaterThan","attribute":"n","values":[0]}"#;
const BY_M: &str = r#"{"method":"orderAsc","attribute":"m"}"#;
const ONE_ROW: &str = r#"{"method":"limit","values":[1]}"#;

/// Caches `texts`, changes one row, and says whether the next answer is right.
fn after(rule: Option<Rule>, texts: &[&str], id: &str, to: Option<(i64, i64)>) -> bool {
    let query = query(texts);
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2), ("c", 2, 3)]);
    world.switch_off(rule);
    world.ask(&query, EXACT);
    world.commit(&[(id, to.and_then(|(n, m)| row(n, m)))]);
    world.is_exact(&query)
}

fn a_row_leaves(rule: Option<Rule>) -> bool {
    after(rule, &[IS_ONE], "a", Some((2, 1)))
}

fn a_row_enters(rule: Option<Rule>) -> bool {
    after(rule, &[IS_ONE], "c", Some((1, 3)))
}

fn one_alternative_is_a_range(rule: Option<Rule>) -> bool {
    let either = r#"{"method":"or","values":[
        {"method":"equal","attribute":"n","values":[9]},
        {"method":"greaterThan","attribute":"m","values":[2]}]}"#;
    after(rule, &[either], "a", Some((1, 5)))
}

fn only_a_range(rule: Option<Rule>) -> bool {
    after(rule, &[ABOVE], "a", Some((0, 1)))
}

fn a_row_leaves_a_range(rule: Option<Rule>) -> bool {
    after(rule, &[ABOVE], "a", Some((-5, 1)))
}

/// A page that is full, and one with room, of the same rows; what the filter looks at stays.
fn a_row_changes_where_one_page_has_no_end(rule: Option<Rule>) -> bool {
    let (first, all) = (query(&[ABOVE, BY_M, ONE_ROW]), query(&[ABOVE, BY_M]));
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    world.switch_off(rule);
    world.ask(&first, EXACT);
    world.ask(&all, EXACT);
    world.commit(&[("b", row(1, 3))]);
    world.is_exact(&first) && world.is_exact(&all)
}

fn the_last_row_itself_changes(rule: Option<Rule>) -> bool {
    let query = query(&[ABOVE, BY_M, ONE_ROW]);
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    world.switch_off(rule);
    world.ask(&query, EXACT);
    let mut after = image(1, 1, EVERYBODY);
    after.values[2] = model::Value::Text("changed".into());
    world.commit(&[("a", Some(after))]);
    world.is_exact(&query)
}

fn an_exact_list_is_purged(rule: Option<Rule>) -> bool {
    let query = query(&[IS_ONE]);
    let world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    world.ask(&query, EXACT);
    world.lists.purge(TABLE);
    !world.is_hit(&query)
}

/// What is in random order another time is another list.
fn rows_are_drawn(rule: Option<Rule>) -> bool {
    let query = query(&[r#"{"method":"orderRandom"}"#]);
    let world = World::new();
    world.switch_off(rule);
    !world.lists.keeps(&query) && world.lists.keeps(&full())
}

fn words_are_searched(rule: Option<Rule>) -> bool {
    let search = r#"{"method":"regex","attribute":"w","values":["^x"]}"#;
    let query = query(&[search]);
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    world.ask(&query, EXACT);
    let mut after = image(1, 1, EVERYBODY);
    after.values[2] = model::Value::Text("xyz".into());
    world.commit(&[("a", Some(after))]);
    world.is_exact(&query)
}

fn a_grant_goes(rule: Option<Rule>) -> bool {
    let query = seen_by(&[IS_ONE], guests());
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    world.switch_off(rule);
    world.ask(&query, EXACT);
    world.commit(&[("a", Some(image(1, 1, NOBODY)))]);
    world.is_exact(&query)
}

fn a_page_has_room(rule: Option<Rule>) -> bool {
    after(rule, &[IS_ONE, BY_M], "d", Some((1, 9)))
}

fn a_row_falls_out_of_the_window(rule: Option<Rule>) -> bool {
    after(rule, &[ABOVE, BY_M, ONE_ROW], "a", Some((1, 9)))
}

fn a_row_climbs_into_the_window(rule: Option<Rule>) -> bool {
    after(rule, &[ABOVE, BY_M, ONE_ROW], "c", Some((2, 0)))
}

fn the_last_row_is_equal_but_for_its_sequence(rule: Option<Rule>) -> bool {
    after(rule, &[ABOVE, BY_M, ONE_ROW], "a", Some((5, 1)))
}

fn the_cursors_row_moves(rule: Option<Rule>) -> bool {
    let beside = r#"{"method":"cursorAfter","values":["c"]}"#;
    let backwards = r#"{"method":"orderDesc","attribute":"m"}"#;
    after(rule, &[IS_ONE, backwards, beside], "c", Some((2, 2)))
        && after(rule, &[IS_ONE, backwards, beside], "c", Some((2, -1)))
}

fn the_commit_tells_tables_only(rule: Option<Rule>) -> bool {
    let query = query(&[IS_ONE]);
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    world.ask(&query, EXACT);
    let changes = world.changes(&[("a", None)]);
    let withheld = world.lists.withhold(Batch {
        images: vec![],
        tables: vec![TABLE],
        ..Batch::default()
    });
    world.show(changes);
    world.lists.publish(withheld, true);
    world.is_exact(&query)
}

fn a_commit_overtakes_a_read(rule: Option<Rule>) -> bool {
    let query = query(&[IS_ONE]);
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    let changes = world.changes(&[("a", None)]);
    {
        let mut fetch = world.fetch(&query, EXACT);
        let Step::Read(fill) = fetch.step(0) else {
            return false;
        };
        let found = world.found(&query, &fill);
        let withheld = world.withhold(&changes);
        fetch.fill(fill, found);
        world.lists.publish(withheld, true);
    }
    world.show(changes);
    world.is_exact(&query)
}

fn a_read_begins_inside_a_commit(rule: Option<Rule>) -> bool {
    let query = query(&[IS_ONE]);
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    let changes = world.changes(&[("a", None)]);
    {
        let withheld = world.withhold(&changes);
        world.ask(&query, EXACT);
        world.lists.publish(withheld, true);
    }
    world.show(changes);
    world.is_exact(&query)
}

fn somebody_joins_a_read_that_was_overtaken(rule: Option<Rule>) -> bool {
    let query = query(&[IS_ONE]);
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    let changes = world.changes(&[("a", None)]);
    let withheld = {
        let mut fetch = world.fetch(&query, EXACT);
        let Step::Read(fill) = fetch.step(0) else {
            return false;
        };
        let withheld = world.withhold(&changes);
        let mut late = world.fetch(&query, EXACT);
        let joins = matches!(late.step(0), Step::Wait(_));
        drop(fill);
        if joins {
            return false;
        }
        withheld
    };
    world.show(changes);
    world.lists.publish(withheld, true);
    world.is_exact(&query)
}

fn full() -> Query {
    query(&[ABOVE, BY_M, ONE_ROW])
}

fn a_row_comes_beyond_the_window(rule: Option<Rule>) -> bool {
    after(rule, &[ABOVE, BY_M, ONE_ROW], "d", Some((4, 9)))
}

/// The rows stay; the total is asked for between withhold and commit.
fn a_total_is_asked_for_before_the_commit(rule: Option<Rule>) -> bool {
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    world.switch_off(rule);
    world.ask(&full(), EXACT);
    let changes = world.changes(&[("d", row(4, 9))]);
    let withheld = world.withhold(&changes);
    let is_right_before = world.is_exact(&full());
    world.show(changes);
    world.lists.publish(withheld, true);
    is_right_before && world.is_exact(&full())
}

fn the_commit_fails(rule: Option<Rule>) -> bool {
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    world.switch_off(rule);
    world.ask(&full(), EXACT);
    let changes = world.changes(&[("d", row(4, 9))]);
    let withheld = world.withhold(&changes);
    world.lists.publish(withheld, false);
    world.is_exact(&full())
}

fn a_total_at_the_cap_shrinks(rule: Option<Rule>) -> bool {
    let mut world = World::new();
    world.switch_off(rule);
    for id in ["a", "b", "c", "d", "e", "f", "g"] {
        world.commit(&[(id, row(1, 1))]);
    }
    world.ask(&full(), EXACT);
    world.commit(&[("g", None)]);
    world.is_exact(&full())
}

fn a_table_has_too_many_ranges(rule: Option<Rule>) -> bool {
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    let above = |n: i64| {
        query(&[&format!(
            r#"{{"method":"greaterThan","attribute":"n","values":[{n}]}}"#
        )])
    };
    world.lists.rules().limit_watches(20);
    for n in -40..0 {
        world.ask(&above(n), EXACT);
    }
    assert!(world.lists.counts().degraded > 0);
    world.commit(&[("b", row(2, 2))]);
    world.is_exact(&above(-1))
}

/// A commit between the two parts of an answer, one of them cached, one read.
fn a_commit_comes_between_rows_and_total(rule: Option<Rule>) -> bool {
    let query = full();
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    world.switch_off(rule);
    // The total alone is cached: the rows go with the change of one of them.
    world.ask(&query, EXACT);
    world.commit(&[("a", row(2, 1))]);
    let changes = world.changes(&[("d", row(4, 0))]);
    let mut shown = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    shown.commit(&[("a", row(2, 1))]);
    shown.commit(&[("d", row(4, 0))]);
    let mut fetch = world.fetch(&query, EXACT);
    let Step::Read(fill) = fetch.step(0) else {
        return false;
    };
    assert!(fill.rows() && !fill.total());
    let withheld = world.withhold(&changes);
    let found = shown.found(&query, &fill);
    fetch.fill(fill, found);
    let answer = match fetch.step(0) {
        Step::Answer(answer) => answer,
        Step::Read(fill) => {
            let found = shown.found(&query, &fill);
            fetch.fill(fill, found);
            let Step::Answer(answer) = fetch.step(0) else {
                return false;
            };
            answer
        }
        Step::Wait(_) => return false,
    };
    world.lists.publish(withheld, true);
    let (body, total, _) = shown.read(&query);
    says(&answer, &body, total)
}

/// Two reads of one list fill one after the other; what the first leaves must not take the second
/// with it.
fn two_reads_fill_one_entry(rule: Option<Rule>) -> bool {
    let query = query(&[IS_ONE]);
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    let changes = world.changes(&[("a", None)]);
    {
        let mut first = world.fetch(&query, EXACT);
        let mut second = world.fetch(&query, EXACT);
        let Step::Read(one) = first.step(0) else {
            return false;
        };
        // A reader that waited twice for reads that came to nothing joins no third one.
        second.take_outcome(None).unwrap();
        second.take_outcome(None).unwrap();
        let Step::Read(two) = second.step(0) else {
            return false;
        };
        let found = world.found(&query, &one);
        first.fill(one, found);
        let found = world.found(&query, &two);
        second.fill(two, found);
    }
    let withheld = world.withhold(&changes);
    world.show(changes);
    world.lists.publish(withheld, true);
    world.is_exact(&query)
}

/// What is held of an answer leaves the map; then a commit alters it; then the rest is found.
fn a_part_is_evicted_before_the_commit(rule: Option<Rule>) -> bool {
    let query = full();
    let mut world = World::of_bytes(200_000);
    world.commit(&[("a", row(1, 1))]);
    world.commit(&[("b", row(1, 2))]);
    world.switch_off(rule);
    world.ask(&query, EXACT);
    // The rows go, the total stays.
    world.commit(&[("a", row(2, 1))]);
    let changes = world.changes(&[("d", row(4, 0))]);
    let mut fetch = world.fetch(&query, EXACT);
    let Step::Read(fill) = fetch.step(0) else {
        return false;
    };
    assert!(fill.rows() && !fill.total());
    world.crowd_out(EXACT);
    let mut shown = World::with(&[("a", 2, 1), ("b", 1, 2)]);
    shown.commit(&[("d", row(4, 0))]);
    let withheld = world.withhold(&changes);
    let found = shown.found(&query, &fill);
    fetch.fill(fill, found);
    let is_read_anew = matches!(fetch.step(0), Step::Read(_));
    world.lists.publish(withheld, true);
    is_read_anew
}

/// The same with rows beyond the bound of their table, when nothing else stands there any more, and
/// a total that found room.
fn rows_beyond_the_bound_are_evicted_before_the_commit(rule: Option<Rule>) -> bool {
    let query = full();
    let mut world = World::of_bytes(200_000);
    world.commit(&[("a", row(1, 1))]);
    world.commit(&[("b", row(1, 2))]);
    world.switch_off(rule);
    world.lists.rules().limit_watches(1);
    let changes = world.changes(&[("d", row(4, 0))]);
    {
        let other = fixture::query(&[r#"{"method":"lessThan","attribute":"n","values":[0]}"#]);
        let mut in_the_way = world.fetch_rows(&other, EXACT);
        let fill = in_the_way.step(0);
        world.ask_rows(&query, EXACT);
        drop(fill);
    }
    assert_eq!(world.lists.counts().degraded, 1);
    let mut fetch = world.fetch(&query, EXACT);
    let Step::Read(fill) = fetch.step(0) else {
        return false;
    };
    assert!(fill.total() && !fill.rows());
    world.crowd_out(EXACT);
    assert_eq!(world.lists.counts().degraded, 0);
    let mut shown = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    shown.commit(&[("d", row(4, 0))]);
    let withheld = world.withhold(&changes);
    let found = shown.found(&query, &fill);
    fetch.fill(fill, found);
    let is_read_anew = matches!(fetch.step(0), Step::Read(_));
    world.lists.publish(withheld, true);
    is_read_anew
}

fn a_purge_overtakes_a_read(rule: Option<Rule>) -> bool {
    let query = query(&[IS_ONE]);
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    let changes = world.changes(&[("a", row(1, 2))]);
    let withheld = {
        let mut fetch = world.fetch(&query, TTL);
        let Step::Read(fill) = fetch.step(0) else {
            return false;
        };
        let found = world.found(&query, &fill);
        let withheld = world.withhold(&changes);
        world.lists.purge(TABLE);
        fetch.fill(fill, found);
        withheld
    };
    world.show(changes);
    world.lists.publish(withheld, true);
    !world.ask(&query, TTL).is_hit
}

fn an_older_answer_says_so(rule: Option<Rule>) -> bool {
    let query = query(&[IS_ONE]);
    let mut world = World::with(&[("a", 1, 1)]);
    world.switch_off(rule);
    world.ask(&query, TTL);
    world.commit(&[("a", row(1, 2))]);
    let answer = world.ask(&query, TTL);
    answer.is_hit && answer.is_stale == Some(true)
}

fn a_row_is_hidden_within_a_ttl(rule: Option<Rule>) -> bool {
    let query = seen_by(&[IS_ONE], guests());
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    world.switch_off(rule);
    world.ask(&query, TTL);
    world.commit(&[("a", Some(image(1, 1, NOBODY)))]);
    let (body, total, _) = world.read(&query);
    says(&world.ask(&query, TTL), &body, total)
}

const SEQUENCES: &[(Rule, Sequence)] = &[
    (Rule::BucketsSeeBefore, a_row_leaves),
    (Rule::BucketsSeeAfter, a_row_enters),
    (
        Rule::EachAlternativeHasAnEquality,
        one_alternative_is_a_range,
    ),
    (Rule::ResidualsAreAsked, only_a_range),
    (Rule::GuardsSeeBefore, a_row_leaves_a_range),
    (
        Rule::EndlessPagesAreAsked,
        a_row_changes_where_one_page_has_no_end,
    ),
    (Rule::EqualRanksAreAsked, the_last_row_itself_changes),
    (Rule::PurgeTakesExactLists, an_exact_list_is_purged),
    (Rule::KeepsWhatIsWatched, rows_are_drawn),
    (Rule::UndecidableAreDropped, words_are_searched),
    (Rule::VisibilityOfBefore, a_grant_goes),
    (Rule::WindowOfFullPagesOnly, a_page_has_room),
    (Rule::WindowSeesBefore, a_row_falls_out_of_the_window),
    (Rule::WindowSeesAfter, a_row_climbs_into_the_window),
    (
        Rule::WindowBreaksTies,
        the_last_row_is_equal_but_for_its_sequence,
    ),
    (Rule::CursorRow, the_cursors_row_moves),
    (Rule::WholeTables, the_commit_tells_tables_only),
    (Rule::LateFillsAreRefused, a_commit_overtakes_a_read),
    (Rule::InFlightIsAsked, a_read_begins_inside_a_commit),
    (
        Rule::SpoiledRunsAreNotJoined,
        somebody_joins_a_read_that_was_overtaken,
    ),
    (Rule::TotalsAreWithheld, a_row_comes_beyond_the_window),
    (
        Rule::TotalsWaitForPublish,
        a_total_is_asked_for_before_the_commit,
    ),
    (Rule::FailedCommitsPatchNothing, the_commit_fails),
    (Rule::TotalsAtCapAreDropped, a_total_at_the_cap_shrinks),
    (Rule::DegradedAreDropped, a_table_has_too_many_ranges),
    (Rule::OneInstant, a_commit_comes_between_rows_and_total),
    (Rule::UnregisterByNumber, two_reads_fill_one_entry),
    (
        Rule::EvictedCountsAsAltered,
        a_part_is_evicted_before_the_commit,
    ),
    (
        Rule::EvictedCountsAsAltered,
        rows_beyond_the_bound_are_evicted_before_the_commit,
    ),
    (Rule::PurgeIsAFence, a_purge_overtakes_a_read),
    (Rule::StaleIsTold, an_older_answer_says_so),
    (Rule::LossesEndAges, a_row_is_hidden_within_a_ttl),
];

/// What happens at an instant without a commit needs a clock and a schedule, and answers at fixed
/// coordinates a past: the engine's simulation misses each of these
/// (`engine/tests/simulation.rs`).
const OF_TIME: [Rule; 7] = [
    Rule::ListsEndAtBoundaries,
    Rule::DueRowsAreChanges,
    Rule::BoundariesAreMovedBefore,
    Rule::RecastsAreFences,
    Rule::FencesStandInFlight,
    Rule::PinnedNamesHoldTheLine,
    Rule::NothingIsPinnedThatGoes,
];

#[test]
fn each_rule_is_needed() {
    for rule in Rule::ALL.iter().filter(|rule| !OF_TIME.contains(rule)) {
        let sequences = || SEQUENCES.iter().filter(|(of, _)| of == rule);
        assert!(
            sequences().next().is_some(),
            "no sequence is about {rule:?}"
        );
        for (_, sequence) in sequences() {
            assert!(
                sequence(None),
                "{rule:?}: a sequence ends badly with the rule"
            );
            assert!(
                !sequence(Some(*rule)),
                "{rule:?}: a sequence ends well without it"
            );
        }
    }
}
