//! What the OpenAPI document says of routes, against what they do: who may call them, and which
//! members of bodies they read.

use std::collections::{BTreeMap, BTreeSet};

use engine::Family;
use model::Scope;
use serde_json::{Map, Value, json};
use server::http::head::route::{Action, Route, routes};
use server::http::routes::openapi::{Audience, document};
use server::http::wire;

use super::fixture::{Connection, KEY, PROJECT, TestServer};

const SCOPE_MISSING: &str = "401 general_unauthorized_scope";

fn resolved<'d>(document: &'d Value, node: &'d Value) -> &'d Value {
    match node["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).unwrap(),
        None => node,
    }
}

/// The schema of the body that a route takes; null where it takes none.
fn body_of<'d>(document: &'d Value, route: &Route) -> &'d Value {
    let method = route.method.as_str().to_ascii_lowercase();
    let content = &document["paths"][&route.pattern][method]["requestBody"]["content"];
    let media = content.as_object().and_then(|media| media.values().next());
    media.map_or(&Value::Null, |media| resolved(document, &media["schema"]))
}

/// The least that fits a schema.
fn sample(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if let Some(one) = schema["enum"].get(0).or(schema["anyOf"].get(0)) {
        return match schema["enum"] {
            Value::Null => sample(document, one),
            _ => one.clone(),
        };
    }
    match schema["type"].as_str() {
        Some("object") => {
            let needed = schema["required"].as_array().into_iter().flatten();
            let member = |name: &Value| {
                let name = name.as_str().unwrap();
                let value = sample(document, &schema["properties"][name]);
                (name.to_owned(), value)
            };
            Value::Object(needed.map(member).collect::<Map<_, _>>())
        }
        Some("array") if schema["minItems"].is_number() => {
            json!([sample(document, &schema["items"])])
        }
        Some("array") => json!([]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        _ => json!("x"),
    }
}

/// A body that comes as far as to the question of who sends it.
fn sent(document: &Value, route: &Route) -> String {
    let operation = json!({"action": "delete", "databaseId": "d", "tableId": "t", "rowId": "r"});
    let body = match route.action {
        Action::CreateRows if route.family == Family::Documents => {
            json!({"documentId": "x", "data": {"n": 1}})
        }
        Action::CreateRows => json!({"rowId": "x", "data": {"n": 1}}),
        Action::UpsertRow | Action::UpdateRow | Action::UpdateRows => json!({"data": {"n": 1}}),
        Action::StageOperations | Action::BatchWrite => json!({"operations": [operation]}),
        Action::Undo => json!({"after": 1, "user": "x"}),
        Action::UpdateTransaction => json!({"rollback": true}),
        Action::Transact => json!({"ops": [{"op": "delete", "tableId": "t", "rowId": "r"}]}),
        Action::ReadAtTimes => json!({"kind": "get", "tableId": "t", "rowId": "r"}),
        Action::BatchRead => json!({"reads": [{"tableId": "t", "ids": ["r"]}]}),
        _ => match body_of(document, route) {
            Value::Null => return String::new(),
            schema => sample(document, schema),
        },
    };
    body.to_string()
}

/// The path of a route. What a key could delete is not there, so that it stays for the next one:
/// scopes are judged first. Rows are there, because grants of tables decide about guests.
fn path_of(route: &Route, transaction: &str) -> String {
    let is_of_rows = matches!(Audience::of(route.action), Some(Audience::Guests(_)))
        || route.action.writes_rows()
        || route.action == Action::ReadAtTimes;
    let id = |part: &str| match part {
        "{database}" if is_of_rows => "d".to_owned(),
        "{table}" => "t".to_owned(),
        "{row}" => "r".to_owned(),
        "{column}" => "n".to_owned(),
        "{transaction}" => transaction.to_owned(),
        part if part.starts_with('{') => "nowhere".to_owned(),
        part => part.to_owned(),
    };
    let parts: Vec<String> = route.pattern.split('/').map(id).collect();
    parts.join("/")
}

/// Who is let in, as the refusals of one route tell.
fn let_in(
    connection: &mut Connection<'_>,
    route: &Route,
    (path, body): (&str, &str),
) -> (bool, bool, BTreeSet<&'static str>) {
    let mut ask = |headers: &[(&str, &str)]| {
        let method = route.method.as_str();
        connection.ask(headers, method, path, body).unwrap()
    };
    let project = ("x-appwrite-project", PROJECT);
    let is_public = ask(&[]).status.is_success();
    let has_guests = ask(&[project]).refusal() != SCOPE_MISSING;
    let scopes = Scope::ALL.iter().map(|scope| scope.as_str());
    let enough = scopes
        .filter(|scope| ask(&[project, ("x-appwrite-key", scope)]).refusal() != SCOPE_MISSING);
    (is_public, has_guests, enough.collect())
}

#[test]
fn callers_of_every_route_are_those_that_the_document_names() {
    let server = TestServer::start_with_row();
    for scope in Scope::ALL {
        server.create_scoped_key(&scope.as_str().replace('.', "-"), scope.as_str(), &[*scope]);
    }
    let all: BTreeSet<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let of = |scopes: &[Scope]| {
        // Every key may ask whether the server is well.
        let is_of_all = scopes == [Scope::HealthRead];
        let named = scopes.iter().map(|scope| scope.as_str()).collect();
        if is_of_all { all.clone() } else { named }
    };
    let document = document();
    let mut connection = server.connect();
    for route in routes() {
        let Some(audience) = Audience::of(route.action) else {
            continue;
        };
        // It is there for servers whose clock is set by their clients, which this one is not.
        if route.action == Action::ResetTests {
            continue;
        }
        let transaction = server.make("POST", "/v1/tablesdb/transactions", &json!({}));
        let transaction = transaction.json()["$id"].as_str().unwrap().to_owned();
        let path = path_of(&route, &transaction);
        let body = sent(&document, &route);
        let wanted = match audience {
            Audience::Public => (true, true, all.clone()),
            Audience::Project => (false, true, all.clone()),
            Audience::Guests(scopes) => (false, true, of(scopes)),
            Audience::Keys(scopes) => (false, false, of(scopes)),
            // A key with one scope is not enough.
            Audience::KeysWithAll(_) => (false, false, BTreeSet::new()),
        };
        let found = let_in(&mut connection, &route, (&path, &body));
        assert_eq!(found, wanted, "{} {path} {body}", route.method);
        if let Audience::KeysWithAll(scopes) = audience {
            server.create_scoped_key("several", "several", scopes);
            let with_all = server.ask_as(Some("several"), route.method.as_str(), &path, &body);
            server.revoke("several");
            assert_ne!(with_all.refusal(), SCOPE_MISSING, "{} {path}", route.method);
        }
    }
    let row = server.ask_as(Some(KEY), "GET", "/v1/tablesdb/d/tables/t", "");
    assert_eq!(row.status, 200, "the table has outlived all keys");
}

/// Routes by their tags in the document, with the files that read their bodies.
const FILES: [(&[&str], &[&str]); 3] = [
    (
        &["databases"],
        &[include_str!("../../src/http/routes/databases.rs")],
    ),
    (
        &["tables", "columns", "indexes"],
        &[
            include_str!("../../src/http/routes/tables.rs"),
            include_str!("../../src/http/routes/columns.rs"),
            include_str!("../../src/http/routes/relationships.rs"),
            include_str!("../../src/http/routes/indexes.rs"),
        ],
    ),
    (
        &["functions"],
        &[
            include_str!("../../src/http/routes/functions.rs"),
            include_str!("../../src/http/routes/deployments.rs"),
            include_str!("../../src/http/routes/executions.rs"),
            include_str!("../../src/http/input/form.rs"),
        ],
    ),
];
/// Calls that take a member out of a body, as they stand before its name.
const TAKEN_BY: [&str; 13] = [
    ".text(",
    ".required_text(",
    ".flag(",
    ".required_flag(",
    ".integer(",
    ".list(",
    ".texts(",
    ".objects(",
    ".object(",
    ".take(",
    ".required_or_null(",
    "&mut fields,",
    "const FILE: &str =",
];

/// Names of members that code takes out of bodies, in the words of either family.
fn names_in(code: &str) -> BTreeSet<String> {
    let code = code.split("#[cfg(test)]").next().unwrap();
    let words = wire::words(Family::Tables);
    let by_family = [
        ("words.table_id", words.table_id),
        ("words.row_security", words.row_security),
        ("words.columns", words.columns),
        ("words.related_table_id", words.related_table_id),
    ];
    let mut names = BTreeSet::new();
    for call in TAKEN_BY {
        for after in code.split(call).skip(1) {
            let argument = after.trim_start();
            if let Some(literal) = argument.strip_prefix('"') {
                names.insert(literal.split('"').next().unwrap().to_owned());
            }
            let argument = argument.trim_start_matches("context.");
            let found = by_family
                .iter()
                .find(|(word, _)| argument.starts_with(word));
            names.extend(found.map(|(_, name)| (*name).to_owned()));
        }
    }
    names
}

/// Names of the members of a body, and of those inside.
fn members(document: &Value, schema: &Value, into: &mut BTreeSet<String>) {
    let schema = resolved(document, schema);
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        into.insert(name.clone());
        members(document, member, into);
    }
    if !schema["items"].is_null() {
        members(document, &schema["items"], into);
    }
}

#[test]
fn members_of_bodies_are_those_that_the_routes_read() {
    let document = document();
    let mut by_tag: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for route in routes() {
        let method = route.method.as_str().to_ascii_lowercase();
        let tag = &document["paths"][&route.pattern][method]["tags"][0];
        if let (Some(tag), Family::Tables) = (tag.as_str(), route.family) {
            let into = by_tag.entry(tag.to_owned()).or_default();
            members(&document, body_of(&document, &route), into);
        }
    }
    for (tags, files) in FILES {
        let described: BTreeSet<String> =
            tags.iter().flat_map(|tag| by_tag[*tag].clone()).collect();
        let read: BTreeSet<String> = files.iter().flat_map(|code| names_in(code)).collect();
        assert_eq!(described, read, "{tags:?}");
    }
}
