//! A shared map of a cache file: words that are atomic, and bytes that may change while they are
//! read.
//!
//! No slice of the map exists: another process may write any byte at any time. Everything is read
//! by atomic loads.
#![allow(unsafe_code)] // A map is made and read here, and nowhere else.

use std::fs::File;
use std::io::{Error, Result};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use nix::libc;

use super::sigbus::MapWatch;

const WORD: usize = 8;

/// A file mapped from its first byte, to be read and written by all processes that map it.
pub struct FileMap {
    start: NonNull<u8>,
    bytes: usize,
    watch: Option<MapWatch>,
}

// SAFETY: the memory belongs to no thread, and all access to it is atomic.
unsafe impl Send for FileMap {}

impl FileMap {
    /// Maps a file of so many bytes. A shorter one raises no signal here, but reads as zeros.
    ///
    /// # Errors
    /// When the kernel refuses, or when this process has too many maps already.
    pub fn new(file: &File, bytes: u64) -> Result<FileMap> {
        let bytes = usize::try_from(bytes).map_err(Error::other)?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new map at an address that the kernel chooses touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                rights,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(Error::other("the file was mapped at address 0"));
        };
        match MapWatch::new(start.as_ptr().addr(), bytes) {
            Ok(watch) => Ok(FileMap {
                start,
                bytes,
                watch: Some(watch),
            }),
            Err(error) => {
                // SAFETY: made above, and nothing refers to it.
                unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
                Err(error)
            }
        }
    }

    /// Whether a page was missing when it was used, so that nothing read or written since counts.
    pub fn is_lost(&self) -> bool {
        self.watch.as_ref().is_some_and(MapWatch::is_lost)
    }

    /// The word at `at`, as bytes in their order in the file.
    ///
    /// # Panics
    /// When `at` is no multiple of 8, or the word is not inside the map.
    pub fn word(&self, at: u64) -> &AtomicU64 {
        let at = usize::try_from(at).expect("a place in the map");
        assert!(at.is_multiple_of(WORD) && at + WORD <= self.bytes);
        // SAFETY: inside the map, aligned, and all access to it is atomic.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// So many words from `at`, as bytes in their order in the file.
    ///
    /// # Panics
    /// When `at` is no multiple of 8, or they are not inside the map.
    pub fn words<const COUNT: usize>(&self, at: u64) -> &[AtomicU64; COUNT] {
        let at = usize::try_from(at).expect("a place in the map");
        assert!(at.is_multiple_of(WORD) && at <= self.bytes && COUNT * WORD <= self.bytes - at);
        // SAFETY: inside the map, aligned, and all access to it is atomic.
        unsafe { &*self.start.as_ptr().add(at).cast() }
    }

    /// So many bytes from `at`.
    ///
    /// # Panics
    /// When they are not inside the map.
    pub fn bytes(&self, at: u64, length: usize) -> SharedBytes<'_> {
        let at = usize::try_from(at).expect("a place in the map");
        assert!(at <= self.bytes && length <= self.bytes - at);
        SharedBytes {
            // SAFETY: inside the map.
            start: unsafe { self.start.as_ptr().add(at) },
            length,
            map: PhantomData,
        }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // First, since the addresses may soon be those of something else.
        self.watch = None;
        // SAFETY: nothing can refer to it any more; what does so borrows `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of a map, which other processes may change at any time.
///
/// What decides about a later read must be read once and kept: a second read may give another
/// value.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    start: *const u8,
    length: usize,
    map: PhantomData<&'a FileMap>,
}

