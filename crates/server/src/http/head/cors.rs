//! Which web pages may call, and what their browsers are sent.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Methods that a page may use.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");

/// How long a browser may keep the answer to its preflight, in seconds (wire protocol, CORS).
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");

/// Request headers that a page may set: those of the wire protocol, and ours.
const ALLOWED: HeaderValue = HeaderValue::from_static(
    "X-Appwrite-Project, X-Appwrite-Key, X-Appwrite-Session, X-Appwrite-JWT, Authorization, \
     X-Fallback-Cookies, X-Appwrite-Response-Format, X-Appwrite-Locale, \
     X-Forwarded-User-Agent, X-Appwrite-Mode, X-Appwrite-Dev-Key, X-Appwrite-Organization, \
     X-Appwrite-Impersonate-User-Id, X-Appwrite-Impersonate-User-Email, \
     X-Appwrite-Impersonate-User-Phone, X-Appwrite-Timeout, X-Appwrite-Timestamp, \
     X-Appwrite-ID, X-SDK-Name, X-SDK-Platform, X-SDK-Language, X-SDK-Version, X-SDK-GraphQL, \
     X-SDK-Profile, User-Agent, Content-Type, Content-Range, Accept, Origin, Cookie, Range, \
     Cache-Control, X-Requested-With, X-Request-Id, If-None-Match, X-Tidemark-Cache, \
     X-Tidemark-Min-Mark, X-Tidemark-Meta, Idempotency-Key",
);

/// Answer headers that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "X-Appwrite-Session, X-Fallback-Cookies, X-Appwrite-Cache, X-Appwrite-Execution-Id, ETag, \
     X-Tidemark-Cache, X-Tidemark-Erased, X-Tidemark-Mark, X-Request-Id, Retry-After",
);

/// Between two lines of the log about refused origins lie at least so many milliseconds: any page
/// can make browsers send as many requests as it likes.
const LOGGED_EVERY_MS: u64 = 10_000;

/// Most bytes of a refused origin that a line of the log shows: room for the longest host name (253
/// bytes, RFC 1035) with its scheme and port.
const LOGGED_ORIGIN_BYTES: usize = 280;

/// The hosts whose pages may call, beside those on this machine.
#[derive(Debug, Default)]
pub struct Origins {
    hosts: Vec<String>,
    /// Each with its leading period: `.example.com`.
    suffixes: Vec<String>,
    /// Milliseconds of the clock at the last line of the log, plus one; 0 before the first line.
    logged_ms: AtomicU64,
}

/// Where a request comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// From no page: no browser, or a page of this server.
    None,
    /// From a page that may call; the header as sent.
    Allowed(HeaderValue),
    /// From a page that may not.
    Foreign,
}

impl Origins {
    /// Reads host names such as `example.com` or `*.example.com`.
    ///
    /// # Errors
    /// The first entry that is neither.
    pub fn new(entries: &[String]) -> Result<Origins, String> {
        let mut origins = Origins::default();
        for entry in entries {
            let host = entry.strip_prefix("*.").unwrap_or(entry);
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
            if host.is_empty() || !host.bytes().all(legal) {
                return Err(entry.clone());
            }
            match entry.strip_prefix('*') {
                Some(suffix) => origins.suffixes.push(suffix.to_ascii_lowercase()),
                None => origins.hosts.push(entry.to_ascii_lowercase()),
            }
        }
        Ok(origins)
    }

    /// Judges the `Origin` header of a request.
    pub fn judge(&self, origin: Option<&HeaderValue>) -> Origin {
        let Some(origin) = origin else {
            return Origin::None;
        };
        match origin.to_str().ok().and_then(host_of) {
            Some(host) if self.allows(&host.to_ascii_lowercase()) => {
                Origin::Allowed(origin.clone())
            }
            _ => Origin::Foreign,
        }
    }

    /// Logs that the page of this origin was refused, with the setting that would allow it; one
    /// line at most in ten seconds. `elapsed_ms` is a clock that only goes forward.
    pub fn log_refusal(&self, origin: Option<&HeaderValue>, elapsed_ms: u64) {
        let last = self.logged_ms.load(Ordering::Relaxed);
        if last > 0 && elapsed_ms < last - 1 + LOGGED_EVERY_MS {
            return;
        }
        let now = elapsed_ms + 1;
        let taken =
            self.logged_ms
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_err() {
            return;
        }
        let origin = origin.map_or("", |origin| origin.to_str().unwrap_or("(not text)"));
        let origin = &origin[..origin.floor_char_boundary(LOGGED_ORIGIN_BYTES)];
        tracing::warn!(
            origin,
            "refused a request of a web page. To let pages of this host call, start the server \
             with --cors-origin={}",
            host_of(origin).unwrap_or("HOST")
        );
    }

