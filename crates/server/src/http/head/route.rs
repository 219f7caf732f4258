//! The route table: every route of the protocol, whether this server answers it or not.

use engine::Family;
use hyper::Method;

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
    Output,
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
pub const METHODS: [Method; 5] = [
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
    (GET, "/v1/tidemark/functions/{function}/output", Action::Function(F::Output)),

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
pub const UNSUPPORTED: &[(&str, &str)] = &[
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
