//! The data directory as a place: whose it is, what fits, how fast it syncs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Instant;

use engine::Durability;
use rustix::fs::{Access, access, statvfs};

use super::holder;
use super::{Finding, STOPPED};

/// Below so much free space a server may soon not take writes any more, in bytes.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// Syncs that are measured; the median counts.
const SYNCS: usize = 9;
/// Bytes written before each sync: a page of the log.
const SYNC_BYTES: usize = 4_096;
/// A sync that is faster has not reached a medium: the fastest drives with a battery-backed
/// cache take about 10 microseconds.
const SYNC_US_MIN: u128 = 8;
/// A sync that is slower makes each commit wait visibly, in microseconds.
const SYNC_US_MAX: u128 = 20_000;
/// File systems over a network: SQLite's log needs memory shared by all who open it, and locks
/// that hold (SQLite manual, "Write-Ahead Logging"). Numbers from Linux, `statfs(2)`.
const NETWORK: [(u64, &str); 4] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
];

/// What a server makes in its directory: socket and token together let any process do everything.
const FILES: [&str; 9] = [
    "tidemark.db",
    "tidemark.db-wal",
    "tidemark.db-shm",
    "tidemark.marks",
    "tidemark.key",
    "secret.key",
    "lock",
    "admin.sock",
    "admin.token",
];

/// Whether users other than the owner may read a file.
pub fn is_open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|known| known.permissions().mode() & 0o077 != 0)
}

/// The directory itself, and the space in it.
pub fn directory(path: &Path) -> Vec<Finding> {
    const CHECK: &str = "directory";
    let shown = path.display();
    let known = match fs::metadata(path) {
        Ok(known) if known.is_dir() => known,
        Ok(_) => {
            return vec![Finding::bad(
                CHECK,
                format!("{shown} is a file, not a directory."),
                "Give another path with --data",
            )];
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return vec![absent(path)],
        Err(error) => {
            return vec![Finding::bad(
                CHECK,
                format!("{shown} cannot be looked into: {error}."),
                "Run this as the user that runs the server, or give another path with --data",
            )];
        }
    };
    let (owner, me) = (known.uid(), rustix::process::geteuid().as_raw());
    let mode = known.permissions().mode() & 0o777;
    if access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return vec![Finding::bad(
            CHECK,
            format!(
                "{shown} belongs to user {owner}; user {me} may not write there (mode {mode:o})."
            ),
            format!(
                "Run the server as user {owner}, or give it the directory: chown -R {me} {shown}"
            ),
        )];
    }
    let mut findings = vec![if owner == me {
        Finding::good(CHECK, format!("{shown} is this user's, mode {mode:o}."))
    } else {
        Finding::warning(
            CHECK,
            format!("{shown} belongs to user {owner}; this is user {me}."),
            "Files made here would belong to another user than the server's. Run as that user",
        )
    }];
    findings.push(space(path));
    findings.extend(network(path));
    findings
}

