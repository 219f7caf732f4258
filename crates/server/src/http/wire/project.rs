//! A project and its API keys as answers show them. Official clients demand every field of the
//! protocol; what this server has none of is empty, or zero.

use std::sync::Arc;

use model::{ApiKey, Project};

use super::object::Object;
use super::{json, list};

/// What of the protocol's services this server answers.
const SERVICES: [&str; 5] = ["databases", "tablesdb", "functions", "health", "project"];
/// Texts of the protocol that say nothing here, in its order.
pub const NO_PROJECT_TEXTS: [&str; 9] = [
    "smtpSenderName",
    "smtpSenderEmail",
    "smtpReplyToName",
    "smtpReplyToEmail",
    "smtpHost",
    "smtpUsername",
    "smtpPassword",
    "smtpSecure",
    "consoleAccessedAt",
];

/// One project.
pub fn project(project: &Project) -> Vec<u8> {
    let mut out = Vec::with_capacity(1_024);
    let mut object = Object::open(&mut out);
    object.plain("$id", project.id.as_str());
    object.instant("$createdAt", project.created);
    object.instant("$updatedAt", project.created);
    object.text("name", &project.name);
    object.text("teamId", "");
    object.text("region", "");
    object.text("status", "active");
    object.array("services", SERVICES, write_enabled);
    object.array("protocols", ["rest"], write_enabled);
    for none in ["authMethods", "devKeys", "labels", "blocks"] {
        object.raw(none, b"[]");
    }
    object.flag("smtpEnabled", false);
    object.number("smtpPort", 0);
    for none in NO_PROJECT_TEXTS {
        object.text(none, "");
    }
    // Pings are not counted.
    object.number("pingCount", 0);
    object.text("pingedAt", "");
    object.raw("onboarding", b"{}");
    object.flag("wafEnabled", false);
    object.close();
    out
}

fn write_enabled(id: &str, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.plain("$id", id);
    object.flag("enabled", true);
    object.close();
}

/// One key, without its secret: that is not stored.
pub fn key(key: &ApiKey) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_key(key, &mut out);
    out
}

/// A page of keys.
pub fn keys(total: u64, keys: &[Arc<ApiKey>]) -> Vec<u8> {
    list("keys", total, keys, |key, out| write_key(key, out))
}

fn write_key(key: &ApiKey, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.plain("$id", key.id.as_str());
    object.instant("$createdAt", key.created);
    // A key does not change.
    object.instant("$updatedAt", key.created);
    object.text("name", &key.name);
    match key.expires {
        Some(at) => object.instant("expire", at),
        None => object.text("expire", ""),
    }
    object.array("scopes", key.scopes.iter(), |scope, out| {
        json(out, scope.as_str());
    });
    object.text("secret", "");
    // When and by what a key is used is not recorded.
    object.text("accessedAt", "");
    object.raw("sdks", b"[]");
    object.close();
}
