//! What the threads that answer requests share, and what the requests of one thread share.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use engine::{Clock, Engine, EngineError, ReadError};
use tokio_rustls::TlsAcceptor;

use super::counts::{Counts, ThreadCounts};
use crate::functions::Functions;
use crate::http::head::cors::Origins;
use crate::http::head::credentials::Callers;
use crate::http::head::forwarded::TrustedProxies;
use crate::http::head::request_ids::RequestIds;
use crate::http::head::router::Routes;
use crate::http::limits::body_budget::Budget;
use crate::http::limits::guest_executions::GuestExecutions;
use crate::http::limits::guest_turns::GuestTurns;
use crate::http::limits::rate::GuestRate;
use crate::http::limits::streams::Streams;
use crate::http::limits::unsent::{Answers, Sending, Untaken};
use crate::http::reply::fixed_head::QuickAnswer;
use crate::http::reply::head_bytes::DateLine;
use crate::http::state::fast_path::{FastPath, FastRoutes};
use crate::http::state::known_heads::KnownHeads;
use crate::http::state::test_clock::SetClock;
use crate::http::wire::error::ApiError;
use crate::rng::Rng;
use crate::serve::{Limits, ServeConfig};
use crate::telemetry::trace::Traces;

/// What all threads share.
pub struct Shared {
    /// Answers everything.
    pub engine: Arc<Engine>,
    /// Executes functions.
    pub functions: Functions,
    /// What a request may take.
    pub limits: Limits,
    /// Makes TLS of a connection; `None` leaves it plain.
    pub tls: Option<TlsAcceptor>,
    /// What all threads have answered.
    pub counts: Arc<Counts>,
    pub(in crate::http) clock: Arc<dyn Clock>,
    /// The clock of the engine, where clients set it.
    pub(in crate::http) test_clock: Option<Arc<SetClock>>,
    pub(in crate::http) rng: Rng,
    /// See [`ServeConfig::collect`].
    pub collect: fn(bool),
    pub(in crate::http) origins: Origins,
    pub(in crate::http) proxies: TrustedProxies,
    pub(in crate::http) traces: Option<Arc<Traces>>,
    pub(in crate::http) routes: Routes,
    pub(in crate::http) fast_routes: FastRoutes,
    pub(in crate::http) bodies: Budget,
    pub(in crate::http) guest_rate: Option<GuestRate>,
    pub(in crate::http) guest_executions: Arc<GuestExecutions>,
    pub(in crate::http) answers: Arc<Answers>,
    pub(crate) streams: Arc<Streams>,
    pub(in crate::http) access_log: bool,
}

impl Shared {
    /// Puts together what the threads need.
    pub fn new(
        engine: Arc<Engine>,
        config: ServeConfig,
        origins: Origins,
        tls: Option<TlsAcceptor>,
    ) -> Shared {
        let routes = Routes::new();
        Shared {
            functions: Functions::new(
                engine.clone(),
                config.functions,
                (config.rng, config.counts.functions.clone()),
            ),
            engine,
            fast_routes: FastRoutes::new(&routes),
            counts: config.counts,
            traces: config.traces,
            limits: config.limits,
            tls,
            clock: config.clock,
            test_clock: config.test_clock,
            rng: config.rng,
            collect: config.collect,
            origins,
            proxies: config.proxies,
            routes,
            guest_rate: GuestRate::new(config.limits.guest_rate, config.rng),
            guest_executions: GuestExecutions::new(
                config.limits.guest_executions,
                config.limits.guest_executions_bytes_max,
            ),
            bodies: Budget::new(&config.limits),
            answers: Answers::new(config.threads, config.limits.answers_bytes_max),
            streams: Arc::default(),
            access_log: config.access_log,
        }
    }
}

/// What the requests of one thread share.
pub struct App {
    /// What all threads share.
    pub shared: Arc<Shared>,
    pub(in crate::http) counts: Arc<ThreadCounts>,
    pub(in crate::http) callers: Callers,
    pub(in crate::http) fast_path: FastPath,
    /// Requests that were answered at once, by their bytes.
    pub known_heads: KnownHeads,
    date: DateLine,
    /// Room for a head, used again by each answer that is written here.
    head: RefCell<Vec<u8>>,
    pub(in crate::http) request_ids: RequestIds,
    pub(in crate::http) sending: Rc<Sending>,
    /// Of callers without a key.
    pub guest_turns: Rc<GuestTurns>,
    /// Of connections that do not yet agree on TLS, of all clients.
    pub handshake_turns: Rc<GuestTurns>,
}

impl App {
    /// The state of the thread with this number.
    pub fn new(shared: Arc<Shared>, thread: usize) -> App {
        let request_ids = RequestIds::new(thread, shared.rng);
        App {
            counts: shared.counts.thread(thread),
            sending: Sending::new(shared.answers.clone(), thread),
            shared,
            callers: Callers::default(),
            fast_path: FastPath::new(),
            known_heads: KnownHeads::new(),
            date: DateLine::default(),
            head: RefCell::default(),
            request_ids,
            guest_turns: Rc::default(),
            handshake_turns: Rc::default(),
        }
    }

    /// Counts the answer to a read until its client has taken it.
    pub(in crate::http) fn counted(
        &self,
        pieces: &[Bytes; 3],
        of_guest: bool,
    ) -> Result<Option<Untaken>, ApiError> {
        let bytes_max = self.shared.limits.answer_bytes_max;
        if pieces.iter().map(Bytes::len).sum::<usize>() > bytes_max {
            return Err(EngineError::Read(ReadError::AnswerTooLarge { bytes_max }).into());
        }
        self.sending.take(pieces, of_guest)
    }

    /// The bytes of an answer's head.
    pub fn head_bytes(&self, answer: &QuickAnswer) -> RefMut<'_, Vec<u8>> {
        let mut head = self.head.borrow_mut();
        head.clear();
        answer.write_head((&self.date, self.shared.clock.now()), &mut head);
        head
    }

    /// Reports the answers of the fast path to the engine, which has not seen them.
    pub fn report(&self) {
        self.fast_path.report(&self.shared.engine);
    }
}
