//! From a request to the function of its route, and from what that says to an answer.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;

use engine::{Family, NamedChange};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};

use crate::http::access_log::{LoggedAnswer, LoggedRequest};
use crate::http::fast_answer;
use crate::http::head::cors::Origin;
use crate::http::head::forwarded::Client;
use crate::http::head::headers::{IDEMPOTENCY_KEY, X_APPWRITE_KEY, X_REQUEST_ID};
use crate::http::head::route::{Action, FunctionAction, KeyAction, Route};
use crate::http::head::router::Routes;
use crate::http::head::{headers, min_mark};
use crate::http::input::context::{self, RequestContext};
use crate::http::limits::guest_turns::InTurns;
use crate::http::limits::unsent::FREE_BYTES;
use crate::http::reply::fixed_head::QuickAnswer;
use crate::http::reply::{Reply, ReplyBody};
use crate::http::routes::ndjson::{self, Does};
use crate::http::routes::{
    batch, columns, databases, deployments, executions, functions, health, idempotency, indexes,
    native, openapi, project, realtime, relationships, rows, rows_bulk, tables, transactions,
    welcome,
};
use crate::http::state::app::App;
use crate::http::state::known_heads::KnownHead;
use crate::http::state::test_clock;
use crate::http::wire::error::{ApiError, Kind};
use crate::telemetry::trace::{Incoming as Trace, method_word};

/// What functions reach.
const API: &str = "/v1/";

/// The answer to a request that this thread has answered before, if that is all there is to do.
pub fn answer_at_once<B>(app: &App, peer: Client, request: &Request<B>) -> Option<QuickAnswer> {
    if is_judged(app, request.headers()) {
        return None;
    }
    at_once(app, peer, request, || fast_answer::answer(app, request))
}

/// The same of a request that is known by its bytes, because it was answered at once before: so it
/// is not judged.
pub fn answer_known(app: &App, peer: Client, known: &KnownHead) -> Option<QuickAnswer> {
    at_once(app, peer, &known.request, || {
        fast_answer::answer_known(app, known)
    })
}

fn at_once<B>(
    app: &App,
    peer: Client,
    request: &Request<B>,
    answer: impl FnOnce() -> Option<(QuickAnswer, usize)>,
) -> Option<QuickAnswer> {
    if app.shared.test_clock.is_some() || peer.deployment.is_some() {
        return None;
    }
    let began = app.is_timed().then(Instant::now);
    // Whatever goes wrong here goes wrong in dispatch as well, and is reported there.
    let answer = catch_unwind(AssertUnwindSafe(answer));
    let (answer, route) = answer.unwrap_or_default()?;
    let logged = LoggedRequest {
        method: request.method(),
        headers: request.headers(),
        peer,
    };
    let of_answer = LoggedAnswer {
        status: answer.status(),
        request_id: answer.request_id(),
        body_bytes: answer.body_bytes(),
    };
    app.answered(logged, Some(app.shared.routes.at(route)), &of_answer, began);
    Some(answer)
}

