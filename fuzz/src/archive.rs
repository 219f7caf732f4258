//! Any bytes as the archive of a deployment, as they are and as a tar file that is compressed:
//! unpacked inside its folder and within its bounds, or refused. What was unpacked is the same
//! after it was packed and unpacked again.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use functions::archive::{ArchiveBounds, unpack};
use functions::pack::pack;

const BOUNDS: ArchiveBounds = ArchiveBounds {
    bytes_max: 3_000,
    entries_max: 6,
    path_bytes_max: 150,
    ratio_max: 200,
};
/// Folders above an entry are made besides.
const AGAIN: ArchiveBounds = ArchiveBounds {
    entries_max: 1_000,
    ..BOUNDS
};

pub fn check(bytes: &[u8]) {
    look(bytes);
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(bytes).expect("memory takes it");
    look(&compressed.finish().expect("memory takes it"));
}

fn look(packed: &[u8]) {
    let outside = tempfile::tempdir().expect("a folder can be made");
    let folder = outside.path().join("in");
    fs::create_dir(&folder).expect("a folder can be made");
    let unpacked = unpack(packed, &folder, BOUNDS);
    // What is refused in the middle is inside as well.
    let found = tree(&folder);
    let beside = fs::read_dir(outside.path()).expect("it is ours").count();
    assert_eq!(beside, 1, "something lies outside");
    let Ok(totals) = unpacked else { return };
    let bytes: usize = found.iter().map(Found::bytes).sum();
    assert_eq!(bytes as u64, totals.bytes);
    assert!(totals.bytes <= BOUNDS.bytes_max && totals.entries <= BOUNDS.entries_max);
    let mut again = Vec::new();
    let packed = pack(&folder, &mut again, AGAIN).expect("what was unpacked is packed");
    assert_eq!(packed.left_out, 0, "{found:?}");
    let second = outside.path().join("again");
    fs::create_dir(&second).expect("a folder can be made");
    unpack(&again[..], &second, AGAIN).expect("what was packed is unpacked");
    assert_eq!(tree(&second), found);
}

/// An entry of a folder, by its path.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Folder(PathBuf),
    File(PathBuf, u32, Vec<u8>),
    Link(PathBuf, PathBuf),
}

impl Found {
    fn bytes(&self) -> usize {
        match self {
            Found::File(_, _, content) => content.len(),
            Found::Folder(_) | Found::Link(..) => 0,
        }
    }
}

/// All entries in the order of their paths. Nothing but files, folders and links that stay inside.
fn tree(root: &Path) -> Vec<Found> {
    let real = fs::canonicalize(root).expect("it is there");
    let (mut found, mut waiting) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = waiting.pop() {
        let entries = fs::read_dir(&folder).expect("it can be read");
        let mut places: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        places.sort();
        for place in places {
            let status = fs::symlink_metadata(&place).expect("it is there");
            let path = place.strip_prefix(root).expect("it is below").to_owned();
            if status.is_symlink() {
                if let Ok(leads) = fs::canonicalize(&place) {
                    assert!(
                        leads.starts_with(&real),
                        "{} leads to {}",
                        path.display(),
                        leads.display()
                    );
                }
                let target = fs::read_link(&place).expect("it is a link");
                found.push(Found::Link(path, target));
                continue;
            }
            let mode = status.mode() & 0o7777;
            if status.is_dir() {
                assert_eq!(mode, 0o755, "{}", path.display());
                waiting.push(place);
                found.push(Found::Folder(path));
            } else {
                assert!(
                    status.is_file() && [0o644, 0o755].contains(&mode),
                    "{}",
                    path.display()
                );
                let content = fs::read(&place).expect("it can be read");
                found.push(Found::File(path, mode, content));
            }
        }
    }
    found
}
