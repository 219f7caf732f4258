//! Unpacks the archive of a deployment: a tar file compressed by gzip, and hostile input.
//!
//! Nothing is written through a link: links are made when all files are there, and lead to places
//! inside the folder.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType, PaxExtensions};

/// What an archive may become.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveBounds {
    /// Bytes of all files together.
    pub bytes_max: u64,
    /// Files, folders and links.
    pub entries_max: usize,
    /// Bytes of one path.
    pub path_bytes_max: usize,
    /// Unpacked bytes for each packed byte.
    pub ratio_max: u64,
}

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpackedArchive {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Files, folders and links.
    pub entries: usize,
}

/// Why an archive was not unpacked. What was written before is left for the caller to remove.
#[derive(Debug)]
pub enum ArchiveError {
    /// No gzip, no tar, or not whole.
    Broken(io::Error),
    /// The disk.
    Write(io::Error),
    /// An entry breaks this rule.
    Refused {
        /// The entry.
        path: String,
        /// As a sentence that goes on from it.
        rule: String,
    },
    /// The whole breaks this limit.
    TooLarge {
        /// Which, with its number and unit.
        limit: String,
    },
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchiveError::Broken(error) => write!(formatter, "The archive cannot be read: {error}"),
            ArchiveError::Write(error) => {
                write!(formatter, "The archive cannot be written to disk: {error}")
            }
            ArchiveError::Refused { path, rule } => {
                write!(formatter, "The archive's entry {path:?} {rule}")
            }
            ArchiveError::TooLarge { limit } => {
                write!(formatter, "The archive is larger than allowed: {limit}")
            }
        }
    }
}

impl std::error::Error for ArchiveError {}

/// Of a long name, and of what a pax header says of the next entry.
const EXTENSION_BYTES_MAX: u64 = 64 * 1024;
/// Less than this may be compressed as well as it can be.
const RATIO_FREE_BYTES: u64 = 1024 * 1024;

/// Unpacks into an empty folder. All that is written may be read by everybody, because a jail has
/// a user of its own.
///
/// # Errors
/// At the first rule that is broken.
pub fn unpack(
    packed: impl Read,
    folder: &Path,
    bounds: ArchiveBounds,
) -> Result<UnpackedArchive, ArchiveError> {
    let counted = CountedReader {
        inner: packed,
        bytes: std::rc::Rc::default(),
    };
    let packed_bytes = std::rc::Rc::clone(&counted.bytes);
    let reader = BoundedReader {
        inner: MultiGzDecoder::new(counted),
        packed_bytes,
        bytes: 0,
        bounds,
    };
    let mut unpacking = Unpacking {
        folder: folder.to_owned(),
        bounds,
        totals: UnpackedArchive::default(),
        files: BTreeSet::new(),
        links: BTreeMap::new(),
    };
    let mut archive = Archive::new(reader);
    let mut names = LongNames::default();
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        if !names.take(&mut entry)? {
            unpacking.take(entry, std::mem::take(&mut names))?;
        }
    }
    unpacking.make_links()?;
    Ok(unpacking.totals)
}

/// The limits of size are found by reading, and come out of it as errors of their own.
fn broken(error: io::Error) -> ArchiveError {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<LimitPassed>())
    {
        Some(LimitPassed(limit)) => ArchiveError::TooLarge {
            limit: limit.clone(),
        },
        None => ArchiveError::Broken(error),
    }
}

#[derive(Debug)]
struct LimitPassed(String);

impl fmt::Display for LimitPassed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for LimitPassed {}

struct CountedReader<R> {
    inner: R,
    bytes: std::rc::Rc<std::cell::Cell<u64>>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}

/// Stops at the limits, before anything of what is above them is kept.
struct BoundedReader<R> {
    inner: R,
    packed_bytes: std::rc::Rc<std::cell::Cell<u64>>,
    bytes: u64,
    bounds: ArchiveBounds,
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes += count as u64;
        let ArchiveBounds {
            bytes_max,
            ratio_max,
            entries_max,
            ..
        } = self.bounds;
        // Each entry has a head of 512 bytes and as much padding.
        let limit = if self.bytes > bytes_max + 2 * 1024 * entries_max as u64 {
            format!("{bytes_max} bytes")
        } else if self.bytes > RATIO_FREE_BYTES.max(ratio_max * self.packed_bytes.get()) {
            format!("{ratio_max} unpacked bytes for each packed one")
        } else {
            return Ok(count);
        };
        Err(io::Error::other(LimitPassed(limit)))
    }
}

