//! A number with its noun, for sentences that people read.

/// `1 row`, `2 rows`: the noun gets an `s` unless there is one of them.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_has_no_plural() {
        let rows = [0, 1, 2].map(|count| counted(count, "row"));
        assert_eq!(rows, ["0 rows", "1 row", "2 rows"]);
    }
}