/// Answers one request of a connection that `peer` opened. Whatever goes wrong becomes an answer,
/// too.
pub async fn answer(app: &App, peer: Client, request: Request<Incoming>) -> Response<ReplyBody> {
    let began = app.is_timed().then(Instant::now);
    let (head, body) = request.into_parts();
    let request_id = app.request_ids.name(head.headers.get(X_REQUEST_ID));
    let origin = app.shared.origins.judge(head.headers.get(header::ORIGIN));
    let mut route = None;
    let contained = {
        let work = pin!(reply_to(app, (&head, peer), body, &origin, &mut route));
        contain(work).await
    };
    let outcome = contained.unwrap_or_else(|panic| Err(ApiError::internal(panic)));
    let outcome = outcome.and_then(|reply| counted(app, (&head, peer), route, reply));
    let reply = outcome.unwrap_or_else(|error| {
        log_failure(&error, &request_id, &head);
        error.reply(Routes::family_of(head.uri.path()))
    });
    let response = reply.into_response(request_id, &origin);
    let logged = LoggedRequest {
        method: &head.method,
        headers: &head.headers,
        peer,
    };
    app.answered(logged, route, &LoggedAnswer::of(&response), began);
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
        && headers::header(&head.headers, &X_APPWRITE_KEY).is_none()
        // Whose answer is the same for all, and ends the attempts of a foreign page.
        && !realtime::is_handshake(head)
    {
        let elapsed_ms = app.shared.clock.elapsed_ms();
        app.shared
            .origins
            .log_refusal(head.headers.get(header::ORIGIN), elapsed_ms);
        let message = "Pages of this origin may not call; configure it as an allowed origin.";
        return Err(ApiError::new(Kind::UnknownOrigin, message));
    }
    if let Some(clock) = &app.shared.test_clock {
        test_clock::set(clock, &app.shared.engine, &head.headers)?;
    }
    if peer.deployment.is_some() && !head.uri.path().starts_with(API) {
        let message = "A function reaches the routes below /v1/, and no others.";
        return Err(ApiError::new(Kind::RouteNotFound, message));
    }
    let (route, ids) = app.shared.routes.find(&head.method, head.uri.path())?;
    *found = Some(route);
    let context = RequestContext::new(app, (head, peer), (route, ids), body)?;
    admit(&context)?;
    let turns = context.turns();
    let work = pin!(carried_out(route, context));
    InTurns::of(turns.map(|turns| &**turns), work).await
}

async fn carried_out(route: &Route, context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let (app, head) = (context.app, context.head);
    if route.action.waits_for_mark()
        && let Some(mark) = min_mark::named(&head.headers)?
    {
        // Boxed, so that requests without the header do not carry its state around.
        Box::pin(min_mark::reach(&app.shared.engine, mark)).await?;
    }
    let reply = match route.action {
        Action::ListRows => rows::list(context).await,
        Action::GetRow => rows::get(context).await,
        other if other.writes_rows() && head.headers.contains_key(&IDEMPOTENCY_KEY) => {
            Box::pin(idempotency::perform(context, |context| {
                perform(other, context)
            }))
            .await
        }
        // Boxed, so that the two routes above do not carry the state of all others around.
        other => Box::pin(perform(other, context)).await,
    }?;
    if route.method != Method::GET || !route.action.is_about_stored_things() {
        return Ok(reply.untagged());
    }
    let engine = &app.shared.engine;
    Ok(reply.unless_held(&head.headers, |body| engine.fingerprint(body)))
}

