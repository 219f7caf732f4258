//! What reads of the case language answer: computed by the model, from what was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{CommitRecord, EngineError, PiecesRead, ReadError, SchemaRecord};
use model::history::{History, VersionNumber};
use model::period::join;
use model::timeline::{Aggregate, Number, Step, timeline};
use model::{
    ColumnNumber, Content, Coordinates, Mark, Period, Row, Span, Storage, Table, Timestamp, Value,
    Version,
};

use super::json::meta;
use super::vocabulary::{
    COMMITTED, CONTENT, LEFT_CONTENT, ORIGIN, RIGHT_CONTENT, SHOWN_ROW, STEP_FROM, STEP_TO,
    SYSTEM_FROM, SYSTEM_TO, TABLE, Vocabulary,
};
use crate::http::wire::error::{ApiError, Kind};
use crate::http::wire::{SortedObject, WrittenJson, written, written_array};

/// A row as it was at one time: its columns, and how it is shown.
#[derive(Clone, Debug)]
pub(super) struct SeenRow {
    pub(super) values: Vec<Value>,
    pub(super) doc: WrittenJson,
    /// The columns that it lacks because their encrypted value is damaged.
    damaged: Vec<String>,
}

impl SeenRow {
    /// What is shown of it over a valid period.
    pub(super) fn piece(&self, valid: &Period, words: Vocabulary) -> SortedObject<'static> {
        let mut shown = words.over(valid);
        self.show(words, &mut shown);
        shown
    }

    /// Adds its content to what is shown of it, and what is missing there.
    fn show(&self, words: Vocabulary, shown: &mut SortedObject<'static>) {
        shown.set(words.name(CONTENT), self.doc.clone());
        if !self.damaged.is_empty() {
            shown.set("damaged", written(&self.damaged));
        }
    }
}

impl PartialEq for SeenRow {
    fn eq(&self, other: &SeenRow) -> bool {
        // What cannot be read is like nothing else.
        self.values == other.values && self.damaged.is_empty() && other.damaged.is_empty()
    }
}

/// Rows by their ids, each with the versions that were read of it.
pub(super) struct Histories {
    table: Arc<Table>,
    rows: BTreeMap<String, Vec<Version<SeenRow>>>,
    words: Vocabulary,
}

/// The one row that was read with all its versions, on both axes.
pub fn rectangles(read: &PiecesRead, at: Coordinates) -> WrittenJson {
    let shown = Histories::new(read, Vocabulary::CASES).rectangles(at.system);
    written_array(shown.into_iter().map(|(_, rectangle)| rectangle))
}

/// Where a row of an answer stands in the order: from when it was known, then from when it is
/// valid.
pub(super) type Key = (Mark, Timestamp);

pub(super) fn span(row: &Row) -> &Span {
    row.span.as_ref().expect("pieces say where they stand")
}

/// The columns of a row, as they are shown.
pub(super) fn doc<'t>(table: &'t Table, row: &Row) -> SortedObject<'t> {
    SortedObject::of_columns(table, values(row))
}

fn values(row: &Row) -> &[Value] {
    match &row.content {
        Content::Values(values) => values,
        Content::Body(_) => unreachable!("pieces are read by their columns"),
    }
}

impl Histories {
    pub(super) fn new(read: &PiecesRead, words: Vocabulary) -> Histories {
        let key = |at: usize| read.table.columns[at].key.to_string();
        let mut rows: BTreeMap<String, Vec<Version<SeenRow>>> = BTreeMap::new();
        for row in &read.rows {
            let span = span(row);
            let versions = rows.entry(row.id.to_string()).or_default();
            versions.push(Version {
                number: VersionNumber(versions.len() as i64),
                valid: span.valid,
                sys_from: span.system_from,
                cut: None,
                gone: span.system_to,
                origin: span.origin,
                value: SeenRow {
                    values: values(row).to_vec(),
                    doc: doc(&read.table, row).written(),
                    damaged: span.damaged.iter().map(|at| key(*at)).collect(),
                },
            });
        }
        for versions in rows.values_mut() {
            versions.sort_by_key(|version| version.valid.from());
        }
        let table = Arc::clone(&read.table);
        Histories { table, rows, words }
    }

