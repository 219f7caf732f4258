//! Reads of the case language: what is asked, and at which coordinates.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use engine::{
    Caller, Engine, EngineError, Frame, Pieces, PiecesRead, Place, ReadError, RecordsWanted,
};
use model::timeline::{Aggregate, Gathered, Number};
use model::{Coordinates, Direction, Json, Mark, Period, RowId, Value};

use super::answer::{self, Histories};
use super::in_case_language;
use super::json::{CLOCK, mark, period, time};
use super::page::{PagePosition, ReadPage};
use super::vocabulary::{RANGE, ROW, SHOWN_ROW, SYSTEM, TABLE, VALID, Vocabulary, need_known};
use crate::http::input::context::RequestContext;
use crate::http::input::fields::Fields;
use crate::http::reply::Reply;
use crate::http::wire::error::{ApiError, Parts};
use crate::http::wire::{SortedObject, WrittenJson, written, written_array};

/// Most reads of one request.
pub(in crate::http) const READS_MAX: usize = 100;
/// The reads that are answered in pages where they name a `limit` or a `cursor`.
const PAGED: [&str; 5] = ["history", "period", "allen", "join", "timeline"];
/// Most members of metadata to find records by: each is looked for in each record.
pub(in crate::http) const META_MEMBERS_MAX: usize = 16;

/// `POST /v1/tidemark/databases/{database}/reads`: one read, or several in `reads`.
pub async fn read(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let mut fields = context.fields().await?;
    let engine = &context.app.shared.engine;
    let room = Cell::new(engine::PIECES_MAX as usize);
    let form = context.instant_form()?;
    let reading = |fields: Fields| TimedReading {
        engine,
        caller: caller.clone(),
        database: &context.ids.database,
        words: Vocabulary::of(&fields, form),
        fields,
        room: &room,
        bytes_max: context.app.shared.limits.answer_bytes_max,
        page: None,
        next: None,
        earliest: None,
        tables: RefCell::default(),
    };
    let body = if fields.holds("reads") {
        let mut answers = Vec::new();
        for (nth, one) in fields.objects("reads", READS_MAX)?.into_iter().enumerate() {
            let answer = reading(one).answer().await;
            answers
                .push(answer.map_err(|error| in_case_language(error).of_part(Parts::Reads, nth))?);
        }
        SortedObject::from([("answers", written_array(answers))]).written()
    } else {
        reading(fields).answer().await.map_err(in_case_language)?
    };
    Ok(Reply::ok(body))
}

/// One read.
pub(super) struct TimedReading<'a> {
    engine: &'a Engine,
    caller: Rc<Caller>,
    database: &'a str,
    pub(super) words: Vocabulary,
    pub(super) fields: Fields,
    /// How many pieces the request may still look at, or pair.
    pub(super) room: &'a Cell<usize>,
    /// Most bytes of rows in one answer.
    pub(super) bytes_max: usize,
    /// The page that is asked for.
    pub(super) page: Option<ReadPage>,
    /// Where it ends, if there may be a next one.
    pub(super) next: Option<PagePosition>,
    /// The earliest mark whose knowledge the answer shows, if that is not the one it is read at:
    /// of those that are compared, of versions, of records.
    earliest: Option<Mark>,
    /// The tables that were read.
    tables: RefCell<BTreeSet<String>>,
}

