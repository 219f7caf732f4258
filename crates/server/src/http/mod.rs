//! The HTTP rim: a request comes in as bytes, an answer goes out as bytes.
//!
//! `route` finds what is asked, `extract` reads who asks and with which parameters, one thin
//! function per route asks the engine, `wire` and `error` shape what it says. Nothing below
//! this module knows HTTP.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use engine::{Clock, Engine, EngineError, Family, ReadError};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use tokio_rustls::TlsAcceptor;

pub mod access;
pub mod admission;
pub mod answers;
pub mod batch;
pub mod body;
pub mod body_budget;
pub mod callers;
pub mod columns;
pub mod cors;
pub mod counts;
pub mod databases;
pub mod error;
pub mod etag;
pub mod extract;
pub mod fields;
pub mod forwarded;
pub mod guest_turns;
pub mod heads;
pub mod health;
pub mod indexes;
pub mod lines;
pub mod media;
pub mod min_mark;
pub mod once;
pub mod openapi;
pub mod project;
pub mod query_string;
pub mod rate;
pub mod relationships;
pub mod repeated;
pub mod reply;
pub mod route;
pub mod rows;
pub mod rows_bulk;
pub mod tables;
pub mod tidemark;
pub mod transactions;
pub mod unique;
pub mod wire;

use access::Asking;
use answers::{Answers, FREE_BYTES, Sending, Untaken};
use body_budget::Budget;
use callers::Callers;
use cors::{Origin, Origins};
use counts::{Counts, ThreadCounts};
use error::{ApiError, Kind};
use extract::Asked;
use forwarded::{Client, TrustedProxies};
use guest_turns::{GuestTurns, InTurns};
use lines::Streams;
use rate::GuestRate;
use repeated::{AtOnce, Repeated};
use reply::{Reply, ReplyBody};
use route::{Action, Route, Routes};
use tidemark::SetClock;
use unique::RequestIds;

use crate::serve::{Limits, ServeConfig};
use crate::watch::trace::{Incoming as Trace, Traces, method_word};

/// Fills the slice with chance. The binary passes the system's, tests one they know.
pub type Rng = fn(&mut [u8]);

/// What all threads share.
pub struct Shared {
    /// Answers everything.
    pub engine: Arc<Engine>,
    /// What a request may take.
    pub limits: Limits,
    /// Makes TLS of a connection; `None` leaves it plain.
    pub tls: Option<TlsAcceptor>,
    /// What all threads have answered.
    pub counts: Arc<Counts>,
    clock: Arc<dyn Clock>,
    /// The clock of the engine, where clients set it.
    test_clock: Option<Arc<SetClock>>,
    rng: Rng,
    /// See [`ServeConfig::collect`].
    pub collect: fn(bool),
    origins: Origins,
    proxies: TrustedProxies,
    traces: Option<Arc<Traces>>,
    routes: Routes,
    at_once: AtOnce,
    bodies: Budget,
    guest_rate: Option<GuestRate>,
    answers: Arc<Answers>,
    pub(crate) streams: Streams,
    access_log: bool,
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
            engine,
            at_once: AtOnce::new(&routes),
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
            bodies: Budget::new(&config.limits),
            answers: Answers::new(config.threads, config.limits.answers_bytes_max),
            streams: Streams::default(),
            access_log: config.access_log,
        }
    }
}

/// What the requests of one thread share.
pub struct App {
    /// What all threads share.
    pub shared: Arc<Shared>,
    counts: Arc<ThreadCounts>,
    callers: Callers,
    repeated: Repeated,
    request_ids: RequestIds,
    sending: Rc<Sending>,
    /// Of callers without a key.
    pub guest_turns: Rc<GuestTurns>,
    /// Of connections that do not yet agree on TLS, whoever opens them.
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
            repeated: Repeated::new(),
            request_ids,
            guest_turns: Rc::default(),
            handshake_turns: Rc::default(),
        }
    }

    /// Counts the answer to a read until its client has taken it.
    fn counted(&self, pieces: &[Bytes; 3], of_guest: bool) -> Result<Option<Untaken>, ApiError> {
        let bytes_max = self.shared.limits.answer_bytes_max;
        if pieces.iter().map(Bytes::len).sum::<usize>() > bytes_max {
            return Err(EngineError::Read(ReadError::AnswerTooLarge { bytes_max }).into());
        }
        self.sending.take(pieces, of_guest)
    }

    /// Tells the engine what this thread has answered without asking it for more than that.
    pub fn report(&self) {
        self.repeated.report(&self.shared.engine);
    }
}

/// The answer to a list that this thread has given before and the cache still holds, if that is
/// all there is to do.
pub fn answer_at_once<B>(
    app: &App,
    peer: Client,
    request: &Request<B>,
) -> Option<Response<ReplyBody>> {
    if app.shared.test_clock.is_some() || rate::is_judged(app, request.headers()) {
        return None;
    }
    let began = app.is_timed().then(Instant::now);
    // Whatever goes wrong here is met again on the long way, and told there.
    let answer = catch_unwind(AssertUnwindSafe(|| repeated::answer(app, request)));
    let (response, route) = answer.unwrap_or_default()?;
    let asking = Asking {
        method: request.method(),
        headers: request.headers(),
        peer,
    };
    app.answered(asking, Some(app.shared.routes.at(route)), &response, began);
    Some(response)
}

