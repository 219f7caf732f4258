//! The worked cases of the specification (`tests/cases`), played straight against the laws.
//!
//! Marks and the horizon are those of a writer with a test clock, which is a handful of lines
//! here. What needs more than the laws of one row is left out, by name.

mod json;
mod play;
mod read;
mod world;

use model::Json;

/// The cases that are not played here, and what they need.
const LEFT_OUT: [(&str, &str); 4] = [
    ("unique-over-valid-time", "constraints between rows"),
    ("unique-is-checked-at-commit", "constraints between rows"),
    ("temporal-reference", "constraints between rows"),
    ("listing-as-of", "filters, sorts and limits of a query"),
];

const SPECIFIED: &str = include_str!("../../../../tests/cases/bitemporal.json");
const FURTHER: &str = include_str!("../../../../tests/cases/bitemporal-further.json");
const BORDERS: &str = include_str!("../../../../tests/cases/bitemporal-borders.json");

fn cases(text: &str) -> Vec<(String, Json)> {
    let file = json::read(text);
    assert_eq!(file.get("format"), Some(&Json::Int(1)));
    let named = json::list(&file, "cases").iter().map(|case| {
        let name = json::text(case, "name").to_owned();
        (name, case.clone())
    });
    named.collect()
}

#[test]
fn every_case_is_played_or_left_out_by_name() {
    let cases = cases(SPECIFIED);
    let mut left_out: Vec<&str> = LEFT_OUT.iter().map(|(name, _)| *name).collect();
    for (name, case) in &cases {
        if left_out.contains(&name.as_str()) {
            left_out.retain(|left_out| left_out != name);
            assert!(play::needs_more(case), "{name} could be played");
        } else {
            play::play(name, case);
        }
    }
    assert!(left_out.is_empty(), "there is no case {left_out:?}");
    assert_eq!(cases.len(), 24);
}

#[test]
fn further_cases_are_played() {
    for (name, case) in &cases(FURTHER) {
        play::play(name, case);
    }
}

#[test]
fn cases_of_borders_are_played_where_laws_of_one_row_are_enough() {
    let cases = cases(BORDERS);
    let of_rows = cases.iter().filter(|(_, case)| !play::needs_more(case));
    let played = of_rows.inspect(|(name, case)| play::play(name, case));
    assert!(played.count() >= 20, "of {}", cases.len());
}
