//! Links between rows, apart from the rest of a row.

use std::collections::HashSet;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::definition;

/// The member of a row that holds the links of relationships that only the other table shows.
pub const HIDDEN: &str = "$links";

/// Which members of a table's rows are no plain content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Columns that hold links.
    pub links: HashSet<String>,
    /// Columns that were left out.
    pub gone: HashSet<String>,
    /// Relationships that only the other table shows: its id and the key there.
    pub hidden: HashSet<(String, String)>,
}

/// A relationship that only the other table shows, where that table is not here or lacks it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Foreign {
    /// The table that shows it.
    pub table: String,
    /// Its key there.
    pub key: String,
}

/// Whether a row, as text, may have a member [`HIDDEN`]: so that it need not be taken apart where
/// it has none. A text that is the same word is taken for it.
pub fn may_have_hidden(row: &[u8]) -> bool {
    const MEMBER: &[u8] = b"\"$links\"";
    row.windows(MEMBER.len()).any(|part| part == MEMBER)
}

/// A row taken apart, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The row without links.
    pub plain: Vec<u8>,
    /// Its id and its links; `None` when it can have none.
    pub links: Option<Vec<u8>>,
    /// Whether one of the links leads anywhere.
    pub is_linked: bool,
    /// Relationships whose links are not among them, because they are not here.
    pub foreign: Vec<Foreign>,
}

impl Members {
    /// Those of a table that is there, whose rows are not to have hidden links.
    pub fn of_table(definition: &Value) -> Members {
        let columns = definition["columns"].as_array().into_iter().flatten();
        let holders = columns.filter(|column| definition::holds_links(column));
        let key = |column: &Value| column["key"].as_str().unwrap_or_default().to_owned();
        Members {
            links: holders.map(key).collect(),
            ..Members::default()
        }
    }

    /// Whether every member is plain content.
    pub fn are_plain(&self) -> bool {
        *self == Members::default()
    }

    /// Whether rows have links.
    pub fn have_links(&self) -> bool {
        !self.links.is_empty() || !self.hidden.is_empty()
    }

    /// Takes a row apart. What stays, stays as it is written.
    ///
    /// # Errors
    /// When it is no JSON object.
    pub fn split(&self, row: &[u8]) -> Result<Split> {
        let Raw(members) = serde_json::from_slice(row).context("a row is a JSON object")?;
        let (mut plain, mut links) = (Vec::new(), Vec::new());
        let (mut is_linked, mut foreign) = (false, Vec::new());
        for (key, text) in members {
            if self.links.contains(&key) {
                is_linked |= leads_anywhere(text);
                push(&mut links, &key, text.get());
            } else if key == HIDDEN {
                let hidden = self.hidden_links(text, &mut foreign)?;
                is_linked |= hidden.1;
                push(&mut links, HIDDEN, &hidden.0);
            } else if !self.gone.contains(&key) {
                if key == "$id" {
                    push(&mut links, &key, text.get());
                }
                push(&mut plain, &key, text.get());
            }
        }
        Ok(Split {
            plain: closed(plain),
            links: self.have_links().then(|| closed(links)),
            is_linked,
            foreign,
        })
    }

    /// Those hidden links whose relationships are there, and whether one leads anywhere.
    fn hidden_links(&self, text: &RawValue, foreign: &mut Vec<Foreign>) -> Result<(String, bool)> {
        let what = || format!("`{HIDDEN}` is a JSON object of JSON objects");
        let Raw(tables) = serde_json::from_str(text.get()).with_context(what)?;
        let (mut out, mut is_linked) = (Vec::new(), false);
        for (table, columns) in tables {
            let Raw(columns) = serde_json::from_str(columns.get()).with_context(what)?;
            let mut of_table = Vec::new();
            for (key, text) in columns {
                if self.hidden.contains(&(table.clone(), key.clone())) {
                    is_linked |= leads_anywhere(text);
                    push(&mut of_table, &key, text.get());
                } else {
                    let table = table.clone();
                    foreign.push(Foreign { table, key });
                }
            }
            if !of_table.is_empty() {
                let of_table = String::from_utf8(closed(of_table))?;
                push(&mut out, &table, &of_table);
            }
        }
        Ok((String::from_utf8(closed(out))?, is_linked))
    }
}

fn leads_anywhere(text: &RawValue) -> bool {
    !matches!(text.get(), "null" | "[]")
}

fn push(out: &mut Vec<u8>, key: &str, text: &str) {
    out.push(if out.is_empty() { b'{' } else { b',' });
    out.extend_from_slice(Value::from(key).to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(text.as_bytes());
}

fn closed(mut object: Vec<u8>) -> Vec<u8> {
    if object.is_empty() {
        object.push(b'{');
    }
    object.push(b'}');
    object
}

/// The members of an object in their order, with their text.
struct Raw<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Raw<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Raw<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Raw(members))
            }
        }
        from.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Members {
        Members {
            links: HashSet::from(["author".to_owned(), "tags".to_owned()]),
            gone: HashSet::from(["place".to_owned()]),
            hidden: HashSet::from([("shelves".to_owned(), "books".to_owned())]),
        }
    }

    #[test]
    fn remaining_members_keep_their_order_and_their_text() {
        let row = br#"{"$id":"b1", "n":1.50,"author":"a1","place":[1,2],"t":"\u00e9","tags":["x"],"$links":{"shelves":{"books":"s1","other":"s2"},"boxes":{"books":"x"}}}"#;
        let split = members().split(row).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(split.plain), r#"{"$id":"b1","n":1.50,"t":"\u00e9"}"#);
        assert_eq!(
            text(split.links.unwrap()),
            r#"{"$id":"b1","author":"a1","tags":["x"],"$links":{"shelves":{"books":"s1"}}}"#
        );
        assert!(split.is_linked);
        let foreign = |table: &str, key: &str| Foreign {
            table: table.to_owned(),
            key: key.to_owned(),
        };
        let wanted = [foreign("shelves", "other"), foreign("boxes", "books")];
        assert_eq!(split.foreign, wanted);
        assert!(may_have_hidden(row));
        assert!(!may_have_hidden(br#"{"$id":"b1","t":"a \"$links\" b"}"#));
        assert!(members().split(b"[1]").is_err());
    }

    #[test]
    fn a_row_without_links_is_told_from_one_that_cannot_have_any() {
        let row = br#"{"$id":"b1","author":null,"tags":null,"$links":{"shelves":{"books":null}}}"#;
        let split = members().split(row).unwrap();
        assert!(!split.is_linked && split.links.is_some());
        let none = Members::default();
        assert!(none.are_plain() && !members().are_plain());
        assert_eq!(none.split(br#"{"$id":"b1"}"#).unwrap().links, None);
    }
}
