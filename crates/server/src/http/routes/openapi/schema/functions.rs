//! Functions, their variables and deployments: what defines them, and how answers show them.

use engine::RUNTIMES;
use engine::limits::{
    COMMANDS_CHARS_MAX, ENTRYPOINT_CHARS_MAX, FUNCTION_LIST_MAX, RETENTION_DAYS_MAX,
    SCHEDULE_CHARS_MAX, VARIABLE_KEY_CHARS_MAX, VARIABLE_VALUE_CHARS_MAX,
};
use model::Scope;
use model::function::{
    CONCURRENCY_MAX, FUNCTION_TIMEOUT_S_MAX, RECORDS_BYTES_MAX, RECORDS_BYTES_MIN,
    RECORDS_DAYS_MAX, RECORDS_MAX,
};
use serde_json::{Value, json};

use super::tables::container_name;
use super::{
    Named, flag, id, instant, instant_or_none, integer, list_of, listed, new_id, object, reference,
    text, texts, whole,
};
use crate::functions::BODY_BYTES_MAX;
use crate::http::routes::executions::{EXECUTION_METHODS, EXECUTION_PATH_CHARS_MAX};
use crate::http::wire::{NO_PROVIDER, NO_REPOSITORY};

const STATUSES: [&str; 5] = ["waiting", "building", "ready", "failed", "canceled"];

