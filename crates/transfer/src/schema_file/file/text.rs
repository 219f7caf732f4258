//! The text of a schema file: one line for each column and index.

use std::fmt::Write as _;

use serde::Serialize;

use super::{FORMAT, FileConstraints, FileDatabase, FileTable, SchemaFile};

impl SchemaFile {
    /// The text of the file.
    pub fn text(&self) -> String {
        let mut out = format!("{{\n  \"format\": \"{FORMAT}\",\n  \"databases\": [");
        for (nth, database) in self.databases.iter().enumerate() {
            out += if nth == 0 { "\n" } else { ",\n" };
            database.write(&mut out);
        }
        out += if self.databases.is_empty() {
            "]\n}\n"
        } else {
            "\n  ]\n}\n"
        };
        out
    }
}

impl FileDatabase {
    fn write(&self, out: &mut String) {
        let _ = write!(out, "    {{\n      \"id\": {},\n", json(&self.id));
        let _ = writeln!(out, "      \"name\": {},", json(&self.name));
        if !self.enabled {
            *out += "      \"enabled\": false,\n";
        }
        *out += "      \"tables\": [";
        for (nth, table) in self.tables.iter().enumerate() {
            *out += if nth == 0 { "\n" } else { ",\n" };
            table.write(out);
        }
        *out += if self.tables.is_empty() {
            "]\n    }"
        } else {
            "\n      ]\n    }"
        };
    }
}

impl FileTable {
    fn write(&self, out: &mut String) {
        let mut members = vec![
            format!("\"id\": {}", json(&self.id)),
            format!("\"name\": {}", json(&self.name)),
        ];
        if !self.enabled {
            members.push("\"enabled\": false".to_owned());
        }
        members.push(format!("\"permissions\": {}", json(&self.permissions)));
        members.push(format!("\"rowSecurity\": {}", self.row_security));
        if let Some(options) = &self.options {
            members.push(format!("\"options\": {}", json(options)));
        }
        if self.constraints != FileConstraints::default() {
            members.push(format!("\"constraints\": {}", json(&self.constraints)));
        }
        members.push(format!("\"columns\": {}", lines(&self.columns)));
        members.push(format!("\"indexes\": {}", lines(&self.indexes)));
        let members = members.join(",\n          ");
        let _ = write!(out, "        {{\n          {members}\n        }}");
    }
}

/// A list with one line for each item.
fn lines<T: Serialize>(items: &[T]) -> String {
    if items.is_empty() {
        return "[]".to_owned();
    }
    let items: Vec<String> = items.iter().map(json).collect();
    format!(
        "[\n            {}\n          ]",
        items.join(",\n            ")
    )
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists of them are JSON")
}
