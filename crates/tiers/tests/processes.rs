//! Several processes on one file: what they see of each other, and what is left when they die.
#![allow(unsafe_code)] // `fork` is what is tested.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use tiers::{FileTier, Host, Lookup, Tier, TierFault};

mod support;

use support::history::{act, check};
use support::mapped::MappedAsTier;
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
        "count" => count(&*opened(&words[3], folder, WIDE), folder, number()),
        "lock" => lock_all(folder),
        "full" => fill_disk(folder, &words[2]),
        "fork" => preload_then_fork(&words[2], folder),
        "other system" => refuse_other_system(folder),
        "signal" => meet_signals(folder, &words[2]),
        "history" => {
            let tier = opened(&words[4], folder, NARROW);
            history(&*tier, folder, number(), words[3].parse().unwrap());
        }
        other => panic!("{other}"),
    }
}

/// The ways to open a file.
const WAYS: [&str; 2] = ["copying", "mapped"];

fn opened(way: &str, folder: &Path, bytes: u64) -> Box<dyn Tier> {
    match way {
        "mapped" => Box::new(MappedAsTier::of(folder, bytes, 2)),
        _ => Box::new(tier(folder, bytes, 2)),
    }
}

/// Sets and deletes its keys in turn, each number once, and writes down which one is done.
fn count(tier: &dyn Tier, folder: &Path, writer: u64) {
    let done = acknowledged(folder);
    println!("begins");
    for number in 1_u64.. {
        let key = writer.to_le_bytes();
        if number % PERIOD == PERIOD - 1 {
            insist_gone(tier, &key);
        } else {
            insist(tier, &key, &bytes_of(number));
        }
        done.write_all_at(&number.to_le_bytes(), writer * 8)
            .unwrap();
    }
}

/// The number again and again: of some, so many bytes that they are written without the lock.
fn bytes_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(40 + number as usize % 3 * 100)
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
    WAYS.into_iter().for_each(kill_writers);
}

fn kill_writers(way: &str) {
    let rounds = if is_night() { 200 } else { 8 };
    let folder = tempfile::tempdir().unwrap();
    let tier = opened(way, folder.path(), WIDE);
    tier.check().unwrap();
    let mut numbers = Numbers(3);
    for round in 0..rounds {
        tier.clear().unwrap();
        let done = acknowledged(folder.path());
        done.set_len(0).unwrap();
        done.set_len(WRITERS * 8).unwrap();
        let path = folder.path().to_str().unwrap();
        let mut writers: Vec<Child> = (0..WRITERS)
            .map(|writer| start(&["count", path, &writer.to_string(), way]))
            .collect();
        writers.iter_mut().for_each(demand_begun);
        for _ in 0..numbers.below(400) {
            let _ = read(&*tier, b"pass some time");
        }
        writers.into_iter().for_each(end);
        for writer in 0..WRITERS {
            let mut number = [0; 8];
            done.read_exact_at(&mut number, writer * 8).unwrap();
            let number = u64::from_le_bytes(number);
            let found = read(&*tier, &writer.to_le_bytes()).unwrap();
            let found = found.map(|bytes| {
                let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(bytes == bytes_of(number), "{way}, round {round}");
                number
            });
            let possible = [after(number), after(number + 1)];
            assert!(
                possible.contains(&found),
                "{way}, round {round}: {found:?} after {number}"
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
    WAYS.into_iter().for_each(stop_owner);
}

fn stop_owner(way: &str) {
    let folder = tempfile::tempdir().unwrap();
    let tier = opened(way, folder.path(), NARROW);
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
    assert_eq!(read(&*tier, b"k").unwrap().unwrap(), b"v");
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
        let mut writer = start(&["count", folder.path().to_str().unwrap(), "0", WAYS[0]]);
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
fn preload_then_fork(way: &str, folder: &Path) {
    let host = Host::of_this_machine(forks).unwrap();
    let settings = settings(folder, WIDE, 2);
    let tier: &dyn Tier = match way {
        "mapped" => &MappedAsTier::new(settings, host),
        _ => &FileTier::new(settings, host),
    };
    tier.set(b"preloaded", b"v", None, None).unwrap();
    let mut children = Vec::new();
    for child in 0..4_u64 {
        // SAFETY: this program has one other thread, which waits for this test.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => children.push(child),
            ForkResult::Child => {
                FORKS.fetch_add(1, Ordering::Relaxed);
                act_in_child(tier, child);
            }
        }
    }
    for turn in 0..2_000_u64 {
        let key = (100 + turn % 7).to_le_bytes();
        insist(tier, &key, &key);
        assert_eq!(read(tier, &key).unwrap().unwrap(), key);
    }
    for child in children {
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
    }
    for child in 0..4_u64 {
        assert_eq!(read(tier, &child.to_le_bytes()).unwrap().unwrap(), b"done");
    }
}

fn act_in_child(tier: &dyn Tier, child: u64) -> ! {
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
    for way in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let worker = start(&["fork", folder.path().to_str().unwrap(), way]);
        let output = worker.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{way}: {said}");
    }
}

/// Two threads that share one tier.
fn history(tier: &dyn Tier, folder: &Path, writer: u64, count: u64) {
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let writer = writer * 2 + thread;
            scope.spawn(move || act(tier, writer, count, &folder.join(writer.to_string())));
        }
    });
}

