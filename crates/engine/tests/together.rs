//! Random transactions of operations that need each other: what a read inside shows after each is
//! what the commit leaves, as an oracle says that knows rows and nothing else.

mod fixture;

use std::collections::BTreeMap;

use engine::{
    Act, Engine, EngineError, ListRows, NewIndex, NewTable, Operation, Place, TransactionStatus,
    View,
};
use fixture::{NEW_YEAR_US, TickingClock, furnish, key, list_rows_of, new_table, open, row};
use futures_executor::block_on;
use model::RowId;

const TRANSACTIONS: u64 = 60;
const OPERATIONS: u64 = 6;

const TABLE: Place<'static> = Place {
    database: "d",
    table: "codes",
};

/// A row of the oracle: its unique number, and another.
type Held = BTreeMap<String, (i64, i64)>;

/// Numbers that look like chance, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % count
    }
}

/// Changes a row that is there, or makes it; the oracle goes along.
fn operation(chance: &mut Chance, held: &mut Held) -> Operation {
    let id = format!("r{}", chance.below(4));
    let (n, m) = (chance.below(4) as i64, chance.below(100) as i64);
    let row = row(&id, &[("n", n), ("m", m)]);
    let act = match (held.contains_key(&id), chance.below(4)) {
        (false, 0..2) => Act::Create(row),
        (_, 2) | (false, _) => Act::Upsert(row),
        (true, 3) => {
            held.remove(&id);
            Act::Delete(RowId::new(&id).unwrap().into())
        }
        (true, _) => Act::Update(row),
    };
    if !matches!(act, Act::Delete(_)) {
        held.insert(id, (n, m));
    }
    Operation {
        database: "d".into(),
        table: "codes".into(),
        act,
        unchanged_since: None,
    }
}

fn is_unique(held: &Held) -> bool {
    let mut seen = Vec::new();
    held.values().all(|(n, _)| {
        let is_new = !seen.contains(n);
        seen.push(*n);
        is_new
    })
}

/// The rows as a list shows them, by id.
async fn shown(engine: &Engine, inside: Option<&str>) -> Vec<String> {
    let asked = ListRows {
        place: TABLE,
        ..list_rows_of(&[])
    };
    let view = inside.map_or(View::CURRENT, View::Staged);
    let answer = engine.list_rows(&key(), &asked, view).await.unwrap();
    let text = String::from_utf8(answer.rows.to_vec()).unwrap();
    let lines = text.lines().filter(|line| line.contains(" r"));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Whether the list shows these rows, each with its two numbers.
fn shows(lines: &[String], held: &Held) -> bool {
    let holds = |(id, (n, m)): (&String, &(i64, i64))| {
        let values = format!("[Int({n}), Int({m})]");
        let is_it = |line: &&String| line.contains(id.as_str()) && line.contains(&values);
        lines.iter().filter(is_it).count() == 1
    };
    lines.len() == held.len() && held.iter().all(holds)
}

#[test]
fn reads_inside_show_what_the_commit_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    let table = NewTable {
        indexes: vec![NewIndex {
            key: "one_n".into(),
            kind: "unique".into(),
            columns: vec!["n".into()],
            ..NewIndex::default()
        }],
        ..new_table("codes")
    };
    block_on(engine.create_table(&key(), "d", table)).unwrap();
    let mut chance = Chance(0x5eed_1234_5678_9abc);
    let mut held = Held::new();
    let (mut committed, mut refused) = (0, 0);
    for nth in 0..TRANSACTIONS {
        let id = format!("tx{nth}");
        block_on(engine.create_transaction(&key(), &id, 60)).unwrap();
        let before = block_on(shown(&engine, None));
        let mut after = held.clone();
        for _ in 0..=chance.below(OPERATIONS) {
            let operation = operation(&mut chance, &mut after);
            let told = format!("{operation:?}");
            let staged = block_on(engine.stage(&key(), &id, vec![operation]));
            assert!(staged.is_ok(), "{told}: {staged:?}");
            if is_unique(&after) {
                let inside = block_on(shown(&engine, Some(&id)));
                assert!(shows(&inside, &after), "{told}: {inside:?}, not {after:?}");
            }
            assert_eq!(block_on(shown(&engine, None)), before, "others see nothing");
        }
        let ended = block_on(engine.commit_transaction(&key(), &id));
        if is_unique(&after) {
            let ended = ended.unwrap().answer.status;
            assert_eq!(ended, TransactionStatus::Committed);
            held = after;
            committed += 1;
        } else {
            let is_unique = matches!(
                ended,
                Err(EngineError::Write(
                    engine::WriteError::UniqueViolation { .. }
                ))
            );
            assert!(is_unique, "{ended:?}");
            refused += 1;
        }
        let left = block_on(shown(&engine, None));
        assert!(shows(&left, &held), "{left:?}, not {held:?}");
    }
    assert!(committed > 10 && refused > 10, "{committed} {refused}");
}
