//! What stands beside rows, and what is encrypted, after a move into a database and back.

use std::fs;
use std::path::Path;

use futures_executor::block_on;
use store::{DatabaseUrl, Store, StoreError, move_to_database, move_to_directory};
use testing_postgres::Cluster;

use crate::beside_rows::{answers, compare, history};
use crate::copied::{data_of, turn};
use crate::db;

fn read(directory: &Path) -> Vec<String> {
    let store = store::open(db::options(directory)).unwrap();
    let said = answers::<dyn Store>(&*store);
    let loaded = block_on(store.load()).unwrap();
    block_on(store.close(loaded.horizon)).unwrap();
    said
}

#[test]
fn all_that_stands_beside_rows_comes_back_where_its_keys_are() {
    let _turn = turn();
    let (directory, _) = history(true);
    let data = data_of(&directory);
    let before = read(&data);
    let cluster = Cluster::shared().unwrap();
    cluster
        .run_sql("postgres", &["CREATE DATABASE moved"])
        .unwrap();
    let url = DatabaseUrl::parse(&cluster.url("moved")).unwrap();
    move_to_database(&data, (&url, None), &mut |_| {}).unwrap();
    let with = |name: &str, keys: &[&str]| {
        let place = directory.0.path().join(name);
        fs::create_dir(&place).unwrap();
        for key in keys {
            fs::copy(data.join(key), place.join(key)).unwrap();
        }
        place
    };
    let back = |place: &Path| move_to_directory((&url, None), place, &mut |_| {});
    let refused = back(&with("without", &[])).unwrap_err();
    assert!(
        matches!(refused, StoreError::KeyMissing { .. }),
        "{refused:?}"
    );
    // The database has the store as before, and says which key of variables is not there.
    let moved = back(&with("half", &["tidemark.key"])).unwrap();
    let missing = moved.variables_key;
    assert!(
        matches!(missing, Some(StoreError::KeyMissing { .. })),
        "{missing:?}"
    );
    cluster
        .run_sql("moved", &["UPDATE tidemark.meta SET moving = 0"])
        .unwrap();
    let place = with("whole", &["tidemark.key", "secret.key"]);
    let moved = back(&place).unwrap();
    assert_eq!(moved.variables_key, None);
    compare(&read(&place), &before);
}
