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
use super::connection::Connection;
use super::exchange;
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

/// What a thread is to do. When no more can come, it ends all its connections.
enum WorkerOrder {
    Take(Accepted),
    /// End the connections of clients, and say how many had to be cut off.
    EndClients(oneshot::Sender<usize>),
}

/// The acceptor's end of one thread.
pub struct Worker {
    orders: mpsc::UnboundedSender<WorkerOrder>,
    live: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts the thread. `number` tells its log lines and request ids from those of others.
    pub fn start(number: usize, shared: Arc<Shared>) -> io::Result<Worker> {
        let live = shared.counts.thread(number).live.clone();
        let (orders, received) = mpsc::unbounded_channel();
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let counted = live.clone();
        let thread = std::thread::Builder::new()
            .name(format!("http-{number}"))
            .spawn(move || match super::local_runtime() {
                Ok(runtime) => {
                    let _ = ready.send(Ok(()));
                    runtime.block_on(work(number, shared, received, counted));
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })?;
        started.recv().map_err(io::Error::other)??;
        Ok(Worker {
            orders,
            live,
            thread,
        })
    }

    /// Connections it was given that have not ended.
    pub fn connections(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Gives it a connection.
    pub fn take(&self, accepted: Accepted) {
        self.live.fetch_add(1, Ordering::Relaxed);
        if self.orders.send(WorkerOrder::Take(accepted)).is_err() {
            self.live.fetch_sub(1, Ordering::Relaxed);
            tracing::error!("a thread that answers requests has ended");
        }
    }

    /// Tells it to end the connections of clients, those with a request in work after that request.
    /// The answer is how many were cut off. Those from jails go on.
    pub fn end_clients(&self) -> oneshot::Receiver<usize> {
        let (reply, cut_off) = oneshot::channel();
        // Without the thread there is no answer either.
        let _ = self.orders.send(WorkerOrder::EndClients(reply));
        cut_off
    }

    /// Ends what is left of its connections, and waits for its end.
    pub fn end(self) {
        drop(self.orders);
        if self.thread.join().is_err() {
            tracing::error!("a thread that answers requests has panicked");
        }
    }
}

async fn work(
    number: usize,
    shared: Arc<Shared>,
    mut orders: mpsc::UnboundedReceiver<WorkerOrder>,
    live: Arc<AtomicUsize>,
) {
    let limits = shared.limits;
    let app = Rc::new(App::new(shared, number));
    let connections = Rc::new(Connections::new(limits, live));
    let sweeper = tokio::task::spawn_local(sweep(connections.clone(), app.clone()));
    let turns = [&app.guest_turns, &app.handshake_turns].map(|turns| {
        let turns = turns.clone();
        tokio::task::spawn_local(async move { turns.give().await })
    });
    let answers = tokio::task::spawn_local(engine::take_answers());
    while let Some(order) = orders.recv().await {
        match order {
            WorkerOrder::Take(accepted) => connections.open(accepted, &app),
            WorkerOrder::EndClients(reply) => {
                let connections = connections.clone();
                tokio::task::spawn_local(async move {
                    // The acceptor waits for it.
                    let _ = reply.send(connections.drain().await);
                });
            }
        }
        // Those that are open come first, however many are opened at once.
        tokio::task::yield_now().await;
    }
    sweeper.abort();
    answers.abort();
    for turns in turns {
        turns.abort();
    }
    app.report();
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
        let connection = match accepted.place {
            None => Connection::new(self.now_ms()),
            Some(_) => Connection::from_jail(self.now_ms()),
        };
        let connection = Rc::new(connection);
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
                Ok(stream) => exchange::serve(stream, peer, &connection, &app).await,
                Err(error) => tracing::warn!(%error, "a connection could not be watched"),
            }
        });
    }

    /// Asks the connections of clients to end, and waits until they have or the time for it is
    /// over. Says how many have not. A client may wait for an execution that needs the API, so
    /// those from jails last longer.
    async fn drain(&self) -> usize {
        // A request that has come before the end is read first, and then answered: a connection
        // that closes over it would not tell whether it was done.
        for connection in self.of_clients() {
            connection.announce_end();
        }
        let until = Instant::now() + self.limits.draining();
        tokio::time::sleep(SETTLING.min(self.limits.draining())).await;
        for connection in self.of_clients() {
            connection.drain();
        }
        let all_ended = async {
            while !self.of_clients().is_empty() {
                self.one_ended.notified().await;
            }
        };
        let _ = tokio::time::timeout_at(until.into(), all_ended).await;
        self.of_clients().len()
    }

    fn of_clients(&self) -> Vec<Rc<Connection>> {
        let open = self.open.borrow();
        let of_clients = open.iter().filter(|connection| !connection.is_from_jail);
        of_clients.cloned().collect()
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
