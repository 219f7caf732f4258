//! Use cases on two time axes that the query language has no words for: pieces and versions of
//! rows, records of commits.

use std::sync::Arc;

use model::{
    Coordinates, Direction, Field, Json, Mark, Row, RowId, Selection, Table, TableNumber,
    Timestamp, Value,
};
use query::{Filter, Frame, OrderKey, Query, Test, Then, Visibility};
use store::{BoundaryOf, Listing, RecordFilter, Recorded, RecordsOf, SchemaRecord};

use crate::Engine;
use crate::error::{AccessError, EngineError, PIECES_MAX, ReadError, WriteError};
use crate::request::authorize::{self, READ_ROWS};
use crate::request::inputs::{Caller, Place};
use crate::request::past;
use crate::write::content::values;

/// Most records of commits in one answer.
pub const RECORDS_MAX: u32 = 1_000;

/// Pieces or versions to read.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    /// Where.
    pub place: Place<'a>,
    /// Of this row alone.
    pub id: Option<&'a RowId>,
    /// Of rows whose ids come after this one alone.
    pub beyond: Option<&'a RowId>,
    /// With these values.
    pub equal: Vec<(String, Json)>,
    /// In the order of this column, ties by id; otherwise by id.
    pub order: Option<(String, Direction)>,
    /// At most so many; otherwise more than [`PIECES_MAX`] are an error.
    pub limit: Option<u32>,
    /// As valid and known there; the mark must be settled.
    pub at: Coordinates,
    /// How much of each row.
    pub frame: Frame,
    /// Whether what has a damaged value is shown without it; otherwise it is refused.
    pub shows_damaged: bool,
    /// Whether the grants that were known at the mark are shown.
    pub shows_grants: bool,
}

/// What was read, each row with all its columns and where it stands in time.
#[derive(Clone, Debug)]
pub struct PiecesRead {
    /// The table whose columns the values follow.
    pub table: Arc<Table>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The record of a commit.
#[derive(Clone, Debug)]
pub struct CommitRecord {
    /// Its mark.
    pub mark: Mark,
    /// What its author said of it: JSON as text.
    pub meta: Option<String>,
    /// Whether that is damaged, and none therefore.
    pub is_damaged: bool,
    /// Who wrote, where that is known.
    pub author: Option<String>,
    /// The rows of this database that it changed, by table and id.
    pub changes: Vec<(String, String)>,
    /// How many rows it erased.
    pub erased: Option<u64>,
    /// How it changed this database and what is in it, in order.
    pub schema: Vec<SchemaRecord>,
}

/// Which records of commits are wanted.
#[derive(Clone, Debug, Default)]
pub struct RecordsWanted {
    /// At most so many.
    pub limit: u32,
    /// That changed rows of this table, or this row of it.
    pub changed: Option<(String, Option<RowId>)>,
    /// By this author, as records name it.
    pub author: Option<String>,
    /// With these members of the metadata, none of them a list or an object.
    pub meta: Vec<(String, Json)>,
}

impl RecordsWanted {
    fn filter(self) -> Option<Arc<RecordFilter>> {
        if self.author.is_none() && self.meta.is_empty() {
            return None;
        }
        Some(Arc::new(move |author, meta| {
            let is_theirs = self.author.is_none() || self.author.as_deref() == author;
            is_theirs && says(meta, &self.meta)
        }))
    }
}

/// Whether metadata has these members, each with an equal value.
fn says(meta: Option<&str>, members: &[(String, Json)]) -> bool {
    if members.is_empty() {
        return true;
    }
    let said = meta.and_then(|meta| query::json::read(meta.as_bytes()).ok());
    let says = |(key, value): &(String, Json)| said.as_ref()?.get(key).map(|said| said == value);
    members.iter().all(|member| says(member) == Some(true))
}

impl Engine {
    /// Raises the horizon to the clock, if that is ahead; the horizon.
    ///
    /// # Errors
    /// [`AccessError::ScopeMissing`], [`crate::SchemaError::DatabaseNotFound`], or what keeps a
    /// reservation from being stored.
    pub async fn heartbeat(&self, caller: &Caller, database: &str) -> Result<Mark, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        authorize::database(&self.catalogue(), caller, database)?;
        self.fix().await?;
        Ok(self.shared.marks.horizon())
    }

    /// The mark that a read goes by: the one named, once it is settled, or the highest settled
    /// one.
    ///
    /// # Errors
    /// [`ReadError::FutureMark`].
    pub async fn settle(&self, named: Option<Mark>) -> Result<Mark, EngineError> {
        match named {
            Some(mark) => self.settled(mark).await,
            None => self.fix().await,
        }
    }

