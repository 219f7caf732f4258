//! Taking the store in a schema: looking whether it is fit, owning it, and making what is missing.

use std::cmp::Ordering;
use std::path::Path;

use query::lexemes;
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use super::address::DatabaseUrl;
use super::checks::{self, ContentUse, SchemaContent, SchemaSeen, StoreContent};
use super::connection::{
    DatabaseConnection, DatabaseNotices, FIRST_ANSWER_MAX, connect, identifier, literal, row,
};
use super::filling::{PATIENT, StoreFilling, WAIT_FOR_DISK};
use super::finding::{DatabaseFinding, Verdict};
use super::format::{FORMAT, STEPS};
use super::leaving::StoreLeaving;
use super::loading::load;
use super::look;
use super::primary::{self, ServerTimeline};
use super::words;
use super::write::session::COMMIT_MAX;
use crate::error::corrupt;
use crate::{Loaded, StoreError, StorePlace};

/// The first key of the lock of an owner, `tide` in ASCII. The second one is the schema's oid, so
/// that several stores fit in one database.
const LOCK_CLASS: i32 = i32::from_be_bytes(*b"tide");

/// What is said of `meta` from when the store is sealed, before the name of the move.
const LEFT_BY: &str = "Moved into a data directory by the move ";

/// A store in a schema of a database, which is this process's own until the value is dropped.
pub struct DatabaseStore {
    pub(super) runtime: Runtime,
    /// The session that holds the lock.
    pub(super) owner: Client,
    /// What comes with its answers.
    pub(super) notices: DatabaseNotices,
    lineage: String,
}

/// The store that is to be copied, which is not sealed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopiedStore<'s> {
    /// Its lineage.
    pub(crate) lineage: &'s str,
    /// The mark of its last commit.
    pub(crate) mark: i64,
}

/// What a store is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenedFor<'s> {
    Serve,
    /// To go on with what this process was writing to.
    GoOn,
    Copy(CopiedStore<'s>),
    /// To let a copy count that was made before.
    Release,
    /// To be copied out of here.
    Leave,
    /// To go on from what is there, whatever was there before.
    Restore,
}

