//! Packs what a build has made, so that [`crate::archive::unpack`] makes the same of it.
//!
//! The folder was written by the user's commands: it is read without following a link, and nothing
//! but files, folders and links that stay inside is taken.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::OFlags;
use tar::Builder;

use crate::archive::{ArchiveBounds, leading};
use crate::tar_entry::{append_file, append_folder, append_link};

/// What was left out of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedArchive {
    /// Links that lead out of the folder, sockets, devices and the like.
    pub left_out: usize,
}

/// Why a folder was not packed.
#[derive(Debug)]
pub enum PackError {
    /// Something in the folder cannot be read, or the archive not be written.
    Io(io::Error),
    /// The folder breaks this limit.
    TooLarge {
        /// Which, with its number and unit.
        limit: String,
    },
}

impl From<io::Error> for PackError {
    fn from(error: io::Error) -> PackError {
        PackError::Io(error)
    }
}

impl fmt::Display for PackError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Io(error) => write!(formatter, "What was built cannot be packed: {error}"),
            PackError::TooLarge { limit } => {
                write!(formatter, "What was built is larger than allowed: {limit}")
            }
        }
    }
}

impl std::error::Error for PackError {}

/// Packs a folder, in the order of its names. Of the bounds the ratio does not count: the archive
/// is made here.
///
/// # Errors
/// At the first entry that cannot be read, or passes a bound.
pub fn pack(
    folder: &Path,
    out: impl Write,
    bounds: ArchiveBounds,
) -> Result<PackedArchive, PackError> {
    let mut packing = Packing {
        builder: Builder::new(GzEncoder::new(out, Compression::fast())),
        bounds,
        bytes: 0,
        entries: 0,
        packed: PackedArchive::default(),
    };
    packing.add_folder(folder, Path::new(""))?;
    packing.builder.into_inner()?.finish()?.flush()?;
    Ok(packing.packed)
}

struct Packing<W: Write> {
    builder: Builder<GzEncoder<W>>,
    bounds: ArchiveBounds,
    bytes: u64,
    entries: usize,
    packed: PackedArchive,
}

