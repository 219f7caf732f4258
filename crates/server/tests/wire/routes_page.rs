//! The page of all routes says what the OpenAPI document and the table of routes say.

use std::path::Path;

use serde_json::Value;
use server::http::head::route::{Action, routes};
use server::http::routes::openapi::{RouteDescription, document};

const PAGE: &str = "docs/reference/routes.md";
const HEAD: &str = "# Routes

Every route that the server answers. A test renders this page from the server's [OpenAPI document](openapi.md), and compares it. What a
request sends to every route, and what every answer has: [HTTP](http.md). Any route may refuse with 400, 401, 403, 404, 408, 413, 429, 500
or 503, a route with a body with 415, and a route that writes with 507: [Errors](errors.md). What a scope allows: [Scopes](scopes.md).
The methods of official SDKs: [SDK coverage](sdk-coverage.md).
";
/// The tags of the document, each with its heading and what is said below it.
const SECTIONS: [(&str, &str, &str); 10] = [
    (
        "databases",
        "Databases",
        "What they hold: [Schema changes](schema.md).",
    ),
    (
        "tables",
        "Tables",
        "How they change: [Schema changes](schema.md).",
    ),
    (
        "columns",
        "Columns",
        "What they hold: [Column types](column-types.md).",
    ),
    (
        "indexes",
        "Indexes",
        "What they are for: [Column types](column-types.md).",
    ),
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
    (
        "functions",
        "Functions",
        "What they do: [Functions](functions.md).",
    ),
    (
        "project",
        "Project and keys",
        "Keys are made on the command line: [Command line](cli.md).",
    ),
    (
        "server",
        "The server",
        "What they are for: [Metrics](metrics.md), [Command line](cli.md).",
    ),
];
const REFUSED: &str = "
## Refused

These refuse every request, and the document does not describe them.

";
/// Statuses with which any route may refuse, or any that takes a body or writes.
const USUAL: [&str; 11] = [
    "400", "401", "403", "404", "408", "413", "415", "429", "500", "503", "507",
];
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
    [HEAD, &sections, REFUSED, &refused()].concat()
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
    let mut lines = vec![callers(operation)];
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
        let (media, content) = only(&body["content"]);
        let need = match media {
            "application/json" => need.to_owned(),
            form => format!("{need}, as {}", code(form)),
        };
        let schema = resolved(document, &content["schema"]);
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
        if answer["content"].is_null() {
            return status.clone();
        }
        let (media, content) = only(&answer["content"]);
        let schema = content["schema"]["$ref"].as_str();
        let name = schema.and_then(|path| path.rsplit('/').next());
        format!("{status} {}", code(name.unwrap_or(media)))
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

/// Who may call it.
fn callers(operation: &Value) -> String {
    let ways = operation["security"].as_array().unwrap();
    let all_of = |scopes: &Value| {
        let scopes = scopes.as_array()?.iter();
        let scopes: Vec<String> = scopes.map(|scope| code(text(scope))).collect();
        (!scopes.is_empty()).then(|| scopes.join(" and "))
    };
    let scopes = ways.iter().filter_map(|way| all_of(&way["key"]));
    let scopes = scopes.collect::<Vec<String>>().join(" or ");
    let has_guests = ways.iter().any(|way| way["key"].is_null());
    let callers = match (ways.is_empty(), has_guests, scopes.is_empty()) {
        (true, ..) => "all".to_owned(),
        (_, true, true) => "all who name a project".to_owned(),
        (_, true, false) => format!("guests by permissions, keys with {scopes}"),
        (_, false, _) => format!("keys with {scopes}"),
    };
    format!("Callers: {callers}")
}

/// The one member of an object.
fn only(object: &Value) -> (&str, &Value) {
    let mut members = object.as_object().unwrap().iter();
    let (name, member) = members.next().unwrap();
    assert!(members.next().is_none(), "{name} is not alone");
    (name, member)
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

/// The routes that a client may call for a reason, and that refuse every request.
fn refused() -> String {
    let all = routes().into_iter();
    let all = all.filter(|route| {
        let is_of_no_part = matches!(route.action, Action::NotBuilt | Action::NotSupported(_));
        !is_of_no_part && RouteDescription::of(route.action).is_none()
    });
    let lines = all.map(|route| {
        let route = format!("{} {}", route.method, route.pattern);
        format!("- {}\n", code(&route))
    });
    lines.collect()
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
