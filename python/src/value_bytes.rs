//! Values as bytes for tiers below memory: every type keeps its type.
//!
//! A byte says the type; lengths and counts are LEB128. Built-in types are written here. Any other
//! object is taken apart by `Codec.parts_of`, which gives its name and a value to write instead.

use std::ptr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyFrozenSet, PySet, PyString, PyTuple};
use tiers::envelope::ROOM_BYTES;

use crate::api;
use crate::object::{HeldObject, Outcome, Raised};
use crate::python;

/// Deeper values are refused: they are cycles, or as good as.
pub const DEPTH_MAX: usize = 200;

/// What stands before each value.
pub mod tag {
    pub const NONE: u8 = b'N';
    pub const TRUE: u8 = b'T';
    pub const FALSE: u8 = b'F';
    /// Zigzag, LEB128.
    pub const INTEGER: u8 = b'i';
    /// Text in base 16.
    pub const LONG: u8 = b'I';
    pub const FLOAT: u8 = b'f';
    pub const TEXT: u8 = b'u';
    /// Text with lone surrogates.
    pub const SURROGATES: u8 = b's';
    pub const BYTES: u8 = b'b';
    pub const BYTE_ARRAY: u8 = b'y';
    pub const TUPLE: u8 = b't';
    pub const LIST: u8 = b'l';
    pub const DICT: u8 = b'd';
    pub const SET: u8 = b'S';
    pub const FROZEN_SET: u8 = b'z';
    /// A name, then what `Codec.restore` makes the object from.
    pub const OBJECT: u8 = b'o';
}

/// Why a value was not written.
enum NotWritten {
    /// It holds what cannot be written without running code, which may change the containers
    /// around it: they must be copied first.
    NeedsCopies,
    /// It cannot be read back.
    Refused(Box<UnwrittenPart>),
}

/// Where inside a value lies what cannot be written, and why.
struct UnwrittenPart {
    path: String,
    error: PyErr,
}

impl From<PyErr> for NotWritten {
    fn from(error: PyErr) -> NotWritten {
        NotWritten::Refused(Box::new(UnwrittenPart {
            path: String::new(),
            error,
        }))
    }
}

impl NotWritten {
    fn inside(mut self, place: impl FnOnce() -> String) -> NotWritten {
        if let NotWritten::Refused(refusal) = &mut self {
            refusal.path.insert_str(0, &place());
        }
        self
    }
}

/// The bytes of a value.
///
/// # Errors
/// A `TypeError` that names the place inside the value, if that holds what cannot be read back.
pub fn encode(value: &Bound<'_, PyAny>, codec: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    encode_after(0, value, codec)
}

/// As [`encode`], after the room that the header of a frame takes.
pub fn encode_with_room(value: &Bound<'_, PyAny>, codec: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    encode_after(ROOM_BYTES, value, codec)
}

fn encode_after(
    room: usize,
    value: &Bound<'_, PyAny>,
    codec: &Bound<'_, PyAny>,
) -> PyResult<Vec<u8>> {
    let py = value.py();
    let mut writer = ValueWriter {
        bytes: vec![0; room],
        codec,
        // Without the interpreter's lock another thread may change them at any time.
        copies: cfg!(Py_GIL_DISABLED),
    };
    // This thread is attached, and `value` is held.
    let mut written = unsafe { writer.write(value.as_ptr(), 0) };
    if let Err(NotWritten::NeedsCopies) = written {
        writer.bytes.truncate(room);
        writer.copies = true;
        written = unsafe { writer.write(value.as_ptr(), 0) };
    }
    match written {
        Ok(()) => Ok(writer.bytes),
        Err(NotWritten::NeedsCopies) => unreachable!("the containers are copied"),
        Err(NotWritten::Refused(refusal)) => {
            let UnwrittenPart { path, error } = *refusal;
            if !error.is_instance_of::<PyTypeError>(py) {
                return Err(error);
            }
            let text = format!("result{path} {}", error.value(py));
            Err(PyTypeError::new_err(text))
        }
    }
}

