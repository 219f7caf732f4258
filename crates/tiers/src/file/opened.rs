//! One open file: the page at its front, and how a file is made, opened and replaced.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use nix::fcntl::posix_fallocate;
use twox_hash::XxHash3_64;

use super::super::host::Host;
use super::super::known::KnownTokens;
use super::super::tier::{TierError, TierFault};
use super::super::tokens::Token;
use super::failed::io;
use super::layout::{self, KeyPlace, Layout, RecordPlace, word};
use super::lock::{BucketLocks, LockedBytes, PartLock, Patience};
use super::place::{self, OtherWriters};
use super::{FileSettings, VALUE_SHARE, clean};

const MAGIC: [u8; 8] = *b"TMRKTIER";
/// Of the whole file. An older one is discarded; a newer one belongs to a newer library, which may
/// run beside this one for as long as an upgrade takes.
const FORMAT: u32 = 3;
const HEADER_BYTES: usize = 88;
/// Where the disk refuses the room for a mapped file, one of half its size is made, down to this.
const HALVED_BYTES_MIN: u64 = 8 << 20;
const CHECKED: std::ops::Range<usize> = 0..HEADER_BYTES - 8;

/// How all processes open a file: a word that one writes by `pwrite` may be read torn through the
/// map of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenWay {
    /// Index and records by `pread`, and no map of the file in any process.
    Copying = 1,
    /// The index as atomic words of a shared map; records are written by `pwrite`.
    Mapped = 2,
}

impl OpenWay {
    /// PHP's workers may be several users of one group, as their folders are.
    fn other_writers(self) -> OtherWriters {
        match self {
            OpenWay::Copying => OtherWriters::None,
            OpenWay::Mapped => OtherWriters::Group,
        }
    }
}

/// A token, when it was written, and where its bucket and its record are.
#[derive(Clone, Copy)]
pub struct PlacedToken {
    pub token: Token,
    pub written_ms: u64,
    pub place: KeyPlace,
    pub record: RecordPlace,
}

/// Positions of a ring that this process alone may write to, and has not used yet.
#[derive(Debug, Default)]
pub struct ReservedRun {
    pub ring: u32,
    pub next: u64,
    pub end: u64,
    /// How many there were; 0 before the first.
    pub size: u64,
}

impl ReservedRun {
    pub fn units(&self) -> u64 {
        self.end - self.next
    }
}

/// A file that is right for this start of this host, and its locks.
pub struct OpenedFile {
    pub file: File,
    pub layout: Layout,
    /// Random, made with the file. Seeds its checksums and hashes.
    pub seed: u64,
    /// Of a mapped file those of stripes, of a copying one those of rings.
    pub stripes: Box<[PartLock]>,
    /// Of the buckets of a copying file.
    pub buckets: BucketLocks,
    /// Of each ring of a copying file, the last head that this process has seen: the ring has come
    /// so far at least.
    pub heads: Box<[AtomicU64]>,
    /// For the next small records in a copying file.
    pub run: Mutex<ReservedRun>,
    /// For the notices on the first page.
    pub notices: PartLock,
    /// The tokens that this process has read.
    pub tokens: KnownTokens<PlacedToken>,
    bytes: u64,
    /// Names the file as long as it exists.
    pub inode: u64,
}

/// What the page at the front says.
struct Header {
    way: u32,
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
        bytes[12..16].copy_from_slice(&self.way.to_le_bytes());
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
            way: word(bytes, 8).wrapping_shr(32) as u32,
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
        way: OpenWay,
        host: &Host,
        condemned: Option<u64>,
    ) -> Result<OpenedFile, TierError> {
        let folder = settings.path.parent().unwrap_or(Path::new("/"));
        place::check_folder(folder, way.other_writers())?;
        let sought = Sought {
            way,
            condemned,
            may_adopt: false,
        };
        if let Some(opened) = existing(settings, host, sought)? {
            return Ok(opened);
        }
        let guard = place::open_guard(&beside(&settings.path, ".lock"))?;
        let lock = PartLock::default();
        let _alone = lock.lock(&guard, LockedBytes::one(0), Patience::Make, host.now_ms)?;
        // Another process may have made it meanwhile.
        let sought = Sought {
            may_adopt: true,
            ..sought
        };
        if let Some(opened) = existing(settings, host, sought)? {
            return Ok(opened);
        }
        create(settings, way, host)
    }

    /// The file that is there; `None` if there is none or [`OpenedFile::open`] would replace it.
    pub fn existing(settings: &FileSettings, host: &Host) -> Result<Option<OpenedFile>, TierError> {
        let sought = Sought {
            way: OpenWay::Copying,
            condemned: None,
            may_adopt: false,
        };
        existing(settings, host, sought)
    }

    fn new(file: File, header: &Header, layout: Layout) -> OpenedFile {
        let stripes = (0..header.stripes).map(|_| PartLock::default()).collect();
        OpenedFile {
            file,
            seed: header.seed,
            stripes,
            buckets: BucketLocks::new(layout.stripes),
            heads: (0..header.stripes).map(|_| AtomicU64::new(0)).collect(),
            run: Mutex::default(),
            layout,
            notices: PartLock::default(),
            tokens: KnownTokens::default(),
            bytes: header.bytes,
            inode: header.inode,
        }
    }

    /// Whether the file still has its name and its size.
    pub fn is_current(&self) -> bool {
        let found = self.file.metadata();
        found.is_ok_and(|found| found.nlink() > 0 && found.len() == self.bytes)
    }

    /// Whether this is the file of that name.
    pub fn is_named(&self, path: &Path) -> bool {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|found| found.ino() == self.inode)
    }

    /// Size of the whole file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Which file is looked for.
