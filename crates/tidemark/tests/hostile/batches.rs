//! What can be wrong about members of transactions and batches.

use server::http::wire::error::Kind;

use super::bad_values::{ARGUMENT, Group, NO_INTEGER, NO_LIST, NO_TEXT, list_of};
use super::routes::Takes;

const NO_HISTORY: &[&str] = &[
    r#""""#,
    r#""forever""#,
    r#""days(0)""#,
    r#""days(36526)""#,
    r#""days(-1)""#,
    r#""days(1.5)""#,
    r#""none ""#,
];
const NO_TRANSACTION: &[Kind] = &[Kind::TransactionNotFound];
/// The first operation is right: operations are staged all or none.
const NO_OPERATIONS: &[&str] = &[
    "[]",
    "[5]",
    "[null]",
    "[[]]",
    "[{}]",
    r#"[{"action":"delete","databaseId":"d","tableId":"t","rowId":"r1"},{"action":"delete"}]"#,
    r#"[{"action":"delete","databaseId":"d","tableId":"t","rowId":"r1"},5]"#,
    r#"[{"action":"fly","databaseId":"d","tableId":"t","rowId":"r1"}]"#,
    r#"[{"action":"fly\u0000","databaseId":"d","tableId":"t","rowId":"r1"}]"#,
    r#"[{"action":5,"databaseId":"d","tableId":"t","rowId":"r1"}]"#,
    r#"[{"action":"delete","databaseId":5,"tableId":"t","rowId":"r1"}]"#,
    r#"[{"action":"delete","databaseId":"d","tableId":[],"rowId":"r1"}]"#,
    r#"[{"action":"delete","databaseId":"d","tableId":"t","rowId":5}]"#,
    r#"[{"action":"delete","databaseId":"d","tableId":"t","rowId":"_x"}]"#,
    r#"[{"action":"delete","databaseId":"d","tableId":"t","rowId":"a\u0000"}]"#,
    r#"[{"action":"delete","databaseId":"d","tableId":"t"}]"#,
    r#"[{"action":"delete","databaseId":"d","rowId":"r1"}]"#,
    r#"[{"action":"create","databaseId":"d","tableId":"t","rowId":"x"}]"#,
    r#"[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":null}]"#,
    r#"[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":5}]"#,
    r#"[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":[1]}]"#,
    r#"[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":"{"}]"#,
    r#"[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":{"n":1,"$permissions":5}}]"#,
    r#"[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":{"n":1,"$permissions":["fly(\"any\")"]}}]"#,
    r#"[{"action":"increment","databaseId":"d","tableId":"t","rowId":"r1","data":{}}]"#,
    r#"[{"action":"increment","databaseId":"d","tableId":"t","rowId":"r1","data":{"column":5}}]"#,
    r#"[{"action":"increment","databaseId":"d","tableId":"t","rowId":"r1","data":{"column":"n","value":-1}}]"#,
    r#"[{"action":"increment","databaseId":"d","tableId":"t","rowId":"r1","data":{"column":"n","max":"x"}}]"#,
    r#"[{"action":"bulkCreate","databaseId":"d","tableId":"t","data":{}}]"#,
    r#"[{"action":"bulkCreate","databaseId":"d","tableId":"t","data":[]}]"#,
    r#"[{"action":"bulkCreate","databaseId":"d","tableId":"t","data":[{"$id":"_x","n":1}]}]"#,
    r#"[{"action":"bulkUpsert","databaseId":"d","tableId":"t","data":[{"$id":"a","n":1},5]}]"#,
    r#"[{"action":"bulkUpdate","databaseId":"d","tableId":"t","data":{"data":5}}]"#,
    r#"[{"action":"bulkUpdate","databaseId":"d","tableId":"t","data":{"queries":"x","data":{"n":1}}}]"#,
    r#"[{"action":"bulkDelete","databaseId":"d","tableId":"t","data":{"queries":[5]}}]"#,
];
const NO_READS: &[&str] = &[
    "[]",
    "[5]",
    "[null]",
    "[[]]",
    "[{}]",
    r#"[{"tableId":"t"}]"#,
    r#"[{"ids":["r1"]}]"#,
    r#"[{"tableId":5,"ids":["r1"]}]"#,
    r#"[{"tableId":"t","ids":[]}]"#,
    r#"[{"tableId":"t","ids":"r1"}]"#,
    r#"[{"tableId":"t","ids":[5]}]"#,
    r#"[{"tableId":"t","ids":["_x"]}]"#,
    r#"[{"tableId":"t","ids":["a\u0000"]}]"#,
    r#"[{"tableId":"t","ids":["r1"],"index":"one_s","keys":["r1"]}]"#,
    r#"[{"tableId":"t","index":"one_s"}]"#,
    r#"[{"tableId":"t","keys":["r1"]}]"#,
    r#"[{"tableId":"t","index":5,"keys":["r1"]}]"#,
    r#"[{"tableId":"t","index":"one_s","keys":"r1"}]"#,
    r#"[{"tableId":"t","index":"one_s","keys":[]}]"#,
    r#"[{"tableId":"t","ids":["r1"],"queries":[5]}]"#,
    r#"[{"tableId":"t","ids":["r1"]},5]"#,
    r#"[{"tableId":"t","ids":["r1"],"asOf":"yesterday"}]"#,
    r#"[{"tableId":"t","ids":["r1"],"asOf":[]}]"#,
    r#"[{"tableId":"t","ids":["r1"],"asOf":1.5}]"#,
    r#"[{"tableId":"t","ids":["r1"],"validAt":true}]"#,
    r#"[{"tableId":"t","ids":["r1"],"validAt":"2026-02-30"}]"#,
    r#"[{"tableId":"t","ids":["r1"],"validAt":9223372036854775808}]"#,
];
const WRONG_OPERATIONS: &[(&str, &[Kind])] = &[
    (
        r#"[{"action":"delete","databaseId":"nobody","tableId":"t","rowId":"r1"}]"#,
        &[Kind::DatabaseNotFound],
    ),
    (
        r#"[{"action":"delete","databaseId":"d","tableId":"' OR 1=1 --","rowId":"r1"}]"#,
        &[Kind::TableNotFound],
    ),
    (
        r#"[{"action":"delete","databaseId":"d/t","tableId":"\u0000","rowId":"r1"}]"#,
        &[Kind::DatabaseNotFound],
    ),
    (
        r#"[{"action":"delete","databaseId":"d","tableId":"t","rowId":"absent"}]"#,
        &[Kind::RowNotFound],
    ),
    (
        r#"[{"action":"update","databaseId":"d","tableId":"t","rowId":"absent","data":{"nobody":1}}]"#,
        &[Kind::RowNotFound],
    ),
    (
        r#"[{"action":"update","databaseId":"d","tableId":"t","rowId":"r1","data":{}}]"#,
        &[Kind::RowMissingPayload],
    ),
    (
        r#"[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":{}}]"#,
        &[Kind::RowMissingData],
    ),
    (
        r#"[{"action":"increment","databaseId":"d","tableId":"t","rowId":"r1","data":{"column":"nobody"}}]"#,
        &[Kind::ColumnNotFound],
    ),
    (
        r#"[{"action":"increment","databaseId":"d","tableId":"t","rowId":"r1","data":{"column":"s"}}]"#,
        &[Kind::AttributeTypeInvalid],
    ),
    (
        r#"[{"action":"bulkUpdate","databaseId":"d","tableId":"t","data":{"data":{}}}]"#,
        &[Kind::RowMissingPayload],
    ),
    (
        r#"[{"action":"bulkDelete","databaseId":"d","tableId":"t","data":{"queries":["x"]}}]"#,
        &[Kind::QueryInvalid],
    ),
    (
        r#"[{"action":"bulkDelete","databaseId":"d","tableId":"p","data":{}}]"#,
        &[Kind::BadRequest],
    ),
];

