//! Packages of a registry, installed by a build in its jail as anywhere else.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use functions::InstalledRuntimes;
use functions::archive::ArchiveBounds;
use functions::build::{BuildLimits, BuildLog, BuildWork, build};
use functions::jail::JailLevel;
use functions::outside::OutsideNetwork;
use functions::pack::pack;
use serde_json::json;
use testing::own_address;

use super::{BINARY, Host, LANGUAGES, can, run};

const BOUNDS: ArchiveBounds = ArchiveBounds {
    bytes_max: 50_000_000,
    entries_max: 10_000,
    path_bytes_max: 1_024,
    ratio_max: 200,
};

const INSTALL: &str = "npm install\npip install -r requirements.txt";

/// A wheel of one module (PEP 427).
const WHEEL: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('tiny.py', 'WORD = \"from the index\"')
    about = 'tiny-1.0.dist-info/'
    wheel.writestr(about + 'METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')
    wheel.writestr(about + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(about + 'RECORD', 'tiny.py,,\\n')
";

fn packed(folder: &Path) -> Vec<u8> {
    let mut archive = Vec::new();
    pack(folder, &mut archive, BOUNDS).unwrap();
    archive
}

/// What npm and pip ask for, by the path of a request.
fn pages(host: &Host, url: &str) -> Vec<(String, &'static str, Vec<u8>)> {
    let folder = host.path("npm");
    fs::create_dir_all(folder.join("package")).unwrap();
    let about = r#"{"name":"tiny","version":"1.0.0","main":"index.js"}"#;
    fs::write(folder.join("package/package.json"), about).unwrap();
    let code = "module.exports = 'from the registry'";
    fs::write(folder.join("package/index.js"), code).unwrap();
    let version = json!({
        "name": "tiny", "version": "1.0.0", "dist": {"tarball": format!("{url}/tiny.tgz")},
    });
    let package = json!({
        "name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version},
    });
    let wheel = host.path("tiny-1.0-py3-none-any.whl");
    let made = Command::new("python3")
        .args(["-c", WHEEL])
        .arg(&wheel)
        .status();
    assert!(made.unwrap().success());
    let index = "<a href=\"/tiny-1.0-py3-none-any.whl\">tiny-1.0-py3-none-any.whl</a>";
    vec![
        (
            "/tiny".into(),
            "application/json",
            package.to_string().into(),
        ),
        ("/tiny.tgz".into(), "application/gzip", packed(&folder)),
        ("/simple/tiny/".into(), "text/html", index.into()),
        (
            "/tiny-1.0-py3-none-any.whl".into(),
            "application/zip",
            fs::read(wheel).unwrap(),
        ),
    ]
}

fn answer(stream: &mut TcpStream, pages: &[(String, &str, Vec<u8>)]) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let page = pages.iter().find(|(known, ..)| known == path);
    let (status, kind, body) = page.map_or((404, "text/plain", &[][..]), |(_, kind, body)| {
        (200, *kind, body)
    });
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)
}

/// Serves the packages at an address of this host; its URL.
fn registry(host: &Host, own: Ipv4Addr) -> String {
    let listener = TcpListener::bind((own, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let pages = pages(host, &url);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // A client that goes away has what it wanted.
            let _ = answer(&mut stream, &pages);
        }
    });
    url
}

