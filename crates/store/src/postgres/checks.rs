//! What is found fit for a store, and what is not: one sentence each, and what to do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::address::DatabaseUrl;
use super::connection::{ConnectFault, HostFault, SESSION, identifier};
use super::finding::DatabaseFinding;
use crate::StoreError;

/// The oldest version that a store runs on, as `server_version_num` has it.
const VERSION_MIN: u32 = 150_000;
/// A node has some forty connections: two for each thread that reads, the writer's, and upkeep's.
const ROOM_MIN: i64 = 50;
/// A snapshot that is open for longer makes each small commit dearer until it closes.
const SNAPSHOT_MAX: Duration = Duration::from_secs(10);
/// For so long a node that is cut off may keep its locks.
const SILENT_MAX_S: i64 = 60;
/// A clock that differs by more runs wrong.
const SKEW_MAX_US: i64 = 1_000_000;
/// No disk syncs faster, in microseconds; and above the other each group of writes waits long.
const SYNC_US: [u64; 2] = [50, 20_000];

/// The settings of the server that are looked at.
pub(super) const SETTINGS: [&str; 17] = [
    "server_version",
    "server_version_num",
    "server_encoding",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "autovacuum",
    "max_connections",
    "superuser_reserved_connections",
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_keepalives_count",
    SESSION[0].0,
    SESSION[1].0,
    SESSION[2].0,
    SESSION[3].0,
];

/// Of `synchronous_commit`: no standby is waited for, whichever are named.
const LOCAL: &str = "local";

/// Settings by their names.
pub(super) struct ServerSettings(pub(super) BTreeMap<String, String>);

impl ServerSettings {
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or(0)
    }

    /// Whether commits wait for a standby.
    pub(super) fn waits_for_standby(&self) -> bool {
        self.names_standbys() && self.get("synchronous_commit") != LOCAL
    }

    fn names_standbys(&self) -> bool {
        !self.get("synchronous_standby_names").is_empty()
    }
}

/// No host took the connection.
pub(super) fn refused(url: &DatabaseUrl, fault: &ConnectFault) -> DatabaseFinding {
    const CHECK: &str = "connection";
    let said = fault.tried.iter().map(|(host, fault)| match fault {
        HostFault::ReadsOnly => format!("{host} is a standby, which takes no writes"),
        HostFault::PasswordFile(said) | HostFault::Failed { said, .. } => format!("{host}: {said}"),
    });
    let said: Vec<String> = said.collect();
    let codes = fault.tried.iter().find_map(|(_, fault)| match fault {
        HostFault::Failed { code, .. } => code.clone(),
        HostFault::ReadsOnly | HostFault::PasswordFile(_) => None,
    });
    let is_of_file = |(_, fault): &(String, HostFault)| matches!(fault, HostFault::PasswordFile(_));
    let database = url.database().unwrap_or("the user's");
    let advice = match codes {
        Some(SqlState::INVALID_CATALOG_NAME) => {
            format!(
                "As a superuser: CREATE DATABASE {} ENCODING 'UTF8'",
                identifier(database)
            )
        }
        Some(SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            "Look at the user, the password and pg_hba.conf. The password may stand in the URL \
             or in the file of PGPASSFILE"
                .to_owned()
        }
        Some(SqlState::TOO_MANY_CONNECTIONS) => "Raise max_connections".to_owned(),
        _ if fault.tried.iter().any(is_of_file) => {
            "Let --password-file or PGPASSFILE name a file that is there and that its user alone \
             may read, or name none"
                .to_owned()
        }
        _ if fault
            .tried
            .iter()
            .all(|(_, fault)| *fault == HostFault::ReadsOnly) =>
        {
            "Name the primary in the URL, too".to_owned()
        }
        _ => "Look at the host, the port and whether the server runs".to_owned(),
    };
    DatabaseFinding::bad(
        CHECK,
        format!("No host takes writes. {}.", said.join("; ")),
        advice,
    )
}

/// What a caller learns where no host takes the connection.
pub(super) fn not_connected(url: &DatabaseUrl, fault: &ConnectFault) -> StoreError {
    let finding = refused(url, fault);
    if fault.is_outage() {
        let detail = finding.found.trim_end_matches('.').to_owned();
        return StoreError::Unreachable { detail };
    }
    StoreError::DatabaseUnfit(finding)
}

pub(super) fn version(settings: &ServerSettings) -> DatabaseFinding {
    let found = format!("PostgreSQL {}.", settings.get("server_version"));
    if settings.number("server_version_num") < i64::from(VERSION_MIN) {
        return DatabaseFinding::bad("version", found, "Use PostgreSQL 15 or later");
    }
    DatabaseFinding::good("version", found)
}

