//! The JSON of setups, requests and responses.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::work::{FunctionWork, UnpackedDeployment};

/// Of the names and values together.
const HEADERS_BYTES_MAX: usize = 64 * 1024;
/// What JSON puts around a name and a value, and around all.
const HEADER_ROOM_BYTES: usize = 6;
const HEAD_ROOM_BYTES: usize = 64;

/// What a process must know before it loads the code.
pub fn setup(deployment: &UnpackedDeployment, folder: &str, limits: AdapterLimits) -> Vec<u8> {
    let variables: Map<String, Value> = deployment
        .variables
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    let value = json!({
        "folder": folder,
        "entrypoint": deployment.entrypoint,
        "variables": variables,
        "has_starts": limits.has_starts,
        "limits": {
            "body_bytes": limits.body_bytes,
            "log_chars": limits.log_letters,
            "memory_mib": deployment.memory_mib,
            "concurrency": deployment.concurrency,
        },
    });
    value.to_string().into_bytes()
}

/// How an adapter is to go about it.
#[derive(Clone, Copy, Debug)]
pub struct AdapterLimits {
    /// What it refuses by itself, with a reason for the log of the run.
    pub body_bytes: usize,
    pub log_letters: usize,
    /// Whether it says by the pipe which requests it starts; else by frames.
    pub has_starts: bool,
}

/// What a handler sees besides the body. Written as it goes, because each request has one.
pub fn request(work: &FunctionWork) -> Vec<u8> {
    let parts = work.headers.iter();
    let parts = parts.map(|(name, value)| name.len() + value.len() + HEADER_ROOM_BYTES);
    let mut bytes = Vec::with_capacity(work.path.len() + parts.sum::<usize>() + HEAD_ROOM_BYTES);
    bytes.extend_from_slice(b"{\"method\":");
    write_text(&mut bytes, &work.method);
    bytes.extend_from_slice(b",\"path\":");
    write_text(&mut bytes, &work.path);
    bytes.extend_from_slice(b",\"headers\":{");
    for (nth, (name, value)) in work.headers.iter().enumerate() {
        if nth > 0 {
            bytes.push(b',');
        }
        write_text(&mut bytes, name);
        bytes.push(b':');
        write_text(&mut bytes, value);
    }
    bytes.extend_from_slice(b"}}");
    bytes
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(bytes, text).expect("a text is written to memory");
}

/// Status and headers, or why there is no response of the handler's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub failure: Option<String>,
    /// How long the handler ran, as its process says.
    pub took: Option<Duration>,
}

/// # Errors
/// Which rule the bytes break. The adapters keep the rules, so that the code in the process must
/// have written past its adapter.
pub fn parse_response(bytes: &[u8]) -> Result<ResponseHead, String> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("a response whose head is no JSON: {error}"))?;
    let status = value["status"]
        .as_u64()
        .and_then(|status| u16::try_from(status).ok());
    let status = status
        .filter(|status| (200..600).contains(status))
        .ok_or("a response without a status of 200 to 599")?;
    let given = value["headers"]
        .as_object()
        .ok_or("a response without headers")?;
    let mut headers = Vec::with_capacity(given.len());
    let mut count = 0;
    for (name, value) in given {
        let value = value.as_str().filter(|value| is_value(value));
        let (true, Some(value)) = (is_token(name), value) else {
            return Err(format!("a response with a header that is none: {name:?}"));
        };
        count += name.len() + value.len();
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    // Letters up to U+00FF take two bytes here and one in the adapter's count.
    if count > 2 * HEADERS_BYTES_MAX {
        return Err(format!("a response with headers of {count} bytes"));
    }
    let failure = value["failure"].as_str().map(str::to_owned);
    let took = value["took_us"].as_u64().map(Duration::from_micros);
    Ok(ResponseHead {
        status,
        headers,
        failure,
        took,
    })
}

/// RFC 9110, 5.6.2.
fn is_token(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

fn is_value(value: &str) -> bool {
    let allowed = |letter: char| letter == '\t' || (letter >= ' ' && letter != '\u{7f}');
    value
        .chars()
        .all(|letter| allowed(letter) && letter <= '\u{ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_json_of_its_parts() {
        let text = |text: &str| text.to_owned();
        let mut work = FunctionWork {
            deployment: std::sync::Arc::new(UnpackedDeployment {
                id: text("1"),
                revision: 1,
                runtime: text("node-20.0"),
                folder: "/".into(),
                entrypoint: text("main.js"),
                variables: Vec::new(),
                memory_mib: 512,
                cpu_weight: 100,
                concurrency: 1,
                reaches_outside: false,
            }),
            method: text("POST"),
            path: text("/a?b=\"c\"\u{1}"),
            headers: vec![
                (text("x-a"), text("1")),
                (text("x-b"), text("\\ \u{e9} \t")),
            ],
            body: bytes::Bytes::new(),
            timeout: Duration::ZERO,
            wait_max: None,
        };
        let whole = |work: &FunctionWork| serde_json::from_slice::<Value>(&request(work)).unwrap();
        let headers = json!({ "x-a": "1", "x-b": "\\ \u{e9} \t" });
        let expected = json!({ "method": "POST", "path": work.path, "headers": headers });
        assert_eq!(whole(&work), expected);
        work.headers.clear();
        assert_eq!(whole(&work)["headers"], json!({}));
    }

    #[test]
    fn a_response_is_read() {
        let head = parse_response(br#"{"status":201,"headers":{"X-A":"b c"}}"#).unwrap();
        assert_eq!((head.status, head.failure, head.took), (201, None, None));
        assert_eq!(head.headers, [("x-a".to_owned(), "b c".to_owned())]);
    }

    #[test]
    fn a_response_that_breaks_a_rule_is_refused() {
        for bytes in [
            r"",
            r"[]",
            r#"{"status":199,"headers":{}}"#,
            r#"{"status":600,"headers":{}}"#,
            r#"{"status":-1,"headers":{}}"#,
            r#"{"status":"200","headers":{}}"#,
            r#"{"status":200}"#,
            r#"{"status":200,"headers":{"a b":"c"}}"#,
            r#"{"status":200,"headers":{"":"c"}}"#,
            r#"{"status":200,"headers":{"a":"b\r\nc: d"}}"#,
            r#"{"status":200,"headers":{"a":"\u0000"}}"#,
            r#"{"status":200,"headers":{"a":"\u20ac"}}"#,
            r#"{"status":200,"headers":{"a":1}}"#,
        ] {
            assert!(parse_response(bytes.as_bytes()).is_err(), "{bytes}");
        }
        let long = format!(
            r#"{{"status":200,"headers":{{"a":"{}"}}}}"#,
            "x".repeat(131_072)
        );
        assert!(parse_response(long.as_bytes()).is_err());
    }
}