async fn perform(action: Action, context: RequestContext<'_>) -> Result<Reply, ApiError> {
    match action {
        Action::Ping => health::ping(&context),
        Action::Versions => Ok(health::versions()),
        Action::Health(part) => health::answer(part, &context),
        Action::ListDatabases => databases::list(&context),
        Action::CreateDatabase => databases::create(context).await,
        Action::GetDatabase => databases::get(&context),
        Action::UpdateDatabase => databases::update(context).await,
        Action::DeleteDatabase => databases::delete(&context).await,
        Action::ListTables => tables::list(&context),
        Action::CreateTable => tables::create(context).await,
        Action::GetTable => tables::get(&context),
        Action::UpdateTable => tables::update(context).await,
        Action::DeleteTable => tables::delete(&context).await,
        Action::ListColumns => columns::list(&context),
        Action::CreateColumn(kind) => columns::create(context, kind).await,
        Action::GetColumn => columns::get(&context),
        Action::UpdateColumn(kind) => columns::update(context, kind).await,
        Action::DeleteColumn => columns::delete(&context).await,
        Action::CreateRelationship => relationships::create(context).await,
        Action::UpdateRelationship => relationships::update(context).await,
        Action::ListIndexes => indexes::list(&context),
        Action::CreateIndex => indexes::create(context).await,
        Action::GetIndex => indexes::get(&context),
        Action::DeleteIndex => indexes::delete(&context).await,
        Action::ListRows => rows::list(context).await,
        Action::QueryRows => rows::query(context).await,
        Action::CreateRows => rows::create(context).await,
        Action::GetRow => rows::get(context).await,
        Action::UpsertRow => rows::upsert(context).await,
        Action::UpdateRow => rows::update(context).await,
        Action::DeleteRow => rows::delete(context).await,
        Action::UpsertRows => rows_bulk::upsert(context).await,
        Action::UpdateRows => rows_bulk::update(context).await,
        Action::DeleteRows => rows_bulk::delete(context).await,
        Action::IncrementColumn => rows_bulk::count(context, false).await,
        Action::DecrementColumn => rows_bulk::count(context, true).await,
        Action::TidemarkStatus => native::status(&context),
        Action::Describe => Ok(openapi::document_reply()),
        Action::Transact => native::transact(context).await,
        Action::Undo => Box::pin(native::undo(context)).await,
        Action::ReadAtTimes => Box::pin(native::read(context)).await,
        Action::Heartbeat => native::heartbeat(context).await,
        Action::ListConstraints => native::constraints_shown(&context).await,
        Action::Constrain => native::constrain(context, NamedChange::Replace).await,
        Action::AddConstraints => native::constrain(context, NamedChange::Add).await,
        Action::RemoveConstraints => native::constrain(context, NamedChange::Remove).await,
        Action::TableOptions => native::options(&context),
        Action::SetTableOptions => native::set_options(context).await,
        Action::Explain => native::explain(&context).await,
        Action::ResetTests => native::reset(context).await,
        Action::ListTransactions => transactions::list(context).await,
        Action::CreateTransaction => transactions::create(context).await,
        Action::GetTransaction => transactions::get(context).await,
        Action::UpdateTransaction => transactions::update(context).await,
        Action::DeleteTransaction => transactions::delete(context).await,
        Action::StageOperations => transactions::stage(context).await,
        Action::BatchRead => read_batch(context).await,
        Action::BatchWrite => write_batch(context).await,
        Action::Function(action) => Box::pin(perform_of_functions(action, context)).await,
        Action::GetProject => project::get(&context),
        Action::Keys(action) => perform_of_keys(action, &context).await,
        Action::DenyKey => Err(project::refuse_new_key(&context)),
        Action::NotBuilt => Err(not_built(&context)),
        Action::NotSupported(begin) => realtime::refuse(context.head, begin),
        Action::Welcome => Ok(welcome::page(&context)),
    }
}

async fn perform_of_keys(
    action: KeyAction,
    context: &RequestContext<'_>,
) -> Result<Reply, ApiError> {
    match action {
        KeyAction::List => project::list_keys(context),
        KeyAction::Get => project::get_key(context),
        KeyAction::Revoke => project::revoke_key(context).await,
    }
}

async fn perform_of_functions(
    action: FunctionAction,
    context: RequestContext<'_>,
) -> Result<Reply, ApiError> {
    use FunctionAction as F;
    match action {
        F::List => functions::list(context).await,
        F::Create => functions::create(context).await,
        F::Get => functions::get(context).await,
        F::Update => functions::update(context).await,
        F::Delete => functions::delete(context).await,
        F::ListRuntimes => functions::runtimes(&context).await,
        F::ListSpecifications => functions::specifications(&context),
        F::ListVariables => functions::list_variables(context).await,
        F::CreateVariable => functions::create_variable(context).await,
        F::GetVariable => functions::get_variable(context).await,
        F::UpdateVariable => functions::update_variable(context).await,
        F::DeleteVariable => functions::delete_variable(context).await,
        F::Options => functions::options(&context),
        F::SetOptions => functions::set_options(context).await,
        F::Output => functions::output(&context),
        F::ListDeployments => deployments::list(context).await,
        F::CreateDeployment => deployments::create(context).await,
        F::GetDeployment => deployments::get(context).await,
        F::DeleteDeployment => deployments::delete(context).await,
        F::DownloadDeployment => deployments::download(context).await,
        F::DuplicateDeployment => deployments::duplicate(context).await,
        F::CancelDeployment => deployments::cancel(context).await,
        F::ActivateDeployment => deployments::activate(context).await,
        F::Execute => executions::create(context).await,
        F::ListExecutions => executions::list(context).await,
        F::GetExecution => executions::get(context).await,
        F::DeleteExecution => executions::delete(context).await,
    }
}

