//! Aligned columns for a terminal.

/// Lines under their heads, each column as wide as its widest cell; the last is not padded.
pub fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([head[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let heads = std::iter::once(line(head.to_vec()));
    let rows = rows
        .iter()
        .map(|row| line(row.iter().map(String::as_str).collect()));
    heads.chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["é".to_owned(), "x".to_owned()],
            vec!["long".to_owned(), String::new()],
        ];
        assert_eq!(
            render(&["ID", "NAME"], &rows),
            "ID    NAME\né     x\nlong\n"
        );
    }
}