pub(super) fn encoding(url: &DatabaseUrl, settings: &ServerSettings) -> DatabaseFinding {
    let found = settings.get("server_encoding");
    if found == "UTF8" {
        return DatabaseFinding::good("encoding", "The database keeps texts as UTF8.");
    }
    DatabaseFinding::bad(
        "encoding",
        format!(
            "The database {} has the encoding {found}, which does not hold every text.",
            url.database().unwrap_or("")
        ),
        "Make another one: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
    )
}

/// Two connections of which one holds a transaction, and the process that served the other one
/// before and meanwhile.
pub(super) fn pooler(before: &str, meanwhile: &str) -> DatabaseFinding {
    if before == meanwhile {
        return DatabaseFinding::good("pooler", "Each connection has a session of its own.");
    }
    DatabaseFinding::bad(
        "pooler",
        "A pooler changes the server's process between two statements of one connection.",
        "Connect to the server itself, or let the pooler keep sessions (pool_mode = session)",
    )
}

/// What is in the schema, and what this user may do.
pub(super) struct SchemaSeen {
    pub(super) user: String,
    pub(super) may_create: bool,
    pub(super) is_there: bool,
    pub(super) may_use: bool,
    pub(super) holds: SchemaContent,
}

/// What a schema holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaContent {
    Nothing,
    /// A store, of whatever format.
    Store,
    /// So many tables, indexes or others of something else.
    Other(u64),
}

pub(super) fn schema(url: &DatabaseUrl, seen: &SchemaSeen) -> DatabaseFinding {
    const CHECK: &str = "schema";
    let (name, user) = (&url.schema, &seen.user);
    let (quoted, owner) = (identifier(name), identifier(user));
    match seen {
        SchemaSeen {
            is_there: false,
            may_create: true,
            ..
        } => DatabaseFinding::good(
            CHECK,
            format!("`{name}` is not there, and the user `{user}` may make it."),
        ),
        SchemaSeen {
            is_there: false, ..
        } => DatabaseFinding::bad(
            CHECK,
            format!("`{name}` is not there, and the user `{user}` may not make it."),
            format!("As the owner of the database: CREATE SCHEMA {quoted} AUTHORIZATION {owner}"),
        ),
        SchemaSeen {
            holds: SchemaContent::Other(count),
            ..
        } => DatabaseFinding::bad(
            CHECK,
            format!("`{name}` holds {count} tables, indexes or others of something else."),
            "Name an empty schema by `?schema=` in the URL",
        ),
        SchemaSeen { may_use: false, .. } => DatabaseFinding::bad(
            CHECK,
            format!("`{name}` is there, and the user `{user}` may not make tables in it."),
            format!("As its owner: GRANT USAGE, CREATE ON SCHEMA {quoted} TO {owner}"),
        ),
        SchemaSeen {
            holds: SchemaContent::Store,
            ..
        } => DatabaseFinding::good(CHECK, format!("`{name}` holds a store.")),
        _ => DatabaseFinding::good(CHECK, format!("`{name}` is there, and empty.")),
    }
}

/// Whether there is a store to go on from.
pub(super) fn restored(url: &DatabaseUrl, seen: &SchemaSeen) -> DatabaseFinding {
    const CHECK: &str = "schema";
    let name = &url.schema;
    match seen.holds {
        SchemaContent::Store => DatabaseFinding::good(CHECK, format!("`{name}` holds a store.")),
        _ => DatabaseFinding::bad(
            CHECK,
            format!("`{name}` holds no store that was restored."),
            "Restore one, or name its schema by `?schema=` in the URL",
        ),
    }
}

/// Whether there is a store to be moved.
pub(super) fn there(url: &DatabaseUrl, seen: &SchemaSeen) -> DatabaseFinding {
    const CHECK: &str = "schema";
    let name = &url.schema;
    match seen.holds {
        SchemaContent::Store => DatabaseFinding::good(CHECK, format!("`{name}` holds a store.")),
        _ => DatabaseFinding::bad(
            CHECK,
            format!("`{name}` holds no store."),
            "Name the schema of a store by `?schema=` in the URL",
        ),
    }
}

/// What a store in a schema holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreContent {
    /// What `meta.moving` says.
    pub(super) moving: i64,
    pub(super) is_written: bool,
}

/// What is to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentUse {
    Serve,
    /// Another store is to be copied into it.
    Fill,
    /// It is a copy that was sealed everywhere else, and is to count.
    Release,
    /// It is to be copied out of here, or was.
    Leave,
}

