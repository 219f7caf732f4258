//! Many rows by their ids or by unique keys, of several tables, in one request: as of one mark, or
//! each part at coordinates of its own.

use std::collections::HashMap;
use std::sync::Arc;

use model::{
    Catalogue, Coordinates, Direction, Field, Index, IndexKind, Json, Mark, Marked, Page, Row,
    RowId, Selection, Table, Timestamp, Value,
};
use query::{Filter, Frame, Query, Test, Visibility};
use store::{Listing, Point};

use crate::Engine;
use crate::error::{EngineError, IndexFault, ReadError, SchemaError, WriteError};
use crate::read::related::{Gathering, Reads};
use crate::read::rows::selection;
use crate::request::authorize::{self, READ_ROWS};
use crate::request::inputs::{Caller, Place};
use crate::request::past;
use crate::request::turn::Turn;

/// Most rows that one request may ask for.
pub const BATCH_ROWS_READ_MAX: usize = 1_000;

/// A batch of more rows is read on a thread for long reads: a point read takes some 5 microseconds,
/// and all connections of the thread wait for it.
const ROWS_HERE_MAX: usize = 50;

/// Rows of one table.
#[derive(Clone, Debug)]
pub struct BatchRead {
    /// The table's id.
    pub table: String,
    /// Which rows.
    pub rows: WantedRows,
    /// Query texts, of which only `select` is understood.
    pub texts: Vec<String>,
    /// What was known then; without it, what is known now.
    pub as_of: Option<Mark>,
    /// What is valid then; without it, what is valid at the instant of the mark.
    pub valid_at: Option<Timestamp>,
}

/// Which rows are read.
#[derive(Clone, Debug)]
pub enum WantedRows {
    /// Those of these ids.
    Ids(Vec<RowId>),
    /// Those with these values in a unique index.
    Keys {
        /// The key of the index.
        index: String,
        /// For each row a value for each column of the index.
        keys: Vec<Vec<Json>>,
    },
}

impl WantedRows {
    /// How many rows are asked for.
    pub fn count(&self) -> usize {
        match self {
            WantedRows::Ids(ids) => ids.len(),
            WantedRows::Keys { keys, .. } => keys.len(),
        }
    }
}

/// What one [`BatchRead`] found.
#[derive(Clone, Debug)]
pub struct BatchPart {
    /// The rows that are there and that the caller may see.
    pub page: Page,
    /// For each row asked for its place among them.
    pub places: Vec<Option<usize>>,
    /// Where they were read, if the part named a time. Asked again there, the answer is the same.
    pub at: Option<Coordinates>,
    /// Whether rows of the table that were there then are erased since.
    pub is_erased: bool,
}

/// What became of each part, as of one mark.
pub type BatchFound = Marked<Vec<Result<BatchPart, EngineError>>>;

/// One part, resolved under a catalogue.
struct Planned {
    table: Arc<Table>,
    selection: Selection,
    /// `None`: the caller sees none of the rows.
    visibility: Option<Visibility>,
    wanted: RowNeed,
    /// The coordinates of its own.
    at: Option<Coordinates>,
}

enum RowNeed {
    Ids(Vec<RowId>),
    Filters(Vec<Filter>),
}

