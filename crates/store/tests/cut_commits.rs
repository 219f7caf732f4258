//! The connection of the writer ends at each message of a commit, in both directions: what was
//! acknowledged is there, what failed is not, and of what is in doubt the store finds which it is.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;
mod relayed_store;

use std::collections::{BTreeMap, BTreeSet};

use db::{Db, TITLE, adding, delete_table, note, notes_called};
use futures_executor::block_on;
use model::{Field, Mark, Value};
use query::{Filter, Query, Test};
use relayed_store::{Relayed, answer, opens_transaction};
use store::{
    CatalogueOp, Committed, Guard, MatchingAct, MatchingOp, Op, Outcome, RowAct, Stamps,
    StoreError, WriteBatch,
};
use testing::OwnTurn;
use testing_postgres::MessageWay;

/// Cuts at drawn places by day, and at night.
const DRAWN: (u64, u64) = (30, 1_000);
/// When ends what has not ended.
const END: i64 = model::Timestamp::END.0;
/// No group of these tests, connecting again included, has more messages one way.
const MESSAGES_MAX: u64 = 600;

/// What the store should hold.
#[derive(Clone, Debug, Default, PartialEq)]
struct Held {
    /// The count of each row.
    counts: BTreeMap<String, i64>,
    transactions: BTreeSet<String>,
    has_second_table: bool,
}

impl Held {
    fn add_one(&mut self, id: &str) {
        *self.counts.get_mut(id).expect("it is there") += 1;
    }

    /// As [`Site::found`] reads it.
    fn described(&self) -> String {
        let counts = self
            .counts
            .iter()
            .map(|(id, count)| format!("{id}={count}"));
        let all: [Vec<String>; 3] = [
            counts.collect(),
            self.transactions.iter().cloned().collect(),
            vec![usize::from(self.has_second_table).to_string()],
        ];
        format!("{}|0|0", all.map(|part| part.join(" ")).join("|"))
    }
}

/// A group of batches, and what is held once it is done.
struct Attempt {
    batches: Vec<WriteBatch>,
    after: Held,
}

/// A kind of commit.
type Kind = fn(&Site) -> Attempt;

/// How attempts have ended.
#[derive(Debug, Default)]
struct Ends {
    acknowledged: u64,
    failed: u64,
    found: u64,
    not_found: u64,
}

struct Site {
    place: Relayed,
    db: Db,
    held: Held,
    ends: Ends,
}

/// The rows that are there from the start.
const COUNTERS: [&str; 2] = ["a", "b"];

impl Site {
    fn new(database: &'static str) -> Site {
        let place = Relayed::new(database);
        let mut db = Db::with_notes(&place);
        let mut held = Held::default();
        for id in COUNTERS {
            db.ok(vec![db.insert(id, note(id))]);
            held.counts.insert(id.to_owned(), 7);
        }
        Site {
            place,
            db,
            held,
            ends: Ends::default(),
        }
    }

    /// Adds one to the count of a row, whatever it is.
    fn increment(&self, id: &str) -> Op {
        self.db.op(
            id,
            RowAct::Update {
                patch: adding(1),
                permissions: None,
                stamps: Stamps::default(),
                guard: Guard::Open,
            },
        )
    }

    /// Commits a group, and takes in how that has ended. `second` is run before it is found out
    /// what became of a commit in doubt.
    fn commit(&mut self, attempt: Attempt, second: impl FnOnce(&Relayed)) {
        let Attempt { batches, after } = attempt;
        let first = self.db.next;
        let is_done = match block_on(self.db.store.apply(&batches, first)) {
            Err(error) => self.fails(&error),
            Ok(pending) => match block_on(pending.commit()) {
                Err(error) => self.fails(&error),
                Ok(Committed::Done(outcomes)) => {
                    self.ends.acknowledged += 1;
                    self.take_over(&outcomes);
                    true
                }
                Ok(Committed::Unknown(doubt)) => {
                    second(&self.place);
                    let outcomes = doubt.outcomes().to_vec();
                    let is_done = answer(doubt);
                    if is_done {
                        self.ends.found += 1;
                        self.take_over(&outcomes);
                    } else {
                        self.ends.not_found += 1;
                    }
                    is_done
                }
            },
        };
        if is_done {
            self.held = after;
        }
        // Whatever it was, its marks are given to no other.
        self.db.next = Mark(first.0 + 1_000_000);
    }

    fn fails(&mut self, error: &StoreError) -> bool {
        let is_outage = matches!(error, StoreError::Unreachable { .. });
        assert!(is_outage && error.is_retryable(), "{error:?}");
        self.ends.failed += 1;
        false
    }

    /// Each group has one batch that is refused, if it has several.
    fn take_over(&mut self, outcomes: &[Outcome]) {
        let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(refused, usize::from(outcomes.len() > 1), "{outcomes:?}");
        self.db.take_over(outcomes);
    }

    /// Goes on until a group is acknowledged: then the session has prepared what such a one needs.
    fn warm_up(&mut self, kind: Kind) {
        let before = self.ends.acknowledged;
        while self.ends.acknowledged == before {
            let attempt = kind(self);
            self.commit(attempt, |_| {});
        }
    }

    /// Commits a group while a cut is planned. Whether it was still to come then.
    fn cut_at(
        &mut self,
        kind: Kind,
        (way, left): (MessageWay, u64),
        second: Option<(MessageWay, u64)>,
    ) -> bool {
        let attempt = kind(self);
        self.place.relay.plan_cut(way, left);
        self.commit(attempt, |place| {
            if let Some((way, left)) = second {
                place.relay.plan_cut(way, left);
            }
        });
        let is_left = self.place.relay.forget_cut();
        assert_eq!(self.found(), self.held.described(), "{way:?} {left}");
        is_left
    }

