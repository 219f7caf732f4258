//! What must be on the machine, and how to get what is not.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::checkout::Checkout;

/// Node 20 is the oldest release line the official SDK's own tests run on.
const NODE_MIN: Version = (20, 0);
/// The oldest Python that `appwrite` 27.0.0 declares (`Requires-Python`).
const PYTHON_MIN: Version = (3, 10);

/// Debian 12 packages this one, and the client of Go needs nothing newer.
const GO_MIN: Version = (1, 19);
/// Where Go is, or where its own installation puts it without being on the path.
const GO_PLACES: [&str; 2] = ["go", "/usr/local/go/bin/go"];

/// Major and minor number.
type Version = (u32, u32);

/// One thing that is absent or too old.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// What, and what was found instead of it.
    pub what: String,
    /// How to get it.
    pub remedy: Remedy,
}

/// How to get what is missing.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// Debian packages.
    Apt(&'static [&'static str]),
    /// A step that this program can take, as a person would type it in the root.
    Install(String),
    /// Only a person can do it.
    Advice(String),
}

impl Missing {
    fn new(what: impl Into<String>, remedy: Remedy) -> Missing {
        Missing {
            what: what.into(),
            remedy,
        }
    }

    fn line(&self) -> String {
        let remedy = match &self.remedy {
            Remedy::Apt(packages) => format!("apt-get install -y {}", packages.join(" ")),
            Remedy::Install(command) | Remedy::Advice(command) => command.clone(),
        };
        format!("  {}\n      {remedy}", self.what)
    }
}

/// Says what is missing and what to do `next`; the exit status 2 tells a script that nothing
/// was run.
pub fn refuse(missing: &[Missing], next: &str) -> ExitCode {
    eprintln!("Missing on this machine:");
    for one in missing {
        eprintln!("{}", one.line());
    }
    eprintln!("Nothing was run; {next}.");
    ExitCode::from(2)
}

/// The toolchain with its formatter and linter, a C compiler for the bundled database, git.
pub fn for_rust(checkout: &Checkout) -> Vec<Missing> {
    let mut missing = Vec::new();
    let wanted = rust_min(checkout);
    let update = || Remedy::Advice("rustup update stable  (see https://rustup.rs)".to_owned());
    missing.extend(too_old("rustc", "rustc", wanted, update));
    missing.extend(too_old("cargo", "cargo", wanted, update));
    for (tool, component) in [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")] {
        if version_of(tool).is_none() {
            let remedy = Remedy::Advice(format!("rustup component add {component}"));
            missing.push(Missing::new(component, remedy));
        }
    }
    missing.extend(to_build());
    missing
}

/// What `cargo build` needs beyond Rust.
pub fn to_build() -> Vec<Missing> {
    let mut missing = Vec::new();
    if version_of("cc").is_none() {
        missing.push(Missing::new(
            "a C compiler",
            Remedy::Apt(&["gcc", "libc6-dev"]),
        ));
    }
    if version_of("git").is_none() {
        missing.push(Missing::new("git", Remedy::Apt(&["git"])));
    }
    missing
}

/// Node and npm.
pub fn for_node() -> Vec<Missing> {
    let mut missing = Vec::new();
    let absent = version_of("node").is_none();
    missing.extend(too_old("Node", "node", NODE_MIN, || {
        // Debian 12 packages Node 18: installing it over an old one would change nothing.
        let advice = "install Node 20 or later, see https://nodejs.org/en/download";
        if absent {
            Remedy::Apt(&["nodejs"])
        } else {
            Remedy::Advice(advice.to_owned())
        }
    }));
    if version_of("npm").is_none() {
        missing.push(Missing::new("npm", Remedy::Apt(&["npm"])));
    }
    missing
}

