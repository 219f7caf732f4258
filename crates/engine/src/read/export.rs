//! Reading whole tables for an export: page after page, all as of one mark.

use std::sync::Arc;

use model::{
    Coordinates, Database, Direction, Field, Mark, Page, RowId, Scope, Selection, Table, Value,
};
use query::{Filter, Frame, Query, Test, Visibility};
use store::Listing;

use crate::Engine;
use crate::error::{EngineError, Unavailable};
use crate::request::attempt::ATTEMPTS_MAX;
use crate::request::authorize;
use crate::request::inputs::{Caller, Place};

const READ: &[Scope] = &[Scope::RowsRead];

/// A database to export, and the mark at which all of its rows are read.
#[derive(Clone, Debug)]
pub struct ExportStart {
    /// The database, with its tables as they are at the mark.
    pub database: Arc<Database>,
    /// Where its rows are read.
    pub mark: Mark,
}

/// A page of a table to export.
#[derive(Clone, Copy, Debug)]
pub struct ExportPage<'a> {
    /// The table.
    pub place: Place<'a>,
    /// The mark that [`Engine::begin_export`] gave.
    pub mark: Mark,
    /// The `$sequence` after which the page begins; 0 for the first one.
    pub after: i64,
    /// Most rows of the page, at least 1.
    pub rows_max: u32,
    /// Whether a row of which encrypted values are damaged is given without them, and their columns
    /// named in [`model::Span::damaged`]; otherwise such a row refuses the page.
    pub shows_damaged: bool,
}

impl Engine {
    /// Fixes the mark of an export. Reads at it give the same rows for ever.
    ///
    /// # Errors
    /// [`crate::SchemaError::DatabaseNotFound`].
    pub async fn begin_export(
        &self,
        caller: &Caller,
        database: &str,
    ) -> Result<ExportStart, EngineError> {
        authorize::need_key(caller, READ)?;
        for _ in 0..ATTEMPTS_MAX {
            // The catalogue on both sides of the mark: when it is the same, it is the mark's.
            let before = self.catalogue();
            let mark = self.fix().await?;
            if self.catalogue().epoch != before.epoch {
                continue;
            }
            let database = authorize::database(&before, caller, database)?.clone();
            return Ok(ExportStart { database, mark });
        }
        Err(Unavailable::Overloaded.into())
    }

    /// The next rows of a table in the order of `$sequence`, with every column as a value. They
    /// are read under today's schema: the caller compares [`Page::table`] with the table the
    /// export began with. Permissions are those of today, as in every read of an older mark.
    ///
    /// # Errors
    /// [`crate::SchemaError::TableNotFound`], and whatever keeps a list from being read.
    pub async fn export_page(
        &self,
        caller: &Caller,
        wanted: ExportPage<'_>,
    ) -> Result<Page, EngineError> {
        authorize::need_key(caller, READ)?;
        let mark = self.settled(wanted.mark).await?;
        let at = Coordinates {
            valid: mark.timestamp(),
            system: mark,
        };
        let beyond = Test::Greater(Value::Int(wanted.after));
        let filter = Filter::Field(Field::Sequence, beyond);
        let rows = WholeRows {
            filter,
            max: wanted.rows_max,
            at: Some(at),
            shows_damaged: wanted.shows_damaged,
        };
        self.whole_page(caller, wanted.place, rows).await
    }

    /// Those of the named rows that exist now, with every column as a value; at most 500 ids.
    ///
    /// # Errors
    /// [`crate::SchemaError::TableNotFound`], and whatever keeps a list from being read.
    pub async fn rows_by_id(
        &self,
        caller: &Caller,
        place: Place<'_>,
        ids: &[RowId],
    ) -> Result<Page, EngineError> {
        authorize::need_key(caller, READ)?;
        let texts = ids.iter().map(|id| Value::Text(id.to_string())).collect();
        let filter = Filter::Field(Field::Id, Test::In(texts));
        let rows = WholeRows {
            filter,
            max: ids.len() as u32,
            at: None,
            shows_damaged: false,
        };
        self.whole_page(caller, place, rows).await
    }

    async fn whole_page(
        &self,
        caller: &Caller,
        place: Place<'_>,
        wanted: WholeRows,
    ) -> Result<Page, EngineError> {
        self.under_catalogue(async |catalogue| {
            let table = authorize::table(catalogue, caller, place)?;
            let query = wanted.query(table);
            let listing = Listing {
                query: &query,
                rows: true,
                total: None,
                place: false,
                bytes_max: usize::MAX,
                catalogue_epoch: catalogue.epoch,
                of_guest: false,
                shows_damaged: wanted.shows_damaged,
            };
            let rows = self.shared.store.list(listing).await?.answer.rows;
            Ok(Page {
                table: table.clone(),
                selection: query.selection,
                rows,
                related: Vec::new(),
            })
        })
        .await
    }
}

/// Rows that are read with every column, in the order of `$sequence`.
struct WholeRows {
    filter: Filter,
    max: u32,
    at: Option<Coordinates>,
    /// See [`ExportPage::shows_damaged`].
    shows_damaged: bool,
}

impl WholeRows {
    fn query(&self, table: &Arc<Table>) -> Query {
        Query {
            table: table.clone(),
            filter: self.filter.clone(),
            order: Vec::new(),
            tie: Direction::Asc,
            random: false,
            limit: self.max.max(1),
            offset: 0,
            cursor: None,
            selection: Selection::Some {
                columns: (0..table.columns.len()).collect(),
                fields: vec![Field::Id, Field::Sequence, Field::Created, Field::Updated],
                permissions: true,
            },
            visibility: Visibility::Everything,
            then: None,
            at: self.at,
            frame: Frame::One,
            shows_span: self.shows_damaged,
        }
    }
}
