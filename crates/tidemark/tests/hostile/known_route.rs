//! A route of the router with its parameters: its paths, its right and its wrong bodies; and the
//! tests that the table of routes, the router and the document agree.

use std::collections::BTreeMap;

use engine::Family;
use serde_json::Value;
use server::http::head::route::{Action, FunctionAction, Route, routes};
use server::http::routes::openapi::document;

use super::fixture::{DATABASE, open_transaction, spare_key};
use super::routes::{Field, Need, Spec, specs};

/// A route of the router with its parameters.
pub struct KnownRoute {
    pub route: Route,
    pub spec: Option<Spec>,
}

impl KnownRoute {
    /// Whether the server refuses the route altogether.
    pub fn is_refused(&self) -> bool {
        matches!(
            self.route.action,
            Action::NotBuilt | Action::NotSupported(_) | Action::DenyKey
        )
    }

    /// A path of the route in `database`.
    pub fn path(&self, database: &str) -> String {
        let segment = |part: &str| match part.strip_prefix('{') {
            None => part.to_owned(),
            Some(name) => self.id_in(name.trim_end_matches('}'), database).to_owned(),
        };
        let parts: Vec<String> = self.route.pattern.split('/').map(segment).collect();
        parts.join("/")
    }

    /// The path with `id` in the place of the parameter `name`.
    pub fn path_with(&self, name: &str, id: &str) -> String {
        let place = format!("{{{name}}}");
        let mut known = KnownRoute {
            route: self.route.clone(),
            spec: self.spec,
        };
        known.route.pattern = known.route.pattern.replace(&place, id);
        known.path(DATABASE)
    }

    fn id_in<'a>(&self, name: &str, database: &'a str) -> &'a str {
        let own = self.spec.iter().flat_map(|spec| spec.ids);
        if let Some((_, id)) = own.into_iter().find(|(of, _)| *of == name) {
            return id;
        }
        let counts = self.route.pattern.ends_with("crement");
        match name {
            "database" => database,
            "table" => "t",
            "row" => "r1",
            "column" if counts => "n",
            "column" => "spare",
            "index" => "by_n",
            "kind" => "integer",
            "transaction" => open_transaction(),
            "key" => spare_key(),
            "function" => "f",
            "variable" => "v",
            _ => "x",
        }
    }

    /// The parameters of the path.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let parts = self.route.pattern.split('/');
        parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The body's members; none where no body is read.
    pub fn fields(&self) -> &'static [Field] {
        self.spec.and_then(|spec| spec.body).unwrap_or_default()
    }

    /// The body of a right call, with `instead` in the place of one member, and `absent` left out.
    pub fn body(&self, instead: Option<(&str, &str)>, absent: Option<&str>) -> String {
        let value = |field: &Field| match instead {
            Some((name, json)) if name == field.name => json.to_owned(),
            _ => field.right.to_owned(),
        };
        let member = |field: &Field| {
            let json = value(field);
            let is_sent = !json.is_empty() && absent != Some(field.name);
            is_sent.then(|| format!("\"{}\":{json}", self.word(field.name)))
        };
        let members: Vec<String> = self.fields().iter().filter_map(member).collect();
        format!("{{{}}}", members.join(","))
    }

    /// A parameter's name in the words of the route's family.
    pub fn word<'a>(&self, name: &'a str) -> &'a str {
        if self.route.family == Family::Tables {
            return name;
        }
        match name {
            "tableId" => "collectionId",
            "rowId" => "documentId",
            "rows" => "documents",
            "columns" => "attributes",
            "rowSecurity" => "documentSecurity",
            "relatedTableId" => "relatedCollectionId",
            other => other,
        }
    }
}

fn in_newer_words(pattern: &str) -> String {
    if !pattern.starts_with("/v1/databases") {
        return pattern.to_owned();
    }
    let word = |segment| match segment {
        "databases" => "tablesdb",
        "collections" => "tables",
        "attributes" => "columns",
        "documents" => "rows",
        other => other,
    };
    pattern.split('/').map(word).collect::<Vec<_>>().join("/")
}

