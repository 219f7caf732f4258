//! PostgreSQL is killed, restarted or lost for its standby under 32 writers: what was acknowledged
//! is there, once, and writes go on without a restart of the server.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use client::Answer;
use serde_json::{Value, json};
use testing_postgres::{Cluster, ClusterEnd, ClusterSettings};
use tests::ledger::Ledger;
use tests::{Server, call, furnish, is_night};

const DATABASE: &str = "kept";
const ROWS: &str = "/tablesdb/d/tables/t/rows";
const UNWRITTEN: &str = "/tablesdb/d/tables/u/rows";
const SYNCED: ClusterSettings<'_> = ClusterSettings {
    syncs: true,
    port: None,
    data: None,
    further: &[],
};
/// Its name in the settings of its primary.
const STANDBY: &str = "s1";
const STANDBY_SETTINGS: ClusterSettings<'_> = ClusterSettings {
    syncs: true,
    port: None,
    data: None,
    further: &["cluster_name=s1", "wal_retrieve_retry_interval=200ms"],
};

/// How often by day and at night.
fn times(by_day: usize, at_night: usize) -> usize {
    if is_night() { at_night } else { by_day }
}

fn start(directory: &Path, url: &str) -> Result<Arc<Server>> {
    Ok(Arc::new(Server::start(directory, &["--database", url])?))
}

/// What ends under the writers.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Database(ClusterEnd),
    Server,
}

struct Site {
    directory: tempfile::TempDir,
    cluster: Cluster,
    url: String,
    ledger: Arc<Ledger>,
    server: Arc<Server>,
}

impl Site {
    async fn new() -> Result<Site> {
        let directory = tempfile::tempdir()?;
        let cluster = Cluster::start(&SYNCED)?;
        cluster.run_sql("postgres", &[&format!("CREATE DATABASE {DATABASE}")])?;
        let url = cluster.url(DATABASE);
        let server = start(directory.path(), &url)?;
        furnish(&server).await?;
        let ledger = Arc::<Ledger>::default();
        ledger.furnish(&server).await?;
        Ok(Site {
            directory,
            cluster,
            url,
            ledger,
            server,
        })
    }

    /// Ends it under the writers, starts it again, and compares what is there.
    async fn outlive(mut self, round: usize, ending: Ending) -> Result<Site> {
        let ledger = Arc::clone(&self.ledger);
        let writers = ledger.start(&self.server, round);
        ledger.grow(&writers, 150 + round * 7).await?;
        match ending {
            Ending::Database(how) => {
                self.cluster.end(how);
                self.cluster.start_again(&SYNCED)?;
                let answers = Instant::now();
                let tries = ledger.write_again(&self.server).await?;
                let after = answers.elapsed();
                println!("round {round}, {how:?}: written after {after:?}, by try {tries}");
                ledger.end();
                writers.finish().await?;
            }
            Ending::Server => {
                self.server.kill()?;
                writers.finish().await?;
                self = self.started_again()?;
            }
        }
        let checked = ledger.check(&self.server).await;
        checked.with_context(|| format!("round {round}, {ending:?}"))?;
        Ok(self)
    }

