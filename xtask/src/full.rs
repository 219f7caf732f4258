//! `cargo xtask full`: every test there is. CI runs exactly this.

use std::fs;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::lane::Lane;
use crate::prerequisite::{self, Missing};
use crate::tally::Runner;
use crate::{
    deny, docs, drop_in, fast, interleavings, live, notices, on_database, php_ext, prose,
    python_cache, servers_on_database,
};

/// Every test: `fast`, the black-box tests and the official SDKs (before handing in).
///
/// After the steps of `fast` it asks `cargo deny` about the dependencies (what is known against
/// them is a matter of `night`), compares the third-party notices with the crates in use, builds
/// the program without optimisation (`night` tests the released one) and runs against it: the
/// black-box tests of `tests/`, the suites of the official SDKs in `tests/sdk/` (Node, an older
/// Node one, Python, and the web SDK in a browser), those of our own clients in `clients/`
/// (Python, Go and JavaScript), what guides show with its answers, the WordPress drop-in of `php/`
/// as one file, the extension of PHP in `php/ext` and the cache for Python in `python/`, both of
/// which it builds, the suite of the jail as another user if this one is root, a part of the tests
/// of requests and of the engine with their stores in PostgreSQL, threads in the orders their steps
/// can take, the replay of the fuzz corpus, the checks of the benchmark's own arithmetic in
/// `bench/ttl`, and the report page in a browser.
/// Closes with `N passed, N failed`. After 75 minutes it stops what runs and closes so, too.
///
/// Without --install it first looks for what it needs. If something is missing it says what,
/// with the command that installs it, and ends with status 2 before it has run anything.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Install what is missing: Debian packages (as root), npm packages into each folder's
    /// `node_modules`, PyPI packages into target/venv.
    #[arg(long)]
    install: bool,
}

/// CI ends it after 90 minutes; what hangs shall be named before.
const TIME: Duration = Duration::from_mins(75);
const SDK_SUITES: &str = "tests/sdk/";
const NODE_SUITE: &str = "tests/sdk/node";
/// These two start the server as the first one does, with its file.
const NODE_LEGACY_SUITE: &str = "tests/sdk/node-legacy";
const BROWSER_SUITE: &str = "tests/sdk/browser";
const PYTHON_SUITE: &str = "tests/sdk/python";
const PYTHON_CLIENT: &str = "clients/python";
const GO_CLIENT: &str = "clients/go";
/// Starts the server as the Node suite does, with its file.
const JS_CLIENT: &str = "clients/js";
/// Runs what guides show, with the packages of the Node suite and of the Python client.
const GUIDES: &str = "tests/guides";
/// Names the Go that is there to the guides' tests.
const GO_VARIABLE: &str = "TIDEMARK_GO";
const BENCH_SUITE: &str = "bench/ttl";
const REPORT_SUITE: &str = "bench/report";
/// Each with a suite of its own.
const SUITES: [Packages; 8] = [
    Packages::Npm(NODE_SUITE),
    Packages::Npm(NODE_LEGACY_SUITE),
    Packages::Npm(BROWSER_SUITE),
    Packages::PyPi(PYTHON_SUITE),
    Packages::PyPi(PYTHON_CLIENT),
    Packages::Npm(JS_CLIENT),
    Packages::Npm(BENCH_SUITE),
    Packages::Npm(REPORT_SUITE),
];

