//! A cluster answers, keeps to its settings, and leaves nothing behind.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use testing_postgres::{Cluster, ClusterEnd, ClusterSettings};

#[test]
fn a_cluster_answers_and_leaves_nothing_behind() {
    let settings = ClusterSettings {
        syncs: true,
        further: &["lock_timeout=7s"],
        ..ClusterSettings::default()
    };
    let cluster = Cluster::start(&settings).unwrap();
    let show = ["SHOW lock_timeout", "SHOW fsync", "SHOW server_encoding"];
    assert_eq!(
        cluster.run_sql("postgres", &show).unwrap(),
        "7s\non\nUTF8\n"
    );
    let refused = cluster.run_sql("postgres", &["SELECT 1/0"]).unwrap_err();
    assert!(
        refused.to_string().contains("division by zero"),
        "{refused}"
    );
    let (folder, process) = (cluster.socket_folder().to_owned(), process_of(&cluster));
    assert!(process.exists());
    drop(cluster);
    assert!(!folder.exists());
    assert!(!process.exists());
}

#[test]
fn a_shared_cluster_is_one_as_long_as_a_test_holds_it() {
    let first = Cluster::shared().unwrap();
    let second = std::thread::spawn(|| Cluster::shared().unwrap())
        .join()
        .unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    drop(first);
    assert_eq!(
        second.run_sql("postgres", &["SHOW fsync"]).unwrap(),
        "off\n"
    );
}

#[test]
fn a_setting_that_the_server_refuses_is_quoted() {
    let settings = ClusterSettings {
        further: &["no_such_setting=1"],
        ..ClusterSettings::default()
    };
    let error = Cluster::start(&settings).unwrap_err().to_string();
    assert!(error.contains("ended at its start"), "{error}");
    assert!(error.contains("no_such_setting"), "{error}");
}

/// A process that is killed takes its cluster along: the kernel signals the server.
#[test]
fn a_cluster_ends_with_the_process_that_started_it() {
    const ROLE: &str = "TIDEMARK_CLUSTER_ROLE";
    if std::env::var_os(ROLE).is_some() {
        let cluster = Cluster::start(&ClusterSettings::default()).unwrap();
        let (folder, process) = (cluster.socket_folder().to_owned(), process_of(&cluster));
        std::fs::write(std::env::var_os(ROLE).unwrap(), process.to_str().unwrap()).unwrap();
        std::mem::forget(cluster);
        // What a killed process leaves: the folder.
        println!("{}", folder.display());
        std::process::abort();
    }
    let note = tempfile::NamedTempFile::new().unwrap();
    let mut own = Command::new(std::env::current_exe().unwrap());
    own.args([
        "--exact",
        "a_cluster_ends_with_the_process_that_started_it",
        "--nocapture",
    ]);
    let output = own.env(ROLE, note.path()).output().unwrap();
    let process = PathBuf::from(std::fs::read_to_string(note.path()).unwrap());
    assert!(process.starts_with("/proc"), "{output:?}");
    while process.exists() {
        std::thread::yield_now();
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let folder = said
        .lines()
        .find_map(|line| line.find("/tmp/").map(|at| &line[at..]));
    std::fs::remove_dir_all(folder.unwrap()).unwrap();
}

#[test]
fn a_standby_has_what_was_committed_and_goes_on_when_its_primary_is_killed() {
    let settings = ClusterSettings::default();
    let mut primary = Cluster::start(&settings).unwrap();
    let standby = primary.standby(&settings).unwrap();
    let recovers = ["SELECT pg_is_in_recovery()"];
    assert_eq!(primary.run_sql("postgres", &recovers).unwrap(), "f\n");
    assert_eq!(standby.run_sql("postgres", &recovers).unwrap(), "t\n");
    let waits = [
        "ALTER SYSTEM SET synchronous_standby_names = '*'",
        "SELECT pg_reload_conf()",
    ];
    primary.run_sql("postgres", &waits).unwrap();
    // A setting that is read again counts some time later.
    let is_waited_for = ["SHOW synchronous_standby_names"];
    while primary.run_sql("postgres", &is_waited_for).unwrap() != "*\n" {}
    let write = ["CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)"];
    primary.run_sql("postgres", &write).unwrap();
    let process = process_of(&primary);
    primary.end(ClusterEnd::Killed);
    assert!(!process.exists());
    standby.promote().unwrap();
    let found = ["SELECT n FROM t", "INSERT INTO t VALUES (8)"];
    assert_eq!(standby.run_sql("postgres", &found).unwrap(), "7\n");
}

/// The server's process, as long as it is there.
fn process_of(cluster: &Cluster) -> PathBuf {
    let file = cluster.socket_folder().join("data/postmaster.pid");
    let text = std::fs::read_to_string(file).unwrap();
    PathBuf::from("/proc").join(text.lines().next().unwrap())
}
