//! The table of routes with their parameters. A test in `known_route.rs` compares it with the
//! router: a route that is missing here fails, and so does one that the router does not know.

/// What a parameter of the query string takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asks {
    /// Queries over rows.
    RowQueries,
    /// Queries that select columns of one row.
    Selections,
    /// Queries over databases, tables, columns or indexes.
    ContainerQueries,
    Total,
    Ttl,
    Search,
    Transaction,
    /// By which grants the past is judged.
    Judged,
}

/// What a member of the body takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    Id,
    Name,
    Flag,
    /// Grants of a table.
    TableGrants,
    /// Grants of a row, which know no `create`.
    RowGrants,
    /// Content of a new row.
    Content,
    /// Content of a row that may be there: operators are understood, too.
    Change,
    /// Rows to be made, each with its content.
    NewRows,
    /// Rows to be made or merged.
    PutRows,
    Queries,
    Ttl,
    /// How long a transaction stays open.
    OpenTime,
    Transaction,
    /// Operations of a transaction.
    Operations,
    /// Operations of a batch, which may lack the database.
    BatchOperations,
    /// Rows by ids or keys.
    Reads,
    /// Definitions inside the creation of a table.
    Columns,
    Indexes,
    /// A key of a column or an index.
    Key,
    /// Any text.
    Words,
    /// Characters of a column.
    Size,
    /// A bound or a default of a column, by its kind.
    Integer,
    Float,
    Boolean,
    Text,
    /// Text that must also have a form.
    Formed,
    Elements,
    /// A number to add.
    Operand,
    /// What a sum may not pass.
    Bound,
    /// Kind, columns, orders and lengths of an index.
    IndexType,
    IndexColumns,
    Orders,
    Lengths,
    /// The id of a table that is there.
    RelatedTable,
    RelationType,
    OnDelete,
    /// Seconds for which clients may keep an answer.
    KeptAge,
    /// How much of its past a table keeps.
    History,
    /// Who may look at it.
    Past,
    /// By which grants the past is judged.
    Judged,
    /// An instant.
    Time,
    /// An instant of system time.
    PastTime,
    /// Operations over valid periods.
    Ops,
    /// What is kept with a commit.
    Meta,
    /// The kind of a read at given times.
    ReadKind,
    /// Many such reads.
    TimedReads,
    /// Keys that are unique over valid time.
    UniqueKeys,
    /// References that hold over valid time.
    References,
    /// What is said of a function.
    OfFunction(OfFunction),
}

/// What a member takes that says something of a function, or of what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfFunction {
    Runtime,
    Execute,
    Events,
    Schedule,
    /// An integer from the first to the second.
    Number(i64, i64),
    /// A text of at most so many characters.
    Text(usize),
    Scopes,
    Specification,
    Network,
    VariableKey,
}

impl Takes {
    /// Whether it is a member of transactions or batches, or says something of the past.
    pub fn is_of_batches(self) -> bool {
        use Takes as T;
        matches!(
            self,
            T::KeptAge
                | T::History
                | T::Past
                | T::Judged
                | T::OpenTime
                | T::Operations
                | T::BatchOperations
                | T::Reads
                | T::Transaction
        )
    }

    /// Whether it belongs to the language of the worked cases.
    pub fn is_of_times(self) -> bool {
        use Takes as T;
        matches!(
            self,
            T::Time
                | T::PastTime
                | T::Ops
                | T::Meta
                | T::ReadKind
                | T::TimedReads
                | T::UniqueKeys
                | T::References
        )
    }
}

/// A member of a body.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// In the words of `/v1/tablesdb`.
    pub name: &'static str,
    pub takes: Takes,
    /// JSON that is right here; empty where the member is left out of a right call.
    pub right: &'static str,
    pub need: Need,
}

/// Whether a member may be left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    No,
    /// It must be there, and null counts as left out.
    Value,
    /// It must be there; null is a value.
    ValueOrNull,
}