    /// What the database holds, by another session. The last parts say that each commit is recorded
    /// once, and that each row has one version that goes on.
    fn found(&self) -> String {
        self.place.sql(&format!(
            "SELECT (SELECT string_agg(id || '=' || c2, ' ' ORDER BY id) FROM t1), \
             (SELECT string_agg(id, ' ' ORDER BY id) FROM staged), \
             (SELECT count(*) FROM table_ WHERE id = 'second' AND st = {END}), \
             (SELECT max(n) - count(*) FROM tx), (SELECT count(*) FROM t1 WHERE 1 <> \
             (SELECT count(*) FROM t1_v v WHERE v.id = t1.id AND st = {END} AND cut_vt = {END}))"
        ))
    }
}

/// Single rows: one comes or goes, both counters are raised, and one batch is refused.
fn rows(site: &Site) -> Attempt {
    let (db, mut after) = (&site.db, site.held.clone());
    let passing = if after.counts.remove("n").is_some() {
        db.delete("n")
    } else {
        after.counts.insert("n".to_owned(), 7);
        db.insert("n", note("n"))
    };
    for id in COUNTERS {
        after.add_one(id);
    }
    let batches = vec![
        db.batch(vec![site.increment("a")]),
        db.batch(vec![passing, site.increment("b")]),
        db.batch(vec![site.increment("a"), db.insert("b", note("again"))]),
    ];
    Attempt { batches, after }
}

/// Rows that are searched for: the second batch sends the first one, behind a savepoint.
fn searched(site: &Site) -> Attempt {
    let (db, mut after) = (&site.db, site.held.clone());
    let titles = COUNTERS.map(|id| Value::Text(id.into())).to_vec();
    let query = Query {
        filter: Filter::Field(Field::Column(TITLE), Test::In(titles)),
        ..db.all()
    };
    let matching = Op::Matching(Box::new(MatchingOp {
        query,
        may_leave_rows: true,
        walks: false,
        bytes_max: None,
        tells_end: false,
        act: MatchingAct::Update {
            patch: adding(1),
            permissions: None,
            stamps: Stamps::default(),
            range: None,
        },
        rows_returned_max: 2,
    }));
    for id in COUNTERS {
        after.add_one(id);
    }
    after.add_one("a");
    let batches = vec![
        db.batch(vec![site.increment("a")]),
        db.batch(vec![matching]),
        db.batch(vec![site.increment("b"), db.insert("a", note("again"))]),
    ];
    Attempt { batches, after }
}

/// What takes no mark.
fn transaction(site: &Site) -> Attempt {
    let mut after = site.held.clone();
    let id = format!("t{:04}", after.transactions.len());
    let batches = vec![opens_transaction(&site.db, &id)];
    after.transactions.insert(id);
    Attempt { batches, after }
}

/// A table comes or goes.
fn table(site: &Site) -> Attempt {
    let mut after = site.held.clone();
    let op = if after.has_second_table {
        delete_table("second")
    } else {
        CatalogueOp::CreateTable(Box::new(notes_called("second")))
    };
    after.has_second_table = !after.has_second_table;
    let batches = vec![site.db.batch(vec![Op::Catalogue(op)])];
    Attempt { batches, after }
}

/// Cuts at each message of such a commit, on a session that has prepared what it needs.
fn cut_everywhere(site: &mut Site, kind: Kind) {
    for way in [MessageWay::ToServer, MessageWay::ToClient] {
        let mut left = 0;
        loop {
            site.warm_up(kind);
            if site.cut_at(kind, (way, left), None) {
                break;
            }
            left += 1;
            assert!(left < MESSAGES_MAX, "the commit has no end");
        }
        assert!(left > 5, "{left} messages {way:?}");
    }
    let Ends {
        found, not_found, ..
    } = site.ends;
    assert!(found > 0 && not_found > 0, "{:?}", site.ends);
}

#[test]
fn single_rows_are_written_once_or_not_at_all_wherever_their_connection_ends() {
    cut_everywhere(&mut Site::new("cut_rows"), rows);
}

#[test]
fn a_commit_without_a_mark_is_done_once_or_not_at_all_wherever_its_connection_ends() {
    cut_everywhere(&mut Site::new("cut_transactions"), transaction);
}

#[test]
fn no_increment_is_lost_or_counted_twice_however_often_connections_end() {
    let is_night = std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night");
    let mut chance = Chance(29);
    let mut site = Site::new("cut_often");
    let kinds: [Kind; 4] = [rows, searched, transaction, table];
    let (by_day, at_night) = DRAWN;
    for _ in 0..if is_night { at_night } else { by_day } {
        let kind = kinds[chance.below(kinds.len() as u64) as usize];
        // Else it connects first, and is cut in the middle of that.
        if chance.below(2) == 0 {
            site.warm_up(kind);
        }
        let first = chance.place();
        let second = (chance.below(3) == 0).then(|| chance.place());
        site.cut_at(kind, first, second);
    }
    let Ends {
        acknowledged,
        failed,
        found,
        not_found,
    } = site.ends;
    assert!(acknowledged > 0 && found + not_found > 0, "{:?}", site.ends);
    // Only a cut while a session prepares a commit lets that fail.
    assert!(!is_night || failed > 0, "{:?}", site.ends);
}

/// Draws numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }

    /// The place of a cut.
    fn place(&mut self) -> (MessageWay, u64) {
        let ways = [MessageWay::ToServer, MessageWay::ToClient];
        (ways[self.below(2) as usize], self.below(80))
    }
}
