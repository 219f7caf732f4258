//! Whether a database is fit for a store, before one is made in it. Nothing stays of what is done
//! to find out, but a few messages in the server's log of changes, which no reader takes for
//! anything.

use std::path::Path;
use std::time::{Duration, Instant};

use model::Timestamp;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Error};

use super::address::{DatabaseUrl, cause};
use super::checks::{self, SchemaContent};
use super::connection::{DatabaseConnection, connect, row, rows};
use super::finding::DatabaseFinding;
use super::look;
use super::primary;
use super::stored_health;

/// How long all of it may take.
const EXAMINE_MAX: Duration = Duration::from_mins(1);
/// How long one statement may.
const STATEMENT_MAX: &str = "SET statement_timeout = '5s'";
/// So many commits are measured; the one in the middle counts.
const COMMITS: usize = 15;

/// Looks whether a store can be in the database, and would lose nothing there. A password that the
/// URL lacks is looked for in the file, and keys in the directory `keys`. `now` is this machine's
/// clock. Blocks, for a minute at most.
pub fn examine_database(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
    keys: &Path,
    now: &dyn Fn() -> Timestamp,
) -> Vec<DatabaseFinding> {
    let mut findings = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime.map(|runtime| {
        let examination = Examination {
            url,
            password_file,
            keys,
            now,
            findings: &mut findings,
        };
        let examined =
            runtime.block_on(async { tokio::time::timeout(EXAMINE_MAX, examination.run()).await });
        // What still runs is not waited for.
        runtime.shutdown_background();
        examined
    });
    let said = match ended {
        Ok(Ok(Ok(()))) => return findings,
        Ok(Ok(Err(error))) => cause(&error),
        Ok(Err(_)) => format!("it takes longer than {} s", EXAMINE_MAX.as_secs()),
        Err(error) => error.to_string(),
    };
    let found = format!("The rest could not be looked at: {said}.");
    let advice = "Look at the server's log, and try again";
    findings.push(DatabaseFinding::bad("connection", found, advice));
    findings
}

struct Examination<'e> {
    url: &'e DatabaseUrl,
    password_file: Option<&'e Path>,
    keys: &'e Path,
    now: &'e dyn Fn() -> Timestamp,
    findings: &'e mut Vec<DatabaseFinding>,
}

impl Examination<'_> {
    async fn run(mut self) -> Result<(), Error> {
        let url = self.url;
        let connection = match connect(url, self.password_file).await {
            Ok(connection) => connection,
            Err(fault) => {
                self.say(checks::refused(url, &fault));
                return Ok(());
            }
        };
        self.say(connected(&connection));
        let client = &connection.client;
        client.batch_execute(STATEMENT_MAX).await?;
        let settings = look::settings(client).await?;
        self.say(checks::version(&settings));
        self.say(checks::encoding(url, &settings));
        self.say(look::pooler(client, url, self.password_file).await?);
        let schema = look::schema(client, &url.schema).await?;
        self.say(checks::schema(url, &schema));
        if schema.holds == SchemaContent::Store {
            let found = stored_health::findings(client, &url.schema, self.keys).await?;
            self.findings.extend(found);
            self.say(primary::finding(client).await);
        }
        self.say(checks::session(&settings));
        let is_far = matches!(connection.host.host, Host::Tcp(_));
        self.say(checks::keepalives(&settings, is_far));
        self.say(checks::durability(&settings));
        let sees = "SELECT pg_has_role('pg_read_all_stats', 'USAGE')";
        let sees_others = column(client, sees).await?.concat() == "t";
        if !sees_others {
            self.say(checks::unseen(&schema.user));
        }
        let states = column(
            client,
            "SELECT coalesce(sync_state, '') FROM pg_stat_replication",
        );
        let states = states.await?;
        if sees_others || !settings.waits_for_standby() {
            self.say(checks::standbys(&settings, &states));
        }
        let is_answered = !settings.waits_for_standby()
            || states
                .iter()
                .any(|state| ["sync", "quorum"].contains(&state.as_str()));
        if is_answered {
            self.say(checks::sync(&settings, sync_us(client).await?));
        }
        let used = "SELECT sum(numbackends) FROM pg_stat_database";
        self.say(checks::connections(&settings, number(client, used).await?));
        if sees_others {
            self.say(checks::snapshots(oldest_snapshot(client).await?));
        }
        let idle = "SELECT slot_name FROM pg_replication_slots WHERE NOT active ORDER BY 1 LIMIT 5";
        self.say(checks::slots(&column(client, idle).await?));
        self.say(checks::autovacuum(&settings));
        let ahead = self.clock_ahead(client).await?;
        self.say(checks::clock(ahead));
        Ok(())
    }

    fn say(&mut self, finding: DatabaseFinding) {
        self.findings.push(finding);
    }

    /// By how many microseconds the server's clock is ahead, its answer taken for half-way.
    async fn clock_ahead(&self, client: &Client) -> Result<i64, Error> {
        let (before, began) = ((self.now)(), Instant::now());
        let theirs = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let theirs = number(client, theirs).await?;
        let half = began.elapsed().as_micros() as i64 / 2;
        Ok(theirs - before.0 - half)
    }
}

