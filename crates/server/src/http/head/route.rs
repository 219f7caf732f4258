//! The route table: every route of the protocol, whether this server answers it or not.

use std::borrow::Cow;

use engine::Family;
use hyper::Method;
use matchit::Router;
use percent_encoding::percent_decode_str;

use crate::http::wire::error::{ApiError, Kind};

/// What a health route is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant is named like the end of its path"
)]
pub enum HealthPart {
    All,
    Version,
    Database,
    Cache,
    Pubsub,
    Storage,
    Time,
}

/// What a route of API keys does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant is named like the function that answers it"
)]
pub enum KeyAction {
    List,
    Get,
    Revoke,
}

/// What a route of functions does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant is named like the function that answers it"
)]
pub enum FunctionAction {
    List,
    Create,
    Get,
    Update,
    Delete,
    ListRuntimes,
    ListSpecifications,
    ListVariables,
    CreateVariable,
    GetVariable,
    UpdateVariable,
    DeleteVariable,
    Options,
    SetOptions,
    ListDeployments,
    CreateDeployment,
    GetDeployment,
    DeleteDeployment,
    DownloadDeployment,
    DuplicateDeployment,
    CancelDeployment,
    ActivateDeployment,
    Execute,
    ListExecutions,
    GetExecution,
    DeleteExecution,
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant is named like the function that answers it"
)]
pub enum Action {
    Ping,
    Versions,
    Health(HealthPart),
    ListDatabases,
    CreateDatabase,
    GetDatabase,
    UpdateDatabase,
    DeleteDatabase,
    ListTables,
    CreateTable,
    GetTable,
    UpdateTable,
    DeleteTable,
    ListColumns,
    /// Adds a column of this kind.
    CreateColumn(&'static str),
    GetColumn,
    /// Changes a column of this kind.
    UpdateColumn(&'static str),
    DeleteColumn,
    CreateRelationship,
    UpdateRelationship,
    ListIndexes,
    CreateIndex,
    GetIndex,
    DeleteIndex,
    ListRows,
    QueryRows,
    CreateRows,
    GetRow,
    UpsertRow,
    UpdateRow,
    DeleteRow,
    UpsertRows,
    UpdateRows,
    DeleteRows,
    IncrementColumn,
    DecrementColumn,
    TidemarkStatus,
    Describe,
    Transact,
    Undo,
    ReadAtTimes,
    Heartbeat,
    ListConstraints,
    Constrain,
    AddConstraints,
    RemoveConstraints,
    TableOptions,
    SetTableOptions,
    Explain,
    ResetTests,
    ListTransactions,
    CreateTransaction,
    GetTransaction,
    UpdateTransaction,
    DeleteTransaction,
    StageOperations,
    BatchRead,
    BatchWrite,
    /// On functions.
    Function(FunctionAction),
    GetProject,
    /// On API keys.
    Keys(KeyAction),
    /// Keys are made and changed on the command line.
    DenyKey,
    /// Known to the protocol, not answered by this server.
    NotBuilt,
    /// Of a part of the protocol that this server does not have; how a sentence about it begins.
    NotSupported(&'static str),
    Welcome,
}

impl Action {
    /// Whether its answer shows what is stored, and so is the same until that changes. Of the
    /// others, some say how long they took.
    pub fn is_about_stored_things(self) -> bool {
        !matches!(
            self,
            Action::Ping
                | Action::Versions
                | Action::Health(_)
                | Action::TidemarkStatus
                | Action::Welcome
        )
    }
}

impl Action {
    /// Whether a mark that the request names is waited for.
    pub fn waits_for_mark(self) -> bool {
        self.is_about_stored_things() || self == Action::TidemarkStatus
    }

    /// Whether its commits keep what their author says.
    pub fn keeps_meta(self) -> bool {
        self.writes_rows()
            || matches!(
                self,
                Action::CreateDatabase
                    | Action::UpdateDatabase
                    | Action::DeleteDatabase
                    | Action::CreateTable
                    | Action::UpdateTable
                    | Action::DeleteTable
                    | Action::CreateColumn(_)
                    | Action::UpdateColumn(_)
                    | Action::DeleteColumn
                    | Action::CreateRelationship
                    | Action::UpdateRelationship
                    | Action::CreateIndex
                    | Action::DeleteIndex
                    | Action::Constrain
                    | Action::AddConstraints
                    | Action::RemoveConstraints
                    | Action::SetTableOptions
            )
    }

    /// Whether it writes rows: it is done once under the key of a request.
    pub fn writes_rows(self) -> bool {
        matches!(
            self,
            Action::CreateRows
                | Action::UpsertRow
                | Action::UpdateRow
                | Action::DeleteRow
                | Action::UpsertRows
                | Action::UpdateRows
                | Action::DeleteRows
                | Action::IncrementColumn
                | Action::DecrementColumn
                | Action::UpdateTransaction
                | Action::StageOperations
                | Action::Transact
                | Action::Undo
                | Action::BatchWrite
        )
    }
}

/// A route: a method and a pattern of paths.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method; HEAD goes where GET goes.
    pub method: Method,
    /// The path, with `{…}` where an id stands.
    pub pattern: String,
    /// Decides the words of parameters and answers.
    pub family: Family,
    /// What it does.
    pub action: Action,
    /// Its place among [`routes`].
    pub position: usize,
}

impl Route {
    /// Whether its answer is all it does: where it cannot be given, nothing has happened.
    pub fn only_reads(&self) -> bool {
        let reads = [Action::QueryRows, Action::BatchRead, Action::ReadAtTimes];
        self.method == Method::GET || reads.contains(&self.action)
    }
}

const NOT_GET: &[Method] = &[Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
const GET: &[Method] = &[Method::GET];
const POST: &[Method] = &[Method::POST];
const PUT: &[Method] = &[Method::PUT];
const PATCH: &[Method] = &[Method::PATCH];
const DELETE: &[Method] = &[Method::DELETE];

/// The methods that routes can have.
const METHODS: [Method; 5] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

use FunctionAction as F;

/// Every route but those of the older family, which [`routes`] derives.
#[rustfmt::skip]
const ROUTES: &[(&[Method], &str, Action)] = &[
    (GET, "/", Action::Welcome),
    (GET, "/v1", Action::Welcome),
    (GET, "/v1/", Action::Welcome),
    (GET, "/versions", Action::Versions),
    (GET, "/v1/ping", Action::Ping),
    (GET, "/v1/health", Action::Health(HealthPart::All)),
    (GET, "/v1/health/version", Action::Health(HealthPart::Version)),
    (GET, "/v1/health/db", Action::Health(HealthPart::Database)),
    (GET, "/v1/health/cache", Action::Health(HealthPart::Cache)),
    (GET, "/v1/health/pubsub", Action::Health(HealthPart::Pubsub)),
    (GET, "/v1/health/storage", Action::Health(HealthPart::Storage)),
    (GET, "/v1/health/storage/local", Action::Health(HealthPart::Storage)),
    (GET, "/v1/health/time", Action::Health(HealthPart::Time)),
    (GET, "/v1/health/{*part}", Action::NotBuilt),

    (GET, "/v1/tablesdb", Action::ListDatabases),
    (POST, "/v1/tablesdb", Action::CreateDatabase),
    (GET, "/v1/tablesdb/{database}", Action::GetDatabase),
    (PUT, "/v1/tablesdb/{database}", Action::UpdateDatabase),
    (DELETE, "/v1/tablesdb/{database}", Action::DeleteDatabase),

    (GET, "/v1/tablesdb/{database}/tables", Action::ListTables),
    (POST, "/v1/tablesdb/{database}/tables", Action::CreateTable),
    (GET, "/v1/tablesdb/{database}/tables/{table}", Action::GetTable),
    (PUT, "/v1/tablesdb/{database}/tables/{table}", Action::UpdateTable),
    (DELETE, "/v1/tablesdb/{database}/tables/{table}", Action::DeleteTable),

    (GET, "/v1/tablesdb/{database}/tables/{table}/columns", Action::ListColumns),
    (GET, "/v1/tablesdb/{database}/tables/{table}/columns/{column}", Action::GetColumn),
    (POST, "/v1/tablesdb/{database}/tables/{table}/columns/relationship",
        Action::CreateRelationship),
    (POST, "/v1/tablesdb/{database}/tables/{table}/columns/point", Action::NotBuilt),
    (POST, "/v1/tablesdb/{database}/tables/{table}/columns/line", Action::NotBuilt),
    (POST, "/v1/tablesdb/{database}/tables/{table}/columns/polygon", Action::NotBuilt),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/columns/relationship/{column}",
        Action::UpdateRelationship),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/columns/{column}/relationship",
        Action::UpdateRelationship),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/columns/point/{column}", Action::NotBuilt),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/columns/line/{column}", Action::NotBuilt),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/columns/polygon/{column}", Action::NotBuilt),
    (DELETE, "/v1/tablesdb/{database}/tables/{table}/columns/{column}", Action::DeleteColumn),
    (GET, "/v1/tablesdb/{database}/tables/{table}/indexes", Action::ListIndexes),
    (POST, "/v1/tablesdb/{database}/tables/{table}/indexes", Action::CreateIndex),
    (GET, "/v1/tablesdb/{database}/tables/{table}/indexes/{index}", Action::GetIndex),
    (DELETE, "/v1/tablesdb/{database}/tables/{table}/indexes/{index}", Action::DeleteIndex),

