//! How PostgreSQL finds the rows of a list, in the words of the schema.

use std::collections::HashMap;
use std::error::Error;

use query::emit::{self, Statement};
use query::{Dialect, Query};
use serde_json::Value;
use tokio_postgres::Client;
use tokio_postgres::types::{FromSql, Type};

use super::kept_statements::ReadyStatement;
use super::lending::LentConnection;
use super::narrowed::narrows;
use super::read_halt::Step;
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads};
use crate::error::corrupt;
use crate::plan_words::{STEPS_MAX, translated, words};

/// Longest text of a statement that is planned to be shown, as with a data directory.
const EXPLAINED_BYTES_MAX: usize = 8 << 10;

/// The plan of a list. In the form for programs it has the names apart from the conditions, which
/// hold the values of the query.
pub(super) struct PlanOf(pub(super) Query);

impl DatabaseRead for PlanOf {
    type Answer = Vec<String>;

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Vec<String>> {
        Box::pin(async move {
            let query = &self.0;
            let narrowing = emit::narrowing(query);
            // As if the words led to one row.
            let among = narrowing.is_some().then(|| emit::narrowed(query, vec![1]));
            let among = among.flatten();
            let query = among.as_ref().unwrap_or(query);
            let list = emit::rows(query, None, Dialect::Postgres);
            let mut steps = Vec::new();
            lent.begin();
            let client = &*lent.client();
            let mut plans = Vec::new();
            if let Some(statement) = narrowing {
                client
                    .batch_execute(&format!("BEGIN; {}", narrows()))
                    .await?;
                plans.push(plan(client, statement).await?);
                client.batch_execute("ROLLBACK").await?;
            }
            plans.push(plan(client, list).await?);
            lent.end();
            for plan in plans {
                take_steps(&plan[0]["Plan"], &words(&query.table), &mut steps);
            }
            Ok(steps)
        })
    }
}

/// The plan of a statement; nothing of one that is too long.
async fn plan(client: &Client, statement: Statement) -> Step<Value> {
    let Statement { sql, parameters } = statement;
    if sql.len() > EXPLAINED_BYTES_MAX {
        return Ok(Value::Null);
    }
    let explain = Statement {
        sql: format!("EXPLAIN (FORMAT JSON, COSTS OFF) {sql}"),
        parameters,
    };
    let found = ReadyStatement::once(&explain).row(client).await?;
    let found = found.ok_or_else(|| corrupt("a plan has no row"))?;
    let PlanText(plan) = found.try_get(0)?;
    let plan = serde_json::from_str(&plan).map_err(|error| corrupt(error.to_string()))?;
    Ok(plan)
}

/// A text of the type `json`.
struct PlanText(String);

impl<'a> FromSql<'a> for PlanText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<PlanText, Box<dyn Error + Sync + Send>> {
        Ok(PlanText(String::from_utf8(raw.to_vec())?))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::JSON
    }
}

/// Appends a node and those below it, each before its own.
fn take_steps(node: &Value, words: &HashMap<String, String>, steps: &mut Vec<String>) {
    if steps.len() >= STEPS_MAX || node.is_null() {
        return;
    }
    let text = |member: &str| node[member].as_str();
    let mut step = text("Node Type").unwrap_or_default().to_owned();
    if text("Scan Direction") == Some("Backward") {
        step += " backward";
    }
    for (member, before) in [("Index Name", " using "), ("Relation Name", " on ")] {
        if let Some(name) = text(member) {
            step += before;
            step += &translated(name, words);
        }
    }
    steps.push(step);
    for below in node["Plans"].as_array().into_iter().flatten() {
        take_steps(below, words, steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_shown_in_the_words_of_the_schema_and_without_values() {
        let plan = serde_json::json!({"Node Type": "Limit", "Plans": [
            {"Node Type": "Incremental Sort", "Sort Key": ["c2 DESC"], "Plans": [
                {"Node Type": "Index Scan", "Scan Direction": "Backward", "Index Name": "t1_i2",
                    "Relation Name": "t1", "Index Cond": "(c1 = 'novel'::text)"},
                {"Node Type": "Seq Scan", "Relation Name": "t1_perm"},
            ]},
        ]});
        let words = HashMap::from([
            ("t1".to_owned(), "books".to_owned()),
            ("t1_i2".to_owned(), "by_year".to_owned()),
        ]);
        let mut steps = Vec::new();
        take_steps(&plan, &words, &mut steps);
        let expected = [
            "Limit",
            "Incremental Sort",
            "Index Scan backward using by_year on books",
            "Seq Scan on t1_perm",
        ];
        assert_eq!(steps, expected);
    }
}
