//! The command line's end: through the running server, or straight into the store.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use client::Client;
use engine::{Clock, DirectoryBeside, Engine, EngineError, StoreError, database_holds_store};
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST};
use serde_json::Value;
use server::offline::offline_engine;
use server::rng::Rng;
use server::telemetry::snapshot::TopSnapshot;
use tokio::net::UnixStream;
use transfer::target::{ANSWER_MAX, StoreAccess, apart};

use super::act::{self, Act};
use super::socket;
use crate::config::{NamedDatabase, StoreSite};

/// A way to administer a store.
pub enum Administration {
    /// A server runs: it is answer.
    Running(Client),
    /// None runs: the store is open here, and locked.
    Offline {
        /// The open engine.
        engine: Arc<Engine>,
        /// For ids and secrets.
        rng: Rng,
    },
}

impl Administration {
    /// Finds the way. Where no server runs, it opens the store itself.
    ///
    /// # Errors
    /// When the directory does not exist and `create` does not hold, the store cannot be opened, or
    /// it is held by a server that does not answer.
    pub async fn open(
        site: &StoreSite,
        clock: Arc<dyn Clock>,
        rng: Rng,
        create: bool,
    ) -> Result<Administration> {
        let directory = site.directory.as_path();
        if site.database.is_none() && !create && !directory.is_dir() {
            bail!(
                "there is no data directory {}. Give its path with --data, or start \
                 `tidemark serve` once to make one",
                directory.display()
            );
        }
        if let Some(running) = Administration::of_running(directory).await? {
            return Ok(running);
        }
        if let Some(database) = &site.database {
            let engine = apart(|| open_database(database, (directory, create), clock))?;
            return Ok(Administration::Offline { engine, rng });
        }
        match Engine::open(offline_engine(directory.into()), clock) {
            Ok(engine) => Ok(Administration::Offline { engine, rng }),
            Err(EngineError::Store(StoreError::Locked { .. })) => bail!(
                "another process holds the data directory {} and does not answer on its \
                 admin.sock. If a server is starting or stopping, or another command is at work \
                 there, try again in a moment",
                directory.display()
            ),
            Err(error) => Err(anyhow!("{error}"))
                .with_context(|| format!("cannot open the data directory {}", directory.display())),
        }
    }

    /// The way through the server that runs on `directory`; `None` when none runs.
    ///
    /// # Errors
    /// When its socket may not be opened.
    pub async fn of_running(directory: &Path) -> Result<Option<Administration>> {
        let client = connect(directory).await?;
        Ok(client.map(Administration::Running))
    }

    /// Does one act.
    ///
    /// # Errors
    /// The refusal, in words.
    pub async fn perform(&mut self, act: Act) -> Result<Value> {
        match self {
            Administration::Offline { engine, rng } => act::perform(engine, *rng, act)
                .await
                .map_err(|refusal| anyhow!(refusal.message)),
            Administration::Running(client) => {
                let answer = tokio::time::timeout(ANSWER_MAX, ask(client, &act)).await;
                answer.map_err(|_| {
                    anyhow!(
                        "the running server did not answer within {} s",
                        ANSWER_MAX.as_secs()
                    )
                })?
            }
        }
    }

    /// Closes the store, if it was opened here.
    ///
    /// # Errors
    /// When the store cannot be closed in order.
    pub fn close(self) -> Result<()> {
        StoreAccess::from(self).close()
    }
}

