//! What one connection does, its time limits and its turns.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Response, StatusCode};

use super::Limits;
use crate::http::reply::ReplyBody;

/// Bytes that one connection takes from the system or hands to it before others of its thread have
/// their turn, about a twentieth of a millisecond; the system would move megabytes at once.
const MOVED_A_TURN: usize = 128 << 10;
/// After so long between two requests a connection gives up the buffers for them.
const REST_AFTER_MS: u64 = 1_000;

/// What a connection is doing, with instants in milliseconds since its thread began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// A head is awaited: this is a new connection, or its first byte has come.
    Head { since_ms: u64 },
    /// A request is being answered. The engine and the body reader have limits of their own.
    Answering,
    /// The last answer is on its way, or the client does not take it. Bytes that it takes move
    /// `since_ms` on, up to now.
    Sending { since_ms: u64 },
    /// Lines are taken and answered; a client that moves no byte of either is gone. The stream
    /// itself keeps its longest life, unless its client does not take what it says.
    Streaming { since_ms: u64 },
    /// Between requests.
    Quiet,
}

/// What a connection must do, as set from outside its task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConnectionCommand {
    Nothing,
    /// Nothing has come for a while: buffers are to be given up.
    Rest,
    Drain,
    Close,
}

/// What the task of a connection and the sweep over all connections share.
pub struct Connection {
    pub(super) phase: Cell<Phase>,
    /// As of the last sweep: bytes are stamped with it, so that no byte asks for the time.
    pub(super) now_ms: Cell<u64>,
    moved_ms: Cell<u64>,
    /// Bytes of the last answer that were taken since the last sweep.
    sent_bytes: Cell<u64>,
    pub(super) command: Cell<ConnectionCommand>,
    /// Whether the next answer is the last one.
    ends: Cell<bool>,
    /// Whether it was told to rest since its last byte came.
    rests: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    pub(super) turn: Turn,
    /// Whether it is one of a function to the API, which lasts as long as functions run.
    pub is_from_jail: bool,
}

/// What a connection has done since others of its thread last had their turn. A client may send
/// requests without end, send bodies and take answers as fast as they are made, so there is a bound
/// of either.
pub struct Turn {
    /// Bytes that may yet be moved.
    moved_left: Cell<usize>,
    /// Whether a request was begun that was not answered at once.
    has_worked: Cell<bool>,
}

impl Turn {
    fn new() -> Turn {
        Turn {
            moved_left: Cell::new(MOVED_A_TURN),
            has_worked: Cell::new(false),
        }
    }

    /// Begins a turn.
    pub fn begin(&self) {
        self.moved_left.set(MOVED_A_TURN);
        self.has_worked.set(false);
    }

    /// Lets others have their turn before a further request.
    pub async fn work(&self) {
        while self.has_worked.replace(true) {
            tokio::task::yield_now().await;
        }
    }

    fn count(&self, bytes: usize) {
        let left = self.moved_left.get();
        self.moved_left.set(left.saturating_sub(bytes));
    }

    /// How many bytes may be moved now. Where that is none, the task has its turn again behind all
    /// that is ready.
    pub fn may_move(&self, cx: &mut Context<'_>) -> Poll<usize> {
        match self.moved_left.get() {
            0 => pin!(tokio::task::yield_now())
                .poll(cx)
                .map(|()| MOVED_A_TURN),
            left => Poll::Ready(left),
        }
    }
}

impl Connection {
    pub fn new(now_ms: u64) -> Connection {
        Connection {
            phase: Cell::new(Phase::Head { since_ms: now_ms }),
            now_ms: Cell::new(now_ms),
            moved_ms: Cell::new(now_ms),
            sent_bytes: Cell::new(0),
            command: Cell::new(ConnectionCommand::Nothing),
            ends: Cell::new(false),
            rests: Cell::new(false),
            waker: RefCell::new(None),
            turn: Turn::new(),
            is_from_jail: false,
        }
    }

    pub fn from_jail(now_ms: u64) -> Connection {
        Connection {
            is_from_jail: true,
            ..Connection::new(now_ms)
        }
    }

    /// Lets each answer from now on say that it is the last one: what its client has sent after
    /// that was not begun, and can be sent again elsewhere.
    pub fn announce_end(&self) {
        self.ends.set(true);
    }

    /// Whether each answer from now on is the last one.
    pub fn ends(&self) -> bool {
        self.ends.get()
    }

    /// Whether all that was begun is answered, and no byte of a further request has come.
    pub fn is_between_requests(&self) -> bool {
        self.phase.get() == Phase::Quiet
    }

    /// Lets an answer say that it is the last one, if it is.
    pub fn mark_last(&self, response: &mut Response<ReplyBody>) {
        // One that leaves HTTP is the last one anyhow, and its header says what comes then.
        if self.ends.get() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
    }

