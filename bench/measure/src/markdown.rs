//! What every report in Markdown has: tables, and pairs at its head.

use std::fmt::Display;

use serde_json::Value;

/// A table; `head` names the columns, parted by `|`.
pub fn table(head: &str, rows: Vec<Vec<String>>) -> String {
    let head = heads(head);
    let rule = (0..head.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned());
    let lines = [vec![head.clone(), rule.collect()], rows].concat();
    let lines = lines
        .iter()
        .map(|cells| format!("| {} |\n", cells.join(" | ")));
    lines.collect()
}

/// Names of columns, parted by `|`.
pub fn heads(text: &str) -> Vec<String> {
    text.split('|').map(str::to_owned).collect()
}

/// A number to so many places, or a dash.
pub fn or_dash(number: Option<f64>, places: usize) -> String {
    number.map_or("–".to_owned(), |number| format!("{number:.places$}"))
}

/// A number to the unit.
pub fn whole(number: f64) -> String {
    or_dash(Some(number), 0)
}

/// A number to two places.
pub fn hundredths(number: f64) -> String {
    or_dash(Some(number), 2)
}

/// Pairs as YAML. A JSON scalar is a YAML scalar, so every value is quoted as it must be.
pub fn front_matter<K: Display>(pairs: impl IntoIterator<Item = (K, Value)>) -> String {
    let lines = pairs
        .into_iter()
        .map(|(key, value)| format!("{key}: {value}\n"));
    format!("---\n{}---\n", lines.collect::<String>())
}