/// Who may call, for the refusals of those who may not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Open {
    /// To all, without a project.
    All,
    /// To all who name a project; grants decide.
    Guests,
    /// To all who name a project; what another project has is not found.
    Owners,
    /// To keys.
    Keys,
}

/// A route and what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub method: &'static str,
    /// In the words of `/v1/tablesdb`.
    pub pattern: &'static str,
    pub open: Open,
    pub asks: &'static [Asks],
    /// `None` where the body is not read.
    pub body: Option<&'static [Field]>,
    /// Other names than a known route gives.
    pub ids: &'static [(&'static str, &'static str)],
}

const fn needed(name: &'static str, takes: Takes, right: &'static str) -> Field {
    Field {
        name,
        takes,
        right,
        need: Need::Value,
    }
}

const fn optional(name: &'static str, takes: Takes, right: &'static str) -> Field {
    Field {
        name,
        takes,
        right,
        need: Need::No,
    }
}

const fn of_function(name: &'static str, takes: OfFunction, right: &'static str) -> Field {
    optional(name, Takes::OfFunction(takes), right)
}

const NO_IDS: &[(&str, &str)] = &[];
const TRANSACTION: Field = optional("transactionId", Takes::Transaction, "");
/// Understood by both families.
const OPERATIONS: &str = r#"[{"action":"increment","databaseId":"d","tableId":"t","rowId":"r1",
    "data":{"column":"n"}}]"#;
const BATCH_OPERATIONS: &str =
    r#"[{"action":"increment","tableId":"t","rowId":"r1","data":{"column":"n"}}]"#;
