//! Functions and what belongs to them as answers show them. Official clients demand every field of
//! the protocol; what this server has none of is empty.

use engine::{Deployment, FunctionShown, SPECIFICATIONS, Specification, Variable};
use functions::InstalledRuntime;
use model::{FunctionOptions, Timestamp};

use super::object::Object;
use super::{SortedObject, WrittenJson, json, list, written};

/// The version of the contract with handlers (wire protocol, handler contract).
const CONTRACT: &str = "v5";
/// Texts of the protocol that say nothing here: deployments that come from a repository.
pub const NO_REPOSITORY: [&str; 4] = [
    "installationId",
    "providerRepositoryId",
    "providerBranch",
    "providerRootDirectory",
];
/// Bytes of a part of an archive, as official clients send it (wire protocol, deployments).
const PART_BYTES: u64 = 5 << 20;
/// Texts of the protocol that say nothing here: where a deployment from a repository came from.
pub const NO_PROVIDER: [&str; 13] = [
    "providerRepositoryName",
    "providerRepositoryOwner",
    "providerRepositoryUrl",
    "providerBranch",
    "providerCommitHash",
    "providerCommitAuthorUrl",
    "providerCommitAuthor",
    "providerCommitMessage",
    "providerCommitUrl",
    "providerBranchUrl",
    "screenshotLight",
    "screenshotDark",
    "providerRootDirectory",
];

/// One function.
pub fn function(shown: &FunctionShown) -> Vec<u8> {
    let mut out = Vec::with_capacity(1_024);
    write_function(shown, &mut out);
    out
}

/// A page of functions.
pub fn functions(total: u64, functions: &[FunctionShown]) -> Vec<u8> {
    list("functions", total, functions, write_function)
}

fn write_function(shown: &FunctionShown, out: &mut Vec<u8>) {
    let (function, definition) = (&shown.function, &shown.function.definition);
    let mut object = Object::open(out);
    object.plain("$id", function.id.as_str());
    object.instant("$createdAt", function.created);
    object.instant("$updatedAt", function.updated);
    object.array("execute", &definition.execute, |role, out| {
        json(out, role.as_str());
    });
    object.text("name", &definition.name);
    object.text("description", "");
    object.flag("enabled", definition.enabled);
    object.flag("live", true);
    object.flag("logging", definition.logging);
    object.text("runtime", &definition.runtime);
    object.number(
        "deploymentRetention",
        i64::from(definition.deployment_retention_days),
    );
    let active = function.active.as_ref();
    named(
        &mut object,
        ["deploymentId", "deploymentCreatedAt"],
        active.map(|active| (active.id.as_str(), active.created)),
    );
    let latest = shown.latest.as_ref();
    named(
        &mut object,
        ["latestDeploymentId", "latestDeploymentCreatedAt"],
        latest.map(|latest| (latest.id.as_str(), latest.created)),
    );
    let status = latest.map_or("", |latest| latest.status.as_str());
    object.text("latestDeploymentStatus", status);
    object.array("scopes", &definition.scopes, |scope, out| {
        json(out, scope.as_str());
    });
    object.array("vars", &shown.variables, |variable, out| {
        write_variable(function.id.as_str(), variable, out);
    });
    object.array("events", &definition.events, |event, out| json(out, event));
    object.text("schedule", &definition.schedule);
    object.number("timeout", i64::from(definition.timeout_s));
    object.text("entrypoint", &definition.entrypoint);
    object.text("commands", &definition.commands);
    object.text("version", CONTRACT);
    for none in NO_REPOSITORY {
        object.text(none, "");
    }
    object.flag("providerSilentMode", false);
    object.raw("providerBranches", b"[]");
    object.raw("providerPaths", b"[]");
    object.text("buildSpecification", &definition.build_specification);
    object.text("runtimeSpecification", &definition.runtime_specification);
    object.flag("emailEnabled", false);
    object.close();
}

/// A deployment's id and when it was created; texts without a letter where there is none.
fn named(object: &mut Object<'_>, [id, created]: [&str; 2], known: Option<(&str, Timestamp)>) {
    if let Some((known, at)) = known {
        object.plain(id, known);
        object.instant(created, at);
    } else {
        object.text(id, "");
        object.text(created, "");
    }
}

/// One deployment of a function, which is there, with what its build said.
pub fn deployment(function: &str, deployment: &Deployment, log: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(1_024 + log.len());
    write_deployment(function, (deployment, log), &mut out);
    out
}

