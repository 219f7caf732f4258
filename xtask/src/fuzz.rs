//! Fuzzing by night, with libFuzzer. By day the package's own test replays the committed inputs.

use std::process::Command;

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::lane::Lane;
use crate::tally::Runner;

/// How long one target is searched, in seconds.
const SEARCH_S: u32 = 600;
/// Counters of which code an input reaches and of what it is compared with, for libFuzzer. The
/// passes are LLVM's and stand in the stable compiler, too; only cargo-fuzz asks for nightly.
const COVERAGE: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "-Ccodegen-units=16",
];

/// Lets libFuzzer look for inputs that break a law, [`SEARCH_S`] seconds for each target. What it
/// finds on the way stays below cargo's target folder; an input that breaks a law is named in
/// the message and written beside it.
///
/// # Errors
/// When cargo cannot say where its target folder is, or rustc for which machine it builds.
pub fn search(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    let folder = checkout.target()?.join("fuzz");
    let machine = machine(checkout)?;
    let mut build = checkout.cargo();
    build.args([
        "build",
        "--release",
        "-p",
        "fuzz",
        "--features",
        "libfuzzer",
    ]);
    // With a machine named, the flags spare build scripts and macros.
    build
        .args(["--target", &machine])
        .arg("--target-dir")
        .arg(&folder);
    build.env("RUSTFLAGS", COVERAGE.join(" "));
    build.env("CARGO_PROFILE_RELEASE_LTO", "off");
    let is_built = lane.run("build of the fuzz targets", Runner::None, &mut build);
    for target in targets(checkout)? {
        let name = format!("fuzzing of {target}");
        if !is_built {
            lane.not_run(&name);
            continue;
        }
        let found = folder.join("corpus").join(&target);
        std::fs::create_dir_all(&found)
            .with_context(|| format!("{} cannot be made", found.display()))?;
        let mut search = checkout.command(folder.join(&machine).join("release").join("fuzz"));
        search.env("TIDEMARK_FUZZ_TARGET", &target);
        search.arg(format!("-max_total_time={SEARCH_S}"));
        search.args(["-timeout=60", "-rss_limit_mb=4096", "-print_final_stats=1"]);
        search.arg(format!("-artifact_prefix={}/", folder.display()));
        search
            .arg(&found)
            .arg(checkout.root.join("fuzz/corpus").join(&target));
        lane.run(&name, Runner::None, &mut search);
    }
    Ok(())
}

/// The targets: each has a folder of committed inputs, or its replay would fail.
fn targets(checkout: &Checkout) -> Result<Vec<String>> {
    let folder = checkout.root.join("fuzz/corpus");
    let cannot = || format!("{} cannot be read", folder.display());
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(cannot)? {
        targets.push(entry?.file_name().to_string_lossy().into_owned());
    }
    targets.sort();
    Ok(targets)
}

/// The machine that rustc builds for, as it names it.
fn machine(checkout: &Checkout) -> Result<String> {
    let mut command: Command = checkout.command("rustc");
    let output = command
        .arg("-vV")
        .output()
        .context("rustc does not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}
