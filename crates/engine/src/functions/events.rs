//! Functions that changes of rows execute: which executions the commits of the past ask for.
//!
//! Commits are read in the order of their marks, behind a cursor that moves in the commit that
//! queues the executions: none is lost, and none is queued twice. What happened to a row is found
//! by reading it as it was known at the mark and just before it.
//!
//! Projects share the cursor as long as their events go on. One whose queue is full, or whose rows
//! cannot be read, gets a cursor of its own and waits alone.

use std::collections::HashMap;
use std::sync::Arc;

use list_cache::Family;
use model::{Actor, Function, KeyId, Mark, ProjectId, RowId, Scope, Table};
use store::{
    ChangedRow, ChangedRows, CursorOf, EventCursor, FunctionOp, NewEvents, QUEUED_BYTES_MAX,
    QUEUED_MAX, QueueBounds, QueueOp,
};

use super::queue::{QueuedRequest, failed_execution, name_of, new_execution};
use crate::Engine;
use crate::error::{EngineError, ReadError};
use crate::read::view::{RowAnswer, View};
use crate::request::inputs::{Caller, ListRows, Place};

/// Changed rows that are looked through in one slice.
const ROWS_A_SLICE: usize = 1_024;
/// Of them, those that some function may listen to, which are read.
const ROWS_READ_A_SLICE: usize = 64;
/// The same in a project that is apart: where there is little room, a few have some.
const ROWS_READ_APART: usize = 8;
/// Bytes of the rows that one slice sends, after which it ends.
const SLICE_BYTES_MAX: usize = 8 << 20;
/// Executions that one slice queues, after which it ends.
const SLICE_EXECUTIONS_MAX: usize = 500;
/// What is written at a greater depth executes nothing (wire protocol, queue).
pub const EVENT_DEPTH_MAX: u8 = 5;

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowAction {
    Create,
    Update,
    Delete,
}

impl RowAction {
    fn as_str(self) -> &'static str {
        match self {
            RowAction::Create => "create",
            RowAction::Update => "update",
            RowAction::Delete => "delete",
        }
    }
}

/// What happened to a row, and the row; `None` where nothing did that is an event.
type Happened = Option<(RowAction, Arc<[u8]>)>;

/// The words of events in one family of routes.
struct EventFamily {
    words: [&'static str; 3],
    family: Family,
}

const FAMILIES: [EventFamily; 3] = [
    EventFamily {
        words: ["databases", "tables", "rows"],
        family: Family::Tables,
    },
    EventFamily {
        words: ["tablesdb", "tables", "rows"],
        family: Family::Tables,
    },
    EventFamily {
        words: ["databases", "collections", "documents"],
        family: Family::Documents,
    },
];

/// An execution that an event asks for.
#[derive(Clone, Debug)]
pub struct EventRequest {
    /// The function.
    pub function: Arc<Function>,
    /// The name of the event, without wildcards, in the words of the pattern that it matches.
    pub event: String,
    /// The row as JSON: as it became, or as it was last where it was deleted.
    pub row: Arc<[u8]>,
    /// How deep the commit is: 0 from outside of functions.
    pub depth: u8,
}

/// What follows from the commits behind a cursor.
#[derive(Clone, Debug)]
pub struct EventSlice {
    /// What is to be executed, in the order of the commits.
    pub requests: Vec<EventRequest>,
    /// Whether there may be more behind it.
    pub has_more: bool,
    /// Projects whose events wait behind those of the rest: they have slices of their own.
    pub apart: Vec<ProjectId>,
    /// The first commit whose rows are looked at here; `None` where there is none.
    pub first: Option<Mark>,
    of: Option<ProjectId>,
    held: Vec<ProjectId>,
    from: EventCursor,
    to: EventCursor,
}

impl EventSlice {
    /// Whether no row has changed behind the cursor: then there is nothing to queue.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Whether changes in this project are looked at here.
    fn is_of(&self, project: &ProjectId) -> bool {
        match &self.of {
            Some(of) => of == project,
            None => !self.apart.contains(project) && !self.held.contains(project),
        }
    }
}

impl Engine {
    /// The next executions that changes of rows ask for: in a project of [`EventSlice::apart`], or
    /// in all others. `None` where no function listens, and where the project goes with the others.
    ///
    /// # Errors
    /// What the store says. What it says of the rows of one project holds up no other one: that
    /// project is apart from then on.
    pub async fn next_events(
        &self,
        of: Option<&ProjectId>,
    ) -> Result<Option<EventSlice>, EngineError> {
        let functions = self.functions_by_seq();
        let is_listening = |function: &Arc<Function>| {
            !function.definition.events.is_empty() && function.active.is_some()
        };
        if !functions.values().any(is_listening) {
            return Ok(None);
        }
        let changed = self.shared.store.changed_rows(of, ROWS_A_SLICE).await?;
        match changed {
            Some(changed) => self.slice_of(of, &functions, changed).await.map(Some),
            None => Ok(None),
        }
    }

