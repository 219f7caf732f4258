//! The real binary from outside: started, spoken to over HTTP, killed, started again.
//!
//! `TIDEMARK_BIN` names the binary; `cargo xtask full` builds it and sets the variable.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{Access, Answer, Client};
use serde_json::{Value, json};

pub mod history;

/// A start that takes longer than this has failed; the machine may be busy building.
const START_MAX: Duration = Duration::from_mins(1);
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

/// A running server. Dropped, it is killed.
pub struct Server {
    child: Child,
    access: Access,
}

impl Server {
    /// Starts the binary on `directory` and waits until it accepts connections.
    ///
    /// # Errors
    /// When it does not, with what it logged.
    pub fn start(directory: &Path, arguments: &[&str]) -> Result<Server> {
        let bootstrap = directory.join("bootstrap.json");
        let log = directory.join("log");
        // One left by an earlier start would be taken for this one's.
        let _ = std::fs::remove_file(&bootstrap);
        let mut child = Command::new(binary()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(directory.join("data"))
            .arg("--bootstrap-file")
            .arg(&bootstrap)
            .args(arguments)
            .env("TIDEMARK_PROJECT_ID", PROJECT)
            .env("TIDEMARK_API_KEY", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        match endpoint(&mut child, &bootstrap) {
            Ok(endpoint) => {
                let access = Access {
                    endpoint: endpoint.parse().map_err(anyhow::Error::msg)?,
                    project: PROJECT.parse()?,
                    key: KEY.parse()?,
                };
                Ok(Server { child, access })
            }
            Err(error) => {
                let _ = child.kill();
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                Err(error.context(format!("the server did not start; it logged:\n{log}")))
            }
        }
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

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM, and the status the server ended with.
    ///
    /// # Errors
    /// When the process cannot be signalled.
    pub fn stop(mut self) -> Result<ExitStatus> {
        let pid = self.child.id().to_string();
        ensure!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()?
                .success(),
            "kill -TERM"
        );
        Ok(self.child.wait()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Has no effect on a process that ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn endpoint(child: &mut Child, bootstrap: &Path) -> Result<String> {
    let started = Instant::now();
    while started.elapsed() < START_MAX {
        if let Some(status) = child.try_wait()? {
            bail!("it ended with {status}");
        }
        // The file appears whole: it is renamed into place.
        if let Ok(text) = std::fs::read(bootstrap) {
            let text: Value = serde_json::from_slice(&text)?;
            return Ok(text["endpoint"].as_str().context("no endpoint")?.to_owned());
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    bail!("it did not write its bootstrap file within {START_MAX:?}")
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