/// Of `meta.moving`: a store that can be served, one that another is copied into, and one that was
/// moved elsewhere.
pub(super) const STAYS: i64 = 0;
pub(super) const ARRIVES: i64 = 1;
pub(super) const HAS_LEFT: i64 = 2;

/// Whether a store can be used so.
pub(super) fn content(
    url: &DatabaseUrl,
    content: StoreContent,
    wanted: ContentUse,
) -> DatabaseFinding {
    const CHECK: &str = "content";
    let name = &url.schema;
    let StoreContent { moving, is_written } = content;
    match (moving, wanted) {
        (HAS_LEFT, ContentUse::Serve | ContentUse::Release) => DatabaseFinding::bad(
            CHECK,
            format!("The store in `{name}` was moved into a data directory."),
            "Use it there. If that says that the move has not ended, run the same `tidemark \
             move` again",
        ),
        (HAS_LEFT, ContentUse::Fill) => DatabaseFinding::bad(
            CHECK,
            format!("`{name}` holds what a store left that was moved into a data directory."),
            format!(
                "Once that store is served there, make room here: DROP SCHEMA {} CASCADE",
                identifier(name)
            ),
        ),
        (ARRIVES, ContentUse::Serve | ContentUse::Leave) => DatabaseFinding::bad(
            CHECK,
            format!("A store was to be moved into `{name}`, and that has not ended."),
            "Run the same `tidemark move` again. The data directory it comes from serves on until \
             it says that it was moved",
        ),
        (ARRIVES, ContentUse::Fill) if is_written => DatabaseFinding::bad(
            CHECK,
            format!(
                "`{name}` holds an unfinished copy of another store, or of a later state of this \
                 one."
            ),
            format!(
                "End the move that has made it, or remove what it made: DROP SCHEMA {} CASCADE",
                identifier(name)
            ),
        ),
        (_, ContentUse::Fill) if is_written => DatabaseFinding::bad(
            CHECK,
            format!("`{name}` holds a store with data."),
            "Name an empty schema by `?schema=` in the URL",
        ),
        (STAYS, ContentUse::Release) => DatabaseFinding::bad(
            CHECK,
            format!("The store in `{name}` has arrived already."),
            "Serve it there",
        ),
        _ => DatabaseFinding::good(CHECK, format!("`{name}` can be used.")),
    }
}

/// The store is sealed, and not by the move that has made this copy.
pub(super) fn left_by_another(url: &DatabaseUrl, copy: &Path) -> DatabaseFinding {
    let (name, copy) = (&url.schema, copy.display());
    DatabaseFinding::bad(
        "content",
        format!("The store in `{name}` went elsewhere: {copy} holds the copy of another move."),
        format!("Use the store where it was moved to, and remove {copy}"),
    )
}

pub(super) fn durability(settings: &ServerSettings) -> DatabaseFinding {
    const CHECK: &str = "durability";
    let names = ["fsync", "full_page_writes", "synchronous_commit"];
    let off: Vec<&str> = names
        .into_iter()
        .filter(|name| settings.get(name) == "off")
        .collect();
    if off.is_empty() {
        return DatabaseFinding::good(CHECK, "An acknowledged write survives a power cut.");
    }
    let alter = off
        .iter()
        .map(|name| format!("ALTER SYSTEM SET {name} = on"));
    let alter: Vec<String> = alter.collect();
    DatabaseFinding::bad(
        CHECK,
        format!(
            "A power cut may take acknowledged writes: off is {}.",
            off.join(", ")
        ),
        format!("{}; SELECT pg_reload_conf()", alter.join("; ")),
    )
}

/// What the server shows to few users only.
pub(super) fn unseen(user: &str) -> DatabaseFinding {
    DatabaseFinding::warning(
        "rights",
        format!(
            "The user `{user}` may not see how standbys follow, and what other users' sessions do: \
             that is not looked at."
        ),
        format!(
            "As a superuser: GRANT pg_read_all_stats TO {}",
            identifier(user)
        ),
    )
}

