//! The cases' file format, and what a case asks.
//!
//! A file holds cases. A case begins with `=== ` and its name; then come, each on its own line,
//! directives (`@ …`) and query texts; after `---` stands what they must lead to, as
//! `label: text`. Lines before the first case, and empty lines, are for the reader.

use std::path::PathBuf;
use std::sync::Arc;

use model::permission::Role;
use model::{
    Coordinates, Direction, Field, IndexColumn, Mark, Period, RoleSet, Storage, Table, Timestamp,
    Value,
};
use query::emit::{self, Statement};
use query::{Dialect, Frame, Limits, Query, QueryError, Visibility, field};

pub const LIMITS: Limits = Limits {
    page_rows_default: 25,
    page_rows_max: 5_000,
};

/// One case as written.
pub struct GoldenCase {
    /// What it is about.
    pub name: String,
    /// Lines that begin with `@ `.
    pub directives: Vec<String>,
    /// Query texts.
    pub queries: Vec<String>,
    /// What is expected, as `label: text` lines.
    pub expected: Vec<String>,
}

/// A file of cases.
pub struct CaseFile {
    /// Where it is.
    pub path: PathBuf,
    /// What stands before the first case.
    pub preface: String,
    /// In the order of the file.
    pub cases: Vec<GoldenCase>,
}

/// Every file of cases, by name.
pub fn read_all() -> Vec<CaseFile> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/golden");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "case")
        })
        .collect();
    paths.sort();
    paths.into_iter().map(read).collect()
}

fn read(path: PathBuf) -> CaseFile {
    let text = std::fs::read_to_string(&path).unwrap();
    let mut parts = text.split("=== ");
    let preface = parts.next().unwrap_or_default().to_owned();
    let cases = parts.map(read_case).collect();
    CaseFile {
        path,
        preface,
        cases,
    }
}

fn read_case(text: &str) -> GoldenCase {
    let (name, rest) = text.split_once('\n').unwrap();
    let (request, expected) = rest.split_once("---\n").unwrap_or((rest, ""));
    let lines = |text: &str| -> Vec<String> {
        let filled = text.lines().filter(|line| !line.trim().is_empty());
        filled.map(str::to_owned).collect()
    };
    let (directives, queries) = lines(request)
        .into_iter()
        .partition(|line| line.starts_with("@ "));
    GoldenCase {
        name: name.to_owned(),
        directives,
        queries,
        expected: lines(expected),
    }
}

impl CaseFile {
    /// The file as text, with `expected` for each case.
    pub fn write(&self, expected: &[Vec<String>]) -> String {
        let blocks: Vec<String> = self
            .cases
            .iter()
            .zip(expected)
            .map(|(case, expected)| {
                let head = [format!("=== {}", case.name)];
                let request = case.directives.iter().chain(&case.queries);
                let middle = ["---".to_owned()];
                let lines: Vec<&str> = head
                    .iter()
                    .chain(request)
                    .chain(&middle)
                    .chain(expected)
                    .map(String::as_str)
                    .collect();
                lines.join("\n") + "\n"
            })
            .collect();
        self.preface.clone() + &blocks.join("\n")
    }
}

/// Leaves an index of what names begin with and of stock, descending, and one of prices.
pub fn hold_beginnings(table: &mut Table) {
    let keys = ["by_price", "by_stock_price_name"];
    table
        .indexes
        .retain(|index| keys.contains(&index.key.as_str()));
    let index = table.indexes.last_mut().unwrap();
    let column = |position, direction, held| IndexColumn {
        field: Field::Column(position),
        direction,
        length: held,
        held,
    };
    index.columns = vec![
        column(1, Direction::Asc, Some(4)),
        column(3, Direction::Desc, None),
    ];
}

/// What a case asks for.
enum CaseSubject {
    Rows,
    Total(Option<u64>),
    Point(String),
    Content,
}