fn absent(path: &Path) -> Finding {
    let shown = path.display();
    let parent = path
        .ancestors()
        .skip(1)
        .find(|above| above.is_dir() || above.as_os_str().is_empty());
    let parent = match parent {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if access(parent, Access::WRITE_OK | Access::EXEC_OK).is_ok() {
        return Finding::good(
            "directory",
            format!("{shown} is not there; a start makes it."),
        );
    }
    Finding::bad(
        "directory",
        format!(
            "{shown} is not there, and this user may not make it in {}.",
            parent.display()
        ),
        "Make it and give it to the user that runs the server, or give another path with --data",
    )
}

fn space(path: &Path) -> Finding {
    const CHECK: &str = "space";
    let Ok(known) = statvfs(path) else {
        return Finding::skipped(CHECK, "The file system does not say what is free.");
    };
    let free = known.f_bavail.saturating_mul(known.f_frsize);
    let found = format!("{} MiB are free.", free >> 20);
    if free < FREE_BYTES_MIN {
        return Finding::warning(
            CHECK,
            found,
            "A full disk refuses writes, and loses none that was acknowledged. Make room",
        );
    }
    Finding::good(CHECK, found)
}

#[cfg(target_os = "linux")]
fn network(path: &Path) -> Option<Finding> {
    // Numbers of 32 bits in a signed type on some machines.
    let kind = u64::from(rustix::fs::statfs(path).ok()?.f_type as u32);
    let (_, name) = NETWORK.iter().find(|(number, _)| *number == kind)?;
    Some(Finding::bad(
        "file system",
        format!("{} is on {name}, a network file system.", path.display()),
        "Give a directory on a local disk with --data: locks and shared memory do not hold there",
    ))
}

#[cfg(not(target_os = "linux"))]
fn network(_: &Path) -> Option<Finding> {
    None
}

/// What others may do with the directory, and with the files and the socket in it.
pub fn permissions(path: &Path) -> Finding {
    const CHECK: &str = "permissions";
    let shown = path.display();
    let rights = |path: &Path| fs::symlink_metadata(path).map(|known| known.permissions().mode());
    let directory = match rights(path) {
        Ok(mode) => mode & 0o777,
        Err(error) => return Finding::skipped(CHECK, format!("{shown} does not say: {error}.")),
    };
    let open: Vec<String> = FILES
        .iter()
        .filter(|name| rights(&path.join(name)).is_ok_and(|mode| mode & 0o077 != 0))
        .map(|name| path.join(name).display().to_string())
        .collect();
    if directory & 0o022 != 0 {
        return Finding::bad(
            CHECK,
            format!("{shown} has mode {directory:o}: others may put files of theirs in its place."),
            format!("chmod 700 {shown}"),
        );
    }
    if !open.is_empty() {
        return Finding::warning(
            CHECK,
            format!("Others may open {}.", open.join(", ")),
            format!("chmod 600 {}", open.join(" ")),
        );
    }
    if directory & 0o077 != 0 {
        return Finding::warning(
            CHECK,
            format!(
                "Only this user may open the files, but others may look into {shown}, mode \
                 {directory:o}."
            ),
            format!("chmod 700 {shown}"),
        );
    }
    Finding::good(
        CHECK,
        "Only the owner may open the directory and the files in it.",
    )
}

/// Who holds the directory.
pub fn owner(path: &Path) -> Finding {
    const CHECK: &str = "server";
    let holder = holder::of_lock(path);
    let answers = std::os::unix::net::UnixStream::connect(path.join("admin.sock")).is_ok();
    match (holder, answers) {
        (Some(process), true) => Finding::good(CHECK, format!("{process} serves it.")),
        (None, true) => Finding::good(CHECK, "A server answers on admin.sock."),
        (Some(process), false) => Finding::warning(
            CHECK,
            format!("{process} holds it and does not answer on admin.sock."),
            "It may be starting or stopping. If it stays so, end that process",
        ),
        (None, false) => Finding::good(CHECK, "No server runs on it."),
    }
}

/// Whether the last server ended because nothing could be written any more.
pub fn last_end(path: &Path) -> Option<Finding> {
    let reason = fs::read_to_string(path.join(STOPPED)).ok()?;
    Some(Finding::warning(
        "last end",
        format!("A server ended because nothing could be written any more. {reason}"),
        "Look at its log and at the disk. An orderly stop of a later server ends this warning",
    ))
}

/// What an acknowledged write means, and what it costs here.
pub fn durability(path: &Path, durability: Durability) -> Finding {
    const CHECK: &str = "durability";
    let meaning = match durability {
        Durability::Full => "full: an acknowledged write survives a power cut",
        Durability::Normal => {
            "normal: a power cut may take the last milliseconds of acknowledged writes"
        }
    };
    if !path.is_dir() {
        return Finding::skipped(CHECK, format!("{meaning}. A sync was not measured."));
    }
    let took_us = match median_sync_us(path) {
        Ok(took_us) => took_us,
        Err(error) => {
            return Finding::warning(
                CHECK,
                format!("{meaning}. A sync could not be measured: {error}."),
                "Look at the findings about the directory",
            );
        }
    };
    let found = format!("{meaning}. A sync takes {took_us} us here.");
    if took_us < SYNC_US_MIN {
        return Finding::warning(
            CHECK,
            found,
            "No disk is that fast: this one (or a memory file system) may acknowledge what a power \
             cut takes. Do not keep what must last here",
        );
    }
    if took_us > SYNC_US_MAX {
        return Finding::warning(
            CHECK,
            found,
            "Each group of writes waits for one. Use a faster disk, or --durability normal where \
             the last milliseconds may be lost",
        );
    }
    Finding::good(CHECK, found)
}

fn median_sync_us(path: &Path) -> io::Result<u128> {
    let probe = path.join(format!("doctor.{}.probe", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&probe)?;
    let mut measure = || {
        (0..SYNCS)
            .map(|_| {
                file.write_all(&[0; SYNC_BYTES])?;
                let began = Instant::now();
                file.sync_data()?;
                Ok(began.elapsed().as_micros())
            })
            .collect::<io::Result<Vec<u128>>>()
    };
    let taken = measure();
    fs::remove_file(&probe)?;
    let mut taken = taken?;
    taken.sort_unstable();
    Ok(taken[SYNCS / 2])
}
