//! Tables of the documentation against what the code knows.

/// Holds the rows of a page's table to what the code knows, in the order of the code.
///
/// # Panics
/// When they differ; the message names each row that the page lacks or has too many.
#[track_caller]
pub fn assert_rows(page: &str, listed: &[impl AsRef<str>], known: &[impl AsRef<str>]) {
    let listed: Vec<&str> = listed.iter().map(AsRef::as_ref).collect();
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    if let Some(difference) = difference(&listed, &known) {
        panic!("{page} {difference}");
    }
}

fn difference(listed: &[&str], known: &[&str]) -> Option<String> {
    let without = |rows: &[&str], others: &[&str]| -> Vec<String> {
        let lone = rows.iter().filter(|row| !others.contains(*row));
        lone.map(|row| (*row).to_owned()).collect()
    };
    let (missing, unknown) = (without(known, listed), without(listed, known));
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("lacks these rows:\n{}", missing.join("\n")));
    }
    if !unknown.is_empty() {
        let rows = unknown.join("\n");
        parts.push(format!("has rows that the code does not know:\n{rows}"));
    }
    if parts.is_empty() && listed != known {
        let mut pairs = listed.iter().zip(known);
        let (row, before) = pairs.find(|(row, known)| row != known)?;
        parts.push(format!("has the row\n{row}\nwhere the code has\n{before}"));
    }
    (!parts.is_empty()).then(|| parts.join("\nand "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_rows_that_differ() {
        assert_eq!(difference(&["a", "b"], &["a", "b"]), None);
        let missing = difference(&["a", "c"], &["a", "b", "c"]).unwrap();
        assert_eq!(missing, "lacks these rows:\nb");
        let changed = difference(&["a", "c"], &["a", "b"]).unwrap();
        let unknown = "has rows that the code does not know:\nc";
        assert_eq!(changed, format!("lacks these rows:\nb\nand {unknown}"));
        let moved = difference(&["b", "a"], &["a", "b"]).unwrap();
        assert_eq!(moved, "has the row\nb\nwhere the code has\na");
    }
}