impl<W: Write> Packing<W> {
    fn add_folder(&mut self, folder: &Path, inside: &Path) -> Result<(), PackError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.push(entry?.file_name());
            // Counted before they are sorted, so that no folder takes memory without end.
            if self.entries + names.len() > self.bounds.entries_max {
                return Err(self.too_large());
            }
        }
        names.sort_unstable();
        for name in names {
            self.add(&folder.join(&name), &inside.join(&name))?;
        }
        Ok(())
    }

    fn add(&mut self, place: &Path, inside: &Path) -> Result<(), PackError> {
        self.entries += 1;
        if self.entries > self.bounds.entries_max {
            return Err(self.too_large());
        }
        let length = inside.as_os_str().len();
        if length > self.bounds.path_bytes_max || inside.to_str().is_none() {
            let limit = format!(
                "`{}` is no UTF-8 text of at most {} bytes",
                inside.display(),
                self.bounds.path_bytes_max
            );
            return Err(PackError::TooLarge { limit });
        }
        let status = fs::symlink_metadata(place)?;
        let kind = status.file_type();
        if kind.is_dir() {
            append_folder(&mut self.builder, inside)?;
            return self.add_folder(place, inside);
        }
        if kind.is_file() {
            return self.add_file(place, inside);
        }
        let target = fs::read_link(place).ok();
        let target: Option<PathBuf> =
            target.and_then(|target| leading(inside, target.as_os_str().as_bytes()));
        if let Some(target) = target {
            append_link(&mut self.builder, inside, &target)?;
        } else {
            self.packed.left_out += 1;
        }
        Ok(())
    }

    fn add_file(&mut self, place: &Path, inside: &Path) -> Result<(), PackError> {
        let mut options = OpenOptions::new();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = options
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(place)?;
        let status = file.metadata()?;
        self.bytes = self.bytes.saturating_add(status.len());
        if self.bytes > self.bounds.bytes_max {
            let limit = format!("{} bytes", self.bounds.bytes_max);
            return Err(PackError::TooLarge { limit });
        }
        let is_executable = status.mode() & 0o111 != 0;
        // A file that has grown meanwhile counts as it was; one that has shrunk is an error.
        let content = file.take(status.len());
        let about = (is_executable, status.len());
        Ok(append_file(&mut self.builder, inside, about, content)?)
    }

    fn too_large(&self) -> PackError {
        PackError::TooLarge {
            limit: format!("{} files, folders and links", self.bounds.entries_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::archive::unpack;

    const BOUNDS: ArchiveBounds = ArchiveBounds {
        bytes_max: 2_000_000,
        entries_max: 20,
        path_bytes_max: 1_024,
        ratio_max: 2_000,
    };

    fn packed(folder: &Path) -> Result<(Vec<u8>, PackedArchive), PackError> {
        let mut out = Vec::new();
        let packed = pack(folder, &mut out, BOUNDS)?;
        Ok((out, packed))
    }

    #[test]
    fn a_folder_is_packed_and_unpacked_to_the_same() {
        let made = tempfile::tempdir().unwrap();
        let deep = "d".repeat(120);
        let place = made.path().join(&deep).join("empty");
        fs::create_dir_all(place).unwrap();
        fs::write(made.path().join("main.js"), "module.exports = 1").unwrap();
        fs::write(made.path().join(&deep).join("zeros"), vec![0; 1_000_000]).unwrap();
        let run = made.path().join("run");
        fs::write(&run, "#!/bin/sh").unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(0o4700)).unwrap();
        symlink("../main.js", made.path().join(&deep).join("up")).unwrap();
        let (archive, left) = packed(made.path()).unwrap();
        assert_eq!(left, PackedArchive { left_out: 0 });
        assert_eq!(packed(made.path()).unwrap().0, archive);

        let again = tempfile::tempdir().unwrap();
        unpack(&archive[..], again.path(), BOUNDS).unwrap();
        let read = |path: &str| fs::read(again.path().join(path)).unwrap();
        assert_eq!(read("main.js"), b"module.exports = 1");
        assert_eq!(read(&format!("{deep}/zeros")).len(), 1_000_000);
        assert_eq!(read(&format!("{deep}/up")), b"module.exports = 1");
        assert!(again.path().join(&deep).join("empty").is_dir());
        let status = fs::metadata(again.path().join("run")).unwrap();
        assert_eq!(status.mode() & 0o7777, 0o755);
    }

    #[test]
    fn links_that_lead_out_of_a_folder_are_left_out() {
        let made = tempfile::tempdir().unwrap();
        for (name, target) in [
            ("a", "/etc/passwd"),
            ("b", "../b"),
            ("c", "x/../../y"),
            ("d", "nowhere"),
        ] {
            symlink(target, made.path().join(name)).unwrap();
        }
        let _socket = UnixListener::bind(made.path().join("socket")).unwrap();
        let (archive, left) = packed(made.path()).unwrap();
        assert_eq!(left, PackedArchive { left_out: 4 });
        let again = tempfile::tempdir().unwrap();
        unpack(&archive[..], again.path(), BOUNDS).unwrap();
        let names = fs::read_dir(again.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["d"]);
    }

    #[test]
    fn a_folder_beyond_a_bound_is_refused() {
        let made = tempfile::tempdir().unwrap();
        let file = fs::File::create(made.path().join("sparse")).unwrap();
        file.set_len(BOUNDS.bytes_max + 1).unwrap();
        let refused = packed(made.path()).unwrap_err().to_string();
        assert!(refused.contains("2000000 bytes"), "{refused}");

        let many = tempfile::tempdir().unwrap();
        for nth in 0..=BOUNDS.entries_max {
            fs::write(many.path().join(nth.to_string()), "").unwrap();
        }
        let refused = packed(many.path()).unwrap_err().to_string();
        assert!(refused.contains("20 files"), "{refused}");

        let odd = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"\xff");
        fs::write(odd.path().join(name), "").unwrap();
        let refused = packed(odd.path()).unwrap_err().to_string();
        assert!(refused.contains("no UTF-8"), "{refused}");
    }
}
