//! One open file: the page at its front, and how a file is made, opened and replaced.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::fcntl::posix_fallocate;
use twox_hash::XxHash3_64;

use super::super::host::Host;
use super::super::tier::{TierError, TierFault};
use super::layout::{self, Layout, word};
use super::lock::{Patience, StripeLock};
use super::{FileSettings, VALUE_SHARE, place};

const MAGIC: [u8; 8] = *b"TMRKTIER";
/// Of the whole file. An older one is discarded; a newer one belongs to a newer library, which may
/// run beside this one for as long as an upgrade takes.
const FORMAT: u32 = 1;
/// Opened by copying: index and records by `pread`, and no map of the file in any process.
const COPYING: u32 = 1;
const HEADER_BYTES: usize = 88;
const CHECKED: std::ops::Range<usize> = 0..HEADER_BYTES - 8;

/// A file that is right for this start of this host, and its locks.
pub struct OpenedFile {
    pub file: File,
    pub layout: Layout,
    /// Random, made with the file. Seeds its checksums and hashes.
    pub seed: u64,
    pub stripes: Box<[StripeLock]>,
    /// For the notices on the first page.
    pub notices: StripeLock,
    bytes: u64,
    /// Names the file as long as it exists.
    pub inode: u64,
}

/// What the page at the front says.
struct Header {
    boot_id: [u8; 16],
    seed: u64,
    device: u64,
    inode: u64,
    bytes: u64,
    stripes: u32,
    codec: [u8; 8],
}