/// What can be written down.
pub fn written(takes: Takes) -> Vec<Group> {
    match takes {
        Takes::KeptAge => vec![
            (NO_INTEGER, ARGUMENT),
            (&["-1", "31536001", "9007199254740993"], ARGUMENT),
        ],
        Takes::Past => vec![
            (NO_TEXT, ARGUMENT),
            (&[r#""""#, r#""Keys""#, r#""as-of""#, r#""now ""#], ARGUMENT),
        ],
        Takes::History => vec![(NO_TEXT, ARGUMENT), (NO_HISTORY, ARGUMENT)],
        Takes::Judged => vec![(NO_TEXT, ARGUMENT), (&[r#""""#, r#""then""#], ARGUMENT)],
        Takes::OpenTime => vec![
            (NO_INTEGER, ARGUMENT),
            (&["-1", "0", "59", "3601", "9223372036854775807"], ARGUMENT),
        ],
        Takes::Operations | Takes::BatchOperations => {
            vec![(NO_LIST, ARGUMENT), (NO_OPERATIONS, ARGUMENT)]
        }
        Takes::Reads => vec![(NO_LIST, ARGUMENT), (NO_READS, ARGUMENT)],
        Takes::Transaction => {
            let unknown: &[&str] = &[r#""nobody""#, r#""a\u0000""#, r#""' OR 1=1 --""#];
            vec![(NO_TEXT, ARGUMENT), (unknown, NO_TRANSACTION)]
        }
        other => unreachable!("{other:?} is no part of a batch"),
    }
}

/// What is too long to be written down, and what has a refusal of its own.
pub fn built(takes: Takes) -> Vec<(String, &'static [Kind])> {
    let own = |cases: &[(&str, &'static [Kind])]| -> Vec<(String, &'static [Kind])> {
        cases
            .iter()
            .map(|(json, kinds)| ((*json).to_owned(), *kinds))
            .collect()
    };
    match takes {
        Takes::Operations => {
            let mut cases: Vec<_> = own(WRONG_OPERATIONS);
            let many = list_of(101, |n| {
                format!(
                    r#"{{"action":"create","databaseId":"d","tableId":"t","rowId":"m{n}",
                        "data":{{"n":1}}}}"#
                )
            });
            cases.push((many, &[Kind::TransactionLimitExceeded]));
            cases
        }
        Takes::BatchOperations => {
            // The row is not there when all is done at once, and is looked for alike.
            let mut cases: Vec<_> = own(WRONG_OPERATIONS);
            cases.retain(|(json, _)| !json.contains(r#"absent","data":{"nobody""#));
            let many = list_of(1_001, |n| {
                format!(r#"{{"action":"create","tableId":"t","rowId":"m{n}","data":{{"n":1}}}}"#)
            });
            cases.push((many, ARGUMENT));
            cases
        }
        Takes::Reads => {
            let part = |ids: usize| {
                let ids = list_of(ids, |n| format!(r#""m{n}""#));
                format!(r#"{{"tableId":"t","ids":{ids}}}"#)
            };
            vec![
                (list_of(101, |_| part(1)), ARGUMENT),
                (list_of(1, |_| part(1_001)), ARGUMENT),
                (list_of(2, |_| part(501)), ARGUMENT),
            ]
        }
        _ => Vec::new(),
    }
}