/// `states` are those of the standbys, as `sync_state` has them.
pub(super) fn standbys(settings: &ServerSettings, states: &[String]) -> DatabaseFinding {
    const CHECK: &str = "standbys";
    let is_sync = |state: &&String| ["sync", "quorum"].contains(&state.as_str());
    let synced = states.iter().filter(is_sync).count();
    match (settings.waits_for_standby(), synced) {
        (true, 0) => DatabaseFinding::bad(
            CHECK,
            "Commits wait for a standby, and none is connected: no write would be answered.",
            "Start the standbys that synchronous_standby_names names",
        ),
        (true, 1) => DatabaseFinding::warning(
            CHECK,
            "Commits wait for one standby, and there is one: its loss stops writes.",
            "Run two, with synchronous_standby_names = 'ANY 1 (…)'",
        ),
        (true, _) => DatabaseFinding::good(CHECK, format!("Commits wait for one of {synced}.")),
        (false, _) if settings.names_standbys() => DatabaseFinding::bad(
            CHECK,
            "No commit waits for the standbys that synchronous_standby_names names: \
             synchronous_commit is local. One that is promoted may lack acknowledged writes.",
            "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf()",
        ),
        (false, _) => DatabaseFinding::warning(
            CHECK,
            format!(
                "No commit waits for a standby ({} connected): with this machine acknowledged \
                 writes are lost.",
                states.len()
            ),
            "Run two, with synchronous_standby_names = 'ANY 1 (…)', or keep the disk elsewhere",
        ),
    }
}

/// Whether what our sessions set is in effect.
pub(super) fn session(settings: &ServerSettings) -> DatabaseFinding {
    const CHECK: &str = "session";
    let other = SESSION
        .iter()
        .filter(|(name, value)| settings.get(name) != *value);
    let other =
        other.map(|(name, value)| format!("{name} is {} in place of {value}", settings.get(name)));
    let other: Vec<String> = other.collect();
    if other.is_empty() {
        return DatabaseFinding::good(CHECK, "What a session sets is in effect.");
    }
    DatabaseFinding::bad(
        CHECK,
        format!(
            "What a session sets is not in effect: {}.",
            other.join(", ")
        ),
        "Connect to the server itself, without what stands between",
    )
}

pub(super) fn keepalives(settings: &ServerSettings, is_far: bool) -> DatabaseFinding {
    const CHECK: &str = "keepalives";
    if !is_far {
        return DatabaseFinding::good(CHECK, "A socket on this machine needs none.");
    }
    let [idle_s, interval_s, count] = ["idle", "interval", "count"]
        .map(|which| settings.number(&format!("tcp_keepalives_{which}")));
    let silent_s = idle_s.saturating_add(interval_s.saturating_mul(count));
    let found = format!("The server gives up a client that is silent after {silent_s} s.");
    if idle_s > 0 && silent_s <= SILENT_MAX_S {
        return DatabaseFinding::good(CHECK, found);
    }
    DatabaseFinding::warning(
        CHECK,
        format!("{found} A node that is cut off keeps its locks for so long."),
        "Set tcp_keepalives_idle=5, tcp_keepalives_interval=1, tcp_keepalives_count=3, \
         tcp_user_timeout=8s",
    )
}

/// `used` are the connections that are open now.
pub(super) fn connections(settings: &ServerSettings, used: i64) -> DatabaseFinding {
    let most = settings.number("max_connections");
    let room = most - settings.number("superuser_reserved_connections") - used;
    let found = format!("{room} of {most} connections are free.");
    if room < ROOM_MIN {
        return DatabaseFinding::warning(
            "connections",
            format!("{found} A node takes up to {ROOM_MIN}."),
            "Raise max_connections",
        );
    }
    DatabaseFinding::good("connections", found)
}

/// The age of the oldest snapshot, and whose it is.
pub(super) fn snapshots(oldest: Option<(Duration, String)>) -> DatabaseFinding {
    const CHECK: &str = "snapshots";
    match oldest {
        Some((age, who)) if age > SNAPSHOT_MAX => DatabaseFinding::warning(
            CHECK,
            format!("{who} has held a snapshot for {} s.", age.as_secs()),
            "End it: as long as it is open, no old version is cleared away and commits get dearer",
        ),
        _ => DatabaseFinding::good(CHECK, "No session has held a snapshot for long."),
    }
}

/// Replication slots with no reader.
pub(super) fn slots(idle: &[String]) -> DatabaseFinding {
    if idle.is_empty() {
        return DatabaseFinding::good("slots", "Each replication slot has a reader.");
    }
    DatabaseFinding::warning(
        "slots",
        format!(
            "No standby reads from {}: the log is kept for them.",
            idle.join(", ")
        ),
        "Drop those that are not needed (pg_drop_replication_slot), before the disk is full",
    )
}

pub(super) fn autovacuum(settings: &ServerSettings) -> DatabaseFinding {
    if settings.get("autovacuum") == "on" {
        return DatabaseFinding::good("autovacuum", "It is on.");
    }
    DatabaseFinding::warning(
        "autovacuum",
        "It is off: versions that no reader needs stay, and reads get slower.",
        "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()",
    )
}

