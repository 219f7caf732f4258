//! A PostgreSQL database for the stores of servers under test.

use std::cell::Cell;

use anyhow::{Context, Result, ensure};
use measure::costs::Backends;
use measure::scratch::Scratch;
use serde_json::{Value, json};
use testing_postgres::{Cluster, ClusterSettings, run_sql};

use crate::run::Run;
use crate::surroundings::ServerSite;

/// What stands for a server of the run's own.
const TEMPORARY: &str = "temporary";

/// The option that asks for a database.
#[derive(clap::Args)]
pub struct LentDatabaseArgs {
    /// Measure servers with their store in this PostgreSQL database, too, in schemas that are
    /// removed at the end. `temporary` stands for a server of its own on the disk to be measured,
    /// with its syncs
    #[arg(long, value_name = "URL|temporary")]
    database: Option<String>,
}

/// A database with room for stores.
pub struct LentDatabase {
    url: String,
    /// What begins the names of its schemas.
    prefix: String,
    schemas: Cell<u32>,
    /// The server, if it is the run's own.
    cluster: Option<Cluster>,
    version: String,
}

/// A schema that no store is in yet.
#[derive(Clone, Debug)]
pub struct StoreSchema {
    /// Its name.
    pub name: String,
    /// The URL of a store in it.
    pub store: String,
}

impl LentDatabaseArgs {
    /// Reaches it, or starts one; `None` where none was asked for.
    ///
    /// # Errors
    /// When it is no URL, cannot be reached, or no server can be started.
    pub fn open(&self, run: &mut Run) -> Result<Option<LentDatabase>> {
        let opened = match self.database.as_deref() {
            None => return Ok(None),
            Some(TEMPORARY) => LentDatabase::temporary(&run.scratch)?,
            Some(url) => LentDatabase::at(url.to_owned(), None)?,
        };
        run.note(opened.parameters());
        Ok(Some(opened))
    }
}

impl LentDatabase {
    /// A server of the run's own, with its syncs, on the disk of this folder.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn temporary(scratch: &Scratch) -> Result<LentDatabase> {
        // The folder of the run can be entered by its owner alone.
        let data = scratch.path().parent();
        let settings = ClusterSettings {
            syncs: true,
            data,
            ..ClusterSettings::default()
        };
        let cluster = Cluster::start(&settings)?;
        LentDatabase::at(cluster.url("postgres"), Some(cluster))
    }

    fn at(url: String, cluster: Option<Cluster>) -> Result<LentDatabase> {
        ensure!(
            url.starts_with("postgres://") || url.starts_with("postgresql://"),
            "--database takes a URL that begins with postgres://, or `{TEMPORARY}`"
        );
        ensure!(
            !url.contains("schema="),
            "--database takes no `schema`: each store of a run has one of its own"
        );
        let version = run_sql(&url, &["SHOW server_version"]).context("--database")?;
        Ok(LentDatabase {
            url,
            prefix: format!("bench_{}", std::process::id()),
            schemas: Cell::new(0),
            cluster,
            version: version.trim().to_owned(),
        })
    }

    /// What a report says of it; no word of its URL, which may have a password.
    fn parameters(&self) -> Vec<(&'static str, Value)> {
        let place = match self.cluster {
            Some(_) => "of the run's own, on the disk that is measured",
            None => "given",
        };
        let counted = Backends::of(&self.url).is_some();
        vec![
            ("postgres", json!(self.version)),
            ("postgres_server", json!(place)),
            ("postgres_cpu_counted", json!(counted)),
        ]
    }

    /// Its URL, without a schema.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its server's processes, where they can be counted.
    pub fn backends(&self) -> Option<Backends> {
        Backends::of(&self.url)
    }

    /// A schema of its own for one more store.
    pub fn schema(&self) -> StoreSchema {
        let number = self.schemas.replace(self.schemas.get() + 1);
        let name = format!("{}_{number}", self.prefix);
        let sign = if self.url.contains('?') { '&' } else { '?' };
        let store = format!("{}{sign}schema={name}", self.url);
        StoreSchema { name, store }
    }

    /// Where a server keeps a store of its own in it; `name` is that of the folder next to it.
    pub fn site(&self, scratch: &Scratch, name: &str) -> ServerSite {
        self.schema().site(scratch, name)
    }
}

impl StoreSchema {
    /// Where a server keeps its store in it. The folder beside it belongs to this schema alone.
    pub fn site(&self, scratch: &Scratch, name: &str) -> ServerSite {
        ServerSite {
            data: scratch.at(&format!("{name}-{}", self.name)),
            database: Some(self.store.clone()),
        }
    }
}

impl Drop for LentDatabase {
    fn drop(&mut self) {
        if self.cluster.is_some() || self.schemas.get() == 0 {
            return;
        }
        let schemas = 0..self.schemas.get();
        let drop = |number| format!("DROP SCHEMA IF EXISTS {}_{number} CASCADE", self.prefix);
        let drops: Vec<String> = schemas.map(drop).collect();
        let drops: Vec<&str> = drops.iter().map(String::as_str).collect();
        if let Err(error) = run_sql(&self.url, &drops) {
            eprintln!("schemas {}_… are not removed: {error:#}", self.prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_a_url_without_a_schema() {
        for (url, wanted) in [
            ("mysql://u@h/d", "begins with postgres://"),
            ("postgres://u@h/d?schema=s", "takes no `schema`"),
        ] {
            let error = LentDatabase::at(url.to_owned(), None).err().unwrap();
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }

    #[test]
    fn each_store_has_a_schema_of_its_own() {
        let database = |url: &str| LentDatabase {
            url: url.to_owned(),
            prefix: "bench_7".to_owned(),
            schemas: Cell::new(0),
            cluster: None,
            version: String::new(),
        };
        let first = database("postgres://u@h/d");
        let stores = [first.schema().store, first.schema().store];
        let wanted = [
            "postgres://u@h/d?schema=bench_7_0",
            "postgres://u@h/d?schema=bench_7_1",
        ];
        assert_eq!(stores, wanted);
        let second = database("postgres://u@/d?host=x");
        assert_eq!(
            second.schema().store,
            "postgres://u@/d?host=x&schema=bench_7_0"
        );
        // Nothing was made in either.
        first.schemas.set(0);
        second.schemas.set(0);
    }
}