    /// Tells it to end: at once when no request is in work, after that request otherwise.
    pub fn drain(&self) {
        self.tell(ConnectionCommand::Drain);
    }

    /// Whether a byte has moved since it was looked over last.
    pub fn has_moved(&self) -> bool {
        self.moved_ms.get() >= self.now_ms.get()
    }

    /// Closes it when a limit has passed. Before that, one that nothing comes from is told to rest.
    pub fn look_over(&self, now_ms: u64, limits: &Limits) {
        self.now_ms.set(now_ms);
        let over = match self.phase.get() {
            Phase::Head { since_ms } => now_ms.saturating_sub(since_ms) >= limits.head_ms,
            Phase::Answering => false,
            Phase::Sending { since_ms } => {
                let won_ms = limits.won(self.sent_bytes.take()).as_millis() as u64;
                let since_ms = since_ms.saturating_add(won_ms).min(now_ms);
                self.phase.set(Phase::Sending { since_ms });
                now_ms.saturating_sub(since_ms) >= limits.idle_ms
            }
            Phase::Streaming { since_ms } => {
                let life_ms = limits.stream_ms.saturating_add(limits.idle_ms);
                self.is_quiet(now_ms, limits) || now_ms.saturating_sub(since_ms) >= life_ms
            }
            Phase::Quiet => {
                let quiet_ms = now_ms.saturating_sub(self.moved_ms.get());
                let is_free = self.command.get() == ConnectionCommand::Nothing;
                if quiet_ms >= REST_AFTER_MS && is_free && !self.rests.replace(true) {
                    self.tell(ConnectionCommand::Rest);
                }
                quiet_ms >= limits.idle_ms
            }
        };
        if over {
            self.tell(ConnectionCommand::Close);
        }
    }

    fn is_quiet(&self, now_ms: u64, limits: &Limits) -> bool {
        now_ms.saturating_sub(self.moved_ms.get()) >= limits.idle_ms
    }

