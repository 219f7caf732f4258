//! The description of this server's routes as an OpenAPI 3.1 document, made from the table of
//! routes: a route that is added does not compile before it says what it is.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use bytes::Bytes;
use engine::Family;
use hyper::Method;
use serde_json::{Map, Value, json};

use crate::http::head::route::{Action, Route, routes};
use crate::http::reply::Reply;
use crate::http::wire::error::Kind;

mod access;
mod operation;
mod schema;

pub use access::Audience;
pub use operation::{AnswerBody, Answers, RouteDescription};

/// The document as it is sent. The same for as long as the binary is.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document().to_string()));

/// `GET /v1/tidemark/openapi.json`
pub fn document_reply() -> Reply {
    Reply::shared(DOCUMENT.clone())
}

/// The whole document.
pub fn document() -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut names = HashSet::new();
    for route in routes() {
        let Some(operation) = RouteDescription::of(route.action) else {
            continue;
        };
        let method = route.method.as_str().to_ascii_lowercase();
        let of_family = if route.family == Family::Documents {
            "Older"
        } else {
            ""
        };
        let mut name = operation.name.to_owned() + of_family;
        // An action may have several paths.
        for nth in 2.. {
            if names.insert(name.clone()) {
                break;
            }
            name = format!("{}{nth}{of_family}", operation.name);
        }
        let path = paths.entry(route.pattern.clone()).or_default();
        path.insert(method, described(&route, &operation, &name));
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Tidemark",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Rows on two time axes",
            "description": "Every route that is answered: those of the Appwrite protocol in both \
                            route families, and Tidemark's own.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "securitySchemes": access::schemes(),
            "parameters": schema::parameters(),
            "headers": schema::headers(),
            "schemas": schemas(),
            "responses": refusals(),
        },
    })
}

fn described(route: &Route, operation: &RouteDescription, name: &str) -> Value {
    let words = crate::http::wire::words(route.family);
    let is_older = route.family == Family::Documents;
    let mut described = json!({
        "operationId": name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": parameters(route, operation),
        "responses": responses(route, operation),
    });
    if is_older {
        described["description"] = json!("In the words of the older route family.");
    }
    if let Some(audience) = Audience::of(route.action) {
        described["security"] = audience.security();
    }
    if let Some(body) = operation.body {
        let schema = schema::reference(&schema::name(body, words));
        let media = if operation.is_form {
            "multipart/form-data"
        } else {
            "application/json"
        };
        described["requestBody"] = json!({
            "required": operation.needs_body,
            "content": {(media): {"schema": schema}},
        });
    }
    if matches!(route.action, Action::BatchRead | Action::BatchWrite) {
        let lines = "Lines of JSON, `application/x-ndjson`, are answered by lines.";
        described["description"] = json!(lines);
    }
    described
}

fn parameters(route: &Route, operation: &RouteDescription) -> Value {
    let in_path = route.pattern.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(schema::path_parameter(name))
    });
    let by_name = operation.parameters.iter().copied();
    let mut named: Vec<&str> = by_name.collect();
    if route.action.waits_for_mark() {
        named.push("minMark");
    }
    if route.action.writes_rows() {
        named.push("idempotencyKey");
    }
    if route.action.keeps_meta() {
        named.push("meta");
    }
    let named = named.into_iter().map(|name| {
        let reference = format!("#/components/parameters/{name}");
        json!({ "$ref": reference })
    });
    in_path.chain(named).collect()
}

fn responses(route: &Route, operation: &RouteDescription) -> Value {
    let words = crate::http::wire::words(route.family);
    let mut responses = Map::new();
    for (status, body) in operation.answers {
        let mut answer = json!({ "description": described_status(*status) });
        match body {
            AnswerBody::Empty => {}
            AnswerBody::Json(body) => {
                let schema = schema::reference(&schema::name(body, words));
                answer["content"] = json!({"application/json": {"schema": schema}});
            }
            AnswerBody::Raw(media) => answer["content"] = json!({(*media): {}}),
        }
        let headers = operation.headers.iter().map(|name| {
            let reference = format!("#/components/headers/{name}");
            ((*name).to_owned(), json!({ "$ref": reference }))
        });
        let headers: Map<_, _> = headers.collect();
        if !headers.is_empty() {
            answer["headers"] = Value::Object(headers);
        }
        responses.insert(status.to_string(), answer);
    }
    if route.method == Method::GET && route.action.is_about_stored_things() {
        responses.insert(
            "304".to_owned(),
            json!({"description": described_status(304)}),
        );
    }
    for status in operation.refusals(route) {
        let reference = format!("#/components/responses/Refused{status}");
        responses.insert(status.to_string(), json!({ "$ref": reference }));
    }
    Value::Object(responses)
}

