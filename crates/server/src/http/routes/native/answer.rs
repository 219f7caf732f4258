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
use serde_json::{Value as Out, json};

use super::json::{doc, meta};
use super::vocabulary::{
    COMMITTED, CONTENT, LEFT_CONTENT, ORIGIN, RIGHT_CONTENT, SHOWN_ROW, STEP_FROM, STEP_TO,
    SYSTEM_FROM, SYSTEM_TO, TABLE, VALID_FROM, VALID_TO, Vocabulary,
};
use crate::http::wire::error::{ApiError, Kind};

/// A row as it was at one time: its columns, and how it is shown.
#[derive(Clone, Debug)]
pub(super) struct SeenRow {
    pub(super) values: Vec<Value>,
    pub(super) doc: Out,
    /// The columns that it lacks because their encrypted value is damaged.
    damaged: Vec<String>,
}

impl SeenRow {
    /// What is shown of it over a valid period.
    pub(super) fn piece(&self, valid: &Period, words: Vocabulary) -> Out {
        let mut shown = words.over(valid);
        shown[words.name(CONTENT)] = self.doc.clone();
        self.mark(shown)
    }

    /// What is shown of it, with what is missing.
    fn mark(&self, mut shown: Out) -> Out {
        if !self.damaged.is_empty() {
            shown["damaged"] = json!(self.damaged);
        }
        shown
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
pub fn rectangles(read: &PiecesRead, at: Coordinates) -> Out {
    let shown = Histories::new(read, Vocabulary::CASES).rectangles(at.system);
    shown.into_iter().map(|(_, rectangle)| rectangle).collect()
}

/// Where a row of an answer stands in the order: from when it was known, then from when it is
/// valid.
pub(super) type Key = (Mark, Timestamp);

pub(super) fn span(row: &Row) -> &Span {
    row.span.as_ref().expect("pieces say where they stand")
}

impl Histories {
    pub(super) fn new(read: &PiecesRead, words: Vocabulary) -> Histories {
        let key = |at: usize| read.table.columns[at].key.to_string();
        let mut rows: BTreeMap<String, Vec<Version<SeenRow>>> = BTreeMap::new();
        for row in &read.rows {
            let (span, Content::Values(values)) = (span(row), &row.content) else {
                unreachable!("pieces are read by their columns");
            };
            let versions = rows.entry(row.id.to_string()).or_default();
            versions.push(Version {
                number: VersionNumber(versions.len() as i64),
                valid: span.valid,
                sys_from: span.system_from,
                cut: None,
                gone: span.system_to,
                origin: span.origin,
                value: SeenRow {
                    values: values.clone(),
                    doc: doc(&read.table, row),
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
    pub(super) fn stretches(&self, system: Mark) -> Out {
        let stretches = History::new(self.of_one()).along_valid_joined(system);
        let stretches = stretches.iter();
        stretches
            .map(|stretch| stretch.value.piece(&stretch.valid, self.words))
            .collect()
    }

    /// Along system time: what was believed of one instant.
    pub(super) fn along_system(&self, at: Coordinates) -> Vec<(Key, Out)> {
        let entries = History::new(self.of_one()).along_system(at).into_iter();
        let words = self.words;
        let shown = entries.map(|held| {
            let shown = held.value.mark(json!({
                (words.name(SYSTEM_FROM)): words.mark(held.sys_from),
                (words.name(SYSTEM_TO)): words.mark_or_null(held.sys_to),
                (words.name(ORIGIN)): words.mark(held.origin),
                (words.name(CONTENT)): held.value.doc,
            }));
            ((held.sys_from, at.valid), shown)
        });
        shown.collect()
    }

    /// Along both axes.
    pub(super) fn rectangles(&self, system: Mark) -> Vec<(Key, Out)> {
        let rectangles = History::new(self.of_one()).rectangles(system).into_iter();
        let words = self.words;
        let shown = rectangles.map(|rectangle| {
            let mut shown = rectangle.value.piece(&rectangle.valid, words);
            shown[words.name(SYSTEM_FROM)] = words.mark(rectangle.sys_from);
            shown[words.name(SYSTEM_TO)] = words.mark_or_null(rectangle.sys_to);
            shown[words.name(ORIGIN)] = words.mark(rectangle.origin);
            ((rectangle.sys_from, rectangle.valid.from()), shown)
        });
        shown.collect()
    }

    /// The versions of the one row that was read.
    fn of_one(&self) -> &[Version<SeenRow>] {
        self.rows.values().next().map_or(&[][..], Vec::as_slice)
    }

    /// Each piece that was read, as it is shown.
    pub(super) fn shown(&self, show: impl Fn(&str, &Version<SeenRow>) -> Option<Out>) -> Out {
        let shown = self.versions().filter_map(|(id, piece)| show(id, piece));
        shown.collect()
    }

    /// Pairs of pieces that share an instant of `range`, at most so many, of at most so many bytes:
    /// `on` is the column of the left ones that holds the id of a right one.
    pub(super) fn joined(
        &self,
        right: &Histories,
        on: &str,
        range: &Period,
        (pairs_max, bytes_max): (usize, usize),
    ) -> Result<Out, ApiError> {
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
            let left_bytes = version.value.doc.to_string().len();
            let periods: Vec<Period> = others.iter().map(|other| other.valid).collect();
            let pairs_of_both = join(&[version.valid], &periods).into_iter();
            for met in pairs_of_both.filter(|pair| pair.valid.intersect(range).is_some()) {
                let right = &others[met.right];
                bytes += left_bytes + right.value.doc.to_string().len();
                if bytes > bytes_max {
                    return Err(EngineError::Read(ReadError::AnswerTooLarge { bytes_max }).into());
                }
                pairs.push(pair(self.words, &met.valid, (id, version), (link, right)));
            }
        }
        Ok(Out::Array(pairs))
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
    pub(super) fn difference(&self, newer: &Histories) -> Out {
        let seen = |rows: &Histories, id: &String| {
            let version = rows.rows.get(id)?.first()?;
            Some(version.value.clone())
        };
        let is_same = |before: &Option<SeenRow>, after: &Option<SeenRow>| match (before, after) {
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
            let (before, after) = (seen(self, id), seen(newer, id));
            let doc = |seen: &Option<SeenRow>| seen.as_ref().map_or(Out::Null, |s| s.doc.clone());
            (!is_same(&before, &after)).then(|| {
                json!({
                    (self.words.name(SHOWN_ROW)): id,
                    "before": doc(&before),
                    "after": doc(&after),
                })
            })
        });
        shown.collect()
    }
}

/// A pair of pieces, and where both are valid.
pub(super) fn pair(
    words: Vocabulary,
    valid: &Period,
    (left, left_piece): (&str, &Version<SeenRow>),
    (right, right_piece): (&str, &Version<SeenRow>),
) -> Out {
    let mut shown = words.over(valid);
    shown["left"] = json!(left);
    shown["right"] = json!(right);
    shown[words.name(LEFT_CONTENT)] = left_piece.value.doc.clone();
    shown[words.name(RIGHT_CONTENT)] = right_piece.value.doc.clone();
    shown
}

/// A step of a timeline.
pub(super) fn step(step: &Step, words: Vocabulary) -> Out {
    json!({
        (words.name(STEP_FROM)): words.at(step.valid.from()),
        (words.name(STEP_TO)): words.end(&step.valid),
        "value": number(step.value),
    })
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

pub(super) fn number(number: Option<Number>) -> Out {
    match number {
        None => Out::Null,
        Some(Number::Int(int)) => json!(int),
        Some(Number::Float(float)) => json!(float),
    }
}

/// A row with where it stands in time; never until when it was known.
pub(super) fn full(row: &Row, doc: Out, words: Vocabulary) -> Out {
    let span = span(row);
    json!({
        (words.name(CONTENT)): doc,
        (words.name(VALID_FROM)): words.at(span.valid.from()),
        (words.name(VALID_TO)): words.end(&span.valid),
        (words.name(SYSTEM_FROM)): words.mark(span.system_from),
        (words.name(ORIGIN)): words.mark(span.origin),
    })
}

/// The record of a commit, as its lookup shows it.
pub(super) fn record(record: &CommitRecord, words: Vocabulary) -> Out {
    let changes = record.changes.iter();
    let changes: Vec<Out> = changes
        .map(|(table, id)| {
            if words.is_own() {
                json!({"tableId": table, "rowId": id})
            } else {
                json!([table, id])
            }
        })
        .collect();
    let mut shown = json!({
        (words.name(COMMITTED)): words.mark(record.mark),
        "changes": changes,
    });
    if record.is_damaged {
        shown["damaged"] = json!(["meta"]);
    } else {
        shown["meta"] = meta(record.meta.as_deref());
    }
    if !record.schema.is_empty() {
        let changes = record.schema.iter();
        shown["schema"] = changes.map(|change| schema(change, words)).collect();
    }
    if let Some(erased) = record.erased {
        shown["erased"] = json!(erased);
    }
    shown
}

/// A change of the database or of what is in it.
fn schema(record: &SchemaRecord, words: Vocabulary) -> Out {
    let mut shown = json!({"act": record.act.as_str()});
    for (name, word) in [(words.name(TABLE), &record.table), ("key", &record.key)] {
        if let Some(word) = word {
            shown[name] = json!(word);
        }
    }
    shown
}

/// The same with who wrote, as the feed shows it.
pub(super) fn recorded(one: &CommitRecord, words: Vocabulary) -> Out {
    let mut shown = record(one, words);
    shown["user"] = json!(one.author);
    shown
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
            record(&one, Vocabulary::CASES)
        };
        assert_eq!(
            of(None, false),
            json!({"tt": 7, "meta": null, "changes": []})
        );
        assert_eq!(
            of(Some("[1]"), false),
            json!({"tt": 7, "meta": [1], "changes": []})
        );
        let damaged = json!({"tt": 7, "damaged": ["meta"], "changes": []});
        assert_eq!(of(None, true), damaged);
    }
}
