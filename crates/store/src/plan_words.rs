//! What the names in a database's plan stand for.

use std::collections::HashMap;

use model::Table;
use query::names;

/// Most steps that are shown; a plan of ours has under ten.
pub(crate) const STEPS_MAX: usize = 32;

/// Physical names, and what users call what they stand for.
pub(crate) fn words(table: &Table) -> HashMap<String, String> {
    let (number, id) = (table.number, table.id.as_str());
    let mut words = HashMap::from([
        (names::now(number), id.to_owned()),
        (names::versions(number), format!("{id} (history)")),
        (names::grants(number), format!("{id} (grants)")),
        (names::id_index(number), "$id".to_owned()),
        (names::role_index(number), "the grants of a role".to_owned()),
        (
            names::grants_index(number),
            "the grants of a row".to_owned(),
        ),
    ]);
    for column in &table.columns {
        words.insert(names::column(column.number), column.key.as_str().to_owned());
    }
    for index in &table.indexes {
        let key = index.key.as_str();
        words.insert(names::index(number, index.number), key.to_owned());
        words.insert(names::versions_index(number, index.number), key.to_owned());
        words.insert(names::fulltext(number, index.number), key.to_owned());
    }
    words
}

/// A text with every whole word replaced that stands for another one.
pub(crate) fn translated(text: &str, words: &HashMap<String, String>) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut translation = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        translation.push_str(words.get(word).map_or(word, String::as_str));
        let next = after.find(is_part).unwrap_or(after.len());
        let (between, after) = after.split_at(next);
        translation.push_str(between);
        rest = after;
    }
    translation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_translated_and_parts_of_words_are_not() {
        let words = HashMap::from([
            ("t1".to_owned(), "books".to_owned()),
            ("t1_i2".to_owned(), "by_year".to_owned()),
            ("c3".to_owned(), "year".to_owned()),
        ]);
        let translation = |text| translated(text, &words);
        assert_eq!(
            translation("SEARCH t USING INDEX t1_i2 (c3=? AND c3>?)"),
            "SEARCH t USING INDEX by_year (year=? AND year>?)"
        );
        assert_eq!(translation("SCAN t1"), "SCAN books");
        assert_eq!(translation("t12 c33 (t1)"), "t12 c33 (books)");
        assert_eq!(translation(""), "");
    }
}
