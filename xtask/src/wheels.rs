//! `cargo xtask wheels`: the cache for Python as files that pip installs without Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::lane::{LANE_VARIABLE, Lane};
use crate::python_cache;
use crate::tally::Runner;

/// Builds the wheels of the Python cache into target/dist.
///
/// One for CPython 3.11, one for 3.12 and every later interpreter with a lock, and an untested one
/// for free-threaded 3.14. They run on every Linux of this processor with glibc 2.17 or later,
/// which `auditwheel` confirms. Needs no interpreter but the one of target/venv; installs its
/// tools there, the linker of Zig among them (100 MB).
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct WheelArguments {}

const TOOLS: Packages = Packages::PyPi("python/wheels");
/// The oldest glibc that the wheels run with.
const PLATFORM: &str = "manylinux_2_17";

/// An interpreter as PyO3 wants it described where it is not there to be run.
struct WheelKind {
    /// Stands in the name of the description.
    name: &'static str,
    version: &'static str,
    flags: &'static str,
    is_stable: bool,
}

const KINDS: [WheelKind; 3] = [
    WheelKind {
        name: "3.11",
        version: "3.11",
        flags: "",
        is_stable: false,
    },
    WheelKind {
        name: "3.12-and-later",
        version: "3.12",
        flags: "",
        is_stable: true,
    },
    WheelKind {
        name: "3.14t",
        version: "3.14",
        flags: "Py_GIL_DISABLED",
        is_stable: false,
    },
];

/// Builds and checks them all.
///
/// # Errors
/// When a tool cannot be installed, or a file not be written.
pub fn run(checkout: &Checkout, _: &WheelArguments) -> Result<ExitCode> {
    if build_all(checkout)? {
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(ExitCode::FAILURE)
    }
}

/// Builds them, and runs the suite at its long sizes with that of the stable interface, on the
/// interpreters of Debian's unstable suite, by a script.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn newer_interpreters(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    let room = python_cache::FOLDER;
    let name = format!("tests of {room} on newer interpreters");
    if !lane.step(&format!("wheels of {room}"), |_| build_all(checkout)) {
        lane.not_run(&name);
        return Ok(());
    }
    let mut script = checkout.command("sh");
    script.arg("debian-sid.sh");
    script.arg(checkout.target()?.join("debian-sid"));
    script.arg(stable(checkout)?);
    script.current_dir(checkout.root.join(room).join("tests"));
    script.env(LANE_VARIABLE, "night");
    lane.run(&name, Runner::Pytest, &mut script);
    Ok(())
}

fn build_all(checkout: &Checkout) -> Result<bool> {
    for packages in [python_cache::PACKAGES, TOOLS] {
        if !packages.are_present(checkout)? && !install::run_all(packages.install(checkout)?)? {
            bail!("the packages of {} cannot be installed", packages.folder());
        }
    }
    let target = checkout.target()?;
    // Emptied first: maturin adds to it, and each wheel in it is checked.
    let (built, folder) = (target.join("wheels"), folder(checkout)?);
    let _ = fs::remove_dir_all(&folder);
    for path in [&built, &folder] {
        fs::create_dir_all(path).with_context(|| checkout.shown(path))?;
    }
    for kind in &KINDS {
        if !build(checkout, kind, &built, &folder)? {
            return Ok(false);
        }
    }
    for wheel in &in_folder(checkout, &folder)? {
        check(checkout, wheel)?;
        println!("{}", checkout.shown(wheel));
    }
    Ok(true)
}

/// The one for 3.12 and every later interpreter with a lock.
fn stable(checkout: &Checkout) -> Result<PathBuf> {
    let folder = folder(checkout)?;
    let wheels = in_folder(checkout, &folder)?;
    let mut stable = wheels
        .into_iter()
        .filter(|wheel| wheel.to_string_lossy().contains("-abi3-"));
    stable.next().with_context(|| {
        format!(
            "{} holds no wheel of the stable interface",
            checkout.shown(&folder)
        )
    })
}

fn folder(checkout: &Checkout) -> Result<PathBuf> {
    Ok(checkout.target()?.join("dist/python"))
}

