//! A database of PostgreSQL into whose schemas a test copies stores.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::DatabaseUrl;
use testing_postgres::Cluster;

use crate::suite::db::Directory;

/// A program that one test starts has the open files of the others until it runs, and with them
/// the locks of their directories.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A database of a test's own, whose schemas it names.
pub struct Target {
    cluster: Arc<Cluster>,
    database: &'static str,
    _turn: MutexGuard<'static, ()>,
}

impl Target {
    pub fn new(database: &'static str) -> Target {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::shared().unwrap();
        let make = format!("CREATE DATABASE {database}");
        cluster.run_sql("postgres", &[&make]).unwrap();
        Target {
            cluster,
            database,
            _turn: turn,
        }
    }

    /// The URL of a schema, as text.
    pub fn text(&self, schema: &str) -> String {
        format!("{}&schema={schema}", self.cluster.url(self.database))
    }

    pub fn url(&self, schema: &str) -> DatabaseUrl {
        DatabaseUrl::parse(&self.text(schema)).unwrap()
    }

    pub fn sql(&self, statement: &str) -> String {
        self.cluster.run_sql(self.database, &[statement]).unwrap()
    }
}

/// The data directory of a test's place.
pub fn data_of(place: &Directory) -> PathBuf {
    place.0.path().join("data")
}
