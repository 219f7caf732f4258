//! The cache for Python: a package of its own, built into the project's virtual environment.

use anyhow::Result;

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::lane::{LANE_VARIABLE, Lane};
use crate::tally::Runner;

/// Its folder.
pub const FOLDER: &str = "python";
/// What builds and tests it.
pub const PACKAGES: Packages = Packages::PyPi(FOLDER);

/// Its format, lints, build and tests, at their long sizes if `is_night`.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn steps(checkout: &Checkout, lane: &mut Lane, is_night: bool) -> Result<()> {
    let name = format!("tests of {FOLDER}");
    let folder = checkout.root.join(FOLDER);
    let built = checkout.target()?.join("python");
    let cargo = |arguments: &[&str]| {
        let mut command = checkout.cargo();
        command.current_dir(&folder).args(arguments);
        command.env("CARGO_TARGET_DIR", &built);
        command
    };
    lane.run(
        &format!("format of {FOLDER}"),
        Runner::None,
        &mut cargo(&["fmt", "--check"]),
    );
    lane.run(
        &format!("lints of {FOLDER}"),
        Runner::None,
        &mut cargo(&["clippy", "--all-targets", "--", "-D", "warnings"]),
    );
    // The binary for 3.12 and later, which calls other functions of the interpreter.
    lane.run(
        &format!("lints of {FOLDER}, stable interface"),
        Runner::None,
        cargo(&["clippy", "--features", "abi3", "--", "-D", "warnings"]).env("PYO3_NO_PYTHON", "1"),
    );
    if !install::provide(checkout, lane, PACKAGES)? {
        lane.not_run(&name);
        return Ok(());
    }
    let mut maturin = checkout.command(install::program(checkout, "maturin")?);
    maturin.args(["develop", "--release", "--quiet"]);
    maturin.current_dir(&folder);
    maturin.env("CARGO_TARGET_DIR", &built);
    maturin.env("VIRTUAL_ENV", install::venv_folder(checkout)?);
    if !lane.run(&format!("build of {FOLDER}"), Runner::None, &mut maturin) {
        lane.not_run(&name);
        return Ok(());
    }
    let mut tests = checkout.command(install::python(checkout)?);
    tests.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    tests.current_dir(&folder);
    if is_night {
        tests.env(LANE_VARIABLE, "night");
    }
    lane.run(&name, Runner::Pytest, &mut tests);
    if is_night {
        stress(checkout, lane)?;
        faults_of_peer(checkout, lane)?;
    }
    Ok(())
}

/// The stress of threads on this interpreter.
fn stress(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    for seed in ["0", "1", "2"] {
        let mut stress = checkout.command(install::python(checkout)?);
        stress.args(["threads/stress.py", seed, "20"]);
        stress.current_dir(checkout.root.join(FOLDER));
        let name = format!("stress of {FOLDER}, seed {seed}");
        lane.run(&name, Runner::None, &mut stress);
    }
    Ok(())
}

/// The tests of faults in cachekit, on cachekit itself: each must fail there.
fn faults_of_peer(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    let name = format!("tests of {FOLDER} on a peer");
    let folder = checkout.target()?.join("faults-of-cachekit");
    let python = folder.join("bin/python");
    let mut venv = checkout.command("python3");
    venv.args(["-m", "venv"]).arg(&folder);
    let mut pip = checkout.command(&python);
    pip.args(["-m", "pip", "install", "--quiet"]);
    // The versions that our own tests and the bench run with.
    pip.args(["-c", "requirements.txt", "-c", "../bench/python/peers.txt"]);
    pip.args(["pytest", "hypothesis", "cachekit"]);
    pip.current_dir(checkout.root.join(FOLDER));
    for command in [&mut venv, &mut pip] {
        if !lane.run(&format!("environment of {name}"), Runner::None, command) {
            lane.not_run(&name);
            return Ok(());
        }
    }
    let mut tests = checkout.command(&python);
    tests.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    tests.arg("tests/test_faults.py");
    tests.current_dir(checkout.root.join(FOLDER));
    tests.env("TIDEMARK_FAULTS_OF", "cachekit");
    lane.run(&name, Runner::Pytest, &mut tests);
    Ok(())
}

/// Its tests of memory and the stress of threads where the interpreter has no lock, the latter also
/// under ThreadSanitizer, by a script.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn without_lock(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    let mut script = checkout.command("sh");
    script.arg("without-lock.sh");
    script.arg(checkout.target()?.join("without-lock"));
    script.current_dir(checkout.root.join(FOLDER).join("threads"));
    let name = format!("tests of {FOLDER} without the lock");
    lane.run(&name, Runner::Pytest, &mut script);
    Ok(())
}