fn in_folder(checkout: &Checkout, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut wheels = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| checkout.shown(folder))? {
        wheels.push(entry?.path());
    }
    wheels.sort();
    Ok(wheels)
}

fn build(checkout: &Checkout, kind: &WheelKind, built: &Path, folder: &Path) -> Result<bool> {
    let description = built.join(format!("python-{}.txt", kind.name));
    fs::write(&description, described(kind)).with_context(|| checkout.shown(&description))?;
    let mut maturin = checkout.command(install::program(checkout, "maturin")?);
    maturin.current_dir(checkout.root.join(python_cache::FOLDER));
    maturin.env("CARGO_TARGET_DIR", built);
    maturin.env("PYO3_CONFIG_FILE", &description);
    maturin.env("RUSTFLAGS", format!("-C link-arg={}", unwinder(checkout)?));
    // Where maturin looks for the interpreter that has Zig among its packages.
    maturin.env("PATH", path_with_venv(checkout)?);
    maturin.args(["build", "--release", "--quiet", "--zig"]);
    maturin.args([
        "--target",
        &format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
    ]);
    maturin
        .args(["--compatibility", PLATFORM, "--out"])
        .arg(folder);
    if kind.is_stable {
        maturin.args(["--features", "abi3"]);
    }
    install::run_all(vec![maturin])
}

/// The library that unwinds stacks. Zig would link one of its own into the wheel: until 3.14 the
/// interpreter ends its threads by unwinding them, and two unwinders on one stack crash.
fn unwinder(checkout: &Checkout) -> Result<String> {
    let mut compiler = checkout.command("cc");
    compiler.arg("-print-file-name=libgcc_s.so.1");
    let output = compiler.output().context("cc does not start")?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !Path::new(&path).is_absolute() {
        bail!("cc knows no libgcc_s.so.1");
    }
    Ok(path)
}

fn path_with_venv(checkout: &Checkout) -> Result<std::ffi::OsString> {
    let first: PathBuf = install::venv_folder(checkout)?.join("bin");
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(first).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).context("PATH")
}

fn described(kind: &WheelKind) -> String {
    format!(
        "implementation=CPython\nversion={}\nshared=true\nabi3={}\npointer_width=64\n\
         build_flags={}\nsuppress_build_script_link_lines=false\n",
        kind.version, kind.is_stable, kind.flags
    )
}

/// A second opinion: maturin has found the wheel to fit already.
fn check(checkout: &Checkout, wheel: &Path) -> Result<()> {
    let mut auditwheel = checkout.command(install::program(checkout, "auditwheel")?);
    auditwheel.arg("show").arg(wheel);
    let output = auditwheel.output().context("auditwheel does not start")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !is_consistent(&said) {
        let shown = checkout.shown(wheel);
        bail!(
            "{shown} is not fit for {PLATFORM}; auditwheel: {}",
            said.trim()
        );
    }
    Ok(())
}

/// Whether the tag that the wheel keeps to is the one wanted, and it brings no unwinder of its own.
fn is_consistent(said: &str) -> bool {
    let text = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = format!(
        "following platform tag: \"{PLATFORM}_{}\".",
        std::env::consts::ARCH
    );
    text.contains(&wanted) && text.contains("libgcc_s.so.1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_names_what_a_free_threaded_interpreter_is_built_with() {
        let text = described(&KINDS[2]);
        assert!(text.contains("version=3.14\n") && text.contains("build_flags=Py_GIL_DISABLED\n"));
        assert!(text.contains("abi3=false\n"));
    }

    #[test]
    fn wheel_is_consistent_with_no_newer_tag_and_no_unwinder_of_its_own() {
        let said = |tag: &str, library: &str| {
            format!("is consistent with the following\nplatform tag:\n\"{tag}\".\n\n{library} with")
        };
        let arch = std::env::consts::ARCH;
        let fits = format!("manylinux_2_17_{arch}");
        let newer = format!("manylinux_2_34_{arch}");
        assert!(is_consistent(&said(&fits, "libgcc_s.so.1")));
        assert!(!is_consistent(&said(&newer, "libgcc_s.so.1")));
        assert!(!is_consistent(&said(&fits, "libc.so.6")));
        assert!(!is_consistent(""));
    }
}
