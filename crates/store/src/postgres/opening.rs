//! Taking the store in a schema: looking whether it is fit, owning it, and making what is missing.

use std::path::Path;

use tokio::runtime::Runtime;
use tokio_postgres::Client;

use super::address::DatabaseUrl;
use super::checks::{self, SchemaContent, SchemaSeen, StoreContent};
use super::connection::{DatabaseConnection, DatabaseNotices, connect, identifier, literal, row};
use super::filling::StoreFilling;
use super::finding::{DatabaseFinding, Verdict};
use super::format::{FORMAT, STEPS};
use super::loading::load;
use super::look;
use super::primary;
use super::write::session::COMMIT_MAX;
use crate::error::corrupt;
use crate::{Loaded, StoreError, StorePlace};

/// The first key of the lock of an owner, `tide` in ASCII. The second one is the schema's oid, so
/// that several stores fit in one database.
const LOCK_CLASS: i32 = i32::from_be_bytes(*b"tide");

/// A store in a schema of a database, which is this process's own until the value is dropped.
pub struct DatabaseStore {
    pub(super) runtime: Runtime,
    /// The session that holds the lock.
    pub(super) owner: Client,
    /// What comes with its answers.
    pub(super) notices: DatabaseNotices,
    lineage: String,
}

/// What a store is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenedFor {
    Serve,
    /// To go on with what this process was writing to.
    GoOn,
    Copy,
    /// To go on from what is there, whatever was there before.
    Restore,
}

/// Lets the store in a schema go on from what is there, after a restore say: as another history,
/// so that no reader takes what was read before for a part of it. Its lineage from now on.
///
/// # Errors
/// As [`DatabaseStore::open`]; [`StoreError::DatabaseUnfit`] also when no store is there.
pub fn accept_restore(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
) -> Result<String, StoreError> {
    let store = DatabaseStore::open_as(url, password_file, OpenedFor::Restore)?;
    let lineage = store.lineage.clone();
    store.close();
    Ok(lineage)
}

impl DatabaseStore {
    /// Takes the store in the schema that the URL names. Where the schema is absent or empty, a
    /// store is made there; one of an older format is brought to today's. A password that the URL
    /// lacks is looked for in the file.
    ///
    /// # Errors
    /// [`StoreError::DatabaseUnfit`] when no store can be there, with what is missing, or when the
    /// one that is there is in another cluster than before, or on an earlier timeline;
    /// [`StoreError::Locked`] when another process holds it; [`StoreError::Format`] when a newer
    /// Tidemark made it; [`StoreError::Io`] when it cannot be read or written.
    pub fn open(
        url: &DatabaseUrl,
        password_file: Option<&Path>,
    ) -> Result<DatabaseStore, StoreError> {
        DatabaseStore::open_as(url, password_file, OpenedFor::Serve)
    }

    /// The same, of a store that this process has served until its session has ended: an outage
    /// passes, and so does the lock that the session may yet have. As it may write, it takes no
    /// longer than a commit.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] then.
    pub(super) fn open_again(
        url: &DatabaseUrl,
        password_file: Option<&Path>,
    ) -> Result<DatabaseStore, StoreError> {
        DatabaseStore::open_as(url, password_file, OpenedFor::GoOn).map_err(|error| match error {
            StoreError::Locked { .. } => StoreError::Unreachable {
                detail: error.to_string().trim_end_matches('.').to_owned(),
            },
            error => error,
        })
    }

    fn open_as(
        url: &DatabaseUrl,
        password_file: Option<&Path>,
        purpose: OpenedFor,
    ) -> Result<DatabaseStore, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Io {
                detail: error.to_string(),
            })?;
        let (connection, lineage) = runtime.block_on(async {
            let taken = take(url, password_file, purpose);
            if purpose != OpenedFor::GoOn {
                return taken.await;
            }
            let taken = tokio::time::timeout(COMMIT_MAX, taken).await;
            taken.unwrap_or_else(|_| {
                let detail = "it does not answer".to_owned();
                Err(StoreError::Unreachable { detail })
            })
        })?;
        Ok(DatabaseStore {
            runtime,
            owner: connection.client,
            notices: connection.notices,
            lineage,
        })
    }

    /// Takes the schema for a copy of another store, which it refuses where it holds one. From then
    /// on it cannot be opened until that is released.
    pub(crate) fn open_for_copy(
        url: &DatabaseUrl,
        password_file: Option<&Path>,
    ) -> Result<DatabaseStore, StoreError> {
        DatabaseStore::open_as(url, password_file, OpenedFor::Copy)
    }

    /// Fills the store in one transaction, which is committed if that succeeds.
    pub(crate) fn fill<T>(
        &mut self,
        fill: impl AsyncFnOnce(&StoreFilling<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.runtime.block_on(async {
            let filling = StoreFilling::begin(&mut self.owner).await?;
            let filled = fill(&filling).await?;
            filling.commit().await?;
            Ok(filled)
        })
    }

    /// Lets what was copied be opened.
    pub(crate) fn release(&mut self) -> Result<(), StoreError> {
        self.runtime.block_on(async {
            self.owner
                .batch_execute("UPDATE meta SET moving = 0")
                .await?;
            self.lineage = lineage(&self.owner).await?;
            Ok(())
        })
    }

    /// All containers, and the marks to go on from, as of the latest commit.
    ///
    /// # Errors
    /// What the database says; [`StoreError::Corrupt`] when it holds what no store has written.
    pub fn load(&self) -> Result<Loaded, StoreError> {
        self.runtime.block_on(load(&self.owner))
    }

    /// The identity of the store's one history.
    pub fn lineage(&self) -> &str {
        &self.lineage
    }

    /// Gives the store up. Unlike a drop, it waits until the server knows, so that the next owner
    /// finds the store free.
    pub fn close(self) {
        let DatabaseStore { runtime, owner, .. } = self;
        // An error means that the session has ended already.
        let _ = runtime.block_on(owner.batch_execute("SELECT pg_advisory_unlock_all()"));
    }
}

