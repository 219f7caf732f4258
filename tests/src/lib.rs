//! The real binary from outside: started, spoken to over HTTP, killed, started again.
//!
//! `TIDEMARK_BIN` names the binary; `cargo xtask full` builds it and sets the variable. Servers keep
//! their stores in data directories, or in the database that `TIDEMARK_TEST_DATABASE` names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use client::{Access, Answer, Client};
use serde_json::{Value, json};
use testing::{ChildServer, ServerLog};

pub mod bench_run;
pub mod history;
pub mod ledger;

/// A database of a server for tests, by its URL with a parameter.
const DATABASE_VARIABLE: &str = "TIDEMARK_TEST_DATABASE";
/// The project and key every test uses.
const PROJECT: &str = "p";
const KEY: &str = "standard_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Whether the long sizes are wanted.
pub fn is_night() -> bool {
    std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night")
}

/// The binary under test.
///
/// # Errors
/// When `TIDEMARK_BIN` is not set.
pub fn binary() -> Result<PathBuf> {
    std::env::var_os("TIDEMARK_BIN").map(PathBuf::from).context(
        "TIDEMARK_BIN must name the tidemark binary; `cargo xtask full` sets it, by hand: \
         TIDEMARK_BIN=target/release/tidemark cargo test -p tests",
    )
}

/// A running server with one project and a key of its own. Dropped, it is killed.
pub struct Server {
    child: ChildServer,
    access: Access,
}

impl Server {
    /// Starts the binary on `directory` and waits until it accepts connections. On a database each
    /// directory has a schema of its own, the same one each time, unless `arguments` name another.
    ///
    /// # Errors
    /// When it does not, with the end of its log.
    pub fn start(directory: &Path, arguments: &[&str]) -> Result<Server> {
        let mut command = testing::serve(Command::new(binary()?), &directory.join("data"));
        command
            .args(arguments)
            .env("TIDEMARK_PROJECT_ID", PROJECT)
            .env("TIDEMARK_API_KEY", KEY);
        if let Ok(url) = std::env::var(DATABASE_VARIABLE) {
            let name = directory.file_name().context("a directory has a name")?;
            let url = format!("{url}&schema={}", name.to_string_lossy());
            command.env("TIDEMARK_DATABASE", url);
        }
        let child = ChildServer::start(command, ServerLog::File(&directory.join("log")))?;
        let access = Access {
            endpoint: child.endpoint.parse().map_err(anyhow::Error::msg)?,
            project: PROJECT.parse()?,
            key: KEY.parse()?,
        };
        Ok(Server { child, access })
    }

    /// How to reach it with every right.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// `host:port`
    pub fn authority(&self) -> &str {
        self.access.endpoint.authority()
    }

    /// A connection of its own.
    ///
    /// # Errors
    /// When the server does not take it.
    pub async fn connect(&self) -> Result<Client> {
        Client::connect(&self.access.endpoint).await
    }

    /// Kills it, while others may still hold it.
    ///
    /// # Errors
    /// When the process cannot be signalled.
    pub fn kill(&self) -> Result<()> {
        self.child.signal("KILL")
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When the server ends with another status than 0, or not soon.
    pub fn stop(self) -> Result<()> {
        self.child.stop()
    }
}

/// Calls `route` on `client` and gives the answer, whatever its status.
///
/// # Errors
/// When the connection breaks.
pub async fn call(
    client: &mut Client,
    access: &Access,
    method: &str,
    route: &str,
    body: Option<&Value>,
) -> Result<Answer> {
    client
        .call(access, method.parse()?, route, body.map(Value::to_string))
        .await
}

/// Creates database `d` with table `t`: integer columns `n` and `m`, a text column `s`.
///
/// # Errors
/// What the server says.
pub async fn furnish(server: &Server) -> Result<()> {
    let mut client = server.connect().await?;
    let access = server.access();
    let database = json!({"databaseId": "d", "name": "D"});
    let made = call(&mut client, access, "POST", "/tablesdb", Some(&database)).await?;
    made.accepted("creating the database")?;
    let table = json!({
        "tableId": "t", "name": "T", "permissions": ["read(\"any\")"],
        "columns": [
            {"key": "n", "type": "integer", "required": true},
            {"key": "m", "type": "integer"},
            {"key": "s", "type": "text"},
        ],
        "indexes": [{"key": "by_n", "type": "key", "attributes": ["n"]}],
    });
    let made = call(
        &mut client,
        access,
        "POST",
        "/tablesdb/d/tables",
        Some(&table),
    )
    .await?;
    made.accepted("creating the table")?;
    Ok(())
}
