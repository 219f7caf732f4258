//! What shows the server itself, and the caller's own project with its keys.

use serde_json::json;

use super::{
    Named, flag, id, instant, instant_or_none, integer, list_of, listed, reference, text, texts,
    whole,
};
use crate::http::wire::NO_PROJECT_TEXTS;

pub(super) fn all() -> Vec<Named> {
    let health = whole(&[
        (text(), &["name"]),
        (integer(), &["ping"]),
        (json!({"enum": ["pass", "fail"]}), &["status"]),
    ]);
    let times = whole(&[(integer(), &["remoteTime", "localTime", "diff"])]);
    vec![
        ("Versions", whole(&[(text(), &["server", "tidemark"])])),
        ("Health", health),
        ("HealthStatuses", listed("statuses", reference("Health"))),
        ("HealthVersion", whole(&[(text(), &["version"])])),
        ("HealthTime", times),
        ("Project", project()),
        ("Key", key()),
        ("Keys", listed("keys", reference("Key"))),
    ]
}

fn project() -> serde_json::Value {
    let enabled = whole(&[(text(), &["$id"]), (flag(), &["enabled"])]);
    whole(&[
        (id(), &["$id"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (text(), &["name", "teamId", "region", "pingedAt"]),
        (text(), &NO_PROJECT_TEXTS),
        (json!({"const": "active"}), &["status"]),
        (list_of(enabled), &["services", "protocols"]),
        (
            list_of(json!({})),
            &["authMethods", "devKeys", "labels", "blocks"],
        ),
        (flag(), &["smtpEnabled", "wafEnabled"]),
        (integer(), &["smtpPort", "pingCount"]),
        (json!({"type": "object"}), &["onboarding"]),
    ])
}

fn key() -> serde_json::Value {
    whole(&[
        (id(), &["$id"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (instant_or_none(), &["expire"]),
        (text(), &["name", "secret", "accessedAt"]),
        (texts(), &["scopes"]),
        (list_of(json!({})), &["sdks"]),
    ])
}
