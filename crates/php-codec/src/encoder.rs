//! From a value to bytes, part by part.

use super::{BYTES_MAX, DEPTH_MAX, HAS_CLASSES, PhpKey, PhpRefusal, PhpScalar, PhpWhole, Tag};

/// Writes the parts of one value in their order.
///
/// The caller says how many parts a whole has, and then writes so many; otherwise
/// [`PhpEncoder::finish`] fails.
pub struct PhpEncoder<'a> {
    to: &'a mut Vec<u8>,
    /// PhpParts still missing of each whole that has begun.
    missing: MissingParts,
}

/// Of each depth, outermost first.
struct MissingParts {
    parts: [u64; DEPTH_MAX as usize + 1],
    depth: usize,
}

impl MissingParts {
    /// One part is there.
    fn count(&mut self) -> Result<(), PhpRefusal> {
        let parts = &mut self.parts[self.depth];
        *parts = parts.checked_sub(1).ok_or(PhpRefusal::Malformed)?;
        Ok(())
    }

    fn begin(&mut self, count: u64) -> Result<(), PhpRefusal> {
        *self
            .parts
            .get_mut(self.depth + 1)
            .ok_or(PhpRefusal::TooDeep)? = count;
        self.depth += 1;
        Ok(())
    }

    fn end_what_is_whole(&mut self) {
        while self.depth > 0 && self.parts[self.depth] == 0 {
            self.depth -= 1;
        }
    }
}

impl<'a> PhpEncoder<'a> {
    /// Empties `to` and begins a value in it.
    pub fn new(to: &'a mut Vec<u8>) -> PhpEncoder<'a> {
        to.clear();
        to.push(0);
        let mut missing = MissingParts {
            parts: [0; DEPTH_MAX as usize + 1],
            depth: 0,
        };
        missing.parts[0] = 1;
        PhpEncoder { to, missing }
    }

    /// A scalar.
    ///
    /// # Errors
    /// As [`PhpEncoder::begin`].
    pub fn scalar(&mut self, scalar: PhpScalar) -> Result<(), PhpRefusal> {
        self.item(match scalar {
            PhpScalar::Null => Tag::Null,
            PhpScalar::Bool(false) => Tag::False,
            PhpScalar::Bool(true) => Tag::True,
            PhpScalar::Int(_) => Tag::Int,
            PhpScalar::Float(_) => Tag::Float,
        })?;
        match scalar {
            PhpScalar::Int(number) => self.int(number),
            PhpScalar::Float(number) => self.to.extend(number.to_bits().to_le_bytes()),
            PhpScalar::Null | PhpScalar::Bool(_) => {}
        }
        self.end_item()
    }

    /// A text.
    ///
    /// # Errors
    /// As [`PhpEncoder::begin`].
    pub fn text(&mut self, text: &[u8]) -> Result<(), PhpRefusal> {
        self.item(Tag::Text)?;
        self.bytes(text)?;
        self.end_item()
    }

    /// A case of an enumeration.
    ///
    /// # Errors
    /// As [`PhpEncoder::begin`].
    pub fn case(&mut self, class: &[u8], name: &[u8]) -> Result<(), PhpRefusal> {
        self.item(Tag::Case)?;
        self.to[0] |= HAS_CLASSES;
        self.bytes(class)?;
        self.bytes(name)?;
        self.end_item()
    }

    /// Begins what has parts. `count` is of elements or properties; a state and a reference have
    /// one part.
    ///
    /// # Errors
    /// `TooLong`, `TooDeep`, and `Malformed` if there are more parts than were said.
    pub fn begin(&mut self, whole: PhpWhole<&[u8]>, count: usize) -> Result<(), PhpRefusal> {
        self.item(match whole {
            PhpWhole::List => Tag::List,
            PhpWhole::Map => Tag::Map,
            PhpWhole::Object(_) => Tag::Object,
            PhpWhole::State(_) => Tag::State,
            PhpWhole::Reference => Tag::Reference,
        })?;
        if let PhpWhole::Object(class) | PhpWhole::State(class) = whole {
            self.to[0] |= HAS_CLASSES;
            self.bytes(class)?;
        }
        let count = match whole {
            PhpWhole::State(_) | PhpWhole::Reference => 1,
            PhpWhole::List | PhpWhole::Map | PhpWhole::Object(_) => {
                self.number(count as u64);
                count as u64
            }
        };
        self.missing.begin(count)?;
        self.end_item()
    }

    /// The key of the next part, of a map or an object.
    ///
    /// # Errors
    /// `TooLong`.
    pub fn key(&mut self, key: PhpKey<&[u8]>) -> Result<(), PhpRefusal> {
        match key {
            PhpKey::Int(number) => {
                self.to.push(Tag::Int as u8);
                self.int(number);
                Ok(())
            }
            PhpKey::Text(text) => {
                self.to.push(Tag::Text as u8);
                self.bytes(text)
            }
        }
    }

    /// The reference that began as the one of this number, from 0.
    ///
    /// # Errors
    /// As [`PhpEncoder::begin`].
    pub fn same_reference(&mut self, number: u64) -> Result<(), PhpRefusal> {
        self.item(Tag::SameReference)?;
        self.number(number);
        self.end_item()
    }

    /// The object that began as the one of this number, from 0. A case is none.
    ///
    /// # Errors
    /// As [`PhpEncoder::begin`].
    pub fn same_object(&mut self, number: u64) -> Result<(), PhpRefusal> {
        self.item(Tag::SameObject)?;
        self.number(number);
        self.end_item()
    }

    /// Ends the value.
    ///
    /// # Errors
    /// `Malformed` if parts are missing.
    pub fn finish(self) -> Result<(), PhpRefusal> {
        match self.missing {
            MissingParts { depth: 0, parts } if parts[0] == 0 => Ok(()),
            _ => Err(PhpRefusal::Malformed),
        }
    }

    fn item(&mut self, tag: Tag) -> Result<(), PhpRefusal> {
        self.missing.count()?;
        self.to.push(tag as u8);
        Ok(())
    }

    fn end_item(&mut self) -> Result<(), PhpRefusal> {
        self.missing.end_what_is_whole();
        self.check_length(0)
    }

    fn check_length(&self, more: usize) -> Result<(), PhpRefusal> {
        let is_within = more <= BYTES_MAX && self.to.len() <= BYTES_MAX - more;
        if is_within {
            Ok(())
        } else {
            Err(PhpRefusal::TooLong)
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), PhpRefusal> {
        // Before it is copied: a value over the limit may not take memory first.
        self.check_length(bytes.len())?;
        self.number(bytes.len() as u64);
        self.to.extend_from_slice(bytes);
        Ok(())
    }

    fn int(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.to.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.to.push(number as u8);
    }
}
