//! Canonical bytes of arguments: a tag at every level, every value bit kept.

use pyo3::ffi;

use crate::api;
use crate::key::BuiltKey;
use crate::object::{HeldObject, Outcome, Raised};
use crate::python::{self, PythonFunction};

/// Deeper arguments are refused: they are cycles, or as good as.
const DEPTH_MAX: usize = 200;
/// A larger key would cost more than most functions do.
const BYTES_MAX: usize = 16 << 20;

impl BuiltKey {
    /// A count, so that neighbouring parts cannot run into each other.
    pub fn count(&mut self, tag: u8, count: usize) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&(count as u64).to_le_bytes());
    }

    fn bound(&self, more: usize) -> Outcome<()> {
        if self.bytes.len() + more <= BYTES_MAX {
            return Ok(());
        }
        Err(python::raise_value(&format!(
            "the arguments make a cache key above {BYTES_MAX} bytes; give key= or ignore="
        )))
    }

    fn run(&mut self, tag: u8, bytes: &[u8]) -> Outcome<()> {
        self.bound(bytes.len())?;
        self.count(tag, bytes.len());
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes `object`. Fails with a TypeError when it has no encoding and cannot be hashed.
    pub unsafe fn encode(&mut self, object: *mut ffi::PyObject) -> Outcome<()> {
        self.encode_at(object, 0)
    }

    unsafe fn encode_at(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<()> {
        if depth > DEPTH_MAX {
            return Err(python::raise_value(
                "an argument is nested deeper than 200 levels; give key= or ignore=",
            ));
        }
        self.bound(0)?;
        let kind = ffi::Py_TYPE(object);
        if object == ffi::Py_None() {
            self.bytes.push(b'N');
        } else if kind == &raw mut ffi::PyBool_Type {
            self.bytes
                .push(if object == ffi::Py_True() { b'T' } else { b'F' });
        } else if kind == &raw mut ffi::PyLong_Type {
            return self.integer(object);
        } else if kind == &raw mut ffi::PyFloat_Type {
            self.bytes.push(b'f');
            let bits = api::float_of(object).to_bits();
            self.bytes.extend_from_slice(&bits.to_le_bytes());
        } else if kind == &raw mut ffi::PyUnicode_Type {
            return self.text(object);
        } else if kind == &raw mut ffi::PyBytes_Type {
            return self.run(b'b', python::bytes_of(object));
        } else if kind == &raw mut ffi::PyByteArray_Type {
            let start = ffi::PyByteArray_AsString(object).cast::<u8>();
            let length = ffi::PyByteArray_Size(object) as usize;
            return self.run(b'y', std::slice::from_raw_parts(start, length));
        } else if kind == &raw mut ffi::PyTuple_Type {
            return self.sequence(b't', object, depth);
        } else if kind == &raw mut ffi::PyList_Type {
            return self.sequence(b'l', object, depth);
        } else if kind == &raw mut ffi::PyDict_Type {
            return self.mapping(object, depth);
        } else if kind == &raw mut ffi::PySet_Type {
            return self.set(b's', object, depth);
        } else if kind == &raw mut ffi::PyFrozenSet_Type {
            return self.set(b'z', object, depth);
        } else {
            return self.other(object, depth);
        }
        Ok(())
    }

    unsafe fn integer(&mut self, object: *mut ffi::PyObject) -> Outcome<()> {
        let mut overflow = 0;
        let number = ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow);
        if overflow == 0 {
            self.bytes.push(b'i');
            self.bytes.extend_from_slice(&number.to_le_bytes());
            return Ok(());
        }
        let text = HeldObject::owned(ffi::PyNumber_ToBase(object, 16))?;
        self.run(b'I', python::text_of(text.as_ptr())?)
    }

    unsafe fn text(&mut self, object: *mut ffi::PyObject) -> Outcome<()> {
        if let Ok(text) = python::text_of(object) {
            return self.run(b'u', text);
        }
        // A lone surrogate has no UTF-8; this form keeps it, and equals no other text's.
        ffi::PyErr_Clear();
        let bytes = HeldObject::owned(ffi::PyUnicode_AsEncodedString(
            object,
            c"utf-8".as_ptr(),
            c"surrogatepass".as_ptr(),
        ))?;
        self.run(b'u', python::bytes_of(bytes.as_ptr()))
    }

    unsafe fn sequence(
        &mut self,
        tag: u8,
        object: *mut ffi::PyObject,
        depth: usize,
    ) -> Outcome<()> {
        // A copy: a `__hash__` or an encoder below may change the list.
        let items = HeldObject::owned(ffi::PySequence_Tuple(object))?;
        let count = api::tuple_len(items.as_ptr());
        self.count(tag, count as usize);
        for index in 0..count {
            self.encode_at(api::tuple_item(items.as_ptr(), index), depth + 1)?;
        }
        Ok(())
    }

    unsafe fn mapping(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<()> {
        let items = HeldObject::owned(ffi::PyDict_Items(object))?;
        let mut parts = Vec::new();
        for index in 0..api::list_len(items.as_ptr()) {
            let pair = api::list_item(items.as_ptr(), index);
            let mut key = BuiltKey::default();
            key.encode_at(api::tuple_item(pair, 0), depth + 1)?;
            let order = key.order()?;
            key.encode_at(api::tuple_item(pair, 1), depth + 1)?;
            parts.push((order, key));
        }
        self.unordered(b'd', parts)
    }

    unsafe fn set(&mut self, tag: u8, object: *mut ffi::PyObject, depth: usize) -> Outcome<()> {
        let items = HeldObject::owned(ffi::PySequence_List(object))?;
        let mut parts = Vec::new();
        for index in 0..api::list_len(items.as_ptr()) {
            let mut part = BuiltKey::default();
            part.encode_at(api::list_item(items.as_ptr(), index), depth + 1)?;
            parts.push((part.order()?, part));
        }
        self.unordered(tag, parts)
    }

    /// Where a part stands among its equals: by bytes, then by the hashes of what has none. Two
    /// such objects of one hash may stand either way round, which costs a run and never a wrong
    /// answer.
    unsafe fn order(&self) -> Outcome<(Vec<u8>, Vec<isize>)> {
        let mut hashes = Vec::new();
        for object in &self.opaque {
            let hash = ffi::PyObject_Hash(object.as_ptr());
            if hash == -1 {
                return Err(Raised);
            }
            hashes.push(hash);
        }
        Ok((self.bytes.clone(), hashes))
    }

    fn unordered<O: Ord>(&mut self, tag: u8, mut parts: Vec<(O, BuiltKey)>) -> Outcome<()> {
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        self.count(tag, parts.len());
        for (_, part) in parts {
            self.run(b'_', &part.bytes)?;
            self.opaque.extend(part.opaque);
            self.classes += part.classes;
        }
        Ok(())
    }

    /// Types of the standard library, data classes, named tuples and arrays are taken apart by
    /// `_encoders.parts_of`: what it gives is encoded in the object's stead, under its class.
    unsafe fn other(&mut self, object: *mut ffi::PyObject, depth: usize) -> Outcome<()> {
        let parts = python::call_one(PythonFunction::PartsOf, object)?;
        if parts.as_ptr() != ffi::Py_None() {
            return self.parts(object, &parts, depth);
        }
        if ffi::PyObject_Hash(object) == -1 {
            if ffi::PyErr_ExceptionMatches(ffi::PyExc_TypeError) == 0 {
                return Err(Raised);
            }
            ffi::PyErr_Clear();
            return Err(python::raise_type(&format!(
                "an argument holds an object of type {}, which has no canonical encoding and \
                 cannot be hashed; leave it out with ignore=, or give key=",
                python::type_name(object)
            )));
        }
        self.bytes.push(b'?');
        self.opaque.push(HeldObject::borrowed(object));
        Ok(())
    }

    /// The class stands in the bytes by its name, for readers elsewhere, and beside
    /// them itself: two classes of one name are two.
    unsafe fn parts(
        &mut self,
        object: *mut ffi::PyObject,
        parts: &HeldObject,
        depth: usize,
    ) -> Outcome<()> {
        let kind = ffi::Py_TYPE(object).cast::<ffi::PyObject>();
        self.bytes.push(b'o');
        for attribute in [c"__module__", c"__qualname__"] {
            let name = ffi::PyObject_GetAttrString(kind, attribute.as_ptr());
            let name = HeldObject::owned(name)?;
            let mut name = HeldObject::owned(ffi::PyObject_Str(name.as_ptr()))?;
            // 3.13 alone keeps these classes elsewhere, and a key is the same in every version.
            if python::text_of(name.as_ptr())? == b"pathlib._local" {
                name = HeldObject::owned(ffi::PyUnicode_FromString(c"pathlib".as_ptr()))?;
            }
            self.text(name.as_ptr())?;
        }
        self.opaque.push(HeldObject::borrowed(kind));
        self.classes += 1;
        self.encode_at(parts.as_ptr(), depth + 1)
    }

    /// The bytes, when they say all there is to say.
    pub unsafe fn canonical(&self) -> Outcome<Vec<u8>> {
        let without = self.opaque.iter().find(|object| {
            // A class is named in the bytes.
            ffi::PyType_Check(object.as_ptr()) == 0
        });
        if let (Some(object), true) = (without, self.opaque.len() > self.classes) {
            return Err(python::raise_type(&format!(
                "an argument holds an object of type {}, which has no canonical encoding",
                python::type_name(object.as_ptr())
            )));
        }
        if self.opaque.len() > self.classes {
            return Err(python::raise_type(
                "an argument holds a class, which has no canonical encoding",
            ));
        }
        Ok(self.bytes.clone())
    }
}