#[derive(Clone, Copy)]
struct Sought {
    way: OpenWay,
    condemned: Option<u64>,
    /// Whether a file of an earlier start of the host, whose clean mark still holds, is made one of
    /// this start. The guard must be locked.
    may_adopt: bool,
}

/// The file that is there, if it may be used; `None` if it has to be replaced.
fn existing(
    settings: &FileSettings,
    host: &Host,
    sought: Sought,
) -> Result<Option<OpenedFile>, TierError> {
    let Some((file, found)) = place::open(&settings.path, sought.way.other_writers())? else {
        return Ok(None);
    };
    let mut bytes = [0; HEADER_BYTES];
    if sought.condemned == Some(found.ino()) || file.read_exact_at(&mut bytes, 0).is_err() {
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
    let Some(mut header) = Header::from_bytes(&bytes) else {
        return Ok(None);
    };
    if header.codec != settings.codec {
        return off("holds values of another language or of another version of the codec");
    }
    if header.way != sought.way as u32 {
        return off("is one that other processes open in another way");
    }
    if sought.way == OpenWay::Mapped && is_over(&file)? {
        return Ok(None);
    }
    let is_same = (header.device, header.inode) == (found.dev(), found.ino())
        && header.bytes == found.len()
        && (header.boot_id == host.boot_id || sought.may_adopt && adopt(&file, header.seed, host)?);
    if is_same && header.boot_id != host.boot_id {
        header.boot_id = host.boot_id;
        file.write_all_at(&header.to_bytes(), 0).map_err(io)?;
    }
    let layout = Layout::new(header.bytes, header.stripes, VALUE_SHARE).filter(|_| is_same);
    Ok(layout.map(|layout| OpenedFile::new(file, &header, layout)))
}

/// Whether a mapped file was given up, by a process that may have died before it made another.
fn is_over(file: &File) -> Result<bool, TierError> {
    let mut over = [0; 8];
    file.read_exact_at(&mut over, layout::OVER_AT).map_err(io)?;
    Ok(over != [0; 8])
}

/// Whether a file of an earlier start of the host still has its clean mark. Its clock then goes on
/// from the mark.
fn adopt(file: &File, seed: u64, host: &Host) -> Result<bool, TierError> {
    let mut bytes = [0; clean::BYTES];
    file.read_exact_at(&mut bytes, clean::AT).map_err(io)?;
    let Some(clock) = clean::clock_after_mark(&bytes, seed, host) else {
        return Ok(false);
    };
    file.write_all_at(&clock, clean::CLOCK_AT).map_err(io)?;
    Ok(true)
}

/// A new file takes its name only when it is whole. The old one is given up first: a process that
/// has it open finds nothing in it from then on, and looks at the name again.
fn create(settings: &FileSettings, way: OpenWay, host: &Host) -> Result<OpenedFile, TierError> {
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
    let made = fill(&file, settings, way, host, &layout)
        .and_then(|header| give_up_old(&settings.path, way).map(|()| header))
        .and_then(|header| fs::rename(&unnamed, &settings.path).map(|()| header));
    match made {
        Ok(header) => Ok(OpenedFile::new(file, &header, layout)),
        Err(error) => {
            // What cannot be made may not stay behind and take up the space.
            let _ = fs::remove_file(&unnamed);
            let bytes = settings.bytes;
            if way == OpenWay::Mapped && is_full(&error) && bytes / 2 >= HALVED_BYTES_MIN {
                let smaller = FileSettings {
                    bytes: bytes / 2,
                    ..settings.clone()
                };
                return create(&smaller, way, host);
            }
            Err(failed(format!("{bytes} bytes cannot be made: {error}")))
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    let kinds = [
        ErrorKind::StorageFull,
        ErrorKind::QuotaExceeded,
        ErrorKind::FileTooLarge,
    ];
    kinds.contains(&error.kind())
}

/// A file that nothing has mapped is emptied, which is a miss for its readers. In one that is
/// mapped they would meet a signal, so a word of it says that it is over.
fn give_up_old(path: &Path, way: OpenWay) -> std::io::Result<()> {
    match place::open(path, way.other_writers()) {
        Ok(Some((file, _))) if way == OpenWay::Mapped => {
            file.write_all_at(&[1; 8], layout::OVER_AT)
        }
        Ok(Some((file, _))) => file.set_len(0),
        Ok(None) => Ok(()),
        Err(error) => Err(std::io::Error::other(error)),
    }
}

fn fill(
    file: &File,
    settings: &FileSettings,
    way: OpenWay,
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
        way: way as u32,
        boot_id: host.boot_id,
        seed: u64::from_le_bytes(seed),
        device: found.dev(),
        inode: found.ino(),
        bytes: settings.bytes,
        stripes: settings.stripes,
        codec: settings.codec,
    };
    for stripe in 0..settings.stripes {
        let at = layout.head_at(stripe);
        match way {
            OpenWay::Copying => {
                file.write_all_at(&layout::head_bytes(0, stripe, header.seed), at)?;
            }
            OpenWay::Mapped => {
                let head = layout::head_word(0, stripe, header.seed);
                file.write_all_at(&head.to_le_bytes(), at)?;
            }
        }
    }
    if way == OpenWay::Mapped {
        let clock = clean::clock_bytes(0, header.seed, host);
        file.write_all_at(&clock, clean::CLOCK_AT)?;
    }
    file.write_all_at(&header.to_bytes(), 0)?;
    Ok(header)
}
