//! Functions and their variables: list, create, get, update, delete.

use engine::{FunctionInput, FunctionOptionsInput, VariableInput};
use model::{FunctionId, VariableId};

use crate::http::input::context::RequestContext;
use crate::http::input::fields::Fields;
use crate::http::reply::Reply;
use crate::http::state::generated_ids::UNIQUE;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// `GET /v1/functions`
pub async fn list(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let listed = engine
        .list_functions(&caller, context.containers()?)
        .await?;
    Ok(Reply::ok(wire::functions(listed.total, &listed.items)))
}

/// `POST /v1/functions`
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let id = fields.required_text("functionId")?;
    let name = fields.required_text("name")?;
    let runtime = fields.required_text("runtime")?;
    let mut input = input(&mut fields)?;
    (input.name, input.runtime) = (Some(name), Some(runtime));
    let id = context.id("functionId", &id, FunctionId::new)?;
    let engine = &context.app.shared.engine;
    let made = engine.create_function(&caller, id, input).await?;
    Ok(Reply::created(wire::function(&made)))
}

/// `GET /v1/functions/{function}`
pub async fn get(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let found = engine.get_function(&caller, &context.ids.function).await?;
    Ok(Reply::ok(wire::function(&found)))
}

/// `PUT /v1/functions/{function}`
pub async fn update(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let (name, runtime) = (fields.text("name")?, fields.text("runtime")?);
    let mut input = input(&mut fields)?;
    (input.name, input.runtime) = (name, runtime);
    let engine = &context.app.shared.engine;
    let changed = engine.update_function(&caller, &context.ids.function, input);
    Ok(Reply::ok(wire::function(&changed.await?)))
}

/// What a body says of a function, but for its name and runtime. Members about repositories have no
/// effect.
fn input(fields: &mut Fields) -> Result<FunctionInput, ApiError> {
    Ok(FunctionInput {
        name: None,
        runtime: None,
        execute: fields.texts("execute")?,
        events: fields.texts("events")?,
        schedule: fields.text("schedule")?,
        timeout_s: fields.integer("timeout")?,
        enabled: fields.flag("enabled")?,
        logging: fields.flag("logging")?,
        entrypoint: fields.text("entrypoint")?,
        commands: fields.text("commands")?,
        scopes: fields.texts("scopes")?,
        build_specification: fields.text("buildSpecification")?,
        runtime_specification: fields.text("runtimeSpecification")?,
        deployment_retention_days: fields.integer("deploymentRetention")?,
    })
}

/// `DELETE /v1/functions/{function}`
pub async fn delete(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    engine
        .delete_function(&caller, &context.ids.function)
        .await?;
    Ok(Reply::empty())
}

/// `GET /v1/functions/runtimes`
pub async fn runtimes(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    context.caller()?;
    // Where functions are not executed, there is none.
    let running = context.app.shared.functions.running().await.ok();
    let found = running.as_ref().map(|running| running.runtimes().found());
    Ok(Reply::ok(wire::runtimes(found.unwrap_or_default())))
}

/// `GET /v1/functions/specifications`
pub fn specifications(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    context.caller()?;
    Ok(Reply::ok(wire::specifications()))
}

/// `GET /v1/functions/{function}/variables`
pub async fn list_variables(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (engine, function) = (&context.app.shared.engine, &context.ids.function);
    let listed = engine
        .list_variables(&caller, function, context.containers()?)
        .await?;
    Ok(Reply::ok(wire::variables(
        function,
        listed.total,
        &listed.items,
    )))
}

/// `POST /v1/functions/{function}/variables`
pub async fn create_variable(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    // Older clients name none.
    let id = fields.text("variableId")?;
    let id = id.as_deref().unwrap_or(UNIQUE);
    let key = fields.required_text("key")?;
    let value = fields.required_text("value")?;
    let input = VariableInput {
        key: Some(key),
        value: Some(value),
        secret: fields.flag("secret")?,
    };
    let id = context.id("variableId", id, VariableId::new)?;
    let (engine, function) = (&context.app.shared.engine, &context.ids.function);
    let made = engine.create_variable(&caller, function, id, input).await?;
    Ok(Reply::created(wire::variable(function, &made)))
}

/// `GET /v1/functions/{function}/variables/{variable}`
pub async fn get_variable(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (engine, ids) = (&context.app.shared.engine, &context.ids);
    let found = engine.get_variable(&caller, &ids.function, &ids.of_function);
    Ok(Reply::ok(wire::variable(&ids.function, &found.await?)))
}

/// `PUT /v1/functions/{function}/variables/{variable}`
pub async fn update_variable(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let input = VariableInput {
        key: fields.text("key")?,
        value: fields.text("value")?,
        secret: fields.flag("secret")?,
    };
    let (engine, ids) = (&context.app.shared.engine, &context.ids);
    let changed = engine.update_variable(&caller, &ids.function, &ids.of_function, input);
    Ok(Reply::ok(wire::variable(&ids.function, &changed.await?)))
}

/// `DELETE /v1/functions/{function}/variables/{variable}`
pub async fn delete_variable(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (engine, ids) = (&context.app.shared.engine, &context.ids);
    engine
        .delete_variable(&caller, &ids.function, &ids.of_function)
        .await?;
    Ok(Reply::empty())
}

/// `GET /v1/tidemark/functions/{function}/options`
pub fn options(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let options = engine.function_options(&caller, &context.ids.function)?;
    Ok(Reply::ok(wire::function_options(&options)))
}

/// `GET /v1/tidemark/functions/{function}/output`
pub fn output(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (engine, functions) = (&context.app.shared.engine, &context.app.shared.functions);
    let active = engine.active_deployment(&caller, &context.ids.function)?;
    let output = active.as_ref().map(|active| functions.output(active.seq));
    let deployment = active.as_ref().map_or("", |active| active.id.as_str());
    Ok(Reply::ok(wire::function_output(
        deployment,
        &output.unwrap_or_default(),
    )))
}

/// `PATCH /v1/tidemark/functions/{function}/options`
pub async fn set_options(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    fields.need_known(&[
        "concurrency",
        "network",
        "recordsMax",
        "recordsDays",
        "recordsBytesMax",
    ])?;
    let input = FunctionOptionsInput {
        concurrency: fields.integer("concurrency")?,
        network: fields.text("network")?,
        records_max: fields.integer("recordsMax")?,
        records_days: fields.integer("recordsDays")?,
        records_bytes_max: fields.integer("recordsBytesMax")?,
    };
    let engine = &context.app.shared.engine;
    let set = engine.set_function_options(&caller, &context.ids.function, &input);
    Ok(Reply::ok(wire::function_options(&set.await?)))
}
