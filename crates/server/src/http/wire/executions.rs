//! Executions as answers show them.

use std::collections::BTreeMap;

use engine::ExecutionRecord;
use serde_json::Value;

use super::object::Object;
use super::{json, list};

/// One execution of a function with the body of its response, which a record has none of. What it
/// logged is for callers with a key.
pub fn execution(
    function: &str,
    record: &ExecutionRecord,
    body: &[u8],
    shows_logs: bool,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(1_024 + body.len());
    write_execution(function, (record, body), shows_logs, &mut out);
    out
}

/// As [`execution`], as a form with a part for each member: the body of the response as its bytes
/// are, other texts as they are, all else as JSON. Nothing of it may hold the boundary.
pub fn execution_form(
    function: &str,
    record: &ExecutionRecord,
    (body, boundary): (&[u8], &str),
    shows_logs: bool,
) -> Vec<u8> {
    let members: BTreeMap<String, Value> =
        serde_json::from_slice(&execution(function, record, b"", shows_logs))
            .expect("an object was written");
    let mut out = Vec::with_capacity(4_096 + body.len());
    for (name, value) in members {
        let head =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
        match value {
            _ if name == "responseBody" => out.extend_from_slice(body),
            Value::String(text) => out.extend_from_slice(text.as_bytes()),
            Value::Null => {}
            other => out.extend_from_slice(other.to_string().as_bytes()),
        }
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    out
}

/// A page of records of executions.
pub fn executions(function: &str, total: u64, records: &[ExecutionRecord]) -> Vec<u8> {
    list("executions", total, records, |record, out| {
        write_execution(function, (record, b""), true, out);
    })
}

fn write_execution(
    function: &str,
    (record, body): (&ExecutionRecord, &[u8]),
    shows_logs: bool,
    out: &mut Vec<u8>,
) {
    let mut object = Object::open(out);
    object.text("$id", &record.id);
    object.instant("$createdAt", record.created);
    object.instant("$updatedAt", record.updated);
    object.raw("$permissions", b"[]");
    object.plain("functionId", function);
    object.plain("resourceId", function);
    object.text("resourceType", "functions");
    object.plain("deploymentId", record.deployment.as_str());
    object.text("trigger", record.trigger.as_str());
    object.text("status", record.status.as_str());
    object.text("requestMethod", &record.method);
    object.text("requestPath", &record.path);
    headers(&mut object, "requestHeaders", &record.request_headers);
    object.number("responseStatusCode", i64::from(record.response_status));
    object.text("responseBody", &String::from_utf8_lossy(body));
    headers(&mut object, "responseHeaders", &record.response_headers);
    let logged = |text| if shows_logs { text } else { "" };
    object.text("logs", logged(&record.logs));
    object.text("errors", logged(&record.errors));
    let duration_s = record.duration_us as f64 / 1e6;
    object.with("duration", |out| json(out, &duration_s));
    match record.scheduled {
        Some(due) => object.instant("scheduledAt", due),
        None => object.raw("scheduledAt", b"null"),
    }
    object.close();
}

fn headers(object: &mut Object<'_>, key: &str, headers: &[(String, String)]) {
    object.array(key, headers, |(name, value), out| {
        let mut header = Object::open(out);
        header.text("name", name);
        header.text("value", value);
        header.close();
    });
}
