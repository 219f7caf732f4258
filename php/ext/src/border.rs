//! What C and Rust give to each other.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// # Safety
/// So many bytes must be there.
pub unsafe fn bytes_at<'a>(bytes: *const c_char, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    slice::from_raw_parts(bytes.cast(), length)
}

/// What `act` answers, and `otherwise` where it panics: a defect of ours may not end the worker.
///
/// PHP may leave `act` by a jump, over this frame too: nothing in it has anything to be dropped.
pub fn caught<T: Copy>(otherwise: T, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(otherwise)
}

/// What a call says to C; `enum tm_said` of module.c.
pub mod said {
    use std::ffi::c_int;

    /// The table cannot be used.
    pub const FAULT: c_int = -4;
    /// The value has no bytes, or too many.
    pub const UNFIT: c_int = -3;
    /// A lock was not to be had in time, or the disk refused: nothing is known of the key.
    pub const BUSY: c_int = -2;
    /// The key was deleted since the request missed it.
    pub const OVERTAKEN: c_int = -1;
    pub const NO: c_int = 0;
    pub const YES: c_int = 1;
}
