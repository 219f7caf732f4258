//! A real engine on a temporary directory behind a real port, and a client that speaks HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use engine::{
    Clock, Config, Durability, Engine, LongReads, NewKey, Quotas, StorePlace, TransactionsBound,
};
use http_body_util::{BodyExt, Full};
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use model::{KeyId, ProjectId, Scope, TableOptions, Timestamp};
use serde_json::{Value, json};
use server::http::head::forwarded::TrustedProxies;
use server::http::state::counts::Counts;
use server::http::state::test_clock::SetClock;
use server::http::wire;
use server::secret::sha256;
use server::serve::tls::TlsFiles;
use server::serve::{self, Drained, Limits, ServeConfig};
use server::telemetry::Telemetry;
use testing::WallClock;
use tokio::sync::oneshot;

use crate::place;

pub const PROJECT: &str = "p";
pub const KEY: &str = "standard_key";
/// A key that may read and write rows and nothing else.
pub const ROWS_KEY: &str = "standard_rows";

pub const LIMITS: Limits = Limits {
    connections_max: 100,
    head_bytes_max: 65_536,
    body_bytes_max: 1_000_000,
    bodies_bytes_max: 50_000_000,
    guest_rate: 0,
    guest_executions: 100,
    guest_executions_bytes_max: 32 << 20,
    guest_bodies_bytes_max: 50_000_000,
    answer_bytes_max: 30_000_000,
    answers_bytes_max: 100_000_000,
    head_ms: 60_000,
    body_ms: 60_000,
    idle_ms: 60_000,
    rate_bytes_min: 1_000,
    stream_ms: 60_000,
    drain_ms: 60_000,
};

/// Room for more guests than the default: all tests come from one address.
pub const QUOTAS: Quotas = Quotas {
    guest_transactions: TransactionsBound {
        open: 600,
        bytes: 32 << 20,
    },
    ..Quotas::NONE
};

const LONG_READS: LongReads = LongReads {
    after_us: 1_000,
    threads: 2,
    waiting_max: 100,
};

fn rng(bytes: &mut [u8]) {
    getrandom::fill(bytes).unwrap();
}

fn config(place: StorePlace) -> Config {
    Config {
        place,
        durability: Durability::Normal,
        reader_cache_bytes: 1 << 20,
        read_limit_ms: 15_000,
        long_reads: LONG_READS,
        page_rows_default: 25,
        page_rows_max: 5_000,
        answer_bytes_max: LIMITS.answer_bytes_max,
        total_cap: 5_000,
        list_cache_bytes: 1 << 20,
        writes_waiting_max: 1_000,
        accept_clock: false,
        downtime_max_us: 90 * 24 * 3_600 * 1_000_000,
        quotas: QUOTAS,
        new_tables: TableOptions::default(),
        encode_row: wire::encode_row,
        encode_page: wire::encode_page,
    }
}

/// A running server. Stops when it is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    pub runtime: tokio::runtime::Runtime,
    pub engine: Arc<Engine>,
    watch: Arc<Telemetry>,
    clock: Arc<WallClock>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Drained>>,
    directory: Option<tempfile::TempDir>,
    place: StorePlace,
    quotas: Quotas,
}

/// Where a server keeps what it has.
struct Kept {
    directory: tempfile::TempDir,
    place: StorePlace,
}

impl Kept {
    fn new() -> Kept {
        let directory = tempfile::tempdir().unwrap();
        let place = place::choose(directory.path());
        Kept { directory, place }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    /// The body; null when it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// A header's text; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Status and type, as `404 row_not_found`; the status alone without a type.
    pub fn refusal(&self) -> String {
        let kind = self.json()["type"].as_str().unwrap_or_default().to_owned();
        format!("{} {kind}", self.status.as_u16())
            .trim_end()
            .to_owned()
    }
}

impl TestServer {
    pub fn start() -> TestServer {
        TestServer::start_with(LIMITS)
    }

    pub fn start_with(limits: Limits) -> TestServer {
        TestServer::open(limits, None, LONG_READS)
    }

    /// With a database `d` and this table.
    pub fn start_with_table(table: &Value) -> TestServer {
        let server = TestServer::start();
        let database = json!({"databaseId": "d", "name": "D"});
        server.make("POST", "/v1/tablesdb", &database);
        server.make("POST", "/v1/tablesdb/d/tables", table);
        server
    }

    /// With a database `d`, its table `t` that any caller may read, an index of its column `n`, and
    /// the row `r`.
    pub fn start_with_row() -> TestServer {
        let server = TestServer::start_with_table(&json!({
            "tableId": "t", "name": "T", "permissions": ["read(\"any\")"],
            "columns": [{"key": "n", "type": "integer"}],
            "indexes": [{"key": "i", "type": "key", "attributes": ["n"]}],
        }));
        let row = json!({"rowId": "r", "data": {"n": 1}});
        server.make("POST", "/v1/tablesdb/d/tables/t/rows", &row);
        server
    }

