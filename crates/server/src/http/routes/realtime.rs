//! `GET /v1/realtime`: not supported, said in the form in which the official SDKs give up.
//!
//! They take a refused handshake for a fault of the network and connect again for ever. They stop
//! where the last frame is an error with the code 1008 (`Client.subscribe`), or where the
//! connection is closed with that code (`Realtime`); `dist/esm/sdk.js` of `appwrite` 27.0.0.

use bytes::Bytes;
use data_encoding::BASE64;
use engine::Family;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Version};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::http::reply::Reply;
use crate::http::wire::error::ApiError;

const PATH: &str = "/v1/realtime";
/// What the accept key is made with (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of a key of a handshake, in base64 (RFC 6455, section 4.1).
const KEY_BYTES: usize = 16;
/// The first bytes of a whole frame: a text, and a close (RFC 6455, section 5.2).
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
/// The code of a violated policy (RFC 6455, section 7.4.1).
const POLICY: u16 = 1_008;
const CLOSE_REASON: &str = "not supported";

/// Refuses what is not supported, and is said to be so by `begin`; in the frames of a WebSocket
/// where the request opens one to this route.
///
/// # Errors
/// The refusal, of every other request.
pub fn refuse(head: &Parts, begin: &str) -> Result<Reply, ApiError> {
    let refusal = ApiError::not_supported(begin);
    let Some(accept) = accept_key(head) else {
        return Err(refusal);
    };
    let error = serde_json::json!({
        "type": "error",
        "data": {"code": POLICY, "message": refusal.message(Family::Tables)},
    });
    let text = frame(TEXT, error.to_string().as_bytes());
    let close = [&POLICY.to_be_bytes(), CLOSE_REASON.as_bytes()].concat();
    let frames = [text, frame(CLOSE, &close)].concat();
    Ok(Reply::switching(accept, Bytes::from(frames)))
}

/// Whether the request opens a WebSocket to this route.
pub fn is_handshake(head: &Parts) -> bool {
    accept_key(head).is_some()
}

/// What proves that the handshake was understood; `None` where the request is none that a server
/// may accept (RFC 6455, section 4.2.1), or is one to another route.
fn accept_key(head: &Parts) -> Option<HeaderValue> {
    let headers = &head.headers;
    let is_ours = head.uri.path() == PATH
        && head.method == Method::GET
        && head.version == Version::HTTP_11
        && lists(headers, &header::UPGRADE, "websocket")
        && lists(headers, &header::CONNECTION, "upgrade")
        && headers.get(header::SEC_WEBSOCKET_VERSION)? == "13"
        // The bytes behind the head are then frames, not a body.
        && !headers.contains_key(header::CONTENT_LENGTH)
        && !headers.contains_key(header::TRANSFER_ENCODING);
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?.as_bytes();
    let is_key = BASE64.decode(key).is_ok_and(|it| it.len() == KEY_BYTES);
    if !is_ours || !is_key {
        return None;
    }
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID.as_bytes()].concat());
    HeaderValue::from_str(&BASE64.encode(hash.as_ref())).ok()
}

/// Whether one of a header's values is `word`, in letters of any size.
fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let lines = headers.get_all(name).iter();
    let mut words = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    words.any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// A frame of a server: whole and not masked (RFC 6455, section 5.2).
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ ..126 => frame.push(short as u8),
        long => {
            let long = u16::try_from(long).expect("what is said here is short");
            frame.push(126);
            frame.extend_from_slice(&long.to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}
