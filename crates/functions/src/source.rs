//! Packs a folder of code into the archive of a deployment, and lists what would be packed.
//!
//! What git leaves out is left out, by the same files; `.tidemarkignore` has the last word. Some
//! names are never packed: they hold secrets, or the past of the code.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::Compression;
use flate2::write::GzEncoder;
use ignore::{DirEntry, WalkBuilder};
use tar::Builder;

use crate::archive::{ArchiveBounds, leading};
use crate::tar_entry::{append_file, append_folder, append_link};

/// Stands above what git leaves out, in the same form: `!node_modules` packs that folder.
pub const IGNORE_FILE: &str = ".tidemarkignore";
/// The file of variables that `tidemark function dev` reads.
pub const VARIABLES_FILE: &str = ".env";
/// The key of a data directory: where it is, the whole folder is left out.
const DATA_KEY: &str = "tidemark.key";
/// Packages and what interpreters write: too many files to be looked at again and again.
const UNWATCHED: [&str; 3] = ["node_modules", "__pycache__", ".venv"];
/// The largest files that an error names.
const LARGEST_SHOWN: usize = 3;

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEntryKind {
    /// A folder.
    Folder,
    /// A file, and whether it can be executed.
    File(bool),
    /// A link to a place inside the folder.
    Link(PathBuf),
}

/// What the folder holds at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEntry {
    /// Relative to the folder.
    pub path: PathBuf,
    /// What it is.
    pub kind: SourceEntryKind,
    /// Of a file.
    pub bytes: u64,
    /// When its content changed last.
    pub changed: SystemTime,
    /// What tells a file from another one that took its name.
    pub inode: u64,
}

/// An archive.
#[derive(Clone, Debug)]
pub struct PackedSource {
    /// A tar file compressed by gzip; the same for the same content.
    pub archive: Vec<u8>,
    /// Files in it.
    pub files: usize,
    /// Bytes of all files together, unpacked.
    pub bytes: u64,
}

/// Why a folder is not packed.
#[derive(Debug)]
pub enum SourceError {
    /// The system.
    Unreadable {
        /// Relative to the folder.
        path: PathBuf,
        /// What it said.
        detail: String,
    },
    /// An entry breaks this rule.
    Refused {
        /// Relative to the folder.
        path: PathBuf,
        /// As a sentence that goes on from it.
        rule: String,
    },
    /// The whole breaks this limit.
    TooLarge {
        /// Which, with its number and unit.
        limit: String,
        /// The largest files, and their bytes.
        largest: Vec<(PathBuf, u64)>,
    },
    /// Nothing is left to be packed.
    Empty,
}

impl fmt::Display for SourceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Unreadable { path, detail } => {
                write!(formatter, "`{}` cannot be read: {detail}", path.display())
            }
            SourceError::Refused { path, rule } => {
                write!(formatter, "`{}` {rule}", path.display())
            }
            SourceError::TooLarge { limit, largest } => {
                write!(
                    formatter,
                    "the folder is larger than a deployment may be ({limit})"
                )?;
                let largest = largest.iter().map(|(path, bytes)| {
                    format!("{} ({} KB)", path.display(), bytes.div_ceil(1_000))
                });
                let largest = largest.collect::<Vec<_>>().join(", ");
                if !largest.is_empty() {
                    write!(formatter, "; its largest files are {largest}")?;
                }
                write!(formatter, ". Name what is not needed in {IGNORE_FILE}")
            }
            SourceError::Empty => write!(
                formatter,
                "the folder has no file to pack: all are left out by .gitignore or {IGNORE_FILE}"
            ),
        }
    }
}

impl std::error::Error for SourceError {}

/// What would be packed, in the order of its paths.
///
/// # Errors
/// At the first entry that cannot be packed, or above a bound.
pub fn list(folder: &Path, bounds: ArchiveBounds) -> Result<Vec<SourceEntry>, SourceError> {
    let entries = walk(folder, bounds.entries_max, is_packed)?;
    let bytes = entries.iter().map(|entry| entry.bytes).sum::<u64>();
    for entry in &entries {
        check(entry, bounds.path_bytes_max)?;
    }
    if bytes > bounds.bytes_max {
        let limit = format!("{} bytes before compression", bounds.bytes_max);
        return Err(too_large(&entries, limit));
    }
    Ok(entries)
}

