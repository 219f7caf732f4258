//! Inserts and changes of single rows, committed in groups: an array statement for each table,
//! sent at once with the commit. They write what the store does, to a copy of its tables.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Statement};

use super::columns::{self, SeededColumn, SqlList, SqlLists};
use super::{SchemaAddress, SeededCatalog, StatementCall, burst, quoted};
use crate::{END, Outcome, line};

/// Rows of one request that changes some.
const CHANGED_ROWS: usize = 100;
/// Marks are as long as those of a server: 2030-01-01, in microseconds since 1970, after any that
/// the seeding gave.
const FIRST_MARK: i64 = 1_893_456_000_000_000;
/// The column that changes alter, as users call it, and how many values it has.
const CHANGED: &str = "stock";
const CHANGED_VALUES: i64 = 501;

/// The connection that writes, and what stands in the copy.
pub struct CopyWrites {
    runtime: Runtime,
    client: Client,
    copy: String,
    table: i64,
    ids: Vec<String>,
    /// Of each seeded row: its number, and the number of its version of now.
    seqs: Vec<i64>,
    versions: Vec<i64>,
    /// Of the user, and the body, which versions do not have.
    columns: Vec<SeededColumn>,
    /// Where among the columns that changes alter is.
    changed: usize,
    statements: WriteStatements,
    next_seq: i64,
    next_version: i64,
    /// Counts all requests, of which each has a mark.
    requests: i64,
    /// Of the requests that change rows, the next one's first row.
    next_changed: Arc<AtomicUsize>,
}

/// Each is given lists.
struct WriteStatements {
    add_versions: Statement,
    add_rows: Statement,
    cut_versions: Statement,
    change_rows: Statement,
    commits: Statement,
    commit_rows: Statement,
    stamp: Statement,
}

const VERSION_NUMBERS: [&str; 12] = [
    "rid", "vf", "vt", "sf", "cut_tt", "cut_vt", "st", "origin", "seq", "created", "updated",
    "twin",
];
const ROW_NUMBERS: [&str; 10] = [
    "seq",
    "vf",
    "vt",
    "sf",
    "origin",
    "created",
    "updated",
    "rid",
    "twin",
    "body_epoch",
];
/// What a version that a change ends gets.
const CUT_NUMBERS: [&str; 4] = ["rid", "cut_tt", "cut_vt", "twin"];

impl CopyWrites {
    /// Copies the tables of the store.
    pub fn begin(address: &SchemaAddress, seeded: &SeededCatalog) -> Outcome<CopyWrites> {
        let (runtime, client) = address.connect()?;
        let copy = quoted(&format!("{}_bare", address.schema));
        runtime.block_on(create(&client, seeded, &copy))?;
        let names = [seeded.column_names(), vec!["body"]].concat();
        let read = |names: &[&str]| runtime.block_on(columns::read(&client, &seeded.now, names));
        let columns = read(&names)?;
        let numbers = read(&["seq", "rid"])?;
        let statements = runtime.block_on(WriteStatements::prepare(&client, seeded, &columns))?;
        let changed = seeded.column(CHANGED)?;
        let changed = columns.iter().position(|column| column.name == changed);
        let [seqs, versions] = [0, 1].map(|at: usize| numbers[at].numbers());
        let past = |numbers: &[i64]| numbers.iter().max().map_or(1, |last| last + 1);
        Ok(CopyWrites {
            copy,
            table: seeded.number,
            ids: seeded.ids.clone(),
            next_seq: past(&seqs),
            next_version: past(&versions),
            changed: changed.ok_or("the column is not there")?,
            seqs,
            versions,
            columns,
            statements,
            requests: 0,
            next_changed: Arc::default(),
            runtime,
            client,
        })
    }

    /// Lets so many clients insert for so long.
    pub fn insert(&mut self, clients: usize, ms: u64) -> Outcome<Value> {
        let number = AtomicUsize::new(self.requests as usize);
        let next = move || number.fetch_add(1, Ordering::Relaxed);
        line::drive(clients, ms, next, |group| self.insert_all(group))
    }

    /// Lets so many clients change 100 rows a request for so long.
    pub fn change(&mut self, clients: usize, ms: u64) -> Outcome<Value> {
        let number = self.next_changed.clone();
        let next = move || number.fetch_add(CHANGED_ROWS, Ordering::Relaxed);
        line::drive(clients, ms, next, |group| self.change_all(group))
    }

    /// Removes the copy.
    pub fn end(self) -> Outcome<()> {
        let sql = format!("DROP SCHEMA {} CASCADE", self.copy);
        Ok(self.runtime.block_on(self.client.batch_execute(&sql))?)
    }

