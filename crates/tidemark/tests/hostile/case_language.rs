//! What can be wrong about bodies in the language of the worked cases.

use server::http::wire::error::Kind;

use super::bad_values::{ARGUMENT, Group};
use super::routes::Takes;

const NO_TIME: &[&str] = &[
    r#""yesterday""#,
    r#""""#,
    r#""2026-02-30T00:00:00Z""#,
    r#""1.5""#,
    "true",
    "[]",
    "{}",
    "[5]",
    "1.5",
    "9223372036854775808",
];
/// The first operation is right: a transaction is done whole or not at all.
const NO_OPS: &[&str] = &[
    "5",
    "true",
    "{}",
    r#""x""#,
    "[]",
    "[5]",
    "[null]",
    "[[]]",
    "[{}]",
    r#"[{"op":"delete","table":"t","id":"r1"},5]"#,
    r#"[{"op":"delete","table":"t","id":"r1"},{"op":"delete"}]"#,
    r#"[{"op":"fly","table":"t","id":"r1"}]"#,
    r#"[{"op":"put\u0000","table":"t","id":"r1"}]"#,
    r#"[{"op":5,"table":"t","id":"r1"}]"#,
    r#"[{"op":null,"table":"t","id":"r1"}]"#,
    r#"[{"op":"delete","id":"r1"}]"#,
    r#"[{"op":"delete","table":5,"id":"r1"}]"#,
    r#"[{"op":"delete","table":"t"}]"#,
    r#"[{"op":"delete","table":"t","id":5}]"#,
    r#"[{"op":"delete","table":"t","id":"_x"}]"#,
    r#"[{"op":"delete","table":"t","id":"a\u0000"}]"#,
    r#"[{"op":"delete","table":"t","id":"' OR 1=1 --"}]"#,
    r#"[{"op":"delete","table":"t","id":"r1","valid_from":"x"}]"#,
    r#"[{"op":"delete","table":"t","id":"r1","valid_from":[]}]"#,
    r#"[{"op":"delete","table":"t","id":"r1","valid_from":1.5}]"#,
    r#"[{"op":"delete","table":"t","id":"r1","valid_from":"next"}]"#,
    r#"[{"op":"delete","table":"t","id":"r1","valid_to":"x"}]"#,
    r#"[{"op":"delete","table":"t","id":"r1","valid_to":true}]"#,
    r#"[{"op":"delete","table":"t","id":"r1","valid_to":9223372036854775808}]"#,
    r#"[{"op":"put","table":"t","id":"r1","doc":5}]"#,
    r#"[{"op":"put","table":"t","id":"r1","doc":[1]}]"#,
    r#"[{"op":"put","table":"t","id":"r1","doc":"{"}]"#,
    r#"[{"op":"assert","table":"t","id":"r1"}]"#,
    r#"[{"op":"assert","table":"t","id":"r1","exists":"maybe"}]"#,
    r#"[{"op":"assert","table":"t","id":"r1","equals":5}]"#,
    r#"[{"op":"assert","table":"t","id":"r1","exists":true,"vt":"x"}]"#,
    r#"[{"op":"assert","table":"t","id":"r1","unchanged_since":"x"}]"#,
];
const WRONG_OPS: &[(&str, &[Kind])] = &[
    (
        r#"[{"op":"delete","table":"nobody","id":"r1"}]"#,
        &[Kind::TableNotFound],
    ),
    (
        r#"[{"op":"delete","table":"t\u0000","id":"r1"}]"#,
        &[Kind::TableNotFound],
    ),
    (
        r#"[{"op":"put","table":"p","id":"r1","doc":{"rel":5}}]"#,
        &[Kind::RelationshipValueInvalid],
    ),
    (
        r#"[{"op":"put","table":"t","id":"x","doc":{"nobody":1}}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"op":"put","table":"t","id":"x","doc":{"n":"1"}}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"op":"put","table":"t","id":"x","doc":{"s":"a\u0000"}}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"op":"put","table":"t","id":"x","valid_from":5,"valid_to":5}]"#,
        &[Kind::InvalidRange],
    ),
    (
        r#"[{"op":"put","table":"t","id":"x","valid_from":9,"valid_to":5}]"#,
        &[Kind::InvalidRange],
    ),
    (
        r#"[{"op":"put","table":"t","id":"x","doc":{"n":1}},
            {"op":"insert","table":"t","id":"r1","doc":{"n":1}}]"#,
        &[Kind::Exists],
    ),
    (
        r#"[{"op":"put","table":"t","id":"x","doc":{"n":1}},
            {"op":"assert","table":"t","id":"r1","exists":false}]"#,
        &[Kind::AssertFailed],
    ),
    (
        r#"[{"op":"assert","table":"t","id":"r1","equals":{"nobody":1}}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"op":"put","table":"t","id":"x","doc":{"s":"r1"}}]"#,
        &[Kind::UniqueOverTime],
    ),
];
const NO_KIND: &[&str] = &[
    "5",
    "true",
    "[]",
    "{}",
    r#""""#,
    r#""fly""#,
    r#""get\u0000""#,
    r#""GET""#,
];
/// Reads of other kinds stand in the list of many.
const NO_TIMED_READS: &[&str] = &[
    "5",
    "true",
    "{}",
    r#""x""#,
    "[5]",
    "[null]",
    "[[]]",
    "[{}]",
    r#"[{"kind":"get","table":"t","id":"r1"},5]"#,
    r#"[{"kind":"get","table":"t"}]"#,
    r#"[{"kind":"get","table":5,"id":"r1"}]"#,
    r#"[{"kind":"get","table":"t","id":"r1","full":"maybe"}]"#,
    r#"[{"kind":"scan"}]"#,
    r#"[{"kind":"scan","table":"t","where":5}]"#,
    r#"[{"kind":"scan","table":"t","order":5}]"#,
    r#"[{"kind":"scan","table":"t","limit":0}]"#,
    r#"[{"kind":"scan","table":"t","limit":-1}]"#,
    r#"[{"kind":"scan","table":"t","limit":1.5}]"#,
    r#"[{"kind":"scan","table":"t","limit":9223372036854775807}]"#,
    r#"[{"kind":"aggregate","table":"t"}]"#,
    r#"[{"kind":"aggregate","table":"t","fn":"fly"}]"#,
    r#"[{"kind":"aggregate","table":"t","fn":"sum"}]"#,
    r#"[{"kind":"aggregate","table":"t","fn":"sum","column":5}]"#,
    r#"[{"kind":"history","table":"t","id":"r1"}]"#,
    r#"[{"kind":"history","table":"t","id":"r1","axis":"sideways"}]"#,
    r#"[{"kind":"history","table":"t","id":"r1","axis":"valid","coalesce":5}]"#,
    r#"[{"kind":"period","table":"t","relation":"overlaps"}]"#,
    r#"[{"kind":"period","table":"t","relation":"fly","period":[1,2]}]"#,
    r#"[{"kind":"period","table":"t","relation":"overlaps","period":5}]"#,
    r#"[{"kind":"period","table":"t","relation":"overlaps","period":[1]}]"#,
    r#"[{"kind":"period","table":"t","relation":"overlaps","period":[1,2,3]}]"#,
    r#"[{"kind":"period","table":"t","relation":"overlaps","period":[null,2]}]"#,
    r#"[{"kind":"allen","table":"t","id":"r1"}]"#,
    r#"[{"kind":"allen","table":"t","id":"r1","period":["x",null]}]"#,
    r#"[{"kind":"join","left":"t","right":"t"}]"#,
    r#"[{"kind":"join","left":"t","on":"s"}]"#,
    r#"[{"kind":"timeline","table":"t","fn":"count"}]"#,
    r#"[{"kind":"timeline","table":"t","fn":"count","period":[true,null]}]"#,
    r#"[{"kind":"diff","table":"t"}]"#,
    r#"[{"kind":"diff","table":"t","from":{},"to":5}]"#,
    r#"[{"kind":"diff","table":"t","from":{"tt":"x"},"to":{}}]"#,
    r#"[{"kind":"feed","after":"x"}]"#,
    r#"[{"kind":"feed","limit":"x"}]"#,
    r#"[{"kind":"stable_until"}]"#,
];
const WRONG_TIMED_READS: &[(&str, &[Kind])] = &[
    (
        r#"[{"kind":"scan","table":"nobody"}]"#,
        &[Kind::TableNotFound],
    ),
    (
        r#"[{"kind":"scan","table":"t","where":{"nobody":1}}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"kind":"scan","table":"t","where":{"n":"x"}}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"kind":"scan","table":"t","order":"-nobody"}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"kind":"aggregate","table":"t","fn":"sum","column":"nobody"}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"kind":"join","left":"t","right":"t","on":"n; --"}]"#,
        &[Kind::RowInvalidStructure],
    ),
    (
        r#"[{"kind":"period","table":"t","relation":"overlaps","period":[2,1]}]"#,
        &[Kind::InvalidRange],
    ),
    (
        r#"[{"kind":"scan","table":"t","tt":9000000000000000000}]"#,
        &[Kind::FutureMark],
    ),
    (
        r#"[{"kind":"diff","table":"t","from":{},"to":{"tt":"9000-01-01T00:00:00Z"}}]"#,
        &[Kind::FutureMark],
    ),
];
const NO_UNIQUE: &[&str] = &[
    "5",
    "true",
    "{}",
    r#""x""#,
    "[5]",
    "[null]",
    r#"["n"]"#,
    "[{}]",
    "[[5]]",
    "[[null]]",
    "[[]]",
    r#"[["tags"]]"#,
];
const NO_REFS: &[&str] = &[
    "5",
    "true",
    "{}",
    r#""x""#,
    "[5]",
    "[null]",
    "[[]]",
    "[{}]",
    r#"[{"column":"s"}]"#,
    r#"[{"table":"t"}]"#,
    r#"[{"column":5,"table":"t"}]"#,
    r#"[{"column":"s","table":5}]"#,
    r#"[{"column":"n","table":"t"}]"#,
    r#"[{"column":"tags","table":"t"}]"#,
];
const NO_SUCH_COLUMN: &[Kind] = &[Kind::RowInvalidStructure];