impl TimedReading<'_> {
    async fn answer(mut self) -> Result<WrittenJson, ApiError> {
        let kind = self.fields.required_text("kind")?;
        if let Some(known) = members_of(&kind) {
            let known = [known, &["vt", "tt", CLOCK]].concat();
            need_known(&self.fields, &known)?;
        }
        let mut at = self.coordinates(&kind).await?;
        let system = at.system;
        let rows = match kind.as_str() {
            "get" => self.get(at).await?,
            "scan" => self.scan(at).await?,
            "aggregate" => self.aggregate(at).await?,
            "history" => self.history(at).await?,
            "period" => self.period(at).await?,
            "allen" => self.allen(at).await?,
            "join" => self.join(at).await?,
            "timeline" => self.timeline(at).await?,
            "diff" => {
                let (rows, to) = self.diff().await?;
                at = to;
                rows
            }
            "tx" => self.commit(system).await?,
            "feed" => self.feed(system).await?,
            "stable_until" | "stableUntil" => self.stable_until(at).await?,
            other => {
                let other: String = other.chars().take(100).collect();
                return Err(ApiError::invalid(
                    "kind",
                    format!("There is no read `{other}`."),
                ));
            }
        };
        let stable_until = match kind.as_str() {
            "stable_until" | "stableUntil" => rows.clone(),
            "get" | "scan" | "aggregate" => self.stable_until(at).await?,
            // What is read along an axis, or of records, does not change as the instant moves on.
            _ => written(&()),
        };
        let words = self.words;
        let mut answer = SortedObject::from([
            ("rows", rows),
            (words.name(VALID), words.at(at.valid)),
            (words.name(SYSTEM), words.mark(at.system)),
            ("stableUntil", stable_until),
        ]);
        if let Some(page) = &self.page {
            let cursor = self.next.as_ref();
            let cursor = cursor.map(|end| page.cursor(at, end, words.is_own()));
            answer.set("cursor", written(&cursor));
        }
        if self.is_of_erased_past(&kind, system).await? {
            answer.set("erased", written(&true));
        }
        Ok(answer.written())
    }

    pub(super) fn looks_back_to(&mut self, mark: Mark) {
        self.earliest = Some(mark);
    }

    /// Whether an erasure since may have taken away what the answer showed before it. Of records it
    /// takes the rows that they name, of whatever table.
    async fn is_of_erased_past(&self, kind: &str, system: Mark) -> Result<bool, EngineError> {
        let since = self.earliest.map_or(system, |mark| mark.min(system));
        let tables = self.tables.borrow().clone();
        let tables = (!["tx", "feed"].contains(&kind)).then_some(&tables);
        self.engine
            .erased_after(&self.caller, self.database, tables, since)
            .await
    }

    /// The coordinates of the read: those named, those of its cursor, or those of now.
    async fn coordinates(&mut self, kind: &str) -> Result<Coordinates, ApiError> {
        let mut of_page = None;
        if PAGED.contains(&kind) {
            let of = (kind, &*self.engine.status().lineage);
            self.page = ReadPage::read(&mut self.fields, of, &self.caller, self.database)?;
            if let Some(page) = &self.page {
                self.words = self.words.or_own(page.was_own);
                of_page = page.coordinates(&mut self.fields)?;
            }
        }
        if let Some(at) = of_page {
            self.engine.settle(Some(at.system)).await?;
            return Ok(at);
        }
        coordinates(self.engine, &mut self.fields).await
    }

    pub(super) fn table(&mut self) -> Result<String, ApiError> {
        let name = TABLE.sent(&self.fields)?;
        self.fields.required_text(name)
    }

    pub(super) fn id(&mut self) -> Result<Option<RowId>, ApiError> {
        let name = ROW.sent(&self.fields)?;
        let id = self.fields.text(name)?;
        let id = id.map(|id| RowId::new(&id)).transpose();
        id.map_err(|error| ApiError::invalid(name, error.to_string()))
    }

    pub(super) fn required_id(&mut self) -> Result<RowId, ApiError> {
        let name = ROW.sent(&self.fields)?;
        self.id()?.ok_or_else(|| ApiError::missing(name))
    }

    /// All rows of a table, in order of their ids.
    pub(super) fn rows<'p>(&'p self, table: &'p str, at: Coordinates, frame: Frame) -> Pieces<'p> {
        Pieces {
            place: self.place(table),
            id: None,
            beyond: None,
            equal: Vec::new(),
            order: None,
            limit: None,
            at,
            frame,
            shows_damaged: false,
            shows_grants: false,
        }
    }

    pub(super) async fn read(&self, context: Pieces<'_>) -> Result<PiecesRead, ApiError> {
        self.tables
            .borrow_mut()
            .insert(context.place.table.to_owned());
        let read = self.engine.pieces(&self.caller, &context).await?;
        self.room.set(self.after(read.rows.len())?);
        Ok(read)
    }

    /// The room that is left after so many.
    fn after(&self, count: usize) -> Result<usize, EngineError> {
        let left = self.room.get().checked_sub(count);
        left.ok_or(EngineError::Read(ReadError::TooManyPieces))
    }

    pub(super) fn place<'p>(&'p self, table: &'p str) -> Place<'p> {
        Place {
            database: self.database,
            table,
        }
    }

    /// The period that what is read must share an instant with: all of time, unless it is named.
    pub(super) fn valid_range(&mut self) -> Result<Period, ApiError> {
        let name = RANGE.sent(&self.fields)?;
        if self.fields.holds(name) {
            period(&mut self.fields, name)
        } else {
            Ok(Period::ALWAYS)
        }
    }

    async fn get(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let (table, id) = (self.table()?, self.required_id()?);
        let full = self.fields.flag("full")?.unwrap_or(false);
        let pieces = Pieces {
            id: Some(&id),
            ..self.rows(&table, at, Frame::One)
        };
        let read = self.read(pieces).await?;
        self.remember(table, Some(id));
        let Some(row) = read.rows.first() else {
            return Ok(written(&()));
        };
        let value = answer::doc(&read.table, row).written();
        Ok(if full {
            answer::full(row, value, self.words)
        } else {
            value
        })
    }

    /// Keeps what the read is about, for its `stableUntil`.
    fn remember(&mut self, table: String, id: Option<RowId>) {
        let mut members = vec![("table".to_owned(), Json::Text(table))];
        members.extend(id.map(|id| ("id".to_owned(), Json::Text(id.to_string()))));
        self.fields =
            Fields::within("reads", Json::Object(members)).expect("an object was just made");
    }

    pub(super) fn equalities(
        &mut self,
        name: &'static str,
    ) -> Result<Vec<(String, Json)>, ApiError> {
        Ok(self.fields.object(name)?.unwrap_or_default())
    }

    async fn scan(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let (table, equal) = (self.table()?, self.equalities("where")?);
        let order = self
            .fields
            .text("order")?
            .map(|order| match order.strip_prefix('-') {
                Some(column) => (column.to_owned(), Direction::Desc),
                None => (order, Direction::Asc),
            });
        let limit = match self.fields.integer("limit")? {
            None => None,
            Some(limit) if (1..=i64::from(engine::PIECES_MAX)).contains(&limit) => {
                Some(limit as u32)
            }
            Some(_) => {
                let why = format!("Value must be an integer from 1 to {}.", engine::PIECES_MAX);
                return Err(ApiError::invalid("limit", why));
            }
        };
        let pieces = Pieces {
            equal,
            order,
            limit,
            ..self.rows(&table, at, Frame::One)
        };
        let read = self.read(pieces).await?;
        self.remember(table, None);
        let rows = read.rows.iter().map(|row| {
            let mut shown = answer::doc(&read.table, row);
            shown.set(self.words.name(SHOWN_ROW), written(row.id.as_str()));
            shown.written()
        });
        Ok(written_array(rows))
    }

    async fn aggregate(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let (table, equal) = (self.table()?, self.equalities("where")?);
        let (aggregate, column) = self.function()?;
        let pieces = Pieces {
            equal,
            ..self.rows(&table, at, Frame::One)
        };
        let read = self.read(pieces).await?;
        self.remember(table, None);
        let mut gathered = Gathered::new(aggregate);
        let histories = Histories::new(&read, self.words);
        let position = histories.gathered(column.as_deref(), aggregate)?;
        for value in histories.values() {
            if let Some(number) = number(value, position) {
                gathered.add(number);
            }
        }
        Ok(answer::number(gathered.value()))
    }

    pub(super) fn function(&mut self) -> Result<(Aggregate, Option<String>), ApiError> {
        let name = self.fields.required_text("fn")?;
        let aggregate = Aggregate::named(&name)
            .ok_or_else(|| ApiError::invalid("fn", "Value must be count, sum, min, max or avg."))?;
        let column = self.fields.text("column")?;
        if column.is_none() && aggregate != Aggregate::Count {
            return Err(ApiError::missing("column"));
        }
        Ok((aggregate, column))
    }

    /// What differs between two points, and the second of them.
    async fn diff(&mut self) -> Result<(WrittenJson, Coordinates), ApiError> {
        let (table, id) = (self.table()?, self.id()?);
        let before = self.point("from").await?;
        let after = self.point("to").await?;
        self.looks_back_to(before.system.min(after.system));
        let at = |at| Pieces {
            id: id.as_ref(),
            ..self.rows(&table, at, Frame::One)
        };
        let older = self.read(at(before)).await?;
        let newer = self.read(at(after)).await?;
        let [older, newer] = [older, newer].map(|read| Histories::new(&read, self.words));
        Ok((older.difference(&newer), after))
    }

    async fn point(&mut self, name: &'static str) -> Result<Coordinates, ApiError> {
        let json = self
            .fields
            .take(name)
            .ok_or_else(|| ApiError::missing(name))?;
        let mut point = Fields::within(name, json)?;
        need_known(&point, &["vt", "tt"])?;
        coordinates(self.engine, &mut point).await
    }

    async fn commit(&mut self, system: Mark) -> Result<WrittenJson, ApiError> {
        let after = (Mark(system.0.saturating_sub(1)), system);
        let wanted = RecordsWanted {
            limit: 1,
            ..RecordsWanted::default()
        };
        let found = self
            .engine
            .commits(&self.caller, self.database, after, wanted);
        let found = found.await?;
        let of_mark = found.iter().find(|record| record.mark == system);
        let shown = of_mark.map(|one| answer::record(one, self.words).written());
        Ok(shown.unwrap_or_else(|| written(&())))
    }

    async fn feed(&mut self, system: Mark) -> Result<WrittenJson, ApiError> {
        let after = mark(&mut self.fields, "after")?.unwrap_or(Mark(i64::MIN));
        let limit = self.fields.integer("limit")?.unwrap_or(100);
        let wanted = RecordsWanted {
            limit: limit.clamp(1, i64::from(engine::RECORDS_MAX)) as u32,
            changed: self.changed()?,
            ..records(&mut self.fields)?
        };
        let found = self
            .engine
            .commits(&self.caller, self.database, (after, system), wanted);
        let found = found.await?;
        self.earliest = found.first().map(|record| record.mark);
        let records = found.iter();
        let shown = records.map(|one| answer::recorded(one, self.words));
        Ok(written_array(shown))
    }

    /// The table, or the row, whose changes are wanted of all records.
    fn changed(&mut self) -> Result<Option<(String, Option<RowId>)>, ApiError> {
        let (table, id) = (TABLE.sent(&self.fields)?, self.id()?);
        match self.fields.text(table)? {
            Some(table) => Ok(Some((table, id))),
            None if id.is_some() => Err(ApiError::missing(table)),
            None => Ok(None),
        }
    }

    async fn stable_until(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let (table, id) = (self.table()?, self.id()?);
        let place = self.place(&table);
        let next = self
            .engine
            .next_boundary(&self.caller, place, id.as_ref(), at);
        Ok(self.words.at(next.await?))
    }
}