/// Answers one request of a connection that `peer` opened. Whatever goes wrong becomes an answer,
/// too.
pub async fn answer(app: &App, peer: Client, request: Request<Incoming>) -> Response<ReplyBody> {
    let began = app.is_timed().then(Instant::now);
    let (head, body) = request.into_parts();
    let request_id = app.request_ids.name(head.headers.get(reply::X_REQUEST_ID));
    let origin = app.shared.origins.judge(head.headers.get(header::ORIGIN));
    let mut route = None;
    let contained = contain(reply_to(app, (&head, peer), body, &origin, &mut route)).await;
    let outcome = contained.unwrap_or_else(|panic| Err(ApiError::internal(panic)));
    let outcome = outcome.and_then(|reply| counted(app, &head, route, reply));
    let reply = outcome.unwrap_or_else(|error| {
        log_failure(&error, &request_id, &head);
        error.reply(Routes::family_of(head.uri.path()))
    });
    let response = reply.into_response(request_id, &origin);
    let asking = Asking {
        method: &head.method,
        headers: &head.headers,
        peer,
    };
    app.answered(asking, route, &response, began);
    response
}

async fn reply_to<'a>(
    app: &'a App,
    (head, peer): (&Parts, Client),
    body: Incoming,
    origin: &Origin,
    found: &mut Option<&'a Route>,
) -> Result<Reply, ApiError> {
    if head.method == Method::OPTIONS {
        return Ok(Reply::preflight(origin));
    }
    if *origin == Origin::Foreign
        && extract::header(&head.headers, &callers::X_APPWRITE_KEY).is_none()
    {
        let message = "Pages of this origin may not call; configure it as an allowed origin.";
        return Err(ApiError::new(Kind::UnknownOrigin, message));
    }
    if let Some(clock) = &app.shared.test_clock {
        tidemark::set_clock(clock, &app.shared.engine, &head.headers)?;
    }
    let (route, ids) = app.shared.routes.find(&head.method, head.uri.path())?;
    *found = Some(route);
    let asked = Asked::new(app, (head, peer), (route, ids), body)?;
    rate::admit(&asked)?;
    let turns = asked.turns();
    let work = pin!(carried_out(route, asked));
    InTurns::of(turns.map(|turns| &**turns), work).await
}

async fn carried_out(route: &Route, asked: Asked<'_>) -> Result<Reply, ApiError> {
    let (app, head) = (asked.app, asked.head);
    if route.action.waits_for_mark()
        && let Some(mark) = min_mark::named(&head.headers)?
    {
        // Boxed, so that requests without the header do not carry its state around.
        Box::pin(min_mark::reach(&app.shared.engine, mark)).await?;
    }
    let reply = match route.action {
        Action::ListRows => rows::list(asked).await,
        Action::GetRow => rows::get(asked).await,
        other if other.takes_key() && head.headers.contains_key(&once::IDEMPOTENCY_KEY) => {
            Box::pin(once::perform(other, asked)).await
        }
        // Boxed, so that the two routes above do not carry the state of all others around.
        other => Box::pin(perform(other, asked)).await,
    }?;
    if route.method != Method::GET || !route.action.is_about_stored_things() {
        return Ok(reply.untagged());
    }
    let engine = &app.shared.engine;
    Ok(reply.unless_held(&head.headers, |body| engine.fingerprint(body)))
}

