//! What C and Rust give to each other.

use std::ffi::c_char;
use std::slice;

/// # Safety
/// So many bytes must be there.
pub unsafe fn bytes_at<'a>(bytes: *const c_char, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    slice::from_raw_parts(bytes.cast(), length)
}

/// What a call says to C; `enum tm_said` of module.c.
pub mod said {
    use std::ffi::c_int;

    pub const FAULT: c_int = -2;
    pub const OVERTAKEN: c_int = -1;
    pub const NO: c_int = 0;
    pub const YES: c_int = 1;
}
