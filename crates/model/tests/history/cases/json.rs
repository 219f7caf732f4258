//! JSON as far as the case files use it. The model reads none, so its tests bring their own.

use std::str::Chars;

use model::Json;

pub fn read(text: &str) -> Json {
    let mut reader = Reader { rest: text.chars() };
    let json = reader.value();
    assert_eq!(reader.peek(), None, "nothing follows a value");
    json
}

/// With the members of every object in the order of their keys, so that equal ones are equal.
pub fn sorted(json: Json) -> Json {
    match json {
        Json::List(values) => Json::List(values.into_iter().map(sorted).collect()),
        Json::Object(members) => {
            let members = members.into_iter();
            let mut members: Vec<(String, Json)> =
                members.map(|(key, value)| (key, sorted(value))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            Json::Object(members)
        }
        other => other,
    }
}

pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    sorted(Json::Object(
        members.map(|(key, value)| (key.to_owned(), value)).into(),
    ))
}

pub fn need<'a>(json: &'a Json, key: &str) -> &'a Json {
    let member = json.get(key);
    member.unwrap_or_else(|| panic!("no `{key}` in {json:?}"))
}

pub fn text<'a>(json: &'a Json, key: &str) -> &'a str {
    need(json, key).as_str().expect("a string")
}

pub fn list<'a>(json: &'a Json, key: &str) -> &'a [Json] {
    match need(json, key) {
        Json::List(values) => values,
        other => panic!("`{key}` is {other:?}"),
    }
}

pub fn int(json: &Json) -> i64 {
    match json {
        Json::Int(int) => *int,
        other => panic!("{other:?} is no integer"),
    }
}

struct Reader<'a> {
    rest: Chars<'a>,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.as_str().trim_start().chars();
        self.rest.clone().next()
    }

    fn take(&mut self, expected: &str) {
        self.peek();
        let rest = self.rest.as_str();
        let after = rest.strip_prefix(expected);
        let after = after.unwrap_or_else(|| panic!("no `{expected}` at `{rest:.40}`"));
        self.rest = after.chars();
    }

    fn value(&mut self) -> Json {
        match self.peek() {
            Some('{') => Json::Object(self.members("{", "}", |reader| {
                let key = reader.string();
                reader.take(":");
                (key, reader.value())
            })),
            Some('[') => Json::List(self.members("[", "]", Reader::value)),
            Some('"') => Json::Text(self.string()),
            Some('n') => self.word("null", Json::Null),
            Some('t') => self.word("true", Json::Bool(true)),
            Some('f') => self.word("false", Json::Bool(false)),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str, json: Json) -> Json {
        self.take(word);
        json
    }

    fn members<T>(&mut self, open: &str, close: &str, member: impl Fn(&mut Self) -> T) -> Vec<T> {
        self.take(open);
        let mut members = Vec::new();
        while self.peek() != close.chars().next() {
            if !members.is_empty() {
                self.take(",");
            }
            members.push(member(self));
        }
        self.take(close);
        members
    }

    /// Without escapes: the files have none.
    fn string(&mut self) -> String {
        self.take("\"");
        let (text, rest) = self.rest.as_str().split_once('"').expect("a string ends");
        assert!(!text.contains('\\'), "`{text}` has an escape");
        self.rest = rest.chars();
        text.to_owned()
    }

    fn number(&mut self) -> Json {
        let rest = self.rest.as_str();
        let is_other = |c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = rest.find(is_other).unwrap_or(rest.len());
        let (number, rest) = rest.split_at(end);
        self.rest = rest.chars();
        match number.parse() {
            Ok(int) => Json::Int(int),
            Err(_) => Json::Float(number.parse().expect("a number")),
        }
    }
}