const ROW_GRANTS: Field = optional("permissions", Takes::RowGrants, r#"["read(\"any\")"]"#);
const CONTAINERS: &[Asks] = &[Asks::ContainerQueries, Asks::Search, Asks::Total];
const COLUMN_LIST: &[Asks] = &[Asks::ContainerQueries, Asks::Total];
const CHANGED_ROW: &[Field] = &[
    optional("data", Takes::Change, r#"{"n":5}"#),
    ROW_GRANTS,
    TRANSACTION,
];

const fn nullable(name: &'static str, takes: Takes) -> Field {
    Field {
        name,
        takes,
        right: "null",
        need: Need::ValueOrNull,
    }
}

const REQUIRED: Field = needed("required", Takes::Flag, "false");
const DESCRIPTION: Field = optional("description", Takes::Words, r#""D""#);
const ARRAY: Field = optional("array", Takes::Flag, "false");
const NEW_KEY: Field = optional("newKey", Takes::Key, r#""newer""#);
const ENCRYPT: Field = optional("encrypt", Takes::Flag, "false");
const KEY: Field = needed("key", Takes::Key, r#""new""#);

/// The two routes of a kind of column: its creation, and the change of the fixture's column of
/// that kind.
macro_rules! columns {
    ($(
        $kind:literal $column:literal $takes:ident $right:literal
        [$($new:expr),*] [$($own:expr),*];
    )*) => {
        &[$(
            Spec {
                method: "POST",
                pattern: concat!("/v1/tablesdb/{database}/tables/{table}/columns/", $kind),
                open: Open::Keys,
                asks: &[],
                body: Some(&[
                    KEY, REQUIRED, optional("default", Takes::$takes, $right), ARRAY, DESCRIPTION,
                    $($new),*
                ]),
                ids: NO_IDS,
            },
            Spec {
                method: "PATCH",
                pattern: concat!(
                    "/v1/tablesdb/{database}/tables/{table}/columns/", $kind, "/{column}"
                ),
                open: Open::Keys,
                asks: &[],
                body: Some(&[
                    REQUIRED, nullable("default", Takes::$takes), NEW_KEY, DESCRIPTION, $($own),*
                ]),
                ids: &[("column", $column)],
            },
        )*]
    };
}

const SIGNED: Field = optional("signed", Takes::Flag, "true");
const INTEGER_BOUNDS: [Field; 2] = [
    optional("min", Takes::Integer, "-5"),
    optional("max", Takes::Integer, "50"),
];
const FLOAT_BOUNDS: [Field; 2] = [
    optional("min", Takes::Float, "-5"),
    optional("max", Takes::Float, "50.5"),
];
const SIZE: Field = needed("size", Takes::Size, "200");
const NEW_SIZE: Field = optional("size", Takes::Size, "200");
const ELEMENTS: Field = needed("elements", Takes::Elements, r#"["a","b","c"]"#);

#[rustfmt::skip]
const COLUMNS: &[Spec] = columns! {
    "boolean" "b" Boolean "true" [] [];
    "integer" "n" Integer "5" [INTEGER_BOUNDS[0], INTEGER_BOUNDS[1], SIGNED]
        [INTEGER_BOUNDS[0], INTEGER_BOUNDS[1]];
    "bigint" "big" Integer "5" [INTEGER_BOUNDS[0], INTEGER_BOUNDS[1], SIGNED]
        [INTEGER_BOUNDS[0], INTEGER_BOUNDS[1]];
    "float" "f" Float "5.5" [FLOAT_BOUNDS[0], FLOAT_BOUNDS[1]]
        [FLOAT_BOUNDS[0], FLOAT_BOUNDS[1]];
    "datetime" "at" Formed r#""2026-01-01T00:00:00Z""# [] [];
    "email" "mail" Formed r#""a@b.co""# [] [];
    "enum" "choice" Formed r#""a""# [ELEMENTS] [ELEMENTS];
    "ip" "ip" Formed r#""::1""# [] [];
    "url" "site" Formed r#""https://x.yz""# [] [];
    "varchar" "spare" Text r#""a""# [SIZE, ENCRYPT] [NEW_SIZE];
    "string" "old" Text r#""a""# [SIZE, ENCRYPT] [NEW_SIZE];
    "text" "long" Text r#""a""# [ENCRYPT] [];
    "mediumtext" "medium" Text r#""a""# [ENCRYPT] [];
    "longtext" "huge" Text r#""a""# [ENCRYPT] [];
};

const RELATION: &[Field] = &[
    needed("relatedTableId", Takes::RelatedTable, r#""p""#),
    needed("type", Takes::RelationType, r#""manyToMany""#),
    optional("twoWay", Takes::Flag, "true"),
    optional("key", Takes::Key, r#""new""#),
    optional("twoWayKey", Takes::Key, r#""newer""#),
    optional("onDelete", Takes::OnDelete, r#""cascade""#),
];
const NEW_RELATION: &[Field] = &[
    NEW_KEY,
    optional("onDelete", Takes::OnDelete, r#""setNull""#),
];
/// The fixture's relationship.
const RELATION_IDS: &[(&str, &str)] = &[("table", "p"), ("column", "rel")];

/// The routes of relationships, one of which has two spellings.
const RELATIONS: &[Spec] = &[
    relation(
        "POST",
        "/v1/tablesdb/{database}/tables/{table}/columns/relationship",
        RELATION,
        NO_IDS,
    ),
    relation(
        "PATCH",
        "/v1/tablesdb/{database}/tables/{table}/columns/relationship/{column}",
        NEW_RELATION,
        RELATION_IDS,
    ),
    relation(
        "PATCH",
        "/v1/tablesdb/{database}/tables/{table}/columns/{column}/relationship",
        NEW_RELATION,
        RELATION_IDS,
    ),
];

const fn relation(
    method: &'static str,
    pattern: &'static str,
    body: &'static [Field],
    ids: &'static [(&'static str, &'static str)],
) -> Spec {
    Spec {
        method,
        pattern,
        open: Open::Keys,
        asks: &[],
        body: Some(body),
        ids,
    }
}

const RUNTIME: Takes = Takes::OfFunction(OfFunction::Runtime);
const EXECUTE: Field = of_function("execute", OfFunction::Execute, r#"["any","users"]"#);
const EVENTS: Field = of_function("events", OfFunction::Events, r#"["databases.*"]"#);
const SCHEDULE: Field = of_function("schedule", OfFunction::Schedule, r#""* * * * *""#);
const TIMEOUT: Field = of_function("timeout", OfFunction::Number(1, 900), "20");
const ENABLED: Field = optional("enabled", Takes::Flag, "true");
const LOGGING: Field = optional("logging", Takes::Flag, "true");
const ENTRYPOINT: Field = of_function("entrypoint", OfFunction::Text(1_028), r#""main.js""#);
const COMMANDS: Field = of_function("commands", OfFunction::Text(8_192), r#""npm install""#);
const SCOPES: Field = of_function("scopes", OfFunction::Scopes, r#"["rows.read"]"#);
const SPECIFICATION: &str = r#""s-1vcpu-512mb""#;
const BUILD: Field = of_function(
    "buildSpecification",
    OfFunction::Specification,
    SPECIFICATION,
);
const RUN: Field = of_function(
    "runtimeSpecification",
    OfFunction::Specification,
    SPECIFICATION,
);
const RETENTION: Field = of_function("deploymentRetention", OfFunction::Number(0, 36_500), "7");
const SECRET: Field = optional("secret", Takes::Flag, "true");
const VALUE: Takes = Takes::OfFunction(OfFunction::Text(8_192));
const VARIABLE_KEY: Takes = Takes::OfFunction(OfFunction::VariableKey);

macro_rules! specs {
    ($($method:ident $pattern:literal $open:ident $asks:expr, $body:expr;)*) => {
        &[$(Spec {
            method: stringify!($method), pattern: $pattern, open: Open::$open, asks: $asks,
            body: $body, ids: NO_IDS,
        }),*]
    };
}

/// Every route that the server answers, or will: one that the router calls not built is refused
/// with 405 whatever is sent.
#[rustfmt::skip]
const SPECS: &[Spec] = specs! {
    GET "/" All &[], None;
    GET "/v1" All &[], None;
    GET "/v1/" All &[], None;
    GET "/versions" All &[], None;
    GET "/v1/ping" All &[], None;
    GET "/v1/health" Keys &[], None;
    GET "/v1/health/version" All &[], None;
    GET "/v1/health/db" Keys &[], None;
    GET "/v1/health/cache" Keys &[], None;
    GET "/v1/health/pubsub" Keys &[], None;
    GET "/v1/health/storage" Keys &[], None;
    GET "/v1/health/storage/local" Keys &[], None;
    GET "/v1/health/time" Keys &[], None;

    GET "/v1/tablesdb" Keys CONTAINERS, None;
    POST "/v1/tablesdb" Keys &[], Some(&[
        needed("databaseId", Takes::Id, r#""new""#), needed("name", Takes::Name, r#""N""#),
        optional("enabled", Takes::Flag, "true"),
    ]);
    GET "/v1/tablesdb/{database}" Keys &[], None;
    PUT "/v1/tablesdb/{database}" Keys &[], Some(&[
        optional("name", Takes::Name, r#""N""#), optional("enabled", Takes::Flag, "true"),
    ]);
    DELETE "/v1/tablesdb/{database}" Keys &[], None;

    GET "/v1/tablesdb/{database}/tables" Keys CONTAINERS, None;
    POST "/v1/tablesdb/{database}/tables" Keys &[], Some(&[
        needed("tableId", Takes::Id, r#""new""#), needed("name", Takes::Name, r#""N""#),
        optional("permissions", Takes::TableGrants, r#"["read(\"any\")"]"#),
        optional("rowSecurity", Takes::Flag, "true"), optional("enabled", Takes::Flag, "true"),
        optional("columns", Takes::Columns, r#"[{"key":"k","type":"integer"}]"#),
        optional("indexes", Takes::Indexes, r#"[{"key":"x","type":"key","attributes":["k"]}]"#),
    ]);
    GET "/v1/tablesdb/{database}/tables/{table}" Keys &[], None;
    PUT "/v1/tablesdb/{database}/tables/{table}" Keys &[], Some(&[
        optional("name", Takes::Name, r#""N""#),
        optional("permissions", Takes::TableGrants, r#"["read(\"any\")"]"#),
        optional("rowSecurity", Takes::Flag, "true"), optional("enabled", Takes::Flag, "true"),
        optional("purge", Takes::Flag, "true"),
    ]);
    DELETE "/v1/tablesdb/{database}/tables/{table}" Keys &[], None;

    GET "/v1/tablesdb/{database}/tables/{table}/columns" Keys COLUMN_LIST, None;
    GET "/v1/tablesdb/{database}/tables/{table}/columns/{column}" Keys &[], None;
    DELETE "/v1/tablesdb/{database}/tables/{table}/columns/{column}" Keys &[], None;
    GET "/v1/tablesdb/{database}/tables/{table}/indexes" Keys COLUMN_LIST, None;
    POST "/v1/tablesdb/{database}/tables/{table}/indexes" Keys &[], Some(&[
        KEY, DESCRIPTION, needed("type", Takes::IndexType, r#""key""#),
        needed("columns", Takes::IndexColumns, r#"["spare"]"#),
        optional("orders", Takes::Orders, r#"["ASC"]"#),
        optional("lengths", Takes::Lengths, "[null]"),
    ]);
    GET "/v1/tablesdb/{database}/tables/{table}/indexes/{index}" Keys &[], None;
    DELETE "/v1/tablesdb/{database}/tables/{table}/indexes/{index}" Keys &[], None;

    GET "/v1/tablesdb/{database}/tables/{table}/rows" Guests
        &[Asks::RowQueries, Asks::Total, Asks::Ttl, Asks::Transaction, Asks::Judged], None;
    POST "/v1/tablesdb/{database}/tables/{table}/rows/query" Guests &[], Some(&[
        optional("queries", Takes::Queries, "[]"), optional("total", Takes::Flag, "true"),
        optional("ttl", Takes::Ttl, "5"), TRANSACTION,
        optional("permissions", Takes::Judged, r#""now""#),
    ]);
    POST "/v1/tablesdb/{database}/tables/{table}/rows" Guests &[], Some(&[
        optional("rowId", Takes::Id, r#""new""#), optional("data", Takes::Content, r#"{"n":5}"#),
        ROW_GRANTS, TRANSACTION, optional("rows", Takes::NewRows, ""),
    ]);
    PUT "/v1/tablesdb/{database}/tables/{table}/rows" Keys &[], Some(&[
        needed("rows", Takes::PutRows, r#"[{"$id":"new","n":5},{"$id":"r1","n":6}]"#), TRANSACTION,
    ]);
    PATCH "/v1/tablesdb/{database}/tables/{table}/rows" Keys &[], Some(&[
        optional("data", Takes::Change, r#"{"n":5}"#),
        optional("queries", Takes::Queries, "[]"), TRANSACTION,
    ]);
    DELETE "/v1/tablesdb/{database}/tables/{table}/rows" Keys &[], Some(&[
        optional("queries", Takes::Queries, "[]"), TRANSACTION,
    ]);
    GET "/v1/tablesdb/{database}/tables/{table}/rows/{row}" Guests
        &[Asks::Selections, Asks::Transaction, Asks::Judged], None;
    PUT "/v1/tablesdb/{database}/tables/{table}/rows/{row}" Guests &[], Some(CHANGED_ROW);
    PATCH "/v1/tablesdb/{database}/tables/{table}/rows/{row}" Guests &[], Some(CHANGED_ROW);
    DELETE "/v1/tablesdb/{database}/tables/{table}/rows/{row}" Guests
        &[Asks::Transaction], Some(&[TRANSACTION]);
    PATCH "/v1/tablesdb/{database}/tables/{table}/rows/{row}/{column}/increment" Guests &[], Some(&[
        optional("value", Takes::Operand, "1"), optional("max", Takes::Bound, "100"), TRANSACTION,
    ]);
    PATCH "/v1/tablesdb/{database}/tables/{table}/rows/{row}/{column}/decrement" Guests &[], Some(&[
        optional("value", Takes::Operand, "1"), optional("min", Takes::Bound, "-100"), TRANSACTION,
    ]);

    GET "/v1/tablesdb/transactions" Owners CONTAINERS, None;
    POST "/v1/tablesdb/transactions" Owners &[], Some(&[
        optional("ttl", Takes::OpenTime, "60"),
    ]);
    GET "/v1/tablesdb/transactions/{transaction}" Owners &[], None;
    PATCH "/v1/tablesdb/transactions/{transaction}" Owners &[], Some(&[
        optional("commit", Takes::Flag, "true"), optional("rollback", Takes::Flag, "false"),
    ]);
    DELETE "/v1/tablesdb/transactions/{transaction}" Owners &[], None;
    POST "/v1/tablesdb/transactions/{transaction}/operations" Owners &[], Some(&[
        needed("operations", Takes::Operations, OPERATIONS),
    ]);

    GET "/v1/project" Keys &[], None;
    GET "/v1/project/keys" Keys CONTAINERS, None;
    GET "/v1/project/keys/{key}" Keys &[], None;
    DELETE "/v1/project/keys/{key}" Keys &[], None;

    GET "/v1/functions" Keys CONTAINERS, None;
    POST "/v1/functions" Keys &[], Some(&[
        needed("functionId", Takes::Id, r#""new""#), needed("name", Takes::Name, r#""N""#),
        needed("runtime", RUNTIME, r#""node-20.0""#), EXECUTE, EVENTS, SCHEDULE, TIMEOUT, ENABLED,
        LOGGING, ENTRYPOINT, COMMANDS, SCOPES, BUILD, RUN, RETENTION,
    ]);
    GET "/v1/functions/runtimes" Guests &[], None;
    GET "/v1/functions/specifications" Guests &[], None;
    GET "/v1/functions/{function}" Keys &[], None;
    PUT "/v1/functions/{function}" Keys &[], Some(&[
        optional("name", Takes::Name, r#""N""#), optional("runtime", RUNTIME, r#""node-22""#),
        EXECUTE, EVENTS, SCHEDULE, TIMEOUT, ENABLED, LOGGING, ENTRYPOINT, COMMANDS, SCOPES, BUILD,
        RUN, RETENTION,
    ]);
    DELETE "/v1/functions/{function}" Keys &[], None;
    GET "/v1/functions/{function}/variables" Keys CONTAINERS, None;
    POST "/v1/functions/{function}/variables" Keys &[], Some(&[
        optional("variableId", Takes::Id, r#""new""#), needed("key", VARIABLE_KEY, r#""NEW""#),
        needed("value", VALUE, r#""x""#), SECRET,
    ]);
    GET "/v1/functions/{function}/variables/{variable}" Keys &[], None;
    PUT "/v1/functions/{function}/variables/{variable}" Keys &[], Some(&[
        optional("key", VARIABLE_KEY, r#""W""#), optional("value", VALUE, r#""x""#), SECRET,
    ]);
    DELETE "/v1/functions/{function}/variables/{variable}" Keys &[], None;
    GET "/v1/functions/{function}/deployments" Keys CONTAINERS, None;
    GET "/v1/tidemark/functions/{function}/options" Keys &[], None;
    GET "/v1/tidemark/functions/{function}/output" Keys &[], None;
    PATCH "/v1/tidemark/functions/{function}/options" Keys &[], Some(&[
        of_function("concurrency", OfFunction::Number(1, 256), "5"),
        of_function("network", OfFunction::Network, r#""outside""#),
        of_function("recordsMax", OfFunction::Number(1, 10_000_000), "5"),
        of_function("recordsDays", OfFunction::Number(1, 3_650), "5"),
        of_function("recordsBytesMax", OfFunction::Number(1 << 20, 1 << 40), "5000000"),
    ]);

    GET "/v1/tidemark/openapi.json" All &[], None;
    POST "/v1/tidemark/databases/{database}/batch/reads" Guests &[], Some(&[
        needed("reads", Takes::Reads, r#"[{"tableId":"t","ids":["r1"]}]"#),
    ]);
    GET "/v1/tidemark/status" Guests &[], None;
    POST "/v1/tidemark/databases/{database}/heartbeat" Guests &[], None;
    POST "/v1/tidemark/databases/{database}/transactions" Keys &[], Some(&[
        needed("ops", Takes::Ops, r#"[{"op":"patch","table":"t","id":"new","doc":{"n":5}}]"#),
        optional("meta", Takes::Meta, r#"{"why":"x"}"#), optional("minMark", Takes::PastTime, "1"),
    ]);
    POST "/v1/tidemark/databases/{database}/undo" Keys &[], Some(&[
        needed("after", Takes::PastTime, "1"), optional("user", Takes::Words, r#""nobody""#),
        optional("until", Takes::PastTime, "5"), optional("meta", Takes::Meta, r#"{"why":"x"}"#),
        optional("dryRun", Takes::Flag, "true"),
    ]);
    POST "/v1/tidemark/databases/{database}/reads" Keys &[], Some(&[
        needed("kind", Takes::ReadKind, r#""get""#),
        needed("table", Takes::RelatedTable, r#""t""#), needed("id", Takes::Id, r#""r1""#),
        optional("vt", Takes::Time, "5"), optional("tt", Takes::PastTime, "5"),
        optional("full", Takes::Flag, "true"), optional("reads", Takes::TimedReads, ""),
    ]);
    GET "/v1/tidemark/databases/{database}/tables/{table}/constraints" Keys &[], None;
    PUT "/v1/tidemark/databases/{database}/tables/{table}/constraints" Keys &[], Some(&[
        optional("unique", Takes::UniqueKeys, r#"[["s"]]"#),
        optional("refs", Takes::References, r#"[{"column":"spare","table":"t"}]"#),
    ]);
    POST "/v1/tidemark/databases/{database}/tables/{table}/constraints" Keys &[], Some(&[
        optional("unique", Takes::UniqueKeys, r#"[["s"]]"#),
        optional("refs", Takes::References, r#"[{"column":"spare","table":"t"}]"#),
    ]);
    DELETE "/v1/tidemark/databases/{database}/tables/{table}/constraints" Keys &[], Some(&[
        optional("unique", Takes::UniqueKeys, r#"[["s"]]"#),
        optional("refs", Takes::References, r#"[{"column":"spare","table":"t"}]"#),
    ]);
    POST "/v1/tidemark/databases/{database}/batch/writes" Guests &[], Some(&[
        needed("operations", Takes::BatchOperations, BATCH_OPERATIONS),
        optional("atomic", Takes::Flag, "true"),
    ]);
    GET "/v1/tidemark/databases/{database}/tables/{table}/options" Keys &[], None;
    GET "/v1/tidemark/databases/{database}/tables/{table}/explain" Keys &[], None;
    PATCH "/v1/tidemark/databases/{database}/tables/{table}/options" Keys &[], Some(&[
        optional("pinnedMaxAge", Takes::KeptAge, "60"),
        optional("history", Takes::History, r#""days(7)""#),
        optional("past", Takes::Past, r#""keys""#),
        optional("ttlMax", Takes::Ttl, "600"),
    ]);
};

/// Every row of the table.
pub fn specs() -> impl Iterator<Item = &'static Spec> {
    SPECS.iter().chain(COLUMNS).chain(RELATIONS)
}
