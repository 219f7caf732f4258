//! Where the project's files are, and which of them are its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// One copy of the project on this machine.
pub struct Checkout {
    /// The folder that holds the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Whether cargo leaves out what only the released program and a debugger need.
    builds_fast: bool,
}

/// Settings of cargo that halve the processor time of a build and its room on the disk: no
/// link-time optimisation (the released program has it), no line tables in test programs (a panic
/// names its line all the same), nothing kept for an incremental build (13 GB for all of them).
const FAST_BUILD: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_INCREMENTAL", "0"),
];

impl Checkout {
    /// Looks upward from the current folder, so that every command works in any folder.
    ///
    /// # Errors
    /// When no folder above holds a `Cargo.toml` with a `[workspace]`.
    pub fn find() -> Result<Checkout> {
        let here = std::env::current_dir().context("the current folder cannot be read")?;
        for folder in here.ancestors() {
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
            if manifest.lines().any(|line| line.trim() == "[workspace]") {
                return Ok(Checkout {
                    root: folder.to_path_buf(),
                    builds_fast: false,
                });
            }
        }
        bail!(
            "no workspace above {}; run this inside the project",
            here.display()
        )
    }

    /// The cargo that started this program, or else the one on the path.
    pub fn cargo(&self) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.command(program);
        if self.builds_fast {
            command.envs(FAST_BUILD);
        }
        command
    }

    /// The same checkout, whose builds are made to be tested or tried, not to be measured.
    #[must_use]
    pub fn building_fast(&self) -> Checkout {
        Checkout {
            root: self.root.clone(),
            builds_fast: true,
        }
    }

    /// A command that runs in the root and reads nothing from the terminal: a lane must never
    /// wait for an answer.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        command
    }

    /// The folder cargo builds in; it is asked, because a user may have moved it.
    pub fn target(&self) -> Result<PathBuf> {
        let mut command = self.cargo();
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        let output = command
            .stderr(Stdio::inherit())
            .output()
            .context("cargo does not start")?;
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
            .context("`cargo metadata` failed; its message stands above")?;
        let folder = metadata["target_directory"].as_str();
        Ok(folder
            .context("`cargo metadata` names no target_directory")?
            .into())
    }

    /// The released program, as `cargo build --release -p tidemark` leaves it.
    pub fn binary(&self) -> Result<PathBuf> {
        Ok(self.target()?.join("release").join("tidemark"))
    }

    /// The command that builds [`Checkout::binary`].
    pub fn build_release(&self) -> Command {
        let mut command = self.cargo();
        command.args(["build", "--release", "-p", "tidemark"]);
        command
    }

    /// The program as tests of the workspace build it: without optimisation, with every check of
    /// its arithmetic, and with the rules that tests can switch off.
    pub fn debug_binary(&self) -> Result<PathBuf> {
        Ok(self.target()?.join("debug").join("tidemark"))
    }

    /// Paths, relative to the root, of every file that is in git or would be added to it.
    ///
    /// # Errors
    /// When git is missing or the folder is no git checkout.
    pub fn files(&self) -> Result<Vec<String>> {
        let mut command = self.command("git");
        command.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let output = command.output().context("git does not start")?;
        if !output.status.success() {
            bail!(
                "`git ls-files`: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let listed = String::from_utf8_lossy(&output.stdout);
        let mut paths: Vec<String> = listed.split('\0').map(str::to_owned).collect();
        // A file deleted but not yet committed is still listed.
        paths.retain(|path| !path.is_empty() && self.root.join(path).is_file());
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// `path` as a person in the root would type it.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}