impl Engine {
    /// Reads rows of tables of one database: those of parts that name no time all as of one mark.
    /// What is wrong about one part is reported there and leaves the others alone. From the part on
    /// that would make the answer too large, none is read.
    ///
    /// # Errors
    /// [`SchemaError::DatabaseNotFound`], or what keeps all parts from being read.
    pub async fn read_batch(
        &self,
        caller: &Caller,
        database: &str,
        request: &[BatchRead],
    ) -> Result<BatchFound, EngineError> {
        let turn = Turn::here();
        let count: usize = request.iter().map(|part| part.rows.count()).sum();
        if count <= ROWS_HERE_MAX {
            let found = self.read_batch_in(&turn, caller, database, request).await;
            if !turn.is_over() {
                return found;
            }
        }
        let (caller, database, of_guest) = (caller.clone(), database.to_owned(), caller.is_guest());
        let request = request.to_vec();
        let read = async move |engine: &Engine, turn: &Turn<'_>| {
            let found = engine.read_batch_in(turn, &caller, &database, &request);
            found.await
        };
        self.read_apart(of_guest, read).await
    }

    async fn read_batch_in(
        &self,
        turn: &Turn<'_>,
        caller: &Caller,
        database: &str,
        request: &[BatchRead],
    ) -> Result<BatchFound, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        let mut places = Vec::with_capacity(request.len());
        for part in request {
            places.push(self.coordinates(part).await);
        }
        self.under_catalogue(async |catalogue| {
            authorize::database(catalogue, caller, database)?;
            let plans: Vec<_> = request
                .iter()
                .zip(&places)
                .map(|(part, at)| plan(catalogue, caller, database, (part, at.clone()?)))
                .collect();
            self.read_planned(turn, catalogue, caller, plans).await
        })
        .await
    }

    /// Where a part is read that names a time.
    async fn coordinates(&self, part: &BatchRead) -> Result<Option<Coordinates>, EngineError> {
        if part.as_of.is_none() && part.valid_at.is_none() {
            return Ok(None);
        }
        let system = self.settle(part.as_of).await?;
        let valid = part.valid_at.unwrap_or(system.timestamp());
        Ok(Some(Coordinates { valid, system }))
    }

    async fn read_planned(
        &self,
        turn: &Turn<'_>,
        catalogue: &Catalogue,
        caller: &Caller,
        plans: Vec<Result<Planned, EngineError>>,
    ) -> Result<BatchFound, EngineError> {
        let is_of_now = |plan: &Result<Planned, _>| plan.as_ref().is_ok_and(|one| one.at.is_none());
        let has_no_snapshot = !plans.iter().any(is_of_now);
        let read = async |reading: &mut Gathering<'_>| {
            if has_no_snapshot {
                reading.saw(self.shared.marks.published());
            }
            let mut parts = Vec::with_capacity(plans.len());
            let mut is_full = false;
            for plan in &plans {
                let part = match plan {
                    Ok(_) if is_full => Err(reading.too_large()),
                    Ok(plan) => read_part(reading, plan, turn).await,
                    Err(error) => {
                        parts.push(Err(error.clone()));
                        continue;
                    }
                };
                // The parts before it are answered; of those behind it nothing is read.
                is_full = matches!(
                    part,
                    Err(EngineError::Read(ReadError::AnswerTooLarge { .. }))
                );
                parts.push(match part {
                    Err(error) if !is_full => return Err(error),
                    part => part,
                });
            }
            Ok(parts)
        };
        self.on_one_snapshot(None, catalogue, caller, read).await
    }
}

fn plan(
    catalogue: &Catalogue,
    caller: &Caller,
    database: &str,
    (part, at): (&BatchRead, Option<Coordinates>),
) -> Result<Planned, EngineError> {
    let place = Place {
        database,
        table: &part.table,
    };
    let table = authorize::table(catalogue, caller, place)?;
    let visibility = query::visibility(table, &caller.actor);
    if at.is_some() && visibility.is_some() {
        past::need_open(table, &caller.actor)?;
    }
    let wanted = match &part.rows {
        WantedRows::Ids(ids) => RowNeed::Ids(ids.clone()),
        WantedRows::Keys { index, keys } => {
            let index = unique_index(table, index)?;
            let filters = keys.iter().map(|key| filter(table, index, key));
            RowNeed::Filters(filters.collect::<Result<_, _>>()?)
        }
    };
    Ok(Planned {
        table: table.clone(),
        selection: selection(table, &part.texts)?,
        visibility,
        wanted,
        at,
    })
}

fn unique_index<'t>(table: &'t Table, key: &str) -> Result<&'t Index, EngineError> {
    let named = |index: &&Index| index.key.as_str() == key;
    let index = table.indexes.iter().find(named);
    let index = index.ok_or_else(|| {
        let key = key.chars().take(100).collect();
        EngineError::Schema(SchemaError::Index(IndexFault::NotFound(key)))
    })?;
    if index.kind != IndexKind::Unique || !index.is_available() {
        let why = format!(
            "Index `{}` is not a unique index that can be used.",
            index.key
        );
        return Err(IndexFault::Invalid(why).into());
    }
    Ok(index)
}

/// The filter that at most one row passes.
fn filter(table: &Table, index: &Index, key: &[Json]) -> Result<Filter, EngineError> {
    if key.len() != index.columns.len() {
        return Err(EngineError::Argument {
            name: "keys",
            why: format!(
                "Index `{}` has {} columns, and a key has {} values.",
                index.key,
                index.columns.len(),
                key.len()
            ),
        });
    }
    let test = |(part, json): (&model::IndexColumn, &Json)| {
        let value = match part.field {
            Field::Id => Value::Text(json.as_str().unwrap_or_default().to_owned()),
            Field::Column(position) => table.columns[position]
                .check_single(json)
                .map_err(WriteError::Structure)?,
            Field::Sequence | Field::Created | Field::Updated | Field::Span(_) => {
                let why = format!("Index `{}` has a column of times.", index.key);
                return Err(EngineError::from(IndexFault::Invalid(why)));
            }
        };
        Ok(Filter::Field(part.field, Test::In(vec![value])))
    };
    let tests = index.columns.iter().zip(key).map(test);
    Ok(Filter::All(tests.collect::<Result<_, _>>()?))
}