    fn tell(&self, command: ConnectionCommand) {
        self.command.set(command);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// So many bytes have come.
    pub fn received(&self, bytes: usize) {
        self.turn.count(bytes);
        self.rests.set(false);
        self.moved_ms.set(self.now_ms.get());
        if self.phase.get() == Phase::Quiet {
            self.phase.set(Phase::Head {
                since_ms: self.now_ms.get(),
            });
        }
    }

    /// An answer is on its way from now on.
    pub fn answered(&self) {
        self.sent_bytes.set(0);
        self.phase.set(Phase::Sending {
            since_ms: self.now_ms.get(),
        });
    }

    /// So many bytes were taken.
    pub fn sent(&self, bytes: usize) {
        self.turn.count(bytes);
        self.moved_ms.set(self.now_ms.get());
        self.sent_bytes.set(self.sent_bytes.get() + bytes as u64);
    }

    /// Everything that was to be sent has been handed to the system.
    pub fn flushed(&self) {
        if matches!(self.phase.get(), Phase::Sending { .. }) {
            self.moved_ms.set(self.now_ms.get());
            self.phase.set(Phase::Quiet);
        }
    }

    /// Has the task woken when it is told something.
    pub fn await_orders(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        connections_max: 1,
        head_bytes_max: 8_192,
        body_bytes_max: 1,
        bodies_bytes_max: 1,
        guest_rate: 0,
        guest_executions: 0,
        guest_executions_bytes_max: 0,
        guest_bodies_bytes_max: 1,
        answer_bytes_max: 1,
        answers_bytes_max: 1,
        head_ms: 100,
        body_ms: 1,
        idle_ms: 1_000,
        rate_bytes_min: 100,
        stream_ms: 5_000,
        drain_ms: 1,
    };

    /// Looks the connection over at `now_ms`; says whether it was sent the command to close.
    fn closes_at(connection: &Connection, now_ms: u64) -> bool {
        connection.look_over(now_ms, &LIMITS);
        connection.command.replace(ConnectionCommand::Nothing) == ConnectionCommand::Close
    }

    #[test]
    fn a_head_that_does_not_come_ends_the_connection() {
        let connection = Connection::new(5);
        assert!(!closes_at(&connection, 104));
        connection.received(1);
        assert!(
            closes_at(&connection, 105),
            "bytes of an unfinished head win no time"
        );
    }

    #[test]
    fn a_quiet_connection_ends_after_the_idle_limit_and_each_byte_wins_time() {
        let connection = Connection::new(0);
        connection.phase.set(Phase::Quiet);
        assert!(!closes_at(&connection, 999));
        connection.sent(1);
        assert!(!closes_at(&connection, 1_998));
        assert!(closes_at(&connection, 1_999));
    }

    #[test]
    fn a_connection_is_told_once_to_rest_after_a_second_without_a_byte() {
        let limits = Limits {
            idle_ms: 60_000,
            ..LIMITS
        };
        let connection = Connection::new(0);
        let told_at = |now_ms| {
            connection.look_over(now_ms, &limits);
            connection.command.replace(ConnectionCommand::Nothing)
        };
        assert_eq!(told_at(1_000), ConnectionCommand::Close, "no head has come");
        connection.answered();
        connection.flushed();
        assert_eq!(told_at(1_999), ConnectionCommand::Nothing);
        assert_eq!(told_at(2_000), ConnectionCommand::Rest);
        assert_eq!(told_at(3_000), ConnectionCommand::Nothing);
        connection.received(1);
        connection.answered();
        assert_eq!(told_at(3_999), ConnectionCommand::Nothing);
        connection.flushed();
        assert_eq!(told_at(4_998), ConnectionCommand::Nothing);
        connection.drain();
        connection.look_over(5_000, &limits);
        assert_eq!(
            connection.command.get(),
            ConnectionCommand::Drain,
            "which comes before a rest"
        );
    }

    #[test]
    fn an_answer_must_be_taken_at_a_pace() {
        let connection = Connection::new(0);
        connection.answered();
        assert!(!closes_at(&connection, 999));
        connection.sent(50);
        assert!(!closes_at(&connection, 1_499), "50 bytes win half a second");
        assert!(closes_at(&connection, 1_500));
        connection.answered();
        assert!(!closes_at(&connection, 2_499), "each answer begins again");
        connection.flushed();
        assert!(!closes_at(&connection, 3_498));
        assert!(closes_at(&connection, 3_499), "then it is only quiet");
    }

    #[test]
    fn time_that_bytes_won_is_not_saved_up() {
        let connection = Connection::new(0);
        connection.answered();
        connection.sent(1_000_000);
        assert!(!closes_at(&connection, 500));
        assert!(!closes_at(&connection, 1_499));
        assert!(closes_at(&connection, 1_500));
    }

    #[test]
    fn the_limit_of_the_next_head_starts_with_its_first_byte() {
        let connection = Connection::new(0);
        connection.phase.set(Phase::Quiet);
        assert!(!closes_at(&connection, 900));
        connection.received(1);
        assert!(!closes_at(&connection, 999));
        assert!(closes_at(&connection, 1_000));
    }

    #[test]
    fn a_stream_lives_as_long_as_bytes_move() {
        let connection = Connection::new(0);
        connection.phase.set(Phase::Streaming { since_ms: 0 });
        for moved_ms in [900, 1_800] {
            assert!(!closes_at(&connection, moved_ms));
            connection.received(1);
            connection.flushed();
        }
        assert!(!closes_at(&connection, 2_799));
        assert!(closes_at(&connection, 2_800));
    }

    #[test]
    fn a_stream_whose_client_takes_its_time_ends_as_well() {
        let connection = Connection::new(0);
        connection.phase.set(Phase::Streaming { since_ms: 0 });
        for now_ms in [900, 1_800, 2_700, 3_600, 4_500, 5_400] {
            assert!(!closes_at(&connection, now_ms));
            connection.sent(1);
        }
        assert!(closes_at(&connection, 6_000));
    }

    #[test]
    fn a_request_in_work_has_no_limit_here() {
        let connection = Connection::new(0);
        connection.phase.set(Phase::Answering);
        assert!(!closes_at(&connection, u64::MAX));
    }

    #[test]
    fn a_turn_ends_with_its_bytes_and_with_its_second_request() {
        let mut cx = Context::from_waker(Waker::noop());
        let connection = Connection::new(0);
        let turn = &connection.turn;
        assert_eq!(turn.may_move(&mut cx), Poll::Ready(MOVED_A_TURN));
        connection.sent(MOVED_A_TURN - 1);
        assert_eq!(turn.may_move(&mut cx), Poll::Ready(1));
        connection.sent(1);
        assert!(turn.may_move(&mut cx).is_pending());
        assert!(pin!(turn.work()).poll(&mut cx).is_ready());
        let mut second = pin!(turn.work());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        turn.begin();
        assert!(second.poll(&mut cx).is_ready(), "it has waited");
        assert_eq!(turn.may_move(&mut cx), Poll::Ready(MOVED_A_TURN));
    }

    #[test]
    fn a_connection_has_moved_until_it_is_looked_over_without_a_byte() {
        let connection = Connection::new(5);
        assert!(connection.has_moved(), "it is new");
        assert!(!closes_at(&connection, 10));
        assert!(!connection.has_moved());
        connection.sent(1);
        assert!(connection.has_moved());
        assert!(!closes_at(&connection, 20));
        assert!(!connection.has_moved());
    }
}
