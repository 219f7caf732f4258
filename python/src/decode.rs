//! Bytes of a tier as values. Whatever the bytes are, this ends soon: nesting is bounded, and no
//! count is believed that the bytes left could not hold.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::api;
use crate::object::{HeldObject, Outcome, Raised};
use crate::python;
use crate::value_bytes::{DAMAGED, DEPTH_MAX, tag};

/// The value that `bytes` stand for; objects are made by `codec.restore(name, parts)`.
///
/// # Errors
/// A `ValueError` if the bytes are no value, or what `restore` raises.
pub fn decode<'py>(bytes: &[u8], codec: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = ValueReader {
        bytes,
        owed: 0,
        codec,
        texts: None,
    };
    // This thread is attached: it has the codec.
    unsafe {
        match reader.whole() {
            Ok(value) => Ok(Bound::from_owned_ptr(codec.py(), value.into_ptr())),
            Err(Raised) => Err(PyErr::fetch(codec.py())),
        }
    }
}

fn damaged(text: &str) -> Raised {
    python::raise_value(&format!("{DAMAGED}{text}"))
}

/// Sets a PyO3 error.
fn raised(error: PyErr, py: Python<'_>) -> Raised {
    error.restore(py);
    Raised
}

struct ValueReader<'a, 'py> {
    /// Those not read yet.
    bytes: &'a [u8],
    /// Values that the containers around still have to get, of at least one byte each.
    owed: usize,
    codec: &'a Bound<'py, PyAny>,
    /// Inside a container in another, where records have the same names again and again.
    texts: Option<Box<RecentTexts<'a>>>,
}

/// Containers in others, from which on short texts are looked up among the recent ones.
const REPEATED_FROM_DEPTH: usize = 2;

impl<'a> ValueReader<'a, '_> {
    unsafe fn whole(&mut self) -> Outcome<HeldObject> {
        let value = self.read(0)?;
        match self.bytes {
            [] => Ok(value),
            _ => Err(damaged("bytes follow it")),
        }
    }

    unsafe fn read(&mut self, depth: usize) -> Outcome<HeldObject> {
        if depth > DEPTH_MAX {
            return Err(damaged("nested too deep"));
        }
        match self.byte()? {
            tag::TEXT => self.text(depth),
            tag::INTEGER => {
                let zigzag = self.number()?;
                let number = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                HeldObject::owned(ffi::PyLong_FromLongLong(number))
            }
            tag::DICT => self.dict(depth),
            tag::LIST => self.list(depth),
            tag::FLOAT => {
                let (bits, rest) = self
                    .bytes
                    .split_first_chunk()
                    .ok_or_else(|| damaged("short"))?;
                self.bytes = rest;
                HeldObject::owned(ffi::PyFloat_FromDouble(f64::from_le_bytes(*bits)))
            }
            tag::NONE => Ok(HeldObject::borrowed(ffi::Py_None())),
            tag::TRUE => Ok(HeldObject::borrowed(ffi::Py_True())),
            tag::FALSE => Ok(HeldObject::borrowed(ffi::Py_False())),
            tag::TUPLE => self.tuple(depth),
            tag::BYTES => {
                let run = self.run()?;
                let length = run.len() as isize;
                HeldObject::owned(ffi::PyBytes_FromStringAndSize(run.as_ptr().cast(), length))
            }
            tag::BYTE_ARRAY => {
                let run = self.run()?;
                let length = run.len() as isize;
                HeldObject::owned(ffi::PyByteArray_FromStringAndSize(
                    run.as_ptr().cast(),
                    length,
                ))
            }
            tag::SET => {
                let items = self.list(depth)?;
                HeldObject::owned(ffi::PySet_New(items.as_ptr()))
            }
            tag::FROZEN_SET => {
                let items = self.list(depth)?;
                HeldObject::owned(ffi::PyFrozenSet_New(items.as_ptr()))
            }
            tag::SURROGATES => decoded_text(self.run()?, c"surrogatepass".as_ptr()),
            tag::LONG => self.long(),
            tag::OBJECT => self.object(depth),
            _ => Err(damaged("an unknown type")),
        }
    }

    fn byte(&mut self) -> Outcome<u8> {
        let (byte, rest) = self.bytes.split_first().ok_or_else(|| damaged("short"))?;
        self.bytes = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> Outcome<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(damaged("a number above 64 bits"))
    }

    fn run(&mut self) -> Outcome<&'a [u8]> {
        let count = self.number()?;
        if count > self.bytes.len() as u64 {
            return Err(damaged("short"));
        }
        let (run, rest) = self.bytes.split_at(count as usize);
        self.bytes = rest;
        Ok(run)
    }

    /// A count of things that consist of so many values. All that is promised at once has bytes
    /// of its own, or nested containers could together claim far more memory than there is.
    fn count(&mut self, values_each: usize) -> Outcome<usize> {
        let count = self.number()?;
        let left = self.bytes.len().saturating_sub(self.owed);
        if count > (left / values_each) as u64 {
            return Err(damaged("short"));
        }
        self.owed += count as usize * values_each;
        Ok(count as usize)
    }

    /// The next of the values that a container has counted.
    unsafe fn item(&mut self, depth: usize) -> Outcome<HeldObject> {
        self.owed -= 1;
        self.read(depth + 1)
    }

    unsafe fn text(&mut self, depth: usize) -> Outcome<HeldObject> {
        let run = self.run()?;
        if depth < REPEATED_FROM_DEPTH || run.len() > RECENT_BYTES_MAX {
            return decoded_text(run, ptr::null());
        }
        let texts = self.texts.get_or_insert_default();
        texts.get(run)
    }

    unsafe fn list(&mut self, depth: usize) -> Outcome<HeldObject> {
        let count = self.count(1)?;
        let list = HeldObject::owned(ffi::PyList_New(count as isize))?;
        // Code that runs meanwhile must not find it through the collector: it has places without
        // an object.
        ffi::PyObject_GC_UnTrack(list.as_ptr().cast());
        for index in 0..count {
            let item = self.item(depth)?;
            api::fill_list(list.as_ptr(), index as isize, item);
        }
        ffi::PyObject_GC_Track(list.as_ptr().cast());
        Ok(list)
    }

    unsafe fn tuple(&mut self, depth: usize) -> Outcome<HeldObject> {
        let count = self.count(1)?;
        let tuple = HeldObject::owned(ffi::PyTuple_New(count as isize))?;
        if count == 0 {
            return Ok(tuple);
        }
        ffi::PyObject_GC_UnTrack(tuple.as_ptr().cast());
        for index in 0..count {
            let item = self.item(depth)?;
            api::fill_tuple(tuple.as_ptr(), index as isize, item);
        }
        ffi::PyObject_GC_Track(tuple.as_ptr().cast());
        Ok(tuple)
    }

    unsafe fn dict(&mut self, depth: usize) -> Outcome<HeldObject> {
        let count = self.count(2)?;
        let dict = HeldObject::owned(ffi::PyDict_New())?;
        for _ in 0..count {
            let key = self.item(depth)?;
            let value = self.item(depth)?;
            if ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        Ok(dict)
    }

    unsafe fn long(&mut self) -> Outcome<HeldObject> {
        let py = self.codec.py();
        let text = str::from_utf8(self.run()?).map_err(|_| damaged("digits that are none"))?;
        let number = py.get_type::<PyInt>().call1((text, 16));
        let number = number.map_err(|error| raised(error, py))?;
        HeldObject::owned(number.into_ptr())
    }

    unsafe fn object(&mut self, depth: usize) -> Outcome<HeldObject> {
        let py = self.codec.py();
        let name = decoded_text(self.run()?, ptr::null())?;
        let parts = self.read(depth + 1)?;
        let name = Bound::from_owned_ptr(py, name.into_ptr()).cast_into_unchecked::<PyString>();
        let parts = Bound::from_owned_ptr(py, parts.into_ptr());
        let made = self.codec.call_method1("restore", (name, parts));
        HeldObject::owned(made.map_err(|error| raised(error, py))?.into_ptr())
    }
}