/// What decides how the code runs, to be compared with an earlier look at it. Other than what is
/// packed it holds the file of variables, and neither packages nor what interpreters write.
///
/// # Errors
/// When the folder cannot be read, or has more than `entries_max` entries.
pub fn watch_list(folder: &Path, entries_max: usize) -> Result<Vec<SourceEntry>, SourceError> {
    walk(folder, entries_max, |entry| {
        let name = entry.file_name();
        let is_unwatched = UNWATCHED.iter().any(|unwatched| name == *unwatched);
        name == VARIABLES_FILE || is_packed(entry) && !is_unwatched
    })
}

/// Packs the folder into at most `archive_bytes_max` bytes.
///
/// # Errors
/// As [`list`]; when the archive would be larger, or a file changes meanwhile.
pub fn pack_source(
    folder: &Path,
    bounds: ArchiveBounds,
    archive_bytes_max: usize,
) -> Result<PackedSource, SourceError> {
    let entries = list(folder, bounds)?;
    let is_file = |entry: &&SourceEntry| matches!(entry.kind, SourceEntryKind::File(_));
    let files = entries.iter().filter(is_file).count();
    if files == 0 {
        return Err(SourceError::Empty);
    }
    let bounded = BoundedBytes {
        bytes: Vec::new(),
        bytes_max: archive_bytes_max,
    };
    let mut builder = Builder::new(GzEncoder::new(bounded, Compression::default()));
    let limit = format!("{archive_bytes_max} bytes compressed");
    for entry in &entries {
        append(&mut builder, folder, entry).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => too_large(&entries, limit.clone()),
            _ => unreadable(&entry.path, &error),
        })?;
    }
    let finished = builder.into_inner().and_then(GzEncoder::finish);
    let archive = finished
        .map_err(|_| too_large(&entries, limit.clone()))?
        .bytes;
    let bytes = entries.iter().map(|entry| entry.bytes).sum::<u64>();
    let unpacked_max = bounds.ratio_max * archive.len() as u64;
    if bytes > unpacked_max.max(RATIO_FREE_BYTES) {
        let limit = format!("{} unpacked bytes for each packed one", bounds.ratio_max);
        return Err(too_large(&entries, limit));
    }
    Ok(PackedSource {
        archive,
        files,
        bytes,
    })
}

/// Half of what may be compressed as well as it can be: heads and padding count, too.
const RATIO_FREE_BYTES: u64 = 512 * 1024;

/// Entries for which `is_kept` holds, and what git does not leave out.
fn walk(
    folder: &Path,
    entries_max: usize,
    is_kept: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
) -> Result<Vec<SourceEntry>, SourceError> {
    let root = fs::canonicalize(folder).map_err(|error| unreadable(folder, &error))?;
    let mut walk = WalkBuilder::new(&root);
    // The same on every machine: what the user's own settings of git leave out does not count.
    walk.hidden(false).ignore(false).git_global(false);
    walk.git_exclude(false).require_git(false);
    walk.add_custom_ignore_filename(IGNORE_FILE);
    walk.sort_by_file_name(OsStr::cmp);
    walk.filter_entry(move |entry| entry.depth() == 0 || is_kept(entry));
    let mut entries = Vec::new();
    for entry in walk.build() {
        let entry = entry.map_err(|error| SourceError::Unreadable {
            path: folder.to_owned(),
            detail: error.to_string(),
        })?;
        let path = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        if path.as_os_str().is_empty() {
            continue;
        }
        if entries.len() == entries_max {
            let limit = format!("{entries_max} files and folders");
            return Err(too_large(&entries, limit));
        }
        entries.extend(entry_at(&entry, path)?);
    }
    Ok(entries)
}

fn is_packed(entry: &DirEntry) -> bool {
    let name = entry.file_name().as_encoded_bytes();
    let is_secret = name == VARIABLES_FILE.as_bytes() || name.starts_with(b".env.");
    !is_secret && name != b".git" && !entry.path().join(DATA_KEY).exists()
}

