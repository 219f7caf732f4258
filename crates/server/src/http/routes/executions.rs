//! Executions of functions: asked for and waited for.

use std::sync::Arc;

use bytes::Bytes;
use engine::{Caller, EngineError, ExecutionTrigger, FunctionError, QueuedRequest};
use functions::RunRefusal;
use model::calendar::parse_iso;
use model::{Json, Timestamp};

use crate::functions::{
    BODY_BYTES_MAX, ExecutionCall, ExecutionFault, RunningFunctions, own_headers,
};
use crate::http::head::accept;
use crate::http::head::headers::X_APPWRITE_EXECUTION_ID;
use crate::http::input::context::RequestContext;
use crate::http::input::fields::Fields;
use crate::http::limits::guest_executions::GuestExecution;
use crate::http::limits::unsent::FREE_BYTES;
use crate::http::reply::Reply;
use crate::http::state::generated_ids::unique_id;
use crate::http::wire;
use crate::http::wire::error::{ApiError, Kind};
use crate::secret::draw_id;

/// Longest path, in characters (wire protocol, executions).
pub const EXECUTION_PATH_CHARS_MAX: usize = 2_048;
/// An execution is scheduled at least so far ahead, in microseconds (wire protocol, executions).
const SCHEDULED_AHEAD_US: i64 = 60_000_000;
/// Most headers of an execution.
const HEADERS_MAX: usize = 100;
/// Bytes of their names and values together: with the path they go to the process in one frame.
const HEADERS_BYTES_MAX: usize = 16 << 10;
/// The methods that a handler may see.
pub const EXECUTION_METHODS: [&str; 7] =
    ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"];
/// Beginnings of names that say what the server knows; no caller sets such a header.
const OURS: [&str; 3] = ["x-appwrite-", "x-open-runtimes-", "x-tidemark-"];

/// `POST /v1/functions/{function}/executions`
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let shared = context.app.shared.clone();
    let id = &context.ids.function;
    // Whatever speaks against it is said before the body is read.
    let function = shared.engine.may_execute(&caller, id)?;
    let running = shared.functions.running_for(&function).await?;
    // Only now: where functions are not executed none is built either.
    if function.active.is_none() {
        return Err(EngineError::from(FunctionError::NoActiveDeployment).into());
    }
    let runtime = &function.definition.runtime;
    if running.runtimes().by_id(runtime).is_none() {
        return Err(unsupported(runtime, "it is not on this host"));
    }
    let mut fields = context.fields().await?;
    let start = start(&mut fields, shared.engine.now())?;
    let call = call(&context, &caller, &mut fields)?;
    // The client may be gone while the handler runs, and the body is held no longer than it takes
    // to hand it over.
    drop(fields);
    let held = hold_for_guest(&context, &caller, &running, call.body.len()).await?;
    if let ExecutionStart::Queued(due) = start {
        let (guests, id) = (running.guests(), call.id.clone());
        // Before it is queued: it may have ended when that returns.
        if let Some(held) = held {
            guests.hold(function.seq, &id, held);
        }
        let queued = queued(call, due);
        let record = shared.engine.queue_execution(&caller, &function, queued);
        let record = record
            .await
            .inspect_err(|_| guests.release(function.seq, &id))?;
        running.expect_queued();
        let body = wire::execution(function.id.as_str(), &record, b"", true);
        return Ok(Reply::accepted(body).with(X_APPWRITE_EXECUTION_ID, &record.id));
    }
    let of_guest = caller.is_guest();
    // Handlers may answer with more: where nothing has room, none is called.
    context.app.sending.need_room(FREE_BYTES + 1, of_guest)?;
    let execution = running
        .execute(function.clone(), call, (held, of_guest))
        .await;
    let execution = execution.map_err(|fault| refusal(fault, runtime))?;
    let shows_logs = !of_guest;
    let (id, record, body) = (function.id.as_str(), &execution.record, &execution.body);
    let reply = if accept::takes_form(&context.head.headers) {
        // Drawn when the handler has answered, so that it cannot know it.
        let boundary = format!("----{}", draw_id(shared.rng));
        let form = wire::execution_form(id, record, (body, &boundary), shows_logs);
        Reply::created_form(form, &boundary)
    } else {
        Reply::created(wire::execution(id, record, body, shows_logs))
    };
    // An execution is no longer counted, and many answers that no client takes would have no end.
    let untaken = context.app.sending.take(reply.pieces(), of_guest);
    let untaken = untaken.map_err(|_| unsent(&record.id, reply.len_bytes()))?;
    let reply = reply.counted(untaken);
    Ok(reply.with(X_APPWRITE_EXECUTION_ID, &record.id))
}

