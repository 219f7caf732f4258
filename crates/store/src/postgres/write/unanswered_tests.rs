//! Commits that no standby takes: the server answers them once one does, and not before. And a
//! server whose processes hang, while its system still answers for them, or that ends sessions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures_executor::block_on;
use model::{Mark, ProjectId, Table, Value};
use testing_postgres::{Cluster, ClusterSettings, Relay};
use tokio::runtime::{Builder, Runtime};

use super::session::LongestWaits;
use super::shared_writer::{SharedWriter, WriterPlace};
use super::turn::DatabaseTurn;
use crate::batch::{CatalogueOp, Op, SpaceLimit, WriteBatch};
use crate::vault::StoreKeys;
use crate::{Committed, DatabaseStore, DatabaseUrl, InDoubt, Pending, StoreError, WriteTurn as _};

/// A commit that is answered takes less on most machines; one that takes more is asked for again.
const COMMIT_MAX: Duration = Duration::from_millis(500);
/// The same of other requests, where it is them that no one answers.
const ANSWER_MAX: Duration = Duration::from_secs(1);

fn encode(_: &Table, _: &[Value], _: &mut Vec<u8>) {}

/// What writes to the store at this place, and what runs beside it.
fn open_at(url: &DatabaseUrl, keys: &Path, waits: LongestWaits) -> (Arc<SharedWriter>, Runtime) {
    let aside = Builder::new_current_thread().build().unwrap();
    let place = WriterPlace {
        read: Arc::default(),
        url: url.clone(),
        password_file: None,
        encode_row: encode,
        keys: StoreKeys::of(keys),
        waits,
        aside: aside.handle().clone(),
    };
    let store = DatabaseStore::open(url, None).unwrap();
    let writer = store.into_writer(encode, place.keys.clone());
    (Arc::new(SharedWriter::new(place, writer.unwrap())), aside)
}

/// Runs a group that creates a project.
fn create_project(shared: &Arc<SharedWriter>) -> Result<Box<dyn Pending>, StoreError> {
    let turn = Box::new(DatabaseTurn::begin(shared)?);
    let create = CatalogueOp::CreateProject {
        id: ProjectId::new("p").unwrap(),
        name: "P".to_owned(),
    };
    let batches = [WriteBatch {
        catalogue_epoch: 0,
        ops: vec![Op::Catalogue(create)],
        author: None,
        unchanged_since: None,
        meta: None,
        noted_in: None,
        space: SpaceLimit::Any,
    }];
    block_on(turn.apply(&batches, Mark(1_000)))
}

/// A store on a server of its own.
struct Place {
    cluster: Cluster,
    shared: Arc<SharedWriter>,
    _aside: Runtime,
}

impl Place {
    fn new(keys: &Path) -> Place {
        let cluster = Cluster::start(&ClusterSettings::default()).unwrap();
        let url = DatabaseUrl::parse(&cluster.url("postgres")).unwrap();
        let waits = LongestWaits {
            commit: COMMIT_MAX,
            ..LongestWaits::default()
        };
        let (shared, aside) = open_at(&url, keys, waits);
        Place {
            cluster,
            shared,
            _aside: aside,
        }
    }

    fn sql(&self, statements: &[&str]) -> String {
        let found = self.cluster.run_sql("postgres", statements).unwrap();
        found.trim_end().to_owned()
    }

    /// From now on a commit waits for this standby, which is not there.
    fn wait_for(&self, standby: &str) {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'");
        self.sql(&[&set, "SELECT pg_reload_conf()"]);
    }

    /// Ends the sessions of this name whose commits wait; how many.
    fn end_those_that_wait(&self, name: &str) -> String {
        self.sql(&[&format!(
            "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity \
             WHERE wait_event = 'SyncRep' AND application_name = '{name}'"
        )])
    }

    /// Commits until one waits: the servers' processes learn of a setting one after the other.
    fn see_one_wait(&self) {
        let has_waited = AtomicBool::new(false);
        thread::scope(|scope| {
            let probing = scope.spawn(|| {
                while !has_waited.load(Ordering::SeqCst) {
                    let all = ["CREATE TABLE probe ()", "DROP TABLE probe"];
                    // One that waits is ended.
                    let _ = self.cluster.run_sql("postgres", &all);
                }
            });
            while !probing.is_finished() {
                if self.end_those_that_wait("psql") != "0" {
                    has_waited.store(true, Ordering::SeqCst);
                }
            }
        });
    }

