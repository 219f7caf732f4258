//! A clock that clients set, for servers that are tested (`--test-clock`).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use engine::{Clock, Engine};
use hyper::header::HeaderMap;
use model::Timestamp;
use model::calendar::{DATETIME_MAX, DATETIME_MIN};

use crate::http::head::headers::{X_TIDEMARK_CLOCK, header};
use crate::http::wire::error::ApiError;

/// The clock of such a server. It stands still between requests.
pub struct SetClock {
    now_us: AtomicI64,
    /// Tells how much time has really passed, since waits are real.
    machine: Arc<dyn Clock>,
    /// Whether the writer finds no time, and panics over it.
    #[cfg(debug_assertions)]
    breaks_writer: std::sync::atomic::AtomicBool,
}

/// What the header says to break the writer, in a debug build: a fault of the program that tests
/// can bring about from outside.
#[cfg(debug_assertions)]
const BREAK_WRITER: &str = "break-writer";

impl SetClock {
    /// Shows 0, until a request says otherwise.
    pub fn over(machine: Arc<dyn Clock>) -> Arc<SetClock> {
        Arc::new(SetClock {
            now_us: AtomicI64::new(0),
            machine,
            #[cfg(debug_assertions)]
            breaks_writer: false.into(),
        })
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        #[cfg(debug_assertions)]
        assert!(
            !self.breaks_writer.load(Ordering::SeqCst)
                || std::thread::current().name() != Some("writer"),
            "a test breaks the writer"
        );
        Timestamp(self.now_us.load(Ordering::SeqCst))
    }

    fn elapsed_ms(&self) -> u64 {
        self.machine.elapsed_ms()
    }

    fn is_set(&self) -> bool {
        true
    }
}

/// Sets the clock as a request says.
///
/// # Errors
/// A header that holds no integer.
pub fn set(clock: &SetClock, engine: &Engine, headers: &HeaderMap) -> Result<(), ApiError> {
    #[cfg(debug_assertions)]
    if header(headers, &X_TIDEMARK_CLOCK) == Some(BREAK_WRITER) {
        clock.breaks_writer.store(true, Ordering::SeqCst);
        return Ok(());
    }
    let now_us = match header(headers, &X_TIDEMARK_CLOCK) {
        None => engine.horizon().0,
        Some(text) => {
            let us = text.parse().ok();
            let us = us.filter(|us| (DATETIME_MIN.0..=DATETIME_MAX.0).contains(us));
            us.ok_or_else(|| {
                let why = "The header must hold microseconds since 1970 as an integer, of the \
                           years 0000 to 9999.";
                ApiError::invalid("X-Tidemark-Clock", why)
            })?
        }
    };
    clock.now_us.store(now_us, Ordering::SeqCst);
    Ok(())
}
