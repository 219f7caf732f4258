//! What a sync of the disk takes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

/// A page of the database: about what a commit of one small row adds to a file.
const APPENDED_BYTES: usize = 4 << 10;

/// Times `count` syncs (`fdatasync`) of a file in `folder` that has just grown by 4 KiB, in
/// nanoseconds.
///
/// # Errors
/// When the file cannot be written.
pub fn syncs(folder: &Path, count: usize) -> Result<Vec<u64>> {
    let path = folder.join("syncs");
    let cannot = || format!("{} cannot be written", path.display());
    let mut file = File::create(&path).with_context(cannot)?;
    let mut samples_ns = Vec::with_capacity(count);
    for _ in 0..count {
        file.write_all(&[b'x'; APPENDED_BYTES])
            .with_context(cannot)?;
        let start = Instant::now();
        file.sync_data().with_context(cannot)?;
        samples_ns.push(start.elapsed().as_nanos() as u64);
    }
    fs::remove_file(&path).with_context(cannot)?;
    Ok(samples_ns)
}

/// The kind of file system that `folder` is on, as the kernel calls it; `unknown` if it does not
/// say.
pub fn file_system(folder: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    kind_of_mount(&mounts, &folder)
        .unwrap_or("unknown")
        .to_owned()
}

fn kind_of_mount<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let found = mounts.lines().filter_map(|line| {
        let (place, source) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?;
        folder
            .starts_with(point)
            .then_some((point.len(), source.split(' ').next()?))
    });
    // Of two mounts on one point the later one hides the earlier.
    found
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_decides() {
        let mounts =
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / /srv rw shared:1 - xfs /dev/b rw\n";
        assert_eq!(kind_of_mount(mounts, Path::new("/srv/x")), Some("xfs"));
        assert_eq!(kind_of_mount(mounts, Path::new("/srvx")), Some("ext4"));
        assert_eq!(kind_of_mount("", Path::new("/")), None);
    }

    #[test]
    fn as_many_syncs_are_timed_as_asked() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(syncs(folder.path(), 3).unwrap().len(), 3);
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    }
}
