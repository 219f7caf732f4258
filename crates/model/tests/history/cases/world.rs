//! Rows in memory, and the marks of a writer with a test clock.

use std::collections::BTreeMap;

use model::history::{
    Act, Claim, History, Known, Operation, Plan, Range, Until, Version, WriteRefusal,
};
use model::{Json, Mark, Timestamp};

use super::json::{int, list, sorted, text};
use crate::memory::next_number;

/// Table and id.
pub type RowKey = (String, String);
pub type Doc = Json;

/// What a transaction left beside its versions.
#[derive(Clone)]
pub struct Recorded {
    pub meta: Json,
    pub erased: Option<i64>,
}

#[derive(Clone, Default)]
pub struct World {
    pub rows: BTreeMap<RowKey, Vec<Version<Doc>>>,
    pub transactions: BTreeMap<i64, Recorded>,
    /// The highest mark that may be read.
    pub horizon: i64,
}

impl World {
    /// Its mark, or why it is refused.
    pub fn transact(&mut self, tx: &Json) -> Result<i64, &'static str> {
        let clock = int(tx.get("clock").expect("a transaction has a clock"));
        let mark = clock.max(self.horizon + 1);
        let mut after = self.clone();
        let mut erased = 0;
        for op in list(tx, "ops") {
            erased += i64::from(after.run(op, Mark(mark))?);
        }
        let erased = (erased > 0).then_some(erased);
        after.horizon = mark;
        let meta = sorted(tx.get("meta").cloned().unwrap_or(Json::Null));
        after.transactions.insert(mark, Recorded { meta, erased });
        *self = after;
        Ok(mark)
    }

    pub fn versions(&self, key: &RowKey) -> &[Version<Doc>] {
        self.rows.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether it erased a row that was there.
    fn run(&mut self, op: &Json, mark: Mark) -> Result<bool, &'static str> {
        let key = (text(op, "table").to_owned(), text(op, "id").to_owned());
        let versions = self.rows.entry(key).or_default();
        let known = Known {
            versions,
            last_change: History::new(versions).last_change(),
        };
        let plan = plan(op, mark, known).map_err(|refusal| code(&refusal))?;
        let erases = plan.erases && !versions.is_empty();
        plan.apply(mark, versions, next_number);
        Ok(erases)
    }
}

/// The code under which the specification knows a refusal.
fn code(refusal: &WriteRefusal) -> &'static str {
    match refusal {
        WriteRefusal::EmptyRange { .. } => "invalid_range",
        WriteRefusal::Exists { .. } => "exists",
        WriteRefusal::AssertFailed => "assert_failed",
        WriteRefusal::Invalid(error) => panic!("{error}"),
    }
}

pub fn instant(json: &Json) -> Timestamp {
    match json {
        Json::Null => Timestamp::END,
        Json::Text(word) if word == "min" => Timestamp::BOT,
        other => Timestamp(int(other)),
    }
}

fn range(op: &Json) -> Range {
    let until = match op.get("valid_to") {
        None | Some(Json::Null) => Until::Open,
        Some(Json::Text(word)) if word == "next" => Until::Next,
        Some(end) => Until::At(instant(end)),
    };
    let from = op.get("valid_from").map(instant);
    Range { from, until }
}

fn plan(op: &Json, mark: Mark, known: Known<'_, Doc>) -> Result<Plan<Doc>, WriteRefusal> {
    let doc = sorted(op.get("doc").cloned().unwrap_or(Json::Null));
    let mut merge = |old: Option<&Doc>| Ok(Some(merged(old, &doc)));
    let act = match text(op, "op") {
        "insert" => Act::Insert(doc),
        "put" => Act::Put(doc),
        "patch" => Act::Patch(&mut merge),
        "update" => Act::Update(&mut merge),
        "delete" => Act::Delete,
        "erase" => return Plan::new(Operation::Erase, mark, known),
        "assert" => return check(op, mark, known),
        other => panic!("no operation {other}"),
    };
    Plan::new(Operation::Write(act, range(op)), mark, known)
}

fn merged(old: Option<&Doc>, new: &Doc) -> Doc {
    let members = |doc: &Doc| match doc {
        Json::Object(members) => members.clone(),
        other => panic!("{other:?} is no row"),
    };
    let mut merged: BTreeMap<String, Json> =
        old.map(members).unwrap_or_default().into_iter().collect();
    merged.extend(members(new));
    Json::Object(merged.into_iter().collect())
}

/// Null and absent are the same.
pub fn matches(doc: &Doc, columns: &Json) -> bool {
    let Json::Object(columns) = columns else {
        panic!("{columns:?} are no columns");
    };
    let is = |(key, value): &(String, Json)| doc.get(key).unwrap_or(&Json::Null) == value;
    columns.iter().all(is)
}

fn check(op: &Json, mark: Mark, known: Known<'_, Doc>) -> Result<Plan<Doc>, WriteRefusal> {
    let at = op.get("vt").map(instant);
    let columns = op.get("equals").cloned();
    let test = |doc: &Doc| columns.as_ref().is_none_or(|columns| matches(doc, columns));
    let mut claims: Vec<Claim<'_, Doc>> = Vec::new();
    if let Some(Json::Bool(expected)) = op.get("exists") {
        let expected = *expected;
        claims.push(Claim::Exists { expected, at });
    }
    if columns.is_some() {
        let test = &test;
        claims.push(Claim::Matches { test, at });
    }
    if let Some(since) = op.get("unchanged_since") {
        claims.push(Claim::UnchangedSince(Mark(int(since))));
    }
    assert!(!claims.is_empty(), "{op:?} claims nothing");
    for claim in claims {
        Plan::new(Operation::Assert(claim), mark, known)?;
    }
    Ok(Plan::default())
}