async fn perform(action: Action, asked: Asked<'_>) -> Result<Reply, ApiError> {
    match action {
        Action::Ping => health::ping(&asked),
        Action::Versions => Ok(health::versions()),
        Action::Health => health::all(&asked),
        Action::HealthVersion => Ok(health::version()),
        Action::HealthDatabase => health::database(&asked),
        Action::HealthCache => health::cache(&asked),
        Action::HealthPubsub => health::pubsub(&asked),
        Action::HealthStorage => health::storage(&asked),
        Action::HealthTime => health::time(&asked),
        Action::ListDatabases => databases::list(&asked),
        Action::CreateDatabase => databases::create(asked).await,
        Action::GetDatabase => databases::get(&asked),
        Action::UpdateDatabase => databases::update(asked).await,
        Action::DeleteDatabase => databases::delete(&asked).await,
        Action::ListTables => tables::list(&asked),
        Action::CreateTable => tables::create(asked).await,
        Action::GetTable => tables::get(&asked),
        Action::UpdateTable => tables::update(asked).await,
        Action::DeleteTable => tables::delete(&asked).await,
        Action::ListColumns => columns::list(&asked),
        Action::CreateColumn(kind) => columns::create(asked, kind).await,
        Action::GetColumn => columns::get(&asked),
        Action::UpdateColumn(kind) => columns::update(asked, kind).await,
        Action::DeleteColumn => columns::delete(&asked).await,
        Action::CreateRelationship => relationships::create(asked).await,
        Action::UpdateRelationship => relationships::update(asked).await,
        Action::ListIndexes => indexes::list(&asked),
        Action::CreateIndex => indexes::create(asked).await,
        Action::GetIndex => indexes::get(&asked),
        Action::DeleteIndex => indexes::delete(&asked).await,
        Action::ListRows => rows::list(asked).await,
        Action::QueryRows => rows::query(asked).await,
        Action::CreateRows => rows::create(asked).await,
        Action::GetRow => rows::get(asked).await,
        Action::UpsertRow => rows::upsert(asked).await,
        Action::UpdateRow => rows::update(asked).await,
        Action::DeleteRow => rows::delete(asked).await,
        Action::UpsertRows => rows_bulk::upsert(asked).await,
        Action::UpdateRows => rows_bulk::update(asked).await,
        Action::DeleteRows => rows_bulk::delete(asked).await,
        Action::IncrementColumn => rows_bulk::count(asked, false).await,
        Action::DecrementColumn => rows_bulk::count(asked, true).await,
        Action::TidemarkStatus => tidemark::status(&asked),
        Action::Describe => Ok(openapi::document_reply()),
        Action::Transact => tidemark::transact(asked).await,
        Action::ReadAtTimes => tidemark::read(asked).await,
        Action::Heartbeat => tidemark::heartbeat(asked).await,
        Action::Constrain => tidemark::constrain(asked).await,
        Action::TableOptions => tidemark::options(&asked),
        Action::SetTableOptions => tidemark::set_options(asked).await,
        Action::ResetTests => tidemark::reset(asked).await,
        Action::ListTransactions => transactions::list(asked).await,
        Action::CreateTransaction => transactions::create(asked).await,
        Action::GetTransaction => transactions::get(asked).await,
        Action::UpdateTransaction => transactions::update(asked).await,
        Action::DeleteTransaction => transactions::delete(asked).await,
        Action::StageOperations => transactions::stage(asked).await,
        Action::BatchRead => batch::read(asked).await,
        Action::BatchWrite => batch::write(asked).await,
        Action::GetProject => project::get(&asked),
        Action::ListKeys => project::list_keys(&asked),
        Action::GetKey => project::get_key(&asked),
        Action::RevokeKey => project::revoke_key(&asked).await,
        Action::DenyKey => Err(project::refuse_new_key(&asked)),
        Action::NotBuilt => Err(not_built(&asked)),
    }
}

fn not_built(asked: &Asked<'_>) -> ApiError {
    ApiError::not_implemented(asked.app.shared.routes.allowed(asked.head.uri.path()))
}

/// The answer, counted until its client has taken it.
///
/// # Errors
/// Of a read, one that is too large, or for which there is no room. Of a write none: it is done.
fn counted(
    app: &App,
    head: &Parts,
    route: Option<&Route>,
    reply: Reply,
) -> Result<Reply, ApiError> {
    if reply.len_bytes() <= FREE_BYTES {
        return Ok(reply);
    }
    let of_guest = extract::is_without_key(app, head);
    if !route.is_some_and(Route::only_reads) {
        let untaken = app.sending.owe(reply.pieces(), of_guest);
        return Ok(reply.counted(untaken));
    }
    let untaken = app.counted(reply.pieces(), of_guest)?;
    Ok(reply.counted(untaken))
}

/// Keeps a panic inside the request that caused it: other connections of the thread live on.
async fn contain<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(format!("panic: {}", words_of(&*panic)))),
        }
    })
    .await
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without words")
}

/// How much of a path a line of the log holds: room for the ids of any legal one.
const LOGGED_PATH_BYTES: usize = 250;

fn log_failure(error: &ApiError, request_id: &HeaderValue, head: &Parts) {
    let status = error.kind.status();
    if !status.is_server_error() {
        return;
    }
    let detail = match &error.detail {
        Some(detail) => detail.clone(),
        None => error.message(Family::Tables),
    };
    let path = head.uri.path();
    tracing::warn!(
        request = request_id.to_str().unwrap_or_default(),
        method = method_word(&head.method),
        path = &path[..path.floor_char_boundary(LOGGED_PATH_BYTES)],
        status = status.as_u16(),
        trace_id = Trace::of(&head.headers).map(|trace| trace.trace_id()),
        detail,
        "a request failed"
    );
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use super::*;

    fn poll_once<T>(work: impl Future<Output = T>) -> Poll<T> {
        pin!(work)
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_panic_becomes_words() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let outcome = poll_once(contain(async { panic!("no {}", "row") }));
        std::panic::set_hook(hook);
        assert_eq!(
            outcome,
            Poll::<Result<(), String>>::Ready(Err("panic: no row".into()))
        );
    }

    #[test]
    fn other_work_is_left_alone() {
        assert_eq!(poll_once(contain(ready(5))), Poll::Ready(Ok(5)));
        assert_eq!(poll_once(contain(pending::<()>())), Poll::Pending);
    }
}
