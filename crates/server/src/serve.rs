//! Threads, connections and the orderly end: one runtime a core, one acceptor for all.
//!
//! The acceptor hands each connection to the runtime with the fewest. A port shared by the kernel
//! would split 32 connections up to 24 to 8, and the fuller core would decide every latency.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Engine;
use functions::ApiConnection;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc;

use crate::http::Shared;
use crate::http::head::cors::Origins;
use crate::http::head::forwarded::Client;

mod config;
mod connection;
mod exchange;
pub mod files;
mod jail_gate;
mod last_words;
mod limits;
mod refusal;
mod shortcut;
pub mod tls;
mod worker;

pub use config::ServeConfig;
use jail_gate::{JAILED_MAX, JailGate};
pub use limits::Limits;
use refusal::Refusals;
use tls::TlsError;
use worker::{Accepted, Worker};

/// How long accepting pauses when the system has no file handle or memory left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Most connections that wait to be accepted; the system may have a lower bound. Beyond it a client
/// tries again after a second, so where a stranger opens many at once, all others waited for that:
/// with the standard library's 128 it took one stranger with 500 connections.
const BACKLOG: u32 = 4_096;

/// Of the time for the end so much is left for what comes after functions.
const CLOSING: Duration = Duration::from_secs(1);

/// So many tasks run before it is looked what has come in: with the default, 61, a request waited
/// for as many turns of connections that have much to do.
const TASKS_A_LOOK: u32 = 16;

/// How far threads that parse large bodies stand back, as those for long reads do.
#[cfg(target_os = "linux")]
const STANDS_BACK: i32 = 5;

/// Most threads that parse large bodies for one thread that answers requests.
const PARSERS_MAX: usize = 2;

/// Threads the system lets this process run at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections whose request was still running when the time for it was over.
    pub unfinished: usize,
}