fn connected(connection: &DatabaseConnection) -> DatabaseFinding {
    let (host, how) = (
        &connection.host,
        if connection.is_encrypted {
            "encrypted"
        } else {
            "not encrypted"
        },
    );
    let found = format!("{host} takes writes; the connection is {how}.");
    match &host.host {
        Host::Tcp(name) if !connection.is_encrypted && !is_this_machine(name) => {
            DatabaseFinding::warning(
                "connection",
                format!("{found} Others on the way can read rows and alter them."),
                "Add `sslmode=verify-full` to the URL",
            )
        }
        _ => DatabaseFinding::good("connection", found),
    }
}

fn is_this_machine(name: &str) -> bool {
    let address = name.parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// What a commit takes beyond a round trip, in microseconds: of a message that has it synced.
async fn sync_us(client: &Client) -> Result<u64, Error> {
    let round_trip = median_us(client, "SELECT 1").await?;
    let message = "SELECT pg_logical_emit_message(true, 'tidemark', 'doctor')";
    Ok(median_us(client, message).await?.saturating_sub(round_trip))
}

async fn median_us(client: &Client, sql: &str) -> Result<u64, Error> {
    let mut taken = Vec::with_capacity(COMMITS);
    for _ in 0..COMMITS {
        let began = Instant::now();
        rows(client, sql).await?;
        taken.push(began.elapsed().as_micros() as u64);
    }
    taken.sort_unstable();
    Ok(taken[COMMITS / 2])
}

/// The oldest snapshot of another session, and whose it is.
async fn oldest_snapshot(client: &Client) -> Result<Option<(Duration, String)>, Error> {
    let sql = "SELECT extract(epoch FROM clock_timestamp() - xact_start)::bigint, pid, \
               left(application_name, 64) FROM pg_stat_activity \
               WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() \
               AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1";
    let Some(row) = row(client, sql).await? else {
        return Ok(None);
    };
    let seconds = row.get(0).and_then(|text| text.parse().ok()).unwrap_or(0);
    let (pid, name) = (
        row.get(1).unwrap_or_default(),
        row.get(2).unwrap_or_default(),
    );
    let who = format!("Process {pid} of the server ({name:?})");
    Ok(Some((Duration::from_secs(seconds), who)))
}

async fn column(client: &Client, sql: &str) -> Result<Vec<String>, Error> {
    let found = rows(client, sql).await?;
    Ok(found
        .iter()
        .filter_map(|row| row.get(0).map(str::to_owned))
        .collect())
}

async fn number(client: &Client, sql: &str) -> Result<i64, Error> {
    Ok(column(client, sql).await?.concat().parse().unwrap_or(0))
}
