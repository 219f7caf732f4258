//! Parameters, headers and bodies, as the document describes them.
//!
//! A body that is described is one that can be read; what of it fits a table is not described,
//! because the document knows no tables.

use engine::{Family, TRANSACTION_TTL_S_MAX, TRANSACTION_TTL_S_MIN};
use model::calendar::{DATETIME_MAX, DATETIME_MIN};
use model::id::ID_CHARS_MAX;
use model::options::{PINNED_MAX_AGE_S_MAX, TTL_S_MAX};
use serde_json::{Map, Value, json};

use crate::http::head::query_string::QUERIES_MAX;
use crate::http::input::commit_meta;
use crate::http::input::context::SEARCH_CHARS_MAX;
use crate::http::input::idempotency_key::KEY_CHARS_MAX;
use crate::http::input::row_input::ROWS_MAX;
use crate::http::routes::native::read;
use crate::http::routes::transactions::OPERATIONS_MAX as STAGED_MAX;
use crate::http::wire::Words;

mod batches;
mod functions;
mod server;
mod tables;

/// A schema by its name.
pub(super) type Named = (&'static str, Value);

/// What differs by route family.
const OF_FAMILY: [&str; 15] = [
    "Row",
    "Rows",
    "RowOrRows",
    "NewRows",
    "ManyRows",
    "Table",
    "Tables",
    "NewTable",
    "TableChange",
    "Column",
    "Columns",
    "NewRelationship",
    "Index",
    "Indexes",
    "NewIndex",
];

/// The name of a schema in the words of a family.
pub(super) fn name(schema: &str, words: &Words) -> String {
    if words.family() == Family::Documents && OF_FAMILY.contains(&schema) {
        format!("{schema}Older")
    } else {
        schema.to_owned()
    }
}

pub(super) fn reference(schema: &str) -> Value {
    let reference = format!("#/components/schemas/{schema}");
    json!({ "$ref": reference })
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

/// An object that always has all of these members, by their schemas.
fn whole(groups: &[(Value, &[&str])]) -> Value {
    let mut properties = Map::new();
    for (schema, names) in groups {
        let members = names
            .iter()
            .map(|name| ((*name).to_owned(), schema.clone()));
        properties.extend(members);
    }
    let required: Vec<String> = properties.keys().cloned().collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// A page of a list.
fn listed(name: &str, item: Value) -> Value {
    whole(&[(mark(), &["total"]), (list_of(item), &[name])])
}

fn list_of(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn instant() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// An instant, or a text without a letter.
fn instant_or_none() -> Value {
    json!({"anyOf": [instant(), {"const": ""}]})
}

fn integer() -> Value {
    json!({"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX})
}

fn mark() -> Value {
    json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX})
}

/// A mark, which is a text where `Accept` asks for texts.
fn mark_in_any_form() -> Value {
    json!({"anyOf": [mark(), {"type": "string", "format": "date-time"}]})
}

fn id() -> Value {
    json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$", "maxLength": ID_CHARS_MAX})
}

/// The id of what is created; the server makes one up for `unique()`.
fn new_id() -> Value {
    json!({"anyOf": [id(), {"const": "unique()"}]})
}

fn texts() -> Value {
    list_of(text())
}

fn queries() -> Value {
    json!({"type": "array", "items": {"type": "string"}, "maxItems": QUERIES_MAX,
        "description": "Queries, each the JSON text of `{method, attribute, values}`."})
}

/// Columns by their keys.
fn content() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

/// A parameter of a path.
pub(super) fn path_parameter(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": id()})
}

/// The parameters of queries and heads.
pub(super) fn parameters() -> Value {
    let in_query =
        |name: &str, schema: Value| json!({"name": name, "in": "query", "schema": schema});
    let header = |name: &str, what: &str, schema: Value| {
        let place = "header";
        json!({"name": name, "in": place, "description": what, "schema": schema})
    };
    let key = json!({"type": "string", "pattern": "^[!-~]*$", "minLength": 1,
        "maxLength": KEY_CHARS_MAX});
    json!({
        "queries": in_query("queries[]", queries()),
        "total": in_query("total", json!({"type": "boolean"})),
        "ttl": in_query("ttl", json!({"type": "integer", "minimum": 0, "maximum": TTL_S_MAX})),
        "permissions": in_query("permissions", json!({"enum": ["now", "as-of"]})),
        "search": in_query("search", json!({"type": "string", "maxLength": SEARCH_CHARS_MAX})),
        "transactionId": in_query("transactionId", text()),
        "archive": in_query("type", json!({"enum": ["source", "output"]})),
        "contentRange": header(
            "Content-Range",
            "Which part of the archive the form holds.",
            json!({"type": "string", "pattern": "^bytes [0-9]+-[0-9]+/[0-9]+$"}),
        ),
        "deploymentId": header(
            "X-Appwrite-ID",
            "The deployment to which the part belongs, from the second part on.",
            id(),
        ),
        "cache": header(
            "X-Tidemark-Cache",
            "What is wanted of the cache of lists.",
            json!({"enum": ["bypass"]}),
        ),
        "minMark": header(
            "X-Tidemark-Min-Mark",
            "The answer is not older than the commit of this mark.",
            mark(),
        ),
        "meta": header(
            "X-Tidemark-Meta",
            "What the author of a write says of its commits: a JSON object.",
            json!({"type": "string", "maxLength": commit_meta::META_BYTES_MAX}),
        ),
        "idempotencyKey": header(
            "Idempotency-Key",
            "Sent again under the same key within an hour, the request is not done again.",
            key,
        ),
        "timestamp": header(
            "X-Appwrite-Timestamp",
            "Rows that were changed after this are left alone.",
            json!({"type": "string", "format": "date-time"}),
        ),
    })
}

/// The headers of answers.
pub(super) fn headers() -> Value {
    json!({
        "X-Tidemark-Mark": {
            "description": "The mark that the answer is true for.",
            "schema": mark(),
        },
        "X-Tidemark-Cache": {
            "description": "What the cache did, with the mark that the rows were read at.",
            "schema": {"type": "string", "pattern": "^(hit|miss|bypass); mark=[0-9]+; age=[0-9]+"},
        },
        "X-Tidemark-Erased": {
            "description": "That rows are erased since which the answer may have shown once.",
            "schema": {"const": "true"},
        },
    })
}

/// What is said in the words of each route family.
pub(super) fn of_family(words: &'static Words) -> Vec<Named> {
    [of_rows_in(words), tables::of_family(words)].concat()
}

fn of_rows_in(words: &Words) -> Vec<Named> {
    let row = reference(&name("Row", words));
    let rows = reference(&name("Rows", words));
    let table = if words.family() == Family::Tables {
        "$tableId"
    } else {
        "$collectionId"
    };
    let mut new_row = Map::new();
    new_row.insert(words.row_id.to_owned(), new_id());
    new_row.insert("data".to_owned(), content());
    new_row.insert("permissions".to_owned(), texts());
    new_row.insert("transactionId".to_owned(), text());
    let several = json!({"type": "array", "minItems": 1, "maxItems": ROWS_MAX,
        "items": content()});
    let mut many = Map::new();
    many.insert(words.rows.to_owned(), several);
    many.insert("transactionId".to_owned(), text());
    let mut listed = Map::new();
    listed.insert("total".to_owned(), mark());
    listed.insert(words.rows.to_owned(), list_of(row.clone()));
    let many = object(&[words.rows], Value::Object(many));
    vec![
        (
            "Row",
            object(
                &["$databaseId", table],
                json!({
                    "$id": text(),
                    "$sequence": text(),
                    "$createdAt": text(),
                    "$updatedAt": text(),
                    "$permissions": texts(),
                    "$databaseId": text(),
                    table: text(),
                }),
            ),
        ),
        (
            "Rows",
            object(&["total", words.rows], Value::Object(listed)),
        ),
        ("RowOrRows", json!({"anyOf": [row, rows]})),
        (
            "NewRows",
            json!({"anyOf": [object(&[words.row_id, "data"], Value::Object(new_row)), many]}),
        ),
        ("ManyRows", many),
    ]
}

/// What is said in the same words by all.
pub(super) fn of_own() -> Vec<Named> {
    [
        of_rows(),
        of_transactions(),
        of_times(),
        batches::all(),
        functions::all(),
        server::all(),
        tables::of_own(),
    ]
    .concat()
}

fn of_rows() -> Vec<Named> {
    let staging = |more: Value| {
        let mut properties = more;
        properties["transactionId"] = text();
        object(&[], properties)
    };
    let number = json!({"type": "number"});
    vec![
        ("Staging", staging(json!({}))),
        (
            "RowChange",
            staging(json!({"data": content(), "permissions": texts()})),
        ),
        ("Matching", staging(json!({"queries": queries()}))),
        (
            "MatchingChange",
            staging(json!({"data": content(), "queries": queries()})),
        ),
        (
            "RowQuery",
            staging(json!({
                "queries": queries(),
                "total": {"type": "boolean"},
                "ttl": {"type": "integer", "minimum": 0, "maximum": TTL_S_MAX},
                "permissions": {"enum": ["now", "as-of"]},
            })),
        ),
        (
            "Increment",
            staging(json!({"value": number, "max": number})),
        ),
        (
            "Decrement",
            staging(json!({"value": number, "min": number})),
        ),
    ]
}

fn of_transactions() -> Vec<Named> {
    let transaction = object(
        &[
            "$id",
            "$createdAt",
            "$updatedAt",
            "status",
            "operations",
            "expiresAt",
        ],
        json!({
            "$id": text(),
            "$createdAt": text(),
            "$updatedAt": text(),
            "status": {"enum": ["pending", "committed", "failed"]},
            "operations": mark(),
            "expiresAt": text(),
        }),
    );
    let flag = json!({"type": "boolean"});
    vec![
        ("Transaction", transaction),
        (
            "Transactions",
            object(
                &["total", "transactions"],
                json!({
                    "total": mark(),
                    "transactions": list_of(reference("Transaction")),
                }),
            ),
        ),
        (
            "NewTransaction",
            object(
                &[],
                json!({"ttl": {
                    "type": "integer",
                    "minimum": TRANSACTION_TTL_S_MIN,
                    "maximum": TRANSACTION_TTL_S_MAX,
                }}),
            ),
        ),
        (
            "TransactionEnd",
            object(&[], json!({"commit": flag, "rollback": flag})),
        ),
        ("Operation", operation()),
        (
            "Operations",
            object(
                &["operations"],
                json!({"operations": {
                    "type": "array", "minItems": 1, "maxItems": STAGED_MAX,
                    "items": reference("Operation"),
                }}),
            ),
        ),
    ]
}

/// An operation on rows, in the words of either family.
fn operation() -> Value {
    let actions = [
        "create",
        "update",
        "upsert",
        "delete",
        "increment",
        "decrement",
        "bulkCreate",
        "bulkUpdate",
        "bulkUpsert",
        "bulkDelete",
    ];
    object(
        &["action"],
        json!({
            "action": {"enum": actions},
            "databaseId": id(),
            "tableId": id(),
            "collectionId": id(),
            "rowId": id(),
            "documentId": id(),
            "data": {"anyOf": [content(), list_of(content())]},
        }),
    )
}

/// Transactions and reads over time, in our own words and in those of the case language.
fn of_times() -> Vec<Named> {
    vec![
        (
            "Time",
            json!({
                "description": "Microseconds since 1970, a date and time, or `min`.",
                "anyOf": [
                    {
                        "type": "integer", "format": "int64",
                        "minimum": DATETIME_MIN.0, "maximum": DATETIME_MAX.0,
                    },
                    {"type": "string", "format": "date-time"},
                    {"const": "min"},
                ],
            }),
        ),
        (
            "TimedTransaction",
            object(
                &["ops"],
                json!({
                    "ops": {
                        "type": "array", "minItems": 1, "maxItems": engine::OPERATIONS_MAX,
                        "items": timed_operation(),
                    },
                    "meta": {"description": "Kept with the commit."},
                    "minMark": mark(),
                }),
            ),
        ),
        (
            "Transacted",
            json!({"anyOf": [
                committed("$systemFrom", reference("Time"), ["tableId", "rowId"]),
                committed("tt", mark(), ["table", "id"]),
            ]}),
        ),
        (
            "Horizon",
            object(&["horizon"], json!({"horizon": mark_in_any_form()})),
        ),
        (
            "Status",
            object(
                &["role", "mark", "horizon", "lineage"],
                json!({
                    "role": {"enum": ["both"]},
                    "mark": mark_in_any_form(),
                    "horizon": mark_in_any_form(),
                    "lineage": text(),
                }),
            ),
        ),
        (
            "Document",
            object(&["openapi"], json!({"openapi": {"const": "3.1.0"}})),
        ),
    ]
    .into_iter()
    .chain(of_undo())
    .chain(of_timed_reads())
    .chain(of_constraints())
    .collect()
}

/// What was committed at an instant, and which rows operations affected.
fn committed(name: &str, instant: Value, [table, row]: [&str; 2]) -> Value {
    let affected = object(
        &[table, row, "affected"],
        json!({(table): text(), (row): text(), "affected": {"enum": [0, 1]}}),
    );
    let rows = list_of(affected);
    object(&[name, "rows"], json!({(name): instant, "rows": rows}))
}

/// Members of the metadata of commits, by which they are found.
fn records_meta() -> Value {
    json!({"type": "object", "maxProperties": read::META_MEMBERS_MAX})
}

/// Which commits are undone, and what was undone, or would be.
fn of_undo() -> Vec<Named> {
    let undo = object(
        &["after"],
        json!({
            "after": reference("Time"),
            "until": reference("Time"),
            "user": text(),
            "meta": records_meta(),
            "dryRun": {"type": "boolean"},
        }),
    );
    let change = object(
        &["$validFrom", "$validTo", "data"],
        json!({
            "$validFrom": reference("Time"),
            "$validTo": {"anyOf": [reference("Time"), {"type": "null"}]},
            "data": {"anyOf": [content(), {"type": "null"}]},
        }),
    );
    let row = object(
        &["tableId", "rowId", "$permissions", "changes"],
        json!({
            "tableId": text(),
            "rowId": text(),
            "$permissions": {"anyOf": [list_of(text()), {"type": "null"}]},
            "changes": list_of(change),
        }),
    );
    let undone = object(
        &["$systemFrom", "commits", "rows"],
        json!({
            "$systemFrom": {"anyOf": [reference("Time"), {"type": "null"}]},
            "commits": integer(),
            "rows": list_of(row),
        }),
    );
    vec![("Undo", undo), ("Undone", undone)]
}

/// An operation over a valid period.
fn timed_operation() -> Value {
    let operations = [
        "insert", "put", "patch", "update", "delete", "erase", "assert",
    ];
    let end = json!({"anyOf": [reference("Time"), {"const": "next"}, {"type": "null"}]});
    let mut operation = object(
        &["op"],
        json!({
            "op": {"enum": operations},
            "tableId": id(),
            "rowId": id(),
            "data": content(),
            "$validFrom": reference("Time"),
            "$validTo": end,
            "exists": {"type": "boolean"},
            "equals": content(),
            "validAt": reference("Time"),
            "unchangedSince": reference("Time"),
            "table": id(),
            "id": id(),
            "doc": content(),
            "valid_from": reference("Time"),
            "valid_to": end,
            "vt": reference("Time"),
            "unchanged_since": reference("Time"),
        }),
    );
    operation["anyOf"] = json!([{"required": ["tableId", "rowId"]}, {"required": ["table", "id"]}]);
    operation
}

fn of_timed_reads() -> Vec<Named> {
    let time_or_null = json!({"anyOf": [reference("Time"), {"type": "null"}]});
    let answer = |valid: &str, system: &str| {
        object(
            &["rows", valid, system, "stableUntil"],
            json!({
                "rows": true,
                (valid): reference("Time"),
                (system): {"anyOf": [integer(), reference("Time")]},
                "stableUntil": time_or_null,
                "cursor": {"anyOf": [text(), {"type": "null"}]},
                "erased": {"const": true},
            }),
        )
    };
    let answer = json!({"anyOf": [answer("validAt", "asOf"), answer("vt", "tt")]});
    let several =
        json!({"type": "array", "maxItems": read::READS_MAX, "items": reference("TimedRead")});
    let answers = list_of(reference("TimedAnswerOfOne"));
    vec![
        ("TimedRead", timed_read()),
        (
            "TimedReads",
            json!({"anyOf": [
                reference("TimedRead"),
                object(&["reads"], json!({"reads": several})),
            ]}),
        ),
        ("TimedAnswerOfOne", answer),
        (
            "TimedAnswer",
            json!({"anyOf": [
                reference("TimedAnswerOfOne"),
                object(&["answers"], json!({"answers": answers})),
            ]}),
        ),
    ]
}

/// A read at given times.
fn timed_read() -> Value {
    let kinds = [
        "get",
        "scan",
        "aggregate",
        "history",
        "period",
        "allen",
        "join",
        "timeline",
        "diff",
        "tx",
        "feed",
        "stableUntil",
        "stable_until",
    ];
    let times = || reference("Time");
    let point = object(
        &[],
        json!({"validAt": times(), "asOf": times(), "vt": times(), "tt": times()}),
    );
    let period = json!({"type": "array", "minItems": 2, "maxItems": 2,
        "items": {"anyOf": [reference("Time"), {"type": "null"}]}});
    object(
        &["kind"],
        json!({
            "kind": {"enum": kinds},
            "validAt": times(),
            "asOf": times(),
            "tableId": id(),
            "rowId": id(),
            "vt": times(),
            "tt": times(),
            "table": id(),
            "id": id(),
            "full": {"type": "boolean"},
            "where": content(),
            "rightWhere": content(),
            "right_where": content(),
            "cursor": text(),
            "order": text(),
            "limit": {"type": "integer", "minimum": 1, "maximum": engine::PIECES_MAX},
            "fn": {"enum": ["count", "sum", "min", "max", "avg"]},
            "column": text(),
            "axis": {"enum": ["valid", "system", "both"]},
            "coalesce": {"type": "boolean"},
            "relation": text(),
            "period": period.clone(),
            "validBetween": period.clone(),
            "valid": period,
            "user": text(),
            "meta": records_meta(),
            "left": id(),
            "right": id(),
            "on": text(),
            "from": point,
            "to": point,
            "after": times(),
        }),
    )
}

/// What is decided about a table's past.
fn options(are_shown: bool) -> Value {
    let mut properties = json!({
        "pinnedMaxAge": {"type": "integer", "minimum": 0, "maximum": PINNED_MAX_AGE_S_MAX},
        "history": {"type": "string", "pattern": "^(keep|none|days\\([0-9]+\\))$"},
        "past": {"enum": ["keys", "both", "now"]},
        "ttlMax": {"type": "integer", "minimum": 0, "maximum": TTL_S_MAX},
    });
    if !are_shown {
        return object(&[], properties);
    }
    properties["keptFrom"] = json!({"anyOf": [reference("Time"), {"type": "null"}]});
    let shown = ["pinnedMaxAge", "history", "past", "ttlMax", "keptFrom"];
    object(&shown, properties)
}

fn explained() -> Value {
    let text_or_null = json!({"type": ["string", "null"]});
    object(
        &["query", "plan", "index", "inOrder", "wantedIndex"],
        json!({
            "query": text(),
            "plan": list_of(text()),
            "index": text_or_null,
            "inOrder": {"type": "boolean"},
            "wantedIndex": text_or_null,
        }),
    )
}

fn of_constraints() -> Vec<Named> {
    let refs = list_of(object(
        &["column", "table"],
        json!({"column": text(), "table": id()}),
    ));
    let unique = list_of(json!({"type": "array", "minItems": 1, "items": {"type": "string"}}));
    let kinds = json!({"enum": ["integer", "float", "string", "boolean"]});
    let table = object(
        &[],
        json!({
            "columns": {"type": "object", "additionalProperties": kinds},
            "unique": unique,
            "refs": refs,
        }),
    );
    vec![
        ("TableOptions", options(true)),
        ("TableOptionsChange", options(false)),
        ("Explained", explained()),
        (
            "Constraints",
            object(&[], json!({"unique": unique, "refs": refs})),
        ),
        (
            "TestTables",
            object(
                &[],
                json!({"tables": {"type": "object", "additionalProperties": table}}),
            ),
        ),
    ]
}