/// A page of deployments of a function, without what their builds said.
pub fn deployments(function: &str, total: u64, deployments: &[Deployment]) -> Vec<u8> {
    list("deployments", total, deployments, |deployment, out| {
        write_deployment(function, (deployment, ""), out);
    })
}

fn write_deployment(function: &str, (deployment, log): (&Deployment, &str), out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    let (source, output) = (deployment.source_bytes, deployment.output_bytes);
    object.plain("$id", deployment.id.as_str());
    object.instant("$createdAt", deployment.created);
    object.instant("$updatedAt", deployment.updated);
    object.text("type", "manual");
    object.plain("resourceId", function);
    object.text("resourceType", "functions");
    object.text("entrypoint", &deployment.entrypoint);
    object.text("commands", &deployment.commands);
    object.number("sourceSize", source.cast_signed());
    object.number("buildSize", output.cast_signed());
    object.number("totalSize", (source + output).cast_signed());
    object.text("buildId", "");
    object.flag("activate", deployment.activate);
    object.text("status", deployment.status.as_str());
    object.text("buildLogs", log);
    object.number("buildDuration", (deployment.build_ms / 1_000).cast_signed());
    let parts = source.div_ceil(PART_BYTES);
    let sent = if deployment.is_whole() {
        parts
    } else {
        deployment.received_bytes / PART_BYTES
    };
    object.number("chunksTotal", parts.cast_signed());
    object.number("chunksUploaded", sent.cast_signed());
    for none in NO_PROVIDER {
        object.text(none, "");
    }
    object.close();
}

/// One variable of a function, which is there.
pub fn variable(function: &str, variable: &Variable) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_variable(function, variable, &mut out);
    out
}

/// A page of variables of a function.
pub fn variables(function: &str, total: u64, variables: &[Variable]) -> Vec<u8> {
    list("variables", total, variables, |variable, out| {
        write_variable(function, variable, out);
    })
}

fn write_variable(function: &str, variable: &Variable, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.plain("$id", variable.id.as_str());
    object.instant("$createdAt", variable.created);
    object.instant("$updatedAt", variable.updated);
    object.text("key", &variable.key);
    object.text("description", "");
    object.text("value", &variable.value);
    object.flag("secret", variable.secret);
    object.text("resourceType", "functions");
    object.plain("resourceId", function);
    object.close();
}

/// The runtimes of this host.
pub fn runtimes(found: &[InstalledRuntime]) -> Vec<u8> {
    let mut ids: Vec<(&str, &InstalledRuntime)> = found
        .iter()
        .flat_map(|runtime| runtime.ids.iter().map(move |id| (id.as_str(), runtime)))
        .collect();
    // One that was named first stands in for the others.
    ids.sort_by_key(|(id, _)| *id);
    ids.dedup_by_key(|(id, _)| *id);
    list("runtimes", ids.len() as u64, &ids, |(id, runtime), out| {
        let (key, version) = id.rsplit_once('-').unwrap_or((id, ""));
        let name = match key {
            "node" => "Node.js",
            "python" => "Python",
            other => other,
        };
        let mut object = Object::open(out);
        object.plain("$id", id);
        object.plain("key", key);
        object.text("name", name);
        object.text("version", version);
        object.text("base", &format!("{} {}", runtime.name, runtime.version));
        object.text("image", "");
        object.text("logo", "");
        object.raw("supports", b"[]");
        object.close();
    })
}

/// The specifications that a function can name.
pub fn specifications() -> Vec<u8> {
    let total = SPECIFICATIONS.len() as u64;
    list("specifications", total, &SPECIFICATIONS, |slug, out| {
        let read = Specification::parse(slug).expect("each one that is listed can be read");
        let mut object = Object::open(out);
        object.number("memory", i64::from(read.memory_mb));
        object.with("cpus", |out| json(out, &read.cpus));
        object.flag("enabled", true);
        object.plain("slug", slug);
        object.close();
    })
}

/// What the owner of a function decides beyond the protocol.
pub fn function_options(options: &FunctionOptions) -> WrittenJson {
    let shown = SortedObject::from([
        ("concurrency", written(&options.concurrency)),
        ("network", written(options.network.as_str())),
        ("recordsMax", written(&options.records_max)),
        ("recordsDays", written(&options.records_days)),
        ("recordsBytesMax", written(&options.records_bytes_max)),
    ]);
    shown.written()
}

/// What processes of a function wrote outside of any execution.
pub fn function_output(deployment: &str, output: &str) -> WrittenJson {
    let shown = SortedObject::from([
        ("deploymentId", written(deployment)),
        ("output", written(output)),
    ]);
    shown.written()
}