    fn insert_all(&mut self, group: &[usize]) -> Outcome<()> {
        let count = group.len() as i64;
        let marks = self.marks(group.len());
        let rows: Vec<usize> = group.iter().map(|n| n % self.ids.len()).collect();
        let seqs: Vec<i64> = (self.next_seq..self.next_seq + count).collect();
        let versions: Vec<i64> = (self.next_version..self.next_version + count).collect();
        let ids: SqlList = Arc::new(
            seqs.iter()
                .map(|n| format!("bare-{n:09}"))
                .collect::<Vec<_>>(),
        );
        let new = NewRows {
            count: group.len(),
            seqs: Arc::new(seqs),
            created: Arc::new(marks.clone()),
            marks: Arc::new(marks.clone()),
            versions: Arc::new(versions),
            ids: ids.clone(),
            values: self.values(&rows, None),
        };
        let calls = vec![
            (&self.statements.add_versions, new.versions()),
            (&self.statements.add_rows, new.rows()),
        ];
        self.commit(calls, &marks, (&marks, ids))?;
        self.next_seq += count;
        self.next_version += count;
        self.requests += count;
        Ok(())
    }

    fn change_all(&mut self, group: &[usize]) -> Outcome<()> {
        let of_request = |first: &usize| {
            let rows = *first..*first + CHANGED_ROWS;
            rows.map(|row| row % self.ids.len()).collect::<Vec<usize>>()
        };
        let rows: Vec<usize> = group.iter().flat_map(of_request).collect();
        let of_requests = self.marks(group.len());
        let marks = of_requests.iter().flat_map(|mark| [*mark; CHANGED_ROWS]);
        let marks: Vec<i64> = marks.collect();
        let first = self.next_version;
        let versions: Vec<i64> = (first..first + rows.len() as i64).collect();
        let pick = |numbers: &[i64]| rows.iter().map(|row| numbers[*row]).collect::<Vec<i64>>();
        let ids: Vec<String> = rows.iter().map(|row| self.ids[*row].clone()).collect();
        let ids: SqlList = Arc::new(ids);
        let new = NewRows {
            count: rows.len(),
            seqs: Arc::new(pick(&self.seqs)),
            created: Arc::new(vec![FIRST_MARK; rows.len()]),
            marks: Arc::new(marks.clone()),
            versions: Arc::new(versions.clone()),
            ids: ids.clone(),
            values: self.values(&rows, Some(of_requests[0])),
        };
        let cut: Vec<SqlList> = vec![
            Arc::new(pick(&self.versions)),
            new.marks.clone(),
            new.marks.clone(),
            Arc::new(vec![0_i64; rows.len()]),
        ];
        let calls = vec![
            (&self.statements.cut_versions, cut),
            (&self.statements.add_versions, new.versions()),
            (&self.statements.change_rows, new.rows()),
        ];
        self.commit(calls, &of_requests, (&marks, ids))?;
        for (row, version) in rows.iter().zip(versions) {
            self.versions[*row] = version;
        }
        self.next_version += rows.len() as i64;
        self.requests += group.len() as i64;
        Ok(())
    }

    /// A mark for each request of a group.
    fn marks(&self, count: usize) -> Vec<i64> {
        let first = FIRST_MARK + self.requests + 1;
        (first..first + count as i64).collect()
    }

    /// The columns of these rows, of which a change alters one.
    fn values(&self, rows: &[usize], change: Option<i64>) -> Vec<SqlList> {
        let columns = self.columns.iter().enumerate();
        let values = columns.map(|(at, column)| -> SqlList {
            match change {
                Some(number) if at == self.changed => {
                    let value = |row: &usize| (number + *row as i64) % CHANGED_VALUES;
                    Arc::new(rows.iter().map(value).collect::<Vec<i64>>())
                }
                _ => column.list(rows),
            }
        });
        values.collect()
    }

    /// Sends everything at once, from the beginning of the transaction to its commit.
    fn commit<'a>(
        &'a self,
        mut calls: Vec<StatementCall<'a>>,
        of_requests: &[i64],
        (of_rows, ids): (&[i64], SqlList),
    ) -> Outcome<()> {
        let numbers = self.requests + 1..;
        let numbers: Vec<i64> = numbers.take(of_requests.len()).collect();
        let before: Vec<i64> = of_requests.iter().map(|mark| mark - 1).collect();
        let last = of_requests.last().copied().unwrap_or(FIRST_MARK);
        let commits: Vec<SqlList> = vec![
            Arc::new(of_requests.to_vec()),
            Arc::new(numbers),
            Arc::new(before),
        ];
        let commit_rows: Vec<SqlList> = vec![
            Arc::new(of_rows.to_vec()),
            Arc::new(vec![self.table; of_rows.len()]),
            ids,
        ];
        let stamp: Vec<SqlList> = vec![Arc::new(last)];
        calls.push((&self.statements.commits, commits));
        calls.push((&self.statements.commit_rows, commit_rows));
        calls.push((&self.statements.stamp, stamp));
        burst(&self.runtime, &self.client, &calls)
    }
}