/// A value as bytes, beside the function that makes each caller's value from them.
pub unsafe fn own_way(value: &HeldObject, codec: &HeldObject) -> Outcome<HeldObject> {
    let py = Python::assume_attached();
    let value = Bound::from_borrowed_ptr(py, value.as_ptr());
    let codec = Bound::from_borrowed_ptr(py, codec.as_ptr());
    let pair = || {
        let bytes = PyBytes::new(py, &encode(&value, &codec)?).into_any();
        PyTuple::new(py, [codec.getattr("loads")?, bytes])
    };
    match pair() {
        Ok(pair) => HeldObject::owned(pair.into_ptr()),
        Err(error) => {
            error.restore(py);
            Err(Raised)
        }
    }
}

struct ValueWriter<'a, 'py> {
    bytes: Vec<u8>,
    codec: &'a Bound<'py, PyAny>,
    /// Whether containers are copied before their items are written. Where nothing but built-in
    /// types is met no code runs meanwhile, so nothing changes them and they are read in place.
    copies: bool,
}

type Written = Result<(), NotWritten>;

impl ValueWriter<'_, '_> {
    unsafe fn write(&mut self, value: *mut ffi::PyObject, depth: usize) -> Written {
        if depth > DEPTH_MAX {
            if !self.copies {
                // The error names the way there by `repr`, which may run code.
                return Err(NotWritten::NeedsCopies);
            }
            let text = format!("is nested deeper than {DEPTH_MAX} levels");
            return Err(PyTypeError::new_err(text).into());
        }
        let kind = ffi::Py_TYPE(value);
        if kind == &raw mut ffi::PyUnicode_Type {
            return self.text(value);
        } else if kind == &raw mut ffi::PyLong_Type {
            return self.integer(value);
        } else if kind == &raw mut ffi::PyDict_Type {
            return self.dict(value, depth);
        } else if kind == &raw mut ffi::PyList_Type {
            return self.list(value, depth);
        } else if kind == &raw mut ffi::PyFloat_Type {
            self.bytes.push(tag::FLOAT);
            let number = api::float_of(value);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        } else if value == ffi::Py_None() {
            self.bytes.push(tag::NONE);
        } else if kind == &raw mut ffi::PyBool_Type {
            let is_true = value == ffi::Py_True();
            self.bytes
                .push(if is_true { tag::TRUE } else { tag::FALSE });
        } else if kind == &raw mut ffi::PyTuple_Type {
            return self.tuple(tag::TUPLE, value, depth);
        } else if kind == &raw mut ffi::PyBytes_Type {
            self.run(tag::BYTES, python::bytes_of(value));
        } else if !self.copies {
            // To iterate over a set is to make an object, which may start a collection.
            return Err(NotWritten::NeedsCopies);
        } else {
            let value = Bound::from_borrowed_ptr(self.codec.py(), value);
            return self.other(&value, depth);
        }
        Ok(())
    }

