//! The cache as an extension of PHP: a package of its own, built for the PHP that `php-config`
//! describes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::dist;
use crate::drop_in;
use crate::lane::{LANE_VARIABLE, Lane};
use crate::php_deb;
use crate::tally::Runner;

/// Builds the extension of PHP into target/dist/php: tidemark.so and tidemark.ini.
///
/// It is for the PHP of `php-config`, or of the program that PHP_CONFIG names. Copy the first file
/// to the folder that `php-config --extension-dir` prints, and the second one to that of PHP's
/// settings.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct PhpExtArguments {
    /// Also put both into a package of Debian.
    #[arg(long)]
    deb: bool,
}

const FOLDER: &str = "php/ext";
const SETTINGS: &str = "; The cache of Tidemark. It opens no file before a program uses it.\n\
                        extension=tidemark.so\n";

/// Builds it and prints where it is.
///
/// # Errors
/// When the build does not start, or a file cannot be written.
pub fn run(checkout: &Checkout, arguments: &PhpExtArguments) -> Result<ExitCode> {
    let target = checkout.target()?.join("php-ext");
    let mut build = checkout.cargo();
    build
        .current_dir(checkout.root.join(FOLDER))
        .args(["build", "--release"]);
    let status = build.env("CARGO_TARGET_DIR", &target).status();
    if !status.context("cargo does not start")?.success() {
        return Ok(ExitCode::FAILURE);
    }
    let [library, settings] = place(checkout, &target)?;
    println!("{}", checkout.shown(&library));
    println!("{}", checkout.shown(&settings));
    if arguments.deb {
        let package = php_deb::build(checkout, &library, &settings)?;
        println!("{}", checkout.shown(&package));
    }
    Ok(ExitCode::SUCCESS)
}

/// Suites in another PHP or under another program, each by a script of `php/ext/tests`, and
/// whether at their long sizes.
const SCRIPTS: [(&str, &str, bool); 3] = [
    ("debian", "in Debian 12 and 13", true),
    ("threads", "in a PHP with threads", false),
    ("memory-errors", "that watch memory", false),
];

/// These suites. The scripts leave another library in the place of the one that `steps` builds.
///
/// # Errors
/// When the parts of the drop-in cannot be joined, or cargo cannot say where its target folder is.
pub fn scripts(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    for (name, what, is_long) in SCRIPTS {
        let mut script = checkout.command("sh");
        script.arg(format!("{name}.sh"));
        script.arg(checkout.target()?.join(name));
        script.arg(dist::drop_in(checkout)?);
        script.current_dir(checkout.root.join(FOLDER).join("tests"));
        script.envs(is_long.then_some((LANE_VARIABLE, "night")));
        let name = format!("tests of {FOLDER} {what}");
        lane.run(&name, Runner::Pytest, &mut script);
    }
    Ok(())
}

fn place(checkout: &Checkout, target: &Path) -> Result<[PathBuf; 2]> {
    let folder = checkout.target()?.join("dist/php");
    fs::create_dir_all(&folder).with_context(|| checkout.shown(&folder))?;
    let (library, settings) = (folder.join("tidemark.so"), folder.join("tidemark.ini"));
    let made = target.join("release/libtidemark.so");
    if !made.is_file() {
        bail!("{} is missing", checkout.shown(&made));
    }
    // A PHP that runs may have the old one mapped: it is not written over.
    let _ = fs::remove_file(&library);
    fs::copy(&made, &library).with_context(|| checkout.shown(&library))?;
    fs::write(&settings, SETTINGS).with_context(|| checkout.shown(&settings))?;
    Ok([library, settings])
}

/// Its format, lints, build and tests, and those of the WordPress drop-in over it; at their long
/// sizes if `is_night`.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn steps(checkout: &Checkout, lane: &mut Lane, is_night: bool) -> Result<()> {
    let target = checkout.target()?.join("php-ext");
    let name = format!("tests of {FOLDER}");
    let cargo = |arguments: &[&str]| {
        let mut command = checkout.cargo();
        command
            .current_dir(checkout.root.join(FOLDER))
            .args(arguments);
        command.env("CARGO_TARGET_DIR", &target);
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
        &mut cargo(&["clippy", "--release", "--", "-D", "warnings"]),
    );
    let mut build = cargo(&["build", "--release"]);
    if !lane.run(&format!("build of {FOLDER}"), Runner::None, &mut build) {
        lane.not_run(&name);
        return Ok(());
    }
    let mut ring = cargo(&["test", "--release", "--test", "ring"]);
    if is_night {
        ring.env(LANE_VARIABLE, "night");
    }
    lane.run(&format!("ring of {FOLDER}"), Runner::Cargo, &mut ring);
    let [library, _] = place(checkout, &target)?;
    let mut tests = checkout.command("php");
    tests.arg("run.php").arg(&library);
    tests.current_dir(checkout.root.join(FOLDER).join("tests"));
    if is_night {
        tests.env(LANE_VARIABLE, "night");
    }
    lane.run(&name, Runner::Pytest, &mut tests);
    drop_in::native_steps(checkout, lane, &library, is_night)
}
