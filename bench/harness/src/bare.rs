//! The work without the store, as a child: `crates/store/examples/bare`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use measure::tasks::TaskChild;
use serde_json::Value;

/// The example, built.
pub struct Bare {
    program: PathBuf,
}

impl Bare {
    /// Takes `program`, or builds the example with cargo and takes what came out.
    ///
    /// # Errors
    /// When it is not there, or cannot be built.
    pub fn find(program: Option<&Path>) -> Result<Bare> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => build()?,
        };
        ensure!(program.is_file(), "{} is not there", program.display());
        Ok(Bare { program })
    }

    /// Starts it on the store in a schema of a database, to be given tasks.
    ///
    /// # Errors
    /// When it does not start, or finds no catalog there.
    pub fn in_database(&self, url: &str, schema: &str) -> Result<TaskChild> {
        let mut command = Command::new(&self.program);
        command.args(["postgres", "--schema", schema]);
        command.env("TIDEMARK_DATABASE", url);
        TaskChild::start(command)
    }

    /// Runs it with these arguments, and reads what it prints.
    ///
    /// # Errors
    /// When it fails; its message is in the text.
    pub fn run(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null());
        let output = command
            .output()
            .context("the example `bare` does not start")?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("bare {}: {message}", arguments.join(" "));
        }
        serde_json::from_slice(&output.stdout).context("bare printed no JSON")
    }
}

/// The numbers under `name`, in nanoseconds.
///
/// # Errors
/// When there is none.
pub fn samples(printed: &Value, name: &str) -> Result<Vec<u64>> {
    let list = printed[name]
        .as_array()
        .with_context(|| format!("bare printed no `{name}`"))?;
    let samples: Vec<u64> = list.iter().filter_map(Value::as_u64).collect();
    ensure!(!samples.is_empty(), "bare printed an empty `{name}`");
    Ok(samples)
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--release",
        "--quiet",
        "-p",
        "store",
        "--example",
        "bare",
    ]);
    command
        .args(["--message-format", "json-render-diagnostics"])
        .stdin(Stdio::null());
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    ensure!(
        output.status.success(),
        "the example `bare` could not be built"
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    executable(&printed).context("cargo names no executable of the example `bare`")
}

/// Where cargo says the example is, in one of its messages.
fn executable(printed: &str) -> Option<PathBuf> {
    let messages = printed
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = messages.filter(|message| message["target"]["name"] == "bare");
    named.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_the_one_cargo_names() {
        let printed = "{\"target\":{\"name\":\"store\"},\"executable\":null}\n\
                       {\"target\":{\"name\":\"bare\"},\"executable\":\"/t/examples/bare\"}\n";
        assert_eq!(executable(printed), Some(PathBuf::from("/t/examples/bare")));
        assert_eq!(executable("nothing"), None);
    }

    #[test]
    fn samples_are_numbers_and_at_least_one() {
        let printed = serde_json::json!({ "a": [3, 4], "b": [] });
        assert_eq!(samples(&printed, "a").unwrap(), [3, 4]);
        assert!(samples(&printed, "b").is_err() && samples(&printed, "c").is_err());
    }
}
