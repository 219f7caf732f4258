//! Values on their way out of a table, read in place and built by Zend alone.
//!
//! A call of Zend may leave by a jump. No frame here has anything to be dropped when it calls.

use std::ffi::{c_char, c_int, c_void};
use std::slice;

use php_codec::{PhpBuilder, PhpBytes, PhpDecoder, PhpKey, PhpScalar, PhpWhole};
use tiers::{MappedHit, SharedBytes};

/// A longer value is copied and verified before anything is built of it: torn bytes may demand as
/// much memory as they have room for parts, and must not exhaust a `memory_limit`.
const IN_PLACE_BYTES: usize = 64 << 10;
/// As `TM_KEY_BYTES` of build.c: a longer key gets a string of its own.
const KEY_BYTES: usize = 64;

unsafe extern "C-unwind" {
    fn tm_build_drop(build: *mut c_void);
    fn tm_add_scalar(build: *mut c_void, kind: c_int, number: i64, fraction: f64) -> bool;
    fn tm_add_text(build: *mut c_void, length: usize) -> *mut c_char;
    fn tm_add_short_text(build: *mut c_void, bytes: *const c_char, length: usize) -> bool;
    fn tm_add_case(
        build: *mut c_void,
        class: *const c_char,
        class_length: usize,
        name: *const c_char,
        length: usize,
    ) -> bool;
    fn tm_add_begin(
        build: *mut c_void,
        kind: c_int,
        class: *const c_char,
        class_length: usize,
        count: usize,
    ) -> bool;
    fn tm_add_end(build: *mut c_void) -> bool;
    fn tm_add_same_object(build: *mut c_void, number: u64) -> bool;
    fn tm_add_same_reference(build: *mut c_void, number: u64) -> bool;
    fn tm_set_index(build: *mut c_void, index: i64);
    fn tm_set_key(build: *mut c_void, bytes: *const c_char, length: usize);
    fn tm_set_long_key(build: *mut c_void, length: usize) -> *mut c_char;
    fn tm_copy_room(build: *mut c_void, length: usize) -> *mut c_char;
}

/// Bytes that can be copied to where Zend has made room.
trait ZendBytes: PhpBytes {
    fn copy_to(&self, to: &mut [u8]);

    /// Where they are, if they stay as they are.
    fn lasting(&self) -> Option<&[u8]>;
}

impl ZendBytes for &[u8] {
    fn copy_to(&self, to: &mut [u8]) {
        to.copy_from_slice(self);
    }

    fn lasting(&self) -> Option<&[u8]> {
        Some(self)
    }
}

#[derive(Clone, Copy)]
struct InPlace<'a>(SharedBytes<'a>);

impl PhpBytes for InPlace<'_> {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.0.byte(at)
    }

    fn part(&self, at: usize, length: usize) -> Option<Self> {
        self.0.part(at, length).map(InPlace)
    }
}

impl ZendBytes for InPlace<'_> {
    fn copy_to(&self, to: &mut [u8]) {
        self.0.copy_to(to);
    }

    fn lasting(&self) -> Option<&[u8]> {
        None
    }
}

/// The `tm_build` of C.
#[derive(Clone, Copy)]
pub struct ZendBuild(*mut c_void);

impl ZendBuild {
    /// # Safety
    /// It must be one that has begun, and stay as long as this is used.
    pub unsafe fn new(build: *mut c_void) -> ZendBuild {
        ZendBuild(build)
    }

    /// Throws away what was built.
    pub fn drop_value(self) {
        // SAFETY: what `new` demands.
        unsafe { tm_build_drop(self.0) }
    }

    fn fill<S: ZendBytes>(room: *mut c_char, bytes: S) -> bool {
        if room.is_null() {
            return false;
        }
        // SAFETY: C has made room for so many bytes there, which nothing else has seen yet.
        let room = unsafe { slice::from_raw_parts_mut(room.cast::<u8>(), bytes.length()) };
        bytes.copy_to(room);
        true
    }

    fn scalar_of(self, scalar: PhpScalar) -> bool {
        let (kind, number, fraction) = match scalar {
            PhpScalar::Null => (0, 0, 0.0),
            PhpScalar::Bool(is_true) => (1, i64::from(is_true), 0.0),
            PhpScalar::Int(number) => (2, number, 0.0),
            PhpScalar::Float(number) => (3, 0, number),
        };
        // SAFETY: what `new` demands.
        unsafe { tm_add_scalar(self.0, kind, number, fraction) }
    }

    fn begin_of(self, kind: c_int, class: &[u8], count: usize) -> bool {
        let name = class.as_ptr().cast();
        // SAFETY: what `new` demands.
        unsafe { tm_add_begin(self.0, kind, name, class.len(), count) }
    }
}

