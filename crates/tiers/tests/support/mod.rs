//! Files, clocks and other processes of these tests.
// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tiers::{FileSettings, FileTier, Host, Lookup, Tier, TierError, TierFault};

pub mod certificates;
pub mod faulty;
pub mod history;
pub mod mapped;
pub mod records;
pub mod redis_server;
pub mod sqlite;

/// What says to a started test program which work it has to do.
const JOB: &str = "TIERS_TEST_JOB";

pub fn no_forks() -> u32 {
    0
}

/// The real host, for processes that share a file.
pub fn host() -> Host {
    Host::of_this_machine(no_forks).unwrap()
}

pub fn settings(folder: &Path, bytes: u64, stripes: u32) -> FileSettings {
    FileSettings {
        path: folder.join("own").join("values"),
        bytes,
        stripes,
        codec: *b"test   1",
    }
}

pub fn tier(folder: &Path, bytes: u64, stripes: u32) -> FileTier {
    FileTier::new(settings(folder, bytes, stripes), host())
}

/// The value, `None` for a miss.
pub fn read(tier: &dyn Tier, key: &[u8]) -> Result<Option<Vec<u8>>, TierError> {
    Ok(match tier.get(key)? {
        Lookup::Hit(hit) => Some(hit.value().to_vec()),
        Lookup::Miss(_) => None,
    })
}

/// Stores a value however long others take for theirs: on a machine with much to do, the owner of
/// a lock may not run for longer than a writer waits.
pub fn insist(tier: &dyn Tier, key: &[u8], value: &[u8]) {
    loop {
        match tier.set(key, value, None, None) {
            Ok(_) => return,
            Err(error) => assert_eq!(error.fault, TierFault::Busy, "{error}"),
        }
    }
}

/// Deletes a key, as [`insist`] stores one.
pub fn insist_gone(tier: &dyn Tier, key: &[u8]) {
    while let Err(error) = tier.delete(key) {
        assert_eq!(error.fault, TierFault::Busy, "{error}");
    }
}

pub fn is_night() -> bool {
    std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night")
}

/// What the process that runs this was started for by [`start`]: words.
pub fn job() -> Option<Vec<String>> {
    let words = std::env::var(JOB).ok()?;
    Some(words.split('\t').map(str::to_owned).collect())
}

/// Starts this test program again; there, the test `worker` does the job.
pub fn start(words: &[&str]) -> Child {
    start_by(&[], words)
}

/// As [`start`], by a program that runs another one with changed surroundings.
pub fn start_by(runner: &[&str], words: &[&str]) -> Child {
    let program: PathBuf = std::env::current_exe().unwrap();
    let mut command = match runner.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    command
        .args(["worker", "--exact", "--nocapture", "--test-threads=1"])
        .env(JOB, words.join("\t"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Whether a process may have namespaces of these kinds. If not, it says so; by night, when
/// everything has to run, that is a failure.
pub fn has_namespaces(kinds: &[&str]) -> bool {
    let tried = Command::new("unshare").args(kinds).arg("true").output();
    let may = tried.is_ok_and(|tried| tried.status.success());
    if !may {
        let text = format!("this user may not call unshare {}", kinds.join(" "));
        assert!(!is_night(), "{text}");
        eprintln!("not run: {text}");
    }
    may
}

/// Numbers that look like chance and are not (SplitMix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