    async fn slice_of(
        &self,
        of: Option<&ProjectId>,
        functions: &HashMap<i64, Arc<Function>>,
        changed: ChangedRows,
    ) -> Result<EventSlice, EngineError> {
        let listeners = Listeners::new(functions, &changed.listening);
        let catalogue = self.catalogue();
        let mut slice = EventSlice {
            requests: Vec::new(),
            has_more: changed.rows.len() == ROWS_A_SLICE,
            apart: changed.apart,
            first: None,
            of: of.cloned(),
            held: Vec::new(),
            from: changed.cursor,
            to: changed.end,
        };
        let read_max = match of {
            Some(_) => ROWS_READ_APART,
            None => ROWS_READ_A_SLICE,
        };
        let (mut bytes, mut read) = (0, 0);
        for row in changed.rows {
            let table = catalogue.table_by_number(row.table);
            let table = table.filter(|table| slice.is_of(&table.project));
            slice.first = slice.first.or(table.map(|_| row.mark));
            let concerned = table.map(|table| (table, listeners.of(table, &row)));
            let Some((table, concerned)) = concerned.filter(|(_, some)| !some.is_empty()) else {
                continue;
            };
            let before = slice.requests.len();
            match self.ask(table, &row, &concerned, &mut slice.requests).await {
                Ok(()) => {}
                Err(error) if of.is_some() => return Err(error),
                Err(_) => {
                    let project = &table.project;
                    let is_other = |one: &EventRequest| one.function.project != *project;
                    slice.requests.retain(is_other);
                    slice.held.push(project.clone());
                    continue;
                }
            }
            let new = slice.requests[before..].iter();
            bytes += new.map(|request| request.row.len()).sum::<usize>();
            read += 1;
            if bytes > SLICE_BYTES_MAX
                || slice.requests.len() > SLICE_EXECUTIONS_MAX
                || read == read_max
            {
                slice.has_more = true;
                slice.to = EventCursor {
                    mark: row.mark,
                    table: row.table,
                    row: row.id,
                };
                break;
            }
        }
        Ok(slice)
    }

    /// What one changed row asks of the functions that listen to it.
    async fn ask(
        &self,
        table: &Table,
        row: &ChangedRow,
        concerned: &[&Arc<Function>],
        requests: &mut Vec<EventRequest>,
    ) -> Result<(), EngineError> {
        let depth = depth_of(row.author.as_deref());
        // By the words of the answer, in which rows are written differently.
        let mut known: HashMap<bool, Happened> = HashMap::new();
        for function in concerned {
            for family in &FAMILIES {
                let patterns = &function.definition.events;
                let is_of =
                    |pattern: &&String| matches_place(pattern, &family.words, table, &row.id);
                if !patterns.iter().any(|pattern| is_of(&pattern)) {
                    continue;
                }
                let is_legacy = family.family == Family::Documents;
                let happened = match known.get(&is_legacy) {
                    Some(happened) => happened.clone(),
                    None => self.happened(table, row, family.family).await?,
                };
                known.insert(is_legacy, happened.clone());
                let Some((action, content)) = happened else {
                    continue;
                };
                let has_action = |pattern: &&String| {
                    let action_of = pattern.split('.').nth(6);
                    is_of(pattern) && action_of.is_none_or(|named| named == action.as_str())
                };
                if patterns.iter().any(|pattern| has_action(&pattern)) {
                    let [database, tables, rows] = family.words;
                    let (d, t, r) = (&table.database, &table.id, &row.id);
                    requests.push(EventRequest {
                        function: Arc::clone(function),
                        event: format!(
                            "{database}.{d}.{tables}.{t}.{rows}.{r}.{}",
                            action.as_str()
                        ),
                        row: content,
                        depth,
                    });
                    // One event executes a function once, in whatever words it listens.
                    break;
                }
            }
        }
        Ok(())
    }