/// Takes the store in a database, as a server would.
fn open_database(
    database: &NamedDatabase,
    (directory, create): (&Path, bool),
    clock: Arc<dyn Clock>,
) -> Result<Arc<Engine>> {
    let NamedDatabase { url, password_file } = database;
    if !create && !database_holds_store(url, password_file.as_deref())? {
        bail!(
            "there is no store in the {url}. Name its schema by `?schema=` in the URL, or start \
             `tidemark serve` with it once to make one"
        );
    }
    if directory.is_dir() {
        // Only to see that it is beside that store: the lock of the owner is in the database.
        drop(DirectoryBeside::take(directory, &url.clone().into())?);
    }
    let config = offline_engine(url.clone().into());
    let files = (password_file.as_deref(), directory);
    match Engine::open_database(&config, files, clock) {
        Ok(engine) => Ok(engine),
        Err(EngineError::Store(StoreError::Locked { holder, .. })) => bail!(
            "the store in the {url} is held by {}, and no server runs on the data directory {}. \
             Use this command where that server runs, with its --data",
            holder.as_deref().unwrap_or("another process"),
            directory.display()
        ),
        Err(error) => {
            Err(anyhow!("{error}")).with_context(|| format!("cannot open the store in the {url}"))
        }
    }
}

impl From<Administration> for StoreAccess {
    fn from(administration: Administration) -> StoreAccess {
        match administration {
            Administration::Running(client) => StoreAccess::Running(client),
            Administration::Offline { engine, .. } => StoreAccess::Offline(engine),
        }
    }
}

/// A connection to the running server; `None` when none runs, also when one left its socket.
async fn connect(directory: &Path) -> Result<Option<Client>> {
    if !directory.is_dir() {
        return Ok(None);
    }
    let not_ours = || {
        let directory = directory.display();
        format!("cannot open {directory}/admin.sock. Only the user who runs the server may")
    };
    let (path, _open) = socket::path(directory)?;
    match UnixStream::connect(&path).await {
        Ok(stream) => {
            let authorization = socket::authorization(directory).with_context(not_ours)?;
            Ok(Some(Client::over(stream).await?.authorized(authorization)))
        }
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error).with_context(not_ours),
    }
}

/// What the server that runs on `directory` tells of itself; `None` when none runs.
///
/// # Errors
/// When it does not answer, or not in a way that is understood.
pub async fn tell_top(directory: &Path, within: Duration) -> Result<Option<TopSnapshot>> {
    let Some(body) = get(directory, socket::TOP, within).await? else {
        return Ok(None);
    };
    let snapshot = serde_json::from_slice(&body);
    snapshot.map(Some).map_err(|_| older(socket::TOP))
}

/// Where the server that runs on `directory` answers clients of this machine.
///
/// # Errors
/// When none runs, or it does not answer, or not in a way that is understood.
pub async fn endpoint_of(directory: &Path, within: Duration) -> Result<String> {
    let body = get(directory, socket::ENDPOINT, within).await?;
    let body = body.context("the server has stopped")?;
    serde_json::from_slice(&body).map_err(|_| older(socket::ENDPOINT))
}

/// What the server that runs on `directory` answers to a GET; `None` when none runs.
async fn get(directory: &Path, route: &'static str, within: Duration) -> Result<Option<Bytes>> {
    let Some(mut client) = connect(directory).await? else {
        return Ok(None);
    };
    let asking = async {
        let request = Request::get(route)
            .header(HOST, "tidemark")
            .body(Full::default())?;
        client
            .send(request)
            .await
            .context("the running server broke off")
    };
    let answer = tokio::time::timeout(within, asking).await;
    let answer = answer.context("the running server did not answer in time")??;
    if answer.status.is_success() {
        Ok(Some(answer.body))
    } else {
        Err(older(route))
    }
}

fn older(route: &str) -> anyhow::Error {
    anyhow!("the running server does not answer {route} on its admin.sock; is it older?")
}

async fn ask(client: &mut Client, act: &Act) -> Result<Value> {
    let (method, route, body) = act::to_request(act);
    let request = Request::builder()
        .method(method)
        .uri(route)
        .header(HOST, "tidemark");
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = request
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body))?;
    let answer = client
        .send(request)
        .await
        .context("the running server broke off")?;
    let body: Value = serde_json::from_slice(&answer.body)
        .with_context(|| format!("the running server answered {} without JSON", answer.status))?;
    if answer.status.is_success() {
        return Ok(body);
    }
    bail!(
        "{}",
        body["message"]
            .as_str()
            .unwrap_or("the running server refused")
    )
}
