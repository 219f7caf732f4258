//! Values on their way into a table: what C calls part by part while it walks through a value.

use std::ffi::{c_char, c_int};
use std::ptr;

use php_codec::{PhpKey, PhpScalar, PhpWhole};

use crate::border::bytes_at;
use crate::encoding::Encoding;
use crate::worker::worker;

#[unsafe(no_mangle)]
extern "C" fn tm_encoding_begin() -> *mut Encoding {
    let Some(encoding) = worker().take_encoding() else {
        return ptr::null_mut();
    };
    // SAFETY: nothing else uses it until it is given back.
    unsafe { (*encoding).begin() };
    encoding
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_encoding_end(encoding: *mut Encoding) {
    (*encoding).end();
    worker().give_encoding_back(encoding);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_finish(encoding: *mut Encoding) -> bool {
    (*encoding).finish()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_null(encoding: *mut Encoding) -> bool {
    (*encoding).put(|to| to.scalar(PhpScalar::Null))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_bool(encoding: *mut Encoding, value: bool) -> bool {
    (*encoding).put(|to| to.scalar(PhpScalar::Bool(value)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_int(encoding: *mut Encoding, value: i64) -> bool {
    (*encoding).put(|to| to.scalar(PhpScalar::Int(value)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_float(encoding: *mut Encoding, value: f64) -> bool {
    (*encoding).put(|to| to.scalar(PhpScalar::Float(value)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_text(
    encoding: *mut Encoding,
    text: *const c_char,
    length: usize,
) -> bool {
    let text = bytes_at(text, length);
    (*encoding).put(|to| to.text(text))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_case(
    encoding: *mut Encoding,
    class: *const c_char,
    class_length: usize,
    name: *const c_char,
    length: usize,
) -> bool {
    let (class, name) = (bytes_at(class, class_length), bytes_at(name, length));
    (*encoding).put(|to| to.case(class, name))
}

/// `kind` is an `enum tm_kind`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_begin(
    encoding: *mut Encoding,
    kind: c_int,
    class: *const c_char,
    length: usize,
    count: usize,
) -> bool {
    let class = bytes_at(class, length);
    let whole = match kind {
        0 => PhpWhole::List,
        1 => PhpWhole::Map,
        2 => PhpWhole::Object(class),
        3 => PhpWhole::State(class),
        _ => PhpWhole::Reference,
    };
    (*encoding).put(|to| to.begin(whole, count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_key_int(encoding: *mut Encoding, key: i64) -> bool {
    (*encoding).put(|to| to.key(PhpKey::Int(key)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_key_text(
    encoding: *mut Encoding,
    text: *const c_char,
    length: usize,
) -> bool {
    let text = bytes_at(text, length);
    (*encoding).put(|to| to.key(PhpKey::Text(text)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_same_reference(encoding: *mut Encoding, number: u64) -> bool {
    (*encoding).put(|to| to.same_reference(number))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tm_put_same_object(encoding: *mut Encoding, number: u64) -> bool {
    (*encoding).put(|to| to.same_object(number))
}