    /// The mark below which their table knows nothing.
    pub(super) fn kept_from(&self) -> Mark {
        Mark(self.table.options.kept_from.0)
    }

    /// By the ids of their rows, then from when they are valid.
    pub(super) fn versions(&self) -> impl Iterator<Item = (&String, &Version<SeenRow>)> {
        let rows = self.rows.iter();
        rows.flat_map(|(id, versions)| versions.iter().map(move |version| (id, version)))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &[Value]> {
        self.versions()
            .map(|(_, version)| version.value.values.as_slice())
    }

    /// Where the column stands whose values an aggregate gathers; without a column it counts rows.
    /// Values are counted whatever they are, and reckoned with if they are numbers; of none there
    /// is nothing to refuse.
    pub(super) fn gathered(
        &self,
        column: Option<&str>,
        aggregate: Aggregate,
    ) -> Result<Option<usize>, ApiError> {
        let Some(key) = column else { return Ok(None) };
        let position = self.plain(key)?;
        let column = &self.table.columns[position];
        let what = match column.kind.storage() {
            _ if aggregate == Aggregate::Count => return Ok(Some(position)),
            _ if column.relation().is_some() => "links",
            _ if column.array => "arrays",
            Storage::Int | Storage::Float => return Ok(Some(position)),
            Storage::Bool => "booleans",
            Storage::Text => "texts",
            Storage::Instant => "dates and times",
        };
        if self.values().all(|values| values[position] == Value::Null) {
            return Ok(Some(position));
        }
        let name = aggregate.as_str();
        let why = format!(
            "`{key}` holds {what}: `{name}` takes numbers, `count` whatever a column \
             holds."
        );
        Err(ApiError::invalid("column", why))
    }

    /// The position of a column by which something can be found or reckoned.
    pub(super) fn plain(&self, column: &str) -> Result<usize, ApiError> {
        let position = self.table.named(column)?;
        if self.table.columns[position].encrypt {
            let why = format!("Cannot query encrypted attribute: {column}");
            return Err(ApiError::new(Kind::QueryInvalid, why));
        }
        Ok(position)
    }

    /// Touching pieces of the one row that was read as one, where they are equal.
    pub(super) fn stretches(&self, system: Mark) -> WrittenJson {
        let stretches = History::new(self.of_one()).along_valid_joined(system);
        let shown = stretches
            .iter()
            .map(|stretch| stretch.value.piece(&stretch.valid, self.words));
        written_array(shown.map(SortedObject::written))
    }

    /// Along system time: what was believed of one instant.
    pub(super) fn along_system(&self, at: Coordinates) -> Vec<(Key, WrittenJson)> {
        let entries = History::new(self.of_one()).along_system(at).into_iter();
        let shown = entries.map(|held| {
            let mut shown = self.known(held.sys_from, held.sys_to, held.origin);
            held.value.show(self.words, &mut shown);
            ((held.sys_from, at.valid), shown.written())
        });
        shown.collect()
    }

    /// Along both axes.
    pub(super) fn rectangles(&self, system: Mark) -> Vec<(Key, WrittenJson)> {
        let rectangles = History::new(self.of_one()).rectangles(system).into_iter();
        let shown = rectangles.map(|rectangle| {
            let mut shown = self.known(rectangle.sys_from, rectangle.sys_to, rectangle.origin);
            shown.extend(rectangle.value.piece(&rectangle.valid, self.words));
            (
                (rectangle.sys_from, rectangle.valid.from()),
                shown.written(),
            )
        });
        shown.collect()
    }

    /// When something was known, as the members of an object.
    fn known(&self, from: Mark, to: Option<Mark>, origin: Mark) -> SortedObject<'static> {
        let words = self.words;
        SortedObject::from([
            (words.name(SYSTEM_FROM), words.mark(from)),
            (words.name(SYSTEM_TO), words.at(to.map(Mark::timestamp))),
            (words.name(ORIGIN), words.mark(origin)),
        ])
    }

    /// A row that was read at one point.
    fn seen(&self, id: &str) -> Option<&SeenRow> {
        Some(&self.rows.get(id)?.first()?.value)
    }

    /// The versions of the one row that was read.
    fn of_one(&self) -> &[Version<SeenRow>] {
        self.rows.values().next().map_or(&[][..], Vec::as_slice)
    }

