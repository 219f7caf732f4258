//! The log: lines on standard error.

use std::io::{self, IsTerminal as _};

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{Log, LogFormat};

/// Starts logging for the whole process.
///
/// # Errors
/// When the filter cannot be read.
pub fn start(log: &Log) -> Result<()> {
    let filter = EnvFilter::builder().parse(&log.filter).with_context(|| {
        format!(
            "--log-level `{}` is neither error, warn, info, debug, trace nor a list such as \
             info,access=debug",
            log.filter
        )
    })?;
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr);
    match log.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
