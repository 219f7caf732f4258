//! Loops of the lowest priority that keep the cores awake.
//!
//! A core with nothing to do sleeps, and on a virtual machine waking it up takes longer than a
//! point read: a client that asks one request after another then measures the sleep. Load of any
//! kind keeps cores awake, so quiet and loaded times can be compared only where both have them so.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::ChildProgram;

/// The scheduler of Linux runs these only when no other thread wants the core, and takes it from
/// them at once for another (sched(7), `SCHED_IDLE`). A loop ends by itself when the thread that
/// began it was killed and could not end it.
const LOOP: [&str; 5] = [
    "--idle",
    "0",
    "sh",
    "-c",
    "while kill -0 $PPID 2>/dev/null; do :; done",
];

/// As many loops as there are cores, until it is dropped.
pub struct Awake(Vec<ChildProgram>);

impl Awake {
    /// Starts them.
    ///
    /// # Errors
    /// When `chrt`, of util-linux, is not there.
    pub fn begin() -> Result<Awake> {
        let cores = std::thread::available_parallelism()?.get();
        let mut loops = Awake(Vec::with_capacity(cores));
        for _ in 0..cores {
            let mut command = Command::new("chrt");
            command.args(LOOP).stdin(Stdio::null());
            let started = ChildProgram::spawn(&mut command, None);
            let started = started.context("`chrt`, of util-linux, keeps the cores awake")?;
            loops.0.push(started);
        }
        Ok(loops)
    }

    /// Ends them.
    ///
    /// # Errors
    /// When one has ended before: the cores may have slept then.
    pub fn end(mut self) -> Result<()> {
        for one in &mut self.0 {
            if let Some(status) = one.0.try_wait()? {
                bail!("a loop that keeps a core awake has ended by itself ({status})");
            }
        }
        Ok(())
    }
}
