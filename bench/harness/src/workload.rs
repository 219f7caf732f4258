//! The committed workloads of `bench/workloads`: lists, and who writes what beside them.

use anyhow::{Context, Result, bail, ensure};
use scenarios::seed::list_route;
use serde_json::Value;

const MIXED: &str = include_str!("../../workloads/mixed.toml");
const WRITERS_EQUALITY: &str = include_str!("../../workloads/writers-equality.toml");
const WRITERS_RANGE: &str = include_str!("../../workloads/writers-range.toml");

/// Reads and writes at once.
#[derive(Clone, Debug)]
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
    /// What updates change: column and greatest value.
    pub columns: Vec<(String, u32)>,
    /// Beside the catalog's own: the columns of each.
    pub indexes: Vec<Vec<String>>,
    /// The lists' routes; no two are the same.
    pub lists: Vec<String>,
}

/// Lists that are alive while rows are written.
#[derive(Clone, Debug)]
pub struct Lists {
    /// Beside the catalog's own: the columns of each.
    pub indexes: Vec<Vec<String>>,
    /// The lists' routes; no two are the same.
    pub lists: Vec<String>,
}

/// `bench/workloads/mixed.toml`
///
/// # Errors
/// When it lacks something or says what nobody reads.
pub fn mixed() -> Result<Mixed> {
    parse_mixed(MIXED).context("bench/workloads/mixed.toml")
}

/// The lists of `bench/workloads/writers-equality.toml`, each with an equality.
///
/// # Errors
/// As [`mixed`].
pub fn lists_with_equality() -> Result<Lists> {
    parse_lists(WRITERS_EQUALITY).context("bench/workloads/writers-equality.toml")
}

/// The lists of `bench/workloads/writers-range.toml`, all without one.
///
/// # Errors
/// As [`mixed`].
pub fn lists_of_ranges() -> Result<Lists> {
    parse_lists(WRITERS_RANGE).context("bench/workloads/writers-range.toml")
}

fn parse_mixed(text: &str) -> Result<Mixed> {
    let table: toml::Table = text.parse()?;
    let known = [
        "seed",
        "rows",
        "connections",
        "durability",
        "zipf_exponent",
        "insert_percent",
        "columns",
        "indexes",
        "shape",
    ];
    refuse_unknown(&table, &known)?;
    let mixed = Mixed {
        seed: number(&table, "seed")?,
        rows: number(&table, "rows")?,
        connections: number(&table, "connections")?,
        durability: text_of(&table, "durability")?.to_owned(),
        zipf_exponent: table
            .get("zipf_exponent")
            .and_then(toml::Value::as_float)
            .context("`zipf_exponent` is no float")?,
        insert_percent: number(&table, "insert_percent")?,
        columns: tables(&table, "columns")?
            .into_iter()
            .map(|column| Ok((text_of(column, "key")?.to_owned(), number(column, "max")?)))
            .collect::<Result<_>>()?,
        indexes: indexes(&table),
        lists: lists(&table)?,
    };
    ensure!(
        mixed.rows > 0 && mixed.connections > 0 && !mixed.columns.is_empty(),
        "rows, connections and columns are at least one"
    );
    ensure!(mixed.insert_percent <= 100, "`insert_percent` is over 100");
    Ok(mixed)
}

fn parse_lists(text: &str) -> Result<Lists> {
    let table: toml::Table = text.parse()?;
    refuse_unknown(&table, &["indexes", "shape"])?;
    Ok(Lists {
        indexes: indexes(&table),
        lists: lists(&table)?,
    })
}

fn indexes(table: &toml::Table) -> Vec<Vec<String>> {
    let all = table.get("indexes").and_then(toml::Value::as_array);
    let index = |index: &toml::Value| -> Vec<String> {
        let columns = index.as_array().into_iter().flatten();
        columns.map(plain).collect()
    };
    all.into_iter().flatten().map(index).collect()
}

/// The lists of all shapes, in order.
fn lists(table: &toml::Table) -> Result<Vec<String>> {
    let mut lists = Vec::new();
    for shape in tables(table, "shape")? {
        let name = text_of(shape, "name")?;
        lists.extend(expand(shape).with_context(|| format!("shape `{name}`"))?);
    }
    let mut distinct = lists.clone();
    distinct.sort_unstable();
    distinct.dedup();
    ensure!(distinct.len() == lists.len(), "a list stands there twice");
    Ok(lists)
}

/// One list for each combination of the values.
fn expand(shape: &toml::Table) -> Result<Vec<String>> {
    refuse_unknown(shape, &["name", "queries", "values"])?;
    let queries = shape.get("queries").and_then(toml::Value::as_array);
    let queries = queries.context("no `queries`")?.iter();
    let queries: Vec<&str> = queries.filter_map(toml::Value::as_str).collect();
    let mut texts = vec![queries.join("\n")];
    let values = shape.get("values").and_then(toml::Value::as_table);
    for (name, values) in values.context("no `values`")? {
        let place = format!("<{name}>");
        let values = values.as_array().context("values are a list")?;
        let fill = |text: &String| -> Vec<String> {
            let filled = values
                .iter()
                .map(|value| text.replace(&place, &plain(value)));
            filled.collect()
        };
        ensure!(texts[0].contains(&place), "no query holds {place}");
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

fn refuse_unknown(table: &toml::Table, known: &[&str]) -> Result<()> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => bail!("nobody reads `{key}`; known are {}", known.join(", ")),
        None => Ok(()),
    }
}

fn tables<'a>(table: &'a toml::Table, name: &str) -> Result<Vec<&'a toml::Table>> {
    let list = table.get(name).and_then(toml::Value::as_array);
    let list = list.with_context(|| format!("no `{name}`"))?.iter();
    Ok(list.filter_map(toml::Value::as_table).collect())
}

fn number<N: TryFrom<i64>>(table: &toml::Table, name: &str) -> Result<N> {
    let value = table.get(name).and_then(toml::Value::as_integer);
    let value = value.and_then(|value| N::try_from(value).ok());
    value.with_context(|| format!("`{name}` is no number that fits"))
}

fn text_of<'a>(table: &'a toml::Table, name: &str) -> Result<&'a str> {
    let value = table.get(name).and_then(toml::Value::as_str);
    value.with_context(|| format!("`{name}` is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_workloads_are_what_they_say() {
        let mixed = mixed().unwrap();
        assert_eq!((mixed.lists.len(), mixed.rows), (1_000, 10_000));
        assert_eq!((mixed.zipf_exponent * 10.0) as u32, 11);
        let columns: Vec<&str> = mixed.columns.iter().map(|(key, _)| key.as_str()).collect();
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
            ("colour = 1".to_owned(), "nobody reads `colour`"),
            ("[[shape]]\nqueries = []".to_owned(), "`name` is no text"),
        ];
        for (text, wanted) in cases {
            let error = format!("{:#}", parse_lists(&text).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
        let error = format!("{:#}", parse_mixed("seed = -1").unwrap_err());
        assert!(error.contains("`seed` is no number"), "{error}");
    }
}
