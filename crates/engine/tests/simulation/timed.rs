//! Transactions over valid periods: rows are corrected, scheduled and erased at any instant.

use engine::{RowClaim, TimedTransaction, TransactionAct, TransactionOp};
use model::history::{Range, Until};
use model::{Json, RowId, Timestamp};

use super::chance::Chance;
use super::domain::IDS;
use super::write::{Target, Write, members, write};

/// Up to three operations, at one mark or not at all.
pub fn timed(chance: &mut Chance, target: Target, now: Timestamp) -> Write {
    let count = 1 + chance.below(3);
    let ops: Vec<TransactionOp> = (0..count).map(|_| op(chance, &target, now)).collect();
    let erases = ops.iter().any(|op| matches!(op.act, TransactionAct::Erase));
    let word = if erases { "Erase" } else { "Timed" };
    let what = format!("{word} {}.{} {ops:?}", target.database, target.table);
    write(what, async move {
        let transaction = TimedTransaction { ops, meta: None };
        let key = super::fixture::key();
        let done = target.engine.transact(&key, target.database, &transaction);
        done.await.map(drop)
    })
}

fn op(chance: &mut Chance, target: &Target, now: Timestamp) -> TransactionOp {
    let id = RowId::new(chance.pick::<&str>(&IDS)).expect("a legal id");
    let mut content = || -> Vec<(String, Json)> {
        let mut members = members(chance, &target.columns, false);
        members.retain(|(key, _)| !key.starts_with('$'));
        members
    };
    let content = content();
    let act = match chance.below(10) {
        0 => TransactionAct::Insert(content),
        1..4 => TransactionAct::Put(content),
        4 | 5 => TransactionAct::Patch(content),
        6 => TransactionAct::Update(content),
        7 => TransactionAct::Delete,
        8 => TransactionAct::Erase,
        _ => TransactionAct::Assert(vec![RowClaim::Exists(chance.one_in(2), None)]),
    };
    TransactionOp {
        table: target.table.to_owned(),
        id,
        range: range(chance, now),
        act,
    }
}

fn range(chance: &mut Chance, now: Timestamp) -> Range {
    let at = |by_ms: i64| Timestamp(now.0 + by_ms * 1_000);
    let from_ms = chance.weighed(&[(3, 1), (2, 300), (2, 0), (2, -1), (2, -2_000)]);
    let length_ms = chance.weighed(&[(3, 1), (3, 299), (2, 2_000)]);
    Range {
        from: (!chance.one_in(3)).then(|| at(from_ms)),
        until: match chance.below(4) {
            0 => Until::Open,
            1 => Until::Next,
            _ => Until::At(at(from_ms.max(0) + length_ms)),
        },
    }
}