async fn read_batch(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    if ndjson::are_sent(&context.head.headers) {
        return ndjson::answer(context, Does::Read);
    }
    batch::read(context).await
}

async fn write_batch(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    if ndjson::are_sent(&context.head.headers) {
        return ndjson::answer(context, Does::Write);
    }
    batch::write(context).await
}

fn not_built(context: &RequestContext<'_>) -> ApiError {
    ApiError::not_implemented(context.app.shared.routes.allowed(context.head.uri.path()))
}

/// Refuses a request without an API key whose address has sent too many.
///
/// # Errors
/// [`Kind::RateLimitExceeded`].
fn admit(context: &RequestContext<'_>) -> Result<(), ApiError> {
    let app = context.app;
    let Some(rate) = &app.shared.guest_rate else {
        return Ok(());
    };
    if context.is_keyed() {
        return Ok(());
    }
    let client = app
        .shared
        .proxies
        .client(context.peer, &context.head.headers);
    if rate.takes(client.address, app.shared.clock.elapsed_ms() * 1_000) {
        return Ok(());
    }
    app.counts.rate_refused();
    let message = format!(
        "This address may send {} requests a second without an API key, and has sent more.",
        rate.per_s
    );
    Err(ApiError::new(Kind::RateLimitExceeded, message))
}

/// Whether a request must go the way on which [`admit`] judges it.
fn is_judged(app: &App, headers: &HeaderMap) -> bool {
    app.shared.guest_rate.is_some() && !headers.contains_key(&X_APPWRITE_KEY)
}

/// The answer, counted until its client has taken it.
///
/// # Errors
/// Of a read, one that is too large, or for which there is no room. Of a write none: it is done.
fn counted(
    app: &App,
    sent: (&Parts, Client),
    route: Option<&Route>,
    reply: Reply,
) -> Result<Reply, ApiError> {
    if reply.len_bytes() <= FREE_BYTES {
        return Ok(reply);
    }
    let of_guest = context::is_without_key(app, sent);
    if !route.is_some_and(Route::only_reads) {
        let untaken = app.sending.owe(reply.pieces(), of_guest);
        return Ok(reply.counted(untaken));
    }
    let untaken = app.counted(reply.pieces(), of_guest)?;
    Ok(reply.counted(untaken))
}

/// Keeps a panic inside the request that caused it: other connections of the thread live on. The
/// work stays where it is: as a part of this future, its state of some kilobytes would stand twice
/// in what is boxed for each request.
fn contain<T>(
    mut work: Pin<&mut impl Future<Output = T>>,
) -> impl Future<Output = Result<T, String>> {
    poll_fn(move |cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(format!("panic: {}", words_of(&*panic)))),
        }
    })
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
        let outcome = poll_once(contain(pin!(async { panic!("no {}", "row") })));
        std::panic::set_hook(hook);
        assert_eq!(
            outcome,
            Poll::<Result<(), String>>::Ready(Err("panic: no row".into()))
        );
    }

    #[test]
    fn other_work_is_left_alone() {
        assert_eq!(poll_once(contain(pin!(ready(5)))), Poll::Ready(Ok(5)));
        assert_eq!(poll_once(contain(pin!(pending::<()>()))), Poll::Pending);
    }
}