    /// Its clock is set by the requests.
    pub fn start_with_test_clock() -> TestServer {
        let machine = WallClock::start();
        TestServer::open_by(
            LIMITS,
            None,
            LONG_READS,
            Some(SetClock::over(machine)),
            QUOTAS,
        )
    }

    /// Answers by TLS only.
    pub fn start_secret(limits: Limits, files: TlsFiles) -> TestServer {
        TestServer::open(limits, Some(files), LONG_READS)
    }

    /// Treats long reads in this way.
    pub fn start_reading(long_reads: LongReads) -> TestServer {
        TestServer::open(LIMITS, None, long_reads)
    }

    /// Believes the proxy that connects when it names the client.
    pub fn start_behind_a_proxy() -> TestServer {
        let (kept, proxies) = (Kept::new(), TrustedProxies::Hops(1));
        let server = TestServer::over(kept, LIMITS, None, LONG_READS, None, QUOTAS, proxies);
        server.runtime.block_on(create_project(&server.engine));
        server
    }

    /// Bounds what callers and projects may take.
    pub fn start_within(quotas: Quotas) -> TestServer {
        TestServer::open_by(LIMITS, None, LONG_READS, None, quotas)
    }

    fn open(limits: Limits, tls: Option<TlsFiles>, long_reads: LongReads) -> TestServer {
        TestServer::open_by(limits, tls, long_reads, None, QUOTAS)
    }

    fn open_by(
        limits: Limits,
        tls: Option<TlsFiles>,
        long_reads: LongReads,
        test_clock: Option<Arc<SetClock>>,
        quotas: Quotas,
    ) -> TestServer {
        let (kept, proxies) = (Kept::new(), TrustedProxies::None);
        let server = TestServer::over(kept, limits, tls, long_reads, test_clock, quotas, proxies);
        server.runtime.block_on(create_project(&server.engine));
        server
    }

    /// Where its data is.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.as_ref().unwrap().path()
    }

    /// Ends it, and starts another one on what it left.
    pub fn restart(self) -> TestServer {
        self.restart_after(|_| ())
    }

    /// The same, once `meanwhile` was done to its directory.
    pub fn restart_after(mut self, meanwhile: impl FnOnce(&std::path::Path)) -> TestServer {
        self.stop();
        meanwhile(self.directory());
        let kept = Kept {
            directory: self.directory.take().unwrap(),
            place: self.place.clone(),
        };
        let quotas = self.quotas;
        let proxies = TrustedProxies::None;
        TestServer::over(kept, LIMITS, None, LONG_READS, None, quotas, proxies)
    }