/// Python with its `venv` module.
pub fn for_python() -> Vec<Missing> {
    let absent = version_of("python3").is_none();
    let old = too_old("Python", "python3", PYTHON_MIN, || {
        let advice = "install Python 3.10 or later, see https://www.python.org/downloads";
        if absent {
            Remedy::Apt(&["python3", "python3-venv"])
        } else {
            Remedy::Advice(advice.to_owned())
        }
    });
    if let Some(old) = old {
        return vec![old];
    }
    // Debian keeps the half of `venv` that brings pip in a package of its own.
    let check = Command::new("python3")
        .args(["-c", "import venv, ensurepip"])
        .output();
    if check.is_ok_and(|output| output.status.success()) {
        return Vec::new();
    }
    vec![Missing::new(
        "Python's venv module",
        Remedy::Apt(&["python3-venv"]),
    )]
}

/// Go, which builds and tests its client.
pub fn for_go() -> Vec<Missing> {
    let output = Command::new(go()).arg("version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let Some((major, minor)) = text.ok().and_then(|text| parse_version(&text)) else {
        return vec![Missing::new("Go", Remedy::Apt(&["golang-go"]))];
    };
    if (major, minor) >= GO_MIN {
        return Vec::new();
    }
    let (wanted, wanted_minor) = GO_MIN;
    let advice = format!("install Go {wanted}.{wanted_minor} or later, see https://go.dev/dl");
    let what = format!("Go {wanted}.{wanted_minor} or later (found {major}.{minor})");
    vec![Missing::new(what, Remedy::Advice(advice))]
}

/// The programs of the other database.
pub fn for_postgres() -> Vec<Missing> {
    if testing_postgres::Programs::find().is_ok() {
        return Vec::new();
    }
    let remedy = Remedy::Apt(&[testing_postgres::PACKAGE]);
    vec![Missing::new("PostgreSQL 15 or later", remedy)]
}

/// The program by which guides ask the server from a shell.
pub fn for_guides() -> Vec<Missing> {
    if version_of("curl").is_some() {
        return Vec::new();
    }
    vec![Missing::new("curl", Remedy::Apt(&["curl"]))]
}

/// The servers that the tests of caches' tiers start.
pub fn for_tiers() -> Vec<Missing> {
    let mut missing = Vec::new();
    if version_of("redis-server").is_none() {
        missing.push(Missing::new("Redis", Remedy::Apt(&["redis-server"])));
    }
    if version_of("memcached").is_none() {
        missing.push(Missing::new("Memcached", Remedy::Apt(&["memcached"])));
    }
    missing
}

/// PHP with the extensions that the tests of the WordPress drop-in use, and what builds one.
pub fn for_php() -> Vec<Missing> {
    let code = "exit(PHP_VERSION_ID >= 80100 && class_exists('SQLite3') \
                && extension_loaded('apcu') && extension_loaded('posix') ? 0 : 1);";
    let output = Command::new("php").args(["-r", code]).output();
    let mut missing = Vec::new();
    if !output.is_ok_and(|output| output.status.success()) {
        missing.push(Missing::new(
            "PHP 8.1 or later with its extensions SQLite3, APCu and posix",
            Remedy::Apt(&["php-cli", "php-sqlite3", "php-apcu"]),
        ));
    }
    if version_of("php-config").is_none() {
        missing.push(Missing::new(
            "the headers of PHP",
            Remedy::Apt(&["php-dev"]),
        ));
    }
    missing
}

/// The Go that is there; the first place if none is.
pub fn go() -> &'static str {
    let runs = |place: &&&str| Command::new(place).arg("version").output().is_ok();
    GO_PLACES.iter().find(runs).unwrap_or(&GO_PLACES[0])
}

/// The browser of the web SDK's suite.
pub fn for_web() -> Vec<Missing> {
    let browser = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    if version_of(&browser).is_some() {
        return Vec::new();
    }
    vec![Missing::new("Chromium", Remedy::Apt(&["chromium"]))]
}