/// The statements of one case in one dialect, each with what it is.
pub type CaseStatements = Vec<(&'static str, Statement)>;

/// A case with its directives read.
pub struct PreparedCase {
    /// What is asked, with the indexes that the case leaves.
    pub table: Arc<Table>,
    /// Now where it is `None`.
    pub at: Option<Coordinates>,
    visibility: Visibility,
    frame: Frame,
    wanted: CaseSubject,
}

impl PreparedCase {
    /// The case, asked of `table`.
    pub fn new(case: &GoldenCase, mut table: Table) -> PreparedCase {
        let mut wanted = (None, Visibility::Everything, CaseSubject::Rows);
        let mut frame = Frame::One;
        for directive in &case.directives {
            let words: Vec<&str> = directive.split_whitespace().skip(1).collect();
            match words.as_slice() {
                ["no", "indexes"] => table.indexes.clear(),
                ["beginnings"] => hold_beginnings(&mut table),
                ["roles", roles @ ..] => wanted.1 = granted(roles),
                ["at", valid, system] => wanted.0 = Some(coordinates(valid, system)),
                ["pieces", from, to] => frame = Frame::Pieces(period(from, to)),
                ["versions", from, to] => frame = Frame::Versions(period(from, to)),
                ["changes", from, to, since, until] => {
                    frame = Frame::Changes(period(from, to), period(since, until));
                }
                ["total", "all"] => wanted.2 = CaseSubject::Total(None),
                ["total", cap] => wanted.2 = CaseSubject::Total(Some(cap.parse().unwrap())),
                ["point", id] => wanted.2 = CaseSubject::Point((*id).to_owned()),
                ["content"] => wanted.2 = CaseSubject::Content,
                other => panic!("{}: unknown directive {other:?}", case.name),
            }
        }
        PreparedCase {
            table: Arc::new(table),
            at: wanted.0,
            visibility: wanted.1,
            frame,
            wanted: wanted.2,
        }
    }

    /// These texts, resolved.
    pub fn query(&self, texts: &[String]) -> Result<Query, QueryError> {
        let ast = query::parse(texts)?;
        let visibility = self.visibility.clone();
        let query = query::resolve(&ast, &self.table, visibility, self.at, &LIMITS)?;
        Ok(Query {
            frame: self.frame,
            shows_span: self.frame.is_wide() || query.shows_span,
            ..query
        })
    }

    /// The number of the index that SQLite must use.
    pub fn index(&self, query: &Query) -> Option<u32> {
        let choice = match self.wanted {
            CaseSubject::Rows => query::index_choice::choose_index(query),
            CaseSubject::Total(_) => query::index_choice::choose_total_index(query),
            CaseSubject::Point(_) | CaseSubject::Content => None,
        };
        choice.map(|choice| choice.number)
    }

    /// Whether the case is about a list, for which an index is chosen.
    pub fn is_list(&self) -> bool {
        matches!(self.wanted, CaseSubject::Rows | CaseSubject::Total(_))
    }

    /// The page's rows with the keys of the order.
    pub fn rows_in_place(query: &Query, dialect: Dialect) -> Statement {
        emit::rows_in_place(query, cursor_values(query).as_deref(), dialect)
    }

    /// What the query becomes.
    pub fn statements(&self, query: &Query, dialect: Dialect) -> CaseStatements {
        match &self.wanted {
            CaseSubject::Rows => {
                let values = cursor_values(query);
                let cursor = emit::cursor_row(query, dialect);
                let cursor = cursor.map(|statement| ("cursor", statement));
                let rows = emit::rows(query, values.as_deref(), dialect);
                let by_key = query::unique_key(query).map(|key| {
                    let (table, selection, seen) =
                        (&self.table, &query.selection, &query.visibility);
                    let statement = emit::point_by_key(table, &key, selection, seen, dialect);
                    ("by key", statement)
                });
                let cursor = cursor.into_iter();
                cursor.chain([("rows", rows)]).chain(by_key).collect()
            }
            CaseSubject::Total(cap) => vec![("total", emit::total(query, *cap, dialect))],
            CaseSubject::Point(id) => {
                let (table, selection) = (&self.table, &query.selection);
                let seen = &self.visibility;
                let statement = match self.at {
                    None => emit::point(table, id, selection, seen, dialect),
                    Some(at) => emit::point_at(table, id, (selection, false), seen, at, dialect),
                };
                vec![("point", statement)]
            }
            CaseSubject::Content => vec![("content", emit::content(&self.table, 42, dialect))],
        }
    }
}

fn granted(roles: &[&str]) -> Visibility {
    let roles = roles
        .iter()
        .map(|role| Role::parse(role).unwrap())
        .collect();
    Visibility::Granted(Arc::new(RoleSet::new(roles)))
}

fn period(from: &str, to: &str) -> Period {
    let from = match from {
        "min" => Timestamp::BOT,
        from => Timestamp(from.parse().unwrap()),
    };
    let to = (to != "null").then(|| Timestamp(to.parse().unwrap()));
    Period::new(from, to).unwrap()
}

fn coordinates(valid: &str, system: &str) -> Coordinates {
    Coordinates {
        valid: Timestamp(valid.parse().unwrap()),
        system: Mark(system.parse().unwrap()),
    }
}

/// A cursor row that holds one known value of each storage.
fn cursor_values(query: &Query) -> Option<Vec<Value>> {
    query.cursor.as_ref()?;
    let known = |field: Field| match field::storage(&query.table, field) {
        Storage::Text => Value::Text("m".into()),
        Storage::Int => Value::Int(7),
        Storage::Float => Value::Float(2.5),
        Storage::Bool => Value::Bool(true),
        Storage::Instant => Value::Instant(Timestamp(1_000)),
    };
    let keys = query.order.iter().map(|key| known(key.field));
    let mut values: Vec<Value> = keys.chain([Value::Int(42)]).collect();
    if query.frame.is_wide() {
        // Valid from, and known from.
        values.extend([Value::Int(5_000), Value::Int(6_000)]);
    }
    Some(values)
}