    fn over(
        Kept { directory, place }: Kept,
        limits: Limits,
        tls: Option<TlsFiles>,
        long_reads: LongReads,
        test_clock: Option<Arc<SetClock>>,
        quotas: Quotas,
        proxies: TrustedProxies,
    ) -> TestServer {
        let clock = WallClock::start();
        let config = Config {
            long_reads,
            quotas,
            answer_bytes_max: limits.answer_bytes_max,
            ..config(place.clone())
        };
        let of_engine: Arc<dyn Clock> = match &test_clock {
            Some(test_clock) => test_clock.clone(),
            None => clock.clone(),
        };
        let engine = match &place {
            StorePlace::Directory(_) => Engine::open(config, of_engine),
            StorePlace::Database(_) => {
                Engine::open_database(&config, (None, directory.path()), of_engine)
            }
        };
        let engine = engine.unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (bound, address) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let counts = Counts::new(2);
        let watch = Telemetry::new(engine.clone(), counts.clone(), 1 << 20, clock.clone());
        let http = ServeConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            threads: 2,
            limits,
            origins: vec!["*.example.com".to_owned()],
            proxies,
            tls,
            access_log: true,
            counts,
            traces: None,
            functions: Err("none are executed in this test".to_owned()),
            clock: clock.clone(),
            test_clock,
            rng,
            collect: |_| {},
        };
        let served = engine.clone();
        let thread = std::thread::spawn(move || {
            let told = |address| bound.send(address).map_err(std::io::Error::other);
            let shutdown = async { drop(stopped.await) };
            serve::run(http, served, told, shutdown).unwrap()
        });
        TestServer {
            address: address.recv().unwrap(),
            runtime,
            engine,
            watch: Arc::new(watch),
            clock,
            stop: Some(stop),
            thread: Some(thread),
            directory: Some(directory),
            place,
            quotas,
        }
    }

    /// Shuts the server down and waits for its end.
    pub fn stop(&mut self) -> Drained {
        self.stop.take().map(|stop| stop.send(()));
        let drained = self.thread.take().unwrap().join().unwrap();
        self.engine.close().unwrap();
        drained
    }

    /// From now on cached answers grow no older by themselves.
    pub fn hold_ages(&self) {
        self.clock.hold();
    }

    /// Puts the server's clock forward.
    pub fn skip_s(&self, seconds: i64) {
        let by_us = seconds * 1_000_000;
        self.clock.put_forward_us(by_us);
    }

    /// Puts a key with this id, secret and scopes in the place of the one that has them now.
    pub fn replace_key(&self, id: &str, secret: &str, scopes: &[Scope]) {
        self.revoke(id);
        self.create_scoped_key(id, secret, scopes);
    }

    /// Makes a key with this id, secret and scopes.
    pub fn create_scoped_key(&self, id: &str, secret: &str, scopes: &[Scope]) {
        let created = create_key(&self.engine, id, secret, scopes.to_vec());
        self.runtime.block_on(created);
    }

    /// Makes a key that may read and write rows, and expires so many seconds from now.
    pub fn create_key_for(&self, id: &str, secret: &str, seconds: i64) {
        let expires = Timestamp(self.clock.now().0 + seconds * 1_000_000);
        let key = NewKey {
            expires: Some(expires),
            ..new_key(id, secret, vec![Scope::RowsRead, Scope::RowsWrite])
        };
        self.runtime.block_on(self.engine.create_key(key)).unwrap();
    }

    /// Revokes the key with this id.
    pub fn revoke(&self, id: &str) {
        let revoked = self.engine.revoke_key(PROJECT, id);
        self.runtime.block_on(revoked).unwrap();
    }

    /// What can be seen of it.
    pub fn watch(&self) -> Arc<Telemetry> {
        self.watch.clone()
    }

    /// Asks it to shut down without waiting.
    pub fn begin_stop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
    }

    /// A connection of its own.
    pub fn connect(&self) -> Connection<'_> {
        let sender = self.runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
            let io = TokioIo::new(stream);
            let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender
        });
        Connection {
            server: self,
            sender,
        }
    }

    /// Asks with the key that may do everything, with no body for null; it must succeed.
    #[track_caller]
    pub fn make(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let made = self.ask(method, path, &body);
        let is_made = made.status.is_success();
        assert!(is_made, "{method} {path}: {} {}", made.status, made.text);
        made
    }

    /// Asks with the project and the key that may do everything.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask_as(Some(KEY), method, path, body)
    }

    /// Asks with the project and this key, or none.
    pub fn ask_as(&self, key: Option<&str>, method: &str, path: &str, body: &str) -> Answer {
        let mut headers = vec![("x-appwrite-project", PROJECT)];
        headers.extend(key.map(|key| ("x-appwrite-key", key)));
        self.ask_with(&headers, method, path, body)
    }

    /// Asks with exactly these headers.
    pub fn ask_with(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: &str,
    ) -> Answer {
        self.connect().ask(headers, method, path, body).unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            self.stop();
        }
    }
}

/// A connection that stays open between requests.
pub struct Connection<'a> {
    server: &'a TestServer,
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
}

impl Connection<'_> {
    pub fn ask(
        &mut self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: &str,
    ) -> hyper::Result<Answer> {
        let method: Method = method.parse().unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        self.server.runtime.block_on(async {
            self.sender.ready().await?;
            let response = self.sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let text = String::from_utf8(bytes.into()).unwrap();
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                text,
            })
        })
    }

    /// Waits until the server has closed it; a server that never does fails the test.
    pub fn until_closed(&mut self) {
        let limit = Duration::from_mins(1);
        self.server.runtime.block_on(async {
            let closed = async {
                while !self.sender.is_closed() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(limit, closed).await.unwrap();
        });
    }
}

async fn create_project(engine: &Engine) {
    let project = ProjectId::new(PROJECT).unwrap();
    engine.create_project(project, "P".into()).await.unwrap();
    let rows = vec![Scope::RowsRead, Scope::RowsWrite];
    for (id, secret, scopes) in [("all", KEY, Scope::ALL.to_vec()), ("rows", ROWS_KEY, rows)] {
        create_key(engine, id, secret, scopes).await;
    }
}

async fn create_key(engine: &Engine, id: &str, secret: &str, scopes: Vec<Scope>) {
    let key = new_key(id, secret, scopes);
    engine.create_key(key).await.unwrap();
}

fn new_key(id: &str, secret: &str, scopes: Vec<Scope>) -> NewKey {
    NewKey {
        project: ProjectId::new(PROJECT).unwrap(),
        id: KeyId::new(id).unwrap(),
        name: id.into(),
        scopes,
        expires: None,
        secret_hash: sha256(secret.as_bytes()),
    }
}
