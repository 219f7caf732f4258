//! Whether a folder and a file may be used at all. Decided whenever a file is opened.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc;
use nix::sys::statfs::{self, FsType};
use nix::unistd::Uid;

use super::super::tier::{TierError, TierFault};

/// File systems whose locks and pages are those of one kernel. Others belong to several machines,
/// or to a program that answers for them.
const LOCAL: [FsType; 9] = [
    statfs::EXT4_SUPER_MAGIC,
    statfs::XFS_SUPER_MAGIC,
    statfs::BTRFS_SUPER_MAGIC,
    statfs::TMPFS_MAGIC,
    statfs::F2FS_SUPER_MAGIC,
    statfs::OVERLAYFS_SUPER_MAGIC,
    ZFS,
    BCACHEFS,
    RAMFS,
];
const ZFS: FsType = FsType(0x2fc1_2fc1);
const BCACHEFS: FsType = FsType(0xca45_1a4e);
const RAMFS: FsType = FsType(0x8584_58f6);

/// Who else may write to a file and its folder, apart from the owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OtherWriters {
    None,
    /// As where the files of a web server belong to a group, too.
    Group,
}

fn off(path: &Path, why: &str) -> TierError {
    TierError::new(TierFault::Off, format!("{}: {why}", path.display()))
}

/// Makes the folder if need be and refuses one that others may change, or that is not local.
pub fn check_folder(folder: &Path, others: OtherWriters) -> Result<(), TierError> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|error| off(folder, &format!("cannot be made: {error}")))?;
    let found = fs::symlink_metadata(folder);
    let found = found.map_err(|error| off(folder, &format!("cannot be read: {error}")))?;
    if !found.is_dir() {
        return Err(off(folder, "is not a folder, or a link to one"));
    }
    check_owner(folder, &found, others)?;
    let system = statfs::statfs(folder);
    let system = system.map_err(|error| off(folder, &format!("statfs: {error}")))?;
    check_system(folder, system.filesystem_type())
}

fn check_system(folder: &Path, kind: FsType) -> Result<(), TierError> {
    if LOCAL.contains(&kind) {
        return Ok(());
    }
    let why = format!(
        "is on a file system of type {:#x}, and only local ones can hold a cache file",
        kind.0
    );
    Err(off(folder, &why))
}

fn check_owner(path: &Path, found: &Metadata, others: OtherWriters) -> Result<(), TierError> {
    let own = Uid::effective().as_raw();
    if found.uid() != own {
        let why = format!("belongs to user {}, this is user {own}", found.uid());
        return Err(off(path, &why));
    }
    let refused = match others {
        OtherWriters::None => 0o022,
        OtherWriters::Group => 0o002,
    };
    if found.mode() & refused != 0 {
        let why = format!("has mode {:o}: others may write", found.mode() & 0o7777);
        return Err(off(path, &why));
    }
    Ok(())
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    // A pipe in the place of the file does not hold up the caller.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// The file at `path`; `None` if there is none.
pub fn open(path: &Path, others: OtherWriters) -> Result<Option<(File, Metadata)>, TierError> {
    let file = match options().open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(off(path, &format!("cannot be opened: {error}"))),
    };
    let found = file.metadata();
    let found = found.map_err(|error| off(path, &format!("cannot be read: {error}")))?;
    if !found.is_file() {
        return Err(off(path, "is not a file"));
    }
    check_owner(path, &found, others)?;
    Ok(Some((file, found)))
}

/// A new file at `path`, whatever stood there before.
pub fn create(path: &Path) -> Result<File, TierError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(off(path, &format!("cannot be removed: {error}")));
        }
        _ => {}
    }
    let file = options().create_new(true).open(path);
    file.map_err(|error| off(path, &format!("cannot be made: {error}")))
}

/// The file whose lock stands for the right to replace the cache file.
pub fn open_guard(path: &Path) -> Result<File, TierError> {
    let file = options().create(true).truncate(false).open(path);
    file.map_err(|error| off(path, &format!("cannot be opened: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_by_name() {
        let folder = Path::new("/f");
        let remote = [
            statfs::NFS_SUPER_MAGIC,
            statfs::FUSE_SUPER_MAGIC,
            statfs::SMB_SUPER_MAGIC,
            FsType(0xff53_4d42), // CIFS
            FsType(0x0102_1997), // 9p
            FsType(0x00c3_6400), // Ceph
            FsType(0),
        ];
        for kind in remote {
            let error = check_system(folder, kind).unwrap_err();
            assert_eq!(error.fault, TierFault::Off);
            assert!(error.text.starts_with("/f: is on a file system of type 0x"));
        }
        for kind in LOCAL {
            check_system(folder, kind).unwrap();
        }
    }
}