    (GET, "/v1/tablesdb/{database}/tables/{table}/rows", Action::ListRows),
    (POST, "/v1/tablesdb/{database}/tables/{table}/rows/query", Action::QueryRows),
    (POST, "/v1/tablesdb/{database}/tables/{table}/rows", Action::CreateRows),
    (PUT, "/v1/tablesdb/{database}/tables/{table}/rows", Action::UpsertRows),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/rows", Action::UpdateRows),
    (DELETE, "/v1/tablesdb/{database}/tables/{table}/rows", Action::DeleteRows),
    (GET, "/v1/tablesdb/{database}/tables/{table}/rows/{row}", Action::GetRow),
    (PUT, "/v1/tablesdb/{database}/tables/{table}/rows/{row}", Action::UpsertRow),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/rows/{row}", Action::UpdateRow),
    (DELETE, "/v1/tablesdb/{database}/tables/{table}/rows/{row}", Action::DeleteRow),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/rows/{row}/{column}/increment",
        Action::IncrementColumn),
    (PATCH, "/v1/tablesdb/{database}/tables/{table}/rows/{row}/{column}/decrement",
        Action::DecrementColumn),

    (GET, "/v1/tablesdb/transactions", Action::ListTransactions),
    (POST, "/v1/tablesdb/transactions", Action::CreateTransaction),
    (GET, "/v1/tablesdb/transactions/{transaction}", Action::GetTransaction),
    (PATCH, "/v1/tablesdb/transactions/{transaction}", Action::UpdateTransaction),
    (DELETE, "/v1/tablesdb/transactions/{transaction}", Action::DeleteTransaction),
    (POST, "/v1/tablesdb/transactions/{transaction}/operations",
        Action::StageOperations),

    (POST, "/v1/tidemark/databases/{database}/batch/reads", Action::BatchRead),
    (POST, "/v1/tidemark/databases/{database}/batch/writes", Action::BatchWrite),
    (GET, "/v1/tidemark/status", Action::TidemarkStatus),
    (GET, "/v1/tidemark/openapi.json", Action::Describe),
    (POST, "/v1/tidemark/databases/{database}/transactions", Action::Transact),
    (POST, "/v1/tidemark/databases/{database}/undo", Action::Undo),
    (POST, "/v1/tidemark/databases/{database}/reads", Action::ReadAtTimes),
    (POST, "/v1/tidemark/databases/{database}/heartbeat", Action::Heartbeat),
    (GET, "/v1/tidemark/databases/{database}/tables/{table}/constraints",
        Action::ListConstraints),
    (PUT, "/v1/tidemark/databases/{database}/tables/{table}/constraints", Action::Constrain),
    (POST, "/v1/tidemark/databases/{database}/tables/{table}/constraints",
        Action::AddConstraints),
    (DELETE, "/v1/tidemark/databases/{database}/tables/{table}/constraints",
        Action::RemoveConstraints),
    (GET, "/v1/tidemark/databases/{database}/tables/{table}/options", Action::TableOptions),
    (PATCH, "/v1/tidemark/databases/{database}/tables/{table}/options",
        Action::SetTableOptions),
    (GET, "/v1/tidemark/databases/{database}/tables/{table}/explain", Action::Explain),
    (POST, "/v1/tidemark/test/reset", Action::ResetTests),

    (GET, "/v1/tidemark/functions/{function}/options", Action::Function(F::Options)),
    (PATCH, "/v1/tidemark/functions/{function}/options", Action::Function(F::SetOptions)),

    (GET, "/v1/functions", Action::Function(F::List)),
    (POST, "/v1/functions", Action::Function(F::Create)),
    (GET, "/v1/functions/runtimes", Action::Function(F::ListRuntimes)),
    (GET, "/v1/functions/specifications", Action::Function(F::ListSpecifications)),
    (GET, "/v1/functions/templates", Action::NotBuilt),
    (GET, "/v1/functions/usage", Action::NotBuilt),
    (GET, "/v1/functions/{function}", Action::Function(F::Get)),
    (PUT, "/v1/functions/{function}", Action::Function(F::Update)),
    (DELETE, "/v1/functions/{function}", Action::Function(F::Delete)),
    (GET, "/v1/functions/{function}/variables", Action::Function(F::ListVariables)),
    (POST, "/v1/functions/{function}/variables", Action::Function(F::CreateVariable)),
    (GET, "/v1/functions/{function}/variables/{variable}", Action::Function(F::GetVariable)),
    (PUT, "/v1/functions/{function}/variables/{variable}", Action::Function(F::UpdateVariable)),
    (DELETE, "/v1/functions/{function}/variables/{variable}", Action::Function(F::DeleteVariable)),
    (POST, "/v1/functions/{function}/executions", Action::Function(F::Execute)),
    (GET, "/v1/functions/{function}/executions", Action::Function(F::ListExecutions)),
    (GET, "/v1/functions/{function}/executions/{execution}", Action::Function(F::GetExecution)),
    (DELETE, "/v1/functions/{function}/executions/{execution}",
        Action::Function(F::DeleteExecution)),
    (PATCH, "/v1/functions/{function}/deployment", Action::Function(F::ActivateDeployment)),
    (GET, "/v1/functions/{function}/deployments", Action::Function(F::ListDeployments)),
    (POST, "/v1/functions/{function}/deployments", Action::Function(F::CreateDeployment)),
    (POST, "/v1/functions/{function}/deployments/duplicate",
        Action::Function(F::DuplicateDeployment)),
    (GET, "/v1/functions/{function}/deployments/{deployment}",
        Action::Function(F::GetDeployment)),
    (DELETE, "/v1/functions/{function}/deployments/{deployment}",
        Action::Function(F::DeleteDeployment)),
    (GET, "/v1/functions/{function}/deployments/{deployment}/download",
        Action::Function(F::DownloadDeployment)),
    (PATCH, "/v1/functions/{function}/deployments/{deployment}/status",
        Action::Function(F::CancelDeployment)),
    (&METHODS, "/v1/functions/{function}/{*rest}", Action::NotBuilt),

    (GET, "/v1/project", Action::GetProject),
    (NOT_GET, "/v1/project", Action::NotBuilt),
    (GET, "/v1/project/keys", Action::Keys(KeyAction::List)),
    (POST, "/v1/project/keys", Action::DenyKey),
    (POST, "/v1/project/keys/ephemeral", Action::DenyKey),
    (GET, "/v1/project/keys/{key}", Action::Keys(KeyAction::Get)),
    (PUT, "/v1/project/keys/{key}", Action::DenyKey),
    (DELETE, "/v1/project/keys/{key}", Action::Keys(KeyAction::Revoke)),
    (&METHODS, "/v1/project/{*rest}", Action::NotBuilt),
];

