//! The built-in HTTP/1.1 client of `seed`, `bench`, `import` and the admin socket: one kept-alive
//! connection, one request at a time. Over TLS it believes whom the system believes, or the file
//! that `SSL_CERT_FILE` names. Waiting for any peer ends, and so does reading them.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where a server answers: `http[s]://host[:port]/v1`, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether it answers over TLS.
    is_secure: bool,
    /// `host:port`, the port always written.
    authority: String,
    /// What stands before every route, such as `/v1`.
    path: String,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        Endpoint::read(text, "http://host:port/v1 or https://host/v1")
    }
}

impl Endpoint {
    /// Reads one; `form` is what a text that cannot be read should have been.
    ///
    /// # Errors
    /// What is wrong with the text, and the form.
    pub fn read(text: &str, form: &str) -> Result<Endpoint, String> {
        let not_of_form = || format!("`{text}` is not of the form {form}");
        let (rest, is_secure) = text
            .strip_prefix("http://")
            .map(|rest| (rest, false))
            .or_else(|| text.strip_prefix("https://").map(|rest| (rest, true)))
            .ok_or_else(not_of_form)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = path.trim_end_matches('/').to_owned();
        let uri: hyper::Uri = format!("http://{authority}{path}")
            .parse()
            .map_err(|error| format!("`{text}` is not a URL: {error}"))?;
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| format!("`{text}` names no host"))?;
        let port = match authority.strip_prefix(host) {
            Some("") => Some(if is_secure { 443 } else { 80 }),
            Some(port) => port
                .strip_prefix(':')
                .and_then(|port| port.parse::<u16>().ok()),
            None => None,
        };
        let port = port.ok_or_else(not_of_form)?;
        Ok(Endpoint {
            is_secure,
            authority: format!("{host}:{port}"),
            path,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl Endpoint {
    /// The same routes at another `host:port`, without TLS.
    #[must_use]
    pub fn at(&self, address: std::net::SocketAddr) -> Endpoint {
        Endpoint {
            is_secure: false,
            authority: address.to_string(),
            path: self.path.clone(),
        }
    }

    /// The host, without the brackets of an IPv6 address.
    fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// What stands before every route, such as `/v1`; without a slash at its end.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same server, without `end` where its path ends so.
    #[must_use]
    pub fn without(mut self, end: &str) -> Endpoint {
        if let Some(rest) = self.path.strip_suffix(end) {
            self.path = rest.to_owned();
        }
        self
    }

    /// `host:port`
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// A server and the right to use it.
#[derive(Clone)]
pub struct Access {
    /// Where it answers.
    pub endpoint: Endpoint,
    /// The project's id.
    pub project: HeaderValue,
    /// The secret of an API key; marked sensitive, so that no debug output shows it.
    pub key: HeaderValue,
}

impl Access {
    /// A request on `route` (such as `/tablesdb`), with `body` as JSON where there is one.
    ///
    /// # Errors
    /// When `route` cannot stand in a URL.
    pub fn request(
        &self,
        method: Method,
        route: &str,
        body: Option<String>,
    ) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{route}", self.endpoint.path))
            .header(HOST, &self.endpoint.authority)
            .header("x-appwrite-project", &self.project)
            .header("x-appwrite-key", &self.key);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        Ok(request.body(Full::from(body.unwrap_or_default()))?)
    }
}

/// What an exchange may take.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// To connect, and to agree on TLS.
    connecting: Duration,
    /// From a request to the head of its answer.
    head: Duration,
    /// Between two pieces of a body.
    silence: Duration,
    /// From a request to the end of its answer.
    whole: Duration,
    /// Of a body.
    bytes_max: usize,
}

/// A server of ours answers within `--read-limit-ms`, 10 s unless configured otherwise, or after a
/// change of a large table; the largest answer is a page of rows that hold a megabyte each.
const BOUNDS: Bounds = Bounds {
    connecting: Duration::from_secs(10),
    head: Duration::from_mins(2),
    silence: Duration::from_secs(30),
    whole: Duration::from_mins(5),
    bytes_max: 256 << 20,
};

/// Why an exchange came to nothing.
#[derive(Debug)]
pub enum Broken {
    /// The connection broke, or what came is no HTTP.
    Connection(hyper::Error),
    /// It took too long.
    Slow {
        /// What was waited for.
        what: &'static str,
        /// How long.
        limit: Duration,
    },
    /// The answer has more bytes than are read.
    Large {
        /// How many are.
        bytes_max: usize,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Connection(error) => write!(f, "the connection broke: {error}"),
            Broken::Slow { what, limit } => {
                write!(
                    f,
                    "waited {} ms for {what}, and no longer",
                    limit.as_millis()
                )
            }
            Broken::Large { bytes_max } => {
                write!(
                    f,
                    "the answer has more than {bytes_max} bytes, which is not read"
                )
            }
        }
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Broken::Connection(error) => Some(error),
            Broken::Slow { .. } | Broken::Large { .. } => None,
        }
    }
}

