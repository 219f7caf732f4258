//! Bytes of a file in memory that was not cleared before, which would be one of three passes over a
//! large record. The standard library has no stable call for it that reads at a position.
#![allow(unsafe_code)] // Such memory can be filled no other way.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;

use nix::libc;

/// So many bytes from this place of the file.
///
/// # Errors
/// `UnexpectedEof` if the file ends before; those of the system.
pub fn read_at(file: &File, length: usize, at: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let begin = libc::off_t::try_from(at + bytes.len() as u64).map_err(Error::other)?;
        let left = length - bytes.len();
        let room = bytes.spare_capacity_mut();
        assert!(left <= room.len());
        // SAFETY: the kernel writes no more than `left` bytes, for which there is room.
        let read = unsafe { libc::pread(file.as_raw_fd(), room.as_mut_ptr().cast(), left, begin) };
        match usize::try_from(read) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            // SAFETY: so many bytes after the last one were written.
            Ok(read) => unsafe { bytes.set_len(bytes.len() + read) },
            Err(_) => match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_are_those_of_the_file_and_all_that_were_asked_for() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..20_000_u32).map(|number| number as u8).collect();
        file.write_all(&content).unwrap();
        for (length, at) in [(0, 0), (0, 30_000), (1, 19_999), (20_000, 0), (9_000, 7)] {
            let wanted = content.iter().skip(at).take(length);
            let found = read_at(&file, length, at as u64).unwrap();
            assert!(found.iter().eq(wanted), "{length} at {at}");
        }
        for (length, at) in [(1, 20_000), (20_001, 0), (5, 19_996), (5, 1 << 40)] {
            let error = read_at(&file, length, at).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{length} at {at}");
        }
        assert!(read_at(&file, 1, u64::MAX - 1).is_err());
    }
}