/// First segments of paths below `/v1` that belong to parts of the protocol this server does not
/// have, each with how a sentence about it begins.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("account", "Accounts and sign-in are"),
    ("avatars", "Avatars are"),
    ("graphql", "GraphQL is"),
    ("locale", "The locale service is"),
    ("messaging", "Messaging is"),
    ("realtime", "Realtime is"),
    ("sites", "Sites are"),
    ("storage", "File storage is"),
    ("teams", "Teams are"),
    ("tokens", "File tokens are"),
    ("users", "Users are"),
];

/// The kinds of columns, each with routes of its own.
pub const COLUMN_KINDS: [&str; 14] = [
    "boolean",
    "bigint",
    "datetime",
    "email",
    "enum",
    "float",
    "integer",
    "ip",
    "longtext",
    "mediumtext",
    "string",
    "text",
    "url",
    "varchar",
];

/// Every route of both families.
pub fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    for (methods, pattern, action) in ROUTES {
        for method in *methods {
            add(&mut routes, method, pattern, *action);
        }
    }
    for (segment, begin) in UNSUPPORTED {
        let own = format!("/v1/{segment}");
        for pattern in [own.clone(), own + "/{*rest}"] {
            for method in &METHODS {
                add(&mut routes, method, &pattern, Action::NotSupported(begin));
            }
        }
    }
    for kind in COLUMN_KINDS {
        let columns = format!("/v1/tablesdb/{{database}}/tables/{{table}}/columns/{kind}");
        let one = format!("{columns}/{{column}}");
        add(
            &mut routes,
            &Method::POST,
            &columns,
            Action::CreateColumn(kind),
        );
        add(
            &mut routes,
            &Method::PATCH,
            &one,
            Action::UpdateColumn(kind),
        );
    }
    routes
}