/// Every route of the router, with its parameters where it has some.
pub fn all() -> Vec<KnownRoute> {
    let with_spec = |route: Route| {
        let pattern = in_newer_words(&route.pattern);
        let spec =
            specs().find(|spec| spec.method == route.method.as_str() && spec.pattern == pattern);
        KnownRoute {
            spec: spec.copied(),
            route,
        }
    };
    let in_table = |route: &Route| !needs_archive(route.action);
    routes()
        .into_iter()
        .filter(in_table)
        .map(with_spec)
        .collect()
}

/// Routes that need a deployment, which only a form with an archive makes, and the one that refuses
/// every execution: what is wrong about them stands in `crates/server/tests/wire/deployments.rs`.
fn needs_archive(action: Action) -> bool {
    use FunctionAction as F;
    matches!(
        action,
        Action::Function(
            F::CreateDeployment
                | F::GetDeployment
                | F::DeleteDeployment
                | F::DownloadDeployment
                | F::DuplicateDeployment
                | F::CancelDeployment
                | F::ActivateDeployment
                | F::Execute
                | F::ListExecutions
                | F::GetExecution
                | F::DeleteExecution
        )
    )
}

/// Names of the members of the body that the OpenAPI document describes, and which must be there.
/// A body may have several forms, of which one has a member that must be there.
fn described(document: &Value, route: &Route) -> BTreeMap<String, bool> {
    let resolve = |node: &Value| match node["$ref"].as_str() {
        Some(path) => document
            .pointer(path.trim_start_matches('#'))
            .unwrap()
            .clone(),
        None => node.clone(),
    };
    let method = route.method.as_str().to_ascii_lowercase();
    let body = &document["paths"][&route.pattern][method]["requestBody"];
    let schema = resolve(&body["content"]["application/json"]["schema"]);
    let forms = match schema["anyOf"].as_array() {
        Some(forms) if schema["properties"].is_null() => forms.iter().map(resolve).collect(),
        _ => vec![schema],
    };
    let has_one = forms.len() == 1;
    let mut members = BTreeMap::new();
    for form in &forms {
        for name in form["properties"].as_object().into_iter().flatten() {
            let needed = form["required"].as_array().into_iter().flatten();
            let is_needed = has_one && needed.into_iter().any(|one| one == name.0);
            members.insert(name.0.clone(), is_needed);
        }
    }
    members
}

#[test]
fn the_table_and_the_document_know_the_same_members() {
    let document = document();
    let mut differences = Vec::new();
    for one in all() {
        // A read at given times has members by its kind, which stand in the tests of its language.
        if one.spec.is_none() || one.route.action == Action::ReadAtTimes {
            continue;
        }
        let fields = one.fields().iter();
        let fields = fields.map(|field| (one.word(field.name).to_owned(), field.need != Need::No));
        let listed: BTreeMap<String, bool> = fields.collect();
        let route = &one.route;
        let described = described(&document, route);
        if described != listed {
            let (method, pattern) = (&route.method, &route.pattern);
            differences.push(format!("{method} {pattern}: {described:?}, not {listed:?}"));
        }
    }
    assert_eq!(differences.join("\n"), "");
}

/// It is there for servers whose clock is set by their clients, which this one is not.
const FOR_TESTS: Action = Action::ResetTests;

#[test]
fn the_table_and_the_router_know_the_same_routes() {
    let known = all();
    for one in &known {
        let (route, is_refused) = (&one.route, one.is_refused());
        let is_elsewhere = route.action == FOR_TESTS;
        assert!(
            one.spec.is_some() || is_refused || is_elsewhere,
            "{} {} is answered, but its parameters stand in no row of the table",
            route.method,
            route.pattern
        );
    }
    for spec in specs() {
        let is_routed = known.iter().any(|one| {
            one.route.method.as_str() == spec.method && one.route.pattern == spec.pattern
        });
        assert!(
            is_routed,
            "the router has no {} {}",
            spec.method, spec.pattern
        );
    }
}
