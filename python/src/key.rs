//! Which calls share an entry: those whose bound arguments have equal canonical encodings.
//!
//! Arguments of the plain types are the key as they stand. Any other argument is encoded into
//! bytes with a tag at every level; what has no encoding stands beside the bytes, compared by
//! exact type and `==`.

use pyo3::ffi;

use crate::api;
use crate::object::{HeldObject, Outcome, Raised};

/// What a key is made from, borrowed for the length of a call.
pub enum LookupKey<'a> {
    /// Arguments that are all of plain types.
    Plain(&'a [*mut ffi::PyObject]),
    /// Anything else.
    Built(Box<BuiltKey>),
}

/// A key that an entry holds.
pub enum HeldKey {
    /// One plain argument, which most functions have.
    One(HeldObject),
    /// Plain arguments.
    #[expect(
        clippy::box_collection,
        reason = "one pointer: every entry pays for the largest"
    )]
    Several(Box<Vec<HeldObject>>),
    /// Bytes, and what has no bytes.
    Built(Box<BuiltKey>),
}

/// The canonical bytes, and in order the objects that have none.
#[derive(Clone, Default)]
pub struct BuiltKey {
    /// With one tag for each object in `opaque`, at its place.
    pub bytes: Vec<u8>,
    /// Compared by exact type and `==`; classes by identity.
    pub opaque: Vec<HeldObject>,
    /// How many of them are classes, which the bytes name as well.
    pub classes: usize,
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether the native comparison stands in for the encoding.
#[inline]
pub unsafe fn is_plain(object: *mut ffi::PyObject) -> bool {
    let kind = ffi::Py_TYPE(object);
    kind == &raw mut ffi::PyLong_Type
        || kind == &raw mut ffi::PyUnicode_Type
        || object == ffi::Py_None()
        || kind == &raw mut ffi::PyBool_Type
        || kind == &raw mut ffi::PyFloat_Type
        || kind == &raw mut ffi::PyBytes_Type
}

#[inline]
fn mixed(hash: u64, with: u64) -> u64 {
    // The multiplication and the fold of wyhash: every bit of both counts.
    let wide = u128::from(hash ^ with) * u128::from(SEED | 1);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// The hash of plain arguments. No Python code runs.
#[inline]
pub unsafe fn hash_plain(arguments: &[*mut ffi::PyObject]) -> u64 {
    let mut hash = SEED;
    for argument in arguments {
        let kind = ffi::Py_TYPE(*argument);
        let own = if kind == &raw mut ffi::PyFloat_Type {
            api::float_of(*argument).to_bits()
        } else {
            ffi::PyObject_Hash(*argument) as u64
        };
        hash = mixed(hash.rotate_left(23) ^ (kind as u64), own);
    }
    hash
}

#[inline]
unsafe fn plain_are_equal(a: *mut ffi::PyObject, b: *mut ffi::PyObject) -> bool {
    if a == b {
        return true;
    }
    let kind = ffi::Py_TYPE(a);
    if kind != ffi::Py_TYPE(b) {
        return false;
    }
    if kind == &raw mut ffi::PyFloat_Type {
        return api::float_of(a).to_bits() == api::float_of(b).to_bits();
    }
    ffi::PyObject_RichCompareBool(a, b, ffi::Py_EQ) == 1
}

impl LookupKey<'_> {
    /// The hash. FlightRuns the `__hash__` of objects without an encoding.
    #[inline]
    pub unsafe fn hash(&self) -> Outcome<u64> {
        match self {
            LookupKey::Plain(arguments) => Ok(hash_plain(arguments)),
            LookupKey::Built(key) => key.hash(),
        }
    }

    /// Whether comparing may run Python code, after which the table may have changed.
    #[inline]
    pub fn runs_python(&self) -> bool {
        matches!(self, LookupKey::Built(key) if !key.opaque.is_empty())
    }

    /// Whether the entry is the one asked for.
    #[inline]
    pub unsafe fn equals(&self, held: &HeldKey) -> Outcome<bool> {
        match (self, held) {
            (LookupKey::Plain([lookup]), HeldKey::One(held)) => {
                Ok(plain_are_equal(*lookup, held.as_ptr()))
            }
            (LookupKey::Plain(lookup), HeldKey::Several(held)) => {
                let mut pairs = lookup.iter().zip(held.iter());
                Ok(lookup.len() == held.len()
                    && pairs.all(|(lookup, held)| plain_are_equal(*lookup, held.as_ptr())))
            }
            (LookupKey::Built(lookup), HeldKey::Built(held)) => lookup.equals(held),
            _ => Ok(false),
        }
    }

    /// The key for an entry.
    pub unsafe fn held(&self) -> HeldKey {
        match self {
            LookupKey::Plain([one]) => HeldKey::One(HeldObject::borrowed(*one)),
            LookupKey::Plain(several) => {
                let several = several.iter().map(|one| HeldObject::borrowed(*one));
                HeldKey::Several(Box::new(several.collect()))
            }
            LookupKey::Built(key) => HeldKey::Built(key.clone()),
        }
    }
}

impl HeldKey {
    /// Shows every object held, to the collector.
    pub fn visit(&self, show: &mut dyn FnMut(&HeldObject)) {
        match self {
            HeldKey::One(one) => show(one),
            HeldKey::Several(several) => several.iter().for_each(show),
            HeldKey::Built(key) => key.opaque.iter().for_each(show),
        }
    }

    /// The same key, asked for again: `use_it` gets it with its arguments borrowed.
    pub unsafe fn with_lookup<R>(&self, use_it: impl FnOnce(&LookupKey<'_>) -> R) -> R {
        match self {
            HeldKey::One(one) => use_it(&LookupKey::Plain(&[one.as_ptr()])),
            HeldKey::Several(several) => {
                let several: Vec<_> = several.iter().map(HeldObject::as_ptr).collect();
                use_it(&LookupKey::Plain(&several))
            }
            HeldKey::Built(key) => use_it(&LookupKey::Built(key.clone())),
        }
    }
}

impl BuiltKey {
    unsafe fn hash(&self) -> Outcome<u64> {
        let mut hash = cache::fingerprint(SEED, &self.bytes) as u64;
        for object in &self.opaque {
            let own = ffi::PyObject_Hash(object.as_ptr());
            if own == -1 {
                return Err(Raised);
            }
            hash = mixed(hash.rotate_left(23), own as u64);
        }
        Ok(hash)
    }

    unsafe fn equals(&self, held: &BuiltKey) -> Outcome<bool> {
        if self.bytes != held.bytes || self.opaque.len() != held.opaque.len() {
            return Ok(false);
        }
        for (lookup, held) in self.opaque.iter().zip(&held.opaque) {
            let (lookup, held) = (lookup.as_ptr(), held.as_ptr());
            if lookup == held {
                continue;
            }
            if ffi::Py_TYPE(lookup) != ffi::Py_TYPE(held) {
                return Ok(false);
            }
            match ffi::PyObject_RichCompareBool(lookup, held, ffi::Py_EQ) {
                1 => {}
                0 => return Ok(false),
                _ => return Err(Raised),
            }
        }
        Ok(true)
    }
}
