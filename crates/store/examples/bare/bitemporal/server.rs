//! The same tables in a schema of a PostgreSQL database.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::layout::{FIRST_MARK, MARK_STEP, Object};
use super::{ObjectKey, ReadsObjects, WritesObjects};
use crate::postgres::columns::{SqlList, SqlLists};
use crate::postgres::{SchemaAddress, burst, quoted};
use crate::{END, Outcome};

const FOUND: &str = "SELECT seq, id, vf, code, name, status, price, run FROM x WHERE";

/// Where the tables are.
pub struct ServerTables {
    address: SchemaAddress,
}

/// The one connection that writes.
pub struct ServerWriter {
    runtime: Runtime,
    client: Client,
    versions: Statement,
    now: Statement,
    commit: Statement,
    rows: Statement,
    stamp: Statement,
    mark: i64,
    commits: i64,
}

/// A connection that reads.
pub struct ServerReader {
    runtime: Runtime,
    client: Client,
    by_run: Statement,
    by_code: Statement,
    by_id: Statement,
    by_codes: Statement,
}

impl ServerTables {
    /// Makes them, in a schema of their own.
    pub fn create(url: &str) -> Outcome<ServerTables> {
        let schema = format!("bare_bitemporal_{}", std::process::id());
        let address = SchemaAddress {
            config: url.parse()?,
            schema,
        };
        let (runtime, client) = address.connect()?;
        let columns = "code text COLLATE \"C\", name text COLLATE \"C\", status bigint,
               price bigint, run bigint";
        let sql = format!(
            "CREATE SCHEMA {schema};
             CREATE TABLE x_v (rid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
               id text COLLATE \"C\" NOT NULL, vf bigint NOT NULL,
               vt bigint NOT NULL DEFAULT {END}, sf bigint NOT NULL,
               cut_tt bigint NOT NULL DEFAULT {END}, cut_vt bigint NOT NULL DEFAULT {END},
               st bigint NOT NULL DEFAULT {END}, origin bigint NOT NULL, {columns});
             CREATE UNIQUE INDEX x_known ON x_v (id, vf) WHERE st = {END};
             CREATE INDEX x_sys ON x_v (id, sf);
             CREATE INDEX x_v_0 ON x_v (code, sf, vf);
             CREATE INDEX x_v_1 ON x_v (run, sf, vf);
             CREATE TABLE x (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
               id text COLLATE \"C\" NOT NULL UNIQUE, vf bigint NOT NULL,
               vt bigint NOT NULL DEFAULT {END}, sf bigint NOT NULL, origin bigint NOT NULL,
               {columns});
             CREATE UNIQUE INDEX x_0 ON x (code);
             CREATE INDEX x_1 ON x (run);
             CREATE TABLE meta (one bigint PRIMARY KEY CHECK (one = 1), mark bigint NOT NULL);
             INSERT INTO meta VALUES (1, 0);
             CREATE TABLE tx (tt bigint PRIMARY KEY, n bigint UNIQUE, prev bigint);
             CREATE TABLE tx_row (tt bigint, tab bigint, id text COLLATE \"C\",
               PRIMARY KEY (tt, tab, id));",
            schema = quoted(&address.schema),
        );
        runtime.block_on(client.batch_execute(&sql))?;
        Ok(ServerTables { address })
    }

    /// What they are in.
    pub fn name(&self) -> Outcome<String> {
        let (runtime, client) = self.address.connect()?;
        let version = runtime.block_on(client.query_one("SHOW server_version", &[]))?;
        let version: String = version.get(0);
        Ok(format!("PostgreSQL {version}, hand-written"))
    }

    pub fn writer(&self) -> Outcome<ServerWriter> {
        let (runtime, client) = self.address.connect()?;
        let of_user = ["status", "price", "run"];
        let texts = ["id", "code", "name"];
        let numbers = [&["vf", "sf", "origin"], &of_user[..]].concat();
        let lists = SqlLists::own(&numbers, &texts);
        let versions = runtime.block_on(lists.insertion(&client, "x_v"))?;
        let now = runtime.block_on(lists.insertion(&client, "x"))?;
        let commit = "INSERT INTO tx VALUES ($1, $2, $3)";
        let commit = runtime.block_on(client.prepare(commit))?;
        let rows = SqlLists::own(&["tt", "tab"], &["id"]);
        let rows = runtime.block_on(rows.insertion(&client, "tx_row"))?;
        let stamp = runtime.block_on(client.prepare("UPDATE meta SET mark = $1"))?;
        Ok(ServerWriter {
            runtime,
            client,
            versions,
            now,
            commit,
            rows,
            stamp,
            mark: FIRST_MARK,
            commits: 0,
        })
    }

