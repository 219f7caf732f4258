//! Two servers of the same catalog: one on a data directory, and one whose store is in PostgreSQL.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use client::Access;
use hyper::header::HeaderValue;
use measure::cores::Cores;
use measure::live::LiveServer;
use measure::process::cleared;

use crate::stage::Stage;
use crate::ttl::SecondServer;

/// What the schema of the second one is called.
const SCHEMA: &str = "catalog";

/// Both, running, until they are dropped.
pub struct TwoServers {
    directory: LiveServer,
    database: LiveServer,
    _stage: Stage,
}

impl TwoServers {
    /// Starts this `binary` twice, with new stores of so many rows: in a folder below `scratch`,
    /// and in a schema of the database with this URL, which is left there.
    ///
    /// # Errors
    /// When one does not start, or cannot be filled.
    pub fn start(binary: &Path, scratch: &Path, url: &str, rows: u32) -> Result<TwoServers> {
        let (stage, cores) = (Stage::empty(binary, scratch)?, Cores::all()?);
        let start = |database| {
            let server = stage.start_in(database, SCHEMA, &cores, &[])?;
            server.seed(cleared(binary), rows, true)?;
            anyhow::Ok(server)
        };
        let servers = TwoServers {
            directory: start(None)?,
            database: start(Some(url))?,
            _stage: stage,
        };
        let schema = Stage::schema(SCHEMA);
        eprintln!("The schema {schema} is left in the database.");
        Ok(servers)
    }

    /// The first one.
    ///
    /// # Errors
    /// When its project or key cannot stand in a header.
    pub fn access(&self) -> Result<Access> {
        access(&self.directory)
    }

    /// The second one, and what both cost.
    ///
    /// # Errors
    /// As [`TwoServers::access`].
    pub fn beside(&self) -> Result<SecondServer> {
        Ok(SecondServer {
            access: access(&self.database)?,
            costs: [self.directory.costs(), self.database.costs()],
        })
    }
}

fn access(server: &LiveServer) -> Result<Access> {
    let own = &server.access;
    let endpoint = own
        .url("")
        .parse()
        .map_err(|error: String| anyhow!(error))?;
    let header = |text: &str| HeaderValue::from_str(text).context("no header holds it");
    let mut key = header(&own.key)?;
    key.set_sensitive(true);
    Ok(Access {
        endpoint,
        project: header(&own.project)?,
        key,
    })
}