impl From<hyper::Error> for Broken {
    fn from(error: hyper::Error) -> Broken {
        Broken::Connection(error)
    }
}

async fn within<F: Future>(
    limit: Duration,
    what: &'static str,
    work: F,
) -> Result<F::Output, Broken> {
    let done = tokio::time::timeout(limit, work).await;
    done.map_err(|_| Broken::Slow { what, limit })
}

/// One open connection. Requests go one after the other.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    bounds: Bounds,
    /// What each request carries, if the server asks for it.
    authorization: Option<HeaderValue>,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Client {
    /// Connects by TCP, and over it by TLS where the endpoint says so.
    ///
    /// # Errors
    /// When no server listens there, or none that can prove to be that host; the text says what to
    /// check.
    pub async fn connect(endpoint: &Endpoint) -> Result<Client> {
        Client::connect_within(endpoint, BOUNDS).await
    }

    async fn connect_within(endpoint: &Endpoint, bounds: Bounds) -> Result<Client> {
        let connecting = connect(endpoint);
        let connected = within(bounds.connecting, "a connection", connecting).await;
        let client = connected.with_context(|| format!("cannot connect to {endpoint}"))??;
        Ok(Client { bounds, ..client })
    }

    /// Speaks HTTP over a stream that is connected already.
    ///
    /// # Errors
    /// When the stream fails at once.
    pub async fn over<S>(stream: S) -> Result<Client>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // The sender learns of the failure from its request.
            drop(connection.await);
        });
        Ok(Client {
            sender,
            bounds: BOUNDS,
            authorization: None,
        })
    }

    /// Has each request carry this header `Authorization`.
    #[must_use]
    pub fn authorized(self, authorization: Option<HeaderValue>) -> Client {
        Client {
            authorization,
            ..self
        }
    }

    /// Sends a request and reads its answer to the end.
    ///
    /// # Errors
    /// When the connection breaks, the answer is too large, or waiting for it too long.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, Broken> {
        let (whole, what) = (self.bounds.whole, "the end of the answer");
        within(whole, what, self.exchange(request)).await?
    }

    async fn exchange(&mut self, mut request: Request<Full<Bytes>>) -> Result<Answer, Broken> {
        if let Some(authorization) = &self.authorization {
            let headers = request.headers_mut();
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        self.sender.ready().await?;
        let answer = self.sender.send_request(request);
        let answer = within(self.bounds.head, "an answer", answer).await??;
        let (head, body) = answer.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: self.bounds.read(body).await?,
        })
    }

    /// Calls a route with a JSON body, and returns the answer whatever its status.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn call(
        &mut self,
        access: &Access,
        method: Method,
        route: &str,
        body: Option<String>,
    ) -> Result<Answer> {
        let what = format!("{method} {}{route}", access.endpoint);
        let request = access.request(method, route, body)?;
        self.send(request)
            .await
            .with_context(|| format!("{what}: no answer that can be used"))
    }
}

