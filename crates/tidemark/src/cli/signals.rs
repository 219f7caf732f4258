//! The signals that a server takes: those that ask it to stop, and those that it outlives.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that would end the process and are sent for other reasons: by terminals that close, by
/// tools that rotate logs or want settings to be read again, by timers.
const OUTLIVED: [(Make, &str); 4] = [
    (SignalKind::hangup, "SIGHUP"),
    (SignalKind::user_defined1, "SIGUSR1"),
    (SignalKind::user_defined2, "SIGUSR2"),
    (SignalKind::alarm, "SIGALRM"),
];

/// Kinds of signals cannot be made in a constant.
type Make = fn() -> SignalKind;

/// SIGINT (Ctrl-C) and SIGTERM, from now on no longer deadly, and signals that never stop it.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Takes them over. Needs a runtime.
    ///
    /// # Errors
    /// When the system does not hand them over.
    pub fn take() -> Result<StopSignals> {
        let take = |kind| signal(kind).context("cannot take over the signals that stop a server");
        for (kind, name) in OUTLIVED {
            let mut outlived = take(kind())?;
            tokio::spawn(async move {
                while outlived.recv().await.is_some() {
                    tracing::info!(signal = name, "this signal changes nothing");
                }
            });
        }
        Ok(StopSignals {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one; says its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
