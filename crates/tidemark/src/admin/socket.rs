//! The server's end of `admin.sock`: HTTP/1.1 over a Unix socket in the data directory.

use std::convert::Infallible;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt as _, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use engine::Engine;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use server::rng::Rng;
use server::secret::{hex, is_same};
use server::telemetry::exposition::Exposition;
use server::telemetry::{Telemetry, listener};
use tokio::net::{UnixListener, UnixStream};
use transfer::port_request::PortResponse;
use transfer::refusal::Refusal;

use super::act;

/// The socket's name in the data directory.
const NAME: &str = "admin.sock";
/// Next to it: what each request carries as `Authorization: Bearer TOKEN`, another one for each
/// server. A function in a jail without a root of its own can connect to the socket, and can read
/// no file of the directory.
const TOKEN: &str = "admin.token";
const TOKEN_BYTES: usize = 32;
/// Where metrics are read here, whatever the settings say: who may open the socket may do more.
const METRICS: &str = "/metrics";
/// What `tidemark top` asks for.
pub const TOP: &str = "/top";
/// What clients of this machine use as their endpoint.
pub const ENDPOINT: &str = "/endpoint";
/// Where it is made, out of everybody's reach, before it takes its name.
const CRADLE: &str = ".admin";
/// Longest path of a socket that all systems take: macOS has 104 bytes, one of them a zero
/// (macOS `unix(4)`; Linux, `unix(7)`, has 108).
const PATH_BYTES_MAX: usize = 103;
/// Requests here are small; whatever is longer is a mistake.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// The bound socket. Its files go when this is dropped.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    token_path: PathBuf,
    authorization: String,
}

/// What the socket's tasks share.
struct Administrator {
    engine: Arc<Engine>,
    watch: Arc<Telemetry>,
    exposition: Arc<Exposition>,
    endpoint: String,
    rng: Rng,
    authorization: String,
}

/// What requests carry to the server that runs on `directory`; `None` where it has told nothing.
///
/// # Errors
/// When it may not be read, or cannot stand in a header.
pub fn authorization(directory: &Path) -> io::Result<Option<HeaderValue>> {
    let token = match fs::read_to_string(directory.join(TOKEN)) {
        Ok(token) => token,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut value = HeaderValue::try_from(bearer(token.trim())).map_err(io::Error::other)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// The path of the socket in `directory` to give the system. Keep the file open while the path
/// is in use: where the true path is too long, it leads through the open directory.
pub fn path(directory: &Path) -> io::Result<(PathBuf, Option<File>)> {
    reachable(directory, NAME)
}

fn reachable(directory: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    let path = directory.join(name);
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return Ok((path, None));
    }
    let open = File::open(directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()));
    Ok((path, Some(open)))
}

impl Socket {
    /// Binds it, readable by its owner only, in place of one that a server left behind, with a
    /// token that is drawn now. Needs the lock of the data directory and a runtime.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn bind(directory: &Path, rng: Rng) -> io::Result<Socket> {
        let cradle = directory.join(CRADLE);
        if cradle.exists() {
            fs::remove_dir_all(&cradle)?;
        }
        // Born in a closed directory: no moment passes between its birth and its permissions.
        DirBuilder::new().mode(0o700).create(&cradle)?;
        let (born, open) = reachable(&cradle, NAME)?;
        let listener = StdListener::bind(&born)?;
        fs::set_permissions(&born, Permissions::from_mode(0o600))?;
        let mut bytes = [0; TOKEN_BYTES];
        rng(&mut bytes);
        let token = hex(&bytes);
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(cradle.join(TOKEN))?;
        file.write_all(format!("{token}\n").as_bytes())?;
        let (path, token_path) = (directory.join(NAME), directory.join(TOKEN));
        // Who finds the socket finds its token.
        fs::rename(cradle.join(TOKEN), &token_path)?;
        fs::rename(&born, &path)?;
        drop(open);
        fs::remove_dir(&cradle)?;
        listener.set_nonblocking(true)?;
        Ok(Socket {
            listener: UnixListener::from_std(listener)?,
            path,
            token_path,
            authorization: bearer(&token),
        })
    }

    /// Serves until its task is dropped. Runs where tasks may stay on their thread.
    /// `endpoint` is where the server answers clients of this machine.
    pub async fn serve(
        self,
        engine: Arc<Engine>,
        watch: Arc<Telemetry>,
        endpoint: String,
        rng: Rng,
    ) {
        let administrator = Rc::new(Administrator {
            authorization: self.authorization.clone(),
            endpoint,
            engine,
            exposition: Arc::new(Exposition::new(watch.clone())),
            watch,
            rng,
        });
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    tokio::task::spawn_local(converse(stream, administrator.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection of admin.sock could not be accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Left behind, they would only be replaced by the next server.
        drop(fs::remove_file(&self.path));
        drop(fs::remove_file(&self.token_path));
    }
}

async fn converse(stream: UnixStream, administrator: Rc<Administrator>) {
    let service = service_fn(|request| {
        let administrator = administrator.clone();
        async move { Ok::<_, Infallible>(answer(request, &administrator).await) }
    });
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of admin.sock broke off");
    }
}

