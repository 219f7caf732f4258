//! Batches of reads and writes of rows.

use serde_json::{Value, json};

use super::{Named, id, integer, list_of, mark, object, queries, reference, text};
use crate::http::routes::batch::{OPERATIONS_MAX, READS_MAX};

pub(super) fn all() -> Vec<Named> {
    let row_or_null = json!({"anyOf": [reference("Row"), {"type": "null"}]});
    let violation = object(
        &["row", "against", "valid_from", "valid_to"],
        json!({"row": id(), "against": text(), "valid_from": {"type": ["integer", "string"]},
            "valid_to": {"type": ["integer", "null"]}}),
    );
    let refusal = object(
        &["message", "code", "type", "version"],
        json!({"message": text(), "code": integer(), "type": text(), "version": text(),
            "index": integer(), "detail": text(), "violations": list_of(violation),
            "more": {"type": "boolean"}}),
    );
    let refused = object(&["error"], json!({"error": reference("Refusal")}));
    let found = object(
        &["rows"],
        json!({
            "rows": list_of(row_or_null), "asOf": reference("Time"), "validAt": reference("Time"),
            "erased": {"const": true},
        }),
    );
    let mark_or_null = json!({"anyOf": [mark(), {"type": "null"}]});
    let written = object(&["mark"], json!({"mark": mark_or_null}));
    vec![
        ("Refusal", refusal),
        ("BatchReadPart", batch_read_part()),
        ("BatchFoundPart", json!({"anyOf": [found, refused]})),
        (
            "BatchReads",
            object(
                &["reads"],
                json!({"reads": {
                    "type": "array", "minItems": 1, "maxItems": READS_MAX,
                    "items": reference("BatchReadPart"),
                }}),
            ),
        ),
        (
            "BatchRead",
            object(
                &["mark", "results"],
                json!({
                    "mark": mark(), "results": list_of(reference("BatchFoundPart")),
                }),
            ),
        ),
        (
            "BatchWrites",
            object(
                &["operations"],
                json!({
                    "operations": {
                        "type": "array", "minItems": 1, "maxItems": OPERATIONS_MAX,
                        "items": reference("Operation"),
                    },
                    "atomic": {"type": "boolean"},
                }),
            ),
        ),
        ("BatchWrittenPart", json!({"anyOf": [written, refused]})),
        (
            "BatchWritten",
            object(
                &["results"],
                json!({"results": list_of(reference("BatchWrittenPart"))}),
            ),
        ),
    ]
}

/// Rows of one table, by ids or keys.
fn batch_read_part() -> Value {
    let keys = json!({"type": "array", "items": {"description":
        "The value of an index of one column, or an array with a value for each."}});
    json!({
        "type": "object",
        "required": ["tableId"],
        "properties": {
            "tableId": id(),
            "ids": list_of(id()),
            "index": text(),
            "keys": keys,
            "queries": queries(),
            "asOf": reference("Time"),
            "validAt": reference("Time"),
        },
        "oneOf": [{"required": ["ids"]}, {"required": ["index", "keys"]}],
    })
}
