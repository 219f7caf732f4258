//! Builds: what commands can do, and each limit they can pass.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use functions::archive::ArchiveBounds;
use functions::build::{BuildLimits, BuildLog, BuildWork, Built as Ready, build};
use functions::jail::JailLevel;

use super::{BINARY, Host, can};

/// What came of a build: whether it is ready, its log, and its folder.
struct Built {
    is_ready: bool,
    is_compiled: bool,
    log: String,
    folder: PathBuf,
    _host: Host,
}

fn built(commands: &str) -> Built {
    built_from(commands, None, Duration::from_mins(1))
}

fn built_from(commands: &str, archive: Option<&[u8]>, time_max: Duration) -> Built {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    built_by(&search_path, (commands, archive), time_max)
}

fn built_by(
    search_path: &OsStr,
    (commands, archive): (&str, Option<&[u8]>),
    time_max: Duration,
) -> Built {
    let host = Host::new();
    let packed = host.path("code.tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("-czf")
        .arg(&packed)
        .arg("-C")
        .arg(host.path("code"))
        .arg(".");
    assert!(tar.status().unwrap().success());
    let archive = archive.map_or_else(|| fs::read(&packed).unwrap(), <[u8]>::to_vec);
    let folder = host.path("built");
    fs::create_dir(&folder).unwrap();
    let runtimes = functions::InstalledRuntimes::find(search_path, &[]);
    let work = BuildWork {
        archive: archive.into(),
        folder: folder.clone(),
        compiled: host.path("compiled"),
        cache: None,
        commands: commands.replace("SECRET", &host.path("secret").display().to_string()),
        variables: vec![("ONE".into(), "1".into())],
        runtime: runtimes
            .by_id("python-3.11")
            .unwrap_or(&runtimes.found()[0])
            .clone(),
        launcher: BINARY.into(),
        outside: functions::outside::OutsideNetwork::default(),
        limits: BuildLimits {
            archive: ArchiveBounds {
                bytes_max: 1_000_000,
                entries_max: 1_000,
                path_bytes_max: 1_024,
                ratio_max: 200,
            },
            time_max,
            memory_mib: 256,
            disk_bytes_max: 20_000_000,
            disk_entries_max: 2_000,
        },
    };
    let log = BuildLog::new(10_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ready = runtime.block_on(build(work, &log));
    Built {
        is_ready: ready.is_some(),
        is_compiled: ready == Some(Ready { is_compiled: true }),
        log: log.text(),
        folder,
        _host: host,
    }
}

#[track_caller]
fn check_failed(commands: &str, words: &str) {
    let built = built(commands);
    assert!(!built.is_ready, "{commands}: {}", built.log);
    assert!(built.log.contains(words), "{commands}: {}", built.log);
}

#[test]
fn builds_run_their_commands_in_the_code() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let commands = "cp escape.js built.js\npython3 -c 'print(6 * 7)' > answer\necho one=$ONE; pwd";
    let built = built(commands);
    assert!(built.is_ready, "{}", built.log);
    assert_eq!(built.log, "one=1\n/function");
    assert_eq!(
        fs::read_to_string(built.folder.join("answer")).unwrap(),
        "42\n"
    );
    assert!(built.folder.join("built.js").exists());
}

#[test]
fn builds_without_commands_run_nothing() {
    let built = built(" \n");
    assert!(built.is_ready, "{}", built.log);
    assert!(built.folder.join("escape.py").exists());
}

#[test]
fn builds_end_at_their_first_failure() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let built = built("echo before; exit 3; echo after");
    assert!(!built.is_ready);
    assert!(
        built
            .log
            .starts_with("before\nThe commands ended with exit code 3."),
        "{}",
        built.log
    );
    assert!(
        built.log.contains("cannot reach a registry"),
        "{}",
        built.log
    );
    check_failed("cat SECRET", "No such file");
    check_failed("echo x > /usr/x", "Read-only file system");
    let broken = built_from("echo run", Some(b"no archive"), Duration::from_mins(1));
    assert!(
        !broken.is_ready && !broken.log.contains("run"),
        "{}",
        broken.log
    );
    assert!(
        broken.log.starts_with("The archive cannot be read"),
        "{}",
        broken.log
    );
}

#[test]
fn builds_have_limits() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let late = built_from("sleep 60 & sleep 60", None, Duration::from_secs(1));
    assert!(
        !late.is_ready && late.log == "Build timed out.",
        "{}",
        late.log
    );
    let write = "for n in 1 2 3; do head -c 10000000 /dev/zero > $n; done; sleep 60";
    check_failed(write, "The build wrote more than 20000000 bytes.");
    let deep = "mkdir -p a/b/c; head -c 30000000 /dev/zero > a/b/c/d; sleep 60";
    check_failed(deep, "The build wrote more than 20000000 bytes.");
    let many = "python3 -c 'for n in range(3000): open(str(n), \"w\")'; sleep 60";
    check_failed(
        many,
        "The build wrote more than 2000 files, folders and links.",
    );
    let deep = "python3 -c 'import os
for n in range(30): os.mkdir(\"d\" * 200); os.chdir(\"d\" * 200)
open(\"large\", \"wb\").write(bytes(30_000_000))'; sleep 60";
    check_failed(
        deep,
        "The build wrote a folder whose path has more than 1024 bytes.",
    );
    let built = built("yes flood | head -c 3000000; echo end");
    assert!(
        built.is_ready && built.log.ends_with("flood\nend"),
        "{}",
        built.log
    );
    assert!(built.log.len() <= 10_000, "{}", built.log.len());
}

/// A build by a runtime whose compiling runs these commands of a shell.
fn compiled_by(commands: &str, time_max: Duration) -> Built {
    // The jail has its own /tmp, and any user may write here.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("python3");
    let probed = serde_json::json!({
        "version": "3.11.2", "program": program, "folders": [folder.path()],
    });
    let script =
        format!("#!/bin/sh\ncase \"$*\" in *compileall*) {commands};; *) echo '{probed}';; esac\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().as_os_str();
    built_by(path, ("", None), time_max)
}

#[test]
fn builds_run_as_they_are_where_they_are_not_compiled() {
    if !can(JailLevel::Full, None) {
        return;
    }
    for end in ["exit 0", "exit 1"] {
        let commands = format!("echo whole > made.pyc; {end}");
        let built = compiled_by(&commands, Duration::from_mins(1));
        assert!(built.is_ready && built.is_compiled, "{end}: {}", built.log);
        let made = built.folder.with_file_name("compiled");
        assert_eq!(
            fs::read_to_string(made.join("made.pyc")).unwrap(),
            "whole\n"
        );
        assert!(made.join("escape.py").exists());
    }
    let cut_short = [("kill -9 $$", 60), ("exit 2", 60), ("sleep 60", 2)];
    for (end, seconds) in cut_short {
        let commands = format!("echo half > made.pyc; rm escape.py; {end}");
        let built = compiled_by(&commands, Duration::from_secs(seconds));
        assert!(built.is_ready && !built.is_compiled, "{end}: {}", built.log);
        assert_eq!(built.log, "");
        assert!(!built.folder.join("made.pyc").exists(), "{end}");
        assert!(built.folder.join("escape.py").exists(), "{end}");
    }
}