    pub fn reader(&self) -> Outcome<ServerReader> {
        let (runtime, client) = self.address.connect()?;
        let prepare = |condition: &str| {
            let sql = format!("{FOUND} {condition}");
            runtime.block_on(client.prepare(&sql))
        };
        let [by_run, by_code, by_id, by_codes] =
            ["run = $1", "code = $1", "id = $1", "code = ANY($1::text[])"].map(prepare);
        let (by_run, by_code, by_id, by_codes) = (by_run?, by_code?, by_id?, by_codes?);
        Ok(ServerReader {
            runtime,
            client,
            by_run,
            by_code,
            by_id,
            by_codes,
        })
    }

    /// Removes the schema.
    pub fn remove(&self) -> Outcome<()> {
        let (runtime, client) = self.address.connect()?;
        let sql = format!("DROP SCHEMA {} CASCADE", quoted(&self.address.schema));
        Ok(runtime.block_on(client.batch_execute(&sql))?)
    }
}

impl WritesObjects for ServerWriter {
    fn insert(&mut self, objects: &[Object]) -> Outcome<()> {
        let mark = self.mark + MARK_STEP;
        let all = |value: i64| -> SqlList { Arc::new(vec![value; objects.len()]) };
        let numbers = |of: fn(&Object) -> i64| -> SqlList {
            Arc::new(objects.iter().map(of).collect::<Vec<i64>>())
        };
        let texts = |of: fn(&Object) -> &String| -> SqlList {
            Arc::new(
                objects
                    .iter()
                    .map(|one| of(one).clone())
                    .collect::<Vec<_>>(),
            )
        };
        let ids = texts(|one| &one.id);
        let row: Vec<SqlList> = vec![
            all(mark),
            all(mark),
            all(mark),
            numbers(|one| one.status),
            numbers(|one| one.price),
            numbers(|one| one.run),
            ids.clone(),
            texts(|one| &one.code),
            texts(|one| &one.name),
        ];
        let record: Vec<SqlList> = vec![
            Arc::new(mark),
            Arc::new(self.commits + 1),
            Arc::new(self.mark),
        ];
        let stamp: Vec<SqlList> = vec![Arc::new(mark)];
        let calls = [
            (&self.versions, row.clone()),
            (&self.now, row),
            (&self.commit, record),
            (&self.rows, vec![all(mark), all(1), ids]),
            (&self.stamp, stamp),
        ];
        burst(&self.runtime, &self.client, &calls)?;
        (self.mark, self.commits) = (mark, self.commits + 1);
        Ok(())
    }
}

impl ReadsObjects for ServerReader {
    fn found(&mut self, column: &'static str, value: &ObjectKey, wanted: usize) -> Outcome<()> {
        let statement = match column {
            "run" => &self.by_run,
            "code" => &self.by_code,
            _ => &self.by_id,
        };
        let value: &(dyn ToSql + Sync) = match value {
            ObjectKey::Number(number) => number,
            ObjectKey::Text(text) => text,
        };
        let rows = self
            .runtime
            .block_on(self.client.query(statement, &[value]))?;
        judged(&rows, wanted)
    }

    fn batch(&mut self, codes: Vec<String>) -> Outcome<()> {
        let rows = self
            .runtime
            .block_on(self.client.query(&self.by_codes, &[&codes]))?;
        judged(&rows, codes.len())
    }
}

/// Takes every row in.
fn judged(rows: &[Row], wanted: usize) -> Outcome<()> {
    let bytes = |row: &Row| {
        let (code, name): (&str, &str) = (row.get(3), row.get(4));
        code.len() + name.len() + row.get::<_, i64>(6) as usize
    };
    std::hint::black_box(rows.iter().map(bytes).sum::<usize>());
    if rows.len() != wanted {
        let count = rows.len();
        return Err(format!("{count} rows came, {wanted} are there").into());
    }
    Ok(())
}
