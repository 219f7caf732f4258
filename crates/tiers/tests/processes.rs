//! Several processes on one file: what they see of each other, and what is left when they die.
#![allow(unsafe_code)] // `fork` is what is tested.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use tiers::{FileTier, Host, Tier, TierFault};

mod support;

use support::history::{act, check};
use support::{
    Numbers, has_namespaces, insist, insist_gone, is_night, job, read, settings, start, start_by,
    tier,
};

/// A ring in which nothing is crowded out between the beginning and the end of a round.
const WIDE: u64 = 16 << 20;
/// One in which values are crowded out all the time.
const NARROW: u64 = 1 << 20;
const WRITERS: u64 = 4;
/// Of these numbers in a row, the last one deletes its key.
const PERIOD: u64 = 8;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Does the job for which another test has started this program; none by itself.
#[test]
fn worker() {
    let Some(words) = job() else { return };
    let folder = Path::new(&words[1]);
    let number = || words[2].parse::<u64>().unwrap();
    match words[0].as_str() {
        "count" => count(folder, number()),
        "lock" => lock_all(folder),
        "full" => fill_disk(folder),
        "fork" => preload_then_fork(folder),
        "history" => history(folder, number(), words[3].parse().unwrap()),
        other => panic!("{other}"),
    }
}

/// Sets and deletes its keys in turn, each number once, and writes down which one is done.
fn count(folder: &Path, writer: u64) {
    let tier = tier(folder, WIDE, 2);
    let done = acknowledged(folder);
    println!("begins");
    for number in 1_u64.. {
        let key = writer.to_le_bytes();
        if number % PERIOD == PERIOD - 1 {
            insist_gone(&tier, &key);
        } else {
            insist(&tier, &key, &number.to_le_bytes().repeat(40));
        }
        done.write_all_at(&number.to_le_bytes(), writer * 8)
            .unwrap();
    }
}

fn acknowledged(folder: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(folder.join("acknowledged")).unwrap()
}

/// Waits until a worker has said that it begins.
fn demand_begun(child: &mut Child) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("begins")));
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What a writer's key holds when this number is done.
fn after(number: u64) -> Option<u64> {
    (number % PERIOD != PERIOD - 1 && number > 0).then_some(number)
}

#[test]
fn writers_killed_at_any_instant_lose_nothing_and_hold_nothing() {
    let rounds = if is_night() { 200 } else { 8 };
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path(), WIDE, 2);
    tier.check().unwrap();
    let mut numbers = Numbers(3);
    for round in 0..rounds {
        tier.clear().unwrap();
        let done = acknowledged(folder.path());
        done.set_len(0).unwrap();
        done.set_len(WRITERS * 8).unwrap();
        let path = folder.path().to_str().unwrap();
        let mut writers: Vec<Child> = (0..WRITERS)
            .map(|writer| start(&["count", path, &writer.to_string()]))
            .collect();
        writers.iter_mut().for_each(demand_begun);
        for _ in 0..numbers.below(400) {
            let _ = read(&tier, b"pass some time");
        }
        writers.into_iter().for_each(end);
        for writer in 0..WRITERS {
            let mut number = [0; 8];
            done.read_exact_at(&mut number, writer * 8).unwrap();
            let number = u64::from_le_bytes(number);
            let found = read(&tier, &writer.to_le_bytes()).unwrap();
            let found = found.map(|bytes| {
                let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(bytes == number.to_le_bytes().repeat(40), "round {round}");
                number
            });
            let possible = [after(number), after(number + 1)];
            assert!(
                possible.contains(&found),
                "round {round}: {found:?} after {number}"
            );
        }
        for key in 0..50_u32 {
            tier.set(&key.to_le_bytes(), b"v", None, None).unwrap();
        }
    }
}

/// Locks every byte of the file and never unlocks it.
fn lock_all(folder: &Path) {
    let path = settings(folder, NARROW, 2).path;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let range = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLKW(&range)).unwrap();
    println!("begins");
    loop {
        std::thread::park();
    }
}

#[test]
fn stopped_owner_of_a_lock_holds_up_no_reader_and_no_writer_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path(), NARROW, 2);
    tier.set(b"k", b"v", None, None).unwrap();
    let mut owner = start(&["lock", folder.path().to_str().unwrap()]);
    demand_begun(&mut owner);
    let pid = Pid::from_raw(owner.id().try_into().unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    for key in 0..40_u32 {
        let error = tier.set(&key.to_le_bytes(), b"w", None, None).unwrap_err();
        assert_eq!(error.fault, TierFault::Busy, "{error}");
    }
    assert_eq!(tier.delete(b"k").unwrap_err().fault, TierFault::Busy);
    assert_eq!(tier.clear().unwrap_err().fault, TierFault::Busy);
    assert_eq!(read(&tier, b"k").unwrap().unwrap(), b"v");
    end(owner);
    tier.set(b"k", b"w", None, None).unwrap();
    assert!(tier.delete(b"k").unwrap());
}

#[test]
fn stopped_writers_never_hang_others() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(folder.path(), WIDE, 2);
    tier.check().unwrap();
    for _ in 0..if is_night() { 50 } else { 4 } {
        let mut writer = start(&["count", folder.path().to_str().unwrap(), "0"]);
        demand_begun(&mut writer);
        let pid = Pid::from_raw(writer.id().try_into().unwrap());
        kill(pid, Signal::SIGSTOP).unwrap();
        for key in 0..10_u32 {
            match tier.set(&key.to_le_bytes(), b"w", None, None) {
                Ok(_) => assert!(read(&tier, &key.to_le_bytes()).unwrap().is_some()),
                Err(error) => assert_eq!(error.fault, TierFault::Busy),
            }
        }
        end(writer);
        tier.set(b"k", b"w", None, None).unwrap();
    }
}

fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Uses the tier, then forks children that use it as well, and children of these.
fn preload_then_fork(folder: &Path) {
    let host = Host::of_this_machine(forks).unwrap();
    let tier = FileTier::new(settings(folder, WIDE, 2), host);
    tier.set(b"preloaded", b"v", None, None).unwrap();
    let mut children = Vec::new();
    for child in 0..4_u64 {
        // SAFETY: this program has one other thread, which waits for this test.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => children.push(child),
            ForkResult::Child => {
                FORKS.fetch_add(1, Ordering::Relaxed);
                act_in_child(&tier, child);
            }
        }
    }
    for turn in 0..2_000_u64 {
        let key = (100 + turn % 7).to_le_bytes();
        insist(&tier, &key, &key);
        assert_eq!(read(&tier, &key).unwrap().unwrap(), key);
    }
    for child in children {
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
    }
    for child in 0..4_u64 {
        assert_eq!(read(&tier, &child.to_le_bytes()).unwrap().unwrap(), b"done");
    }
}

fn act_in_child(tier: &FileTier, child: u64) -> ! {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        assert_eq!(read(tier, b"preloaded").unwrap().unwrap(), b"v");
        for turn in 0..2_000_u64 {
            let key = (1_000 + child * 7 + turn % 7).to_le_bytes();
            insist(tier, &key, &key);
            assert_eq!(read(tier, &key).unwrap().unwrap(), key);
        }
        insist(tier, &child.to_le_bytes(), b"done");
    }));
    // SAFETY: ends the child without running what belongs to the parent's test program.
    unsafe { libc::_exit(i32::from(outcome.is_err())) }
}

#[test]
fn tier_used_before_a_fork_is_used_by_parent_and_children() {
    let folder = tempfile::tempdir().unwrap();
    let worker = start(&["fork", folder.path().to_str().unwrap()]);
    let output = worker.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// Two threads that share one tier.
fn history(folder: &Path, writer: u64, count: u64) {
    let tier = tier(folder, NARROW, 2);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (tier, writer) = (&tier, writer * 2 + thread);
            scope.spawn(move || act(tier, writer, count, &folder.join(writer.to_string())));
        }
    });
}

#[test]
fn histories_of_processes_have_no_wrong_value_and_no_read_after_a_deletion() {
    let (processes, count) = if is_night() { (16, 40_000) } else { (4, 6_000) };
    check_histories(&[], processes, count);
}

/// As two containers with one volume: each process is number 1 of its own.
#[test]
fn histories_of_processes_with_one_pid_have_no_wrong_value() {
    let apart = ["unshare", "--pid", "--fork", "--kill-child"];
    if !has_namespaces(&apart[1..]) {
        return;
    }
    let count = if is_night() { 40_000 } else { 3_000 };
    check_histories(&apart, 3, count);
}

fn check_histories(runner: &[&str], processes: u64, count: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let words = |writer: u64| {
        [
            "history".into(),
            path.into(),
            writer.to_string(),
            count.to_string(),
        ]
    };
    let workers: Vec<Child> = (1..=processes)
        .map(|writer| start_by(runner, &words(writer).each_ref().map(String::as_str)))
        .collect();
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let paths: Vec<_> = (2..2 * processes + 2)
        .map(|writer| folder.path().join(writer.to_string()))
        .collect();
    let seen = check(&paths);
    let enough = processes as usize * count as usize / 50;
    assert!(seen.hits > enough && seen.deletions > enough, "{seen:?}");
    assert!(seen.stored_after_miss > 50, "{seen:?}");
}

/// On a file system in memory of 3 MiB, which is then filled to its last byte.
fn fill_disk(folder: &Path) {
    for part in ["before", "after"] {
        std::fs::create_dir(folder.join(part)).unwrap();
    }
    let before = tier(&folder.join("before"), NARROW, 2);
    before.check().unwrap();
    let mut filler = File::create(folder.join("filler")).unwrap();
    let end = loop {
        if let Err(error) = filler.write_all(&[7; 4_096]) {
            break error;
        }
    };
    assert_eq!(end.kind(), ErrorKind::StorageFull);
    for number in 0..4_000_u64 {
        let value = number.to_le_bytes().repeat(200);
        insist(&before, &number.to_le_bytes(), &value);
        assert!(read(&before, &number.to_le_bytes()).unwrap() == Some(value));
    }
    let after = tier(&folder.join("after"), NARROW, 2);
    let error = after.check().unwrap_err();
    assert_eq!(error.fault, TierFault::Off, "{error}");
    assert_eq!(read(&after, b"k").unwrap_err().fault, TierFault::Off);
}

#[test]
fn full_file_system_in_memory_stops_no_file_that_is_there_and_makes_no_other() {
    if !has_namespaces(&["--mount"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mount = "mount -t tmpfs -o size=3m,mode=700 tmpfs \"$0\" && exec \"$@\"";
    let worker = start_by(
        &["unshare", "--mount", "sh", "-c", mount, path],
        &["full", path],
    );
    let output = worker.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