/// The commits of an author, or with certain members of their metadata.
pub(super) fn records(fields: &mut Fields) -> Result<RecordsWanted, ApiError> {
    let wanted = RecordsWanted {
        author: fields.text("user")?,
        meta: fields.object("meta")?.unwrap_or_default(),
        ..RecordsWanted::default()
    };
    // What may be nested could take a caller's time for each record.
    let is_nested = |json: &Json| matches!(json, Json::List(_) | Json::Object(_));
    if let Some((key, json)) = wanted.meta.iter().find(|(_, json)| is_nested(json)) {
        let key: String = key.chars().take(100).collect();
        let why = format!(
            "`{key}` must be a string, a number, a boolean or null, got {}.",
            json.kind()
        );
        return Err(ApiError::invalid("meta", why));
    }
    if wanted.meta.len() > META_MEMBERS_MAX {
        let why = format!("At most {META_MEMBERS_MAX} members are allowed.");
        return Err(ApiError::invalid("meta", why));
    }
    Ok(wanted)
}

/// The point that is named; what is not, is as known now, and valid then.
async fn coordinates(engine: &Engine, fields: &mut Fields) -> Result<Coordinates, ApiError> {
    let (named_system, named_valid) = (SYSTEM.sent(fields)?, VALID.sent(fields)?);
    let system = engine.settle(mark(fields, named_system)?).await?;
    let valid = time(fields, named_valid)?.unwrap_or(system.timestamp());
    Ok(Coordinates { valid, system })
}