impl Bounds {
    async fn read(&self, mut body: Incoming) -> Result<Bytes, Broken> {
        // Most come in one piece, which needs no copy.
        let (mut first, mut rest) = (Bytes::new(), Vec::new());
        let what = "more of the answer";
        while let Some(frame) = within(self.silence, what, body.frame()).await? {
            let Ok(piece) = frame?.into_data() else {
                continue;
            };
            if first.len() + rest.len() + piece.len() > self.bytes_max {
                let bytes_max = self.bytes_max;
                return Err(Broken::Large { bytes_max });
            }
            if first.is_empty() {
                first = piece;
            } else {
                rest.extend_from_slice(&piece);
            }
        }
        Ok(if rest.is_empty() {
            first
        } else {
            [&*first, &rest].concat().into()
        })
    }
}

async fn connect(endpoint: &Endpoint) -> Result<Client> {
    let stream = TcpStream::connect(&endpoint.authority)
        .await
        .map_err(|error| {
            anyhow!("cannot connect to {endpoint}: {error}. Is a server running there?")
        })?;
    // A request is one small packet: waiting for more to send would only add to its time.
    stream.set_nodelay(true)?;
    if !endpoint.is_secure {
        return Client::over(stream).await;
    }
    let host = endpoint.host().to_owned();
    let name = ServerName::try_from(host).with_context(|| format!("{endpoint}"))?;
    let connector = TlsConnector::from(Arc::new(tls()?));
    let stream = connector.connect(name, stream).await.map_err(|error| {
        anyhow!(
            "{endpoint} did not prove to be that host: {error}. If its certificate is of an \
             authority of your own, name its file in SSL_CERT_FILE."
        )
    })?;
    Client::over(stream).await
}

/// TLS to servers whose certificates the system believes.
fn tls() -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // A file of many may hold some that cannot be read; none at all is a fault of the system.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        bail!(
            "no certificates of authorities were found on this system. Install the package \
             ca-certificates, or name a file in SSL_CERT_FILE."
        );
    }
    Ok(
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth(),
    )
}

impl Answer {
    /// The body as JSON, if the status says that the request succeeded.
    ///
    /// # Errors
    /// The server's own message otherwise, after `what` was tried.
    pub fn accepted(&self, what: &str) -> Result<Value> {
        if self.status.is_success() {
            return self.json(what);
        }
        let message = self
            .refusal()
            .unwrap_or_else(|| format!("status {}", self.status));
        Err(anyhow!("{what}: the server refused: {message}"))
    }

    /// As [`Answer::accepted`], with `None` for what does not exist.
    ///
    /// # Errors
    /// As [`Answer::accepted`], 404 apart.
    pub fn found(&self, what: &str) -> Result<Option<Value>> {
        if self.status == StatusCode::NOT_FOUND {
            // A missing project is 404, too, but a mistake in the id that was given.
            return match self.refusal() {
                Some(message) if message.contains("project_not_found") => bail!("{message}"),
                _ => Ok(None),
            };
        }
        self.accepted(what).map(Some)
    }

