//! The buffers in which values become bytes.

use php_codec::{PhpEncoder, PhpRefusal};

use crate::border::caught;

/// What a buffer may keep from one request to the next.
const KEPT_BYTES: usize = 1 << 20;

/// A buffer of the thread, and the encoder that writes to it. C holds its address while classes run
/// what they say, and a jump may leave it in any state: it begins again.
pub struct Encoding {
    bytes: Vec<u8>,
    /// Borrows `bytes`, and ends before those are used.
    encoder: Option<PhpEncoder<'static>>,
}

impl Encoding {
    pub const fn new() -> Encoding {
        Encoding {
            bytes: Vec::new(),
            encoder: None,
        }
    }

    /// Begins a value, whatever was left of another one.
    pub fn begin(&mut self) {
        self.encoder = None;
        let bytes: *mut Vec<u8> = &mut self.bytes;
        // SAFETY: the encoder is dropped before `bytes` is used or dropped, and an encoding is
        // never moved: it lies in the worker.
        self.encoder = Some(PhpEncoder::new(unsafe { &mut *bytes }));
    }

    /// The bytes of the value, which must be finished.
    pub fn finished(&self) -> &[u8] {
        debug_assert!(self.encoder.is_none());
        &self.bytes
    }

    /// Writes no more.
    pub fn end(&mut self) {
        self.encoder = None;
    }

    /// Ends the value; false if parts are missing.
    pub fn finish(&mut self) -> bool {
        let encoder = self.encoder.take();
        caught(false, || {
            encoder.is_some_and(|encoder| encoder.finish().is_ok())
        })
    }

    /// Gives up what a long value took.
    pub fn shrink(&mut self) {
        self.encoder = None;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Writes a part; false where it has no bytes.
    pub fn put(&mut self, put: impl FnOnce(&mut PhpEncoder<'_>) -> Result<(), PhpRefusal>) -> bool {
        let encoder = self.encoder.as_mut();
        caught(false, || {
            encoder.is_some_and(|encoder| put(encoder).is_ok())
        })
    }
}
