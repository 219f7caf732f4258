//! `cargo xtask bench`: runs the benchmarks listed in `xtask/benches.toml`.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use testing::ChildServer;

use crate::checkout::Checkout;
use crate::lane::Lane;
use crate::live;
use crate::prerequisite::{self, Missing};
use crate::tally::Runner;

/// Builds the release binary and runs the benchmarks; results go to bench/results.
///
/// The benchmarks are listed in `xtask/benches.toml`, whose head says how to add one. Each run
/// measures its own floor beside it, so that two machines can be compared by ratio.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Run only these, by name or group (all when none is given).
    names: Vec<String>,
    /// Handed to each of them as it stands, such as `-- --quick`.
    #[arg(last = true)]
    more: Vec<String>,
}

/// The load generator of the published test, and the version that reports were checked with.
const OHA: &str = "oha";
const OHA_VERSION: &str = "1.16.0";
/// What stands for it in a command.
const OHA_PLACE: &str = "{oha}";
/// The store's example of hand-written statements, and what stands for it in a command.
const BARE: &str = "bare";
const BARE_PLACE: &str = "{bare}";

/// Rows of the catalog, as in the published benchmark.
const SEED_ROWS: &str = "10000";
const LIST: &str = include_str!("../benches.toml");

/// One entry of the list.
#[derive(Debug, PartialEq)]
pub struct Bench {
    name: String,
    /// Stands for every benchmark that has the same.
    group: Option<String>,
    command: Vec<String>,
    /// Programs it needs on the machine.
    system: Vec<String>,
}

/// # Errors
/// When a name is not in the list, or the list itself is broken.
pub fn run(checkout: &Checkout, arguments: &Arguments) -> Result<ExitCode> {
    let benches = chosen(list()?, &arguments.names)?;
    let missing = [prerequisite::to_build(), missing(&benches)].concat();
    if !missing.is_empty() {
        return Ok(prerequisite::refuse(
            &missing,
            "install these and start again",
        ));
    }
    let mut lane = Lane::default();
    if lane.run("release build", Runner::None, &mut checkout.build_release()) {
        steps(checkout, &mut lane, &benches, &arguments.more);
    }
    Ok(lane.finish())
}

/// Those of the benchmarks that are named, or whose group is; all when nothing is named.
fn chosen(mut benches: Vec<Bench>, names: &[String]) -> Result<Vec<Bench>> {
    for name in names {
        if !benches.iter().any(|bench| bench.is_called(name)) {
            let known: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
            let known = known.join(", ");
            bail!("no benchmark is called `{name}`; there are: {known}");
        }
    }
    if !names.is_empty() {
        benches.retain(|bench| names.iter().any(|name| bench.is_called(name)));
    }
    Ok(benches)
}

impl Bench {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.group.as_deref() == Some(name)
    }
}

/// Every benchmark of `xtask/benches.toml`.
///
/// # Errors
/// When an entry lacks its name or its command, or has a key nobody reads.
pub fn list() -> Result<Vec<Bench>> {
    parse(LIST).context("xtask/benches.toml")
}

/// What the machine lacks for these benchmarks.
pub fn missing(benches: &[Bench]) -> Vec<Missing> {
    let system: Vec<String> = benches
        .iter()
        .flat_map(|bench| bench.system.clone())
        .collect();
    prerequisite::for_bench(&system)
}

/// Runs them one after the other, with `more` behind each command; the release binary must be
/// built.
pub fn steps(checkout: &Checkout, lane: &mut Lane, benches: &[Bench], more: &[String]) {
    for bench in benches {
        lane.step(&format!("bench {}", bench.name), |_| {
            measure(checkout, bench, more)
        });
    }
}

/// Where oha is: on the path, or where cargo puts it, which fetches and builds it once.
///
/// # Errors
/// When cargo cannot.
fn oha(checkout: &Checkout) -> Result<String> {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if is_there(OHA) {
        return Ok(OHA.to_owned());
    }
    let tools = checkout.target()?.join("tools");
    let program = tools.join("bin").join(OHA).display().to_string();
    if !is_there(&program) {
        println!("fetching and building oha {OHA_VERSION}, a few minutes …");
        let mut install = checkout.cargo();
        install.args(["install", OHA, "--version", OHA_VERSION, "--locked"]);
        install.arg("--root").arg(&tools);
        if !install.status().context("cargo does not start")?.success() {
            bail!("oha could not be built; put it on the path and start again");
        }
    }
    Ok(program)
}