    fn allows(&self, host: &str) -> bool {
        is_this_machine(host)
            || self.hosts.iter().any(|allowed| allowed == host)
            || self
                .suffixes
                .iter()
                .any(|suffix| host.ends_with(suffix.as_str()))
    }
}

/// `localhost`, names below it, and loopback addresses.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || address
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

/// The host of `scheme://host` or `scheme://host:port`, an IPv6 address with its brackets.
fn host_of(origin: &str) -> Option<&str> {
    let (_, authority) = origin.split_once("://")?;
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let port_is_legal = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    (!host.is_empty() && port_is_legal).then_some(host)
}

impl Origin {
    /// Adds what every answer to a page carries. The exact origin is echoed, never `*`, because
    /// browsers send credentials.
    pub fn write(&self, headers: &mut HeaderMap) {
        if let Origin::Allowed(origin) = self {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
                HeaderValue::from_static("true"),
            );
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    /// Adds what the answer to `OPTIONS` carries beside that.
    pub fn write_preflight(&self, headers: &mut HeaderMap) {
        const PAIRS: [(HeaderName, HeaderValue); 3] = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED),
            (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
        ];
        if matches!(self, Origin::Allowed(_)) {
            headers.extend(PAIRS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(entries: &[&str], origin: &str) -> Origin {
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        Origins::new(&entries)
            .unwrap()
            .judge(Some(&origin.parse().unwrap()))
    }

    #[track_caller]
    fn check(entries: &[&str], origin: &str, allowed: bool) {
        let wanted = if allowed {
            Origin::Allowed(origin.parse().unwrap())
        } else {
            Origin::Foreign
        };
        assert_eq!(judge(entries, origin), wanted, "{origin}");
    }

    #[test]
    fn pages_of_this_machine_may_call_whatever_is_configured() {
        for origin in [
            "http://localhost",
            "https://LOCALHOST:3000",
            "http://app.localhost:5173",
            "http://127.0.0.1:8280",
            "http://127.9.9.9",
            "http://[::1]:80",
        ] {
            check(&[], origin, true);
        }
    }

    #[test]
    fn other_pages_may_call_when_their_host_is_listed() {
        let listed = ["example.com", "*.example.org"];
        for (origin, allowed) in [
            ("https://example.com", true),
            ("https://Example.com:8443", true),
            ("https://www.example.com", false),
            ("https://www.example.org", true),
            ("https://a.b.example.org", true),
            ("https://example.org", false),
            ("https://evilexample.org", false),
            ("https://example.com.evil.net", false),
            ("https://localhost.evil.net", false),
            ("https://127.0.0.1.evil.net", false),
            ("https://example.com@evil.net", false),
            ("https://example.com:80@evil.net", false),
            ("http://[::2]", false),
            ("null", false),
            ("https://", false),
        ] {
            check(&listed, origin, allowed);
        }
    }

    #[test]
    fn without_an_origin_there_is_nothing_to_judge() {
        assert_eq!(Origins::default().judge(None), Origin::None);
    }

    #[test]
    fn entries_that_are_no_host_names_are_named() {
        for entry in ["", "*", "*.", "https://example.com", "a b"] {
            let refused = Origins::new(&[entry.to_owned()]);
            assert_eq!(refused.unwrap_err(), entry);
        }
    }

    #[test]
    fn only_an_allowed_page_is_told_anything() {
        let mut headers = HeaderMap::new();
        Origin::Foreign.write(&mut headers);
        Origin::Foreign.write_preflight(&mut headers);
        Origin::None.write(&mut headers);
        assert!(headers.is_empty());
        let page = Origin::Allowed(HeaderValue::from_static("http://localhost:3000"));
        page.write(&mut headers);
        page.write_preflight(&mut headers);
        assert_eq!(
            headers["access-control-allow-origin"],
            "http://localhost:3000"
        );
        assert_eq!(headers["access-control-allow-credentials"], "true");
        assert_eq!(headers["access-control-max-age"], "86400");
        let exposed = headers["access-control-expose-headers"].to_str().unwrap();
        assert!(exposed.contains("X-Appwrite-Cache"));
    }
}