/// Why serving could not begin.
#[derive(Debug)]
pub enum ServeError {
    /// The address cannot be listened on.
    Bind {
        /// The address asked for.
        listen: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// An entry of [`ServeConfig::origins`] is not a host name.
    Origin(String),
    /// Certificate or key cannot be used.
    Tls(TlsError),
    /// A thread or a runtime could not be started.
    Start(io::Error),
    /// The callback that takes the bound address failed.
    Bound(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Bind { listen, error } => write!(f, "Cannot listen on {listen}: {error}."),
            ServeError::Origin(entry) => {
                write!(
                    f,
                    "`{entry}` is not a host name such as example.com or *.example.com."
                )
            }
            ServeError::Tls(error) => error.fmt(f),
            ServeError::Start(error) => write!(f, "Cannot start a thread: {error}."),
            ServeError::Bound(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {}

/// Serves until `shutdown` is done and the requests that were running then have ended. Blocks.
///
/// `bound` is called once, with the address that was bound, before the first connection is
/// accepted. It runs inside the runtime that accepts, apart from those that answer requests, so
/// it may start tasks there with [`tokio::task::spawn_local`]; they end when this returns.
/// `shutdown` is polled inside the same runtime.
pub fn run(
    config: ServeConfig,
    engine: Arc<Engine>,
    bound: impl FnOnce(SocketAddr) -> io::Result<()>,
    shutdown: impl Future<Output = ()>,
) -> Result<Drained, ServeError> {
    let (listen, threads, limits) = (config.listen, config.threads.max(1), config.limits);
    let shared = Arc::new(share(config, engine)?);
    files::make_room(limits.connections_max + JAILED_MAX);
    local_runtime().map_err(ServeError::Start)?.block_on(async {
        let listener = listener(listen).map_err(|error| ServeError::Bind { listen, error })?;
        let address = listener
            .local_addr()
            .map_err(|error| ServeError::Bind { listen, error })?;
        let workers = (0..threads)
            .map(|number| Worker::start(number, shared.clone()))
            .collect::<io::Result<Vec<Worker>>>()
            .map_err(ServeError::Start)?;
        bound(address).map_err(ServeError::Bound)?;
        let refusals = Refusals::new(
            limits.connections_max,
            shared.tls.is_some(),
            shared.counts.clone(),
        );
        let threads = Threads {
            workers: &workers,
            refusals: &refusals,
            gate: JailGate::default(),
        };
        let mut jailed = shared.functions.api_connections();
        threads.accept_until(shutdown, &listener, &mut jailed).await;
        drop(listener);
        shared.streams.end();
        let limit = Duration::from_millis(limits.drain_ms).saturating_sub(CLOSING);
        // Functions need the API until the last of them has ended.
        let drained = tokio::select! {
            drained = end_all(&workers, &shared, limit) => drained,
            never = threads.take_all_jailed(jailed) => match never {},
        };
        for worker in workers {
            worker.end();
        }
        Ok(drained)
    })
}

/// Listens at the address, at which another server may have listened a moment ago.
fn listener(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = match at {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

fn share(config: ServeConfig, engine: Arc<Engine>) -> Result<Shared, ServeError> {
    let origins = Origins::new(&config.origins).map_err(ServeError::Origin)?;
    let tls = config.tls.as_ref().map(tls::acceptor).transpose();
    let tls = tls.map_err(ServeError::Tls)?;
    Ok(Shared::new(engine, config, origins, tls))
}

/// A runtime that stays on its thread, so its tasks may share what is not thread-safe.
fn local_runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(PARSERS_MAX)
        // Those threads, and no others.
        .on_thread_start(stand_back)
        .event_interval(TASKS_A_LOOK)
        .build_local(LocalOptions::default())
}

/// Lowers this thread's priority. Elsewhere than on Linux that would be the whole process's.
fn stand_back() {
    #[cfg(target_os = "linux")]
    // Without it large bodies are only less polite.
    let _ = rustix::process::setpriority_process(None, STANDS_BACK);
}

/// The threads that answer requests, and who may hold connections to them.
struct Threads<'a> {
    workers: &'a [Worker],
    refusals: &'a Refusals,
    gate: JailGate,
}

impl Threads<'_> {
    async fn accept_until(
        &self,
        shutdown: impl Future<Output = ()>,
        listener: &TcpListener,
        jailed: &mut mpsc::Receiver<ApiConnection>,
    ) {
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(connection) = jailed.recv() => self.take_jailed(connection),
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.take(stream, peer.ip()),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        if !is_about_one_connection(&error) {
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                        }
                    }
                }
            }
        }
        self.take_the_rest(listener).await;
    }

    /// Takes the connections of functions for as long as this is polled.
    async fn take_all_jailed(&self, mut jailed: mpsc::Receiver<ApiConnection>) -> Infallible {
        while let Some(connection) = jailed.recv().await {
            self.take_jailed(connection);
        }
        std::future::pending().await
    }

    /// Takes the connections that were made before the end, whose requests may have come already.
    async fn take_the_rest(&self, listener: &TcpListener) {
        for _ in 0..BACKLOG {
            let accepted = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
            let Ok(Ok((stream, peer))) = accepted else {
                return;
            };
            self.take(stream, peer.ip());
        }
    }

    fn take(&self, stream: TcpStream, peer: IpAddr) {
        let live = self.workers.iter().map(Worker::connections).sum::<usize>();
        if !self.refusals.admits(live.saturating_sub(self.gate.open())) {
            self.refusals.refuse(stream);
            return;
        }
        let sent = stream.set_nodelay(true).and_then(|()| stream.into_std());
        let peer = Client {
            address: peer.to_canonical(),
            is_secure: false,
            deployment: None,
        };
        self.give(sent.map(|stream| Accepted {
            stream,
            peer,
            place: None,
        }));
    }

    /// Takes a connection of a function to the API.
    fn take_jailed(&self, connection: ApiConnection) {
        // The executor calls deployments as they are numbered here.
        let Ok(deployment) = connection.deployment.parse() else {
            return;
        };
        let stream = connection.stream;
        match self.gate.admit(deployment) {
            Ok(place) => self.give(stream.set_nodelay(true).map(|()| Accepted {
                stream,
                peer: Client::in_jail(deployment),
                place: Some(place),
            })),
            Err(most) => {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    self.refusals.refuse_jailed(stream, most);
                }
            }
        }
    }

    /// Gives a connection to the thread with the fewest. Small answers must not wait for the client
    /// to acknowledge the previous one, so its system does not gather them.
    fn give(&self, accepted: io::Result<Accepted>) {
        let fewest = self
            .workers
            .iter()
            .min_by_key(|worker| worker.connections());
        match (fewest, accepted) {
            (Some(worker), Ok(accepted)) => worker.take(accepted),
            (_, Err(error)) => tracing::debug!(%error, "a connection ended before it began"),
            (None, _) => unreachable!("at least one worker is started"),
        }
    }
}

/// Whether the next accept may succeed at once: the client was gone before it was accepted.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted | Kind::ConnectionReset | Kind::ConnectionRefused
    )
}

/// Ends the connections of clients, then functions: a client may wait for one of them.
async fn end_all(workers: &[Worker], shared: &Arc<Shared>, limit: Duration) -> Drained {
    let begun = Instant::now();
    // All threads first, so that they drain at the same time.
    let cut_off: Vec<_> = workers.iter().map(Worker::end_clients).collect();
    let mut unfinished = 0;
    for (worker, cut_off) in workers.iter().zip(cut_off) {
        unfinished += cut_off.await.unwrap_or_else(|_| worker.connections());
    }
    let functions = shared.clone();
    let left = limit.saturating_sub(begun.elapsed());
    let ended = tokio::task::spawn_blocking(move || functions.functions.shut_down(left));
    if let Err(error) = ended.await {
        tracing::error!(%error, "functions have not ended in order");
    }
    Drained { unfinished }
}

#[cfg(test)]
mod tests {
    use std::net;

    use super::*;

    #[tokio::test]
    async fn many_connections_may_wait_to_be_accepted() {
        let listener = listener("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        let most = most.map_or(128, |most| most.trim().parse().unwrap());
        // They are not accepted: one that had no room would try until the time is over.
        let patience = Duration::from_millis(900);
        let waiting: Result<Vec<net::TcpStream>, io::Error> = (0..most.min(600))
            .map(|_| net::TcpStream::connect_timeout(&address, patience))
            .collect();
        assert_eq!(waiting.map(|all| all.len()).ok(), Some(most.min(600)));
    }
}