/// Builds the example and says where it is.
///
/// # Errors
/// When cargo cannot.
fn bare(checkout: &Checkout) -> Result<String> {
    let mut build = checkout.cargo();
    build.args([
        "build",
        "--release",
        "--quiet",
        "-p",
        "store",
        "--example",
        BARE,
    ]);
    if !build.status().context("cargo does not start")?.success() {
        bail!("the example `{BARE}` of the store could not be built");
    }
    let folder = checkout.binary()?.with_file_name("examples");
    Ok(folder.join(BARE).display().to_string())
}

fn measure(checkout: &Checkout, bench: &Bench, more: &[String]) -> Result<bool> {
    let binary = checkout.binary()?;
    let mut places = vec![("{tidemark}", binary.display().to_string())];
    let needs = |place: &str| bench.command.iter().any(|word| word == place);
    if needs(OHA_PLACE) {
        places.push((OHA_PLACE, oha(checkout)?));
    }
    if needs(BARE_PLACE) {
        places.push((BARE_PLACE, bare(checkout)?));
    }
    let filled = |word: &String| {
        let filled = |word: String, (place, program): &(&str, String)| word.replace(place, program);
        places.iter().fold(word.clone(), filled)
    };
    let mut words = bench.command.iter().map(filled);
    let mut command = checkout.command(words.next().expect("parse refuses an empty command"));
    command.args(words).args(more);
    command.env(live::BINARY_VARIABLE, &binary);
    Ok(command.status()?.success())
}

/// The command that fills a server with the catalog of the published benchmark.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn seed(checkout: &Checkout, server: &ChildServer) -> Result<Command> {
    let mut command = checkout.command(checkout.binary()?);
    command.args(["seed", "catalog", "--rows", SEED_ROWS, "--index"]);
    live::lend(server, &mut command)?;
    Ok(command)
}

fn parse(text: &str) -> Result<Vec<Bench>> {
    let list: toml::Table = text.parse()?;
    let entries = list.get("bench").and_then(toml::Value::as_array);
    entries.map_or(Ok(Vec::new()), |entries| {
        entries.iter().map(parse_entry).collect()
    })
}

fn parse_entry(entry: &toml::Value) -> Result<Bench> {
    let entry = entry.as_table().context("a bench is a table")?;
    let name = entry
        .get("name")
        .and_then(toml::Value::as_str)
        .context("a bench has no `name`")?;
    let known = ["name", "group", "command", "system"];
    if let Some(key) = entry.keys().find(|key| !known.contains(&key.as_str())) {
        bail!(
            "bench `{name}`: nobody reads `{key}`; known are {}",
            known.join(", ")
        );
    }
    let words = |key: &str| -> Vec<String> {
        let list = entry
            .get(key)
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten();
        list.filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    };
    let command = words("command");
    if command.is_empty() {
        bail!("bench `{name}` has no `command`");
    }
    let group = entry.get("group").and_then(toml::Value::as_str);
    Ok(Bench {
        name: name.to_owned(),
        group: group.map(str::to_owned),
        command,
        system: words("system"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_is_built_in_can_be_read() {
        assert!(!list().unwrap().is_empty());
    }

    #[test]
    fn an_entry_is_read_with_its_defaults() {
        let text = "[[bench]]\nname = \"a\"\ncommand = [\"x\", \"y\"]\nsystem = [\"wrk\"]";
        let bench = Bench {
            name: "a".into(),
            group: None,
            command: vec!["x".into(), "y".into()],
            system: vec!["wrk".into()],
        };
        assert_eq!(parse(text).unwrap(), vec![bench]);
    }

    #[test]
    fn a_name_stands_for_one_and_a_group_for_all_that_are_in_it() {
        let choose = |names: &[&str]| -> Result<Vec<String>> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let chosen = chosen(list().unwrap(), &names)?;
            Ok(chosen.into_iter().map(|bench| bench.name).collect())
        };
        assert_eq!(
            choose(&["limits"]).unwrap(),
            ["big", "fair", "memory", "builds"]
        );
        assert_eq!(choose(&["memory", "ttl"]).unwrap(), ["ttl", "memory"]);
        assert_eq!(choose(&["exact"]).unwrap(), ["exact", "mixed", "writers"]);
        assert_eq!(choose(&[]).unwrap().len(), list().unwrap().len());
        let error = choose(&["limit"]).unwrap_err().to_string();
        assert!(
            error.starts_with("no benchmark is called `limit`; there are: ttl,"),
            "{error}"
        );
    }

    #[test]
    fn a_broken_entry_is_refused_by_name() {
        let cases = [
            ("[[bench]]\ncommand = [\"x\"]", "a bench has no `name`"),
            ("[[bench]]\nname = \"a\"", "bench `a` has no `command`"),
            (
                "[[bench]]\nname = \"a\"\ncommand = [\"x\"]\nserve = true",
                "nobody reads `serve`",
            ),
        ];
        for (text, message) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
