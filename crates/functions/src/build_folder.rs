//! Walks of folders that builds write to. All of them block.
//!
//! None recurses, and none has more than one folder open: how deep users' code nests its folders
//! costs neither stack nor descriptors. What waits to be walked takes memory for each folder, so
//! its path is kept once for all folders in it, and has a limit.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use std::rc::Rc;

/// What a file takes at least.
const ENTRY_BYTES: u64 = 512;

/// What lies in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderSize {
    pub bytes: u64,
    /// Files, folders, links and the like.
    pub entries: usize,
}

impl FolderSize {
    pub const MAX: FolderSize = FolderSize {
        bytes: u64::MAX,
        entries: usize::MAX,
    };
}

/// Why a folder does not fit.
#[derive(Debug)]
pub enum FolderExcess {
    Bytes,
    Entries,
    /// The path of a folder, from the one that is measured.
    Path,
    /// What cannot be read cannot be counted.
    Unreadable(io::Error),
}

impl fmt::Display for FolderExcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderExcess::Bytes => formatter.write_str("too many bytes"),
            FolderExcess::Entries => formatter.write_str("too many files"),
            FolderExcess::Path => formatter.write_str("a folder whose path is too long"),
            FolderExcess::Unreadable(error) => error.fmt(formatter),
        }
    }
}

/// Folders that are to be walked, by their paths inside the first one.
struct WaitingFolders {
    /// Each with the path of the folder that it lies in.
    folders: Vec<(Rc<Path>, OsString)>,
    path_bytes_max: usize,
}

impl WaitingFolders {
    /// Begins with the folder that is walked itself.
    fn new(path_bytes_max: usize) -> WaitingFolders {
        WaitingFolders {
            folders: vec![(Path::new("").into(), OsString::new())],
            path_bytes_max,
        }
    }

    fn next(&mut self) -> Option<Rc<Path>> {
        let (within, name) = self.folders.pop()?;
        Some(within.join(name).into())
    }

    /// # Errors
    /// When its path is too long.
    fn add(&mut self, within: &Rc<Path>, name: OsString) -> Result<(), FolderExcess> {
        let slash = usize::from(!within.as_os_str().is_empty());
        if within.as_os_str().len() + slash + name.len() > self.path_bytes_max {
            return Err(FolderExcess::Path);
        }
        self.folders.push((Rc::clone(within), name));
        Ok(())
    }
}

impl From<FolderExcess> for io::Error {
    fn from(excess: FolderExcess) -> io::Error {
        match excess {
            FolderExcess::Unreadable(error) => error,
            excess => io::Error::other(excess.to_string()),
        }
    }
}

/// Adds what lies in a folder to `size`, up to `max`. What is removed or replaced meanwhile counts
/// nothing. Some file systems give a file its blocks late, so its length counts, too; and one that
/// is empty still takes a place of the disk's.
///
/// # Errors
/// When `size` passes `max`, the path of a folder inside has more bytes than it may, or something
/// cannot be read.
pub fn measure(
    folder: &Path,
    size: &mut FolderSize,
    (max, path_bytes_max): (FolderSize, usize),
) -> Result<(), FolderExcess> {
    let mut waiting = WaitingFolders::new(path_bytes_max);
    while let Some(inside) = waiting.next() {
        let entries = there(fs::read_dir(folder.join(&inside)))?;
        for entry in entries.into_iter().flatten() {
            let Some(entry) = there(entry)? else {
                continue;
            };
            let Some(status) = there(entry.metadata())? else {
                continue;
            };
            let bytes = status.len().max(status.blocks() * 512).max(ENTRY_BYTES);
            size.bytes = size.bytes.saturating_add(bytes);
            size.entries += 1;
            if size.bytes > max.bytes {
                return Err(FolderExcess::Bytes);
            }
            if size.entries > max.entries {
                return Err(FolderExcess::Entries);
            }
            if status.is_dir() {
                waiting.add(&inside, entry.file_name())?;
            }
        }
    }
    Ok(())
}

/// `None` for what was removed meanwhile, and for a folder in whose place is something else.
fn there<T>(read: io::Result<T>) -> Result<Option<T>, FolderExcess> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(FolderExcess::Unreadable(error)),
    }
}

/// Everything becomes the user's; links are not followed.
///
/// # Errors
/// When the path of a folder inside is too long, or something cannot be given.
pub fn give_away(folder: &Path, user: u32, path_bytes_max: usize) -> io::Result<()> {
    lchown(folder, Some(user), Some(user))?;
    let mut waiting = WaitingFolders::new(path_bytes_max);
    while let Some(inside) = waiting.next() {
        for entry in fs::read_dir(folder.join(&inside))? {
            let entry = entry?;
            lchown(entry.path(), Some(user), Some(user))?;
            if entry.file_type()?.is_dir() {
                waiting.add(&inside, entry.file_name())?;
            }
        }
    }
    Ok(())
}

