//! Reading a request's body within its limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};

use super::error::{ApiError, Kind};
use crate::serve::Limits;

/// How many times the limit is read and dropped before a body that is too large is refused in
/// the middle. Most clients write their whole body before they look for an answer; cut off, they
/// would report a broken connection instead of the reason.
const DISCARD_TIMES: u64 = 4;

/// Most bytes that a body's announced length reserves before they have come: an announcement
/// costs a client nothing.
const RESERVED_BYTES_MAX: usize = 256 * 1_024;

/// Counts the bytes of the bodies that all requests hold together.
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
    counted: usize,
}

impl<'a> Held<'a> {
    fn new(budget: &'a Budget) -> Held<'a> {
        Held {
            budget,
            bytes: Bytes::new(),
            counted: 0,
        }
    }

    /// The body.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn count(&mut self, bytes: usize) -> Result<(), ApiError> {
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
    let limit = Duration::from_millis(limits.body_ms);
    match tokio::time::timeout(limit, collect(body, limits.body_bytes_max, &mut held)).await {
        Ok(collected) => collected.map(|()| held),
        Err(_) => Err(ApiError::new(
            Kind::RequestTimeout,
            format!("The body did not arrive within {} ms.", limits.body_ms),
        )),
    }
}

async fn collect(
    mut body: Incoming,
    bytes_max: usize,
    held: &mut Held<'_>,
) -> Result<(), ApiError> {
    let declared = body.size_hint().lower();
    if declared > bytes_max as u64 {
        return Err(discard(body, 0, bytes_max).await);
    }
    let mut whole = Vec::new();
    while let Some(next) = data(&mut body).await? {
        held.count(next.len())?;
        let read = whole.len() + next.len();
        if read > bytes_max {
            drop(whole);
            return Err(discard(body, read as u64, bytes_max).await);
        }
        if whole.is_empty() && body.is_end_stream() {
            // The usual body comes in one piece and is not copied.
            held.bytes = next;
            return Ok(());
        }
        if whole.is_empty() {
            whole.reserve(RESERVED_BYTES_MAX.min(declared as usize));
        }
        whole.extend_from_slice(&next);
    }
    held.bytes = whole.into();
    Ok(())
}

/// The next piece of data; `None` at the end.
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
async fn discard(mut body: Incoming, mut read: u64, bytes_max: usize) -> ApiError {
    let rest = body.size_hint().lower();
    let patience = DISCARD_TIMES * bytes_max as u64;
    while read.saturating_add(rest) <= patience && read <= patience {
        match data(&mut body).await {
            Ok(Some(data)) => read += data.len() as u64,
            Ok(None) | Err(_) => break,
        }
    }
    let message = format!("A body may have at most {bytes_max} bytes.");
    ApiError::new(Kind::PayloadTooLarge, message)
}
