//! Installing: Debian packages for the machine, npm and PyPI packages for this checkout.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::lane::Lane;
use crate::prerequisite::{Missing, Remedy};
use crate::tally::Runner;

/// The packages that one folder's manifest pins.
#[derive(Clone, Copy)]
pub enum Packages {
    /// A folder with `package-lock.json`; they go into its `node_modules`.
    Npm(&'static str),
    /// A folder with `requirements.txt`; they go into `venv` below cargo's target folder.
    PyPi(&'static str),
}

impl Packages {
    /// The folder of the manifest, relative to the root.
    pub fn folder(self) -> &'static str {
        match self {
            Packages::Npm(folder) | Packages::PyPi(folder) => folder,
        }
    }

    /// Asks the package manager itself, so that nothing here can disagree with it.
    ///
    /// # Errors
    /// When cargo cannot say where its target folder is.
    pub fn are_present(self, checkout: &Checkout) -> Result<bool> {
        let mut command = match self {
            Packages::Npm(folder) => {
                let mut command = checkout.command("npm");
                command
                    .current_dir(checkout.root.join(folder))
                    .args(["ls", "--all"]);
                command
            }
            Packages::PyPi(folder) => {
                // Without an index pip succeeds only when there is nothing left to install.
                let mut command = pip(checkout, folder)?;
                command.arg("--no-index");
                command
            }
        };
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        Ok(status.is_ok_and(|status| status.success()))
    }

    /// The command that runs the folder's tests, and whose closing lines it prints.
    ///
    /// # Errors
    /// When cargo cannot say where its target folder is.
    pub fn tests(self, checkout: &Checkout) -> Result<(Runner, Command)> {
        let (runner, mut command) = match self {
            Packages::Npm(_) => {
                let mut command = checkout.command("node");
                command.arg("--test");
                (Runner::Node, command)
            }
            Packages::PyPi(_) => {
                let mut command = checkout.command(python(checkout)?);
                // The cache provider would write a folder into the checkout.
                command.args(["-m", "pytest", "-p", "no:cacheprovider"]);
                (Runner::Pytest, command)
            }
        };
        command.current_dir(checkout.root.join(self.folder()));
        Ok((runner, command))
    }

    /// As a line of the list of what is missing.
    pub fn missing(self) -> Missing {
        let folder = self.folder();
        let (what, command) = match self {
            Packages::Npm(_) => ("npm", format!("(cd {folder} && npm ci)")),
            Packages::PyPi(_) => (
                "PyPI",
                format!(
                    "python3 -m venv target/venv && \
                     target/venv/bin/python -m pip install -r {folder}/requirements.txt"
                ),
            ),
        };
        let what = format!("the {what} packages of {folder}");
        Missing {
            what,
            remedy: Remedy::Install(command),
        }
    }

    /// The commands that install them, to be run in this order.
    ///
    /// # Errors
    /// When cargo cannot say where its target folder is.
    pub fn install(self, checkout: &Checkout) -> Result<Vec<Command>> {
        match self {
            Packages::Npm(folder) => {
                let mut command = checkout.command("npm");
                command.current_dir(checkout.root.join(folder));
                command.args(["ci", "--no-audit", "--no-fund", "--prefer-offline"]);
                Ok(vec![command])
            }
            Packages::PyPi(folder) => {
                let mut venv = checkout.command("python3");
                venv.args(["-m", "venv"]).arg(venv_folder(checkout)?);
                Ok(vec![venv, pip(checkout, folder)?])
            }
        }
    }
}

/// The Python of the project's own virtual environment.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn python(checkout: &Checkout) -> Result<PathBuf> {
    program(checkout, "python")
}

/// A program that a package of PyPI brings.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn program(checkout: &Checkout, name: &str) -> Result<PathBuf> {
    Ok(venv_folder(checkout)?.join("bin").join(name))
}

/// The project's own virtual environment.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn venv_folder(checkout: &Checkout) -> Result<PathBuf> {
    Ok(checkout.target()?.join("venv"))
}

fn pip(checkout: &Checkout, folder: &str) -> Result<Command> {
    let mut command = checkout.command(python(checkout)?);
    command.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
    ]);
    command.arg(checkout.root.join(folder).join("requirements.txt"));
    Ok(command)
}

/// Runs each command and stops at the first that fails.
///
/// # Errors
/// When a program does not start.
pub fn run_all(commands: Vec<Command>) -> Result<bool> {
    for mut command in commands {
        let program = command.get_program().to_string_lossy().into_owned();
        let status = command
            .status()
            .with_context(|| format!("{program} does not start"))?;
        if !status.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Installs the Debian packages among `missing`, which only root may.
///
/// # Errors
/// When the user is not root, when something else than a package is missing, or when apt fails.
/// The message holds the command to type.
pub fn system(checkout: &Checkout, missing: &[Missing]) -> Result<()> {
    let mut packages = Vec::new();
    for one in missing {
        match &one.remedy {
            Remedy::Apt(names) => packages.extend(names.iter().copied()),
            Remedy::Install(_) => {}
            Remedy::Advice(advice) => bail!("{} is needed: {advice}", one.what),
        }
    }
    if packages.is_empty() {
        return Ok(());
    }
    let packages_text = packages.join(" ");
    if !is_root() {
        bail!("only root may install; type: sudo apt-get install -y {packages_text}");
    }
    println!("installing {packages_text}");
    for arguments in [
        vec!["update", "-q"],
        [vec!["install", "-y", "-q"], packages].concat(),
    ] {
        let mut apt = checkout.command("apt-get");
        // A package that asks a question would otherwise wait for ever.
        apt.env("DEBIAN_FRONTEND", "noninteractive")
            .args(&arguments);
        let status = apt
            .status()
            .context("apt-get does not start; is this Debian?")?;
        if !status.success() {
            bail!("`apt-get {}` failed", arguments.join(" "));
        }
    }
    Ok(())
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

/// Installs one folder's packages where they are not there yet; true when they are.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn provide(checkout: &Checkout, lane: &mut Lane, packages: Packages) -> Result<bool> {
    let folder = packages.folder();
    let name = format!("packages of {folder}");
    if packages.are_present(checkout)? {
        return Ok(true);
    }
    if !checkout.root.join(folder).is_dir() {
        return Ok(lane.step(&name, |_| bail!("{folder} does not exist")));
    }
    let mut commands = packages.install(checkout)?;
    Ok(commands
        .iter_mut()
        .all(|command| lane.run(&name, Runner::None, command)))
}
