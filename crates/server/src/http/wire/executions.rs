//! Executions as answers show them.

use super::json;
use super::object::Object;
use crate::functions::Execution;

/// One execution of a function. What it logged is for callers with a key.
pub fn execution(function: &str, execution: &Execution, shows_logs: bool) -> Vec<u8> {
    let response = &execution.outcome.response;
    let mut out = Vec::with_capacity(1_024 + response.body.len());
    let (call, outcome) = (&execution.call, &execution.outcome);
    let mut object = Object::open(&mut out);
    object.plain("$id", &call.id);
    object.instant("$createdAt", execution.created);
    object.instant("$updatedAt", execution.updated);
    object.raw("$permissions", b"[]");
    object.plain("functionId", function);
    object.plain("resourceId", function);
    object.text("resourceType", "functions");
    object.plain("deploymentId", execution.deployment.as_str());
    object.text("trigger", "http");
    object.text("status", execution.status().as_str());
    object.text("requestMethod", call.method);
    object.text("requestPath", &call.path);
    headers(&mut object, "requestHeaders", &call.headers);
    object.number("responseStatusCode", i64::from(response.status));
    object.text("responseBody", &String::from_utf8_lossy(&response.body));
    headers(&mut object, "responseHeaders", &response.headers);
    let logged = |text| if shows_logs { text } else { "" };
    object.text("logs", logged(&outcome.logs));
    object.text("errors", logged(&outcome.errors));
    object.with("duration", |out| json(out, &outcome.duration.as_secs_f64()));
    object.raw("scheduledAt", b"null");
    object.close();
    out
}

fn headers(object: &mut Object<'_>, key: &str, headers: &[(String, String)]) {
    object.array(key, headers, |(name, value), out| {
        let mut header = Object::open(out);
        header.text("name", name);
        header.text("value", value);
        header.close();
    });
}
