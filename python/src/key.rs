//! Which calls share an entry: those whose bound arguments have equal canonical encodings.
//!
//! Arguments of the plain types are the key as they stand. Any other argument is encoded into
//! bytes with a tag at every level; what has no encoding stands beside the bytes, compared by
//! exact type and `==`.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

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
#[derive(Clone)]
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

/// What the hashes of this process begin with, so that no caller can choose keys that
/// collide.
static FIRST: AtomicU64 = AtomicU64::new(SEED);

/// Draws what hashes begin with. Before the first of them.
pub fn draw_first() {
    FIRST.store(RandomState::new().hash_one(SEED), Ordering::Relaxed);
}

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

/// The hash of plain arguments, or `None` if one is not plain. No Python code runs.
#[inline(always)]
pub unsafe fn hash_if_plain(arguments: &[*mut ffi::PyObject]) -> Option<u64> {
    let mut hash = FIRST.load(Ordering::Relaxed);
    for argument in arguments {
        let kind = ffi::Py_TYPE(*argument);
        let own = if kind == &raw mut ffi::PyLong_Type {
            match api::one_digit(*argument) {
                Some(number) => number as u64,
                None => ffi::PyObject_Hash(*argument) as u64,
            }
        } else if kind == &raw mut ffi::PyUnicode_Type {
            api::hash_of_text(*argument) as u64
        } else {
            hash_of_other(*argument)?
        };
        hash = mixed(hash.rotate_left(23) ^ (kind as u64), own);
    }
    Some(hash)
}

/// Apart, so that the way of most arguments stays short.
#[inline(never)]
unsafe fn hash_of_other(argument: *mut ffi::PyObject) -> Option<u64> {
    if ffi::Py_TYPE(argument) == &raw mut ffi::PyFloat_Type {
        return Some(api::float_of(argument).to_bits());
    }
    is_plain(argument).then(|| ffi::PyObject_Hash(argument) as u64)
}

#[inline(always)]
unsafe fn plain_are_equal(a: *mut ffi::PyObject, b: *mut ffi::PyObject) -> bool {
    a == b || others_are_equal(a, b)
}

/// As above, of two objects.
#[inline(never)]
unsafe fn others_are_equal(a: *mut ffi::PyObject, b: *mut ffi::PyObject) -> bool {
    let kind = ffi::Py_TYPE(a);
    if kind != ffi::Py_TYPE(b) {
        return false;
    }
    if kind == &raw mut ffi::PyFloat_Type {
        return api::float_of(a).to_bits() == api::float_of(b).to_bits();
    }
    if kind == &raw mut ffi::PyLong_Type
        && let (Some(a), Some(b)) = (api::one_digit(a), api::one_digit(b))
    {
        return a == b;
    }
    ffi::PyObject_RichCompareBool(a, b, ffi::Py_EQ) == 1
}

impl LookupKey<'_> {
    /// The hash. Runs the `__hash__` of objects without an encoding.
    #[inline]
    pub unsafe fn hash(&self) -> Outcome<u64> {
        match self {
            LookupKey::Plain(arguments) => {
                Ok(hash_if_plain(arguments).expect("plain arguments have a hash"))
            }
            LookupKey::Built(key) => key.hash(),
        }
    }

    /// Whether comparing may run Python code, after which the table may have changed.
    #[inline]
    pub fn runs_python(&self) -> bool {
        matches!(self, LookupKey::Built(key) if !key.opaque.is_empty())
    }

    /// Whether the entry is the wanted one.
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
    /// Whether it is the key of these plain arguments, found without giving up a lock: where the
    /// interpreter has none, `false` for all but the same objects.
    #[inline(always)]
    pub unsafe fn is_of_plain(&self, arguments: &[*mut ffi::PyObject]) -> bool {
        let are_equal = |a: *mut ffi::PyObject, b: &HeldObject| match cfg!(Py_GIL_DISABLED) {
            true => a == b.as_ptr(),
            false => plain_are_equal(a, b.as_ptr()),
        };
        match self {
            HeldKey::One(one) => arguments.len() == 1 && are_equal(arguments[0], one),
            HeldKey::Several(several) => {
                let mut pairs = arguments.iter().zip(several.iter());
                arguments.len() == several.len() && pairs.all(|(a, b)| are_equal(*a, b))
            }
            HeldKey::Built(_) => false,
        }
    }

    /// Shows every object held, to the collector.
    pub fn visit(&self, show: &mut dyn FnMut(&HeldObject)) {
        match self {
            HeldKey::One(one) => show(one),
            HeldKey::Several(several) => several.iter().for_each(show),
            HeldKey::Built(key) => key.opaque.iter().for_each(show),
        }
    }

    /// The same key, to be looked up: `use_it` gets it with its arguments borrowed.
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