/// `GET /v1/functions/{function}/executions`
pub async fn list(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (shared, function) = (&context.app.shared, &context.ids.function);
    // A caller sees what it was told of.
    shared.functions.write_records().await;
    let listed = shared
        .engine
        .list_executions(&caller, function, context.containers()?)
        .await?;
    Ok(Reply::ok(wire::executions(
        function,
        listed.total,
        &listed.items,
    )))
}

/// `GET /v1/functions/{function}/executions/{execution}`
pub async fn get(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (shared, ids) = (&context.app.shared, &context.ids);
    shared.functions.write_records().await;
    let found = shared
        .engine
        .get_execution(&caller, &ids.function, &ids.of_function);
    let found = found.await?;
    Ok(Reply::ok(wire::execution(&ids.function, &found, b"", true)))
}

/// `DELETE /v1/functions/{function}/executions/{execution}`
pub async fn delete(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (shared, ids) = (&context.app.shared, &context.ids);
    shared.functions.write_records().await;
    shared
        .engine
        .delete_execution(&caller, &ids.function, &ids.of_function)
        .await?;
    Ok(Reply::empty())
}

/// When an execution starts.
enum ExecutionStart {
    /// While its caller waits.
    AtOnce,
    /// When its turn comes, and not before this instant.
    Queued(Option<Timestamp>),
}

fn start(fields: &mut Fields, now: Timestamp) -> Result<ExecutionStart, ApiError> {
    let is_async = fields.flag("async")?.unwrap_or(false);
    let Some(text) = fields.text("scheduledAt")? else {
        return Ok(if is_async {
            ExecutionStart::Queued(None)
        } else {
            ExecutionStart::AtOnce
        });
    };
    let refuse = |why: &str| Err(ApiError::invalid("scheduledAt", why));
    if !is_async {
        return refuse("Only an execution with `async` can be scheduled.");
    }
    let Some(due) = parse_iso(&text) else {
        return refuse("Value must be a date and time such as 2026-01-31T10:00:00.000Z.");
    };
    if due.0 < now.0 + SCHEDULED_AHEAD_US {
        return refuse("Value must be at least a minute ahead.");
    }
    Ok(ExecutionStart::Queued(Some(due)))
}

fn queued(call: ExecutionCall, due: Option<Timestamp>) -> QueuedRequest {
    QueuedRequest {
        id: call.id,
        trigger: call.trigger,
        due,
        method: call.method,
        path: call.path,
        headers: call.headers,
        body: Arc::from(&*call.body),
        depth: call.depth,
    }
}

/// Counts an execution of a caller without an API key until it ends.
///
/// # Errors
/// [`Kind::RateLimitExceeded`] when the address has too many.
async fn hold_for_guest(
    context: &RequestContext<'_>,
    caller: &Caller,
    running: &RunningFunctions,
    bytes: usize,
) -> Result<Option<GuestExecution>, ApiError> {
    if !caller.is_guest() {
        return Ok(None);
    }
    let shared = &context.app.shared;
    let client = shared.proxies.client(context.peer, &context.head.headers);
    let take = || shared.guest_executions.take(client.address, bytes);
    let mut held = take();
    let guests = running.guests();
    if held.is_err() && guests.release_gone(&shared.engine, client.address).await {
        held = take();
    }
    held.map(Some).map_err(|why| {
        context.app.counts.executions_refused();
        ApiError::new(Kind::RateLimitExceeded, why)
    })
}

fn call(
    context: &RequestContext<'_>,
    caller: &Caller,
    fields: &mut Fields,
) -> Result<ExecutionCall, ApiError> {
    let body = fields.text("body")?.unwrap_or_default();
    if body.len() > BODY_BYTES_MAX {
        let why = format!("At most {BODY_BYTES_MAX} bytes are allowed.");
        return Err(ApiError::invalid("body", why));
    }
    let path = path(fields)?;
    let method = method(fields)?;
    let mut headers = headers(fields)?;
    let (shared, head) = (&context.app.shared, context.head);
    let client = shared.proxies.client(context.peer, &head.headers);
    let id = unique_id(shared.clock.now(), shared.rng);
    let trigger = ExecutionTrigger::Http;
    let address = client.address.to_string();
    headers.extend(own_headers(&id, trigger, &address));
    Ok(ExecutionCall {
        id,
        trigger,
        method: method.to_owned(),
        path,
        headers,
        body: Bytes::from(body),
        depth: caller
            .function
            .as_ref()
            .map_or(0, |function| function.depth),
    })
}