    fn count(&mut self, tag: u8, count: u64) {
        self.bytes.push(tag);
        let mut rest = count;
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    fn run(&mut self, tag: u8, bytes: &[u8]) {
        self.count(tag, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    unsafe fn integer(&mut self, value: *mut ffi::PyObject) -> Written {
        let mut overflow = 0;
        let small = ffi::PyLong_AsLongLongAndOverflow(value, &raw mut overflow);
        if overflow == 0 {
            let zigzag = ((small as u64) << 1) ^ ((small >> 63) as u64);
            self.count(tag::INTEGER, zigzag);
            return Ok(());
        }
        let text = ffi::PyNumber_ToBase(value, 16);
        let text = Bound::from_owned_ptr_or_err(self.codec.py(), text)?;
        match python::text_of(text.as_ptr()) {
            Ok(text) => self.run(tag::LONG, text),
            Err(Raised) => return Err(PyErr::fetch(self.codec.py()).into()),
        }
        Ok(())
    }

    unsafe fn text(&mut self, value: *mut ffi::PyObject) -> Written {
        if let Ok(text) = python::text_of(value) {
            self.run(tag::TEXT, text);
            return Ok(());
        }
        ffi::PyErr_Clear();
        if !self.copies {
            return Err(NotWritten::NeedsCopies);
        }
        let value = Bound::from_borrowed_ptr(self.codec.py(), value);
        let bytes = value.call_method1("encode", ("utf-8", "surrogatepass"))?;
        self.run(tag::SURROGATES, python::bytes_of(bytes.as_ptr()));
        Ok(())
    }

    unsafe fn list(&mut self, value: *mut ffi::PyObject, depth: usize) -> Written {
        if self.copies {
            let items = ffi::PySequence_Tuple(value);
            let items = Bound::from_owned_ptr_or_err(self.codec.py(), items)?;
            return self.tuple(tag::LIST, items.as_ptr(), depth);
        }
        let count = api::list_len(value);
        self.count(tag::LIST, count as u64);
        for index in 0..count {
            self.write(api::list_item(value, index), depth + 1)
                .map_err(|stop| stop.inside(|| format!("[{index}]")))?;
        }
        Ok(())
    }

    unsafe fn tuple(&mut self, tag: u8, value: *mut ffi::PyObject, depth: usize) -> Written {
        let count = api::tuple_len(value);
        self.count(tag, count as u64);
        for index in 0..count {
            self.write(api::tuple_item(value, index), depth + 1)
                .map_err(|stop| stop.inside(|| format!("[{index}]")))?;
        }
        Ok(())
    }

    unsafe fn dict(&mut self, value: *mut ffi::PyObject, depth: usize) -> Written {
        if self.copies {
            let copy = ffi::PyDict_Copy(value);
            let copy = Bound::from_owned_ptr_or_err(self.codec.py(), copy)?;
            return self.items(copy.as_ptr(), depth);
        }
        self.items(value, depth)
    }

    /// The keys and values of a dict that does not change meanwhile.
    unsafe fn items(&mut self, dict: *mut ffi::PyObject, depth: usize) -> Written {
        self.count(tag::DICT, ffi::PyDict_Size(dict) as u64);
        let (mut at, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
        while ffi::PyDict_Next(dict, &raw mut at, &raw mut key, &raw mut value) != 0 {
            let py = self.codec.py();
            let written = self.write(key, depth + 1);
            let written = written.and_then(|()| self.write(value, depth + 1));
            written.map_err(|stop| {
                stop.inside(|| match Bound::from_borrowed_ptr(py, key).repr() {
                    Ok(name) => format!("[{name}]"),
                    Err(_) => "[?]".to_owned(),
                })
            })?;
        }
        Ok(())
    }

    unsafe fn other(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Written {
        if let Ok(value) = value.cast_exact::<PyByteArray>() {
            self.run(tag::BYTE_ARRAY, &value.to_vec());
            Ok(())
        } else if value.is_exact_instance_of::<PySet>() {
            self.set(tag::SET, value, depth)
        } else if value.is_exact_instance_of::<PyFrozenSet>() {
            self.set(tag::FROZEN_SET, value, depth)
        } else {
            self.object(value, depth)
        }
    }

    unsafe fn set(&mut self, tag: u8, value: &Bound<'_, PyAny>, depth: usize) -> Written {
        let items = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        self.count(tag, items.len() as u64);
        for item in items {
            self.write(item.as_ptr(), depth + 1)
                .map_err(|stop| stop.inside(|| "{…}".to_owned()))?;
        }
        Ok(())
    }

    unsafe fn object(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Written {
        let parts = self.codec.call_method1("parts_of", (value,))?;
        let (name, parts): (Bound<'_, PyString>, Bound<'_, PyAny>) = parts.extract()?;
        self.run(tag::OBJECT, name.to_cow()?.as_bytes());
        self.write(parts.as_ptr(), depth + 1)
            .map_err(|stop| stop.inside(|| format!(".<{name}>")))
    }
}

/// What begins every error of the decoder: its bytes count as a miss.
pub const DAMAGED: &str = "a stored value is damaged: ";

/// Such an error.
pub fn damaged(text: &str) -> PyErr {
    PyValueError::new_err(format!("{DAMAGED}{text}"))
}
