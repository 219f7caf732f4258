//! The values of a dict where they stand, in CPython 3.11.
//!
//! A copied dict gets a copy in the place of each container it holds. `PyDict_SetItem` looks for a
//! key that is known to be there, which is a third of what copying a small dict costs. The build
//! for 3.11 sees the dict's layout, which no later release of 3.11 changes
//! (`Include/internal/pycore_dict.h`); other builds call `PyDict_SetItem`.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;

use crate::object::{HeldObject, Outcome};

/// The head of `struct _dictkeysobject`. Its index follows, and then its entries.
#[repr(C)]
struct DictKeys {
    references: isize,
    log2_size: u8,
    log2_index_bytes: u8,
    kind: u8,
    version: u32,
    usable: isize,
    entries: isize,
}

/// `DICT_KEYS_GENERAL`, whose entries have their hash beside key and value.
const GENERAL: u8 = 0;

/// Whether the interpreter's dicts were found to be laid out so.
static IS_KNOWN: AtomicBool = AtomicBool::new(false);

unsafe fn keys<'a>(dict: *mut ffi::PyObject) -> &'a DictKeys {
    &*(*dict.cast::<ffi::PyDictObject>())
        .ma_keys
        .cast::<DictKeys>()
}

/// The places of the values of a dict, those of removed keys included, which hold null. `None`
/// where they stand elsewhere. Good until a key comes or goes.
#[inline]
pub unsafe fn places(
    dict: *mut ffi::PyObject,
) -> Option<impl Iterator<Item = *mut *mut ffi::PyObject>> {
    let is_split = !(*dict.cast::<ffi::PyDictObject>()).ma_values.is_null();
    if is_split || !IS_KNOWN.load(Ordering::Relaxed) {
        return None;
    }
    let keys = keys(dict);
    let index_bytes = 1_usize << keys.log2_index_bytes;
    let entries = (&raw const *keys).add(1).cast::<u8>().add(index_bytes);
    let entries = entries.cast_mut().cast::<*mut ffi::PyObject>();
    // Hash, key and value, or key and value.
    let words = if keys.kind == GENERAL { 3 } else { 2 };
    let first = entries.wrapping_offset(words - 1);
    Some((0..keys.entries).map(move |index| first.wrapping_offset(index * words)))
}

/// Looks whether values stand where they are looked for: an interpreter may be built otherwise.
pub unsafe fn look() -> Outcome<()> {
    let mut is_known = true;
    IS_KNOWN.store(is_known, Ordering::Relaxed);
    // The entries of texts alone are laid out otherwise than those of any keys.
    for number in [HeldObject::owned(ffi::PyLong_FromLong(7))?, text(c"c")?] {
        let dict = HeldObject::owned(ffi::PyDict_New())?;
        let keys = [text(c"a")?, number, text(c"b")?];
        let values = [ffi::Py_None(), ffi::Py_True(), ffi::Py_Ellipsis()];
        for (key, value) in keys.iter().zip(values) {
            ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value);
        }
        let is_split = !(*dict.as_ptr().cast::<ffi::PyDictObject>())
            .ma_values
            .is_null();
        is_known &= !is_split && self::keys(dict.as_ptr()).entries == 3;
        if is_known && let Some(places) = places(dict.as_ptr()) {
            let mut all = places.zip(&keys).zip(values);
            is_known =
                all.all(|((place, key), value)| *place == value && *place.sub(1) == key.as_ptr());
        }
        IS_KNOWN.store(is_known, Ordering::Relaxed);
    }
    Ok(())
}

unsafe fn text(text: &std::ffi::CStr) -> Outcome<HeldObject> {
    HeldObject::owned(ffi::PyUnicode_FromString(text.as_ptr()))
}