fn described_status(status: u16) -> &'static str {
    match status {
        201 => "Made.",
        202 => "Made; the rest is done in the background.",
        204 => "Done; there is nothing to show.",
        304 => "The client holds the answer already.",
        _ => "Done.",
    }
}

/// One for each status of a refusal, with every type that can come with it.
fn refusals() -> Value {
    let mut types: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for kind in Kind::ALL {
        let of_status = types.entry(kind.status().as_u16()).or_default();
        for family in [Family::Tables, Family::Documents] {
            let name = kind.name(family);
            if !of_status.contains(&name) {
                of_status.push(name);
            }
        }
    }
    let refusal = |(status, types): (u16, Vec<&str>)| {
        let schema = json!({
            "type": "object",
            "required": ["message", "code", "type", "version"],
            "properties": {
                "message": {"type": "string", "description": "For people; it may change."},
                "code": {"const": status},
                "type": {"enum": types},
                "version": {"type": "string"},
            },
        });
        let refused = json!({
            "description": "Refused; `type` says why.",
            "content": {"application/json": {"schema": schema}},
        });
        (format!("Refused{status}"), refused)
    };
    Value::Object(types.into_iter().map(refusal).collect())
}

fn schemas() -> Value {
    let mut schemas = Map::new();
    for family in [Family::Tables, Family::Documents] {
        let words = crate::http::wire::words(family);
        schemas.extend(
            schema::of_family(words)
                .into_iter()
                .map(|(name, schema)| (schema::name(name, words), schema)),
        );
    }
    schemas.extend(
        schema::of_own()
            .into_iter()
            .map(|(name, schema)| (name.to_owned(), schema)),
    );
    Value::Object(schemas)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` below `value`.
    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match member.as_str() {
                        Some(reference) if name == "$ref" => found.push(reference),
                        _ => references(member, found),
                    }
                }
            }
            Value::Array(elements) => elements.iter().for_each(|one| references(one, found)),
            _ => {}
        }
    }

    #[test]
    fn schemas_are_all_defined_and_all_used() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        let found: HashSet<&str> = found.into_iter().collect();
        for reference in &found {
            let place = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(place).is_some(), "{reference}");
        }
        for part in ["parameters", "headers", "schemas"] {
            for name in document["components"][part].as_object().unwrap().keys() {
                let reference = format!("#/components/{part}/{name}");
                assert!(found.contains(&*reference), "{reference} is of no use");
            }
        }
    }

    #[test]
    fn every_route_that_is_answered_is_described_and_no_other_path_is() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let mut described = 0;
        for route in routes() {
            let is_refused = matches!(
                route.action,
                Action::NotBuilt | Action::NotSupported(_) | Action::DenyKey
            );
            assert_eq!(Audience::of(route.action).is_none(), is_refused);
            if is_refused {
                continue;
            }
            let method = route.method.as_str().to_ascii_lowercase();
            let path = paths.get(&route.pattern);
            assert!(
                path.is_some_and(|path| path[&method]["summary"].is_string()),
                "{} {} is not described",
                route.method,
                route.pattern
            );
            described += 1;
        }
        let operations = paths.values().map(|path| path.as_object().unwrap().len());
        assert_eq!(operations.sum::<usize>(), described);
    }

    #[test]
    fn no_two_operations_have_one_name() {
        let document = document();
        let mut names = HashSet::new();
        for path in document["paths"].as_object().unwrap().values() {
            for operation in path.as_object().unwrap().values() {
                let name = operation["operationId"].as_str().unwrap().to_owned();
                assert!(names.insert(name.clone()), "{name}");
                assert!(operation["responses"].get("400").is_some(), "{name}");
            }
        }
    }

    #[test]
    fn every_type_of_refusal_stands_under_its_status() {
        let document = document();
        for kind in Kind::ALL {
            let status = kind.status().as_u16();
            let refusal = &document["components"]["responses"][format!("Refused{status}")];
            let types = &refusal["content"]["application/json"]["schema"]["properties"]["type"];
            for family in [Family::Tables, Family::Documents] {
                let name = json!(kind.name(family));
                assert!(types["enum"].as_array().unwrap().contains(&name), "{name}");
            }
        }
    }
}