/// Makes a folder with the same files. They are shared: who replaces one changes the copy alone,
/// who writes into one changes both. Folders become the user's, where one is named.
///
/// # Errors
/// When the path of a folder inside is too long, or something cannot be made.
pub fn copy_linked(
    (from, to): (&Path, &Path),
    user: Option<u32>,
    path_bytes_max: usize,
) -> io::Result<()> {
    let mut waiting = WaitingFolders::new(path_bytes_max);
    while let Some(inside) = waiting.next() {
        let made = to.join(&inside);
        fs::create_dir(&made)?;
        lchown(&made, user, user)?;
        for entry in fs::read_dir(from.join(&inside))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                waiting.add(&inside, entry.file_name())?;
            } else {
                fs::hard_link(entry.path(), made.join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{Mode, OFlags, mkdirat, openat};

    use super::*;

    fn measured(folder: &Path, max: FolderSize) -> Result<FolderSize, FolderExcess> {
        let mut size = FolderSize::default();
        measure(folder, &mut size, (max, usize::MAX)).map(|()| size)
    }

    /// A folder whose innermost one has a path that is too long to be opened by it.
    fn nest(folder: &Path) {
        let mut inner = rustix::fs::open(folder, OFlags::DIRECTORY, Mode::empty()).unwrap();
        let name = "d".repeat(200);
        for _ in 0..25 {
            mkdirat(&inner, &name, Mode::RWXU).unwrap();
            inner = openat(&inner, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn a_folder_is_measured_up_to_a_bound() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir_all(data.path().join("a/b")).unwrap();
        fs::write(data.path().join("a/b/file"), vec![0; 100_000]).unwrap();
        symlink("/", data.path().join("link")).unwrap();
        let size = measured(data.path(), FolderSize::MAX).unwrap();
        assert_eq!(size.entries, 4);
        assert!((100_000..150_000).contains(&size.bytes), "{size:?}");
        let max = FolderSize { entries: 3, ..size };
        let refused = measured(data.path(), max);
        assert!(matches!(refused, Err(FolderExcess::Entries)), "{refused:?}");
        let max = FolderSize {
            bytes: size.bytes - 1,
            ..size
        };
        let refused = measured(data.path(), max);
        assert!(matches!(refused, Err(FolderExcess::Bytes)), "{refused:?}");
        let absent = measured(&data.path().join("absent"), FolderSize::default());
        assert_eq!(absent.unwrap(), FolderSize::default());
    }

    #[test]
    fn a_folder_that_cannot_be_read_does_not_pass_for_an_empty_one() {
        let data = tempfile::tempdir().unwrap();
        nest(data.path());
        let refused = measured(data.path(), FolderSize::MAX);
        assert!(
            matches!(refused, Err(FolderExcess::Unreadable(_))),
            "{refused:?}"
        );
        // In the place of a folder that was seen before.
        let file = data.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(
            measured(&file, FolderSize::MAX).unwrap(),
            FolderSize::default()
        );
        // No path leads to what is nested so deep: it is moved up until one does.
        while fs::remove_dir_all(data.path()).is_err() {
            let name = "d".repeat(200);
            let inner = data.path().join(&name).join(&name);
            fs::rename(&inner, data.path().join("inner")).unwrap();
            fs::remove_dir(data.path().join(&name)).unwrap();
            fs::rename(data.path().join("inner"), data.path().join(&name)).unwrap();
        }
    }

    #[test]
    fn a_folder_whose_path_inside_is_too_long_is_not_walked() {
        let data = tempfile::tempdir().unwrap();
        let from = data.path().join("from");
        fs::create_dir_all(from.join("ab/cd")).unwrap();
        fs::write(from.join("ab/cd/a file with a long name"), "").unwrap();
        let own = rustix::process::geteuid().as_raw();
        let walk = |path_bytes_max| {
            let to = data.path().join(format!("to{path_bytes_max}"));
            let size = &mut FolderSize::default();
            let measured = measure(&from, size, (FolderSize::MAX, path_bytes_max));
            let walked = [
                measured.map_err(io::Error::from),
                give_away(&from, own, path_bytes_max),
                copy_linked((&from, &to), None, path_bytes_max),
            ];
            walked.map(|walked| walked.map_err(|error| error.to_string()))
        };
        assert_eq!(walk(5), [const { Ok(()) }; 3]);
        let refused = Err("a folder whose path is too long".to_owned());
        assert_eq!(walk(4), [0; 3].map(|_| refused.clone()));
        assert_eq!(walk(1), [0; 3].map(|_| refused.clone()));
    }

    #[test]
    fn a_copy_shares_files_and_not_folders() {
        let data = tempfile::tempdir().unwrap();
        let (from, to) = (data.path().join("from"), data.path().join("to"));
        fs::create_dir_all(from.join("a/empty")).unwrap();
        fs::write(from.join("a/file"), "before").unwrap();
        symlink("/nowhere", from.join("a/link")).unwrap();
        copy_linked((&from, &to), None, 1_024).unwrap();
        assert!(to.join("a/empty").is_dir());
        assert_eq!(
            fs::read_link(to.join("a/link")).unwrap(),
            Path::new("/nowhere")
        );
        fs::write(to.join("a/new"), "after").unwrap();
        fs::rename(to.join("a/new"), to.join("a/file")).unwrap();
        assert_eq!(fs::read_to_string(from.join("a/file")).unwrap(), "before");
    }
}