    /// What a commit did to a row, and the row: `None` where it was valid neither before nor after,
    /// or is not known any more.
    async fn happened(
        &self,
        table: &Table,
        row: &ChangedRow,
        family: Family,
    ) -> Result<Happened, EngineError> {
        let after = self.row_known_at(table, row, row.mark.0, family).await;
        let before = self.row_known_at(table, row, row.mark.0 - 1, family).await;
        let (after, before) = match (after, before) {
            (Ok(after), Ok(before)) => (after, before),
            (Err(EngineError::Read(ReadError::HistoryGone(_))), _)
            | (_, Err(EngineError::Read(ReadError::HistoryGone(_)))) => {
                // The row of now is all that is left.
                let now = self.now().0;
                let now = self.row_known_at(table, row, now, family).await?;
                return Ok(now.map(|now| (RowAction::Update, now)));
            }
            // The database fails: the slice is read again.
            (Err(error @ (EngineError::Store(_) | EngineError::Unavailable(_))), _)
            | (_, Err(error @ (EngineError::Store(_) | EngineError::Unavailable(_)))) => {
                return Err(error);
            }
            // What cannot be shown any more, such as a row of a table that is gone, is no event.
            _ => return Ok(None),
        };
        Ok(match (before, after) {
            (None, Some(after)) => Some((RowAction::Create, after)),
            (Some(_), Some(after)) => Some((RowAction::Update, after)),
            (Some(before), None) => Some((RowAction::Delete, before)),
            (None, None) => None,
        })
    }

