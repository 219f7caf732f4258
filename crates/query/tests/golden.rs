//! Query texts against the SQL they become, in both dialects.
//!
//! `UPDATE_GOLDEN=1 cargo test -p query --test golden` writes what the compiler says today into
//! the files of `crates/testing/golden`. Read the difference before it is called right.

use std::fmt::Write;

use query::Dialect;
use query::ast::Method;
use query::emit::{self, Statement};
use testing::golden::{GoldenCase, PreparedCase, products, read_all};

#[test]
fn every_case_becomes_the_sql_written_beside_it() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = String::new();
    let mut count = 0;
    for file in read_all() {
        let found: Vec<Vec<String>> = file.cases.iter().map(outcome).collect();
        if update {
            std::fs::write(&file.path, file.write(&found)).unwrap();
            continue;
        }
        for (case, found) in file.cases.iter().zip(found) {
            count += 1;
            if case.expected != found {
                let name = file.path.file_name().unwrap().display();
                let (expected, found) = (case.expected.join("\n"), found.join("\n"));
                write!(
                    wrong,
                    "{name}: {}\n{expected}\nbut is\n{found}\n\n",
                    case.name
                )
                .unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(update || count >= 60, "only {count} cases were found");
}

/// They say at which times rows are read, which cases say by a directive.
const OF_TIMES: [Method; 3] = [Method::ValidAt, Method::ValidBetween, Method::SystemBetween];

#[test]
fn each_method_stands_in_a_case() {
    let files = read_all();
    let cases = files.iter().flat_map(|file| &file.cases);
    let queries: Vec<&String> = cases.flat_map(|case| &case.queries).collect();
    let is_absent = |method: &&Method| {
        let member = format!("\"method\":\"{}\"", method.as_str());
        !queries.iter().any(|query| query.contains(&member)) && !OF_TIMES.contains(method)
    };
    let absent: Vec<&Method> = Method::ALL.iter().filter(is_absent).collect();
    assert!(
        absent.is_empty(),
        "no case in crates/testing/golden has {absent:?}"
    );
}

/// Where several SELECTs are united, the keys stand in the statement anyway.
#[test]
fn the_place_of_a_row_adds_columns_and_nothing_else() {
    let mut count = 0;
    for case in read_all().iter().flat_map(|file| &file.cases) {
        let asked = PreparedCase::new(case, products());
        let Ok(query) = asked.query(&case.queries) else {
            continue;
        };
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            let statements = asked.statements(&query, dialect);
            let Some((_, rows)) = statements.iter().find(|(what, _)| *what == "rows") else {
                continue;
            };
            let in_place = PreparedCase::rows_in_place(&query, dialect);
            assert_eq!(in_place.parameters, rows.parameters);
            let from = format!(" FROM {} AS t", query::names::now(query.table.number));
            // Where the keys were sorted apart, the rows are taken from a page of them.
            let from_page = rows.sql.find(" FROM (SELECT t.seq FROM ");
            let from = from_page.or_else(|| rows.sql.find(&from)).unwrap_or(0);
            let (selected, rest) = rows.sql.split_at(from);
            let keys = in_place.sql.strip_prefix(selected);
            let keys = keys.and_then(|keys| keys.strip_suffix(rest)).unwrap();
            let count_of_keys = keys.matches(" AS k").count();
            assert!(in_place == *rows || count_of_keys == query.read_order().len().max(1));
            count += usize::from(count_of_keys > 0);
        }
    }
    assert!(count >= 40, "only {count} cases were found");
}

/// What a case leads to, as its lines say it.
fn outcome(case: &GoldenCase) -> Vec<String> {
    let asked = PreparedCase::new(case, products());
    let query = match asked.query(&case.queries) {
        Ok(query) => query,
        Err(error) => return vec![format!("refused: {error}")],
    };
    let mut lines = Vec::new();
    if asked.is_list() {
        let number = asked.index(&query);
        let index = asked
            .table
            .indexes
            .iter()
            .find(|index| Some(index.number) == number);
        let key = index.map_or("none", |index| index.key.as_str());
        lines.push(format!("index: {key}"));
    }
    let sqlite = asked.statements(&query, Dialect::Sqlite);
    let postgres = asked.statements(&query, Dialect::Postgres);
    for ((what, sqlite), (_, postgres)) in sqlite.into_iter().zip(postgres) {
        lines.push(format!("{what} sqlite: {}", sqlite.sql));
        lines.push(format!("{what} postgres: {}", postgres.sql));
        if sqlite.parameters == postgres.parameters {
            lines.push(format!("{what} values:{}", values(&sqlite)));
        } else {
            // PostgreSQL has no parameters for limit and offset, and none for words.
            lines.push(format!("{what} sqlite values:{}", values(&sqlite)));
            lines.push(format!("{what} postgres values:{}", values(&postgres)));
        }
    }
    if let Some(statement) = emit::narrowing(&query).filter(|_| asked.is_list()) {
        lines.push(format!("words postgres: {}", statement.sql));
        lines.push(format!("words postgres values:{}", values(&statement)));
    }
    lines
}

fn values(statement: &Statement) -> String {
    let values = statement
        .parameters
        .iter()
        .map(|value| format!(" {value:?}"));
    values.collect::<Vec<_>>().join(",")
}
