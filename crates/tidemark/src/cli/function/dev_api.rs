//! What a function of `dev` says to the API: handed on to a server that runs, of one project, below
//! `/v1` alone.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use client::{Access, Answer, Client};
use functions::ApiConnection;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Of one request.
const BODY_BYTES_MAX: usize = 16 << 20;
const HEAD_MAX: std::time::Duration = std::time::Duration::from_secs(30);
/// Of one hop alone (RFC 9110, 7.6.1), or written again here.
const OWN_HEADERS: [HeaderName; 8] = [
    CONNECTION,
    CONTENT_LENGTH,
    HOST,
    TRANSFER_ENCODING,
    hyper::header::TE,
    hyper::header::TRAILER,
    hyper::header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];
const PROJECT: HeaderName = HeaderName::from_static("x-appwrite-project");

/// Serves one connection of a function to its end.
pub async fn relay(connection: ApiConnection, access: Arc<Access>) {
    let stream = connection.stream.set_nonblocking(true);
    let Ok(stream) = stream.and_then(|()| TcpStream::from_std(connection.stream)) else {
        return;
    };
    let client = Arc::new(Mutex::new(None));
    let service = service_fn(move |request| {
        let (access, client) = (access.clone(), client.clone());
        async move { Ok::<_, Infallible>(answered(request, &access, &client).await) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX);
    // What a function breaks off is its own affair.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn answered(
    request: Request<Incoming>,
    access: &Access,
    client: &Mutex<Option<Client>>,
) -> Response<Full<Bytes>> {
    let Some(route) = route(
        request
            .uri()
            .path_and_query()
            .map_or("", |path| path.as_str()),
    ) else {
        return refused(
            StatusCode::NOT_FOUND,
            "Functions reach routes below /v1 alone.",
        );
    };
    let route = route.to_owned();
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        let why = format!("A request has at most {BODY_BYTES_MAX} bytes.");
        return refused(StatusCode::PAYLOAD_TOO_LARGE, &why);
    };
    let sent = async {
        let mut request = access.request(head.method, &route, None)?;
        *request.body_mut() = Full::new(body.to_bytes());
        let own = request.headers_mut();
        let host = own.remove(HOST);
        own.clear();
        own.extend(passed_on(head.headers));
        own.extend(host.map(|host| (HOST, host)));
        own.insert(PROJECT, access.project.clone());
        send(request, access, client).await
    };
    match sent.await {
        Ok(answer) => {
            let mut response = Response::new(Full::new(answer.body));
            *response.status_mut() = answer.status;
            response.headers_mut().extend(passed_on(answer.headers));
            response
        }
        Err(error) => refused(StatusCode::BAD_GATEWAY, &format!("{error:#}")),
    }
}

/// By the connection of before, where there is one. A request is never sent twice.
async fn send(
    request: Request<Full<Bytes>>,
    access: &Access,
    client: &Mutex<Option<Client>>,
) -> Result<Answer> {
    let mut kept = client.lock().await;
    let mut open = match kept.take() {
        Some(open) => open,
        None => Client::connect(&access.endpoint).await?,
    };
    let answer = open.send(request).await?;
    *kept = Some(open);
    Ok(answer)
}

/// What stands behind `/v1`; `None` for another path, or one with steps that a server in between
/// could take upwards.
fn route(path: &str) -> Option<&str> {
    let route = path.strip_prefix("/v1")?;
    let place = route.split('?').next()?;
    let is_below = place.is_empty() || place.starts_with('/');
    let is_step = |part: &str| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        part == "." || part == ".."
    };
    (is_below && !place.split('/').any(is_step)).then_some(route)
}

fn passed_on(mut headers: HeaderMap) -> HeaderMap {
    for own in OWN_HEADERS {
        headers.remove(own);
    }
    headers
}

fn refused(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let body = json!({"message": message, "type": "general_unknown", "code": status.as_u16()});
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_below_the_api_alone_are_handed_on() {
        assert_eq!(route("/v1/tablesdb?a=/../"), Some("/tablesdb?a=/../"));
        assert_eq!(route("/v1"), Some(""));
        assert_eq!(route("/v1/a..b/.c"), Some("/a..b/.c"));
        for path in [
            "",
            "/",
            "/v2",
            "/v10",
            "/health",
            "/v1/../admin",
            "/v1/%2E%2e/admin",
            "/v1/.",
        ] {
            assert_eq!(route(path), None, "{path}");
        }
    }
}
