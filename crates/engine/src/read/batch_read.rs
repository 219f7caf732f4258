//! Many rows by their ids or by unique keys, of several tables, in one request: as of one mark, or
//! each part at coordinates of its own.

use std::collections::HashMap;
use std::sync::Arc;

use model::{
    Catalogue, Coordinates, Direction, Field, Index, IndexKind, Json, Mark, Marked, Page, Row,
    RowId, Selection, Table, Timestamp, Value,
};
use query::{Filter, Frame, Query, Test, Visibility};
use store::{Listing, Point, PointKeys, Points};

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
    Keys {
        /// The position of the index in [`Table::indexes`].
        index: usize,
        keys: Vec<Vec<Value>>,
    },
}

impl RowNeed {
    fn count(&self) -> usize {
        match self {
            RowNeed::Ids(ids) => ids.len(),
            RowNeed::Keys { keys, .. } => keys.len(),
        }
    }
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
        request: Vec<BatchRead>,
    ) -> Result<BatchFound, EngineError> {
        let turn = Turn::here();
        let count: usize = request.iter().map(|part| part.rows.count()).sum();
        if count <= ROWS_HERE_MAX {
            let found = self.read_batch_in(&turn, caller, database, &request);
            let found = found.await;
            if !turn.is_over() {
                return found;
            }
        }
        let (caller, database, of_guest) = (caller.clone(), database.to_owned(), caller.is_guest());
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
            let position = unique_index(table, index)?;
            let index = &table.indexes[position];
            let keys = keys.iter().map(|key| key_of(table, index, key));
            RowNeed::Keys {
                index: position,
                keys: keys.collect::<Result<_, _>>()?,
            }
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

/// The position of a unique index.
fn unique_index(table: &Table, key: &str) -> Result<usize, EngineError> {
    let named = |index: &Index| index.key.as_str() == key;
    let position = table.indexes.iter().position(named).ok_or_else(|| {
        let key = key.chars().take(100).collect();
        EngineError::Schema(SchemaError::Index(IndexFault::NotFound(key)))
    })?;
    let index = &table.indexes[position];
    if index.kind != IndexKind::Unique || !index.is_available() {
        let why = format!(
            "Index `{}` is not a unique index that can be used.",
            index.key
        );
        return Err(IndexFault::Invalid(why).into());
    }
    Ok(position)
}

/// The value of each column of the index.
fn key_of(table: &Table, index: &Index, key: &[Json]) -> Result<Vec<Value>, EngineError> {
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
    let value = |(part, json): (&model::IndexColumn, &Json)| match part.field {
        Field::Id => Ok(Value::Text(json.as_str().unwrap_or_default().to_owned())),
        Field::Column(position) => Ok(table.columns[position]
            .check_single(json)
            .map_err(WriteError::Structure)?),
        Field::Sequence | Field::Created | Field::Updated | Field::Span(_) => {
            let why = format!("Index `{}` has a column of times.", index.key);
            Err(EngineError::from(IndexFault::Invalid(why)))
        }
    };
    index.columns.iter().zip(key).map(value).collect()
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
        part.places = vec![None; plan.wanted.count()];
        if plan.at.is_none() {
            reading.saw(reading.reads.mark());
        }
        return Ok(part);
    };
    let seen = (plan, visibility);
    match &plan.wanted {
        RowNeed::Ids(ids) => {
            let (each, places) = each_once(ids);
            let keys = PointKeys::Ids(&each);
            let found = read_rows(reading, seen, turn, keys, &mut part).await?;
            part.places = places.iter().map(|at| found[*at]).collect();
            if each.len() < ids.len() {
                reading.take_again(&part)?;
            }
        }
        RowNeed::Keys { index, keys } => {
            let keys = PointKeys::Of(&plan.table.indexes[*index], keys);
            part.places = read_rows(reading, seen, turn, keys, &mut part).await?;
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

    /// Takes a row that was read, if there was one; where it stands.
    fn take(
        &mut self,
        reading: &mut Gathering<'_>,
        row: Option<Row>,
    ) -> Result<Option<usize>, EngineError> {
        let Some(row) = row else { return Ok(None) };
        reading.take(&row)?;
        self.page.rows.push(row);
        Ok(Some(self.page.rows.len() - 1))
    }
}

impl Gathering<'_> {
    /// Makes room for rows that are shown more than once.
    fn take_again(&mut self, part: &BatchPart) -> Result<(), EngineError> {
        let mut is_shown = vec![false; part.page.rows.len()];
        for at in part.places.iter().flatten() {
            if std::mem::replace(&mut is_shown[*at], true) {
                self.take(&part.page.rows[*at])?;
            }
        }
        Ok(())
    }

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

/// The ids, each once, and for each that was named its place among them: a row is read once,
/// however often its id is named.
fn each_once(named: &[RowId]) -> (Vec<&RowId>, Vec<usize>) {
    let mut known = HashMap::with_capacity(named.len());
    let mut each = Vec::with_capacity(named.len());
    let mut places = Vec::with_capacity(named.len());
    for id in named {
        places.push(*known.entry(id.as_str()).or_insert_with(|| {
            each.push(id);
            each.len() - 1
        }));
    }
    (each, places)
}

/// Reads rows into the part; for each key, where its row stands.
async fn read_rows(
    reading: &mut Gathering<'_>,
    seen: (&Planned, &Visibility),
    turn: &Turn<'_>,
    keys: PointKeys<'_>,
    part: &mut BatchPart,
) -> Result<Vec<Option<usize>>, EngineError> {
    let mut places = Vec::with_capacity(keys.len());
    while places.len() < keys.len() {
        turn.goes_on()?;
        let left = match keys {
            PointKeys::Ids(ids) => PointKeys::Ids(&ids[places.len()..]),
            PointKeys::Of(index, keys) => PointKeys::Of(index, &keys[places.len()..]),
        };
        let rows = match together(reading, seen, turn, left) {
            Some(rows) => rows?,
            None => vec![by_itself(reading, seen, left).await?],
        };
        for row in rows {
            turn.count(row.as_ref());
            places.push(part.take(reading, row)?);
        }
    }
    Ok(places)
}

/// The rows with the first of the keys, as many as one statement reads; `None` where each is read
/// by itself: at coordinates, in what a transaction would leave, and where the database is
/// elsewhere.
fn together(
    reading: &mut Gathering<'_>,
    (plan, visibility): (&Planned, &Visibility),
    turn: &Turn<'_>,
    keys: PointKeys<'_>,
) -> Option<Result<Vec<Option<Row>>, EngineError>> {
    let Reads::Store(engine) = reading.reads else {
        return None;
    };
    if plan.at.or(reading.at).is_some() {
        return None;
    }
    let read = engine.shared.store.at_once()?.points_at_once(Points {
        table: &plan.table,
        keys,
        selection: &plan.selection,
        visibility,
        bytes_enough: turn.bytes_of_step(),
        catalogue_epoch: reading.catalogue.epoch,
    });
    Some(read.map_err(EngineError::from).map(|read| {
        reading.saw(read.mark);
        read.answer
    }))
}

/// The row with the first of the keys.
async fn by_itself(
    reading: &mut Gathering<'_>,
    (plan, visibility): (&Planned, &Visibility),
    keys: PointKeys<'_>,
) -> Result<Option<Row>, EngineError> {
    match keys {
        PointKeys::Ids(ids) => by_id(reading, plan, visibility, ids[0]).await,
        PointKeys::Of(index, keys) => {
            let parts = index.columns.iter().zip(&keys[0]);
            let tests =
                parts.map(|(part, value)| Filter::Field(part.field, Test::In(vec![value.clone()])));
            let filter = Filter::All(tests.collect());
            by_filter(reading, plan, visibility, filter).await
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
    filter: Filter,
) -> Result<Option<Row>, EngineError> {
    let query = Query {
        table: plan.table.clone(),
        filter,
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