fn bounded(min: u64, max: u64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

fn at_most(chars_max: usize) -> Value {
    json!({"type": "string", "maxLength": chars_max})
}

pub(super) fn all() -> Vec<Named> {
    [
        of_definitions(),
        of_options(),
        of_variables(),
        of_deployments(),
        of_executions(),
        of_host(),
    ]
    .concat()
}

fn of_definitions() -> Vec<Named> {
    let list =
        |items: Value| json!({"type": "array", "maxItems": FUNCTION_LIST_MAX, "items": items});
    let scopes: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let specification =
        json!({"type": "string", "pattern": "^s-[0-9.]{1,5}vcpu-[0-9.]{1,5}(mb|gb)$"});
    let change = json!({
        "name": container_name(),
        "runtime": {"enum": &RUNTIMES[..]},
        "execute": list(text()),
        "events": list(at_most(ENTRYPOINT_CHARS_MAX)),
        "schedule": at_most(SCHEDULE_CHARS_MAX),
        "timeout": bounded(1, u64::from(FUNCTION_TIMEOUT_S_MAX)),
        "enabled": flag(),
        "logging": flag(),
        "entrypoint": at_most(ENTRYPOINT_CHARS_MAX),
        "commands": at_most(COMMANDS_CHARS_MAX),
        "scopes": list(json!({"enum": scopes})),
        "buildSpecification": specification,
        "runtimeSpecification": specification,
        "deploymentRetention": bounded(0, RETENTION_DAYS_MAX),
    });
    let mut new = change.clone();
    new["functionId"] = new_id();
    vec![
        ("Function", shown_function()),
        ("Functions", listed("functions", reference("Function"))),
        (
            "NewFunction",
            object(&["functionId", "name", "runtime"], new),
        ),
        ("FunctionChange", object(&[], change)),
    ]
}

fn shown_function() -> Value {
    let statuses = [&STATUSES[..], &[""]].concat();
    whole(&[
        (id(), &["$id"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (texts(), &["execute", "scopes", "events"]),
        (list_of(reference("Variable")), &["vars"]),
        (list_of(text()), &["providerBranches", "providerPaths"]),
        (
            text(),
            &[
                "name",
                "description",
                "runtime",
                "deploymentId",
                "latestDeploymentId",
                "schedule",
                "entrypoint",
                "commands",
                "version",
                "buildSpecification",
                "runtimeSpecification",
            ],
        ),
        (text(), &NO_REPOSITORY),
        (
            instant_or_none(),
            &["deploymentCreatedAt", "latestDeploymentCreatedAt"],
        ),
        (json!({"enum": statuses}), &["latestDeploymentStatus"]),
        (
            flag(),
            &[
                "enabled",
                "live",
                "logging",
                "providerSilentMode",
                "emailEnabled",
            ],
        ),
        (integer(), &["deploymentRetention", "timeout"]),
    ])
}

fn of_options() -> Vec<Named> {
    let options = json!({
        "concurrency": bounded(1, CONCURRENCY_MAX),
        "network": {"enum": ["none", "outside"]},
        "recordsMax": bounded(1, RECORDS_MAX),
        "recordsDays": bounded(1, RECORDS_DAYS_MAX),
        "recordsBytesMax": bounded(RECORDS_BYTES_MIN, RECORDS_BYTES_MAX),
    });
    let members = options.as_object().expect("it is an object");
    let all: Vec<&str> = members.keys().map(String::as_str).collect();
    vec![
        ("FunctionOptions", object(&all, options.clone())),
        ("FunctionOptionsChange", object(&[], options)),
        (
            "FunctionOutput",
            whole(&[(text(), &["deploymentId", "output"])]),
        ),
    ]
}

fn of_variables() -> Vec<Named> {
    let change = json!({
        "key": {
            "type": "string", "pattern": "^[^=\\u0000]+$", "maxLength": VARIABLE_KEY_CHARS_MAX,
        },
        "value": at_most(VARIABLE_VALUE_CHARS_MAX),
        "secret": flag(),
    });
    let mut new = change.clone();
    new["variableId"] = new_id();
    let shown = whole(&[
        (id(), &["$id", "resourceId"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (text(), &["key", "description", "value"]),
        (flag(), &["secret"]),
        (json!({"const": "functions"}), &["resourceType"]),
    ]);
    vec![
        ("Variable", shown),
        ("Variables", listed("variables", reference("Variable"))),
        ("NewVariable", object(&["key", "value"], new)),
        ("VariableChange", object(&[], change)),
    ]
}

fn of_deployments() -> Vec<Named> {
    let form = object(
        &["code", "activate"],
        json!({
            "code": {"type": "string", "contentMediaType": "application/gzip"},
            "activate": flag(),
            "entrypoint": at_most(ENTRYPOINT_CHARS_MAX),
            "commands": at_most(COMMANDS_CHARS_MAX),
        }),
    );
    let shown = whole(&[
        (id(), &["$id", "resourceId"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (json!({"const": "manual"}), &["type"]),
        (json!({"const": "functions"}), &["resourceType"]),
        (text(), &["entrypoint", "commands", "buildId", "buildLogs"]),
        (text(), &NO_PROVIDER),
        (
            integer(),
            &[
                "sourceSize",
                "buildSize",
                "totalSize",
                "buildDuration",
                "chunksTotal",
                "chunksUploaded",
            ],
        ),
        (flag(), &["activate"]),
        (json!({"enum": STATUSES}), &["status"]),
    ]);
    let choice = json!({"deploymentId": text()});
    vec![
        ("NewDeployment", form),
        ("Deployment", shown),
        (
            "Deployments",
            listed("deployments", reference("Deployment")),
        ),
        ("DeploymentChoice", object(&["deploymentId"], choice)),
    ]
}

fn of_executions() -> Vec<Named> {
    let new = json!({
        "body": {"type": "string", "maxLength": BODY_BYTES_MAX},
        "path": at_most(EXECUTION_PATH_CHARS_MAX),
        "method": {"enum": EXECUTION_METHODS},
        "headers": {"type": "object", "additionalProperties": text()},
        "async": {"type": "boolean"},
        "scheduledAt": {"type": ["string", "null"], "format": "date-time"},
    });
    let header = whole(&[(text(), &["name", "value"])]);
    let headers = json!({"type": "array", "items": header});
    let statuses = ["scheduled", "waiting", "processing", "completed", "failed"];
    let shown = whole(&[
        (id(), &["$id", "functionId", "resourceId", "deploymentId"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (texts(), &["$permissions"]),
        (json!({"const": "functions"}), &["resourceType"]),
        (json!({"enum": ["http", "schedule", "event"]}), &["trigger"]),
        (json!({"enum": statuses}), &["status"]),
        (json!({"enum": EXECUTION_METHODS}), &["requestMethod"]),
        (text(), &["requestPath", "responseBody", "logs", "errors"]),
        (headers, &["requestHeaders", "responseHeaders"]),
        (integer(), &["responseStatusCode"]),
        (json!({"type": "number"}), &["duration"]),
        (
            json!({"type": ["string", "null"], "format": "date-time"}),
            &["scheduledAt"],
        ),
    ]);
    vec![
        ("NewExecution", object(&[], new)),
        ("Execution", shown),
        ("Executions", listed("executions", reference("Execution"))),
    ]
}

/// What a host has for functions.
fn of_host() -> Vec<Named> {
    let specification = whole(&[
        (integer(), &["memory"]),
        (json!({"type": "number"}), &["cpus"]),
        (flag(), &["enabled"]),
        (text(), &["slug"]),
    ]);
    vec![
        ("Runtimes", listed("runtimes", json!({"type": "object"}))),
        ("Specifications", listed("specifications", specification)),
    ]
}