    fn json(&self, what: &str) -> Result<Value> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).with_context(|| format!("{what}: no JSON came back"))
    }

    fn refusal(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let member = |name: &str| body.get(name).and_then(Value::as_str);
        let message = member("message")?;
        let kind = member("type").map(|kind| format!(" ({kind})"));
        let detail = member("detail").map(|detail| format!(": {detail}"));
        let [kind, detail] = [kind, detail].map(Option::unwrap_or_default);
        Some(format!("{message}{kind}{detail}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// Bounds that end a test soon.
    const TIGHT: Bounds = Bounds {
        connecting: Duration::from_millis(50),
        head: Duration::from_millis(50),
        silence: Duration::from_millis(50),
        whole: Duration::from_mins(10),
        bytes_max: 10,
    };

    /// What comes of a request to a server that says `said` and then nothing, and stays.
    fn exchange(said: &'static str, scheme: &str, bounds: Bounds) -> Result<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.read_u8().await.unwrap();
                stream.write_all(said.as_bytes()).await.unwrap();
                std::future::pending::<()>().await;
            });
            let endpoint = format!("{scheme}://{address}/v1").parse().unwrap();
            let mut client = Client::connect_within(&endpoint, bounds).await?;
            let answer = client.send(Request::get("/").body(Full::default())?).await;
            server.abort();
            Ok(answer?)
        })
    }

    #[test]
    fn server_that_does_not_answer_is_waited_for_up_to_the_limit() {
        let check = |said: &'static str, scheme: &str, bounds: Bounds, part: &str| {
            let error = exchange(said, scheme, bounds).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(part), "{error}");
        };
        check("", "https", TIGHT, "50 ms for a connection");
        check("", "http", TIGHT, "50 ms for an answer");
        let begun = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbegun";
        check(begun, "http", TIGHT, "50 ms for more of the answer");
        let short = Bounds {
            silence: Duration::from_mins(10),
            whole: Duration::from_millis(50),
            ..TIGHT
        };
        check(begun, "http", short, "50 ms for the end of the answer");
    }

    #[test]
    fn an_answer_is_read_up_to_its_bound() {
        let ten = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789";
        assert_eq!(exchange(ten, "http", TIGHT).unwrap().body, "0123456789");
        let pieces = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                      5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n";
        assert_eq!(exchange(pieces, "http", TIGHT).unwrap().body, "0123456789");
        let more = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n0123456789x";
        let error = exchange(more, "http", TIGHT).unwrap_err().to_string();
        assert!(error.contains("more than 10 bytes"), "{error}");
    }

    #[test]
    fn endpoints_are_read_and_written() {
        for (text, written) in [
            ("http://127.0.0.1:8280/v1", "http://127.0.0.1:8280/v1"),
            ("http://localhost/v1/", "http://localhost:80/v1"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("https://cloud.example/v1", "https://cloud.example:443/v1"),
            ("https://localhost:8280/v1", "https://localhost:8280/v1"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn other_endpoints_are_refused_with_the_form_that_is_wanted() {
        let error = "ftp://cloud.example/v1".parse::<Endpoint>().unwrap_err();
        assert!(error.contains("http://host:port/v1"), "{error}");
        for text in [
            "https://",
            "",
            "http://",
            "http:///v1",
            "http://a b/v1",
            "http://h:99999/v1",
            "http://u@h/",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    fn answer(status: StatusCode, body: &'static str) -> Answer {
        Answer {
            status,
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    #[test]
    fn a_refusal_carries_the_message_and_type_the_server_sent() {
        let refused = answer(
            StatusCode::UNAUTHORIZED,
            r#"{"message":"No.","type":"general_unauthorized_scope","code":401}"#,
        );
        let error = refused
            .accepted("creating the table")
            .unwrap_err()
            .to_string();
        let wanted = "creating the table: the server refused: No. (general_unauthorized_scope)";
        assert_eq!(error, wanted);
    }

    #[test]
    fn only_a_missing_thing_is_none_a_missing_project_is_an_error() {
        let table = r#"{"message":"No table.","type":"table_not_found"}"#;
        let project = r#"{"message":"No project.","type":"project_not_found"}"#;
        assert_eq!(
            answer(StatusCode::NOT_FOUND, table).found("x").unwrap(),
            None
        );
        assert!(answer(StatusCode::NOT_FOUND, project).found("x").is_err());
        assert_eq!(
            answer(StatusCode::OK, "5").found("x").unwrap(),
            Some(Value::from(5))
        );
    }
}