impl Header {
    fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&COPYING.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.boot_id);
        let numbers = [self.seed, self.device, self.inode, self.bytes];
        for (place, number) in numbers.into_iter().enumerate() {
            bytes[32 + place * 8..][..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[64..68].copy_from_slice(&self.stripes.to_le_bytes());
        bytes[72..80].copy_from_slice(&self.codec);
        let check = XxHash3_64::oneshot(&bytes[CHECKED]);
        bytes[CHECKED.end..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// `None` if this is no file of this format, or damaged.
    fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let (mut boot_id, mut codec) = ([0; 16], [0; 8]);
        boot_id.copy_from_slice(&bytes[16..32]);
        codec.copy_from_slice(&bytes[72..80]);
        let header = Header {
            boot_id,
            seed: word(bytes, 32),
            device: word(bytes, 40),
            inode: word(bytes, 48),
            bytes: word(bytes, 56),
            stripes: word(bytes, 64) as u32,
            codec,
        };
        (header.to_bytes() == *bytes).then_some(header)
    }
}

impl OpenedFile {
    /// Opens the file, or makes a new one in the place of none, and of one that is damaged, of
    /// another start of the host, copied, or of an older format.
    ///
    /// `condemned` is the inode of a file that was found to be damaged inside.
    pub fn open(
        settings: &FileSettings,
        host: &Host,
        condemned: Option<u64>,
    ) -> Result<OpenedFile, TierError> {
        let folder = settings.path.parent().unwrap_or(Path::new("/"));
        place::check_folder(folder)?;
        if let Some(opened) = existing(settings, host, condemned)? {
            return Ok(opened);
        }
        let guard = place::open_guard(&beside(&settings.path, ".lock"))?;
        let lock = StripeLock::default();
        let _alone = lock.lock(&guard, 0, Patience::Delete, host.now_ms)?;
        // Another process may have made it meanwhile.
        if let Some(opened) = existing(settings, host, condemned)? {
            return Ok(opened);
        }
        create(settings, host)
    }

    /// The file that is there; `None` if there is none or [`OpenedFile::open`] would replace it.
    pub fn existing(settings: &FileSettings, host: &Host) -> Result<Option<OpenedFile>, TierError> {
        existing(settings, host, None)
    }

    fn new(file: File, header: &Header, layout: Layout) -> OpenedFile {
        let stripes = (0..header.stripes).map(|_| StripeLock::default()).collect();
        OpenedFile {
            file,
            layout,
            seed: header.seed,
            stripes,
            notices: StripeLock::default(),
            bytes: header.bytes,
            inode: header.inode,
        }
    }

    /// Whether the file still has its name and its size.
    pub fn is_current(&self) -> bool {
        let found = self.file.metadata();
        found.is_ok_and(|found| found.nlink() > 0 && found.len() == self.bytes)
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The file that is there, if it may be used; `None` if it has to be replaced.
fn existing(
    settings: &FileSettings,
    host: &Host,
    condemned: Option<u64>,
) -> Result<Option<OpenedFile>, TierError> {
    let Some((file, found)) = place::open(&settings.path)? else {
        return Ok(None);
    };
    let mut bytes = [0; HEADER_BYTES];
    if condemned == Some(found.ino()) || file.read_exact_at(&mut bytes, 0).is_err() {
        return Ok(None);
    }
    let off = |why: &str| {
        let text = format!("{}: {why}", settings.path.display());
        Err(TierError::new(TierFault::Off, text))
    };
    let format = word(&bytes, 8) as u32;
    if bytes[..8] == MAGIC && format > FORMAT {
        return off(&format!("has the format {format} of a newer library"));
    }
    let Some(header) = Header::from_bytes(&bytes) else {
        return Ok(None);
    };
    if header.codec != settings.codec {
        return off("holds values of another language or of another version of the codec");
    }
    let is_same = (header.device, header.inode) == (found.dev(), found.ino())
        && header.bytes == found.len()
        && header.boot_id == host.boot_id;
    let layout = Layout::new(header.bytes, header.stripes, VALUE_SHARE).filter(|_| is_same);
    Ok(layout.map(|layout| OpenedFile::new(file, &header, layout)))
}

/// A new file takes its name only when it is whole. The old one is emptied first: a process
/// that has it open finds nothing in it from then on, and looks at the name again.
fn create(settings: &FileSettings, host: &Host) -> Result<OpenedFile, TierError> {
    let failed = |text: String| {
        let text = format!("{}: {text}", settings.path.display());
        TierError::new(TierFault::Off, text)
    };
    let Some(layout) = Layout::new(settings.bytes, settings.stripes, VALUE_SHARE) else {
        let text = format!(
            "{} bytes are too few for {} stripes",
            settings.bytes, settings.stripes
        );
        return Err(failed(text));
    };
    let unnamed = beside(&settings.path, ".new");
    let file = place::create(&unnamed)?;
    let made = fill(&file, settings, host, &layout)
        .and_then(|header| empty_old(&settings.path).map(|()| header))
        .and_then(|header| fs::rename(&unnamed, &settings.path).map(|()| header));
    match made {
        Ok(header) => Ok(OpenedFile::new(file, &header, layout)),
        Err(error) => {
            // What cannot be made may not stay behind and take up the space.
            let _ = fs::remove_file(&unnamed);
            let bytes = settings.bytes;
            Err(failed(format!("{bytes} bytes cannot be made: {error}")))
        }
    }
}

/// Nothing has this file mapped, so a shorter one is a miss for its readers and no signal.
fn empty_old(path: &Path) -> std::io::Result<()> {
    match place::open(path) {
        Ok(Some((file, _))) => file.set_len(0),
        Ok(None) => Ok(()),
        Err(error) => Err(std::io::Error::other(error)),
    }
}

fn fill(
    file: &File,
    settings: &FileSettings,
    host: &Host,
    layout: &Layout,
) -> std::io::Result<Header> {
    // A sparse file would fail at a later write, when the disk is full.
    let length = i64::try_from(settings.bytes).map_err(std::io::Error::other)?;
    posix_fallocate(file, 0, length)?;
    let found = file.metadata()?;
    let mut seed = [0; 8];
    (host.random)(&mut seed);
    let header = Header {
        boot_id: host.boot_id,
        seed: u64::from_le_bytes(seed),
        device: found.dev(),
        inode: found.ino(),
        bytes: settings.bytes,
        stripes: settings.stripes,
        codec: settings.codec,
    };
    for stripe in 0..settings.stripes {
        let head = layout::head_bytes(0, stripe, header.seed);
        file.write_all_at(&head, layout.head_at(stripe))?;
    }
    file.write_all_at(&header.to_bytes(), 0)?;
    Ok(header)
}
