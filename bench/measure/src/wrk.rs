//! wrk, the load generator.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::cores::Cores;
use crate::early_end::EarlyEnd;
use crate::process::ChildProgram;

/// Answers that take longer count as broken. A peer without an index needs seconds.
const TIMEOUT: &str = "30s";

/// Answers of each connection in a slice. At its end wrk forgets the request that each connection
/// waits for, while the processor time of those is counted.
const ANSWERS_MIN: f64 = 20.0;

/// A script for requests of one address: how answers that are no success are counted.
pub const READS: &str = r"
refusals = function(summary)
  return summary.errors.status
end
";

/// Prints what wrk has counted, in one line. `percentile` and `duration` are in microseconds.
const DONE: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"refused":%d,"broken":%d,' ..
    '"p50":%d,"p90":%d,"p99":%d,"max":%d}\n',
    summary.requests, summary.duration, refusals(summary), e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
"#;

/// wrk, found on this machine.
pub struct Wrk {
    folder: PathBuf,
}

/// How it asks.
#[derive(Clone, Copy)]
pub struct WrkLoad<'a> {
    /// A Lua script with a function `refusals`: what wrk sends, and which answers are no success.
    pub script: &'a str,
    /// Its threads.
    pub threads: u32,
    /// Its connections.
    pub connections: u32,
    /// How long.
    pub seconds: u64,
    /// The cores it runs on; without, those of this program.
    pub cores: Option<&'a Cores>,
}

/// What one run counted.
pub struct WrkCounts {
    /// Answers.
    pub requests: f64,
    /// Answers a second.
    pub per_s: f64,
    /// Latencies in microseconds.
    pub points: Vec<(&'static str, f64)>,
}

/// As it names itself.
///
/// # Errors
/// When it is not installed.
pub fn version() -> Result<String> {
    let mut command = Command::new("wrk");
    let Ok(output) = command.arg("--version").stdin(Stdio::null()).output() else {
        bail!("wrk, the load generator, is not installed; on Debian: apt-get install -y wrk");
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    Ok(words.join(" "))
}

impl Wrk {
    /// Looks for it; its scripts go to `folder`.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn find(folder: &Path) -> Result<Wrk> {
        version()?;
        Ok(Wrk {
            folder: folder.to_owned(),
        })
    }

    /// Requests one address, with these header lines.
    ///
    /// # Errors
    /// When a connection broke, an answer was no success, or an end was asked for.
    pub fn run(
        &self,
        url: &str,
        headers: &[String],
        load: &WrkLoad<'_>,
        stop: &EarlyEnd,
    ) -> Result<WrkCounts> {
        let [script, printed, complaints] =
            ["wrk.lua", "wrk.out", "wrk.log"].map(|name| self.folder.join(name));
        fs::write(&script, format!("{}{DONE}", load.script))
            .with_context(|| script.display().to_string())?;
        let mut command = Command::new("wrk");
        command.args(["-t", &load.threads.to_string()]);
        command.args(["-c", &load.connections.to_string()]);
        command.args(["-d", &format!("{}s", load.seconds)]);
        command.args(["--timeout", TIMEOUT]);
        for header in headers {
            command.args(["-H", header]);
        }
        command.arg("-s").arg(&script).arg(url).stdin(Stdio::null());
        // Files, as a pipe that no code reads holds its writer up.
        let file = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        command.stdout(file(&printed)?).stderr(file(&complaints)?);
        let mut running = ChildProgram::spawn(&mut command, load.cores)?;
        stop.wait_for(&mut running).context("wrk")?;
        let printed = fs::read_to_string(&printed)?;
        let complaint = fs::read_to_string(&complaints)?;
        read(&printed, load.connections)
            .with_context(|| format!("wrk on {url} printed:\n{printed}{complaint}"))
    }
}

fn read(printed: &str, connections: u32) -> Result<WrkCounts> {
    let line = printed
        .lines()
        .find(|line| line.starts_with('{'))
        .context("no counts")?;
    let counts: Value = serde_json::from_str(line)?;
    let number = |name: &str| {
        counts[name]
            .as_f64()
            .with_context(|| format!("no `{name}`"))
    };
    let (refused, broken) = (number("refused")?, number("broken")?);
    ensure!(
        refused + broken == 0.0,
        "{refused} answers were no success, {broken} never came"
    );
    let requests = number("requests")?;
    ensure!(
        requests >= ANSWERS_MIN * f64::from(connections),
        "{requests} answers are too few for {connections} connections; take longer slices"
    );
    let points = [
        ("p50 µs", "p50"),
        ("p90 µs", "p90"),
        ("p99 µs", "p99"),
        ("max µs", "max"),
    ];
    let points = points
        .into_iter()
        .map(|(shown, name)| Ok((shown, number(name)?)));
    Ok(WrkCounts {
        requests,
        per_s: requests * 1e6 / number("duration_us")?,
        points: points.collect::<Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(refused: u32) -> String {
        format!(
            "ChildProgram 1s test\n  2 threads\n{{\"requests\":5000,\"duration_us\":500000,\
             \"refused\":{refused},\"broken\":0,\"p50\":10,\"p90\":20,\"p99\":30,\"max\":40}}\n"
        )
    }

    #[test]
    fn counts_are_read_from_their_line() {
        let counted = read(&printed(0), 32).unwrap();
        assert_eq!((counted.requests, counted.per_s), (5_000.0, 10_000.0));
        assert_eq!(counted.points[2], ("p99 µs", 30.0));
    }

    #[test]
    fn refusals_and_silence_are_errors() {
        let error = read(&printed(3), 32).err().unwrap().to_string();
        assert_eq!(error, "3 answers were no success, 0 never came");
        let error = read(&printed(0), 1_000).err().unwrap().to_string();
        assert!(error.contains("too few for 1000 connections"), "{error}");
        assert!(read("unable to connect", 32).is_err());
    }
}
