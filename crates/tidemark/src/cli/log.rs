//! The log: lines on standard error, written by a thread of its own.
//!
//! A log that cannot be written, or that is not read, costs lines. It holds up no request, and
//! not the end of the server.

use std::io::{self, IsTerminal as _, Write};

use anyhow::{Context, Result};
use server::telemetry::log_lines;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use super::{LAST_WORDS, within};
use crate::config::{self, LogFormat};

/// Most lines that wait to be written; what comes beyond is dropped and counted. A line has less
/// than a KiB.
const LINES_WAITING_MAX: usize = 8_192;

/// Writes what waits when it is dropped, as far as it is read.
pub struct Log {
    worker: Option<WorkerGuard>,
}

impl Drop for Log {
    fn drop(&mut self) {
        // The guard itself waits for longer than a second where nothing is read.
        let worker = self.worker.take();
        within(LAST_WORDS, move || drop(worker));
    }
}

/// Starts logging for the whole process, until the answer is dropped.
///
/// # Errors
/// When the filter cannot be read.
pub fn start(log: &config::Log) -> Result<Log> {
    let filter = EnvFilter::builder().parse(&log.filter).with_context(|| {
        format!(
            "--log-level `{}` is neither error, warn, info, debug, trace nor a list such as \
             info,access=debug",
            log.filter
        )
    })?;
    let (out, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_WAITING_MAX)
        .thread_name("log")
        .finish(Lines::to(io::stderr()));
    log_lines::count_dropped(out.error_counter());
    let lines = fmt().with_env_filter(filter).with_writer(out);
    match log.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    // The usual hook writes to standard error itself, and would wait there.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(Log {
        worker: Some(guard),
    })
}

/// Where lines go: what cannot be written is counted, and reported when lines can be written again.
struct Lines<W> {
    out: W,
    /// Of the lines that were lost, those that the log has reported.
    reported: u64,
}

impl<W> Lines<W> {
    fn to(out: W) -> Lines<W> {
        Lines { out, reported: 0 }
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.out.write_all(line).is_err() {
            log_lines::one_failed();
            return Ok(line.len());
        }
        let lost = log_lines::lost();
        if lost > self.reported {
            let lines = lost - self.reported;
            self.reported = lost;
            // It waits its turn behind the lines that are written.
            tracing::warn!(lines, "lines of the log were lost");
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // What could not be written is counted already.
        let _ = self.out.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes lines again after so many that failed.
    struct Full(u32);

    impl Write for Full {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Err(io::ErrorKind::StorageFull.into())
                }
                None => Ok(line.len()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn lines_that_fail_are_counted_and_told_once_lines_are_written_again() {
        let before = log_lines::lost();
        let mut lines = Lines {
            out: Full(3),
            reported: before,
        };
        for nth in 1..=3 {
            lines.write_all(b"a line").unwrap();
            lines.flush().unwrap();
            assert_eq!(log_lines::lost(), before + nth);
            assert_eq!(lines.reported, before);
        }
        lines.write_all(b"a line").unwrap();
        assert_eq!(lines.reported, before + 3);
    }
}