/// What entries say of the entry behind them.
#[derive(Default)]
struct LongNames {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl LongNames {
    /// True when the entry is about the next one.
    fn take(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<bool, ArchiveError> {
        let kind = entry.header().entry_type();
        match kind {
            EntryType::XGlobalHeader => return Ok(true),
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader => {}
            _ => return Ok(false),
        }
        if entry.header().entry_size().map_err(broken)? > EXTENSION_BYTES_MAX {
            return Err(refused(b"", "has a name that is too long".to_owned()));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        if kind == EntryType::XHeader {
            for pair in PaxExtensions::new(&bytes) {
                let pair = pair.map_err(broken)?;
                match pair.key_bytes() {
                    b"path" => self.path = Some(pair.value_bytes().to_vec()),
                    b"linkpath" => self.link = Some(pair.value_bytes().to_vec()),
                    b"size" => {
                        let rule = "has a size outside of its head, which is for large files";
                        return Err(refused(b"", rule.to_owned()));
                    }
                    _ => {}
                }
            }
            return Ok(true);
        }
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        bytes.truncate(end);
        if kind == EntryType::GNULongName {
            self.path = Some(bytes);
        } else {
            self.link = Some(bytes);
        }
        Ok(true)
    }
}

fn refused(path: &[u8], rule: String) -> ArchiveError {
    let path = String::from_utf8_lossy(path);
    ArchiveError::Refused {
        // An error is read by people.
        path: path.chars().take(200).collect(),
        rule,
    }
}

struct Unpacking {
    folder: PathBuf,
    bounds: ArchiveBounds,
    totals: UnpackedArchive,
    files: BTreeSet<PathBuf>,
    /// Where each leads.
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Unpacking {
    fn take(&mut self, entry: Entry<'_, impl Read>, names: LongNames) -> Result<(), ArchiveError> {
        let given = names
            .path
            .unwrap_or_else(|| entry.path_bytes().into_owned());
        let rule = |rule: &str| Err(refused(&given, rule.to_owned()));
        self.count(1)?;
        if given.len() > self.bounds.path_bytes_max {
            let limit = self.bounds.path_bytes_max;
            return Err(refused(
                &given,
                format!("has a path of more than {limit} bytes"),
            ));
        }
        let Some(path) = inside(&given) else {
            return rule("leads out of the folder");
        };
        let mode = entry.header().mode().map_err(broken)?;
        if mode & 0o6000 != 0 {
            return rule("would run as another user");
        }
        let target = names
            .link
            .or_else(|| entry.link_name_bytes().map(Cow::into_owned));
        match entry.header().entry_type() {
            EntryType::Directory => {
                // It stands for itself.
                let above = path.parent().unwrap_or(Path::new(""));
                self.make_folders(above)?;
                make_folder(&self.folder, &path).map(drop)
            }
            EntryType::Regular | EntryType::Continuous => self.write(entry, &path, mode),
            EntryType::Symlink => {
                let Some(target) = target.and_then(|target| leading(&path, &target)) else {
                    return rule("is a link that leads out of the folder");
                };
                self.links.insert(path, target);
                Ok(())
            }
            EntryType::Link => {
                let target = target.and_then(|target| inside(&target));
                let Some(target) = target.filter(|target| self.files.contains(target)) else {
                    return rule("is a link to no file before it");
                };
                self.copy(&target, &path)
            }
            _ => rule("is no file, folder or link"),
        }
    }

    /// Every folder above a path is one of ours, as no link is there yet. Each that is made counts,
    /// or one long path would be hundreds of them.
    fn make_folders(&mut self, path: &Path) -> Result<(), ArchiveError> {
        let mut missing = Vec::new();
        // From the innermost one: most often it is there.
        for folder in path.ancestors() {
            match make_folder(&self.folder, folder)? {
                None => missing.push(folder),
                Some(is_new) => {
                    self.count(usize::from(is_new))?;
                    break;
                }
            }
        }
        for folder in missing.into_iter().rev() {
            make_folder(&self.folder, folder)?;
            self.count(1)?;
        }
        Ok(())
    }

    fn count(&mut self, entries: usize) -> Result<(), ArchiveError> {
        self.totals.entries += entries;
        if self.totals.entries > self.bounds.entries_max {
            let limit = format!("{} entries", self.bounds.entries_max);
            return Err(ArchiveError::TooLarge { limit });
        }
        Ok(())
    }

    fn create(&mut self, path: &Path, mode: u32) -> Result<fs::File, ArchiveError> {
        self.make_folders(path.parent().unwrap_or(Path::new("")))?;
        let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(mode);
        let file = options.open(self.folder.join(path)).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                let path = path.as_os_str().as_encoded_bytes();
                return refused(path, "is there twice".to_owned());
            }
            ArchiveError::Write(error)
        })?;
        file.set_permissions(Permissions::from_mode(mode))
            .map_err(ArchiveError::Write)?;
        self.files.insert(path.to_owned());
        Ok(file)
    }