    /// Each piece that was read, as it is shown.
    pub(super) fn shown(
        &self,
        show: impl Fn(&str, &Version<SeenRow>) -> Option<WrittenJson>,
    ) -> WrittenJson {
        written_array(self.versions().filter_map(|(id, piece)| show(id, piece)))
    }

    /// Pairs of pieces that share an instant of `range`, at most so many, of at most so many bytes:
    /// `on` is the column of the left ones that holds the id of a right one.
    pub(super) fn joined(
        &self,
        right: &Histories,
        on: &str,
        range: &Period,
        (pairs_max, bytes_max): (usize, usize),
    ) -> Result<WrittenJson, ApiError> {
        let position = self.plain(on)?;
        let (mut pairs, mut bytes) = (Vec::new(), 0);
        for (id, version) in self.versions() {
            let Value::Text(link) = &version.value.values[position] else {
                continue;
            };
            let Some(others) = right.rows.get(link) else {
                continue;
            };
            let others = meeting(others, &version.valid);
            if pairs.len() + others.len() > pairs_max {
                return Err(EngineError::Read(ReadError::TooManyPieces).into());
            }
            let left_bytes = version.value.doc.len();
            let periods: Vec<Period> = others.iter().map(|other| other.valid).collect();
            let pairs_of_both = join(&[version.valid], &periods).into_iter();
            for met in pairs_of_both.filter(|pair| pair.valid.intersect(range).is_some()) {
                let right = &others[met.right];
                bytes += left_bytes + right.value.doc.len();
                if bytes > bytes_max {
                    return Err(EngineError::Read(ReadError::AnswerTooLarge { bytes_max }).into());
                }
                pairs.push(pair(self.words, &met.valid, (id, version), (link, right)));
            }
        }
        Ok(written_array(pairs))
    }

    pub(super) fn timeline(
        &self,
        aggregate: Aggregate,
        period: &Period,
        value: impl Fn(&[Value]) -> Option<Number>,
    ) -> Vec<Step> {
        let values = self
            .versions()
            .filter_map(|(_, version)| Some((version.valid, value(&version.value.values)?)));
        timeline(aggregate, period, values)
    }

    /// What differs between two points, by value.
    pub(super) fn difference(&self, newer: &Histories) -> WrittenJson {
        let is_same = |before: Option<&SeenRow>, after: Option<&SeenRow>| match (before, after) {
            (Some(before), Some(after)) => {
                let is_whole = before.damaged.is_empty() && after.damaged.is_empty();
                is_whole && by_column(&self.table, before) == by_column(&newer.table, after)
            }
            (before, after) => before.is_none() && after.is_none(),
        };
        let mut ids: Vec<&String> = self.rows.keys().chain(newer.rows.keys()).collect();
        ids.sort();
        ids.dedup();
        let shown = ids.into_iter().filter_map(|id| {
            let (before, after) = (self.seen(id), newer.seen(id));
            let doc =
                |seen: Option<&SeenRow>| seen.map_or_else(|| written(&()), |seen| seen.doc.clone());
            (!is_same(before, after)).then(|| {
                let shown = SortedObject::from([
                    (self.words.name(SHOWN_ROW), written(id)),
                    ("before", doc(before)),
                    ("after", doc(after)),
                ]);
                shown.written()
            })
        });
        written_array(shown)
    }
}

/// A pair of pieces, and where both are valid.
pub(super) fn pair(
    words: Vocabulary,
    valid: &Period,
    (left, left_piece): (&str, &Version<SeenRow>),
    (right, right_piece): (&str, &Version<SeenRow>),
) -> WrittenJson {
    let mut shown = words.over(valid);
    shown.set("left", written(left));
    shown.set("right", written(right));
    shown.set(words.name(LEFT_CONTENT), left_piece.value.doc.clone());
    shown.set(words.name(RIGHT_CONTENT), right_piece.value.doc.clone());
    shown.written()
}

/// A step of a timeline.
pub(super) fn step(step: &Step, words: Vocabulary) -> WrittenJson {
    let shown = SortedObject::from([
        (words.name(STEP_FROM), words.at(step.valid.from())),
        (words.name(STEP_TO), words.at(step.valid.to())),
        ("value", number(step.value)),
    ]);
    shown.written()
}

