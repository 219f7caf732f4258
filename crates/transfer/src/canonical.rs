//! Rows of any compatible server in one form, so that two servers' rows can be compared.

use model::calendar::{iso_ms, parse_iso};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

use super::definition::is_relationship;

/// How many rows there are, and a sum of their digests that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// How many rows.
    pub rows: u64,
    sum: [u64; 4],
}

impl Checksum {
    /// Takes a row in, given in its canonical form.
    pub fn add(&mut self, row: &str) {
        let digest = digest(&SHA256, row.as_bytes());
        for (sum, bytes) in self.sum.iter_mut().zip(digest.as_ref().chunks_exact(8)) {
            let word = u64::from_be_bytes(bytes.try_into().expect("chunks have 8 bytes"));
            // A sum, not an exclusive or: a row that is there twice must not cancel itself.
            *sum = sum.wrapping_add(word);
        }
        self.rows += 1;
    }

    /// The first 16 hexadecimal digits, enough for eyes.
    pub fn shown(&self) -> String {
        format!("{:016x}", self.sum[0])
    }
}

/// A row as a line of an export, with the columns of `definition` and no others, and no links.
///
/// Instants are written with milliseconds in UTC, as the protocol does; servers that give other
/// forms of the same instant give the same line.
pub fn line(row: &Map<String, Value>, definition: &Value) -> String {
    let mut members = vec![
        member("$id", &row["$id"]),
        member("$createdAt", &instant(row.get("$createdAt"))),
        member("$updatedAt", &instant(row.get("$updatedAt"))),
        member(
            "$permissions",
            row.get("$permissions").unwrap_or(&Value::Null),
        ),
    ];
    for column in columns(definition) {
        let key = column["key"].as_str().unwrap_or_default();
        members.push(member(key, &content(row.get(key), column)));
    }
    format!("{{{}}}", members.join(","))
}

/// The form that is compared: a line whose permissions are sorted, because their order has no
/// meaning, and whose lists without a value are empty, because answers show them so.
pub fn compared(row: &Map<String, Value>, definition: &Value) -> String {
    let mut row = row.clone();
    if let Some(Value::Array(permissions)) = row.get_mut("$permissions") {
        permissions.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        permissions.dedup();
    }
    for column in columns(definition).filter(|column| column["array"] == true) {
        let key = column["key"].as_str().unwrap_or_default();
        let cell = row.entry(key).or_insert(Value::Null);
        if cell.is_null() {
            *cell = Value::Array(Vec::new());
        }
    }
    line(&row, definition)
}

fn columns(definition: &Value) -> impl Iterator<Item = &Value> {
    let columns = definition["columns"].as_array().into_iter().flatten();
    columns.filter(|column| !is_relationship(column))
}

fn member(key: &str, value: &Value) -> String {
    format!("{}:{value}", Value::String(key.to_owned()))
}

fn instant(value: Option<&Value>) -> Value {
    let text = value.and_then(Value::as_str);
    match text.and_then(parse_iso) {
        Some(instant) => Value::String(iso_ms(instant.cut_to_ms())),
        None => value.cloned().unwrap_or_default(),
    }
}

fn content(value: Option<&Value>, column: &Value) -> Value {
    match value {
        Some(Value::Array(elements)) => elements.iter().map(|one| single(one, column)).collect(),
        Some(value) => single(value, column),
        None => Value::Null,
    }
}

fn single(value: &Value, column: &Value) -> Value {
    match column["type"].as_str().unwrap_or_default() {
        "datetime" => instant(Some(value)),
        // `4` and `4.0` are one double; no double is negative zero here.
        "double" | "float" => match value.as_f64() {
            Some(number) => Value::from(number + 0.0),
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition() -> Value {
        json!({"columns": [
            {"key": "at", "type": "datetime"},
            {"key": "score", "type": "double", "array": true},
            {"key": "n", "type": "integer"},
        ]})
    }

    fn row(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn other_forms_of_the_same_row_give_the_same_text() {
        let one = row(json!({
            "$id": "a", "$createdAt": "2026-01-01T00:00:00.000+00:00", "$updatedAt": "2026-01-01",
            "$permissions": ["read(\"b\")", "read(\"a\")"], "$sequence": 5, "$tableId": "t",
            "at": "2026-01-31T12:00:00.000+02:00", "score": [4, -0.0, 0.1], "n": null, "more": 1,
        }));
        let other = row(json!({
            "$id": "a", "$createdAt": "2026-01-01T00:00:00Z", "$updatedAt": "2026-01-01",
            "$permissions": ["read(\"a\")", "read(\"b\")"], "$sequence": "7",
            "at": "2026-01-31T10:00:00Z", "score": [4.0, 0.0, 0.1],
        }));
        assert_eq!(
            compared(&one, &definition()),
            compared(&other, &definition())
        );
        assert_eq!(
            compared(&one, &definition()),
            "{\"$id\":\"a\",\"$createdAt\":\"2026-01-01T00:00:00.000+00:00\",\
             \"$updatedAt\":\"2026-01-01T00:00:00.000+00:00\",\
             \"$permissions\":[\"read(\\\"a\\\")\",\"read(\\\"b\\\")\"],\
             \"at\":\"2026-01-31T10:00:00.000+00:00\",\"score\":[4.0,0.0,0.1],\"n\":null}"
        );
    }

    #[test]
    fn a_checksum_sees_every_row_and_no_order() {
        let sum = |rows: &[&str]| {
            let mut sum = Checksum::default();
            for row in rows {
                sum.add(row);
            }
            sum
        };
        assert_eq!(sum(&["a", "b", "c"]), sum(&["c", "a", "b"]));
        assert_ne!(sum(&["a", "b"]), sum(&["a", "c"]));
        assert_ne!(sum(&["a", "a"]), sum(&["b", "b"]));
        assert_ne!(sum(&["a", "a"]).shown(), sum(&[]).shown());
    }
}