impl<'a> SharedBytes<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// So many bytes from `at`; `None` if they do not lie inside these.
    pub fn part(&self, at: usize, length: usize) -> Option<SharedBytes<'a>> {
        (at <= self.length && length <= self.length - at).then(|| SharedBytes {
            // SAFETY: inside these bytes.
            start: unsafe { self.start.add(at) },
            length,
            map: PhantomData,
        })
    }

    /// The byte at `at`.
    pub fn byte(&self, at: usize) -> Option<u8> {
        (at < self.length).then(|| self.load(at))
    }

    /// The number of 8 bytes from `at`, the lowest first.
    pub fn number(&self, at: usize) -> Option<u64> {
        let mut bytes = [0; WORD];
        self.part(at, WORD)?.copy_to(&mut bytes);
        Some(u64::from_le_bytes(bytes))
    }

    /// Copies them.
    ///
    /// # Panics
    /// When `to` has another length.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.length);
        // Words of the map are read where they are aligned, and bytes before and after them.
        let before = self.start.align_offset(WORD).min(self.length);
        let (first, rest) = to.split_at_mut(before);
        self.copy_bytes(0, first);
        let (words, last) = rest.as_chunks_mut::<WORD>();
        // SAFETY: aligned, and inside these bytes because `to` is as long.
        unsafe { copy_words(self.start.add(before), words) };
        let after = self.length - last.len();
        self.copy_bytes(after, last);
    }

    /// A copy of them.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.copy_to(&mut bytes);
        bytes
    }

    /// Whether they are these, as far as one look at each can tell.
    pub fn equals(&self, other: &[u8]) -> bool {
        let mut copy = [0; 64];
        other.len() == self.length
            && other.chunks(copy.len()).enumerate().all(|(index, chunk)| {
                let copy = &mut copy[..chunk.len()];
                let part = self.part(index * 64, chunk.len());
                part.is_some_and(|part| {
                    part.copy_to(copy);
                    copy == chunk
                })
            })
    }

    fn copy_bytes(&self, from: usize, to: &mut [u8]) {
        for (index, byte) in to.iter_mut().enumerate() {
            *byte = self.load(from + index);
        }
    }

    fn load(&self, at: usize) -> u8 {
        debug_assert!(at < self.length);
        // SAFETY: inside these bytes, as every caller has checked; all access is atomic.
        let byte = unsafe { AtomicU8::from_ptr(self.start.add(at).cast_mut()) };
        byte.load(Ordering::Relaxed)
    }
}

/// Up to so many words are loaded one by one: to begin a copy by the processor takes as long.
#[cfg(target_arch = "x86_64")]
const FEW_WORDS: usize = 32;

/// # Safety
/// So many words must be there, aligned, and all access to them atomic.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_words(from: *const u8, to: &mut [[u8; WORD]]) {
    if to.len() <= FEW_WORDS {
        // SAFETY: as the caller has promised.
        return unsafe { copy_each_word(from, to) };
    }
    // In assembler, because a plain copy of Rust's may not meet a writer, and atomic loads are
    // never joined to larger ones.
    // SAFETY: reads what the caller has promised, and writes `to` alone.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") to.len() => _,
            inout("rsi") from => _,
            inout("rdi") to.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// So many words must be there, aligned, and all access to them atomic.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_words(from: *const u8, to: &mut [[u8; WORD]]) {
    // SAFETY: as the caller has promised.
    unsafe { copy_each_word(from, to) }
}

/// # Safety
/// So many words must be there, aligned, and all access to them atomic.
unsafe fn copy_each_word(from: *const u8, to: &mut [[u8; WORD]]) {
    for (index, word) in to.iter_mut().enumerate() {
        // SAFETY: inside what the caller has promised.
        let loaded = unsafe { AtomicU64::from_ptr(from.add(index * WORD).cast_mut().cast()) };
        *word = loaded.load(Ordering::Relaxed).to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_map_read_alike_from_every_place() {
        let file = tempfile::tempfile().unwrap();
        let all: Vec<u8> = (0..8_192_u32).map(|at| (at * 7 % 251) as u8).collect();
        std::os::unix::fs::FileExt::write_all_at(&file, &all, 0).unwrap();
        let map = FileMap::new(&file, 8_192).unwrap();
        for at in (0..40).chain([4_090, 8_100]) {
            for length in (0..90).chain([255, 264, 265, 600, 4_001]) {
                if at + length > 8_191 {
                    continue;
                }
                let bytes = map.bytes(at as u64, length);
                assert_eq!(bytes.to_vec(), all[at..at + length]);
                assert!(bytes.equals(&all[at..at + length]));
                assert!(
                    !bytes.equals(&all[at + 1..=at + length]) || length == 0,
                    "{length}"
                );
                assert_eq!(bytes.byte(length), None);
                assert!(bytes.part(1, length).is_none());
                assert_eq!(bytes.number(0).is_some(), length >= WORD);
            }
        }
        map.word(16)
            .store(u64::from_le_bytes([9; 8]), Ordering::Relaxed);
        assert_eq!(map.bytes(16, 8).to_vec(), [9; 8]);
        assert!(!map.is_lost());
    }
}