async fn read_part(
    reading: &mut Gathering<'_>,
    plan: &Planned,
    turn: &Turn<'_>,
) -> Result<BatchPart, EngineError> {
    let mut part = BatchPart {
        page: Page {
            table: plan.table.clone(),
            selection: plan.selection.clone(),
            rows: Vec::new(),
            related: Vec::new(),
        },
        places: Vec::new(),
        at: plan.at,
        is_erased: false,
    };
    let Some(visibility) = &plan.visibility else {
        let count = match &plan.wanted {
            RowNeed::Ids(ids) => ids.len(),
            RowNeed::Filters(filters) => filters.len(),
        };
        part.places = vec![None; count];
        if plan.at.is_none() {
            reading.saw(reading.reads.mark());
        }
        return Ok(part);
    };
    match &plan.wanted {
        RowNeed::Ids(ids) => {
            // A row is read once, however often its id is named.
            let mut places: HashMap<&str, Option<usize>> = HashMap::new();
            for id in ids {
                if let Some(place) = places.get(id.as_str()) {
                    part.push_again(reading, *place)?;
                    continue;
                }
                turn.goes_on()?;
                let row = by_id(reading, plan, visibility, id).await?;
                turn.count(row.as_ref());
                let place = part.push(reading, row)?;
                places.insert(id.as_str(), place);
            }
        }
        RowNeed::Filters(filters) => {
            for filter in filters {
                turn.goes_on()?;
                let row = by_filter(reading, plan, visibility, filter).await?;
                turn.count(row.as_ref());
                part.push(reading, row)?;
            }
        }
    }
    part.is_erased = reading.has_erased(plan).await?;
    Ok(part)
}

impl BatchPart {
    /// Bytes of what it shows: a row counts as often as it is shown.
    pub fn size_bytes(&self) -> usize {
        let sizes: Vec<usize> = self.page.rows.iter().map(Row::size_bytes).collect();
        self.places.iter().flatten().map(|at| sizes[*at]).sum()
    }

    fn push(
        &mut self,
        reading: &mut Gathering<'_>,
        row: Option<Row>,
    ) -> Result<Option<usize>, EngineError> {
        if let Some(row) = &row {
            reading.take(row)?;
        }
        let place = row.as_ref().map(|_| self.page.rows.len());
        self.page.rows.extend(row);
        self.places.push(place);
        Ok(place)
    }

    fn push_again(
        &mut self,
        reading: &mut Gathering<'_>,
        place: Option<usize>,
    ) -> Result<(), EngineError> {
        if let Some(at) = place {
            reading.take(&self.page.rows[at])?;
        }
        self.places.push(place);
        Ok(())
    }
}

impl Gathering<'_> {
    /// Whether rows of the table of a part are erased since the time that it names.
    async fn has_erased(&self, plan: &Planned) -> Result<bool, EngineError> {
        match (plan.at, self.reads) {
            (Some(at), Reads::Store(engine)) => {
                engine.has_erased(&[plan.table.number], at.system).await
            }
            _ => Ok(false),
        }
    }
}

async fn by_id(
    reading: &mut Gathering<'_>,
    plan: &Planned,
    visibility: &Visibility,
    id: &RowId,
) -> Result<Option<Row>, EngineError> {
    let point = Point {
        table: &plan.table,
        id,
        selection: &plan.selection,
        visibility,
        at: plan.at.or(reading.at),
        shows_span: plan.at.is_some(),
        catalogue_epoch: reading.catalogue.epoch,
    };
    let read = reading.reads.get(point).await?;
    if plan.at.is_none() {
        reading.saw(read.mark);
    }
    Ok(read.answer)
}

async fn by_filter(
    reading: &mut Gathering<'_>,
    plan: &Planned,
    visibility: &Visibility,
    filter: &Filter,
) -> Result<Option<Row>, EngineError> {
    let query = Query {
        table: plan.table.clone(),
        filter: filter.clone(),
        order: Vec::new(),
        tie: Direction::Asc,
        random: false,
        limit: 1,
        offset: 0,
        cursor: None,
        selection: plan.selection.clone(),
        visibility: visibility.clone(),
        then: None,
        at: plan.at.or(reading.at),
        frame: Frame::One,
        shows_span: plan.at.is_some(),
    };
    let listing = Listing {
        query: &query,
        rows: true,
        total: None,
        place: false,
        bytes_max: usize::MAX,
        catalogue_epoch: reading.catalogue.epoch,
        of_guest: reading.caller.is_guest(),
        shows_damaged: false,
    };
    let read = reading.reads.list(listing).await?;
    if plan.at.is_none() {
        reading.saw(read.mark);
    }
    Ok(read.answer.rows.into_iter().next())
}
