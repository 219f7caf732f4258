//! Tables in Markdown, as every report has them.

/// A Markdown table; `head` names the columns, parted by `|`.
pub fn table(head: &str, rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.split('|').map(str::to_owned).collect();
    let rule = (0..head.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned());
    let lines = [vec![head.clone(), rule.collect()], rows].concat();
    let lines = lines
        .iter()
        .map(|cells| format!("| {} |\n", cells.join(" | ")));
    lines.collect()
}