/// A `ValueError` if this is no UTF-8.
unsafe fn decoded_text(run: &[u8], errors: *const std::ffi::c_char) -> Outcome<HeldObject> {
    let (start, length) = (run.as_ptr().cast(), run.len() as isize);
    HeldObject::owned(ffi::PyUnicode_DecodeUTF8(start, length, errors))
}

/// Longer texts are seldom names.
const RECENT_BYTES_MAX: usize = 32;
const RECENT_TEXTS: usize = 64;

/// Short texts that were made lately. One that comes again is the same object, whose hash is
/// known: names in records of one kind are made once.
struct RecentTexts<'a>([Option<(&'a [u8], HeldObject)>; RECENT_TEXTS]);

impl Default for RecentTexts<'_> {
    fn default() -> Self {
        RecentTexts([const { None }; RECENT_TEXTS])
    }
}

impl<'a> RecentTexts<'a> {
    unsafe fn get(&mut self, run: &'a [u8]) -> Outcome<HeldObject> {
        let place = &mut self.0[place_of(run)];
        if let Some((known, text)) = place
            && *known == run
        {
            return Ok(text.clone());
        }
        let text = decoded_text(run, ptr::null())?;
        *place = Some((run, text.clone()));
        Ok(text)
    }
}

/// By length and some letters: two names of one place cost what they would cost without it.
fn place_of(run: &[u8]) -> usize {
    let letter = |index: usize| usize::from(run.get(index).copied().unwrap_or(0));
    let (middle, last) = (run.len() / 2, run.len().saturating_sub(1));
    let mixed = run.len() ^ (letter(0) << 3) ^ (letter(middle) << 1) ^ (letter(last) * 5);
    (mixed ^ (mixed >> 6)) % RECENT_TEXTS
}
