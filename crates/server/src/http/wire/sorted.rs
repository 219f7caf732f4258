//! Answers of our own routes: they are put together from parts that are written already, and the
//! members of their objects stand in the order of their names.

use std::collections::BTreeMap;

use model::{Json, Table, Value};
use serde::{Serialize, Serializer};

use super::{array, json, value};

/// JSON that is written already.
pub type WrittenJson = Vec<u8>;

/// `value` as JSON.
pub fn written<T: Serialize + ?Sized>(value: &T) -> WrittenJson {
    let mut out = Vec::new();
    json(&mut out, value);
    out
}

/// An array.
pub fn written_array(elements: impl IntoIterator<Item = WrittenJson>) -> WrittenJson {
    let mut out = Vec::new();
    array(&mut out, elements, |element, out| out.extend(element));
    out
}

/// An object. Of members with one name the last one counts.
#[derive(Clone, Debug, Default)]
pub struct SortedObject<'a>(BTreeMap<&'a str, WrittenJson>);

impl<'a> SortedObject<'a> {
    /// The columns of a row that have a value. Of relationships those that the row itself holds
    /// are shown, as ids.
    pub fn of_columns(table: &'a Table, values: &[Value]) -> SortedObject<'a> {
        let columns = table.columns.iter().zip(values);
        let shown = columns.filter(|(column, value)| **value != Value::Null && !column.is_hidden());
        let members = shown.map(|(column, content)| {
            let mut out = Vec::new();
            value(&mut out, content);
            (column.key.as_str(), out)
        });
        SortedObject(members.collect())
    }

    /// Sets a member.
    pub fn set(&mut self, name: &'a str, written: WrittenJson) {
        self.0.insert(name, written);
    }

    /// Sets the members of another object.
    pub fn extend(&mut self, other: SortedObject<'a>) {
        self.0.extend(other.0);
    }

    /// The object as JSON.
    pub fn written(self) -> WrittenJson {
        // Names, quotes, colons and commas; escapes in names are rare.
        let members = self.0.iter();
        let bytes: usize = members
            .map(|(name, json)| name.len() + json.len() + 4)
            .sum();
        let mut out = Vec::with_capacity(bytes + 2);
        out.push(b'{');
        for (name, member) in self.0 {
            if out.len() > 1 {
                out.push(b',');
            }
            json(&mut out, name);
            out.push(b':');
            out.extend(member);
        }
        out.push(b'}');
        out
    }
}

impl<'a, const COUNT: usize> From<[(&'a str, WrittenJson); COUNT]> for SortedObject<'a> {
    fn from(members: [(&'a str, WrittenJson); COUNT]) -> SortedObject<'a> {
        SortedObject(members.into())
    }
}

/// What a client sent, in one form whatever the order of its members was.
pub struct SentJson<'a>(pub &'a Json);

impl Serialize for SentJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(truth) => truth.serialize(serializer),
            Json::Int(number) => number.serialize(serializer),
            Json::Wide(number) => number.serialize(serializer),
            Json::Float(number) => number.serialize(serializer),
            Json::Text(text) => text.serialize(serializer),
            Json::List(elements) => serializer.collect_seq(elements.iter().map(SentJson)),
            Json::Object(members) => {
                let members = members.iter().map(|(name, json)| (name, SentJson(json)));
                serializer.collect_map(members.collect::<BTreeMap<_, _>>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_the_order_of_their_names() {
        let mut object = SortedObject::from([("b", written("x\"y")), ("a\"", written(&1))]);
        object.set("Z", written_array([written(&true), written(&())]));
        object.set("b", SortedObject::default().written());
        let text = String::from_utf8(object.written()).unwrap();
        assert_eq!(text, r#"{"Z":[true,null],"a\"":1,"b":{}}"#);
    }

    #[test]
    fn sent_json_has_one_form() {
        for (sent, form) in [
            ("null", "null"),
            ("[1, 1.0, 1e300, -0.0]", "[1,1.0,1e+300,-0.0]"),
            ("18446744073709551615", "18446744073709551615"),
            (
                r#"{"b":{"d":"\u00e9\u000a","c":[{}]},"a":1,"a":false}"#,
                r#"{"a":false,"b":{"c":[{}],"d":"é\n"}}"#,
            ),
        ] {
            let read = engine::read_json(sent.as_bytes()).unwrap();
            assert_eq!(written(&SentJson(&read)), form.as_bytes(), "{sent}");
        }
    }
}
