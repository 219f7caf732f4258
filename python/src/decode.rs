//! Bytes of a tier as values. Whatever the bytes are, this ends soon: nesting is bounded, and no
//! count is believed that the bytes left could not hold.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple,
};

use crate::value_bytes::{DEPTH_MAX, damaged, tag};

/// The value that `bytes` stand for; objects are made by `codec.restore(name, parts)`.
///
/// # Errors
/// A `ValueError` if the bytes are no value, or what `restore` raises.
pub fn decode<'py>(bytes: &[u8], codec: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = ValueReader { bytes, codec };
    let value = reader.read(0)?;
    match reader.bytes {
        [] => Ok(value),
        _ => Err(damaged("bytes follow it")),
    }
}

struct ValueReader<'a, 'py> {
    /// Those not read yet.
    bytes: &'a [u8],
    codec: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> ValueReader<'a, 'py> {
    fn read(&mut self, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        if depth > DEPTH_MAX {
            return Err(damaged("nested too deep"));
        }
        let py = self.codec.py();
        let value = match self.byte()? {
            tag::NONE => py.None().into_bound(py),
            tag::TRUE => PyBool::new(py, true).to_owned().into_any(),
            tag::FALSE => PyBool::new(py, false).to_owned().into_any(),
            tag::INTEGER => {
                let zigzag = self.number()?;
                let number = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                number.into_pyobject(py)?.into_any()
            }
            tag::LONG => py.get_type::<PyInt>().call1((self.text()?, 16))?,
            tag::FLOAT => {
                let (bits, rest) = self
                    .bytes
                    .split_first_chunk()
                    .ok_or_else(|| damaged("short"))?;
                self.bytes = rest;
                PyFloat::new(py, f64::from_le_bytes(*bits)).into_any()
            }
            tag::TEXT => PyString::new(py, self.text()?).into_any(),
            tag::SURROGATES => {
                PyBytes::new(py, self.run()?).call_method1("decode", ("utf-8", "surrogatepass"))?
            }
            tag::BYTES => PyBytes::new(py, self.run()?).into_any(),
            tag::BYTE_ARRAY => PyByteArray::new(py, self.run()?).into_any(),
            tag::LIST => PyList::new(py, self.items(depth)?)?.into_any(),
            tag::TUPLE => PyTuple::new(py, self.items(depth)?)?.into_any(),
            tag::SET => PySet::new(py, self.items(depth)?)?.into_any(),
            tag::FROZEN_SET => PyFrozenSet::new(py, self.items(depth)?)?.into_any(),
            tag::DICT => self.dict(depth)?,
            tag::OBJECT => {
                let name = self.text()?;
                let parts = self.read(depth + 1)?;
                self.codec.call_method1("restore", (name, parts))?
            }
            _ => return Err(damaged("an unknown type")),
        };
        Ok(value)
    }

    fn byte(&mut self) -> PyResult<u8> {
        let (byte, rest) = self.bytes.split_first().ok_or_else(|| damaged("short"))?;
        self.bytes = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> PyResult<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
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

    /// A count of things with at least one byte each.
    fn count(&mut self) -> PyResult<usize> {
        let count = self.number()?;
        if count > self.bytes.len() as u64 {
            return Err(damaged("short"));
        }
        Ok(count as usize)
    }

    fn run(&mut self) -> PyResult<&'a [u8]> {
        let count = self.count()?;
        let (run, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Ok(run)
    }

    fn text(&mut self) -> PyResult<&'a str> {
        std::str::from_utf8(self.run()?).map_err(|_| damaged("text that is none"))
    }

    fn items(&mut self, depth: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let count = self.count()?;
        // Eight bytes for each byte that is there, and no more.
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.read(depth + 1)?);
        }
        Ok(items)
    }

    fn dict(&mut self, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let count = self.count()?;
        let dict = PyDict::new(self.codec.py());
        for _ in 0..count {
            let key = self.read(depth + 1)?;
            dict.set_item(key, self.read(depth + 1)?)?;
        }
        Ok(dict.into_any())
    }
}