/// Builds the code of both languages; its log, and whether it is ready.
fn built(
    host: &Host,
    (own, url): (Ipv4Addr, &str),
    (commands, allow): (&str, &[String]),
) -> (bool, String) {
    let source = host.path("source");
    fs::create_dir_all(&source).unwrap();
    let files = [
        ("package.json", r#"{"dependencies":{"tiny":"1.0.0"}}"#),
        ("requirements.txt", "tiny==1.0\n"),
        (
            "main.js",
            "module.exports = ({ res }) => res.text(require('tiny'))",
        ),
        (
            "main.py",
            "import tiny\ndef main(context):\n    return context.res.text(tiny.WORD)\n",
        ),
    ];
    for (name, text) in files {
        fs::write(source.join(name), text).unwrap();
    }
    // In place of the code of the other tests.
    fs::remove_dir_all(host.path("code")).unwrap();
    fs::create_dir(host.path("code")).unwrap();
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let runtimes = InstalledRuntimes::find(&search_path, &[]);
    let mut found = runtimes.found().iter();
    let runtime = found.find(|runtime| runtime.name == "python").unwrap();
    let cache = host.path("cache");
    fs::create_dir_all(&cache).unwrap();
    let variables = [
        ("npm_config_registry", url.to_owned()),
        ("npm_config_fetch_retries", "0".to_owned()),
        ("PIP_INDEX_URL", format!("{url}/simple")),
        ("PIP_TRUSTED_HOST", own.to_string()),
        ("PIP_RETRIES", "0".to_owned()),
    ];
    let work = BuildWork {
        archive: packed(&source).into(),
        folder: host.path("code"),
        compiled: host.path("compiled"),
        cache: Some(cache),
        commands: commands.into(),
        variables: variables.map(|(name, value)| (name.into(), value)).into(),
        runtime: runtime.clone(),
        launcher: BINARY.into(),
        outside: OutsideNetwork {
            allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
            nameservers: vec!["127.0.0.1:9".parse().unwrap()],
        },
        limits: BuildLimits {
            archive: BOUNDS,
            time_max: Duration::from_mins(10),
            memory_mib: 1_024,
            disk_bytes_max: 100_000_000,
            disk_entries_max: 200_000,
        },
    };
    let log = BuildLog::new(10_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ready = runtime.unwrap().block_on(build(work, &log));
    (ready.is_some(), log.text())
}

/// Where the packages are from that the code of both languages finds.
#[track_caller]
fn check_words(host: &Host, words: [&str; 2]) {
    let executor = host.executor(JailLevel::Full);
    for ((language, ending), word) in LANGUAGES.into_iter().zip(words) {
        let file = format!("main.{ending}");
        let outcome = run(&executor, host.work(&executor, language, &file, "/"));
        let said = String::from_utf8_lossy(&outcome.response.body);
        assert_eq!(said, format!("from the {word}"), "{}", outcome.errors);
    }
}

#[test]
fn builds_install_packages_of_a_registry() {
    let Some(own) = own_address().filter(|_| can(JailLevel::Full, None)) else {
        return;
    };
    let host = Host::new();
    let url = registry(&host, own);
    let all = (INSTALL, &[own.to_string()][..]);
    let (is_ready, log) = built(&host, (own, &url), all);
    assert!(is_ready, "{log}");
    check_words(&host, ["registry", "index"]);
    // What was fetched is there for the next build, also where it reaches nothing.
    let (is_ready, log) = built(&host, (own, &url), ("npm install --offline", &[]));
    assert!(is_ready, "{log}");
    assert!(host.path("code/node_modules/tiny/index.js").exists());
}

#[test]
fn builds_that_reach_no_registry_say_what_to_do() {
    let Some(own) = own_address().filter(|_| can(JailLevel::Full, None)) else {
        return;
    };
    let host = Host::new();
    let url = registry(&host, own);
    let (is_ready, log) = built(&host, (own, &url), (INSTALL, &[]));
    assert!(!is_ready, "{log}");
    for words in [
        format!("Builds may not connect to {own}:"),
        "an archive brings its packages with it".to_owned(),
    ] {
        assert!(log.contains(&words), "{words}: {log}");
    }
}

#[test]
fn builds_find_packages_that_their_archive_brings() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let host = Host::new();
    // The wheel; its place and that of the registry are not used.
    pages(&host, "http://127.0.0.1:9");
    let (wheels, module) = (
        host.path("source/wheels"),
        host.path("source/node_modules/tiny"),
    );
    fs::create_dir_all(&wheels).unwrap();
    fs::create_dir_all(&module).unwrap();
    let wheel = "tiny-1.0-py3-none-any.whl";
    fs::copy(host.path(wheel), wheels.join(wheel)).unwrap();
    let code = "module.exports = 'from the archive'";
    fs::write(module.join("index.js"), code).unwrap();
    let install = "pip install --no-index --find-links wheels -r requirements.txt";
    let nowhere = (Ipv4Addr::LOCALHOST, "http://127.0.0.1:9");
    let (is_ready, log) = built(&host, nowhere, (install, &[]));
    assert!(is_ready, "{log}");
    check_words(&host, ["archive", "index"]);
}
