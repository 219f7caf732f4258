//! What `incr` makes of a value, without PHP: it happens while a part of the file is locked.

use php_codec::{PhpBuilder, PhpDecoder, PhpEncoder, PhpKey, PhpRefusal, PhpScalar, PhpWhole};

/// A number as PHP has it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PhpNumber {
    Int(i64),
    Float(f64),
}

/// Takes the number of a value, and 0 of what is none.
struct NumberFound(Option<PhpNumber>);

impl<'a> PhpBuilder<&'a [u8]> for NumberFound {
    fn scalar(&mut self, scalar: PhpScalar) -> bool {
        self.0 = match scalar {
            PhpScalar::Int(number) => Some(PhpNumber::Int(number)),
            PhpScalar::Float(number) => Some(PhpNumber::Float(number)),
            PhpScalar::Null | PhpScalar::Bool(_) => None,
        };
        true
    }

    fn text(&mut self, text: &'a [u8]) -> bool {
        self.0 = number_in(text);
        true
    }

    fn case(&mut self, _: &'a [u8], _: &'a [u8]) -> bool {
        false
    }

    fn begin(&mut self, _: PhpWhole<&'a [u8]>, _: usize) -> bool {
        false
    }

    fn key(&mut self, _: PhpKey<&'a [u8]>) -> bool {
        false
    }

    fn end(&mut self) -> bool {
        false
    }

    fn same_reference(&mut self, _: u64) -> bool {
        false
    }

    fn same_object(&mut self, _: u64) -> bool {
        false
    }
}

/// The number that a text is, by the rules of `is_numeric`.
fn number_in(text: &[u8]) -> Option<PhpNumber> {
    let is_space = |byte: &u8| b" \t\n\r\x0b\x0c".contains(byte);
    let begin = text.iter().position(|byte| !is_space(byte))?;
    let end = text.iter().rposition(|byte| !is_space(byte))? + 1;
    let text = std::str::from_utf8(&text[begin..end]).ok()?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    // Rust reads more as a number: `inf`, `nan`.
    let first = digits.bytes().find(|byte| *byte != b'.')?;
    if !first.is_ascii_digit() || digits.starts_with("..") {
        return None;
    }
    match text.parse() {
        Ok(number) => Some(PhpNumber::Int(number)),
        Err(_) => text.parse().ok().map(PhpNumber::Float),
    }
}

fn sum(number: PhpNumber, offset: i64) -> i64 {
    match number {
        PhpNumber::Int(number) => number.saturating_add(offset).max(0),
        // The conversion keeps to the ends of the integers, and makes 0 of what is no number.
        PhpNumber::Float(number) => ((number + offset as f64) as i64).max(0),
    }
}

/// The new number, and its bytes; `None` if there are no such bytes.
pub fn raised(value: &[u8], offset: i64) -> Option<(i64, Vec<u8>)> {
    let mut found = NumberFound(None);
    match PhpDecoder::new(value, false).build(&mut found) {
        // An array or an object counts as 0.
        Ok(()) | Err(PhpRefusal::Part | PhpRefusal::Class) => {}
        Err(_) => return None,
    }
    let number = sum(found.0.unwrap_or(PhpNumber::Int(0)), offset);
    let mut bytes = Vec::with_capacity(16);
    let mut encoder = PhpEncoder::new(&mut bytes);
    encoder.scalar(PhpScalar::Int(number)).ok()?;
    encoder.finish().ok()?;
    Some((number, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = PhpEncoder::new(&mut bytes);
        encoder.text(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
        bytes
    }

    #[test]
    fn numbers_in_texts_are_those_of_php() {
        let cases = [
            ("5", 1, 6),
            (" 5", 1, 6),
            ("5 \n", 1, 6),
            ("+5", 1, 6),
            ("-5", 1, 0),
            ("1.5", 1, 2),
            (".5", 1, 1),
            ("5.", 1, 6),
            ("1e3", 1, 1_001),
            ("9223372036854775807", 1, i64::MAX),
            ("92233720368547758070", 1, i64::MAX),
            ("inf", 1, 1),
            ("nan", 1, 1),
            ("0x10", 1, 1),
            ("five", 1, 1),
            ("5five", 1, 1),
            ("", 3, 3),
            (".", 3, 3),
            ("..5", 3, 3),
        ];
        for (value, offset, expected) in cases {
            let (number, bytes) = raised(&text(value), offset).unwrap();
            assert_eq!(number, expected, "{value:?}");
            assert_eq!(raised(&bytes, 0).unwrap().0, expected);
        }
    }

    #[test]
    fn number_never_leaves_the_integers() {
        assert_eq!(sum(PhpNumber::Int(i64::MAX), 1), i64::MAX);
        assert_eq!(sum(PhpNumber::Int(3), i64::MIN), 0);
        assert_eq!(sum(PhpNumber::Float(f64::NAN), 1), 0);
        assert_eq!(sum(PhpNumber::Float(f64::INFINITY), 1), i64::MAX);
        assert_eq!(sum(PhpNumber::Float(-0.5), 1), 0);
    }
}
