//! A store in a directory and, the same, in a schema of a database.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::{DatabaseReads, DatabaseUrl, Options, StoreCopy, StorePlace};
use testing_postgres::Cluster;

use crate::db::{self, Db, Directory};

/// A program that one test starts has the open files of the others until it runs, and with them
/// the locks of their directories.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Copied {
    /// The directory's, open.
    pub db: Db,
    pub reads: DatabaseReads,
    pub directory: Directory,
    pub cluster: Arc<Cluster>,
}

impl Copied {
    /// Copies a store that is closed into a database of this name.
    pub fn new(directory: Directory, database: &str) -> Copied {
        let cluster = Cluster::shared().unwrap();
        let make = format!("CREATE DATABASE {database}");
        cluster.run_sql("postgres", &[&make]).unwrap();
        let url = DatabaseUrl::parse(&cluster.url(database)).unwrap();
        let copy = StoreCopy::make(&data_of(&directory), (&url, None), &mut |_| {}).unwrap();
        copy.release().unwrap().close();
        let reads = DatabaseReads::open(&options(&url), None, &data_of(&directory)).unwrap();
        Copied {
            db: Db::open(&directory),
            reads,
            directory,
            cluster,
        }
    }
}

pub fn data_of(directory: &Directory) -> PathBuf {
    directory.0.path().join("data")
}

pub fn options(url: &DatabaseUrl) -> Options {
    Options {
        place: StorePlace::from(url.clone()),
        ..db::options(std::path::Path::new("unused"))
    }
}