    fn create_project(&self) -> Box<dyn InDoubt> {
        let pending = create_project(&self.shared).unwrap();
        match block_on(pending.commit()) {
            Ok(Committed::Unknown(doubt)) => doubt,
            Ok(Committed::Done(outcomes)) => panic!("{outcomes:?}"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// The database does not say how the commit has ended, and health knows why: in these words.
#[track_caller]
fn assert_in_doubt(place: &Place, doubt: &mut dyn InDoubt, said: &str) {
    let asked = block_on(doubt.ask()).unwrap_err();
    assert!(
        matches!(&asked, StoreError::Unreachable { detail } if detail.contains(said)),
        "`{said}` is not in {asked:?}"
    );
    assert_eq!(place.shared.outage(), Some(asked));
}

#[test]
fn a_commit_that_no_standby_takes_is_in_doubt_until_one_is_not_waited_for() {
    let keys = tempfile::tempdir().unwrap();
    let place = Place::new(keys.path());
    place.wait_for("absent");
    place.see_one_wait();
    assert_eq!(place.shared.outage(), None);
    let mut doubt = place.create_project();
    assert_eq!(place.shared.outage().as_ref(), Some(doubt.cause()));
    // As long as its session waits, it has the store.
    assert_in_doubt(&place, &mut *doubt, "Another process holds");
    assert_eq!(place.end_those_that_wait("tidemark"), "1");
    // The session that looks for it waits, too: what it has found may not last.
    assert_in_doubt(&place, &mut *doubt, "was not answered within 500 ms");
    place.wait_for("");
    let is_done = loop {
        match block_on(doubt.ask()) {
            Ok(is_done) => break is_done,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    };
    assert!(is_done);
    assert_eq!(place.shared.outage(), None);
    place.shared.close(Mark(1_000)).unwrap();
}

#[test]
fn a_server_that_hangs_holds_no_writer_for_ever() {
    let (keys, cluster) = (tempfile::tempdir().unwrap(), Cluster::shared().unwrap());
    let relay = Relay::start(&cluster).unwrap();
    let made = "CREATE DATABASE hanging";
    cluster.run_sql("postgres", &[made]).unwrap();
    let url = DatabaseUrl::parse(&relay.url("hanging")).unwrap();
    let waits = LongestWaits {
        other: ANSWER_MAX,
        ..LongestWaits::default()
    };
    let (shared, _aside) = open_at(&url, keys.path(), waits);
    assert_eq!(shared.outage(), None);
    relay.take_no_more();
    relay.go_silent();
    let refused = create_project(&shared).err().unwrap();
    assert!(refused.is_retryable(), "{refused:?}");
    assert_eq!(shared.outage(), Some(refused));
    relay.go_on();
    let pending = loop {
        match create_project(&shared) {
            Ok(pending) => break pending,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    };
    assert!(matches!(block_on(pending.commit()), Ok(Committed::Done(_))));
    assert_eq!(shared.outage(), None);
}

#[test]
fn no_limit_that_a_role_was_given_ends_the_session_that_owns_a_store() {
    let (keys, cluster) = (tempfile::tempdir().unwrap(), Cluster::shared().unwrap());
    let made = [
        "CREATE DATABASE hurried",
        "ALTER DATABASE hurried SET statement_timeout = '7s'",
        "ALTER DATABASE hurried SET idle_session_timeout = '7s'",
    ];
    cluster.run_sql("postgres", &made).unwrap();
    let url = DatabaseUrl::parse(&cluster.url("hurried")).unwrap();
    let (shared, _aside) = open_at(&url, keys.path(), LongestWaits::default());
    let set = shared.with_writer(|writer| {
        let names = ["statement_timeout", "idle_session_timeout"];
        Ok(names.map(|name| writer.lines(&format!("SHOW {name}"))))
    });
    assert_eq!(set.unwrap(), [["0"], ["0"]]);
}