/// Adds a route, and its twin in the older family if it has one.
fn add(routes: &mut Vec<Route>, method: &Method, pattern: &str, action: Action) {
    let mut push = |pattern: String, family| {
        routes.push(Route {
            method: method.clone(),
            pattern,
            family,
            action,
            position: routes.len(),
        });
    };
    push(pattern.to_owned(), Family::Tables);
    if pattern.starts_with("/v1/tablesdb") {
        push(in_older_words(pattern), Family::Documents);
    }
}

fn in_older_words(pattern: &str) -> String {
    let word = |segment| match segment {
        "tablesdb" => "databases",
        "tables" => "collections",
        "columns" => "attributes",
        "rows" => "documents",
        other => other,
    };
    pattern.split('/').map(word).collect::<Vec<_>>().join("/")
}

/// The ids in a path; empty where the route has none.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "each field is named after what it names")]
pub struct PathIds<'p> {
    pub database: Cow<'p, str>,
    pub table: Cow<'p, str>,
    pub column: Cow<'p, str>,
    pub index: Cow<'p, str>,
    pub row: Cow<'p, str>,
    pub transaction: Cow<'p, str>,
    pub key: Cow<'p, str>,
    pub function: Cow<'p, str>,
    pub of_function: Cow<'p, str>,
}