/// What benchmarks need beside the build, by the names of their list.
pub fn for_bench(system: &[String]) -> Vec<Missing> {
    let is_absent = |name: &str, places: &[&str], flag: &str| {
        let runs = |place: &&str| Command::new(place).arg(flag).output().is_ok();
        system.iter().any(|wanted| wanted == name) && !places.iter().any(runs)
    };
    let mut missing = Vec::new();
    if is_absent("wrk", &["wrk"], "--version") {
        let remedy = Remedy::Apt(&["wrk"]);
        missing.push(Missing::new("wrk, the load generator", remedy));
    }
    // Debian puts it where not everybody looks.
    if is_absent("nginx", &["nginx", "/usr/sbin/nginx"], "-v") {
        let remedy = Remedy::Apt(&["nginx-light"]);
        missing.push(Missing::new("nginx, which serves a file beside us", remedy));
    }
    // Debian 12 packages Go 1.19, which is too old for PocketBase.
    if is_absent("go", &GO_PLACES, "version") {
        let remedy = Remedy::Advice("install Go, see https://go.dev/dl".to_owned());
        missing.push(Missing::new("Go, which builds PocketBase", remedy));
    }
    if system.iter().any(|wanted| wanted == "postgresql") {
        missing.extend(for_postgres());
    }
    missing
}

/// What libFuzzer's own sources need.
pub fn for_fuzz() -> Vec<Missing> {
    if version_of("c++").is_some() {
        return Vec::new();
    }
    vec![Missing::new("a C++ compiler", Remedy::Apt(&["g++"]))]
}

/// What another Debian is made with.
pub fn for_other_debian() -> Vec<Missing> {
    if version_of("debootstrap").is_some() {
        return Vec::new();
    }
    vec![Missing::new("debootstrap", Remedy::Apt(&["debootstrap"]))]
}

/// What another PHP is made with, and what watches memory.
pub fn for_php_at_night() -> Vec<Missing> {
    const PROGRAMS: [(&str, &[&str]); 4] = [
        ("valgrind", &["valgrind"]),
        ("dpkg-source", &["dpkg-dev"]),
        ("autoconf", &["autoconf"]),
        ("make", &["make"]),
    ];
    let starts = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    let mut missing = Vec::new();
    for (program, packages) in PROGRAMS {
        if !starts(program, &["--version"]) {
            missing.push(Missing::new(program, Remedy::Apt(packages)));
        }
    }
    if !Path::new("/usr/include/sqlite3.h").is_file() {
        let remedy = Remedy::Apt(&["libsqlite3-dev"]);
        missing.push(Missing::new("the headers of SQLite", remedy));
    }
    if !starts("rustc", &["+nightly", "-V"]) {
        let advice = "rustup toolchain install nightly  (see https://rustup.rs)";
        let remedy = Remedy::Advice(advice.to_owned());
        missing.push(Missing::new("nightly Rust", remedy));
    }
    missing
}

/// What builds an interpreter without the lock, and watches what its threads touch.
pub fn for_python_at_night() -> Vec<Missing> {
    const FILES: [(&str, &str, &[&str]); 7] = [
        (
            "clang 16",
            "/usr/bin/clang-16",
            &["clang-16", "libclang-rt-16-dev"],
        ),
        ("LLVM 16", "/usr/bin/llvm-symbolizer-16", &["llvm-16"]),
        (
            "Debian's Rust",
            "/usr/bin/rustc",
            &["rustc-web", "libstd-rust-web-dev"],
        ),
        ("Debian's cargo", "/usr/bin/cargo", &["cargo-web"]),
        (
            "the source of Rust",
            "/usr/lib/rustlib/src/rust/library/std",
            &["rust-web-src"],
        ),
        (
            "the headers of OpenSSL",
            "/usr/include/openssl/ssl.h",
            &["libssl-dev"],
        ),
        (
            "the headers of zlib",
            "/usr/include/zlib.h",
            &["zlib1g-dev"],
        ),
    ];
    let absent = FILES
        .iter()
        .filter(|(_, file, _)| !Path::new(file).exists());
    absent
        .map(|(what, _, packages)| Missing::new(*what, Remedy::Apt(packages)))
        .collect()
}

