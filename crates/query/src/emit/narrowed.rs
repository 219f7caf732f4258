//! Searches for words on PostgreSQL, whose indexes of them give more than what is found: which rows
//! those are is read first, and if they are few, the query is for those among them that match.

use model::{Field, Index, Value};

use crate::dialect::Dialect;
use crate::index_choice::is_of_one_row;
use crate::lexemes;
use crate::names;
use crate::query::{Filter, Frame, Query, Test};
use crate::search::Search;

use super::Statement;
use super::source::SelectSource;
use super::writer::{Clause, SqlWriter};

/// So many rows are few. Of more, some are soon found wherever they are looked for.
const NARROWED_MAX: usize = 5_000;

/// The statement for the `$sequence` of each row that the indexes of words give, up to one more
/// than are few. `None` where none of them is of use: older versions stand in none.
pub fn narrowing(query: &Query) -> Option<Statement> {
    if query.at.is_some() || query.frame != Frame::One || is_of_one_row(query) {
        return None;
    }
    let mut searches = Vec::new();
    collect(&query.filter, &mut searches);
    let is_indexed = |field: Field| {
        let is_of_it = |index: &Index| index.is_fulltext_of(field);
        query.table.indexes.iter().any(is_of_it)
    };
    searches.retain(|(field, search)| is_indexed(*field) && !search.is_empty());
    if searches.is_empty() {
        return None;
    }
    let source = SelectSource::now(&query.table);
    let mut out = SqlWriter::new(Dialect::Postgres);
    out.push("SELECT t.seq FROM ");
    source.write_from(&mut out, None);
    let mut clause = Clause::of_where();
    for (field, search) in searches {
        clause.open(&mut out);
        out.push(names::INDEXED_WORDS);
        out.push("(");
        source.write_field(&mut out, field);
        out.push(") @@ ");
        out.bind(Value::Text(lexemes::wanted(search)));
        out.push("::tsquery");
    }
    out.push(" LIMIT ");
    out.push_number(NARROWED_MAX + 1);
    Some(out.finish())
}

/// The query among the rows that [`narrowing`] gives, unless those are too many.
pub fn narrowed(query: &Query, rows: Vec<i64>) -> Option<Query> {
    if rows.len() > NARROWED_MAX {
        return None;
    }
    let among = if rows.is_empty() {
        Filter::Any(Vec::new())
    } else {
        let rows = rows.into_iter().map(Value::Int).collect();
        Filter::Field(Field::Sequence, Test::In(rows))
    };
    Some(Query {
        filter: Filter::All(vec![among, query.filter.clone()]),
        ..query.clone()
    })
}

/// The searches that must find something.
fn collect<'q>(filter: &'q Filter, searches: &mut Vec<(Field, &'q Search)>) {
    match filter {
        Filter::All(branches) => {
            for branch in branches {
                collect(branch, searches);
            }
        }
        Filter::Field(field, Test::Finds(search)) => searches.push((*field, search)),
        Filter::Any(_) | Filter::Field(..) => {}
    }
}