fn path(fields: &mut Fields) -> Result<String, ApiError> {
    let path = fields.text("path")?.unwrap_or_default();
    if path.chars().count() > EXECUTION_PATH_CHARS_MAX {
        let why = format!("At most {EXECUTION_PATH_CHARS_MAX} characters are allowed.");
        return Err(ApiError::invalid("path", why));
    }
    if path.chars().any(char::is_control) {
        let why = "No control characters are allowed.";
        return Err(ApiError::invalid("path", why));
    }
    // As the protocol's own server completes it.
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(format!("{slash}{path}"))
}

fn method(fields: &mut Fields) -> Result<&'static str, ApiError> {
    let Some(given) = fields.text("method")? else {
        return Ok("POST");
    };
    let known = EXECUTION_METHODS.into_iter().find(|known| *known == given);
    known.ok_or_else(|| {
        let why = format!("Value must be one of {}.", EXECUTION_METHODS.join(", "));
        ApiError::invalid("method", why)
    })
}

/// The headers that the caller gives, names in small letters. An empty list stands for an empty
/// object: one of the official clients cannot tell them apart.
fn headers(fields: &mut Fields) -> Result<Vec<(String, String)>, ApiError> {
    let refuse = |why: String| Err(ApiError::invalid("headers", why));
    let given = match fields.take("headers") {
        None => return Ok(Vec::new()),
        Some(Json::Object(members)) => members,
        Some(Json::List(list)) if list.is_empty() => return Ok(Vec::new()),
        Some(other) => {
            return refuse(format!("Value must be an object, got {}.", other.kind()));
        }
    };
    if given.len() > HEADERS_MAX {
        return refuse(format!("At most {HEADERS_MAX} headers are allowed."));
    }
    let (mut headers, mut bytes) = (Vec::with_capacity(given.len()), 0);
    for (name, value) in given {
        let Json::Text(value) = value else {
            return refuse(format!(
                "The value of each header must be a text, got {}.",
                value.kind()
            ));
        };
        bytes += name.len() + value.len();
        let is_legal = is_token(&name) && is_value(&value);
        if !is_legal {
            return refuse("A name or a value is none of a header.".to_owned());
        }
        let name = name.to_ascii_lowercase();
        if !OURS.iter().any(|ours| name.starts_with(ours)) {
            headers.push((name, value));
        }
    }
    if bytes > HEADERS_BYTES_MAX {
        return refuse(format!(
            "At most {HEADERS_BYTES_MAX} bytes of names and values are allowed."
        ));
    }
    Ok(headers)
}

/// RFC 9110, 5.6.2.
fn is_token(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}

/// RFC 9110, 5.5, as text.
fn is_value(value: &str) -> bool {
    value
        .chars()
        .all(|letter| letter == '\t' || !letter.is_control())
}

fn unsent(id: &str, bytes: usize) -> ApiError {
    let message = format!(
        "The execution {id} has ended, and its record says what came of it. Its answer of {bytes} \
         bytes is not sent: too many large answers wait for their clients."
    );
    ApiError::new(Kind::AnswerUnsent, message)
}

fn unsupported(runtime: &str, why: &str) -> ApiError {
    let error = FunctionError::RuntimeUnsupported {
        runtime: runtime.to_owned(),
        why: why.to_owned(),
    };
    engine::EngineError::from(error).into()
}

fn refusal(fault: ExecutionFault, runtime: &str) -> ApiError {
    match fault {
        ExecutionFault::Engine(error) => error.into(),
        ExecutionFault::Refused(RunRefusal::RuntimeMissing { .. }) => {
            unsupported(runtime, "it is not on this host")
        }
        ExecutionFault::Refused(refusal @ RunRefusal::NetworkMissing) => {
            unsupported(runtime, &refusal.to_string())
        }
        ExecutionFault::Refused(refusal) => {
            let message = format!("Not executed: {refusal}.");
            ApiError::new(Kind::ServiceUnavailable, message)
        }
        ExecutionFault::WaitedTooLong { seconds } => {
            let message = format!(
                "The execution has not ended within {seconds} seconds, for which a caller waits."
            );
            ApiError::new(Kind::SynchronousTimeout, message)
        }
        ExecutionFault::Broken(detail) => ApiError::internal(detail),
    }
}
