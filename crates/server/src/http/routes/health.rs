//! Ping, versions, and whether the parts of the server are well.

use std::time::Instant;

use engine::Engine;
use model::Scope;

use crate::http::head::route::HealthPart;
use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire::error::ApiError;
use crate::http::wire::{self, WIRE_VERSION};

const SCOPES: &[Scope] = &[Scope::HealthRead];

/// `GET /v1/ping`: an unknown project is refused, none is needed.
pub fn ping(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    if context.project().is_some() {
        context.caller()?;
    }
    Ok(Reply::text("Pong!"))
}

/// `GET /versions`
pub fn versions() -> Reply {
    let own = ("tidemark", env!("CARGO_PKG_VERSION"));
    Reply::ok(wire::versions(&[("server", WIRE_VERSION), own]))
}

/// The health routes. Only the version is shown without the scope to read it.
pub fn answer(part: HealthPart, context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    match part {
        HealthPart::All => all(context),
        HealthPart::Version => Ok(version()),
        HealthPart::Database => database(context),
        HealthPart::Cache => cache(context),
        HealthPart::Pubsub => pubsub(context),
        HealthPart::Storage => storage(context),
        HealthPart::Time => time(context),
    }
}

/// `GET /v1/health/version`
fn version() -> Reply {
    Reply::ok(wire::versions(&[("version", WIRE_VERSION)]))
}

/// `GET /v1/health`: its answer shows that HTTP works. Like all others it fails once
/// nothing is written any more, while a commit is in doubt, and while no database is reached.
fn all(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    context.caller_with(SCOPES)?;
    let engine = &context.app.shared.engine;
    Ok(Reply::ok(wire::health("http", 0, goes_on(engine))))
}

/// Whether there is nothing that keeps all from being read and written.
fn goes_on(engine: &Engine) -> bool {
    engine.stop_reason().is_none() && !engine.awaits_commit() && !engine.is_out_of_reach()
}

/// `GET /v1/health/db`
fn database(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::ok(wire::statuses(&[measured("database", context)?])))
}

/// `GET /v1/health/cache`: fails once a cached list was found to differ from a fresh read, or
/// they are no longer compared though it was asked for.
fn cache(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::ok(wire::statuses(&[measured("cache", context)?])))
}

/// `GET /v1/health/pubsub`
fn pubsub(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::ok(wire::statuses(&[measured("pubsub", context)?])))
}

/// `GET /v1/health/storage` and `GET /v1/health/storage/local`
fn storage(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::ok(measured("storage", context)?))
}

/// `GET /v1/health/time`: the machine's clock beside the time by which commits and reads go, in
/// seconds. They differ while the clock cannot be believed; no other machine is asked.
fn time(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    context.caller_with(SCOPES)?;
    let shared = &context.app.shared;
    let (believed, clock) = (shared.engine.now(), shared.clock.now());
    Ok(Reply::ok(wire::health_time(believed, clock)))
}

/// All parts live in this process, so one question to the engine speaks for each of them.
fn measured(name: &str, context: &RequestContext<'_>) -> Result<Vec<u8>, ApiError> {
    context.caller_with(SCOPES)?;
    let began = Instant::now();
    let engine = &context.app.shared.engine;
    let status = engine.status();
    let differs = || engine.compared().is_some_and(|compared| !compared.passes());
    let passes =
        status.mark <= status.horizon && goes_on(engine) && !(name == "cache" && differs());
    Ok(wire::health(
        name,
        began.elapsed().as_millis() as i64,
        passes,
    ))
}
