//! Answers that are not older than a mark which the client knows, and the mark each is true for.

use std::time::Duration;

use engine::{Engine, EngineError};
use hyper::header::{HeaderMap, HeaderValue};
use model::Mark;
use tokio::time::timeout;

use super::headers::X_TIDEMARK_MIN_MARK;
use crate::http::wire::error::{ApiError, Kind};

/// Longest wait for a mark. It is reached with the commit that runs, which takes milliseconds; a
/// disk that syncs for longer than this keeps everybody waiting.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The mark that a request names, if it names one.
///
/// # Errors
/// A header that holds no mark.
pub fn named(headers: &HeaderMap) -> Result<Option<Mark>, ApiError> {
    let Some(value) = headers.get(&X_TIDEMARK_MIN_MARK) else {
        return Ok(None);
    };
    read(value).map(Some).ok_or_else(|| {
        let why = "The header must hold a mark: microseconds since 1970, in digits.";
        ApiError::invalid("X-Tidemark-Min-Mark", why)
    })
}

/// The mark in a header.
pub fn read(value: &HeaderValue) -> Option<Mark> {
    let text = value.to_str().ok()?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).map(Mark)
}

/// Waits until no answer can be older than `mark`.
///
/// # Errors
/// [`Kind::FutureMark`] for a mark that no client can have seen, [`Kind::MarkNotReached`] after
/// [`WAIT_MAX`].
pub async fn reach(engine: &Engine, mark: Mark) -> Result<(), ApiError> {
    within(WAIT_MAX, engine.reach(mark)).await
}

async fn within(
    wait_max: Duration,
    reached: impl Future<Output = Result<(), EngineError>>,
) -> Result<(), ApiError> {
    match timeout(wait_max, reached).await {
        Ok(reached) => Ok(reached?),
        Err(_) => Err(ApiError::new(
            Kind::MarkNotReached,
            "The mark was not reached in time. Try again later.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn a_mark_is_written_in_digits() {
        let ask = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_TIDEMARK_MIN_MARK, HeaderValue::from_static(text));
            named(&headers)
        };
        assert_eq!(named(&HeaderMap::new()), Ok(None));
        assert_eq!(ask("0"), Ok(Some(Mark(0))));
        let largest = "9223372036854775807";
        assert_eq!(ask(largest), Ok(Some(Mark(i64::MAX))));
        for wrong in ["", "-1", "+1", "1.0", "x", "9223372036854775808", "1 "] {
            let refused = ask(wrong).unwrap_err();
            assert_eq!(refused.kind, Kind::ArgumentInvalid, "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_wait_has_an_end() {
        assert_eq!(within(WAIT_MAX, ready(Ok(()))).await, Ok(()));
        let refused = within(Duration::ZERO, pending()).await.unwrap_err();
        assert_eq!(refused.kind, Kind::MarkNotReached);
    }
}
