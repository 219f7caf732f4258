//! The objects of the workload, and the requests that write and read them.

use anyhow::Result;
use measure::connection::{Access, Connection};
use serde_json::{Value, json};

use super::drive::Call;
use crate::seed;

const DATABASE: &str = "twice";
const TABLE: &str = "objects";
/// The unique index over the key of each object.
pub const BY_CODE: &str = "by_code";
/// Objects of a batch that is written or read.
pub const BATCH: u32 = 100;

/// Objects that are written together and read back together.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    /// No two sets have the same.
    pub number: u64,
    /// How many objects.
    pub count: u32,
}

/// What is done with a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Each object by a request of its own.
    WriteOne,
    /// A hundred objects a request, in one transaction.
    WriteBatch,
    /// All of the set in one query.
    ReadAll,
    /// A hundred unique keys a request.
    ReadBatch,
    /// A unique key a request, by the route for batches.
    ByKey,
    /// The same by a list whose filter is the key, as any SDK asks.
    ByKeyList,
    /// An id a request.
    ById,
}

impl Op {
    /// All, in the order of the published table.
    pub const ALL: [Op; 7] = [
        Op::WriteOne,
        Op::WriteBatch,
        Op::ReadAll,
        Op::ReadBatch,
        Op::ByKey,
        Op::ByKeyList,
        Op::ById,
    ];

    /// Its name for programs.
    pub fn key(self) -> &'static str {
        match self {
            Op::WriteOne => "write_one",
            Op::WriteBatch => "write_batch",
            Op::ReadAll => "read_all",
            Op::ReadBatch => "read_batch",
            Op::ByKey => "by_key",
            Op::ByKeyList => "by_key_list",
            Op::ById => "by_id",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Op::WriteOne => "write one by one",
            Op::WriteBatch => "write in batches of 100",
            Op::ReadAll => "read all in one query",
            Op::ReadBatch => "read in batches of 100 keys",
            Op::ByKey => "read by unique key",
            Op::ByKeyList => "read by unique key, as a list",
            Op::ById => "read by id",
        }
    }

    /// The requests of one client.
    pub fn calls(self, access: &Access, set: Set) -> Vec<Call> {
        let ask = |method: &str, route: &str, body: &str, objects: u32| Call {
            request: access.request(method, route, body),
            objects,
        };
        let rows = rows_route(TABLE);
        let each = 0..set.count;
        match self {
            Op::WriteOne => each
                .map(|nth| ask("POST", &rows, &set.creation(nth).to_string(), 1))
                .collect(),
            Op::WriteBatch => set
                .batches()
                .map(|batch| {
                    let all: Vec<Value> = batch.clone().map(|nth| set.row(nth)).collect();
                    let body = json!({ "rows": all }).to_string();
                    ask("POST", &rows, &body, batch.len() as u32)
                })
                .collect(),
            Op::ReadAll => {
                let queries = [equal("run", json!(set.number)), limit(set.count)];
                vec![ask("GET", &listing(TABLE, &queries), "", set.count)]
            }
            Op::ReadBatch => set
                .batches()
                .map(|batch| {
                    let keys: Vec<String> = batch.clone().map(|nth| set.code(nth)).collect();
                    ask("POST", &reads_route(), &by_keys(&keys), batch.len() as u32)
                })
                .collect(),
            Op::ByKey => each
                .map(|nth| ask("POST", &reads_route(), &by_keys(&[set.code(nth)]), 1))
                .collect(),
            // Past the cache: lists that no client asks for again would weigh on the next writes.
            Op::ByKeyList => each
                .map(|nth| {
                    let queries = [equal("code", json!(set.code(nth))), limit(1)];
                    Call {
                        request: access.uncached(&listing(TABLE, &queries)),
                        objects: 1,
                    }
                })
                .collect(),
            Op::ById => each
                .map(|nth| ask("GET", &format!("{rows}/{}", set.id(nth)), "", 1))
                .collect(),
        }
    }
}

impl Set {
    fn id(self, nth: u32) -> String {
        format!("o{}-{nth}", self.number)
    }

    fn code(self, nth: u32) -> String {
        format!("code-{:06}-{nth:06}", self.number)
    }

    /// Some 120 bytes, as in the published workload's own comparison.
    fn content(self, nth: u32) -> Value {
        json!({
            "code": self.code(nth),
            "name": format!("An object of the set {}, number {nth}", self.number),
            "status": nth % 10,
            "price": u64::from(nth) * 37 % 10_000,
            "run": self.number,
        })
    }

    fn creation(self, nth: u32) -> Value {
        json!({ "rowId": self.id(nth), "data": self.content(nth) })
    }