    /// Reads pieces or versions at a settled mark.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading; [`ReadError::TooManyPieces`].
    pub async fn pieces(
        &self,
        caller: &Caller,
        request: &Pieces<'_>,
    ) -> Result<PiecesRead, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        self.under_catalogue(async |catalogue| {
            let table = authorize::table(catalogue, caller, request.place)?;
            let visibility =
                query::visibility(table, &caller.actor).ok_or(AccessError::Unauthorized)?;
            past::need_open(table, &caller.actor)?;
            let table = self.table_as_of(table, request.at.system).await?;
            let query = pieces_query(&table, visibility, request)?;
            let listing = Listing {
                query: &query,
                rows: true,
                total: None,
                place: false,
                bytes_max: self.answer_bytes_max,
                catalogue_epoch: catalogue.epoch,
                of_guest: caller.is_guest(),
                shows_damaged: request.shows_damaged,
            };
            let rows = self.shared.store.list(listing).await?.answer.rows;
            if request.limit.is_none() && rows.len() > PIECES_MAX as usize {
                return Err(ReadError::TooManyPieces.into());
            }
            Ok(PiecesRead { table, rows })
        })
        .await
    }

    /// The next instant after that of the coordinates at which rows of a table, or one row of it,
    /// change as known at their mark, which must be settled; `None` where there is none. For keys
    /// only.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading.
    pub async fn next_boundary(
        &self,
        caller: &Caller,
        place: Place<'_>,
        id: Option<&RowId>,
        at: Coordinates,
    ) -> Result<Option<Timestamp>, EngineError> {
        authorize::need_key(caller, READ_ROWS)?;
        self.under_catalogue(async |catalogue| {
            let table = authorize::table(catalogue, caller, place)?;
            let request = BoundaryOf {
                table,
                id,
                at,
                catalogue_epoch: catalogue.epoch,
            };
            Ok(self.shared.store.next_boundary(request).await?)
        })
        .await
    }

    /// Records of the database's commits above `after` in the order of their marks, at most
    /// [`RECORDS_MAX`]; for keys only. Marks up to `settled` only, which must be. Of others'
    /// commits nothing is shown, not even that there were any.
    ///
    /// # Errors
    /// What the store says.
    pub async fn commits(
        &self,
        caller: &Caller,
        database: &str,
        (after, settled): (Mark, Mark),
        wanted: RecordsWanted,
    ) -> Result<Vec<CommitRecord>, EngineError> {
        authorize::need_key(caller, READ_ROWS)?;
        let catalogue = self.catalogue();
        let database = authorize::database(&catalogue, caller, database)?;
        let named = |number: TableNumber| {
            let mut tables = database.tables.values();
            let table = tables.find(|table| table.number == number)?;
            Some(table.id.to_string())
        };
        let of_rows = match &wanted.changed {
            None => None,
            Some((table, id)) => {
                let place = Place {
                    database: database.id.as_str(),
                    table,
                };
                let table = authorize::table(&catalogue, caller, place)?;
                Some((table.number, id.clone()))
            }
        };
        let of_database = RecordsOf {
            after,
            upto: settled,
            limit: wanted.limit.min(RECORDS_MAX),
            database: database.seq,
            tables: database.tables.values().map(|table| table.number).collect(),
            changed: of_rows,
            filter: wanted.filter(),
        };
        let recorded = self.shared.store.recorded(of_database).await?;
        let record = |one: Recorded| {
            let changes = one.rows.into_iter();
            let changes = changes.filter_map(|(table, id)| Some((named(table)?, id)));
            let mut changes: Vec<(String, String)> = changes.collect();
            changes.sort();
            CommitRecord {
                mark: one.mark,
                meta: one.meta,
                is_damaged: one.is_damaged,
                author: one.author,
                changes,
                erased: one.erased,
                schema: one.schema,
            }
        };
        Ok(recorded.into_iter().map(record).collect())
    }

    /// Forgets every mark, as if nothing had ever been committed: for servers whose clock is set
    /// by their clients, between two tests. What the catalogue holds stays.
    ///
    /// # Errors
    /// What the store says.
    pub async fn rewind(&self) -> Result<(), EngineError> {
        self.writer.rewind().await
    }
}

/// # Errors
/// [`query::QueryError::Invalid`] for an encrypted column: nothing can be looked for in it.
pub(crate) fn need_plain(table: &Table, position: usize) -> Result<(), EngineError> {
    let column = &table.columns[position];
    if !column.encrypt {
        return Ok(());
    }
    let why = format!("Cannot query encrypted attribute: {}", column.key);
    Err(query::QueryError::Invalid(why).into())
}

fn pieces_query(
    table: &Arc<Table>,
    visibility: Visibility,
    request: &Pieces<'_>,
) -> Result<Query, EngineError> {
    let mut tests = Vec::new();
    if let Some(id) = request.id {
        let id = Value::Text(id.to_string());
        tests.push(Filter::Field(Field::Id, Test::In(vec![id])));
    }
    if let Some(id) = request.beyond {
        let id = Value::Text(id.to_string());
        tests.push(Filter::Field(Field::Id, Test::Greater(id)));
    }
    for (position, value) in values(table, &request.equal)? {
        need_plain(table, position)?;
        let test = match value {
            Value::Null => Test::IsNull,
            value => Test::In(vec![value]),
        };
        tests.push(Filter::Field(Field::Column(position), test));
    }
    let mut order = Vec::new();
    if let Some((key, direction)) = &request.order {
        let position = table.named(key).map_err(WriteError::Structure)?;
        need_plain(table, position)?;
        order.push(OrderKey {
            field: Field::Column(position),
            direction: *direction,
        });
    }
    order.push(OrderKey {
        field: Field::Id,
        direction: Direction::Asc,
    });
    let then = request.shows_grants.then(|| Then {
        visibility: visibility.clone(),
        mark: request.at.system,
        is_there_now: false,
    });
    Ok(Query {
        table: Arc::clone(table),
        filter: Filter::All(tests),
        order,
        tie: Direction::Asc,
        random: false,
        limit: request.limit.unwrap_or(PIECES_MAX + 1),
        offset: 0,
        cursor: None,
        selection: Selection::Some {
            columns: (0..table.columns.len()).collect(),
            fields: vec![Field::Id],
            permissions: request.shows_grants,
        },
        visibility,
        then,
        at: Some(request.at),
        frame: request.frame,
        shows_span: true,
    })
}
