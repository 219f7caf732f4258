//! Reading a request's body within its limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use tokio::time::Instant;

use super::error::{ApiError, Kind};
use crate::serve::Limits;

/// How many times the limit is read and dropped before a body that is too large is refused in
/// the middle. Most clients write their whole body before they look for an answer; cut off, they
/// would report a broken connection instead of the reason.
const DISCARD_TIMES: u64 = 4;

/// So many bytes of each body are not counted, so that a few clients with large bodies cannot
/// keep others from writing rows. Also the most that an announced length reserves before it has
/// come: an announcement costs a client nothing.
const FREE_BYTES: usize = 16 * 1_024;

/// Counts the bytes of the bodies that all requests hold together, beyond [`FREE_BYTES`] of each.
#[derive(Debug)]
pub struct Budget {
    held: AtomicUsize,
    bytes_max: usize,
}

impl Budget {
    /// A budget of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Budget {
        Budget {
            held: AtomicUsize::new(0),
            bytes_max,
        }
    }
}

/// Bytes that are counted in a budget until they are dropped.
#[derive(Debug)]
pub struct Held<'a> {
    budget: &'a Budget,
    bytes: Bytes,
    read: usize,
    counted: usize,
}

impl<'a> Held<'a> {
    fn new(budget: &'a Budget) -> Held<'a> {
        Held {
            budget,
            bytes: Bytes::new(),
            read: 0,
            counted: 0,
        }
    }

    /// The body.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The body, which does not count any more once this value is dropped.
    pub fn shared(&self) -> Bytes {
        self.bytes.clone()
    }

    fn count(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.read += bytes;
        let bytes = self.read.saturating_sub(FREE_BYTES) - self.counted;
        if bytes == 0 {
            return Ok(());
        }
        self.counted += bytes;
        let before = self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.budget.bytes_max {
            let message = "Too many large requests at once. Try again later.";
            return Err(ApiError::new(Kind::ServiceUnavailable, message));
        }
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

/// Reads the whole body.
///
/// # Errors
/// A body that is too large or too slow, a broken one, or one more than the budget bears.
pub async fn read<'a>(
    body: Incoming,
    limits: &Limits,
    budget: &'a Budget,
) -> Result<Held<'a>, ApiError> {
    let mut held = Held::new(budget);
    if body.is_end_stream() {
        return Ok(held);
    }
    let incoming = Paced {
        body,
        began: Instant::now(),
        read: 0,
        limits: *limits,
    };
    collect(incoming, &mut held).await.map(|()| held)
}

/// A body that must come at a pace.
struct Paced {
    body: Incoming,
    began: Instant,
    read: u64,
    limits: Limits,
}

impl Paced {
    /// The next piece of data; `None` at the end.
    async fn data(&mut self) -> Result<Option<Bytes>, ApiError> {
        let patience_ms = self.limits.patience_ms(self.limits.body_ms, self.read);
        let until = self.began + Duration::from_millis(patience_ms);
        let next = tokio::time::timeout_at(until, data(&mut self.body)).await;
        let Ok(next) = next else {
            let (body_ms, rate) = (self.limits.body_ms, self.limits.rate_bytes_min);
            let message = format!(
                "The body came too slowly: {} bytes in {patience_ms} ms. After {body_ms} ms, \
                 {rate} bytes a second are needed.",
                self.read
            );
            return Err(ApiError::new(Kind::RequestTimeout, message));
        };
        if let Ok(Some(data)) = &next {
            self.read += data.len() as u64;
        }
        next
    }
}

async fn collect(mut incoming: Paced, held: &mut Held<'_>) -> Result<(), ApiError> {
    let bytes_max = incoming.limits.body_bytes_max;
    let declared = incoming.body.size_hint().lower();
    if declared > bytes_max as u64 {
        return Err(discard(incoming).await);
    }
    let mut whole = Vec::new();
    while let Some(next) = incoming.data().await? {
        held.count(next.len())?;
        if whole.len() + next.len() > bytes_max {
            drop(whole);
            return Err(discard(incoming).await);
        }
        if whole.is_empty() && incoming.body.is_end_stream() {
            // The usual body comes in one piece and is not copied.
            held.bytes = next;
            return Ok(());
        }
        if whole.is_empty() {
            whole.reserve(FREE_BYTES.min(declared as usize));
        }
        whole.extend_from_slice(&next);
    }
    held.bytes = whole.into();
    Ok(())
}

async fn data(body: &mut Incoming) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => return Ok(Some(data)),
            // Trailers, which nothing here reads.
            Ok(Err(_)) => {}
            Err(_) => return Err(ApiError::new(Kind::BadRequest, "The body broke off.")),
        }
    }
    Ok(None)
}

/// Reads on and keeps nothing, so that the client comes to look for its answer.
async fn discard(mut incoming: Paced) -> ApiError {
    let bytes_max = incoming.limits.body_bytes_max;
    let rest = incoming.body.size_hint().lower();
    let patience = DISCARD_TIMES * bytes_max as u64;
    while incoming.read.saturating_add(rest) <= patience && incoming.read <= patience {
        match incoming.data().await {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    let message = format!("A body may have at most {bytes_max} bytes.");
    ApiError::new(Kind::PayloadTooLarge, message)
}
