//! Values as bytes for tiers below memory: every type keeps its type.
//!
//! A byte says the type; lengths and counts are LEB128. Built-in types are written here. Any other
//! object is taken apart by `Codec.parts_of`, which gives its name and a value to write instead.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple,
};

use crate::object::{HeldObject, Outcome, Raised};

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

/// Why a value cannot be written, and where inside it the reason lies.
struct NotStorable {
    path: String,
    error: PyErr,
}

impl From<PyErr> for NotStorable {
    fn from(error: PyErr) -> NotStorable {
        NotStorable {
            path: String::new(),
            error,
        }
    }
}

impl NotStorable {
    fn inside(mut self, place: &str) -> NotStorable {
        self.path.insert_str(0, place);
        self
    }
}

/// The bytes of a value.
///
/// # Errors
/// A `TypeError` that names the place inside the value, if that holds what cannot be read back.
pub fn encode(value: &Bound<'_, PyAny>, codec: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut writer = ValueWriter {
        bytes: Vec::new(),
        codec,
    };
    match writer.write(value, 0) {
        Ok(()) => Ok(writer.bytes),
        Err(NotStorable { path, error }) if error.is_instance_of::<PyTypeError>(value.py()) => {
            let text = format!("result{path} {}", error.value(value.py()));
            Err(PyTypeError::new_err(text))
        }
        Err(NotStorable { error, .. }) => Err(error),
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
}

impl ValueWriter<'_, '_> {
    fn write(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Result<(), NotStorable> {
        if depth > DEPTH_MAX {
            let text = format!("is nested deeper than {DEPTH_MAX} levels");
            return Err(PyTypeError::new_err(text).into());
        }
        if value.is_none() {
            self.bytes.push(tag::NONE);
        } else if let Ok(value) = value.cast_exact::<PyBool>() {
            let is_true = value.is_true();
            self.bytes
                .push(if is_true { tag::TRUE } else { tag::FALSE });
        } else if let Ok(value) = value.cast_exact::<PyInt>() {
            self.integer(value)?;
        } else if let Ok(value) = value.cast_exact::<PyFloat>() {
            self.bytes.push(tag::FLOAT);
            self.bytes.extend_from_slice(&value.value().to_le_bytes());
        } else if let Ok(value) = value.cast_exact::<PyString>() {
            self.text(value)?;
        } else if let Ok(value) = value.cast_exact::<PyBytes>() {
            self.run(tag::BYTES, value.as_bytes());
        } else if let Ok(value) = value.cast_exact::<PyByteArray>() {
            self.run(tag::BYTE_ARRAY, &value.to_vec());
        } else if let Ok(value) = value.cast_exact::<PyList>() {
            // A copy: taking an object apart runs code that may change the list.
            self.sequence(tag::LIST, &value.to_tuple(), depth)?;
        } else if let Ok(value) = value.cast_exact::<PyTuple>() {
            self.sequence(tag::TUPLE, value, depth)?;
        } else if let Ok(value) = value.cast_exact::<PyDict>() {
            self.dict(value, depth)?;
        } else if value.is_exact_instance_of::<PySet>() {
            self.set(tag::SET, value, depth)?;
        } else if value.is_exact_instance_of::<PyFrozenSet>() {
            self.set(tag::FROZEN_SET, value, depth)?;
        } else {
            self.object(value, depth)?;
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

    fn integer(&mut self, value: &Bound<'_, PyInt>) -> PyResult<()> {
        if let Ok(small) = value.extract::<i64>() {
            let zigzag = ((small as u64) << 1) ^ ((small >> 63) as u64);
            self.count(tag::INTEGER, zigzag);
            return Ok(());
        }
        let text = unsafe {
            let text = ffi::PyNumber_ToBase(value.as_ptr(), 16);
            Bound::from_owned_ptr_or_err(value.py(), text)?
        };
        self.run(tag::LONG, text.cast::<PyString>()?.to_cow()?.as_bytes());
        Ok(())
    }

    fn text(&mut self, value: &Bound<'_, PyString>) -> PyResult<()> {
        if let Ok(text) = value.to_cow() {
            self.run(tag::TEXT, text.as_bytes());
            return Ok(());
        }
        let bytes = value.call_method1("encode", ("utf-8", "surrogatepass"))?;
        self.run(tag::SURROGATES, bytes.cast::<PyBytes>()?.as_bytes());
        Ok(())
    }

    fn sequence(
        &mut self,
        tag: u8,
        items: &Bound<'_, PyTuple>,
        depth: usize,
    ) -> Result<(), NotStorable> {
        self.count(tag, items.len() as u64);
        for (index, item) in items.iter_borrowed().enumerate() {
            let written = self.write(&item, depth + 1);
            written.map_err(|refusal| refusal.inside(&format!("[{index}]")))?;
        }
        Ok(())
    }

    fn dict(&mut self, value: &Bound<'_, PyDict>, depth: usize) -> Result<(), NotStorable> {
        let items = value.items();
        self.count(tag::DICT, items.len() as u64);
        for item in &items {
            let (key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let place = |refusal: NotStorable| match key.repr() {
                Ok(name) => refusal.inside(&format!("[{name}]")),
                Err(_) => refusal.inside("[?]"),
            };
            self.write(&key, depth + 1).map_err(place)?;
            self.write(&item, depth + 1).map_err(place)?;
        }
        Ok(())
    }

    fn set(&mut self, tag: u8, value: &Bound<'_, PyAny>, depth: usize) -> Result<(), NotStorable> {
        let items = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        self.count(tag, items.len() as u64);
        for item in items {
            let written = self.write(&item, depth + 1);
            written.map_err(|refusal| refusal.inside("{…}"))?;
        }
        Ok(())
    }

    fn object(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Result<(), NotStorable> {
        let parts = self.codec.call_method1("parts_of", (value,))?;
        let (name, parts): (Bound<'_, PyString>, Bound<'_, PyAny>) = parts.extract()?;
        self.run(tag::OBJECT, name.to_cow()?.as_bytes());
        self.write(&parts, depth + 1)
            .map_err(|refusal| refusal.inside(&format!(".<{name}>")))
    }
}

/// What every error of the decoder is: its bytes count as a miss.
pub fn damaged(text: &str) -> PyErr {
    PyValueError::new_err(format!("a stored value is damaged: {text}"))
}