/// The routes, ready to be asked.
pub struct Routes {
    all: Vec<Route>,
    /// One for each of [`METHODS`]: `rows/query` names an action for POST and a row for GET.
    /// They hold positions in `all`.
    by_method: [Router<usize>; METHODS.len()],
}

impl Routes {
    /// Builds the table.
    pub fn new() -> Routes {
        let all = routes();
        let by_method = METHODS.map(|method| {
            let mut router = Router::new();
            let answered = |(_, route): &(usize, &Route)| route.method == method;
            for (position, route) in all.iter().enumerate().filter(answered) {
                router
                    .insert(&route.pattern, position)
                    .expect("the patterns of the table are legal");
            }
            router
        });
        Routes { all, by_method }
    }

    /// The route for a request, and the ids in its path.
    ///
    /// # Errors
    /// An unknown path, a path that is not answered by this method, an id that is not UTF-8.
    pub fn find<'p>(
        &self,
        method: &Method,
        path: &'p str,
    ) -> Result<(&Route, PathIds<'p>), ApiError> {
        let method = if *method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let nth = METHODS.iter().position(|known| known == method);
        let matched = nth.and_then(|nth| self.by_method[nth].at(path).ok());
        let Some(matched) = matched else {
            return Err(self.refusal(path));
        };
        let mut ids = PathIds::default();
        for (name, raw) in matched.params.iter() {
            let id = match name {
                "database" => &mut ids.database,
                "table" => &mut ids.table,
                "column" => &mut ids.column,
                "index" => &mut ids.index,
                "row" => &mut ids.row,
                "transaction" => &mut ids.transaction,
                "key" => &mut ids.key,
                "function" => &mut ids.function,
                // A path names one of them.
                "variable" | "deployment" | "execution" => &mut ids.of_function,
                _ => continue,
            };
            *id = percent_decode_str(raw)
                .decode_utf8()
                .map_err(|_| not_found())?;
        }
        Ok((&self.all[*matched.value], ids))
    }

    /// The route at this place.
    pub fn at(&self, position: usize) -> &Route {
        &self.all[position]
    }

    /// The place of the route that does this, where one alone does.
    ///
    /// # Panics
    /// When no route does it.
    pub fn position(&self, action: Action, family: Family) -> usize {
        let does = |route: &&Route| (route.action, route.family) == (action, family);
        let found = self.all.iter().find(does);
        found.expect("every action has its routes").position
    }

    /// The family whose words a refusal uses, for paths without a route, too.
    pub fn family_of(path: &str) -> Family {
        let rest = path.strip_prefix("/v1/databases");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            Family::Documents
        } else {
            Family::Tables
        }
    }

    /// The methods by which this server answers `path`, as the header `Allow` lists them.
    pub fn allowed(&self, path: &str) -> String {
        let mut allowed = vec!["OPTIONS"];
        for (method, router) in METHODS.iter().zip(&self.by_method) {
            let Ok(matched) = router.at(path) else {
                continue;
            };
            match self.all[*matched.value].action {
                Action::NotBuilt | Action::NotSupported(_) => {}
                _ if *method == Method::GET => allowed.extend(["GET", "HEAD"]),
                _ => allowed.push(method.as_str()),
            }
        }
        allowed.join(", ")
    }

    fn refusal(&self, path: &str) -> ApiError {
        if self.by_method.iter().any(|router| router.at(path).is_ok()) {
            ApiError::not_implemented(self.allowed(path))
        } else {
            ApiError::new(Kind::RouteNotFound, self.advice(path))
        }
    }

    /// What to say of a path without a route: most often the client's endpoint is not written as
    /// this server has it.
    fn advice(&self, path: &str) -> &'static str {
        let is_route = |path: &str| self.by_method.iter().any(|router| router.at(path).is_ok());
        if is_route(&format!("/v1{path}")) {
            return "There is no such route; with `/v1` before it there is. The endpoint of a \
                    client ends in `/v1`.";
        }
        match path.strip_prefix("/v1") {
            Some(rest) if is_route(rest) => {
                "There is no such route; with one `/v1` less there is. The endpoint of a client \
                 has `/v1` once."
            }
            _ => NO_ROUTE,
        }
    }
}

