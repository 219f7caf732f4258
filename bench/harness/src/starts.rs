//! Starting: memory, time to the first answer, size of the binary.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use measure::scratch::Scratch;

use crate::figure::{Figure, Goal};
use crate::plan::Plan;
use crate::surroundings;

/// Megabytes, as the issue that asked for these figures states them.
const MB: f64 = 1e6;
const RESIDENT: Goal = Goal::AtMost(40.0);
const FIRST_ANSWER_MS: Goal = Goal::AtMost(300.0);
const BINARY: Goal = Goal::AtMost(40.0);
/// After the first answer, until what a start does in the background is done.
const SETTLE: Duration = Duration::from_millis(200);

/// Starts on a new data directory and on a copy of the seeded one, `plan.starts` times each.
///
/// # Errors
/// When a server does not start or end in order.
pub fn figures(
    binary: &Path,
    seeded: &Path,
    scratch: &Scratch,
    plan: &Plan,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (key, what, source) in [
        ("new", "a new data directory", None),
        ("seeded", "the seeded catalog", Some(seeded)),
    ] {
        let (mut resident, mut first_answer) = (Vec::new(), Vec::new());
        for number in 0..plan.starts {
            let name = format!("start-{key}-{number}");
            let data = match source {
                Some(source) => scratch.copy(source, &name)?,
                None => scratch.at(&name),
            };
            let server = surroundings::serve(binary, &data)?;
            std::thread::sleep(SETTLE);
            resident.push(server.process().resident_bytes()? / MB);
            first_answer.push(server.first_answer.as_secs_f64() * 1e3);
            server.stop()?;
            std::fs::remove_dir_all(&data).with_context(|| data.display().to_string())?;
        }
        let title = format!("start to first answer, {what}");
        figures.push(Figure::plain(
            format!("start_{key}"),
            title,
            "ms",
            FIRST_ANSWER_MS,
            first_answer,
        ));
        let title = format!("resident memory after start, {what}");
        figures.push(Figure::plain(
            format!("resident_{key}"),
            title,
            "MB",
            RESIDENT,
            resident,
        ));
    }
    let bytes = std::fs::metadata(binary)
        .with_context(|| binary.display().to_string())?
        .len();
    let size = vec![bytes as f64 / MB];
    figures.push(Figure::plain(
        "binary",
        "size of the binary",
        "MB",
        BINARY,
        size,
    ));
    Ok(figures)
}
