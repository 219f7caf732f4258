//! The statement texts of the commonest read: a whole row by its id, for whoever sees all rows.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use model::{RowId, Selection, Table, TableNumber};
use query::{Dialect, Visibility, emit};

/// Most texts that are kept; with more tables in use they are written anew now and then.
const TEXTS_MAX: usize = 256;

/// The texts that one thread has used. Writing one took as long as a tenth of the read.
#[derive(Default)]
pub(super) struct PointTexts(RefCell<HashMap<TableNumber, Text>>);

struct Text {
    schema_epoch: u64,
    sql: Rc<str>,
}

impl PointTexts {
    /// The text for `table`. Its one parameter is the id.
    pub(super) fn of(&self, table: &Table) -> Rc<str> {
        let mut texts = self.0.borrow_mut();
        if let Some(text) = texts.get(&table.number)
            && text.schema_epoch == table.schema_epoch
        {
            return text.sql.clone();
        }
        if texts.len() >= TEXTS_MAX {
            texts.clear();
        }
        let text = Text {
            schema_epoch: table.schema_epoch,
            sql: write(table),
        };
        let sql = text.sql.clone();
        texts.insert(table.number, text);
        sql
    }
}

fn write(table: &Table) -> Rc<str> {
    let any = RowId::new("any").expect("three letters are an id");
    let everything = &Visibility::Everything;
    let statement = emit::point(
        table,
        any.as_str(),
        &Selection::All,
        everything,
        Dialect::Sqlite,
    );
    assert_eq!(
        statement.parameters.len(),
        1,
        "whoever sees all rows is not asked about"
    );
    statement.sql.into()
}