impl Default for Routes {
    fn default() -> Routes {
        Routes::new()
    }
}

const NO_ROUTE: &str = "There is no such route.";

fn not_found() -> ApiError {
    ApiError::new(Kind::RouteNotFound, NO_ROUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: Method, path: &str, action: Action, family: Family) -> PathIds<'_> {
        let routes = Routes::new();
        let (route, ids) = routes.find(&method, path).unwrap();
        assert_eq!(
            (route.action, route.family),
            (action, family),
            "{method} {path}"
        );
        ids
    }

    /// Pages name a route whole, or by what follows the database: `POST .../reads`. The list of all
    /// routes does not count: it does not say what they are for.
    #[test]
    fn routes_of_our_own_stand_on_a_page_of_the_reference() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
        let files = std::fs::read_dir(folder).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let pages = paths.filter(|path| !path.ends_with("routes.md"));
        let texts = pages.map(|path| std::fs::read_to_string(path).unwrap());
        let text = texts.collect::<Vec<String>>().join("\n");
        let is_absent = |(methods, pattern): &(&[Method], &str)| {
            let last = pattern.rsplit('/').next().unwrap();
            let short = format!("`{} .../{last}`", methods[0]);
            let whole = pattern.strip_prefix("/v1").unwrap();
            !text.contains(whole) && !text.contains(&short)
        };
        let routes = ROUTES
            .iter()
            .map(|(methods, pattern, _)| (*methods, *pattern));
        let own = routes.filter(|(_, pattern)| pattern.starts_with("/v1/tidemark/"));
        let absent: Vec<_> = own.filter(is_absent).collect();
        assert!(
            absent.is_empty(),
            "no page of docs/reference names {absent:?}"
        );
    }

    #[test]
    fn column_kinds_on_the_page_are_those_of_the_routes() {
        let page = include_str!("../../../../../docs/reference/column-types.md");
        let table = page
            .split("\n\n")
            .find(|part| part.starts_with("| type | holds"));
        let rows = table
            .unwrap()
            .lines()
            .filter_map(|line| line.strip_prefix("| `"));
        let mut listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        listed.sort_unstable();
        let mut known = [&COLUMN_KINDS[..], &["relationship"]].concat();
        known.sort_unstable();
        testing::assert_rows("docs/reference/column-types.md", &listed, &known);
    }

    #[test]
    fn both_families_lead_to_the_same_actions() {
        let tables = "/v1/tablesdb/d/tables/t/rows/r";
        let ids = check(Method::GET, tables, Action::GetRow, Family::Tables);
        assert_eq!((&*ids.database, &*ids.table, &*ids.row), ("d", "t", "r"));
        let older = "/v1/databases/d/collections/t/documents/r";
        assert_eq!(
            check(Method::GET, older, Action::GetRow, Family::Documents),
            ids
        );
        let tables = "/v1/tablesdb/d/tables/t/columns/c";
        let ids = check(Method::GET, tables, Action::GetColumn, Family::Tables);
        assert_eq!(ids.column, "c");
        let older = "/v1/databases/d/collections/t/attributes/c";
        assert_eq!(
            check(Method::GET, older, Action::GetColumn, Family::Documents),
            ids
        );
        check(
            Method::GET,
            "/v1/databases",
            Action::ListDatabases,
            Family::Documents,
        );
    }

    #[test]
    fn a_row_may_be_called_query() {
        let path = "/v1/tablesdb/d/tables/t/rows/query";
        check(Method::POST, path, Action::QueryRows, Family::Tables);
        assert_eq!(
            check(Method::GET, path, Action::GetRow, Family::Tables).row,
            "query"
        );
    }

    #[test]
    fn head_goes_where_get_goes() {
        check(Method::HEAD, "/v1/ping", Action::Ping, Family::Tables);
    }

    #[test]
    fn ids_are_decoded() {
        let ids = check(
            Method::GET,
            "/v1/tablesdb/a%20b",
            Action::GetDatabase,
            Family::Tables,
        );
        assert_eq!(ids.database, "a b");
    }

    #[track_caller]
    fn refuses(method: Method, path: &str, kind: Kind) {
        let routes = Routes::new();
        let error = routes
            .find(&method, path)
            .map(|(route, _)| route.action)
            .unwrap_err();
        assert_eq!(error.kind, kind, "{method} {path}");
    }

    #[test]
    fn unknown_paths_and_unknown_methods_are_told_apart() {
        for path in [
            "/nowhere",
            "/v1/nowhere",
            "/v1/tablesdb/",
            "/v1/tablesdb/%ff",
            "*",
            "",
        ] {
            refuses(Method::GET, path, Kind::RouteNotFound);
        }
        refuses(Method::POST, "/v1/ping", Kind::NotImplemented);
        refuses(Method::PATCH, "/v1/tablesdb/d", Kind::NotImplemented);
        refuses(Method::TRACE, "/v1/tablesdb/d", Kind::NotImplemented);
    }

    #[test]
    fn refusal_of_an_endpoint_with_no_v1_or_two_says_so() {
        let routes = Routes::new();
        let message = |path: &str| {
            let refused = routes
                .find(&Method::GET, path)
                .map(|(route, _)| route.action);
            refused.unwrap_err().message(Family::Tables)
        };
        for (path, part) in [
            ("/tablesdb/d/tables/t/rows", "with `/v1` before it there is"),
            ("/health/version", "with `/v1` before it there is"),
            ("/v1/v1/tablesdb", "with one `/v1` less there is"),
            ("/v1/nowhere", "no such route."),
            ("/v1x", "no such route."),
        ] {
            let message = message(path);
            assert!(message.contains(part), "{path}: {message}");
        }
    }

    #[test]
    fn parts_of_the_protocol_that_are_missing_have_routes_for_every_method() {
        for (segment, begin) in UNSUPPORTED {
            for path in [format!("/v1/{segment}"), format!("/v1/{segment}/a/b")] {
                for method in METHODS {
                    check(method, &path, Action::NotSupported(begin), Family::Tables);
                }
            }
        }
    }

    #[test]
    fn allow_names_what_is_answered() {
        let routes = Routes::new();
        let rows = "/v1/tablesdb/d/tables/t/rows";
        assert_eq!(
            routes.allowed(rows),
            "OPTIONS, GET, HEAD, POST, PUT, PATCH, DELETE"
        );
        assert_eq!(routes.allowed("/v1/account/sessions"), "OPTIONS");
        assert_eq!(
            routes.allowed("/v1/databases/d"),
            "OPTIONS, GET, HEAD, PUT, DELETE"
        );
    }

    #[test]
    fn refusals_know_the_family_of_any_path() {
        assert_eq!(
            Routes::family_of("/v1/databases/x/nonsense"),
            Family::Documents
        );
        assert_eq!(Routes::family_of("/v1/databasesx"), Family::Tables);
        assert_eq!(Routes::family_of("/v1/tablesdb"), Family::Tables);
    }
}
