//! HTTP on a port of this machine, answered by runs of a function.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use functions::{Executor, FunctionOutcome, FunctionWork, RunCause, UnpackedDeployment};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use server::rng::Rng;
use server::secret::draw_id;
use tokio::net::TcpStream;

use super::log_text::{harmless, marked};

/// Of a request and a response (wire protocol, executions).
pub const BODY_BYTES_MAX: usize = 10_485_760;
/// A caller waits no longer (wire protocol, executions).
const WAIT_MAX: Duration = Duration::from_secs(30);
const HEAD_MAX: Duration = Duration::from_secs(10);
const BODY_MAX: Duration = Duration::from_mins(1);
/// Written by the server, not by handlers.
const OWN_HEADERS: [&str; 6] = [
    "connection",
    "content-length",
    "keep-alive",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const EXECUTION: HeaderName = HeaderName::from_static("x-appwrite-execution-id");

/// What answers.
pub struct DevSite {
    executor: Arc<Executor>,
    rng: Rng,
    /// What a handler uses the API with; empty where it has no right to.
    key: String,
    current: Mutex<DevRun>,
}

/// What runs, and for how long at most.
#[derive(Clone)]
pub struct DevRun {
    /// The folder.
    pub deployment: Arc<UnpackedDeployment>,
    /// Of a run.
    pub timeout: Duration,
}

impl DevSite {
    /// A site that answers by `current`.
    pub fn new(executor: Arc<Executor>, rng: Rng, key: String, current: DevRun) -> DevSite {
        DevSite {
            executor,
            rng,
            key,
            current: Mutex::new(current),
        }
    }

    /// Answers by this from now on.
    pub fn replace(&self, current: DevRun) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }

    fn current(&self) -> DevRun {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// Serves one connection to its end.
    pub async fn serve(self: Arc<DevSite>, stream: TcpStream) {
        let service = service_fn(move |request| {
            let site = self.clone();
            async move { Ok::<_, Infallible>(site.answered(request).await) }
        });
        let mut server = http1::Builder::new();
        server
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_MAX);
        // A caller who goes away is no failure.
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answered(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let host = request.headers().get(HOST).map(HeaderValue::as_bytes);
        if !is_of_this_machine(host.unwrap_or_default()) {
            // A page of any site can have its name lead here, and would read the answer.
            let why = "Only localhost and 127.0.0.1 are served here.\n";
            return plain(StatusCode::FORBIDDEN, why);
        }
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect();
        let Ok(Ok(body)) = tokio::time::timeout(BODY_MAX, body).await else {
            let why = format!("A body has at most {BODY_BYTES_MAX} bytes and takes a minute.\n");
            return plain(StatusCode::PAYLOAD_TOO_LARGE, &why);
        };
        let execution = draw_id(self.rng);
        let path = head.uri.path_and_query();
        let path = path.map_or_else(|| "/".to_owned(), ToString::to_string);
        let title = format!("{} {path}", head.method);
        let current = self.current();
        let work = FunctionWork {
            deployment: current.deployment,
            method: head.method.to_string(),
            path,
            headers: self.headers(&head.headers, &execution),
            body: body.to_bytes(),
            timeout: current.timeout,
            wait_max: Some(WAIT_MAX.max(current.timeout)),
        };
        let outcome = match self.executor.run(work).await {
            Ok(outcome) => outcome,
            Err(refusal) => {
                eprintln!("{}  {refusal}", harmless(&title));
                return plain(StatusCode::SERVICE_UNAVAILABLE, &format!("{refusal}\n"));
            }
        };
        let (status, taken) = (outcome.response.status, began.elapsed().as_secs_f64());
        let mut shown = format!("{}  {status}  {taken:.3} s\n", harmless(&title));
        shown += &marked("log", &outcome.logs);
        shown += &marked("error", &outcome.errors);
        eprint!("{shown}");
        response(outcome, &execution)
    }

    /// What the handler sees: no header of a caller's that only the server may give.
    fn headers(&self, sent: &hyper::HeaderMap, execution: &str) -> Vec<(String, String)> {
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in sent {
            let (name, value) = (name.as_str(), String::from_utf8_lossy(value.as_bytes()));
            if name.starts_with("x-appwrite-") || name.starts_with("x-tidemark-") {
                continue;
            }
            match headers.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = format!("{known}, {value}"),
                None => headers.push((name.to_owned(), value.into_owned())),
            }
        }
        let own = [
            ("x-appwrite-execution-id", execution),
            ("x-appwrite-trigger", "http"),
            ("x-appwrite-key", &self.key),
            ("x-appwrite-user-id", ""),
            ("x-appwrite-user-jwt", ""),
            ("x-appwrite-client-ip", "127.0.0.1"),
            ("x-appwrite-country-code", ""),
            ("x-appwrite-continent-code", ""),
            ("x-appwrite-continent-eu", "false"),
            ("x-tidemark-attempt", "1"),
        ];
        headers.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        headers
    }
}

/// `localhost`, `127.0.0.1` or `[::1]`, with any port.
fn is_of_this_machine(host: &[u8]) -> bool {
    let host = String::from_utf8_lossy(host).to_ascii_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => &host,
    };
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

fn response(outcome: FunctionOutcome, execution: &str) -> Response<Full<Bytes>> {
    // A run that failed has no body; the author of the handler wants to see why at once.
    let is_unsaid = outcome.response.status == 500 && outcome.response.body.is_empty();
    if outcome.cause != RunCause::Answered || is_unsaid {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, &outcome.errors);
    }
    let mut response = Response::new(Full::new(outcome.response.body));
    let status = StatusCode::from_u16(outcome.response.status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in outcome.response.headers {
        if OWN_HEADERS.contains(&name.as_str()) {
            continue;
        }
        // The adapter's letters are those of ISO 8859-1.
        let bytes: Vec<u8> = value.chars().map(|letter| letter as u8).collect();
        let (name, value) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(&bytes));
        if let (Ok(name), Ok(value)) = (name, value) {
            response.headers_mut().append(name, value);
        }
    }
    if let Ok(execution) = HeaderValue::from_str(execution) {
        response.headers_mut().insert(EXECUTION, execution);
    }
    response
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_alone_are_served() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:8290",
            "[::1]:1",
            "[::1]",
        ] {
            assert!(is_of_this_machine(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io:80",
            "::1",
        ] {
            assert!(!is_of_this_machine(host.as_bytes()), "{host}");
        }
    }
}