    fn write(
        &mut self,
        mut entry: Entry<'_, impl Read>,
        path: &Path,
        mode: u32,
    ) -> Result<(), ArchiveError> {
        let size = entry.header().entry_size().map_err(broken)?;
        self.add(size)?;
        let mut file = self.create(path, mode)?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = entry.read(&mut buffer).map_err(broken)?;
            if count == 0 {
                return Ok(());
            }
            io::Write::write_all(&mut file, &buffer[..count]).map_err(ArchiveError::Write)?;
        }
    }

    /// A second name of a file becomes a file of its own.
    fn copy(&mut self, target: &Path, path: &Path) -> Result<(), ArchiveError> {
        let mut source = fs::File::open(self.folder.join(target)).map_err(ArchiveError::Write)?;
        let status = source.metadata().map_err(ArchiveError::Write)?;
        self.add(status.len())?;
        let mut file = self.create(path, status.permissions().mode())?;
        io::copy(&mut source, &mut file).map_err(ArchiveError::Write)?;
        Ok(())
    }

    fn add(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.totals.bytes = self.totals.bytes.saturating_add(bytes);
        if self.totals.bytes > self.bounds.bytes_max {
            let limit = format!("{} bytes", self.bounds.bytes_max);
            return Err(ArchiveError::TooLarge { limit });
        }
        Ok(())
    }

    fn make_links(&mut self) -> Result<(), ArchiveError> {
        // All folders first: with a link in place, one of them could be made behind it.
        let links = std::mem::take(&mut self.links);
        for path in links.keys() {
            self.make_folders(path.parent().unwrap_or(Path::new("")))?;
        }
        for (path, target) in &links {
            symlink(target, self.folder.join(path)).map_err(|error| {
                if error.kind() == io::ErrorKind::AlreadyExists {
                    let path = path.as_os_str().as_encoded_bytes();
                    return refused(path, "is there twice".to_owned());
                }
                ArchiveError::Write(error)
            })?;
        }
        Ok(())
    }
}

/// Makes a folder inside another one, which an empty path stands for. Whether it is new; `None`
/// where that above it is not there.
fn make_folder(within: &Path, path: &Path) -> Result<Option<bool>, ArchiveError> {
    let place = within.join(path);
    match fs::create_dir(&place) {
        Ok(()) => {
            let mode = Permissions::from_mode(0o755);
            fs::set_permissions(&place, mode).map_err(ArchiveError::Write)?;
            Ok(Some(true))
        }
        Err(error) => match error.kind() {
            io::ErrorKind::AlreadyExists if place.is_dir() => Ok(Some(false)),
            io::ErrorKind::AlreadyExists => {
                let path = path.as_os_str().as_encoded_bytes();
                Err(refused(path, "is both a file and a folder".to_owned()))
            }
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if path.parent().is_some() => {
                Ok(None)
            }
            _ => Err(ArchiveError::Write(error)),
        },
    }
}