    fn row(self, nth: u32) -> Value {
        let mut row = self.content(nth);
        row["$id"] = json!(self.id(nth));
        row
    }

    fn batches(self) -> impl Iterator<Item = std::ops::Range<u32>> {
        let starts = (0..self.count).step_by(BATCH as usize);
        starts.map(move |start| start..self.count.min(start + BATCH))
    }
}

/// Makes the database and the table.
///
/// # Errors
/// When the server refuses.
pub fn create(access: &Access) -> Result<()> {
    let mut connection = Connection::open(access.address)?;
    let text = |key: &str, size: u32| json!({ "key": key, "type": "varchar", "size": size });
    let number = |key: &str| json!({ "key": key, "type": "integer" });
    let columns = [
        text("code", 32),
        text("name", 64),
        number("status"),
        number("price"),
        number("run"),
    ];
    let indexes = [
        json!({ "key": BY_CODE, "type": "unique", "attributes": ["code"] }),
        json!({ "key": "by_run", "type": "key", "attributes": ["run"] }),
    ];
    create_database(access, &mut connection)?;
    create_table(access, &mut connection, TABLE, &columns, &indexes)
}

/// Makes the database of all tables of this benchmark.
///
/// # Errors
/// When the server refuses.
pub fn create_database(access: &Access, connection: &mut Connection) -> Result<()> {
    let body = json!({ "databaseId": DATABASE, "name": "Twice" }).to_string();
    connection.call(access, "POST", "/tablesdb", &body)?;
    Ok(())
}

/// Makes a table that everybody may read.
///
/// # Errors
/// When the server refuses.
pub fn create_table(
    access: &Access,
    connection: &mut Connection,
    table: &str,
    columns: &[Value],
    indexes: &[Value],
) -> Result<()> {
    let optional = columns.iter().map(|column| {
        let mut column = column.clone();
        column["required"] = json!(false);
        column
    });
    let body = json!({
        "tableId": table,
        "name": table,
        "permissions": ["read(\"any\")"],
        "columns": optional.collect::<Vec<Value>>(),
        "indexes": indexes,
    });
    let route = format!("/tablesdb/{DATABASE}/tables");
    connection.call(access, "POST", &route, &body)?;
    Ok(())
}

/// The place of a table's rows in the engine.
pub const fn place(table: &str) -> (&'static str, &str) {
    (DATABASE, table)
}

/// The route of a table's rows.
pub fn rows_route(table: &str) -> String {
    format!("/tablesdb/{DATABASE}/tables/{table}/rows")
}

/// The route of a table's options.
pub fn options_route(table: &str) -> String {
    format!("/tidemark/databases/{DATABASE}/tables/{table}/options")
}

/// The route of a list without its total.
pub fn listing(table: &str, queries: &[Value]) -> String {
    let list = seed::list_route_of(&rows_route(table), queries);
    format!("{list}&total=false")
}

/// The filter that asks for one value.
pub fn equal(column: &str, value: Value) -> Value {
    json!({ "method": "equal", "attribute": column, "values": [value] })
}

/// The most rows of a list.
pub fn limit(rows: u32) -> Value {
    json!({ "method": "limit", "values": [rows] })
}

fn reads_route() -> String {
    format!("/tidemark/databases/{DATABASE}/batch/reads")
}

fn by_keys(keys: &[String]) -> String {
    json!({ "reads": [{ "tableId": TABLE, "index": BY_CODE, "keys": keys }] }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access::new(([127, 0, 0, 1], 80), "p", "k")
    }

    #[test]
    fn every_operation_meets_each_object_of_its_set_once() {
        let set = Set {
            number: 7,
            count: 250,
        };
        for op in Op::ALL {
            let calls = op.calls(&access(), set);
            let objects: u32 = calls.iter().map(|call| call.objects).sum();
            let batches = match op {
                Op::WriteBatch | Op::ReadBatch => 3,
                Op::ReadAll => 1,
                _ => 250,
            };
            assert_eq!((objects, calls.len()), (250, batches), "{}", op.title());
            let mut distinct: Vec<&[u8]> = calls.iter().map(|call| &call.request[..]).collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), calls.len(), "{}", op.title());
        }
    }

    #[test]
    fn two_sets_share_no_id_and_no_key() {
        let [one, next] = [7, 8].map(|number| Set { number, count: 1 });
        assert_ne!(one.id(0), next.id(0));
        assert_ne!(one.code(0), next.code(0));
        let bytes = one.content(0).to_string().len();
        assert!((100..160).contains(&bytes), "{bytes}");
    }
}
