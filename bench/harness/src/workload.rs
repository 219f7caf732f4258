//! The committed workloads of `bench/workloads`: lists, and who writes what beside them.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result, ensure};
use scenarios::seed::list_route;
use serde::Deserialize;
use serde_json::Value;

const MIXED: &str = include_str!("../../workloads/mixed.toml");
const WRITERS_EQUALITY: &str = include_str!("../../workloads/writers-equality.toml");
const WRITERS_RANGE: &str = include_str!("../../workloads/writers-range.toml");

/// Reads and writes at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixed {
    /// What every draw begins with.
    pub seed: u64,
    /// Rows of the catalog before the first request.
    pub rows: u32,
    /// Clients at the same time.
    pub connections: u32,
    /// The server's setting.
    pub durability: String,
    /// Of the weights of lists.
    pub zipf_exponent: f64,
    /// Of the writes.
    pub insert_percent: u32,
    /// What updates change.
    pub columns: Vec<Changing>,
    /// Beside the catalog's own: the columns of each.
    #[serde(default)]
    pub indexes: Vec<Vec<String>>,
    shape: Vec<Shape>,
    /// The lists' routes; no two are the same.
    #[serde(skip)]
    pub lists: Vec<String>,
}

/// A column that updates change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changing {
    /// Its key.
    pub key: String,
    /// The greatest value.
    pub max: u32,
}

/// Lists that are alive while rows are written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSet {
    /// Beside the catalog's own: the columns of each.
    #[serde(default)]
    pub indexes: Vec<Vec<String>>,
    shape: Vec<Shape>,
    /// The lists' routes; no two are the same.
    #[serde(skip)]
    pub lists: Vec<String>,
}

/// Lists that differ by the values that stand in the place of `<name>`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    name: String,
    queries: Vec<String>,
    values: BTreeMap<String, Vec<toml::Value>>,
}

/// `bench/workloads/mixed.toml`
///
/// # Errors
/// When it lacks something or says what no code reads.
pub fn mixed() -> Result<Mixed> {
    parse_mixed(MIXED).context("bench/workloads/mixed.toml")
}

/// The lists of `bench/workloads/writers-equality.toml`, each with an equality.
///
/// # Errors
/// As [`mixed`].
pub fn lists_with_equality() -> Result<ListSet> {
    parse_lists(WRITERS_EQUALITY).context("bench/workloads/writers-equality.toml")
}

/// The lists of `bench/workloads/writers-range.toml`, all without one.
///
/// # Errors
/// As [`mixed`].
pub fn lists_of_ranges() -> Result<ListSet> {
    parse_lists(WRITERS_RANGE).context("bench/workloads/writers-range.toml")
}

fn parse_mixed(text: &str) -> Result<Mixed> {
    let mut mixed: Mixed = toml::from_str(text)?;
    mixed.lists = lists(&mixed.shape)?;
    ensure!(
        mixed.rows > 0 && mixed.connections > 0 && !mixed.columns.is_empty(),
        "rows, connections and columns are at least one"
    );
    ensure!(mixed.insert_percent <= 100, "`insert_percent` is over 100");
    Ok(mixed)
}

fn parse_lists(text: &str) -> Result<ListSet> {
    let mut lists: ListSet = toml::from_str(text)?;
    lists.lists = self::lists(&lists.shape)?;
    Ok(lists)
}

fn lists(shapes: &[Shape]) -> Result<Vec<String>> {
    let mut lists = Vec::new();
    for shape in shapes {
        lists.extend(expand(shape).with_context(|| format!("shape `{}`", shape.name))?);
    }
    let distinct: HashSet<&String> = lists.iter().collect();
    ensure!(distinct.len() == lists.len(), "a list stands there twice");
    Ok(lists)
}

/// Every combination of its values.
fn expand(shape: &Shape) -> Result<Vec<String>> {
    let mut texts = vec![shape.queries.join("\n")];
    for (name, values) in &shape.values {
        let place = format!("<{name}>");
        ensure!(texts[0].contains(&place), "no query holds {place}");
        let fill = |text: &String| -> Vec<String> {
            let filled = values.iter().map(plain);
            filled.map(|value| text.replace(&place, &value)).collect()
        };
        texts = texts.iter().flat_map(fill).collect();
    }
    texts.iter().map(|text| route(text)).collect()
}

fn route(lines: &str) -> Result<String> {
    let queries = lines.lines().map(|line| {
        serde_json::from_str::<Value>(line).with_context(|| format!("`{line}` is no JSON"))
    });
    Ok(list_route(&queries.collect::<Result<Vec<Value>>>()?))
}

/// A text without quotes: the query has its own.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_workloads_are_what_they_say() {
        let mixed = mixed().unwrap();
        assert_eq!((mixed.lists.len(), mixed.rows), (1_000, 10_000));
        assert_eq!((mixed.zipf_exponent * 10.0) as u32, 11);
        let columns: Vec<&str> = mixed
            .columns
            .iter()
            .map(|column| column.key.as_str())
            .collect();
        assert_eq!(
            (columns, mixed.insert_percent),
            (vec!["stock", "reviewCount"], 10)
        );
        assert_eq!(mixed.durability, "full");
        let (equality, ranges) = (lists_with_equality().unwrap(), lists_of_ranges().unwrap());
        assert_eq!((equality.lists.len(), ranges.lists.len()), (10_000, 10_000));
        // `"equal"`, with its quotes encoded.
        let has_equality = |list: &String| list.contains("%22equal%22");
        assert!(equality.lists.iter().all(has_equality));
        assert!(!ranges.lists.iter().any(has_equality));
        assert_eq!(ranges.indexes, [["price".to_owned()]]);
    }

    #[test]
    fn a_shape_is_every_combination_of_its_values() {
        let text = "[[shape]]\nname = \"s\"\nqueries = ['{\"a\":<n>}', '{\"b\":\"<t>\"}']\n\
                    [shape.values]\nn = [1, 2.5]\nt = [\"x\", \"y\"]\n";
        let lists = parse_lists(text).unwrap().lists;
        let wanted = list_route(&[serde_json::json!({"a": 2.5}), serde_json::json!({"b": "x"})]);
        assert_eq!(lists.len(), 4);
        assert!(lists.contains(&wanted), "{lists:?}");
    }

    #[test]
    fn a_broken_workload_is_refused_by_name() {
        let shape = |queries: &str, values: &str| {
            format!("[[shape]]\nname = \"s\"\nqueries = {queries}\n[shape.values]\n{values}\n")
        };
        let cases = [
            (
                shape("['{\"a\":<n>}']", "n = [1, 1]"),
                "a list stands there twice",
            ),
            (shape("['{\"a\":1}']", "n = [1]"), "no query holds <n>"),
            (shape("['{<n>']", "n = [1]"), "is no JSON"),
            ("colour = 1".to_owned(), "unknown field `colour`"),
            ("[[shape]]\nqueries = []".to_owned(), "missing field `name`"),
        ];
        for (text, wanted) in cases {
            let error = format!("{:#}", parse_lists(&text).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
        let error = format!("{:#}", parse_mixed("seed = -1").unwrap_err());
        assert!(error.contains("invalid value: integer `-1`"), "{error}");
    }
}
