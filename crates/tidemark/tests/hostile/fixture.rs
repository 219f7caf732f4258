//! A server with something to lose: a database with a table of every kind of column and some
//! rows. What it holds is read before and after.

use std::cell::Cell;
use std::fs;

use super::process::{Folder, json_of, launch, on};
use testing::{ChildServer, Credentials, RawAnswer, RawClient, ServerLog};

/// The database that must not change.
pub const DATABASE: &str = "d";
/// A column of each kind, by a name short enough for tables of cases.
const COLUMNS: &str = r#"[
    {"key":"n","type":"integer"},
    {"key":"i","type":"integer","max":2147483647},
    {"key":"big","type":"bigint"},
    {"key":"f","type":"float"},
    {"key":"b","type":"boolean"},
    {"key":"s","type":"varchar","size":64},
    {"key":"long","type":"text"},
    {"key":"at","type":"datetime"},
    {"key":"mail","type":"email"},
    {"key":"site","type":"url"},
    {"key":"ip","type":"ip"},
    {"key":"choice","type":"enum","elements":["a","b"]},
    {"key":"tags","type":"varchar","size":9,"array":true},
    {"key":"spare","type":"varchar","size":9},
    {"key":"old","type":"string","size":9},
    {"key":"medium","type":"mediumtext"},
    {"key":"huge","type":"longtext"}
]"#;
const INDEXES: &str = r#"[
    {"key":"by_n","type":"key","attributes":["n"]},
    {"key":"one_s","type":"unique","attributes":["s"]}
]"#;
/// Ids of the rows of each table.
pub const ROWS: [&str; 3] = ["r1", "r2", "r3"];

thread_local! {
    /// The latest transaction of the fixture of this thread.
    static TRANSACTION: Cell<&'static str> = const { Cell::new("none") };
    /// A key of the fixture of this thread that no client uses.
    static SPARE_KEY: Cell<&'static str> = const { Cell::new("none") };
}

/// A transaction that is open.
pub fn open_transaction() -> &'static str {
    TRANSACTION.get()
}

/// The id of a key that is of no use to any caller.
pub fn spare_key() -> &'static str {
    SPARE_KEY.get()
}

/// A running server and a client of it.
pub struct Fixture {
    pub client: RawClient,
    server: ChildServer,
    folder: Folder,
}

impl Fixture {
    pub fn new() -> Fixture {
        let folder = Folder::new();
        let log = folder.join("log");
        // Nothing here asks what survives a power cut.
        let env = [("TIDEMARK_DURABILITY", "normal")];
        let server = launch(&folder, &env, ServerLog::File(&log));
        let key = server.key.clone().expect("a first start prints its key");
        let client = RawClient::new(server.port(), &server.projects[0], &key);
        let mut fixture = Fixture {
            client,
            server,
            folder,
        };
        fixture.furnish(DATABASE);
        SPARE_KEY.set(fixture.cli_key("rows.read", "id").leak());
        fixture
    }

    /// Asks with the key.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> RawAnswer {
        self.client
            .ask(Credentials::Key, method, path, body.as_bytes())
    }

    /// As [`Fixture::ask`]; what is refused fails the test.
    #[track_caller]
    pub fn make(&mut self, method: &str, path: &str, body: &str) -> RawAnswer {
        let answer = self.ask(method, path, body);
        assert!(answer.status < 300, "{method} {path} {body}: {answer:?}");
        answer
    }

    /// A database with the table `t` and its rows, and the table `p`, related to itself, with two
    /// rows; and the function `f` with its variable `v`, where these are not there.
    pub fn furnish(&mut self, database: &str) {
        let function = r#"{"functionId":"f","name":"F","runtime":"node-20.0"}"#;
        self.ask("POST", "/v1/functions", function);
        let variable = r#"{"variableId":"v","key":"V","value":"v","secret":false}"#;
        self.ask("POST", "/v1/functions/f/variables", variable);
        let body = format!(r#"{{"databaseId":"{database}","name":"D"}}"#);
        self.make("POST", "/v1/tablesdb", &body);
        self.open_transaction();
        let body = format!(
            r#"{{"tableId":"t","name":"T","permissions":["read(\"any\")"],"rowSecurity":true,
                "columns":{COLUMNS},"indexes":{INDEXES}}}"#
        );
        self.make("POST", &format!("/v1/tablesdb/{database}/tables"), &body);
        let tables = format!("/v1/tablesdb/{database}/tables");
        let related = r#"{"relatedTableId":"p","type":"manyToOne","key":"rel"}"#;
        self.make("POST", &tables, r#"{"tableId":"p","name":"P"}"#);
        let path = format!("{tables}/p/columns/relationship");
        self.make("POST", &path, related);
        for body in [
            r#"{"rowId":"p1","data":{"rel":null}}"#,
            r#"{"rowId":"r1","data":{"rel":"p1"}}"#,
        ] {
            self.make("POST", &format!("{tables}/p/rows"), body);
        }
        for (place, id) in ROWS.iter().enumerate() {
            let body = format!(r#"{{"rowId":"{id}","data":{{"n":{place},"s":"{id}","f":0.5}}}}"#);
            self.make(
                "POST",
                &format!("/v1/tablesdb/{database}/tables/t/rows"),
                &body,
            );
        }
    }

    /// Opens a transaction for [`open_transaction`].
    fn open_transaction(&mut self) {
        let made = self.make("POST", "/v1/tablesdb/transactions", r#"{"ttl":3600}"#);
        let id = made.json()["$id"].as_str().unwrap().to_owned();
        TRANSACTION.set(id.leak());
    }

    /// A client with a new key of these scopes.
    pub fn new_key(&self, scopes: &str) -> RawClient {
        let secret = self.cli_key(scopes, "secret");
        RawClient::new(self.server.port(), &self.server.projects[0], &secret)
    }

    /// Makes a key of these scopes and says this of it.
    fn cli_key(&self, scopes: &str, wanted: &str) -> String {
        let project = &self.server.projects[0];
        let create = format!("key create --project {project} --scopes {scopes} --json");
        let key = json_of(&on(&self.folder, &create));
        key[wanted].as_str().unwrap().to_owned()
    }

    /// Everything the project holds apart from databases other than [`DATABASE`]: schema,
    /// rows, times of change.
    pub fn held(&mut self) -> String {
        let mut held = String::new();
        let all = r#"?queries[0]={"method":"limit","values":[5000]}"#.replace('"', "%22");
        let database = format!("/v1/tablesdb/{DATABASE}");
        for path in [
            "/v1/project/keys".to_owned(),
            format!("/v1/functions{all}"),
            "/v1/tidemark/functions/f/options".to_owned(),
            format!("/v1/tablesdb{all}"),
            database.clone(),
            format!("{database}/tables{all}"),
            format!("{database}/tables/t"),
            format!("{database}/tables/t/rows{all}"),
            format!("{database}/tables/p/rows{all}"),
        ] {
            held += &self.make("GET", &path, "").text;
            held.push('\n');
        }
        held
    }

    /// Ends the server as an operator does, and looks for what must not be in its log.
    pub fn end(self) {
        let Fixture { server, folder, .. } = self;
        server.stop().expect("the server ends in order");
        let log = fs::read_to_string(folder.join("log")).unwrap();
        for word in ["panic", "a request failed", "ERROR"] {
            let line = log.lines().find(|line| line.contains(word));
            assert!(line.is_none(), "the log says: {line:?}");
        }
    }
}