/// How long one commit waits for the disk, beyond the round trip.
pub(super) fn sync(settings: &ServerSettings, took_us: u64) -> DatabaseFinding {
    const CHECK: &str = "sync";
    let found = format!("A commit waits {took_us} us.");
    let [least, most] = SYNC_US;
    if settings.get("fsync") == "on" && took_us < least {
        return DatabaseFinding::warning(
            CHECK,
            found,
            "No disk is that fast: it may acknowledge what a power cut takes",
        );
    }
    if took_us > most {
        let advice = "Each group of writes waits for one. Use a faster disk, or a nearer standby";
        return DatabaseFinding::warning(CHECK, found, advice);
    }
    DatabaseFinding::good(CHECK, found)
}

/// By how much the server's clock is ahead of ours.
pub(super) fn clock(ahead_us: i64) -> DatabaseFinding {
    let (seconds, which) = (
        ahead_us.abs() / 1_000_000,
        if ahead_us < 0 { "behind" } else { "ahead of" },
    );
    if ahead_us.abs() > SKEW_MAX_US {
        return DatabaseFinding::warning(
            "clock",
            format!("The server's clock is {seconds} s {which} this machine's."),
            "Set both by NTP: what is valid when goes by the server's",
        );
    }
    DatabaseFinding::good(
        "clock",
        "The server's clock is this machine's, within a second.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::Verdict;

    fn settings(with: &[(&str, &str)]) -> ServerSettings {
        let pairs = with
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ServerSettings(pairs.collect())
    }

    #[track_caller]
    fn check(finding: &DatabaseFinding, verdict: Verdict, said: &str) {
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        assert!(finding.found.contains(said), "{finding:?}");
        assert_eq!(
            finding.advice.is_some(),
            verdict != Verdict::Good,
            "{finding:?}"
        );
    }

    /// What a test's server cannot be brought to.
    #[test]
    fn faults_of_a_server_that_is_not_at_hand_are_named() {
        let old = settings(&[("server_version", "14.9"), ("server_version_num", "140009")]);
        check(&version(&old), Verdict::Bad, "PostgreSQL 14.9");
        check(&pooler("1", "1"), Verdict::Good, "session of its own");
        check(&pooler("1", "2"), Verdict::Bad, "A pooler");
        let far = settings(&[("tcp_keepalives_idle", "7200")]);
        check(&keepalives(&far, true), Verdict::Warning, "after 7200 s");
        check(&keepalives(&far, false), Verdict::Good, "needs none");
        let asked = |interval| {
            let idle = ("tcp_keepalives_idle", "5");
            settings(&[
                idle,
                ("tcp_keepalives_interval", interval),
                ("tcp_keepalives_count", "9"),
            ])
        };
        check(
            &keepalives(&asked("75"), true),
            Verdict::Warning,
            "after 680 s",
        );
        check(&keepalives(&asked("1"), true), Verdict::Good, "after 14 s");
        check(&clock(90_000_000), Verdict::Warning, "90 s ahead of");
        check(&clock(-90_000_000), Verdict::Warning, "90 s behind");
        check(&clock(-900_000), Verdict::Good, "within a second");
        let durable = settings(&[("fsync", "on")]);
        check(&sync(&durable, 49), Verdict::Warning, "49 us");
        check(&sync(&durable, 3_000), Verdict::Good, "3000 us");
        check(&sync(&durable, 20_001), Verdict::Warning, "20001 us");
        check(
            &sync(&settings(&[("fsync", "off")]), 1),
            Verdict::Good,
            "1 us",
        );
    }

    #[test]
    fn standbys_are_judged_by_what_their_loss_would_do() {
        let named = settings(&[("synchronous_standby_names", "ANY 1 (a, b)")]);
        let states = |of: &[&str]| -> Vec<String> { of.iter().map(ToString::to_string).collect() };
        check(
            &standbys(&named, &states(&["async"])),
            Verdict::Bad,
            "no write would be answered",
        );
        check(
            &standbys(&named, &states(&["quorum"])),
            Verdict::Warning,
            "its loss stops writes",
        );
        check(
            &standbys(&named, &states(&["quorum", "sync"])),
            Verdict::Good,
            "one of 2",
        );
        let local = settings(&[
            ("synchronous_standby_names", "ANY 1 (a, b)"),
            ("synchronous_commit", "local"),
        ]);
        check(
            &standbys(&local, &states(&["quorum", "quorum"])),
            Verdict::Bad,
            "synchronous_commit is local",
        );
        check(
            &standbys(&settings(&[]), &states(&["async"])),
            Verdict::Warning,
            "(1 connected)",
        );
    }
}