async fn answer(
    request: Request<Incoming>,
    administrator: &Administrator,
) -> Response<Full<Bytes>> {
    let given = request.headers().get(AUTHORIZATION);
    let given = given.map_or(&[][..], HeaderValue::as_bytes);
    if !is_same(given, administrator.authorization.as_bytes()) {
        let message =
            format!("`Authorization: Bearer` and the text of the file {TOKEN} are needed");
        let body = json!({ "message": message }).to_string();
        return json_answer(StatusCode::UNAUTHORIZED, body.into_bytes());
    }
    if request.uri().path() == transfer::port_request::ROUTE {
        return answer_port(request, administrator.engine.clone()).await;
    }
    if request.uri().path() == METRICS {
        let exposition = administrator.exposition.clone();
        return apart(move || listener::metrics(&exposition, request.headers())).await;
    }
    if request.uri().path() == TOP {
        // Not logged: it is asked once a second.
        let watch = administrator.watch.clone();
        let response = move || {
            let response = serde_json::to_vec(&watch.tell());
            let response = response.expect("names and numbers can be written");
            json_answer(StatusCode::OK, response)
        };
        return apart(response).await;
    }
    if request.uri().path() == ENDPOINT {
        let endpoint = json!(administrator.endpoint).to_string();
        return json_answer(StatusCode::OK, endpoint.into_bytes());
    }
    let line = format!("{} {}", request.method(), request.uri().path());
    let (status, body) = match administrator.perform(request).await {
        Ok(body) => (StatusCode::OK, body),
        Err(refusal) => (refusal.status, json!({ "message": refusal.message })),
    };
    tracing::info!(target: "admin", %line, status = status.as_u16(), "answered");
    json_answer(status, body.to_string().into_bytes())
}

/// Makes an answer apart from this thread, which accepts the connections of applications.
async fn apart<F>(answer: F) -> Response<Full<Bytes>>
where
    F: FnOnce() -> Response<Full<Bytes>> + Send + 'static,
{
    let answer = tokio::task::spawn_blocking(answer).await;
    answer.unwrap_or_else(|error| {
        let body = json!({ "message": error.to_string() });
        json_answer(StatusCode::INTERNAL_SERVER_ERROR, body.to_string().into())
    })
}

fn json_answer(status: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let answer = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json");
    let answer = answer.body(Full::from(body));
    answer.expect("status and header are constant")
}

/// A step of an export or import. Not logged one by one: there may be thousands.
async fn answer_port(request: Request<Incoming>, engine: Arc<Engine>) -> Response<Full<Bytes>> {
    let (status, body) = match port_step(request, engine).await {
        Ok(response) => (
            StatusCode::OK,
            transfer::port_request::frame(&response.head, &response.rows),
        ),
        Err(refusal) => {
            let body = json!({ "message": refusal.message });
            (refusal.status, body.to_string().into_bytes())
        }
    };
    let answer = Response::builder().status(status);
    answer
        .body(Full::from(body))
        .expect("the status is constant")
}

async fn port_step(
    request: Request<Incoming>,
    engine: Arc<Engine>,
) -> Result<PortResponse, Refusal> {
    let body = Limited::new(
        request.into_body(),
        transfer::port_request::REQUEST_BYTES_MAX,
    );
    let body = body.collect().await;
    let body = body
        .map_err(|error| Refusal::bad(error.to_string()))?
        .to_bytes();
    // Apart from this thread, which accepts connections: a page takes milliseconds.
    let runtime = tokio::runtime::Handle::current();
    let step = tokio::task::spawn_blocking(move || {
        let (ask, rows) = transfer::port_request::unframe(&body)?;
        runtime.block_on(transfer::act::perform(&engine, ask, rows))
    });
    step.await.map_err(|error| Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        message: error.to_string(),
    })?
}

impl Administrator {
    async fn perform(&self, request: Request<Incoming>) -> Result<Value, Refusal> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = body
            .map_err(|error| Refusal::bad(error.to_string()))?
            .to_bytes();
        let act = act::from_request(&head.method, head.uri.path(), &body)?;
        act::perform(&self.engine, self.rng, act).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn the_socket_is_its_owners_and_replaces_one_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        drop(StdListener::bind(directory.join(NAME)).unwrap());
        let runtime = runtime();
        let _guard = runtime.enter();
        let socket = Socket::bind(directory, drawn).unwrap();
        for name in [NAME, TOKEN] {
            let known = fs::metadata(directory.join(name)).unwrap();
            assert_eq!(known.permissions().mode() & 0o777, 0o600, "{name}");
        }
        let told = authorization(directory).unwrap().unwrap();
        assert_eq!(told, format!("Bearer {}", "07".repeat(TOKEN_BYTES)));
        assert!(std::os::unix::net::UnixStream::connect(directory.join(NAME)).is_ok());
        drop(socket);
        assert!(!directory.join(NAME).exists());
        assert_eq!(authorization(directory).unwrap(), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_long_path_is_reached_through_its_open_directory() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(120));
        fs::create_dir_all(&long).unwrap();
        let runtime = runtime();
        let _guard = runtime.enter();
        let _socket = Socket::bind(&long, drawn).unwrap();
        let (path, _open) = path(&long).unwrap();
        assert!(path.as_os_str().len() <= PATH_BYTES_MAX);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    }
}
