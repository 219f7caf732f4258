//! What is attacked: tables that strangers may read and add to, as an application opens them.

use anyhow::{Context, Result};
use measure::connection::{Access, Connection};
use measure::draw::Draw;
use measure::early_end::EarlyEnd;
use serde_json::{Value, json};

/// The database of all tables.
pub const DATABASE: &str = "arena";
/// Rows of every size, that any caller may read; the load by key reads and writes it, too.
pub const OPEN: &str = "open";
/// Rows that show themselves to some: every second one to strangers.
pub const SECURED: &str = "secured";
/// Rows with a relationship to `authors`.
pub const LINKED: &str = "linked";
const AUTHORS: &str = "authors";
/// Takes what strangers write.
pub const INBOX: &str = "inbox";
/// The tables that are read.
pub const READ: [&str; 3] = [OPEN, SECURED, LINKED];

/// The columns of every table.
pub const COLUMNS: [(&str, &str); 12] = [
    ("title", "varchar"),
    ("words", "text"),
    ("body", "longtext"),
    ("n", "integer"),
    ("m", "integer"),
    ("f", "double"),
    ("flag", "boolean"),
    ("at", "datetime"),
    ("mail", "email"),
    ("ip", "ip"),
    ("mood", "enum"),
    ("tags", "varchar"),
];
/// What `mood` may be.
pub const MOODS: [&str; 3] = ["calm", "cross", "glad"];
/// Words of texts.
pub const WORDS: [&str; 12] = [
    "ant", "antler", "apple", "bay", "bee", "beech", "cat", "cedar", "delta", "été", "ünder",
    "zebra",
];

const BATCH_ROWS: u32 = 50;
/// Rows that are linked, and rows that they are linked to.
const LINKED_ROWS: u32 = 100;
const AUTHORS_ROWS: u32 = 10;
/// Every so many rows one is large, and every so many of those is very large.
const LARGE_EVERY: u32 = 50;
const LARGER_EVERY: u32 = 500;
const LARGE_BYTES: usize = 20 << 10;
const LARGER_BYTES: usize = 200 << 10;

/// Makes the tables and fills them: `rows` in each of the two large ones.
///
/// # Errors
/// When the server refuses, or an end was asked for.
pub fn set(access: &Access, stop: &EarlyEnd, (rows, seed): (u32, u64)) -> Result<()> {
    let mut connection = Connection::open(access.address)?;
    let mut post = |route: &str, body: Value| -> Result<()> {
        let answer = connection.call(access, "POST", route, &body);
        answer.map(drop).with_context(|| route.to_owned())
    };
    post(
        "/tablesdb",
        json!({ "databaseId": DATABASE, "name": "Arena" }),
    )?;
    let tables = format!("/tablesdb/{DATABASE}/tables");
    for table in [OPEN, SECURED, LINKED, AUTHORS, INBOX] {
        post(&tables, definition(table))?;
    }
    let relation = json!({
        "relatedTableId": AUTHORS, "type": "manyToOne", "key": "author", "twoWay": true,
        "twoWayKey": "books",
    });
    post(&format!("{tables}/{LINKED}/columns/relationship"), relation)?;
    let mut draw = Draw(seed);
    for table in [OPEN, SECURED] {
        for start in (0..rows).step_by(BATCH_ROWS as usize) {
            stop.check()?;
            let numbers = start..rows.min(start + BATCH_ROWS);
            let batch: Vec<Value> = numbers.map(|nth| row(table, nth, &mut draw)).collect();
            post(&rows_route(table), json!({ "rows": batch }))?;
        }
    }
    let counts = [(AUTHORS, AUTHORS_ROWS), (LINKED, LINKED_ROWS)];
    for (table, count) in counts {
        for nth in 0..count {
            let mut data = content(nth, &mut draw);
            if table == LINKED {
                data["author"] = json!(row_id(nth % AUTHORS_ROWS));
            }
            post(
                &rows_route(table),
                json!({ "rowId": row_id(nth), "data": data }),
            )?;
        }
    }
    Ok(())
}

/// The route of a table's rows.
pub fn rows_route(table: &str) -> String {
    format!("/tablesdb/{DATABASE}/tables/{table}/rows")
}

/// The id of a row.
pub fn row_id(nth: u32) -> String {
    format!("r{nth}")
}

fn definition(table: &str) -> Value {
    let columns = COLUMNS.map(|(key, kind)| {
        let mut column = json!({ "key": key, "type": kind, "required": false });
        match kind {
            "varchar" => column["size"] = json!(256),
            "enum" => column["elements"] = json!(MOODS),
            _ => {}
        }
        column["array"] = json!(key == "tags");
        column
    });
    let permissions = match table {
        SECURED => json!(["create(\"any\")"]),
        INBOX => json!([
            "read(\"any\")",
            "create(\"any\")",
            "update(\"any\")",
            "delete(\"any\")"
        ]),
        _ => json!(["read(\"any\")", "create(\"any\")"]),
    };
    json!({
        "tableId": table,
        "name": table,
        "permissions": permissions,
        "rowSecurity": table == SECURED,
        "columns": columns,
        "indexes": [
            { "key": "by_n", "type": "key", "attributes": ["n"] },
            { "key": "by_words", "type": "fulltext", "attributes": ["words"] },
        ],
    })
}

fn row(table: &str, nth: u32, draw: &mut Draw) -> Value {
    let mut row = content(nth, draw);
    row["$id"] = json!(row_id(nth));
    if table == SECURED {
        let who = if nth.is_multiple_of(2) {
            "any"
        } else {
            "users"
        };
        row["$permissions"] = json!([format!("read(\"{who}\")")]);
    }
    row
}

/// The columns of a row.
pub fn content(nth: u32, draw: &mut Draw) -> Value {
    let bytes = match nth {
        nth if nth % LARGER_EVERY == 0 => LARGER_BYTES,
        nth if nth % LARGE_EVERY == 0 => LARGE_BYTES,
        _ => 100,
    };
    let word = |draw: &mut Draw| draw.pick(&WORDS);
    json!({
        "title": format!("{} {} {nth}", word(draw), word(draw)),
        "words": (0..20).map(|_| word(draw)).collect::<Vec<_>>().join(" "),
        "body": text(bytes, draw),
        "n": nth,
        "m": draw.below(100),
        "f": draw.below(10_000) as f64 / 7.0,
        "flag": nth.is_multiple_of(3),
        "at": format!("2026-01-{:02}T00:00:00.000Z", 1 + nth % 28),
        "mail": format!("a{nth}@example.com"),
        "ip": format!("10.0.{}.{}", nth / 250 % 250, nth % 250),
        "mood": draw.pick(&MOODS),
        "tags": [word(draw), word(draw)],
    })
}

/// Letters a and b by chance: what an expression that remembers many places finds hardest.
fn text(bytes: usize, draw: &mut Draw) -> String {
    let letters = (0..bytes).map(|_| if draw.below(2) == 0 { 'a' } else { 'b' });
    letters.collect()
}
