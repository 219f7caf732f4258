//! JSON text to [`model::Json`], the one way in for anything a client writes.
//!
//! One pass, no tree in between: a body of 20 MB is read in time linear to its length.

use std::cell::Cell;
use std::fmt;

use model::Json;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Deepest nesting of arrays and objects. Row content is flat and queries nest a few levels;
/// the bound keeps a hostile text from using up the stack.
pub const DEPTH_MAX: usize = 64;

/// Why a text is no JSON value. Says where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Line of the text, from 1.
    pub line: usize,
    /// Byte of the line, from 1; 0 when the text ended too soon at a line's start.
    pub column: usize,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at line {}, column {}",
            self.why, self.line, self.column
        )
    }
}

impl std::error::Error for JsonError {}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> JsonError {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let place = format!(" at line {line} column {column}");
        let why = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        JsonError { line, column, why }
    }
}

/// Memory for the arrays and objects of one text: their elements and members, without the bytes of
/// strings, which are never more than the text has. Of a text of brackets they take 40 times its
/// length.
#[derive(Debug)]
pub struct JsonBudget {
    left: Cell<usize>,
    bytes_max: usize,
    is_exceeded: Cell<bool>,
}

impl JsonBudget {
    /// A budget of which nothing is taken.
    pub fn new(bytes_max: usize) -> JsonBudget {
        JsonBudget {
            left: Cell::new(bytes_max),
            bytes_max,
            is_exceeded: Cell::new(false),
        }
    }

    /// Bytes that have been taken.
    pub fn taken(&self) -> usize {
        self.bytes_max - self.left.get()
    }

    /// Whether a text was refused because it needed more.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.get()
    }

    /// Adds `one`, and counts what that allocates.
    fn push<T, E: Error>(&self, all: &mut Vec<T>, one: T) -> Result<(), E> {
        if all.len() == all.capacity() {
            let more = all.capacity().max(GROWTH_MIN);
            let Some(left) = self.left.get().checked_sub(more * size_of::<T>()) else {
                self.is_exceeded.set(true);
                let bytes_max = self.bytes_max;
                return Err(E::custom(format_args!(
                    "arrays and objects that take more than {bytes_max} bytes of memory"
                )));
            };
            self.left.set(left);
            all.reserve_exact(more);
        }
        all.push(one);
        Ok(())
    }
}

/// Elements that a list has room for once it has one.
const GROWTH_MIN: usize = 4;

/// Reads one JSON value; nothing but white space may follow it.
///
/// # Errors
/// As for [`read_within`], of which there is no bound.
pub fn read(text: &[u8]) -> Result<Json, JsonError> {
    read_within(text, &JsonBudget::new(usize::MAX))
}

/// As [`read`], of a text that may be of any length and comes from an unknown sender.
///
/// # Errors
/// [`JsonError`] when the text is not JSON or not UTF-8, nests deeper than [`DEPTH_MAX`], holds
/// a number beyond the doubles, or an escape that is half of a surrogate pair; or when there is
/// not enough `budget` for it.
pub fn read_within(text: &[u8], budget: &JsonBudget) -> Result<Json, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let json = JsonReader { depth: 0, budget }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(json)
}

/// Reads one value that stands inside `depth` arrays and objects.
#[derive(Clone, Copy)]
struct JsonReader<'a> {
    depth: usize,
    budget: &'a JsonBudget,
}

impl<'a> JsonReader<'a> {
    fn inner<E: Error>(self) -> Result<JsonReader<'a>, E> {
        if self.depth == DEPTH_MAX {
            return Err(E::custom(format_args!(
                "more than {DEPTH_MAX} arrays and objects inside each other"
            )));
        }
        Ok(JsonReader {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for JsonReader<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonReader<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Json, E> {
        Ok(Json::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(i64::try_from(number).map_or(Json::Wide(number), Json::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(inner)? {
            self.budget.push(&mut list, element)?;
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut object = Vec::new();
        while let Some(key) = members.next_key::<String>()? {
            let member = (key, members.next_value_seed(inner)?);
            self.budget.push(&mut object, member)?;
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Json) {
        assert_eq!(read(text.as_bytes()), Ok(expected), "{text}");
    }

    #[track_caller]
    fn check_refused(text: &[u8], fragment: &str) {
        let error = read(text).expect_err("the text is not JSON").to_string();
        assert!(error.contains(fragment), "{error}");
    }

    #[test]
    fn integers_keep_their_width() {
        check("9223372036854775807", Json::Int(i64::MAX));
        check("-9223372036854775808", Json::Int(i64::MIN));
        check("9223372036854775808", Json::Wide(1 << 63));
        check("18446744073709551615", Json::Wide(u64::MAX));
        check(
            "18446744073709551616",
            Json::Float(18_446_744_073_709_551_616.0),
        );
        check("5.0", Json::Float(5.0));
        check("1e2", Json::Float(100.0));
    }

    #[test]
    fn of_equal_keys_the_last_one_counts() {
        let object = read(br#"{"a":1,"b":2,"a":[null,true]}"#).unwrap();
        let last = Json::List(vec![Json::Null, Json::Bool(true)]);
        assert_eq!(object.get("a"), Some(&last));
    }

    #[test]
    fn strings_are_unescaped() {
        check(r#""\u00e9\ud83d\ude00\n""#, Json::Text("é😀\n".into()));
    }

    #[test]
    fn malformed_json_is_refused_with_its_place() {
        check_refused(b"{\n  \"a\": tru }", "at line 2, column ");
        check_refused(b"", "EOF while parsing a value at line 1, column 0");
        check_refused(b"1 2", "trailing characters at line 1, column 3");
        check_refused(br#""\ud800""#, "hex escape");
        check_refused(br#""\ud800x""#, "hex escape");
        check_refused(br#""\udc00""#, "surrogate");
        check_refused(b"\"\xff\"", "unicode");
        check_refused(b"1e999", "number out of range");
        check_refused(b"NaN", "expected");
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(DEPTH_MAX).as_bytes()).is_ok());
        check_refused(nested(DEPTH_MAX + 1).as_bytes(), "more than 64 arrays");
        let objects = r#"{"a":"#.repeat(100_000);
        check_refused(objects.as_bytes(), "more than 64 arrays");
    }

    #[test]
    fn arrays_and_objects_take_no_more_memory_than_there_is_room_for() {
        let (value, member) = (size_of::<Json>(), size_of::<(String, Json)>());
        for (unit, each) in [
            ("0", value),
            ("[]", value),
            ("[0]", value + GROWTH_MIN * value),
            ("{\"\":0}", value + GROWTH_MIN * member),
        ] {
            let text = format!("[{}]", vec![unit; 1_024].join(","));
            let budget = JsonBudget::new(1_024 * each);
            assert!(read_within(text.as_bytes(), &budget).is_ok(), "{unit}");
            assert_eq!(budget.taken(), 1_024 * each, "{unit}");
            let less = JsonBudget::new(1_024 * each - 1);
            let refused = read_within(text.as_bytes(), &less).unwrap_err();
            assert!(less.is_exceeded(), "{refused}");
        }
        let broken = JsonBudget::new(1_000);
        assert!(read_within(b"[1,", &broken).is_err() && !broken.is_exceeded());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }

        #[test]
        fn doubles_come_back_bit_for_bit(number in proptest::num::f64::NORMAL) {
            let text = format!("{number:e}");
            proptest::prop_assert_eq!(read(text.as_bytes()), Ok(Json::Float(number)));
        }
    }
}
