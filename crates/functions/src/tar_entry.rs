//! Entries of the tar files that are written here: without owner and time, so that the same content
//! becomes the same bytes.

use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

/// Appends a folder.
pub fn append_folder(builder: &mut Builder<impl Write>, path: &Path) -> io::Result<()> {
    let mut header = header(EntryType::Directory, 0o755, 0);
    builder.append_data(&mut header, path, io::empty())
}

/// Appends a link to `target`.
pub fn append_link(
    builder: &mut Builder<impl Write>,
    path: &Path,
    target: &Path,
) -> io::Result<()> {
    let mut header = header(EntryType::Symlink, 0o777, 0);
    builder.append_link(&mut header, path, target)
}

/// Appends a file with so many bytes of `content`, which must have them.
pub fn append_file(
    builder: &mut Builder<impl Write>,
    path: &Path,
    (is_executable, bytes): (bool, u64),
    content: impl Read,
) -> io::Result<()> {
    let mode = if is_executable { 0o755 } else { 0o644 };
    let mut header = header(EntryType::Regular, mode, bytes);
    builder.append_data(&mut header, path, content)
}

fn header(kind: EntryType, mode: u32, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_size(bytes);
    header
}
