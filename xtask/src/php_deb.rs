//! The extension of PHP as a package of Debian, for the PHP that `php-config` describes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;

const NOTICES: &str = "php/ext/THIRD-PARTY-NOTICES.txt";
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Puts the library and its settings into target/dist/php/php8.2-tidemark_….deb.
///
/// # Errors
/// When php-config, dpkg or dpkg-deb are missing or fail, or a file cannot be written.
pub fn build(checkout: &Checkout, library: &Path, settings: &Path) -> Result<PathBuf> {
    let php = php_config("--version")?;
    let php: Vec<_> = php.split('.').take(2).collect();
    let name = format!("php{}-tidemark", php.join("."));
    let version = env!("CARGO_PKG_VERSION");
    let architecture = printed(Command::new("dpkg").arg("--print-architecture"))?;
    let root = checkout.target()?.join("php-deb");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| checkout.shown(&root))?;
    }
    let enabled = php.join(".");
    let extension = php_config("--extension-dir")?;
    put(
        &root,
        &format!("{extension}/tidemark.so"),
        &fs::read(library)?,
    )?;
    let ini = format!("/etc/php/{enabled}/mods-available/tidemark.ini");
    put(&root, &ini, &fs::read(settings)?)?;
    let documents = format!("/usr/share/doc/{name}");
    let mut copyright = String::new();
    for licence in LICENCES {
        copyright += &fs::read_to_string(checkout.root.join(licence)).context(licence)?;
        copyright.push('\n');
    }
    put(
        &root,
        &format!("{documents}/copyright"),
        copyright.as_bytes(),
    )?;
    let notices = fs::read(checkout.root.join(NOTICES)).context(NOTICES)?;
    put(
        &root,
        &format!("{documents}/{}", "THIRD-PARTY-NOTICES.txt"),
        &notices,
    )?;
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: The Tidemark developers <noreply@tidemark.invalid>\nSection: php\n\
         Priority: optional\nDepends: phpapi-{}, php-common, libc6\n\
         Description: cache that all PHP processes of a machine share\n \
         Values of every type in one mapped file, for PHP-FPM and the command line.\n",
        php_config("--phpapi")?
    );
    put(&root, "/DEBIAN/control", control.as_bytes())?;
    put(&root, "/DEBIAN/conffiles", format!("{ini}\n").as_bytes())?;
    for (script, act) in [("postinst", "phpenmod"), ("prerm", "phpdismod")] {
        let text = format!("#!/bin/sh\nset -e\n{act} -v {enabled} tidemark\n");
        put(&root, &format!("/DEBIAN/{script}"), text.as_bytes())?;
        executable(&root.join("DEBIAN").join(script))?;
    }
    let package = format!("dist/php/{name}_{version}_{architecture}.deb");
    let package = checkout.target()?.join(package);
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"]);
    printed(pack.arg(&root).arg(&package))?;
    Ok(package)
}

fn put(root: &Path, path: &str, bytes: &[u8]) -> Result<()> {
    let path = root.join(path.trim_start_matches('/'));
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::write(&path, bytes).with_context(|| path.display().to_string())
}

fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).with_context(|| path.display().to_string())
}

fn php_config(what: &str) -> Result<String> {
    let program = std::env::var("PHP_CONFIG").unwrap_or_else(|_| "php-config".to_owned());
    printed(Command::new(program).arg(what))
}

fn printed(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("{} does not start", command.get_program().display()))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{} failed: {error}", command.get_program().display());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