/// The values of a row by the numbers of their columns, which a rename keeps and no other column
/// ever gets. A column that is null is like one that the table does not have.
fn by_column<'s>(table: &Table, seen: &'s SeenRow) -> BTreeMap<ColumnNumber, &'s Value> {
    let columns = table.columns.iter().zip(&seen.values);
    let filled = columns.filter(|(_, value)| **value != Value::Null);
    filled
        .map(|(column, value)| (column.number, value))
        .collect()
}

/// Those of a row's pieces, which are disjoint and in order, that share an instant with a period.
fn meeting<'v>(pieces: &'v [Version<SeenRow>], period: &Period) -> &'v [Version<SeenRow>] {
    let ended = |piece: &Version<SeenRow>| piece.valid.to().is_some_and(|to| to <= period.from());
    let first = pieces.partition_point(ended);
    let begun = |piece: &Version<SeenRow>| period.to().is_none_or(|to| piece.valid.from() < to);
    let after = pieces.partition_point(begun);
    &pieces[first..after.max(first)]
}

pub(super) fn number(number: Option<Number>) -> WrittenJson {
    match number {
        None => written(&()),
        Some(Number::Int(int)) => written(&int),
        Some(Number::Float(float)) => written(&float),
    }
}

/// A row with where it stands in time; never until when it was known.
pub(super) fn full(row: &Row, doc: WrittenJson, words: Vocabulary) -> WrittenJson {
    let span = span(row);
    let mut shown = words.over(&span.valid);
    shown.set(words.name(CONTENT), doc);
    shown.set(words.name(SYSTEM_FROM), words.mark(span.system_from));
    shown.set(words.name(ORIGIN), words.mark(span.origin));
    shown.written()
}

/// The record of a commit, as its lookup shows it.
pub(super) fn record(record: &CommitRecord, words: Vocabulary) -> SortedObject<'static> {
    let changes = record.changes.iter().map(|(table, id)| {
        if words.is_own() {
            SortedObject::from([("tableId", written(table)), ("rowId", written(id))]).written()
        } else {
            written(&[table, id])
        }
    });
    let mut shown = SortedObject::from([
        (words.name(COMMITTED), words.mark(record.mark)),
        ("changes", written_array(changes)),
    ]);
    if record.is_damaged {
        shown.set("damaged", written(&["meta"]));
    } else {
        shown.set("meta", meta(record.meta.as_deref()));
    }
    if !record.schema.is_empty() {
        let changes = record.schema.iter().map(|change| schema(change, words));
        shown.set("schema", written_array(changes));
    }
    if let Some(erased) = record.erased {
        shown.set("erased", written(&erased));
    }
    shown
}

/// A change of the database or of what is in it.
fn schema(record: &SchemaRecord, words: Vocabulary) -> WrittenJson {
    let mut shown = SortedObject::from([("act", written(record.act.as_str()))]);
    for (name, word) in [(words.name(TABLE), &record.table), ("key", &record.key)] {
        if let Some(word) = word {
            shown.set(name, written(word));
        }
    }
    shown.written()
}

/// The same with who wrote, as the feed shows it.
pub(super) fn recorded(one: &CommitRecord, words: Vocabulary) -> WrittenJson {
    let mut shown = record(one, words);
    shown.set("user", written(&one.author));
    shown.written()
}

#[cfg(test)]
mod tests {
    use model::Mark;

    use super::*;

    #[test]
    fn a_damaged_note_is_not_shown_as_none() {
        let of = |meta: Option<&str>, is_damaged| {
            let one = CommitRecord {
                mark: Mark(7),
                meta: meta.map(str::to_owned),
                is_damaged,
                author: None,
                changes: Vec::new(),
                erased: None,
                schema: Vec::new(),
            };
            String::from_utf8(record(&one, Vocabulary::CASES).written()).unwrap()
        };
        assert_eq!(of(None, false), r#"{"changes":[],"meta":null,"tt":7}"#);
        assert_eq!(
            of(Some("[1]"), false),
            r#"{"changes":[],"meta":[1],"tt":7}"#
        );
        let damaged = r#"{"changes":[],"damaged":["meta"],"tt":7}"#;
        assert_eq!(of(None, true), damaged);
    }
}
