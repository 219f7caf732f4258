//! Columns and indexes of a table: list and get.

use std::sync::Arc;

use model::{Json, Table};

use super::error::{ApiError, Kind};
use super::extract::Asked;
use super::reply::Reply;
use super::wire;

/// Length of a page when no query names one (wire protocol, pagination).
const LIMIT_DEFAULT: usize = 25;

fn table(asked: &Asked<'_>) -> Result<Arc<Table>, ApiError> {
    Ok(asked
        .app
        .shared
        .engine
        .get_table(&asked.caller()?, asked.place())?)
}

/// `GET /v1/tablesdb/{database}/tables/{table}/columns`
pub fn list(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let table = table(asked)?;
    let (total, page) = page(&table.columns, asked)?;
    Ok(Reply::ok(wire::columns(total, &page, asked.words)))
}

/// `GET /v1/tablesdb/{database}/tables/{table}/columns/{column}`
pub fn get(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let (table, key) = (table(asked)?, &*asked.ids.column);
    let column = table.position(key).map(|position| &table.columns[position]);
    let column = column.ok_or_else(|| not_found(Kind::ColumnNotFound, "column", key))?;
    Ok(Reply::ok(wire::column(column)))
}

/// `GET /v1/tablesdb/{database}/tables/{table}/indexes`
pub fn list_indexes(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let table = table(asked)?;
    let (total, page) = page(&table.indexes, asked)?;
    Ok(Reply::ok(wire::indexes(&table, total, &page, asked.words)))
}

/// `GET /v1/tablesdb/{database}/tables/{table}/indexes/{index}`
pub fn get_index(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let (table, key) = (table(asked)?, &*asked.ids.index);
    let index = table.indexes.iter().find(|index| index.key.as_str() == key);
    let index = index.ok_or_else(|| not_found(Kind::ColumnIndexNotFound, "index", key))?;
    Ok(Reply::ok(wire::index(&table, index, asked.words)))
}

fn not_found(kind: Kind, what: &str, key: &str) -> ApiError {
    let key: String = key.chars().take(100).collect();
    ApiError::new(kind, format!("No {what} `{key}`."))
}

/// The total if it is wanted, and the page that the query string asks for.
fn page<'t, T>(all: &'t [T], asked: &Asked<'_>) -> Result<(u64, Vec<&'t T>), ApiError> {
    let (limit, offset) = limit_and_offset(&asked.query.queries)?;
    let total = if asked.total()? { all.len() as u64 } else { 0 };
    Ok((total, all.iter().skip(offset).take(limit).collect()))
}

/// What `limit` and `offset` say; of each the first counts. Columns are few, so that no other
/// query is of use here.
fn limit_and_offset(texts: &[String]) -> Result<(usize, usize), ApiError> {
    let (mut limit, mut offset) = (None, None);
    for text in texts {
        let json = engine::read_json(text.as_bytes());
        let json = json.map_err(|_| invalid("Syntax error"))?;
        let (method, values) = (
            json.get("method").and_then(Json::as_str),
            json.get("values"),
        );
        match (method, values) {
            (Some("limit"), Some(Json::List(values))) => {
                limit.get_or_insert(single(values, 1)?);
            }
            (Some("offset"), Some(Json::List(values))) => {
                offset.get_or_insert(single(values, 0)?);
            }
            _ => return Err(invalid("only limit and offset are understood here")),
        }
    }
    Ok((limit.unwrap_or(LIMIT_DEFAULT), offset.unwrap_or(0)))
}

fn single(values: &[Json], least: i64) -> Result<usize, ApiError> {
    match values {
        [Json::Int(number)] if *number >= least => Ok(*number as usize),
        _ => Err(invalid(&format!("expected one integer, at least {least}"))),
    }
}

fn invalid(why: &str) -> ApiError {
    ApiError::new(Kind::QueryInvalid, format!("Invalid query: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], wanted: Option<(usize, usize)>) {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(limit_and_offset(&texts).ok(), wanted, "{texts:?}");
    }

    #[test]
    fn limit_and_offset_are_understood_and_nothing_else() {
        check(&[], Some((25, 0)));
        let limit = r#"{"method":"limit","values":[3]}"#;
        let offset = r#"{"method":"offset","values":[0]}"#;
        check(&[limit, offset], Some((3, 0)));
        check(&[limit, r#"{"method":"limit","values":[4]}"#], Some((3, 0)));
        for other in [
            "limit(3)",
            r#"{"method":"limit","values":[0]}"#,
            r#"{"method":"limit","values":[]}"#,
            r#"{"method":"limit","values":["3"]}"#,
            r#"{"method":"limit"}"#,
            r#"{"method":"offset","values":[-1]}"#,
            r#"{"method":"equal","attribute":"key","values":["a"]}"#,
            "5",
        ] {
            check(&[other], None);
        }
    }
}