impl<S: ZendBytes> PhpBuilder<S> for ZendBuild {
    fn scalar(&mut self, scalar: PhpScalar) -> bool {
        self.scalar_of(scalar)
    }

    fn text(&mut self, text: S) -> bool {
        let length = text.length();
        if length > 1 {
            // SAFETY: what `new` demands.
            return Self::fill(unsafe { tm_add_text(self.0, length) }, text);
        }
        let byte = [text.byte(0).unwrap_or(0)];
        // SAFETY: what `new` demands.
        unsafe { tm_add_short_text(self.0, byte.as_ptr().cast(), length) }
    }

    fn case(&mut self, class: S, name: S) -> bool {
        let (Some(class), Some(name)) = (class.lasting(), name.lasting()) else {
            return false;
        };
        let (class_at, name_at) = (class.as_ptr().cast(), name.as_ptr().cast());
        // SAFETY: what `new` demands.
        unsafe { tm_add_case(self.0, class_at, class.len(), name_at, name.len()) }
    }

    fn begin(&mut self, whole: PhpWhole<S>, count: usize) -> bool {
        match whole {
            PhpWhole::List => self.begin_of(0, &[], count),
            PhpWhole::Map => self.begin_of(1, &[], count),
            PhpWhole::Object(class) => class
                .lasting()
                .is_some_and(|class| self.begin_of(2, class, count)),
            PhpWhole::State(class) => class
                .lasting()
                .is_some_and(|class| self.begin_of(3, class, count)),
            PhpWhole::Reference => self.begin_of(4, &[], count),
        }
    }

    fn key(&mut self, key: PhpKey<S>) -> bool {
        let text = match key {
            PhpKey::Int(index) => {
                // SAFETY: what `new` demands.
                unsafe { tm_set_index(self.0, index) };
                return true;
            }
            PhpKey::Text(text) => text,
        };
        let length = text.length();
        if length > KEY_BYTES {
            // SAFETY: what `new` demands.
            return Self::fill(unsafe { tm_set_long_key(self.0, length) }, text);
        }
        let mut bytes = [0; KEY_BYTES];
        text.copy_to(&mut bytes[..length]);
        // SAFETY: what `new` demands.
        unsafe { tm_set_key(self.0, bytes.as_ptr().cast(), length) };
        true
    }

    fn end(&mut self) -> bool {
        // SAFETY: what `new` demands.
        unsafe { tm_add_end(self.0) }
    }

    fn same_reference(&mut self, number: u64) -> bool {
        // SAFETY: what `new` demands.
        unsafe { tm_add_same_reference(self.0, number) }
    }

    fn same_object(&mut self, number: u64) -> bool {
        // SAFETY: what `new` demands.
        unsafe { tm_add_same_object(self.0, number) }
    }
}

/// What became of a hit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReadEnd {
    /// The value is built.
    Built,
    /// Its bytes are right, and PHP has no such value: a class may have gone.
    Unreadable,
    /// It was overwritten meanwhile.
    Torn,
    /// Its reader has a defect.
    Panicked,
}

/// Builds the value of a hit.
pub fn read(hit: &MappedHit<'_>, mut build: ZendBuild) -> ReadEnd {
    let bytes = hit.bytes();
    let has_classes = PhpDecoder::has_classes(InPlace(bytes));
    if bytes.len() > IN_PLACE_BYTES || has_classes != Some(false) {
        return read_copy(hit, build);
    }
    let built = PhpDecoder::new(InPlace(bytes), false).build(&mut build);
    match (hit.is_whole(), built) {
        (false, _) => ReadEnd::Torn,
        (true, Ok(())) => ReadEnd::Built,
        (true, Err(_)) => ReadEnd::Unreadable,
    }
}

/// Of a copy that is known to be whole before anything is made of it.
fn read_copy(hit: &MappedHit<'_>, mut build: ZendBuild) -> ReadEnd {
    let bytes = InPlace(hit.bytes());
    // SAFETY: what `ZendBuild::new` demands.
    let room = unsafe { tm_copy_room(build.0, bytes.length()) };
    if !ZendBuild::fill(room, bytes) || !hit.is_whole() {
        return ReadEnd::Torn;
    }
    // SAFETY: filled above; it belongs to the build, which lets it go after the value is built.
    let copy = unsafe { slice::from_raw_parts(room.cast::<u8>(), bytes.length()) };
    match PhpDecoder::new(copy, true).build(&mut build) {
        Ok(()) => ReadEnd::Built,
        Err(_) => ReadEnd::Unreadable,
    }
}
