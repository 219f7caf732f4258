//! Values of PHP as bytes, without PHP: what stands in a cache file, and how it is read in place.
//!
//! ```text
//! value  = flags item                   flags: 1 if there is an object or a case in it
//! item   = null | false | true | int | float | text | list | map | object | state | case
//!        | reference item | same reference | same object
//! list   = count item …                 keys 0, 1, 2 …
//! map    = count (key item) …           key: int or text
//! object = class count (name item) …    state: what `__serialize` gave, a list or a map
//! ```
//! Counts, lengths and numbers of references are integers of seven bits a byte, the lowest first.
//! An `int` is folded so that small negative ones are short, too. References, and objects, are
//! counted in the order in which they begin, so that a later `same` can name one.
//!
//! A [`PhpDecoder`] reads each byte once and from front to back, because another process may be
//! writing over them. It holds no memory: what is built belongs to the [`PhpBuilder`] it calls,
//! which for PHP allocates by Zend alone.

mod decoder;
mod encoder;
#[cfg(any(test, feature = "fuzz"))]
pub mod parts;
#[cfg(test)]
mod tests;

pub use decoder::{PhpBuilder, PhpBytes, PhpDecoder};
pub use encoder::PhpEncoder;

/// How deep values may be nested; the same in both directions.
pub const DEPTH_MAX: u32 = 256;
/// Bytes that a value may take.
pub const BYTES_MAX: usize = 64 << 20;

const HAS_CLASSES: u8 = 1;

/// Why bytes are no value, or a value has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpRefusal {
    /// The bytes end too early, go on, or say what none of these values is.
    Malformed,
    /// Nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// Longer than [`BYTES_MAX`], or a count beyond what the bytes have room for.
    TooLong,
    /// An object or a case, where classes are not allowed.
    Class,
    /// What builds the value refused a part of it, such as a key that was there before.
    Part,
}

/// What begins an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Null,
    False,
    True,
    Int,
    Float,
    Text,
    List,
    Map,
    Object,
    State,
    Case,
    Reference,
    SameReference,
    SameObject,
}

const TAGS: [Tag; 14] = [
    Tag::Null,
    Tag::False,
    Tag::True,
    Tag::Int,
    Tag::Float,
    Tag::Text,
    Tag::List,
    Tag::Map,
    Tag::Object,
    Tag::State,
    Tag::Case,
    Tag::Reference,
    Tag::SameReference,
    Tag::SameObject,
];

/// A value without parts, but for texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PhpScalar {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An `int`.
    Int(i64),
    /// A `float`, each bit of it.
    Float(f64),
}

/// The key of an element of a map, the name of a property, a class: as these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpKey<T> {
    /// An `int`, of maps alone.
    Int(i64),
    /// A text.
    Text(T),
}

/// What has parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpWhole<T> {
    /// An array with the keys 0, 1, 2 …
    List,
    /// An array with keys.
    Map,
    /// An object of this class, with its properties by their mangled names.
    Object(T),
    /// An object of this class that is given one part, an array, by `__unserialize`.
    State(T),
    /// A reference, with its one value.
    Reference,
}