/// Rows that a group adds or changes, and their versions.
struct NewRows {
    count: usize,
    seqs: SqlList,
    created: SqlList,
    marks: SqlList,
    versions: SqlList,
    ids: SqlList,
    /// Of each column, the body's last.
    values: Vec<SqlList>,
}

impl NewRows {
    /// In the order of [`VERSION_NUMBERS`], the ids, and the columns of the user.
    fn versions(&self) -> Vec<SqlList> {
        let (ends, twins) = (self.all(END), self.all(1));
        let own = [
            &self.versions,
            &self.marks,
            &ends,
            &self.marks,
            &ends,
            &ends,
            &ends,
            &self.marks,
            &self.seqs,
            &self.created,
            &self.marks,
            &twins,
            &self.ids,
        ];
        let columns = &self.values[..self.values.len() - 1];
        own.into_iter().chain(columns).cloned().collect()
    }

    /// In the order of [`ROW_NUMBERS`], the ids, permissions, and all columns.
    fn rows(&self) -> Vec<SqlList> {
        let (ends, twins, epochs) = (self.all(END), self.all(1), self.all(0));
        let permissions: SqlList = Arc::new(vec!["[]"; self.count]);
        let own = [
            &self.seqs,
            &self.marks,
            &ends,
            &self.marks,
            &self.marks,
            &self.created,
            &self.marks,
            &self.versions,
            &twins,
            &epochs,
            &self.ids,
            &permissions,
        ];
        own.into_iter().chain(&self.values).cloned().collect()
    }

    fn all(&self, number: i64) -> SqlList {
        Arc::new(vec![number; self.count])
    }
}

impl WriteStatements {
    async fn prepare(
        client: &Client,
        seeded: &SeededCatalog,
        columns: &[SeededColumn],
    ) -> Outcome<WriteStatements> {
        let (now, versions) = (&seeded.now, &seeded.versions);
        let own = &columns[..columns.len() - 1];
        let version = SqlLists::own(&VERSION_NUMBERS, &["id"]).and(own);
        let row = SqlLists::own(&ROW_NUMBERS, &["id", "perms"]).and(columns);
        let stamp = "UPDATE meta SET mark = $1, groups = groups + 1";
        Ok(WriteStatements {
            add_versions: version.insertion(client, versions).await?,
            add_rows: row.insertion(client, now).await?,
            cut_versions: SqlLists::own(&CUT_NUMBERS, &[])
                .change(client, versions)
                .await?,
            change_rows: row.change(client, now).await?,
            commits: SqlLists::own(&["tt", "n", "prev"], &[])
                .insertion(client, "tx")
                .await?,
            commit_rows: SqlLists::own(&["tt", "tab"], &["id"])
                .insertion(client, "tx_row")
                .await?,
            stamp: client.prepare(stamp).await?,
        })
    }
}

/// Makes the copy, with the indexes and the rows of the store's tables, and looks there from now
/// on.
async fn create(client: &Client, seeded: &SeededCatalog, copy: &str) -> Outcome<()> {
    let mut sql = format!("DROP SCHEMA IF EXISTS {copy} CASCADE; CREATE SCHEMA {copy};");
    let (now, versions) = (&seeded.now, &seeded.versions);
    for table in [now.as_str(), versions, "meta"] {
        write!(
            sql,
            "CREATE TABLE {copy}.{table} (LIKE {table} INCLUDING ALL);
             INSERT INTO {copy}.{table} SELECT * FROM {table};"
        )?;
    }
    for table in ["tx", "tx_row"] {
        write!(
            sql,
            "CREATE TABLE {copy}.{table} (LIKE {table} INCLUDING ALL);"
        )?;
    }
    // Settings of a table are not copied; those of the rows of now are the store's.
    write!(
        sql,
        "ALTER TABLE {copy}.{now} SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
         SET search_path = {copy};
         ANALYZE {now}, {versions};"
    )?;
    Ok(client.batch_execute(&sql).await?)
}
