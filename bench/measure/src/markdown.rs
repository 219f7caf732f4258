//! What every report in Markdown has: tables, and pairs at its head.

use serde_json::Value;

/// A table; `head` names the columns, parted by `|`.
pub fn table(head: &str, rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.split('|').map(str::to_owned).collect();
    let rule = (0..head.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned());
    let lines = [vec![head.clone(), rule.collect()], rows].concat();
    let lines = lines
        .iter()
        .map(|cells| format!("| {} |\n", cells.join(" | ")));
    lines.collect()
}

/// Pairs as YAML. A JSON scalar is a YAML scalar, so every value is quoted as it must be.
pub fn front_matter(pairs: &[(&'static str, Value)]) -> String {
    let lines = pairs.iter().map(|(key, value)| format!("{key}: {value}\n"));
    format!("---\n{}---\n", lines.collect::<String>())
}