/// `None` for one that is gone again.
fn entry_at(entry: &DirEntry, path: &Path) -> Result<Option<SourceEntry>, SourceError> {
    let status = match entry.path().symlink_metadata() {
        Ok(status) => status,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let kind = if status.is_dir() {
        SourceEntryKind::Folder
    } else if status.is_symlink() {
        let target = fs::read_link(entry.path()).map_err(|error| unreadable(path, &error))?;
        SourceEntryKind::Link(target)
    } else if status.is_file() {
        SourceEntryKind::File(status.permissions().mode() & 0o111 != 0)
    } else {
        let rule = format!(
            "is no file, folder or link, and cannot be packed. Name it in {IGNORE_FILE}, or remove \
             it"
        );
        return Err(refused(path, rule));
    };
    Ok(Some(SourceEntry {
        path: path.to_owned(),
        bytes: if status.is_file() { status.len() } else { 0 },
        changed: status.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        inode: status.ino(),
        kind,
    }))
}

/// The rules of [`crate::archive::unpack`], before anything is sent.
fn check(entry: &SourceEntry, path_bytes_max: usize) -> Result<(), SourceError> {
    let name = entry.path.as_os_str().as_encoded_bytes();
    if entry.path.to_str().is_none() {
        return Err(refused(&entry.path, "has a name that is not UTF-8".into()));
    }
    if name.len() > path_bytes_max {
        let rule = format!("has a path of more than {path_bytes_max} bytes");
        return Err(refused(&entry.path, rule));
    }
    if let SourceEntryKind::Link(target) = &entry.kind
        && leading(&entry.path, target.as_os_str().as_encoded_bytes()).is_none()
    {
        let rule = format!(
            "is a link to {}, which leads out of the folder or takes steps upwards behind a name. \
             Copy what it leads to, or name the link in {IGNORE_FILE}",
            target.display()
        );
        return Err(refused(&entry.path, rule));
    }
    Ok(())
}

fn append<W: Write>(
    builder: &mut Builder<W>,
    folder: &Path,
    entry: &SourceEntry,
) -> io::Result<()> {
    match &entry.kind {
        SourceEntryKind::Folder => append_folder(builder, &entry.path),
        SourceEntryKind::Link(target) => append_link(builder, &entry.path, target),
        SourceEntryKind::File(is_executable) => {
            let mut options = OpenOptions::new();
            let options = options.read(true).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(folder.join(&entry.path))?;
            let mut content = file.take(entry.bytes);
            let about = (*is_executable, entry.bytes);
            append_file(builder, &entry.path, about, &mut content)?;
            let is_whole = content.limit() == 0;
            let has_more = content.into_inner().read(&mut [0])? > 0;
            if has_more || !is_whole {
                return Err(io::Error::other("it changes while it is packed"));
            }
            Ok(())
        }
    }
}

/// Takes so many bytes and no more.
struct BoundedBytes {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for BoundedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unreadable(path: &Path, error: &io::Error) -> SourceError {
    SourceError::Unreadable {
        path: path.to_owned(),
        detail: error.to_string(),
    }
}

fn refused(path: &Path, rule: String) -> SourceError {
    SourceError::Refused {
        path: path.to_owned(),
        rule,
    }
}

fn too_large(entries: &[SourceEntry], limit: String) -> SourceError {
    let mut files: Vec<&SourceEntry> = entries.iter().collect();
    files.sort_by_key(|entry| std::cmp::Reverse(entry.bytes));
    let largest = files.iter().take(LARGEST_SHOWN);
    let largest = largest.map(|entry| (entry.path.clone(), entry.bytes));
    SourceError::TooLarge {
        limit,
        largest: largest.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::archive::unpack;

    const BOUNDS: ArchiveBounds = ArchiveBounds {
        bytes_max: 250_000_000,
        entries_max: 20,
        path_bytes_max: 100,
        ratio_max: 200,
    };

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn paths(entries: &[SourceEntry]) -> Vec<String> {
        let paths = entries.iter().map(|entry| entry.path.display().to_string());
        paths.collect()
    }

    fn refusal(folder: &Path) -> String {
        pack_source(folder, BOUNDS, 10_000).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_is_packed_as_it_is_unpacked() {
        let from = folder(&[
            ("index.mjs", "export"),
            ("lib/deep/a b.js", ""),
            ("run", "x"),
        ]);
        let name = "n".repeat(80) + ".js";
        fs::write(from.path().join("lib/deep").join(&name), "long").unwrap();
        let mode = fs::Permissions::from_mode(0o4775);
        fs::set_permissions(from.path().join("run"), mode).unwrap();
        fs::create_dir(from.path().join("empty")).unwrap();
        symlink("../index.mjs", from.path().join("lib/main")).unwrap();
        let packed = pack_source(from.path(), BOUNDS, 10_000).unwrap();
        assert_eq!((packed.files, packed.bytes), (4, 11));
        let again = pack_source(from.path(), BOUNDS, 10_000).unwrap();
        assert_eq!(packed.archive, again.archive);
        let to = tempfile::tempdir().unwrap();
        unpack(&packed.archive[..], to.path(), BOUNDS).unwrap();
        let [before, after] =
            [from.path(), to.path()].map(|path| paths(&list(path, BOUNDS).unwrap()));
        assert_eq!(before, after);
        assert_eq!(
            fs::read_to_string(to.path().join("lib/main")).unwrap(),
            "export"
        );
        assert_eq!(
            fs::read_to_string(to.path().join("lib/deep").join(name)).unwrap(),
            "long"
        );
        let mode = fs::metadata(to.path().join("run")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o7777, 0o755);
    }

    #[test]
    fn files_that_git_leaves_out_and_secrets_are_not_packed() {
        let folder = folder(&[
            (".gitignore", "node_modules\n*.log\nout/\n"),
            (IGNORE_FILE, "!node_modules\nnotes.txt\n!.env\n"),
            ("index.mjs", ""),
            ("a.log", ""),
            ("notes.txt", ""),
            (".env", "KEY=1"),
            (".env.local", "KEY=1"),
            ("lib/.env", "KEY=1"),
            (".git/config", ""),
            ("out/x", ""),
            ("node_modules/p/index.js", ""),
            ("node_modules/p/b.log", ""),
            ("tidemark-data/tidemark.key", ""),
            ("tidemark-data/tidemark.db", ""),
        ]);
        let found = paths(&list(folder.path(), BOUNDS).unwrap());
        let wanted = [
            ".gitignore",
            IGNORE_FILE,
            "index.mjs",
            "lib",
            "node_modules",
            "node_modules/p",
            "node_modules/p/index.js",
        ];
        assert_eq!(found, wanted);
        let watched = paths(&watch_list(folder.path(), 20).unwrap());
        let wanted = [
            ".env",
            ".gitignore",
            IGNORE_FILE,
            "index.mjs",
            "lib",
            "lib/.env",
        ];
        assert_eq!(watched, wanted);
    }

    #[test]
    fn a_folder_without_a_file_to_pack_is_refused() {
        let empty = folder(&[(".gitignore", "*"), ("index.mjs", "")]);
        let error = refusal(empty.path());
        assert!(error.contains("no file to pack"), "{error}");
    }

    #[test]
    fn a_link_that_leads_out_of_the_folder_is_refused() {
        for target in [
            "/etc/passwd",
            "../../x",
            "..",
            "lib/../../x",
            "lib/../index.mjs",
        ] {
            let folder = folder(&[("lib/a.js", "")]);
            symlink(target, folder.path().join("link")).unwrap();
            let error = refusal(folder.path());
            assert!(
                error.starts_with(&format!("`link` is a link to {target}")),
                "{error}"
            );
        }
    }

    #[test]
    fn an_entry_that_is_no_file_is_refused() {
        let folder = folder(&[("index.mjs", "")]);
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        let error = refusal(folder.path());
        assert!(
            error.starts_with("`socket` is no file, folder or link"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_above_a_bound_is_refused_with_its_largest_files() {
        let mut noise = 1_u64;
        let mut content = Vec::new();
        while content.len() < 20_000 {
            // A xorshift generator: nothing that gzip can make smaller.
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            content.extend_from_slice(&noise.to_le_bytes());
        }
        let large = folder(&[("index.mjs", "x")]);
        fs::write(large.path().join("noise"), content).unwrap();
        let error = refusal(large.path());
        let wanted = "(10000 bytes compressed); its largest files are noise (20 KB), index.mjs";
        assert!(error.contains(wanted), "{error}");
        assert!(pack_source(large.path(), BOUNDS, 30_000).is_ok());

        let bounds = ArchiveBounds {
            bytes_max: 20_000,
            ..BOUNDS
        };
        let error = pack_source(large.path(), bounds, 30_000)
            .unwrap_err()
            .to_string();
        assert!(error.contains("20000 bytes before compression"), "{error}");

        let many = folder(&[]);
        for number in 0..21 {
            fs::write(many.path().join(number.to_string()), "").unwrap();
            let count = list(many.path(), BOUNDS).map(|entries| entries.len()).ok();
            assert_eq!(count, (number < 20).then_some(number + 1));
        }
        assert!(watch_list(many.path(), 20).is_err());

        let zeros = folder(&[]);
        fs::write(zeros.path().join("zeros"), vec![0; 4_000_000]).unwrap();
        let error = refusal(zeros.path());
        assert!(
            error.contains("200 unpacked bytes for each packed one"),
            "{error}"
        );

        let long = folder(&[]);
        fs::write(long.path().join("n".repeat(101)), "").unwrap();
        let error = refusal(long.path());
        assert!(error.contains("a path of more than 100 bytes"), "{error}");
    }
}