/// A host for WordPress, and what its faults are made with.
pub fn for_wordpress() -> Vec<Missing> {
    let programs = [
        "mariadbd", "nginx", "bindfs", "faketime", "setpriv", "mount",
    ];
    let found = |name: &str| {
        let folders = ["/usr/bin", "/usr/sbin"];
        let mut places = folders.iter().map(|folder| Path::new(folder).join(name));
        places.any(|place| place.is_file())
    };
    let code = "exit(extension_loaded('mysqli') && 0 === posix_geteuid() ? 0 : 1);";
    let is_php_fit = Command::new("php").args(["-r", code]).output();
    if programs.into_iter().all(found)
        && Path::new("/usr/share/wordpress/wp-load.php").is_file()
        && is_php_fit.is_ok_and(|output| output.status.success())
    {
        return Vec::new();
    }
    vec![Missing::new(
        "a host for WordPress, and to be root",
        Remedy::Apt(&[
            "php-fpm",
            "php-mysql",
            "mariadb-server",
            "nginx-light",
            "wordpress",
            "wordpress-theme-twentytwentythree",
            "bindfs",
            "faketime",
        ]),
    )]
}

/// The workspace's own `rust-version`, so that the number is written once.
fn rust_min(checkout: &Checkout) -> Version {
    let manifest = std::fs::read_to_string(checkout.root.join("Cargo.toml")).unwrap_or_default();
    let parsed: toml::Table = manifest.parse().unwrap_or_default();
    let stated = parsed
        .get("workspace")
        .and_then(|workspace| workspace.get("package")?.get("rust-version")?.as_str());
    stated.and_then(parse_version).unwrap_or((0, 0))
}

fn too_old(
    name: &str,
    program: &str,
    wanted: Version,
    remedy: impl FnOnce() -> Remedy,
) -> Option<Missing> {
    let (major, minor) = wanted;
    let what = match version_of(program) {
        Some(found) if found >= wanted => return None,
        Some((had, had_minor)) => {
            format!("{name} {major}.{minor} or later (found {had}.{had_minor})")
        }
        None => format!("{name} {major}.{minor} or later (not found)"),
    };
    Some(Missing::new(what, remedy()))
}

/// `None` when the program is absent, fails, or prints no version.
fn version_of(program: &str) -> Option<Version> {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// The first `digits.digits` in a text such as `v20.20.2`, `v=7.0.15` or
/// `rustc 1.95.0 (59807616e …)`.
fn parse_version(text: &str) -> Option<Version> {
    text.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches("v=").trim_start_matches('v');
        let word = word.trim_start_matches("go");
        let mut numbers = word.split(['.', '-']);
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some((major, minor))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_print() {
        let cases = [
            ("v20.20.2\n", Some((20, 20))),
            ("rustc 1.95.0 (59807616e 2026-04-14)", Some((1, 95))),
            ("rustfmt 1.9.0-stable (59807616e1 2026-04-14)", Some((1, 9))),
            ("Python 3.11.7", Some((3, 11))),
            ("Redis server v=7.0.15 sha=00000000:0", Some((7, 0))),
            ("cc (Debian 12.2.0-14) 12.2.0", Some((12, 2))),
            ("11.19.1", Some((11, 19))),
            ("go version go1.26.8 linux/amd64", Some((1, 26))),
            ("no number here", None),
        ];
        for (text, version) in cases {
            assert_eq!(parse_version(text), version, "{text}");
        }
    }

    #[test]
    fn a_tool_that_is_absent_is_named_with_what_is_wanted() {
        let remedy = || Remedy::Advice("get it".to_owned());
        let missing = too_old("Thing", "no-program-has-this-name", (2, 5), remedy).unwrap();
        assert_eq!(
            missing.line(),
            "  Thing 2.5 or later (not found)\n      get it"
        );
    }

    #[test]
    fn a_tool_is_refused_only_below_the_wanted_version() {
        let remedy = || Remedy::Apt(&["rustc"]);
        assert_eq!(too_old("Rust", "rustc", (1, 0), remedy), None);
        let missing = too_old("Rust", "rustc", (999, 0), remedy).unwrap();
        assert!(
            missing.what.starts_with("Rust 999.0 or later (found 1."),
            "{}",
            missing.what
        );
        assert!(missing.line().ends_with("apt-get install -y rustc"));
    }
}
