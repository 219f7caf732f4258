//! What the measured figures compare the store with: the same work by hand-written SQL through
//! the same driver, with nothing of ours around it. Prints one line of JSON.
//!
//! It lives in this room because no other may name the driver. `harness figures` and `tidemark
//! bench bitemporal` run it.

use std::path::Path;

use clap::{Parser, Subcommand};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi, params};

mod bitemporal;
mod group_commit;
mod line;
mod list;
mod postgres;

/// The table that `tidemark seed catalog` makes.
const TABLE: &str = "products";
/// The optional index over category, reviews and rating.
const INDEX: &str = "by_category_review";
/// What stands in the column `st` of whatever is known now.
const END: i64 = i64::MAX;

/// The benchmark's work as hand-written SQL, through the driver the store uses
///
/// `list` and `group-commit` read a data directory's database that `tidemark seed catalog` filled,
/// while no server writes to it, and print one line of JSON.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Repeat the benchmark's list of 25 rows
    List(list::Arguments),
    /// Insert single rows from many threads through one that commits what waits
    GroupCommit(group_commit::Arguments),
    Bitemporal(bitemporal::Arguments),
    Postgres(postgres::TaskArguments),
}

/// Any failure ends the program; a person reads the text.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    switch_off_memory_account();
    let printed = match Cli::parse().command {
        Command::List(arguments) => list::run(&arguments)?,
        Command::GroupCommit(arguments) => group_commit::run(&arguments)?,
        Command::Bitemporal(arguments) => return bitemporal::run(&arguments),
        Command::Postgres(arguments) => return postgres::run(&arguments),
    };
    println!("{printed}");
    Ok(())
}

/// As the store does: with the account, every allocation of every thread passes one lock.
fn switch_off_memory_account() {
    #[allow(unsafe_code, reason = "the driver does not offer this call")]
    // SAFETY: the option takes one int, and no use of SQLite has come before.
    unsafe {
        ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0);
    }
}

fn open_seeded(path: &Path) -> Outcome<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    keep_plans(&connection)?;
    Ok(connection)
}

/// Without this, SQLite as it is built here (`SQLITE_ENABLE_STAT4`) compiles a statement again
/// each time another value is bound to a parameter that its planner has looked at.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// How the seeded table is called inside the database.
struct Seeded {
    /// The table of now.
    table: String,
    /// Its index, if it was seeded with it.
    index: Option<String>,
    /// Key and physical name of each user column, in order.
    columns: Vec<(String, String)>,
}

impl Seeded {
    fn find(connection: &Connection) -> Outcome<Seeded> {
        let number: i64 = connection
            .query_row(
                "SELECT number FROM table_ WHERE id = ?1 AND st = ?2",
                params![TABLE, END],
                |row| row.get(0),
            )
            .map_err(|error| format!("no table `{TABLE}`; seed the catalog first: {error}"))?;
        let indexes: Vec<u32> = connection
            .prepare("SELECT number FROM index_ WHERE tab = ?1 AND key = ?2 AND st = ?3")?
            .query_map(params![number, INDEX, END], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let number = model::TableNumber(number);
        let columns = connection
            .prepare("SELECT key, number FROM column_ WHERE tab = ?1 AND st = ?2 ORDER BY number")?
            .query_map(params![number.0, END], |row| {
                let name = query::names::column(model::ColumnNumber(row.get(1)?));
                Ok((row.get(0)?, name))
            })?
            .collect::<Result<_, _>>()?;
        Ok(Seeded {
            table: query::names::now(number),
            index: indexes
                .first()
                .map(|index| query::names::index(number, *index)),
            columns,
        })
    }

    /// The physical name of the column that users call `key`.
    fn column(&self, key: &str) -> Outcome<&str> {
        let found = self.columns.iter().find(|(known, _)| known == key);
        let found = found.ok_or_else(|| format!("table `{TABLE}` has no column `{key}`"))?;
        Ok(&found.1)
    }
}