/// The members of a read of this kind, beside its coordinates, in the case language.
fn members_of(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "get" => &["table", "id", "full"],
        "scan" => &["table", "where", "order", "limit"],
        "aggregate" => &["table", "where", "fn", "column"],
        "history" => &[
            "table", "id", "where", "axis", "coalesce", "valid", "limit", "cursor",
        ],
        "period" => &[
            "table", "id", "where", "relation", "period", "valid", "limit", "cursor",
        ],
        "allen" => &["table", "id", "where", "period", "valid", "limit", "cursor"],
        "join" => &[
            "left",
            "right",
            "on",
            "id",
            "where",
            "right_where",
            "valid",
            "limit",
            "cursor",
        ],
        "timeline" => &[
            "table", "id", "where", "fn", "column", "period", "limit", "cursor",
        ],
        "diff" => &["table", "id", "from", "to"],
        "tx" => &[],
        "feed" => &["after", "limit", "user", "meta", "table", "id"],
        "stable_until" | "stableUntil" => &["table", "id"],
        _ => return None,
    })
}

/// What a row adds to an aggregate: without a column rows are counted, and of a column that holds
/// no numbers the values.
pub(super) fn number(values: &[Value], position: Option<usize>) -> Option<Number> {
    match position.map(|position| &values[position]) {
        Some(Value::Null) => None,
        Some(Value::Int(int)) => Some(Number::Int(*int)),
        Some(Value::Float(float)) => Some(Number::Float(*float)),
        None | Some(_) => Some(Number::Int(1)),
    }
}
