//! One thread with its runtime and the connections it was given.

use std::cell::RefCell;
use std::io;
use std::net::TcpStream as StdStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};

use super::Limits;
use super::connection::{self, Connection};
use super::jail_gate::JailPlace;
use crate::http::head::forwarded::Client;
use crate::http::{App, Shared};

/// How long requests that the system holds already may take to be read at the end.
const SETTLING: Duration = Duration::from_millis(10);

/// How often connections are looked over. Time limits are kept to this precision, and are
/// seconds; a timer of its own for each request would cost more than most hits.
const SWEEP: Duration = Duration::from_millis(500);

/// A connection that was accepted.
pub struct Accepted {
    /// The connection.
    pub stream: StdStream,
    /// Who has opened it.
    pub peer: Client,
    /// The place it takes, if it comes from a jail.
    pub place: Option<JailPlace>,
}

/// The acceptor's end of one thread.
pub struct Worker {
    /// `None` once it has to drain.
    streams: Option<mpsc::UnboundedSender<Accepted>>,
    live: Arc<AtomicUsize>,
    ended: oneshot::Receiver<usize>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts the thread. `number` tells its log lines and request ids from those of others.
    pub fn start(number: usize, shared: Arc<Shared>) -> io::Result<Worker> {
        let live = shared.counts.thread(number).live.clone();
        let (streams, received) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let counted = live.clone();
        let thread = std::thread::Builder::new()
            .name(format!("http-{number}"))
            .spawn(move || match super::local_runtime() {
                Ok(runtime) => {
                    let _ = ready.send(Ok(()));
                    let unfinished = runtime.block_on(work(number, shared, received, counted));
                    let _ = end.send(unfinished);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })?;
        started.recv().map_err(io::Error::other)??;
        Ok(Worker {
            streams: Some(streams),
            live,
            ended,
            thread,
        })
    }

    /// Connections it was given that have not ended.
    pub fn connections(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Gives it a connection.
    pub fn take(&self, accepted: Accepted) {
        let Some(streams) = &self.streams else { return };
        self.live.fetch_add(1, Ordering::Relaxed);
        if streams.send(accepted).is_err() {
            self.live.fetch_sub(1, Ordering::Relaxed);
            tracing::error!("a thread that answers requests has ended");
        }
    }

    /// Tells it to end its connections, those with a request in work after that request.
    pub fn drain(&mut self) {
        self.streams = None;
    }

    /// Waits for its end; says how many connections were cut off.
    pub async fn ended(self) -> usize {
        let unfinished = self
            .ended
            .await
            .unwrap_or_else(|_| self.live.load(Ordering::Relaxed));
        if self.thread.join().is_err() {
            tracing::error!("a thread that answers requests has panicked");
        }
        unfinished
    }
}

async fn work(
    number: usize,
    shared: Arc<Shared>,
    mut streams: mpsc::UnboundedReceiver<Accepted>,
    live: Arc<AtomicUsize>,
) -> usize {
    let limits = shared.limits;
    let app = Rc::new(App::new(shared, number));
    let connections = Rc::new(Connections::new(limits, live));
    let sweeper = tokio::task::spawn_local(sweep(connections.clone(), app.clone()));
    let turns = [&app.guest_turns, &app.handshake_turns].map(|turns| {
        let turns = turns.clone();
        tokio::task::spawn_local(async move { turns.give().await })
    });
    while let Some(accepted) = streams.recv().await {
        connections.open(accepted, &app);
        // Those that are open come first, however many are opened at once.
        tokio::task::yield_now().await;
    }
    let unfinished = connections.drain().await;
    sweeper.abort();
    for turns in turns {
        turns.abort();
    }
    app.report();
    unfinished
}

/// The open connections of one thread.
struct Connections {
    limits: Limits,
    began: Instant,
    open: RefCell<Vec<Rc<Connection>>>,
    live: Arc<AtomicUsize>,
    one_ended: Notify,
}

impl Connections {
    fn new(limits: Limits, live: Arc<AtomicUsize>) -> Connections {
        Connections {
            limits,
            began: Instant::now(),
            open: RefCell::default(),
            live,
            one_ended: Notify::new(),
        }
    }

    /// Milliseconds since the thread began, the clock of all time limits here.
    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn open(self: &Rc<Self>, accepted: Accepted, app: &Rc<App>) {
        let connection = Rc::new(Connection::new(self.now_ms()));
        self.open.borrow_mut().push(connection.clone());
        let (connections, app) = (self.clone(), app.clone());
        tokio::task::spawn_local(async move {
            // Leaves the list also when the task panics or is dropped with its runtime.
            let _leave = Leave {
                connections: &connections,
                connection: &connection,
            };
            let (peer, _place) = (accepted.peer, accepted.place);
            match TcpStream::from_std(accepted.stream) {
                Ok(stream) => connection::serve(stream, peer, &connection, &app).await,
                Err(error) => tracing::warn!(%error, "a connection could not be watched"),
            }
        });
    }

    /// Asks every connection to end, and waits until they have or the time for it is over.
    async fn drain(&self) -> usize {
        // A request that has come before the end is read first, and then answered: a connection
        // that closes over it would not tell whether it was done.
        for connection in self.open.borrow().iter() {
            connection.announce_end();
        }
        let until = Instant::now() + self.limits.draining();
        tokio::time::sleep(SETTLING.min(self.limits.draining())).await;
        for connection in self.open.borrow().iter() {
            connection.drain();
        }
        let all_ended = async {
            while !self.open.borrow().is_empty() {
                self.one_ended.notified().await;
            }
        };
        let _ = tokio::time::timeout_at(until.into(), all_ended).await;
        self.open.borrow().len()
    }
}

struct Leave<'a> {
    connections: &'a Connections,
    connection: &'a Rc<Connection>,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut open = self.connections.open.borrow_mut();
        if let Some(position) = open
            .iter()
            .position(|other| Rc::ptr_eq(other, self.connection))
        {
            open.swap_remove(position);
        }
        self.connections.live.fetch_sub(1, Ordering::Relaxed);
        self.connections.one_ended.notify_one();
    }
}

async fn sweep(connections: Rc<Connections>, app: Rc<App>) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut was_quiet = false;
    loop {
        ticks.tick().await;
        let is_quiet = !connections.open.borrow().iter().any(|one| one.has_moved());
        let now_ms = connections.now_ms();
        for connection in connections.open.borrow().iter() {
            connection.look_over(now_ms, &connections.limits);
        }
        app.report();
        // What is freed just now will be wanted again while there is something to do.
        (app.shared.collect)(is_quiet && was_quiet);
        was_quiet = is_quiet;
    }
}