/// # Errors
/// When the machine lacks something that cannot be installed from here.
pub fn run(checkout: &Checkout, arguments: &Arguments) -> Result<ExitCode> {
    let checkout = &checkout.building_fast();
    let mut lane = Lane::within(TIME);
    let machine = missing_on_machine(checkout);
    if arguments.install {
        install::system(checkout, &machine)?;
        let still = missing_on_machine(checkout);
        if !still.is_empty() {
            return Ok(prerequisite::refuse(
                &still,
                "these are still missing after installing",
            ));
        }
    } else {
        let missing = [machine, missing_packages(checkout)?].concat();
        if !missing.is_empty() {
            return Ok(prerequisite::refuse(
                &missing,
                "`cargo xtask full --install` installs these",
            ));
        }
    }
    fast::checks(checkout, &mut lane)?;
    let has_program = workspace(checkout, &mut lane)?;
    if has_program {
        on_database::step(checkout, &mut lane, false)?;
    }
    deny::check(checkout, &mut lane)?;
    lane.step("third-party notices", |_| notices::check(checkout));
    docs::steps(checkout, &mut lane, false)?;
    if has_program {
        prose::help(checkout, &mut lane)?;
    }
    // Before: both rows below install into the same virtual environment.
    for packages in SUITES.into_iter().chain([python_cache::PACKAGES]) {
        install::provide(checkout, &mut lane, packages)?;
    }
    // Many of these steps wait for a clock, a browser or one core.
    let log = checkout.target()?.join("full-caches.log");
    lane.beside(
        &log,
        |lane| {
            for packages in SUITES {
                suite(checkout, lane, packages, has_program)?;
            }
            let suites = [Packages::Npm(NODE_SUITE)];
            if has_program {
                servers_on_database::step(checkout, lane, &suites, false)?;
            } else {
                servers_on_database::not_run(lane, &suites);
            }
            go_client(checkout, lane, has_program)?;
            guides(checkout, lane, has_program)?;
            interleavings::step(checkout, lane, false)
        },
        |lane| {
            python_cache::steps(checkout, lane, false)?;
            drop_in::steps(checkout, lane)?;
            php_ext::steps(checkout, lane, false)
        },
    )?;
    functions_as_user(checkout, &mut lane, &["jail"]);
    Ok(lane.finish())
}

/// What the requests made from the OpenAPI document need.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn missing_for_document(checkout: &Checkout) -> Result<Vec<Missing>> {
    let mut missing = prerequisite::for_python();
    let packages = Packages::PyPi(PYTHON_SUITE);
    if missing.is_empty() && !packages.are_present(checkout)? {
        missing.push(packages.missing());
    }
    Ok(missing)
}

/// Requests made from the OpenAPI document, as many as `lane_size` says; `suite` makes few.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn document(checkout: &Checkout, lane: &mut Lane, lane_size: (&str, &str)) -> Result<()> {
    let mut command = checkout.command(install::python(checkout)?);
    command.args(["-m", "pytest", "-p", "no:cacheprovider", "test_openapi.py"]);
    command.current_dir(checkout.root.join(PYTHON_SUITE));
    command.env(lane_size.0, lane_size.1);
    command.env(live::BINARY_VARIABLE, checkout.binary()?);
    lane.run(
        "requests from the OpenAPI document",
        Runner::Pytest,
        &mut command,
    );
    Ok(())
}

fn missing_on_machine(checkout: &Checkout) -> Vec<Missing> {
    [
        prerequisite::for_rust(checkout),
        prerequisite::for_node(),
        prerequisite::for_python(),
        prerequisite::for_go(),
        prerequisite::for_guides(),
        prerequisite::for_php(),
        prerequisite::for_tiers(),
        prerequisite::for_web(),
        prerequisite::for_postgres(),
    ]
    .concat()
}

fn missing_packages(checkout: &Checkout) -> Result<Vec<Missing>> {
    let mut missing = Vec::new();
    let others = [python_cache::PACKAGES, deny::PACKAGES, prose::PACKAGES];
    for packages in SUITES.into_iter().chain(others) {
        if !packages.are_present(checkout)? {
            missing.push(packages.missing());
        }
    }
    Ok(missing)
}

/// The tests of all packages in one call: a call for some of them would build their libraries with
/// other features, once more. True when the program is there.
///
/// # Errors
/// When cargo cannot say where its target folder is.
fn workspace(checkout: &Checkout, lane: &mut Lane) -> Result<bool> {
    let name = "tests of the workspace";
    let mut build = checkout.cargo();
    build.args(["test", "--workspace", "--no-run"]);
    if !lane.run("build of the tests", Runner::None, &mut build) {
        lane.not_run(name);
        return Ok(false);
    }
    let mut tests = checkout.cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    // With one for each core a quarter of them is idle: many wait for a process or a clock.
    let threads = 2 * thread::available_parallelism().map_or(1, NonZero::get);
    tests.env("RUST_TEST_THREADS", threads.to_string());
    tests.env(live::BINARY_VARIABLE, checkout.debug_binary()?);
    lane.run(name, Runner::Cargo, &mut tests);
    Ok(true)
}