async fn take(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
    purpose: OpenedFor,
) -> Result<(DatabaseConnection, String), StoreError> {
    let connection = match connect(url, password_file).await {
        Ok(connection) => connection,
        Err(fault) if purpose == OpenedFor::GoOn => {
            return Err(checks::not_connected(url, &fault));
        }
        Err(fault) => return Err(StoreError::DatabaseUnfit(checks::refused(url, &fault))),
    };
    let client = &connection.client;
    let settings = look::settings(client).await?;
    need(checks::version(&settings))?;
    need(checks::encoding(url, &settings))?;
    if purpose != OpenedFor::GoOn {
        need(look::pooler(client, url, password_file).await?)?;
    }
    need(checks::session(&settings))?;
    let seen = look::schema(client, &url.schema).await?;
    need(checks::schema(url, &seen))?;
    if purpose == OpenedFor::Restore {
        need(checks::restored(url, &seen))?;
    }
    if !seen.is_there {
        make_schema(client, url).await?;
    }
    lock(client, url).await?;
    // What was seen before may have been made by the owner before this one.
    let seen = look::schema(client, &url.schema).await?;
    need(checks::schema(url, &seen))?;
    migrate(client, &seen).await?;
    let is_copying = purpose == OpenedFor::Copy;
    need(checks::content(url, content(client).await?, is_copying))?;
    match purpose {
        OpenedFor::Serve | OpenedFor::GoOn => primary::admit(client).await?,
        OpenedFor::Restore => primary::begin_anew(client).await?,
        OpenedFor::Copy => {
            primary::admit(client).await?;
            client.batch_execute("UPDATE meta SET moving = 1").await?;
        }
    }
    let lineage = lineage(client).await?;
    Ok((connection, lineage))
}

async fn lineage(client: &Client) -> Result<String, StoreError> {
    let found = row(client, "SELECT lineage FROM meta").await?;
    let lineage = found.and_then(|row| row.get(0).map(str::to_owned));
    lineage.ok_or_else(no_stamp)
}

async fn content(client: &Client) -> Result<StoreContent, StoreError> {
    let sql = "SELECT moving <> 0, mark <> 0 OR catalogue_epoch <> 0 FROM meta";
    let found = row(client, sql).await?.ok_or_else(no_stamp)?;
    Ok(StoreContent {
        is_copy: found.get(0) == Some("t"),
        is_written: found.get(1) == Some("t"),
    })
}

fn no_stamp() -> StoreError {
    corrupt("the table `meta` has no row")
}

fn need(finding: DatabaseFinding) -> Result<(), StoreError> {
    match finding.verdict {
        Verdict::Bad => Err(StoreError::DatabaseUnfit(finding)),
        Verdict::Good | Verdict::Warning => Ok(()),
    }
}

async fn make_schema(client: &Client, url: &DatabaseUrl) -> Result<(), StoreError> {
    let make = format!("CREATE SCHEMA IF NOT EXISTS {}", identifier(&url.schema));
    let Err(error) = client.batch_execute(&make).await else {
        return Ok(());
    };
    // Another process may have made it at the same time.
    if look::schema(client, &url.schema).await?.is_there {
        return Ok(());
    }
    Err(error.into())
}

/// Takes the lock of the schema, which ends with the session.
async fn lock(client: &Client, url: &DatabaseUrl) -> Result<(), StoreError> {
    let schema = literal(&url.schema);
    let take = format!(
        "SELECT pg_try_advisory_lock({LOCK_CLASS}, oid::int4) FROM pg_namespace \
         WHERE nspname = {schema}"
    );
    let taken = row(client, &take).await?;
    if taken.is_some_and(|row| row.get(0) == Some("t")) {
        return Ok(());
    }
    let look = format!(
        "SELECT a.pid, coalesce(host(a.client_addr), 'its own machine'), a.backend_start::text \
         FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
         JOIN pg_namespace n ON n.nspname = {schema} \
         WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {LOCK_CLASS} \
         AND l.objid = n.oid AND l.objsubid = 2 AND a.datname = current_database()"
    );
    let holder = row(client, &look).await?.and_then(|row| {
        let (pid, from, since) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Some(format!(
            "process {pid} of the server, connected from {from} since {since}"
        ))
    });
    Err(StoreError::Locked {
        place: StorePlace::from(url.clone()),
        holder,
    })
}

/// Brings the schema to today's format, in one transaction: after a crash it has the old format
/// or the new one.
async fn migrate(client: &Client, seen: &SchemaSeen) -> Result<(), StoreError> {
    let mut found = 0;
    if seen.holds == SchemaContent::Store {
        let format = row(client, "SELECT format FROM meta").await?;
        let format = format.and_then(|row| row.get(0)?.parse().ok());
        found = format.ok_or_else(|| corrupt("the table `meta` names no format"))?;
    }
    if found > FORMAT {
        return Err(StoreError::Format {
            found,
            newest: FORMAT,
        });
    }
    let left = &STEPS[usize::try_from(found).map_err(|_| corrupt("negative format"))?..];
    if !left.is_empty() {
        let stamp = format!("UPDATE meta SET format = {FORMAT}");
        let all = format!("BEGIN;{};{stamp};COMMIT", left.join(";"));
        client.batch_execute(&all).await?;
    }
    Ok(())
}
