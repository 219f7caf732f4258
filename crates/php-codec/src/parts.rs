//! Values as lists of their parts, so that laws can be tested without PHP.

use std::collections::HashSet;

use super::{
    PhpBuilder, PhpBytes, PhpDecoder, PhpEncoder, PhpKey, PhpRefusal, PhpScalar, PhpWhole,
};

/// One part of a value, with copies of its bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum ValuePart {
    /// A scalar; a float by its bits, so that each equals itself.
    Scalar(PhpScalar),
    /// A float that is not a number, by its bits.
    NotANumber(u64),
    /// A text.
    Text(Vec<u8>),
    /// A case of an enumeration.
    Case(Vec<u8>, Vec<u8>),
    /// What has so many parts.
    Begin(PhpWhole<Vec<u8>>, usize),
    /// The key of the next part.
    Key(PhpKey<Vec<u8>>),
    /// An earlier reference.
    SameReference(u64),
    /// An earlier object.
    SameObject(u64),
}

/// Collects the parts of a value, and refuses a key that comes twice.
#[derive(Default)]
struct PhpParts {
    parts: Vec<ValuePart>,
    keys: Vec<HashSet<Vec<u8>>>,
}

fn copied<S: PhpBytes>(bytes: S) -> Vec<u8> {
    let byte = |at| bytes.byte(at).unwrap_or(0);
    (0..bytes.length()).map(byte).collect()
}

fn whole_of<S, T>(whole: PhpWhole<S>, class: impl Fn(S) -> T) -> PhpWhole<T> {
    match whole {
        PhpWhole::List => PhpWhole::List,
        PhpWhole::Map => PhpWhole::Map,
        PhpWhole::Object(name) => PhpWhole::Object(class(name)),
        PhpWhole::State(name) => PhpWhole::State(class(name)),
        PhpWhole::Reference => PhpWhole::Reference,
    }
}

impl PhpParts {
    fn push(&mut self, part: ValuePart) -> bool {
        self.parts.push(part);
        true
    }
}

impl<S: PhpBytes> PhpBuilder<S> for PhpParts {
    fn scalar(&mut self, scalar: PhpScalar) -> bool {
        self.push(match scalar {
            PhpScalar::Float(float) if float.is_nan() => ValuePart::NotANumber(float.to_bits()),
            scalar => ValuePart::Scalar(scalar),
        })
    }

    fn text(&mut self, text: S) -> bool {
        self.push(ValuePart::Text(copied(text)))
    }

    fn case(&mut self, class: S, name: S) -> bool {
        self.push(ValuePart::Case(copied(class), copied(name)))
    }

    fn begin(&mut self, whole: PhpWhole<S>, count: usize) -> bool {
        self.keys.push(HashSet::new());
        self.push(ValuePart::Begin(whole_of(whole, copied), count))
    }

    fn key(&mut self, key: PhpKey<S>) -> bool {
        let (key, name) = match key {
            PhpKey::Int(number) => (PhpKey::Int(number), number.to_string().into_bytes()),
            PhpKey::Text(text) => (PhpKey::Text(copied(text)), copied(text)),
        };
        let is_new = self.keys.last_mut().is_some_and(|keys| keys.insert(name));
        is_new && self.push(ValuePart::Key(key))
    }

    fn end(&mut self) -> bool {
        self.keys.pop().is_some()
    }

    fn same_reference(&mut self, number: u64) -> bool {
        self.push(ValuePart::SameReference(number))
    }

    fn same_object(&mut self, number: u64) -> bool {
        self.push(ValuePart::SameObject(number))
    }
}

/// The parts of the value in these bytes.
///
/// # Errors
/// As [`PhpDecoder::build`].
pub fn decode(bytes: impl PhpBytes, may_have_classes: bool) -> Result<Vec<ValuePart>, PhpRefusal> {
    let mut parts = PhpParts::default();
    PhpDecoder::new(bytes, may_have_classes).build(&mut parts)?;
    Ok(parts.parts)
}

/// The bytes of the value of these parts.
///
/// # Errors
/// As [`PhpEncoder::finish`].
pub fn encode(parts: &[ValuePart]) -> Result<Vec<u8>, PhpRefusal> {
    let mut bytes = Vec::new();
    let mut encoder = PhpEncoder::new(&mut bytes);
    for part in parts {
        match part {
            ValuePart::Scalar(scalar) => encoder.scalar(*scalar)?,
            ValuePart::NotANumber(bits) => {
                encoder.scalar(PhpScalar::Float(f64::from_bits(*bits)))?;
            }
            ValuePart::Text(text) => encoder.text(text)?,
            ValuePart::Case(class, name) => encoder.case(class, name)?,
            ValuePart::Begin(whole, count) => {
                let whole = match whole {
                    PhpWhole::List => PhpWhole::List,
                    PhpWhole::Map => PhpWhole::Map,
                    PhpWhole::Object(class) => PhpWhole::Object(class.as_slice()),
                    PhpWhole::State(class) => PhpWhole::State(class.as_slice()),
                    PhpWhole::Reference => PhpWhole::Reference,
                };
                encoder.begin(whole, *count)?;
            }
            ValuePart::Key(PhpKey::Int(number)) => encoder.key(PhpKey::Int(*number))?,
            ValuePart::Key(PhpKey::Text(text)) => encoder.key(PhpKey::Text(text.as_slice()))?,
            ValuePart::SameReference(number) => encoder.same_reference(*number)?,
            ValuePart::SameObject(number) => encoder.same_object(*number)?,
        }
    }
    encoder.finish()?;
    Ok(bytes)
}