#[test]
fn histories_of_processes_have_no_wrong_value_and_no_read_after_a_deletion() {
    let (processes, count) = if is_night() { (16, 40_000) } else { (4, 6_000) };
    for way in WAYS {
        check_histories(way, &[], processes, count);
    }
}

/// As two containers with one volume: each process is number 1 of its own.
#[test]
fn histories_of_processes_with_one_pid_have_no_wrong_value() {
    let apart = ["unshare", "--pid", "--fork", "--kill-child"];
    if !has_namespaces(&apart[1..]) {
        return;
    }
    let count = if is_night() { 40_000 } else { 3_000 };
    for way in WAYS {
        check_histories(way, &apart, 3, count);
    }
}

fn check_histories(way: &str, runner: &[&str], processes: u64, count: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let words = |writer: u64| {
        [
            "history".into(),
            path.into(),
            writer.to_string(),
            count.to_string(),
            way.into(),
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
fn fill_disk(folder: &Path, way: &str) {
    for part in ["before", "after"] {
        std::fs::create_dir(folder.join(part)).unwrap();
    }
    let before = opened(way, &folder.join("before"), NARROW);
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
        insist(&*before, &number.to_le_bytes(), &value);
        assert!(read(&*before, &number.to_le_bytes()).unwrap() == Some(value));
    }
    let after = opened(way, &folder.join("after"), NARROW);
    let error = after.check().unwrap_err();
    assert_eq!(error.fault, TierFault::Off, "{error}");
    assert_eq!(read(&*after, b"k").unwrap_err().fault, TierFault::Off);
}

#[test]
fn full_file_system_in_memory_stops_no_file_that_is_there_and_makes_no_other() {
    if !has_namespaces(&["--mount"]) {
        return;
    }
    let mount = "mount -t tmpfs -o size=3m,mode=700 tmpfs \"$0\" && exec \"$@\"";
    for way in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let worker = start_by(
            &["unshare", "--mount", "sh", "-c", mount, path],
            &["full", path, way],
        );
        let output = worker.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{way}: {said}");
    }
}

/// On a file system of a kind that is not known to be local.
fn refuse_other_system(folder: &Path) {
    for way in WAYS {
        let tier = opened(way, folder, NARROW);
        for error in [tier.check().unwrap_err(), tier.get(b"k").unwrap_err()] {
            assert_eq!(error.fault, TierFault::Off, "{error}");
            assert!(error.text.contains("0x958458f6"), "{error}");
        }
    }
}

#[test]
fn file_system_that_is_not_known_to_be_local_is_refused() {
    if !has_namespaces(&["--mount"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mount = "mount -t hugetlbfs -o mode=700 none \"$0\" && exec \"$@\"";
    let runner = ["unshare", "--mount", "sh", "-c", mount, path];
    let output = start_by(&runner, &["other system", path]).wait_with_output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

extern "C" fn of_the_program(_: i32) {
    // SAFETY: may be called in a handler.
    unsafe { libc::_exit(42) }
}

/// Reads in a mapped file that is cut short, then in one of its own that is.
fn meet_signals(folder: &Path, has_handler: &str) {
    if has_handler == "true" {
        let action = SigAction::new(
            SigHandler::Handler(of_the_program),
            SaFlags::empty(),
            SigSet::empty(),
        );
        // SAFETY: the handler only ends the process.
        unsafe { sigaction(Signal::SIGBUS, &action) }.unwrap();
    }
    let tier = MappedAsTier::of(folder, NARROW, 2);
    tier.set(b"k", b"v", None, None).unwrap();
    let path = settings(folder, NARROW, 2).path;
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(0)
        .unwrap();
    // An error, or a miss in the file that is made instead.
    assert!(!matches!(tier.get(b"k"), Ok(Lookup::Hit(_))));
    println!("survived");
    let own = File::create_new(folder.join("own file")).unwrap();
    // SAFETY: a new map at an address that the kernel chooses.
    let start = unsafe {
        let flags = libc::MAP_SHARED;
        libc::mmap(
            std::ptr::null_mut(),
            4_096,
            libc::PROT_WRITE,
            flags,
            own.as_raw_fd(),
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: inside the map; that the file has no such byte is what is tested.
    unsafe { start.cast::<u8>().write_volatile(1) };
}

#[test]
fn signal_for_a_page_of_another_map_goes_where_it_went_before() {
    for has_handler in ["true", "false"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let output = start(&["signal", path, has_handler]).wait_with_output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("survived"), "{said}");
        match has_handler {
            "true" => assert_eq!(output.status.code(), Some(42)),
            _ => assert_eq!(output.status.signal(), Some(Signal::SIGBUS as i32)),
        }
    }
}