/// What can be written down.
pub fn written(takes: Takes) -> Vec<Group> {
    match takes {
        Takes::Time | Takes::PastTime => vec![(NO_TIME, ARGUMENT)],
        Takes::Ops => vec![(NO_OPS, ARGUMENT)],
        Takes::ReadKind => vec![(NO_KIND, ARGUMENT)],
        Takes::TimedReads => vec![(NO_TIMED_READS, ARGUMENT)],
        Takes::UniqueKeys => vec![
            (NO_UNIQUE, ARGUMENT),
            (&[r#"[["nobody"]]"#, r#"[["s","n\u0000"]]"#], NO_SUCH_COLUMN),
        ],
        Takes::References => vec![
            (NO_REFS, ARGUMENT),
            (&[r#"[{"column":"nobody","table":"t"}]"#], NO_SUCH_COLUMN),
            (
                &[r#"[{"column":"s","table":"nobody"}]"#],
                &[Kind::TableNotFound],
            ),
        ],
        _ => Vec::new(),
    }
}

/// What is too long to be written down, and what has a refusal of its own.
pub fn built(takes: Takes) -> Vec<(String, &'static [Kind])> {
    let own = |cases: &[(&str, &'static [Kind])]| -> Vec<(String, &'static [Kind])> {
        let cases = cases.iter();
        cases
            .map(|(json, kinds)| ((*json).to_owned(), *kinds))
            .collect()
    };
    match takes {
        Takes::PastTime => own(&[
            ("9000000000000000000", &[Kind::FutureMark]),
            (r#""9000-01-01T00:00:00Z""#, &[Kind::FutureMark]),
        ]),
        Takes::Ops => {
            let one = r#"{"op":"put","table":"t","id":"x","doc":{}}"#;
            let mut cases = own(WRONG_OPS);
            cases.push((format!("[{}]", vec![one; 10_001].join(",")), ARGUMENT));
            cases
        }
        Takes::Meta => vec![(format!("\"{}\"", "x".repeat(16 << 10)), ARGUMENT)],
        Takes::TimedReads => {
            let one = r#"{"kind":"feed"}"#;
            let mut cases = own(WRONG_TIMED_READS);
            cases.push((format!("[{}]", vec![one; 101].join(",")), ARGUMENT));
            cases
        }
        _ => Vec::new(),
    }
}
