//! The page of all routes says what the OpenAPI document and the table of routes say.

use std::collections::BTreeMap;
use std::path::Path;

use engine::Family;
use serde_json::Value;
use server::http::head::route::{Action, routes};
use server::http::routes::openapi::{Operation, document};

const PAGE: &str = "docs/reference/routes.md";
const HEAD: &str = "# Routes

Every route that the server answers. A test renders this page from the server's [OpenAPI document](openapi.md) and its table of
routes, and compares it. What a request sends to every route, and what every answer has: [HTTP](http.md). Any route may refuse with
400, 401, 403, 404, 408, 413, 500 or 503: [Errors](errors.md).
";
/// The tags of the document, each with its heading and what is said below it.
const SECTIONS: [(&str, &str, &str); 3] = [
    (
        "rows",
        "Rows",
        "What they do: [Writing rows](rows.md), [Query methods](queries.md).",
    ),
    (
        "transactions",
        "Transactions",
        "What they do: [Transactions](transactions.md).",
    ),
    (
        "tidemark",
        "Tidemark's own",
        "What they do: [Time](time.md), [Batches](batch.md).",
    ),
];
const SCHEMA: &str = "
## All others

The OpenAPI document does not describe these: official SDKs cover them ([their methods](sdk-coverage.md)). The scopes that they
need: [Scopes](scopes.md).

| route | older route |
|---|---|
";
/// Statuses with which any route may refuse.
const USUAL: [&str; 8] = ["400", "401", "403", "404", "408", "413", "500", "503"];
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

fn page() -> String {
    let document = document();
    let operations = operations(&document);
    let section = |(tag, title, lead): (&str, &str, &str)| {
        let of_tag = operations.iter().filter(|(_, operation)| {
            let is_older = text(&operation["operationId"]).ends_with("Older");
            operation["tags"][0] == tag && !is_older
        });
        let described = of_tag.map(|one| described(&document, &operations, one));
        let described = described.collect::<String>();
        format!("\n## {title}\n\n{lead}\n{described}")
    };
    let sections = SECTIONS.map(section).concat();
    [HEAD, &sections, SCHEMA, &of_schema()].concat()
}

fn described(
    document: &Value,
    all: &[(String, &Value)],
    (route, operation): &(String, &Value),
) -> String {
    let older = format!("{}Older", text(&operation["operationId"]));
    let older = all.iter().find(|(_, other)| other["operationId"] == older);
    let older = older.map(|(older, _)| format!(" Older route: `{older}`."));
    let (summary, older) = (text(&operation["summary"]), older.unwrap_or_default());
    let lines = takes_and_answers(document, operation);
    format!("\n### `{route}`\n\n{summary}{older}\n\n{lines}")
}

/// Each operation with its method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, by_method)| {
        METHODS.into_iter().filter_map(move |method| {
            let route = format!("{} {path}", method.to_ascii_uppercase());
            Some((route, by_method.get(method)?))
        })
    });
    all.collect()
}

/// What an operation takes and answers, as lines of a list.
fn takes_and_answers(document: &Value, operation: &Value) -> String {
    let mut lines = Vec::new();
    for (place, name) in [("query", "Query string"), ("header", "Headers")] {
        let all = operation["parameters"].as_array().unwrap().iter();
        let all = all.map(|one| resolved(document, one));
        let here = all.filter(|one| one["in"] == place);
        let names: Vec<String> = here.map(|one| code(text(&one["name"]))).collect();
        if !names.is_empty() {
            lines.push(format!("{name}: {}", names.join(", ")));
        }
    }
    let body = &operation["requestBody"];
    if !body.is_null() {
        let need = if body["required"] == true {
            "Body"
        } else {
            "Body, may be absent"
        };
        let schema = &body["content"]["application/json"]["schema"];
        let schema = resolved(document, schema);
        let forms = match schema["anyOf"].as_array() {
            Some(forms) => forms.iter().map(|form| resolved(document, form)).collect(),
            None => vec![schema],
        };
        let forms: Vec<String> = forms.into_iter().map(members).collect();
        lines.push(format!("{need}: {}", forms.join("; or ")));
    }
    let answers = operation["responses"].as_object().unwrap();
    let good = answers.iter().filter(|(status, _)| status.as_str() < "400");
    let good = good.map(|(status, answer)| {
        let schema = &answer["content"]["application/json"]["schema"]["$ref"];
        match schema.as_str().and_then(|path| path.rsplit('/').next()) {
            Some(name) => format!("{status} {}", code(name)),
            None => status.clone(),
        }
    });
    lines.push(format!("Answers: {}", good.collect::<Vec<_>>().join(", ")));
    let bad = answers.keys().filter(|status| status.as_str() >= "400");
    let bad: Vec<&str> = bad
        .map(String::as_str)
        .filter(|it| !USUAL.contains(it))
        .collect();
    if !bad.is_empty() {
        lines.push(format!("Also refuses with {}", bad.join(", ")));
    }
    format!("- {}\n", lines.join("\n- "))
}

/// The members of a body, those that must be there first.
fn members(schema: &Value) -> String {
    let required: Vec<&str> = match schema["required"].as_array() {
        Some(names) => names.iter().map(text).collect(),
        None => Vec::new(),
    };
    let all = schema["properties"].as_object().into_iter().flatten();
    let free = all.map(|(name, _)| name.as_str());
    let free: Vec<String> = free.filter(|it| !required.contains(it)).map(code).collect();
    let required: Vec<String> = required.into_iter().map(code).collect();
    match (required.is_empty(), free.is_empty()) {
        (true, true) => "any members".to_owned(),
        (true, false) => free.join(", "),
        (false, true) => format!("{} (required)", required.join(", ")),
        (false, false) => format!("{} (required), {}", required.join(", "), free.join(", ")),
    }
}

/// The routes that are answered and not described, each beside its twin.
fn of_schema() -> String {
    let mut rows: BTreeMap<usize, [String; 2]> = BTreeMap::new();
    let mut last = 0;
    for route in routes() {
        let is_answered = !matches!(
            route.action,
            Action::NotBuilt | Action::NotSupported(_) | Action::DenyKey
        );
        if !is_answered || Operation::of(route.action).is_some() {
            continue;
        }
        let shown = code(&format!("{} {}", route.method, route.pattern));
        if route.family == Family::Documents {
            rows.get_mut(&last).unwrap()[1] = shown;
        } else {
            last = route.position;
            rows.insert(last, [shown, String::new()]);
        }
    }
    let lines = rows.into_values();
    let lines: Vec<String> = lines
        .map(|[route, older]| format!("| {route} | {older} |\n"))
        .collect();
    lines.concat()
}

fn resolved<'a>(document: &'a Value, node: &'a Value) -> &'a Value {
    match node["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).unwrap(),
        None => node,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

#[test]
fn routes_page_is_rendered_from_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PAGE);
    let page = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let advice = format!("run this test with UPDATE_GOLDEN=1 to write {PAGE}");
    assert!(kept == page, "{advice}");
}
