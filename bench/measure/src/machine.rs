//! What a reader must know of the machine and the program to judge a measurement.

use std::fs;
use std::path::Path;
use std::process::Command;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// The machine, as the kernel describes it; `unknown` where it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processor's model.
    pub cpu: String,
    /// Threads the system lets this process run at once.
    pub cores: usize,
    /// Main memory in MiB; 0 when unknown.
    pub memory_mib: u64,
    /// Operating system, its version, and the architecture.
    pub kernel: String,
}

/// The version of this binary and of the compiler that built it.
pub fn binary() -> String {
    let build = if cfg!(debug_assertions) {
        "debug build"
    } else {
        "release build"
    };
    format!(
        "tidemark {} ({build}, {})",
        env!("CARGO_PKG_VERSION"),
        env!("TIDEMARK_RUSTC")
    )
}

/// What tells the binary at this path from any other one, and the sources in the folder that the
/// run was started in; null where they are none.
pub fn identity(binary: &Path) -> Vec<(&'static str, Value)> {
    vec![
        ("binary_sha256", json!(sha256(binary))),
        ("checkout", json!(checkout())),
    ]
}

fn sha256(file: &Path) -> Option<String> {
    let sum = digest(&SHA256, &fs::read(file).ok()?);
    let digits = sum.as_ref().iter().map(|byte| format!("{byte:02x}"));
    Some(digits.collect())
}

/// The commit, and whether files were changed since.
fn checkout() -> Option<String> {
    let commit = printed(&["rev-parse", "HEAD"])?;
    // Reports of earlier runs are no sources.
    let changed = printed(&["status", "--porcelain", "--", ":!bench/results"])?;
    let state = if changed.is_empty() { "" } else { ", changed" };
    Some(format!("{commit}{state}"))
}

/// What git prints before it ends well.
fn printed(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok();
    let output = output.filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// This machine, in the order shown.
pub fn facts() -> Vec<(&'static str, Value)> {
    let machine = Machine::here();
    vec![
        ("cpu", json!(machine.cpu)),
        ("cores", json!(machine.cores)),
        ("memory_mib", json!(machine.memory_mib)),
        ("kernel", json!(machine.kernel)),
    ]
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal").map_or(0, |text| mib(&text)),
            kernel: format!(
                "{} {} {}",
                std::env::consts::OS,
                release.trim(),
                std::env::consts::ARCH
            ),
        }
    }
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// `8053064 kB` in MiB.
fn mib(text: &str) -> u64 {
    let number = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<u64>().ok());
    number.unwrap_or(0) / 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_told_by_its_sum() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("binary");
        fs::write(&file, "abc").unwrap();
        // FIPS 180-2, appendix B.1.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&file).as_deref(), Some(sum));
        assert_eq!(identity(&folder.path().join("none"))[0].1, Value::Null);
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 85\nmodel name\t: Some CPU @ 2.5GHz\nmodel name\t: Second\n";
        assert_eq!(
            field(text, "model name").as_deref(),
            Some("Some CPU @ 2.5GHz")
        );
        assert_eq!(field(text, "name"), None);
        assert_eq!(mib("8053064 kB"), 7_864);
        assert_eq!(mib("much"), 0);
    }
}