/// These suites of functions, once more without the rights of root where all others have them: a
/// jail is made in another way then. The user has neither root's folders nor its interpreters. One
/// test at a time: the kernel counts all processes of a user together, so what a test starts would
/// take the room of another's jail.
pub fn functions_as_user(checkout: &Checkout, lane: &mut Lane, suites: &[&str]) {
    if fs::metadata("/proc/self").map_or(0, |process| process.uid()) != 0 {
        return;
    }
    let runner = "target.'cfg(unix)'.runner = ['env', 'PATH=/usr/local/bin:/usr/bin:/bin', \
                  'HOME=/tmp', 'setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']";
    let mut tests = checkout.cargo();
    tests.args(["test", "--workspace", "--no-fail-fast", "--config", runner]);
    tests.args(suites.iter().flat_map(|suite| ["--test", suite]));
    tests.env("RUST_TEST_THREADS", "1");
    lane.run("functions as another user", Runner::Cargo, &mut tests);
}

/// `go vet` and `go test`, told where the binary is. The client has no packages but itself.
fn go_client(checkout: &Checkout, lane: &mut Lane, has_program: bool) -> Result<()> {
    let name = format!("tests of {GO_CLIENT}");
    if !has_program {
        lane.not_run(&name);
        return Ok(());
    }
    let go = || {
        let mut command = checkout.command(prerequisite::go());
        command.current_dir(checkout.root.join(GO_CLIENT));
        // Nothing is to be fetched, no newer Go either.
        command.env("GOTOOLCHAIN", "local").env("GOPROXY", "off");
        command
    };
    lane.run(
        &format!("vet of {GO_CLIENT}"),
        Runner::None,
        go().args(["vet", "./..."]),
    );
    let mut tests = go();
    // Counted once means run once: a kept result would say nothing about this binary.
    tests.args(["test", "-v", "-count=1", "./..."]);
    tests.env(live::BINARY_VARIABLE, checkout.debug_binary()?);
    lane.run(&name, Runner::Go, &mut tests);
    Ok(())
}

/// The commands of guides, in every language in which they stand.
fn guides(checkout: &Checkout, lane: &mut Lane, has_program: bool) -> Result<()> {
    let name = format!("tests of {GUIDES}");
    if !has_program {
        lane.not_run(&name);
        return Ok(());
    }
    let mut tests = checkout.command(install::python(checkout)?);
    tests.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    tests.current_dir(checkout.root.join(GUIDES));
    tests.env(live::BINARY_VARIABLE, checkout.debug_binary()?);
    tests.env(GO_VARIABLE, prerequisite::go());
    lane.run(&name, Runner::Pytest, &mut tests);
    Ok(())
}

/// Runs one folder's tests, with its packages.
fn suite(
    checkout: &Checkout,
    lane: &mut Lane,
    packages: Packages,
    has_program: bool,
) -> Result<()> {
    let folder = packages.folder();
    let name = format!("tests of {folder}");
    if !install::provide(checkout, lane, packages)? || !has_program {
        lane.not_run(&name);
        return Ok(());
    }
    let (runner, mut command) = packages.tests(checkout)?;
    command.env(live::BINARY_VARIABLE, checkout.debug_binary()?);
    lane.run(&name, runner, &mut command);
    Ok(())
}

/// The suites of the official SDKs.
pub fn sdk_suites() -> Vec<Packages> {
    let mut suites = SUITES.to_vec();
    suites.retain(|packages| packages.folder().starts_with(SDK_SUITES));
    suites
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn packages_of_one_virtual_environment_have_one_version() {
        let checkout = Checkout::find().unwrap();
        let mut versions: HashMap<String, (String, &str)> = HashMap::new();
        let all = SUITES.into_iter().chain([python_cache::PACKAGES]);
        for packages in all.filter(|packages| matches!(packages, Packages::PyPi(_))) {
            let folder = packages.folder();
            let path = checkout.root.join(folder).join("requirements.txt");
            let text = fs::read_to_string(path).unwrap();
            let pinned = text.lines().filter_map(|line| {
                let (name, rest) = line.split_once("==")?;
                Some((name.to_lowercase().replace('_', "-"), rest))
            });
            for (name, rest) in pinned {
                let version = rest
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                // Else each suite would install its own while another one runs.
                let first = versions
                    .entry(name.clone())
                    .or_insert((version.clone(), folder));
                assert_eq!(version, first.0, "{name} of {folder} and of {}", first.1);
            }
        }
        assert!(versions.len() > 20, "{versions:?}");
    }
}