    async fn row_known_at(
        &self,
        table: &Table,
        row: &ChangedRow,
        instant: i64,
        family: Family,
    ) -> Result<Option<Arc<[u8]>>, EngineError> {
        let Ok(id) = RowId::new(&row.id) else {
            return Ok(None);
        };
        let texts = [format!(r#"{{"method":"asOf","values":[{instant}]}}"#)];
        let list = ListRows {
            place: Place {
                database: table.database.as_str(),
                table: table.id.as_str(),
            },
            texts: &texts,
            total: false,
            ttl_s: 0,
            bypass: true,
            family,
        };
        let caller = reader(&table.project);
        match self.get_row(&caller, &list, &id, View::CURRENT).await {
            Ok(RowAnswer::AtTimes(answer)) => Ok(Some(answer.rows)),
            Ok(RowAnswer::Page(_)) | Err(EngineError::Read(ReadError::RowNotFound(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Queues what a slice asks for, each as a request of its own, keeps the records of what is too
    /// deep to be started, and moves the cursor behind it: all or nothing.
    ///
    /// # Errors
    /// [`crate::FunctionError::QueueFull`] in a project that is apart: its cursor stays, and the
    /// slice comes again. Of other projects, those without room are apart from then on.
    pub async fn queue_events(
        &self,
        slice: EventSlice,
        requests: Vec<(Arc<Function>, QueuedRequest)>,
    ) -> Result<(), EngineError> {
        if slice.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let mut queued = Vec::with_capacity(requests.len());
        let mut failed = Vec::new();
        for (function, request) in requests {
            let depth = request.depth;
            let new = new_execution(&function, request, now)?;
            if depth > EVENT_DEPTH_MAX {
                let record = failed_execution(&new.queued, now, TOO_DEEP);
                failed.push((name_of(&function), function.seq, record));
            } else {
                queued.push(new);
            }
        }
        let events = NewEvents {
            of: match slice.of {
                Some(project) => CursorOf::Project(project),
                None => CursorOf::AllBut(slice.apart),
            },
            held: slice.held,
            queued,
            failed,
            from: slice.from,
            to: slice.to,
            bounds: QueueBounds {
                count_max: QUEUED_MAX,
                bytes_max: QUEUED_BYTES_MAX,
            },
        };
        let op = QueueOp::PutEvents(Arc::new(events));
        self.change_function(None, FunctionOp::Queue(op)).await
    }
}

/// What the record of an execution says that is not started.
const TOO_DEEP: &str = "Not executed: the row was written by an execution that an event has \
                        started, and so on five times. A function that listens to what it writes \
                        would never end.";

/// Reads for events, whatever rows grant.
fn reader(project: &ProjectId) -> Caller {
    Caller {
        project: project.clone(),
        actor: Actor::Key {
            id: KeyId::new("events").expect("the constant follows the rule"),
            scopes: Arc::from([Scope::RowsRead]),
        },
        request: None,
        meta: None,
        function: None,
    }
}

/// The depth that the author of a commit names: `function:ID:DEPTH`, after a key or alone.
fn depth_of(author: Option<&str>) -> u8 {
    let named = author.and_then(|author| {
        let parts: Vec<&str> = author.rsplitn(4, ':').collect();
        match parts[..] {
            [depth, _, "function", ..] => depth.parse().ok(),
            _ => None,
        }
    });
    named.unwrap_or_default()
}

/// Whether a pattern names this row, a wildcard, or something that holds it.
fn matches_place(pattern: &str, words: &[&str; 3], table: &Table, row: &str) -> bool {
    let ids = [table.database.as_str(), table.id.as_str(), row];
    let named = words.iter().zip(ids).flat_map(|(word, id)| [*word, id]);
    let mut parts = pattern.split('.').take(6).zip(named).enumerate();
    parts.all(|(at, (part, name))| part == name || (at % 2 == 1 && part == "*"))
}

/// Which functions listen to what.
struct Listeners<'a> {
    /// By project, each with the mark behind which it listens.
    functions: HashMap<&'a str, Vec<(&'a Arc<Function>, i64)>>,
}

impl<'a> Listeners<'a> {
    fn new(functions: &'a HashMap<i64, Arc<Function>>, since: &[(i64, i64)]) -> Listeners<'a> {
        let mut all: HashMap<&str, Vec<(&Arc<Function>, i64)>> = HashMap::new();
        for (seq, mark) in since {
            let function = functions.get(seq);
            if let Some(function) = function.filter(|function| function.active.is_some()) {
                let of_project = all.entry(function.project.as_str()).or_default();
                of_project.push((function, *mark));
            }
        }
        for of_project in all.values_mut() {
            of_project.sort_by_key(|(function, _)| function.seq);
        }
        Listeners { functions: all }
    }

    /// Those that a change of this row may concern.
    fn of(&self, table: &Table, row: &ChangedRow) -> Vec<&'a Arc<Function>> {
        let of_project = self.functions.get(table.project.as_str());
        let found = of_project
            .into_iter()
            .flatten()
            .filter(|(function, since)| {
                let is_named = |family: &EventFamily| {
                    let mut patterns = function.definition.events.iter();
                    patterns.any(|pattern| matches_place(pattern, &family.words, table, &row.id))
                };
                *since < row.mark.0 && FAMILIES.iter().any(is_named)
            });
        found.map(|(function, _)| *function).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_read_from_the_author_of_a_commit() {
        for (author, depth) in [
            (None, 0),
            (Some("key:k"), 0),
            (Some("function:f:1"), 1),
            (Some("function:f:6"), 6),
            (Some("key:k:function:f:3"), 3),
            (Some("key:function"), 0),
            (Some("key:function:9"), 0),
            (Some(""), 0),
        ] {
            assert_eq!(depth_of(author), depth, "{author:?}");
        }
    }
}
