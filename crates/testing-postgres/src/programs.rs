//! Which of the installed servers is used.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

/// The package of Debian 12 that brings the programs.
pub const PACKAGE: &str = "postgresql-15";
/// The oldest major version that Tidemark runs on.
const VERSION_MIN: u32 = 15;
/// Where Debian's packages put them, a folder for each major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The programs of one installation.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Its major version.
    pub version: u32,
    /// Where they are; empty where they are on the path.
    folder: PathBuf,
}

impl Programs {
    /// The newest that is installed.
    ///
    /// # Errors
    /// When there is none of [`VERSION_MIN`] or later. The message names the package.
    pub fn find() -> Result<Programs> {
        let installed = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
        let folders = installed.map(|entry| entry.path().join("bin"));
        let found = folders.chain([PathBuf::new()]).filter_map(Programs::of);
        let newest = found.max_by_key(|programs| programs.version);
        match newest {
            Some(programs) if programs.version >= VERSION_MIN => Ok(programs),
            Some(Programs { version, .. }) => bail!(
                "PostgreSQL {VERSION_MIN} or later is needed, and {version} is installed: \
                 apt-get install -y {PACKAGE}"
            ),
            None => {
                bail!("PostgreSQL {VERSION_MIN} or later is needed: apt-get install -y {PACKAGE}")
            }
        }
    }

    /// Those in `folder`, if they run.
    fn of(folder: PathBuf) -> Option<Programs> {
        let output = Command::new(folder.join("postgres"))
            .arg("--version")
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        let version = major(&String::from_utf8_lossy(&output.stdout))?;
        Some(Programs { version, folder })
    }

    /// The path of one of them, or its name where it is on the path.
    pub fn path(&self, name: &str) -> OsString {
        Path::join(&self.folder, name).into_os_string()
    }
}

/// The major version in what `postgres --version` prints.
fn major(text: &str) -> Option<u32> {
    let number = text.split_whitespace().nth(2)?;
    let digits = number.split(|letter: char| !letter.is_ascii_digit()).next();
    digits?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_servers_print() {
        let cases = [
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
                Some(15),
            ),
            ("postgres (PostgreSQL) 18beta1", Some(18)),
            ("postgres (PostgreSQL) 9.6.24", Some(9)),
            ("postgres", None),
            ("", None),
        ];
        for (text, version) in cases {
            assert_eq!(major(text), version, "{text}");
        }
    }
}
