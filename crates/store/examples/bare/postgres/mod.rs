//! The same work in a PostgreSQL database, by the driver the store uses: one task a line on
//! standard input, its answer a line of JSON on standard output.

use std::io::{BufRead as _, stdin};

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};

use self::columns::SqlList;
use self::reads::BareReaders;
use self::seeded::SeededCatalog;
use self::writes::CopyWrites;
use crate::Outcome;

pub mod columns;
mod reads;
mod seeded;
mod writes;

/// What the store's own sessions set.
const SESSION: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; \
                       SET max_parallel_workers_per_gather = 0";

/// Read and write rows of a store in a PostgreSQL database, one task a line of standard input
///
/// A task is `{"task", "clients", "ms"}`. `point`, `list` and `list_total` read the store that
/// `tidemark seed catalog` filled, each client over a connection of its own. `insert` and `change`
/// write to a copy of its tables: each client hands in a row, or 100 rows to be changed, and one
/// connection commits what waits as one array statement for each table, sent at once with the
/// commit. The copy is removed at the end of the input.
#[derive(clap::Args)]
pub struct TaskArguments {
    /// Where the database is, as `postgres://…`, without TLS
    #[arg(
        long,
        env = "TIDEMARK_DATABASE",
        value_name = "URL",
        hide_env_values = true
    )]
    database: String,
    /// The schema of the store
    #[arg(long, value_name = "NAME")]
    schema: String,
}

/// Says what it runs on, then answers each task until there are no more.
pub fn run(arguments: &TaskArguments) -> Outcome<()> {
    let address = SchemaAddress::parse(arguments)?;
    let (runtime, client) = address.connect()?;
    let version = runtime.block_on(client.query_one("SHOW server_version", &[]))?;
    let name = format!("PostgreSQL {}, hand-written", version.get::<_, String>(0));
    println!("{}", json!({ "name": name }));
    let seeded = runtime.block_on(SeededCatalog::find(&client))?;
    let mut readers = BareReaders::default();
    let mut writes: Option<CopyWrites> = None;
    for line in stdin().lock().lines() {
        let task: Value = serde_json::from_str(&line?)?;
        let [clients, ms] = ["clients", "ms"].map(|name| {
            let number = task[name].as_u64();
            number.ok_or_else(|| format!("a task has a number `{name}`"))
        });
        let (clients, ms) = (usize::try_from(clients?)?, ms?);
        let name = task["task"].as_str().unwrap_or_default();
        let answer = match name {
            "point" | "list" | "list_total" => {
                readers.open(&address, &seeded, clients)?;
                readers.read(&seeded, name, clients, ms)?
            }
            "insert" | "change" => {
                let writes = match &mut writes {
                    Some(writes) => writes,
                    none => none.insert(CopyWrites::begin(&address, &seeded)?),
                };
                if name == "insert" {
                    writes.insert(clients, ms)?
                } else {
                    writes.change(clients, ms)?
                }
            }
            other => return Err(format!("there is no task `{other}`").into()),
        };
        println!("{answer}");
    }
    match writes {
        Some(writes) => writes.end(),
        None => Ok(()),
    }
}

/// A schema of a database.
pub struct SchemaAddress {
    pub config: Config,
    pub schema: String,
}

impl SchemaAddress {
    fn parse(arguments: &TaskArguments) -> Outcome<SchemaAddress> {
        Ok(SchemaAddress {
            config: arguments.database.parse()?,
            schema: arguments.schema.clone(),
        })
    }

    /// A connection on a thread's own runtime, which sees the tables of the schema.
    pub fn connect(&self) -> Outcome<(Runtime, Client)> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = self.connect_on(&runtime)?;
        Ok((runtime, client))
    }

    fn connect_on(&self, runtime: &Runtime) -> Outcome<Client> {
        let (client, connection) = runtime.block_on(self.config.connect(NoTls))?;
        // It ends with the client.
        runtime.spawn(connection);
        let path = format!("SET search_path = {}; {SESSION}", quoted(&self.schema));
        runtime.block_on(client.batch_execute(&path))?;
        Ok(client)
    }
}

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What one statement is given.
pub type StatementCall<'a> = (&'a Statement, Vec<SqlList>);

/// Sends everything at once, from the beginning of a transaction to its commit.
pub fn burst(runtime: &Runtime, client: &Client, calls: &[StatementCall<'_>]) -> Outcome<()> {
    let run = |(statement, lists): &StatementCall<'_>| {
        let (statement, lists) = ((*statement).clone(), lists.clone());
        async move {
            let lists = lists.iter().map(|list| &**list as &(dyn ToSql + Sync));
            let lists: Vec<&(dyn ToSql + Sync)> = lists.collect();
            client.execute(&statement, &lists).await
        }
    };
    runtime.block_on(async {
        tokio::try_join!(
            biased;
            client.batch_execute("BEGIN"),
            try_join_all(calls.iter().map(run)),
            client.batch_execute("COMMIT"),
        )
    })?;
    Ok(())
}