    /// With the server that follows the one that was killed.
    fn started_again(self) -> Result<Site> {
        // Its end is waited for.
        drop(self.server);
        let server = start(self.directory.path(), &self.url)?;
        Ok(Site { server, ..self })
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_the_end_of_postgresql_and_of_the_server() -> Result<()> {
    let endings = [
        (Ending::Database(ClusterEnd::Killed), times(3, 20)),
        (Ending::Database(ClusterEnd::Fast), times(1, 5)),
        (Ending::Database(ClusterEnd::Immediate), times(1, 5)),
        (Ending::Server, times(2, 20)),
    ];
    let mut site = Site::new().await?;
    let all = endings.iter();
    let all = all.flat_map(|(ending, count)| std::iter::repeat_n(*ending, *count));
    for (round, ending) in all.enumerate() {
        site = site.outlive(round, ending).await?;
    }
    let server = Arc::into_inner(site.server).context("the writers are done")?;
    server.stop()
}

/// What the cache did with a list of a table that no one writes to, and the list.
async fn list(server: &Server) -> Result<(String, Value)> {
    let mut client = server.connect().await?;
    let answer = call(&mut client, server.access(), "GET", UNWRITTEN, None).await?;
    let cache = answer.headers.get("x-tidemark-cache");
    let cache = cache.context("a list says nothing of the cache")?;
    let cache = cache.to_str()?.to_owned();
    Ok((cache, answer.accepted("listing")?))
}

/// The same past the cache.
async fn list_afresh(server: &Server) -> Result<Value> {
    let mut client = server.connect().await?;
    let mut request = server.access().request("GET".parse()?, UNWRITTEN, None)?;
    let bypass = "bypass".parse()?;
    request.headers_mut().insert("x-tidemark-cache", bypass);
    client
        .send(request)
        .await?
        .accepted("listing past the cache")
}

/// Makes that table, with one row, and has its list cached.
async fn add_unwritten(server: &Server) -> Result<()> {
    let mut client = server.connect().await?;
    let table = json!({
        "tableId": "u", "name": "U", "columns": [{"key": "n", "type": "integer"}],
    });
    let row = json!({"rowId": "r", "data": {"n": 1}});
    for (route, body) in [("/tablesdb/d/tables", table), (UNWRITTEN, row)] {
        let made = call(&mut client, server.access(), "POST", route, Some(&body)).await?;
        made.accepted("making a table that no one writes to")?;
    }
    list(server).await?;
    let (cache, _) = list(server).await?;
    ensure!(cache.starts_with("hit"), "nothing is kept: {cache}");
    Ok(())
}

async fn try_row(server: &Server, id: &str) -> Result<Answer> {
    let mut client = server.connect().await?;
    let row = json!({"rowId": id, "data": {"n": 1, "m": 7, "s": "row 1"}});
    call(&mut client, server.access(), "POST", ROWS, Some(&row)).await
}

/// Promotes a standby: it, and when it first said that it takes writes.
fn promote(standby: Cluster) -> Result<(Cluster, Instant)> {
    standby.run_sql("postgres", &["SELECT pg_promote(false)"])?;
    while standby.run_sql("postgres", &["SELECT pg_is_in_recovery()"])? != "f\n" {}
    Ok((standby, Instant::now()))
}

/// A standby takes over under the writers. The old primary comes back, and later is all there is.
async fn fail_over(round: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut primary = Cluster::start(&SYNCED)?;
    primary.run_sql("postgres", &[&format!("CREATE DATABASE {DATABASE}")])?;
    let mut standby = primary.standby(&STANDBY_SETTINGS)?;
    primary.wait_for(STANDBY)?;
    let url = Cluster::url_of(&[&primary, &standby], DATABASE);
    let server = start(directory.path(), &url)?;
    furnish(&server).await?;
    let ledger = Arc::<Ledger>::default();
    ledger.furnish(&server).await?;
    add_unwritten(&server).await?;
    let writers = ledger.start(&server, round);
    ledger.grow(&writers, 300).await?;
    let (cache, _) = list(&server).await?;
    ensure!(cache.starts_with("hit"), "others' writes took it: {cache}");
    primary.end(ClusterEnd::Killed);
    let promotion = tokio::task::spawn_blocking(move || promote(standby));
    let writing = async {
        let tries = ledger.write_again(&server).await?;
        Ok::<_, anyhow::Error>((tries, Instant::now()))
    };
    let (promoted, written) = tokio::join!(promotion, writing);
    let (returned, promoted) = promoted??;
    standby = returned;
    let (tries, written) = written?;
    let after = written.saturating_duration_since(promoted);
    println!("round {round}: written {after:?} after the promotion, by try {tries}");
    ledger.end();
    writers.finish().await?;
    ledger.check(&server).await?;
    let (cache, listed) = list(&server).await?;
    ensure!(cache.starts_with("miss"), "it is as before: {cache}");
    let (cache, again) = list(&server).await?;
    ensure!(cache.starts_with("hit"), "nothing is kept: {cache}");
    ensure!(listed == again && again == list_afresh(&server).await?);

    primary.start_again(&SYNCED)?;
    let written = try_row(&server, "beside").await?;
    ensure!(written.status == 201, "the old primary is in the way");
    standby.end(ClusterEnd::Killed);
    for _ in 0..3 {
        let refused = try_row(&server, "astray").await?;
        ensure!(refused.status == 503, "{}", refused.status);
    }
    standby.start_again(&STANDBY_SETTINGS)?;
    let tries = ledger.write_again(&server).await?;
    println!("round {round}: written by try {tries} after the new primary was back");
    ledger.check(&server).await?;
    server.kill()?;
    drop(server);
    let server = start(directory.path(), &url)?;
    let taken = try_row(&server, "beside").await?;
    ensure!(
        taken.status == 409,
        "it is in the new primary: {}",
        taken.status
    );
    let astray = "SELECT count(*) FROM tidemark.t1 WHERE id IN ('astray', 'beside')";
    let found = primary.run_sql(DATABASE, &[astray])?;
    ensure!(found == "0\n", "the old primary was written to");
    server.kill()
}

#[tokio::test]
async fn a_standby_that_takes_over_under_writers_has_all_that_was_acknowledged() -> Result<()> {
    for round in 0..times(1, 20) {
        fail_over(round).await?;
    }
    Ok(())
}