impl OpenedFor<'_> {
    fn content_use(self) -> ContentUse {
        match self {
            OpenedFor::Serve | OpenedFor::GoOn | OpenedFor::Restore => ContentUse::Serve,
            OpenedFor::Copy(_) => ContentUse::Fill,
            OpenedFor::Release => ContentUse::Release,
            OpenedFor::Leave => ContentUse::Leave,
        }
    }
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
        purpose: OpenedFor<'_>,
    ) -> Result<DatabaseStore, StoreError> {
        let runtime = runtime()?;
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

    /// Takes the schema for a copy of another store, which it refuses where it holds one. What an
    /// earlier run copied of that store is removed. From then on it cannot be opened until the copy
    /// is released.
    pub(crate) fn open_for_copy(
        url: &DatabaseUrl,
        password_file: Option<&Path>,
        of: CopiedStore<'_>,
    ) -> Result<DatabaseStore, StoreError> {
        DatabaseStore::open_as(url, password_file, OpenedFor::Copy(of))
    }

    /// Takes a copy that was made in the schema and does not count yet.
    pub(crate) fn open_copy(
        url: &DatabaseUrl,
        password_file: Option<&Path>,
    ) -> Result<DatabaseStore, StoreError> {
        DatabaseStore::open_as(url, password_file, OpenedFor::Release)
    }

    /// Takes the store in the schema so that it can be copied out of there, also where it was.
    pub(crate) fn open_to_leave(
        url: &DatabaseUrl,
        password_file: Option<&Path>,
    ) -> Result<DatabaseStore, StoreError> {
        DatabaseStore::open_as(url, password_file, OpenedFor::Leave)
    }

    /// Fills the store in one transaction, which is committed if that succeeds.
    pub(crate) fn fill<T>(
        &mut self,
        fill: impl AsyncFnOnce(&StoreFilling<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.notices.clear();
        let filled = self.runtime.block_on(async {
            let filling = StoreFilling::begin(&mut self.owner).await?;
            let filled = fill(&filling).await?;
            filling.commit().await?;
            Ok::<_, StoreError>(filled)
        })?;
        self.need_no_warning()?;
        Ok(filled)
    }

    /// Reads the store in one snapshot.
    pub(crate) fn leave<T>(
        &mut self,
        leave: impl AsyncFnOnce(&StoreLeaving<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.runtime.block_on(async {
            let leaving = StoreLeaving::begin(&mut self.owner).await?;
            leave(&leaving).await
        })
    }

    /// Lets what was copied be opened.
    pub(crate) fn release(&mut self) -> Result<(), StoreError> {
        self.write_durably(&format!("UPDATE meta SET moving = {}", checks::STAYS))?;
        self.lineage = self.runtime.block_on(lineage(&self.owner))?;
        Ok(())
    }

    /// Seals the store, which was moved elsewhere by the move of this name.
    pub(crate) fn seal(&mut self, name: &str) -> Result<(), StoreError> {
        self.write_durably(&format!(
            "UPDATE meta SET moving = {}; COMMENT ON TABLE meta IS {}",
            checks::HAS_LEFT,
            literal(&format!("{LEFT_BY}{name}"))
        ))
    }

    /// The name of the move that has sealed it.
    pub(crate) fn left_by(&self) -> Result<Option<String>, StoreError> {
        let sql = "SELECT obj_description('meta'::regclass, 'pg_class')";
        let found = self.runtime.block_on(row(&self.owner, sql))?;
        Ok(found.and_then(|row| Some(row.get(0)?.strip_prefix(LEFT_BY)?.to_owned())))
    }

    /// Whether it is sealed so.
    pub(crate) fn has_left(&self) -> Result<bool, StoreError> {
        let content = self.runtime.block_on(content(&self.owner))?;
        Ok(content.moving == checks::HAS_LEFT)
    }

    /// What is said to those who look for a store where it was sealed so.
    pub(crate) fn moved_away(url: &DatabaseUrl) -> StoreError {
        let content = StoreContent {
            moving: checks::HAS_LEFT,
            is_written: true,
        };
        StoreError::DatabaseUnfit(checks::content(url, content, ContentUse::Serve))
    }

    /// What is said where the copy in this directory is not the one that the store has left by.
    pub(crate) fn left_by_another(url: &DatabaseUrl, copy: &Path) -> StoreError {
        StoreError::DatabaseUnfit(checks::left_by_another(url, copy))
    }

    /// The mark of the last commit.
    pub(crate) fn mark(&self) -> Result<i64, StoreError> {
        let found = row(&self.owner, "SELECT mark FROM meta");
        let found = self.runtime.block_on(found)?;
        let mark = found.and_then(|row| row.get(0)?.parse().ok());
        mark.ok_or_else(no_stamp)
    }

    fn write_durably(&mut self, sql: &str) -> Result<(), StoreError> {
        self.notices.clear();
        let write = format!("BEGIN; {WAIT_FOR_DISK}; {sql}; COMMIT");
        self.runtime.block_on(self.owner.batch_execute(&write))?;
        self.need_no_warning()
    }

    /// # Errors
    /// A commit that comes with a warning is not on the standbys it was to wait for.
    fn need_no_warning(&self) -> Result<(), StoreError> {
        self.notices.warning().map_or(Ok(()), |warning| {
            Err(StoreError::Io {
                detail: format!("the database warns of a commit: {warning}"),
            })
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
        let unlock = owner.batch_execute("SELECT pg_advisory_unlock_all()");
        let unlock = async { tokio::time::timeout(FIRST_ANSWER_MAX, unlock).await };
        // An error means that the session has ended already.
        let _ = runtime.block_on(unlock);
    }
}

async fn take(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
    purpose: OpenedFor<'_>,
) -> Result<(DatabaseConnection, String), StoreError> {
    let connection = match connect(url, password_file).await {
        Ok(connection) => connection,
        Err(fault) if purpose == OpenedFor::GoOn => {
            return Err(checks::not_connected(url, &fault));
        }
        Err(fault) => return Err(StoreError::DatabaseUnfit(checks::refused(url, &fault))),
    };
    let connection = match purpose {
        OpenedFor::Serve => latest(url, password_file, connection).await?,
        _ => connection,
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
    match purpose {
        OpenedFor::Restore => need(checks::restored(url, &seen))?,
        OpenedFor::Leave | OpenedFor::Release => need(checks::there(url, &seen))?,
        OpenedFor::Serve | OpenedFor::GoOn | OpenedFor::Copy(_) => {}
    }
    if !seen.is_there {
        make_schema(client, url).await?;
    }
    lock(client, url).await?;
    // What was seen before may have been made by the owner before this one.
    let seen = look::schema(client, &url.schema).await?;
    need(checks::schema(url, &seen))?;
    let found = format_of(client, &seen).await?;
    if purpose == OpenedFor::Leave && found < FORMAT {
        return Err(StoreError::OlderFormat {
            found,
            newest: FORMAT,
        });
    }
    migrate(client, found).await?;
    if let OpenedFor::Copy(of) = purpose {
        discard_earlier(client, of).await?;
    }
    let held = content(client).await?;
    need(checks::content(url, held, purpose.content_use()))?;
    match purpose {
        OpenedFor::Serve | OpenedFor::GoOn | OpenedFor::Release | OpenedFor::Leave => {
            primary::admit(client).await?;
        }
        OpenedFor::Restore => primary::begin_anew(client).await?,
        OpenedFor::Copy(_) => {
            primary::admit(client).await?;
            let arrives = format!("UPDATE meta SET moving = {}", checks::ARRIVES);
            client.batch_execute(&arrives).await?;
        }
    }
    if let OpenedFor::Serve | OpenedFor::GoOn | OpenedFor::Copy(_) = purpose {
        words::renew(client).await?;
    }
    let lineage = lineage(client).await?;
    Ok((connection, lineage))
}

/// Of several hosts that take writes, the one on the latest timeline: a primary may have come back
/// whose place a standby has taken. Those that cannot be reached are passed by.
async fn latest(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
    first: DatabaseConnection,
) -> Result<DatabaseConnection, StoreError> {
    let mut latest = first;
    for alone in url.on_each_host() {
        if alone.hosts[0] == latest.host {
            continue;
        }
        let Ok(other) = connect(&alone, password_file).await else {
            continue;
        };
        let before = ServerTimeline::of(&latest.client).await?;
        let after = ServerTimeline::of(&other.client).await?;
        if after.system == before.system && after.number > before.number {
            latest = other;
        }
    }
    Ok(latest)
}

async fn lineage(client: &Client) -> Result<String, StoreError> {
    let found = row(client, "SELECT lineage FROM meta").await?;
    let lineage = found.and_then(|row| row.get(0).map(str::to_owned));
    lineage.ok_or_else(no_stamp)
}

async fn content(client: &Client) -> Result<StoreContent, StoreError> {
    let sql = "SELECT moving, mark <> 0 OR catalogue_epoch <> 0 FROM meta";
    let found = row(client, sql).await?.ok_or_else(no_stamp)?;
    let moving = found.get(0).and_then(|text| text.parse().ok());
    Ok(StoreContent {
        moving: moving.ok_or_else(no_stamp)?,
        is_written: found.get(1) == Some("t"),
    })
}

fn no_stamp() -> StoreError {
    corrupt("the table `meta` has no row")
}

pub(super) fn need(finding: DatabaseFinding) -> Result<(), StoreError> {
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
    Err(StoreError::Locked {
        place: StorePlace::from(url.clone()),
        holder: holder(client, &url.schema).await?,
    })
}

/// Who has the lock of the schema, in words.
async fn holder(client: &Client, schema: &str) -> Result<Option<String>, StoreError> {
    let schema = literal(schema);
    let look = format!(
        "SELECT a.pid, coalesce(host(a.client_addr), 'its own machine'), a.backend_start::text \
         FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
         JOIN pg_namespace n ON n.nspname = {schema} \
         WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {LOCK_CLASS} \
         AND l.objid = n.oid AND l.objsubid = 2 AND a.datname = current_database()"
    );
    Ok(row(client, &look).await?.and_then(|row| {
        let (pid, from, since) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Some(format!(
            "process {pid} of the server, connected from {from} since {since}"
        ))
    }))
}

/// Reads the store in a schema in one snapshot. Another process may have it. Changes nothing.
///
/// # Errors
/// [`StoreError::DatabaseUnfit`] when it cannot be connected to, or no store can be read there;
/// [`StoreError::OlderFormat`] and [`StoreError::Format`] when it is not of today's format.
pub(crate) fn read_beside<T>(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
    read: impl AsyncFnOnce(&StoreLeaving<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    runtime()?.block_on(async {
        let connection = connect(url, password_file).await;
        let refused = |fault| StoreError::DatabaseUnfit(checks::refused(url, &fault));
        let mut client = connection.map_err(refused)?.client;
        let seen = look::schema(&client, &url.schema).await?;
        need(checks::there(url, &seen))?;
        let found = format_of(&client, &seen).await?;
        let newest = FORMAT;
        match found.cmp(&newest) {
            Ordering::Less => return Err(StoreError::OlderFormat { found, newest }),
            Ordering::Greater => return Err(StoreError::Format { found, newest }),
            Ordering::Equal => {}
        }
        let held = content(&client).await?;
        need(checks::content(url, held, ContentUse::Serve))?;
        let leaving = StoreLeaving::begin(&mut client).await?;
        read(&leaving).await
    })
}

/// Who has the store in a database open, in words; `None` where no one has. Changes nothing.
///
/// # Errors
/// [`StoreError::DatabaseUnfit`] when it cannot be connected to.
pub fn database_holder(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
) -> Result<Option<String>, StoreError> {
    runtime()?.block_on(async {
        let connection = connect(url, password_file).await;
        let refused = |fault| StoreError::DatabaseUnfit(checks::refused(url, &fault));
        holder(&connection.map_err(refused)?.client, &url.schema).await
    })
}

/// Whether there is a store in the schema that the URL names. Changes nothing.
///
/// # Errors
/// [`StoreError::DatabaseUnfit`] when it cannot be connected to.
pub fn database_holds_store(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
) -> Result<bool, StoreError> {
    runtime()?.block_on(async {
        let connection = connect(url, password_file).await;
        let refused = |fault| StoreError::DatabaseUnfit(checks::refused(url, &fault));
        let seen = look::schema(&connection.map_err(refused)?.client, &url.schema).await?;
        Ok(seen.holds == SchemaContent::Store)
    })
}

pub(super) fn runtime() -> Result<Runtime, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| StoreError::Io {
        detail: error.to_string(),
    })
}

/// The format of the schema; 0 where nothing is in it.
async fn format_of(client: &Client, seen: &SchemaSeen) -> Result<i64, StoreError> {
    if seen.holds != SchemaContent::Store {
        return Ok(0);
    }
    let format = row(client, "SELECT format FROM meta").await?;
    let format = format.and_then(|row| row.get(0)?.parse().ok());
    format.ok_or_else(|| corrupt("the table `meta` names no format"))
}

/// Brings the schema to today's format, in one transaction: after a crash it has the old format
/// or the new one.
async fn migrate(client: &Client, found: i64) -> Result<(), StoreError> {
    if found > FORMAT {
        return Err(StoreError::Format {
            found,
            newest: FORMAT,
        });
    }
    let left = &STEPS[usize::try_from(found).map_err(|_| corrupt("negative format"))?..];
    if !left.is_empty() {
        // Where the database lacks the language of the function, the store keeps its format.
        let function = lexemes::function();
        let all = format!("BEGIN;{};{function};COMMIT", made_by(left));
        client.batch_execute(&all).await?;
    }
    Ok(())
}

fn made_by(steps: &[&str]) -> String {
    format!("{};UPDATE meta SET format = {FORMAT}", steps.join(";"))
}

/// Removes a copy that an earlier run has made of this store and that never counted, for the source
/// of that is not sealed. Of another store, or of more than the source has, it stays.
async fn discard_earlier(client: &Client, of: CopiedStore<'_>) -> Result<(), StoreError> {
    let CopiedStore { lineage, mark } = of;
    let look = format!(
        "SELECT string_agg(quote_ident(c.relname), ', ') FROM pg_class c JOIN meta m \
         ON m.moving = {} AND m.lineage = {} AND m.mark <= {mark} \
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'",
        checks::ARRIVES,
        literal(lineage)
    );
    let found = row(client, &look).await?;
    let Some(tables) = found.as_ref().and_then(|row| row.get(0)) else {
        return Ok(());
    };
    let replaced = format!(
        "BEGIN;{PATIENT};DROP TABLE {tables};{};UPDATE meta SET moving = {};COMMIT",
        made_by(STEPS),
        checks::ARRIVES
    );
    Ok(client.batch_execute(&replaced).await?)
}
