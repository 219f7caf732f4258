//! The root of a jail: a small file system in memory, and what of the host is seen in it.

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};

use super::raw::Inside;
use super::{AtStep, JailError, JailSetup};

/// Where the new root is put together: there on every system, and hidden inside the jail.
const BASE: &str = "/tmp";
/// Programs, libraries, certificates and time zones; a link of the host stays a link.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// What handlers may write: a disk in memory.
const TEMPORARY_OF_BUILDS: &CStr = c"size=256m,nr_inodes=65536,mode=1777";
const TEMPORARY: &CStr = c"size=64m,nr_inodes=4095,mode=1777";

/// A file or folder of the host, opened before the new root hides it.
struct ShownPath {
    source: OwnedFd,
    inside: PathBuf,
    is_folder: bool,
    is_device: bool,
    is_writable: bool,
}

/// Puts the root together and makes it this process's own, with no way back to the host's.
pub fn enter(setup: &JailSetup, inside: Inside) -> Result<(), JailError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).at("keeping mounts apart")?;
    let mut seen = Vec::new();
    let mut links = Vec::new();
    for path in SYSTEM.iter().map(Path::new) {
        match fs::read_link(path) {
            Ok(target) if !path.starts_with("/etc") => links.push((path.to_owned(), target)),
            _ => seen.extend(see(path, path).ok()),
        }
    }
    for folder in &setup.folders {
        if !folder.starts_with("/usr") {
            seen.push(see(folder, folder)?);
        }
    }
    if !setup.program.starts_with("/usr") {
        let is_seen = setup
            .folders
            .iter()
            .any(|folder| setup.program.starts_with(folder));
        if !is_seen {
            seen.push(see(&setup.program, &setup.program)?);
        }
    }
    let mut code = see(&setup.code, Path::new(JailSetup::CODE))?;
    code.is_writable = setup.is_writable;
    seen.push(code);
    if let Some(cache) = &setup.cache {
        let mut cache = see(cache, Path::new(JailSetup::CACHE))?;
        cache.is_writable = true;
        seen.push(cache);
    }
    let adapter = setup.adapter.file_name().unwrap_or_default();
    seen.push(see(
        &setup.adapter,
        &Path::new(JailSetup::ADAPTER).join(adapter),
    )?);
    for device in DEVICES {
        let path = Path::new("/dev").join(device);
        let mut device = see(&path, &path)?;
        device.is_device = true;
        seen.push(device);
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    let options = c"size=1m,nr_inodes=1024,mode=0755";
    mount("tmpfs", BASE, "tmpfs", quiet, Some(options)).at("mounting the root")?;
    for (path, target) in links {
        let place = below(&path);
        make_folder(place.parent())?;
        std::os::unix::fs::symlink(target, place).at("making the root's links")?;
    }
    for seen in &seen {
        show(seen)?;
    }
    write_files(setup, inside)?;
    finish(quiet)
}

/// Own files of a jail, and the file systems that are not the host's.
fn write_files(setup: &JailSetup, inside: Inside) -> Result<(), JailError> {
    let user = inside.user;
    let resolvers = if setup.reaches_outside {
        "nameserver 127.0.0.1\n"
    } else {
        ""
    };
    let files = [
        (
            "etc/passwd",
            format!("function:x:{user}:{user}::/tmp:/bin/sh\n"),
        ),
        ("etc/group", format!("function:x:{user}:\n")),
        (
            "etc/hosts",
            "127.0.0.1 localhost\n::1 localhost\n".to_owned(),
        ),
        ("etc/resolv.conf", resolvers.to_owned()),
        (
            "etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\n".to_owned(),
        ),
    ];
    make_folder(Some(&below(Path::new("/etc"))))?;
    for (name, content) in files {
        fs::write(Path::new(BASE).join(name), content).at("writing the root's files")?;
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    for name in ["proc", "tmp"] {
        make_folder(Some(&Path::new(BASE).join(name)))?;
    }
    let temporary = Path::new(BASE).join("tmp");
    let options = if setup.is_writable {
        TEMPORARY_OF_BUILDS
    } else {
        TEMPORARY
    };
    mount("tmpfs", &temporary, "tmpfs", quiet, Some(options)).at("mounting /tmp")?;
    let processes = Path::new(BASE).join("proc");
    mount("proc", &processes, "proc", quiet | MountFlags::NOEXEC, None).at("mounting /proc")
}

fn finish(quiet: MountFlags) -> Result<(), JailError> {
    let read_only = MountFlags::BIND | MountFlags::RDONLY | quiet;
    mount_remount(BASE, read_only, "").at("closing the root for writing")?;
    std::env::set_current_dir(BASE).at("entering the root")?;
    // pivot_root(2), "pivot_root(".", ".")": the old root lies on the new one and is taken off.
    rustix::process::pivot_root(".", ".").at("changing the root")?;
    unmount(".", UnmountFlags::DETACH).at("leaving the old root")?;
    std::env::set_current_dir(JailSetup::CODE).at("entering the code's folder")?;
    rustix::system::sethostname(b"function").at("naming the host")
}

fn below(path: &Path) -> PathBuf {
    Path::new(BASE).join(path.strip_prefix("/").unwrap_or(path))
}

fn see(path: &Path, inside: &Path) -> Result<ShownPath, JailError> {
    let step = format!("opening {}", path.display());
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let source = rustix::fs::open(path, flags, Mode::empty()).at(&step)?;
    let status = rustix::fs::fstat(&source).at(&step)?;
    let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
    Ok(ShownPath {
        source,
        inside: inside.to_owned(),
        is_folder: kind.is_dir(),
        is_device: false,
        is_writable: false,
    })
}

fn make_folder(folder: Option<&Path>) -> Result<(), JailError> {
    let folder = folder.unwrap_or(Path::new(BASE));
    fs::create_dir_all(folder).at("making the root's folders")
}

fn show(seen: &ShownPath) -> Result<(), JailError> {
    let step = format!("showing {}", seen.inside.display());
    let place = below(&seen.inside);
    make_folder(place.parent())?;
    if seen.is_folder {
        make_folder(Some(&place))?;
    } else {
        fs::write(&place, "").at(&step)?;
    }
    let source = format!("/proc/self/fd/{}", seen.source.as_raw_fd());
    mount_bind_recursive(source, &place).at(&step)?;
    if seen.is_device {
        return Ok(());
    }
    // A user namespace may add to the flags of a mount, and take none away.
    let held = rustix::fs::fstatvfs(&seen.source).at(&step)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    if !seen.is_writable {
        flags |= MountFlags::RDONLY;
    }
    if held.contains(StatVfsMountFlags::NOEXEC) {
        flags |= MountFlags::NOEXEC;
    }
    mount_remount(&place, flags, "").at(&step)
}
