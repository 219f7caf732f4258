//! The statement texts of common reads: whole rows by unique keys, several by their ids, or one at
//! another time, for callers that see all rows.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use model::{ColumnNumber, Coordinates, Index, RowId, Selection, Table, TableNumber, Value};
use query::emit::{self, Statement};
use query::{Dialect, UniqueKey, Visibility};

/// Most texts that are kept; with more tables in use they are written again now and then.
const TEXTS_MAX: usize = 256;

/// The texts that one thread has used. Writing one took as long as a tenth of the read.
#[derive(Default)]
pub(super) struct PointTexts(RefCell<HashMap<(TableNumber, Kind), Kept>>);

/// What a text of one table depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// By a key of the index with this number, whose columns never change.
    NowByKey(u32),
    /// So many rows, by keys of the index with this number or by ids.
    ManyNow { index: Option<u32>, places: usize },
    Past {
        /// Whether what was valid before the mark is asked for.
        is_earlier: bool,
        shows_span: bool,
    },
}

struct Kept {
    schema_epoch: u64,
    /// The numbers of the columns: a table as of the past has the epoch of today, and may have
    /// others.
    columns: Box<[ColumnNumber]>,
    text: Rc<Text>,
}

impl Kept {
    fn is_for(&self, table: &Table) -> bool {
        let columns = table.columns.iter().map(|column| column.number);
        self.schema_epoch == table.schema_epoch && self.columns.iter().copied().eq(columns)
    }
}

/// A text and what stands for its parameters.
pub(super) struct Text {
    pub(super) sql: String,
    /// Of the id, the mark and the instant, which one each parameter is. Not of a key.
    parameters: Vec<usize>,
}

impl PointTexts {
    /// The text for the row of now with a key of this index. Its parameters are the values.
    pub(super) fn now_by_key(&self, table: &Table, key: &UniqueKey<'_>) -> Rc<Text> {
        self.of(table, Kind::NowByKey(key.index.number), || {
            let everything = &Visibility::Everything;
            let statement =
                emit::point_by_key(table, key, &Selection::All, everything, Dialect::Sqlite);
            Text {
                sql: statement.sql,
                parameters: Vec::new(),
            }
        })
    }

    /// The text for so many rows of now by keys of this index, or by ids. Its parameters are the
    /// values.
    pub(super) fn many_now(
        &self,
        table: &Table,
        index: Option<&Index>,
        places: usize,
        write: impl FnOnce() -> Statement,
    ) -> Rc<Text> {
        let kind = Kind::ManyNow {
            index: index.map(|index| index.number),
            places,
        };
        self.of(table, kind, || Text {
            sql: write().sql,
            parameters: Vec::new(),
        })
    }

    /// The text for the row at coordinates such as these.
    pub(super) fn past(&self, table: &Table, at: Coordinates, shows_span: bool) -> Rc<Text> {
        let is_earlier = at.valid < at.system.timestamp();
        let kind = Kind::Past {
            is_earlier,
            shows_span,
        };
        self.of(table, kind, || {
            let (any, everything) = (any_id(), &Visibility::Everything);
            let shown = (&Selection::All, shows_span);
            let id = any.as_str();
            Text::by_id(emit::point_at(
                table,
                id,
                shown,
                everything,
                at,
                Dialect::Sqlite,
            ))
        })
    }

    fn of(&self, table: &Table, kind: Kind, write: impl FnOnce() -> Text) -> Rc<Text> {
        let mut texts = self.0.borrow_mut();
        if let Some(kept) = texts.get(&(table.number, kind))
            && kept.is_for(table)
        {
            return kept.text.clone();
        }
        if texts.len() >= TEXTS_MAX {
            texts.clear();
        }
        let kept = Kept {
            schema_epoch: table.schema_epoch,
            columns: table.columns.iter().map(|column| column.number).collect(),
            text: Rc::new(write()),
        };
        let text = kept.text.clone();
        texts.insert((table.number, kind), kept);
        text
    }
}

/// Stands for any id in a text.
pub(super) fn any_id() -> RowId {
    RowId::new("any").expect("three letters are an id")
}

impl Text {
    fn by_id(statement: Statement) -> Text {
        let which = |value: &Value| match value {
            Value::Text(_) => 0,
            Value::Int(_) => 1,
            Value::Instant(_) => 2,
            other => unreachable!("a caller that sees all rows is not judged, so not by {other:?}"),
        };
        Text {
            parameters: statement.parameters.iter().map(which).collect(),
            sql: statement.sql,
        }
    }

    /// The parameters: of id, mark and instant each where it belongs.
    pub(super) fn order(&self, values: &[Value; 3]) -> Vec<Value> {
        let parameters = self.parameters.iter();
        parameters.map(|which| values[*which].clone()).collect()
    }
}