/// The path without its dots; `None` for one that is absolute or leads upwards.
fn inside(given: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(given)
        .ok()
        .filter(|text| !text.contains('\0'))?;
    let mut path = PathBuf::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Where a link leads, when that is inside. Steps upwards stand at its beginning only: behind a
/// name they would count from where that leads, if it is a link itself.
pub(crate) fn leading(path: &Path, target: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(target)
        .ok()
        .filter(|text| !text.contains('\0'))?;
    let mut depth = path.components().count().checked_sub(1)?;
    let mut has_name = false;
    for part in Path::new(text).components() {
        match part {
            Component::Normal(_) => has_name = true,
            Component::CurDir => {}
            Component::ParentDir if !has_name => depth = depth.checked_sub(1)?,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!text.is_empty()).then(|| PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::Header;

    use super::*;

    const BOUNDS: ArchiveBounds = ArchiveBounds {
        bytes_max: 2_000_000,
        entries_max: 100,
        path_bytes_max: 1_024,
        ratio_max: 200,
    };

    /// Entries as bytes, whatever they say.
    #[derive(Default)]
    struct Crafted(Vec<u8>);

    impl Crafted {
        fn add(self, kind: EntryType, path: &[u8], link: &[u8], content: &[u8]) -> Crafted {
            self.add_with(0o644, kind, path, link, content)
        }

        fn add_with(
            mut self,
            mode: u32,
            kind: EntryType,
            path: &[u8],
            link: &[u8],
            content: &[u8],
        ) -> Crafted {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(content.len() as u64);
            let bytes = header.as_mut_bytes();
            bytes[..path.len()].copy_from_slice(path);
            bytes[157..157 + link.len()].copy_from_slice(link);
            header.set_cksum();
            self.0.extend_from_slice(header.as_bytes());
            self.0.extend_from_slice(content);
            self.0.resize(self.0.len().next_multiple_of(512), 0);
            self
        }

        fn file(self, path: &str, content: &str) -> Crafted {
            self.add(EntryType::Regular, path.as_bytes(), b"", content.as_bytes())
        }

        fn link(self, path: &str, target: &str) -> Crafted {
            self.add(EntryType::Symlink, path.as_bytes(), target.as_bytes(), b"")
        }

        fn packed(mut self) -> Vec<u8> {
            self.0.resize(self.0.len() + 1024, 0);
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&self.0).unwrap();
            encoder.finish().unwrap()
        }
    }

    fn unpacked(archive: Crafted) -> (tempfile::TempDir, Result<UnpackedArchive, ArchiveError>) {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("code");
        fs::create_dir(&inside).unwrap();
        let result = unpack(&archive.packed()[..], &inside, BOUNDS);
        // Whatever it was, nothing is beside the folder.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        (folder, result)
    }

    #[track_caller]
    fn check_refused(archive: Crafted, words: &str) {
        let (_folder, result) = unpacked(archive);
        let said = result.unwrap_err().to_string();
        assert!(said.contains(words), "{words} is not in {said}");
    }

    #[test]
    fn an_archive_becomes_files() {
        let long = format!("deep/{}", "n".repeat(200));
        let pax = format!("{} path={long}\n", long.len() + 10);
        let archive = Crafted::default()
            .add(EntryType::Directory, b"./", b"", b"")
            .file("./main.js", "one")
            .add_with(0o700, EntryType::Regular, b"bin/run", b"", b"two")
            .link("node_modules/.bin/run", "../../bin/run")
            .add(EntryType::Link, b"again", b"main.js", b"")
            .add(EntryType::XHeader, b"pax", b"", pax.as_bytes())
            .file("cut", "three");
        let (folder, result) = unpacked(archive);
        let totals = result.unwrap();
        // With the four folders that no entry names.
        assert_eq!((totals.bytes, totals.entries), (14, 10));
        let read = |name: &str| fs::read_to_string(folder.path().join("code").join(name)).unwrap();
        assert_eq!(
            (read("main.js"), read("again")),
            ("one".into(), "one".into())
        );
        assert_eq!(
            (read("node_modules/.bin/run"), read(&long)),
            ("two".into(), "three".into())
        );
        let mode = |name: &str| {
            let status = fs::metadata(folder.path().join("code").join(name)).unwrap();
            status.permissions().mode() & 0o7777
        };
        assert_eq!(
            (mode("main.js"), mode("bin/run"), mode("bin")),
            (0o644, 0o755, 0o755)
        );
    }

    #[test]
    fn an_archive_stays_inside() {
        let file = |path: &[u8]| Crafted::default().add(EntryType::Regular, path, b"", b"x");
        for path in [&b"/etc/x"[..], b"../x", b"a/../../x", b"a/..", b"a\xff"] {
            check_refused(file(path), "leads out of the folder");
        }
        for target in [
            "/etc/passwd",
            "..",
            "a/../..",
            "a/..",
            "../../x",
            "b/../../x",
        ] {
            check_refused(
                Crafted::default().link("l", target),
                "a link that leads out",
            );
        }
        check_refused(
            Crafted::default().link("a/b", "../../x"),
            "a link that leads out",
        );
    }

    #[test]
    fn an_archive_writes_through_no_link() {
        let through = Crafted::default().link("l", "d").file("l/x", "x");
        check_refused(through, "is there twice");
        let after = Crafted::default().file("f", "x").link("f", "g");
        check_refused(after, "is there twice");
        check_refused(
            Crafted::default().file("f", "x").file("f", "y"),
            "is there twice",
        );
        check_refused(
            Crafted::default().file("f", "x").file("f/g", "y"),
            "both a file and a",
        );
        let hard = Crafted::default().add(EntryType::Link, b"h", b"/etc/passwd", b"");
        check_refused(hard, "a link to no file before it");
        let by_link = Crafted::default().link("l", "x");
        let by_link = by_link.add(EntryType::Link, b"h", b"l", b"");
        check_refused(by_link, "a link to no file before it");
    }

    #[test]
    fn an_archive_holds_files_alone() {
        for kind in [
            EntryType::Fifo,
            EntryType::Char,
            EntryType::Block,
            EntryType::GNUSparse,
        ] {
            let archive = Crafted::default().add(kind, b"x", b"", b"");
            check_refused(archive, "is no file, folder or link");
        }
        for mode in [0o4755, 0o2755] {
            let archive = Crafted::default();
            let archive = archive.add_with(mode, EntryType::Regular, b"x", b"", b"");
            check_refused(archive, "would run as another user");
        }
    }

    #[test]
    fn an_archive_has_bounds() {
        let many = (0..101).fold(Crafted::default(), |all, n| all.file(&format!("{n}"), ""));
        check_refused(many, "100 entries");
        let all = (0..100).fold(Crafted::default(), |all, n| all.file(&format!("{n}"), ""));
        assert_eq!(unpacked(all).1.unwrap().entries, 100);
        // Folders that no entry names count as well: of one path there may be hundreds.
        let named = |folders: usize| {
            let path = format!("{}f", "d/".repeat(folders));
            Crafted::default().add(EntryType::GNULongName, b"", b"", path.as_bytes())
        };
        assert_eq!(unpacked(named(99).file("cut", "")).1.unwrap().entries, 100);
        check_refused(named(99).file("cut", "").file("g", ""), "100 entries");
        check_refused(named(99).link("cut", "g").file("g", ""), "100 entries");
        check_refused(
            Crafted::default().file("z", &"0".repeat(1_900_000)),
            "200 unpacked bytes",
        );
        let mut seed = 1_u64;
        let noise = (0..2_000_001).map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from((seed >> 60) as u8 + b'a')
        });
        let noise: String = noise.collect();
        check_refused(Crafted::default().file("n", &noise), "2000000 bytes");
        assert!(
            unpacked(Crafted::default().file("n", &noise[1..]))
                .1
                .is_ok()
        );
        let long = "p".repeat(1_025);
        let named = Crafted::default().add(EntryType::GNULongName, b"", b"", long.as_bytes());
        check_refused(named.file("p", ""), "a path of more than 1024 bytes");
        let name = vec![b'p'; 65_537];
        let named = Crafted::default().add(EntryType::GNULongName, b"", b"", &name);
        check_refused(named.file("p", ""), "a name that is too long");
    }

    #[test]
    fn an_archive_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let whole = Crafted::default().file("a", "content").packed();
        for bytes in [&b""[..], b"text", &[0x1f, 0x8b], &whole[..whole.len() / 2]] {
            let result = unpack(bytes, folder.path(), BOUNDS);
            assert!(matches!(result, Err(ArchiveError::Broken(_))), "{result:?}");
        }
    }
}
