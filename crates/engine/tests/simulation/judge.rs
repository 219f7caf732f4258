//! What a list may be answered, to an observer who looks at the store when the read begins.
//!
//! States are numbered by the groups of writes that became visible. An answer may be that of any
//! state from the one that could be read when the request came to the one that stands when it is
//! answered; never of an older one, whatever mark the answer carries. Each state is evaluated by
//! the store itself, past the engine and its cache, while it stands.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{AccessError, EngineError, ReadError, SchemaError};
use futures_executor::block_on;
use model::{
    Catalogue, Field, Image, Mark, Page, RowId, Selection, Table, TableNumber, Timestamp, Value,
};
use query::{Filter, Frame, Limits, Test};
use store::{Boundaries, Changes, Listing, Outcome, Point, Store, TotalCap};

use super::domain::{self, PROJECT};
use super::fixture;
use super::question::{Question, table_at};

/// Rows and total, or why there are none.
pub type Verdict = Result<(Vec<u8>, u64), EngineError>;

/// A state: when it became visible, and the mark of its last commit.
#[derive(Clone, Debug)]
pub struct State {
    pub mark: Mark,
    pub since_ms: u64,
    /// The transaction whose commit alone made it.
    pub transaction: Option<String>,
}

/// What an answer about a settled time rests on, beside its question: while all of it stays, so
/// does the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Grounds {
    table: Option<Arc<Table>>,
    is_enabled: bool,
    erasures: usize,
    /// Changes of the grants of rows, which are shown, and decide who sees them, as of now.
    grants: usize,
}

pub struct Judge {
    store: Arc<dyn Store>,
    limits: Limits,
    total_cap: TotalCap,
    /// As of the state that stands.
    catalogue: Catalogue,
    pub states: Vec<State>,
    /// The state that stands changes the catalogue and is not published: every reader waits, so
    /// that the one before may still be answered.
    is_hidden: bool,
    /// The instant it is.
    now: Timestamp,
    /// When each table changes next by itself.
    boundaries: Boundaries,
    /// Verdicts on the state that stands.
    known: HashMap<usize, Verdict>,
    /// Verdicts on the state before, for questions that may come while it is hidden.
    before: HashMap<usize, Verdict>,
    /// The mark of the last commit that changed rows of a table.
    touched: HashMap<TableNumber, Mark>,
    /// The mark that stood when a table was purged.
    purged: HashMap<TableNumber, Mark>,
    /// Whether other times than now are read, so that erasures must be known.
    pub travels: bool,
    erasures: usize,
    /// The marks of the commits that erased rows of a table.
    erased: HashMap<TableNumber, Vec<Mark>>,
    /// How often grants of rows of a table changed, or may have.
    regranted: HashMap<TableNumber, usize>,
}

impl Judge {
    pub fn new(store: Arc<dyn Store>, limits: Limits, total_cap: TotalCap) -> Judge {
        let loaded = block_on(store.load()).expect("a store that was just opened");
        Judge {
            store,
            limits,
            total_cap,
            catalogue: loaded.catalogue,
            states: vec![State {
                mark: loaded.mark,
                since_ms: 0,
                transaction: None,
            }],
            is_hidden: false,
            now: Timestamp(0),
            boundaries: loaded.boundaries,
            known: HashMap::new(),
            before: HashMap::new(),
            touched: HashMap::new(),
            purged: HashMap::new(),
            travels: false,
            erasures: 0,
            erased: HashMap::new(),
            regranted: HashMap::new(),
        }
    }

    /// The containers of the state that stands.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The number of the state that stands.
    pub fn stands(&self) -> usize {
        self.states.len() - 1
    }

    /// The number of the state that a reader can see now.
    pub fn readable(&self) -> usize {
        self.stands() - usize::from(self.is_hidden)
    }

    /// Whether the question may come now: of a state that cannot be evaluated any more, the
    /// verdict must be known.
    pub fn may_be_asked(&self, question: &Question) -> bool {
        !self.is_hidden || self.before.contains_key(&question.number)
    }

    /// The verdict on the state that can be read now.
    pub fn on_arrival(&self, question: &Question) -> Option<(usize, Verdict)> {
        let before = self
            .before
            .get(&question.number)
            .filter(|_| self.is_hidden)?;
        Some((self.readable(), before.clone()))
    }

    /// What the state that stands answers.
    pub fn verdict(&mut self, question: &Question) -> Verdict {
        if let Some(known) = self.known.get(&question.number) {
            return known.clone();
        }
        let as_of = question.times.and_then(|times| times.as_of);
        let verdict = self.evaluate(question, as_of);
        self.known.insert(question.number, verdict.clone());
        verdict
    }

    /// The same steps as the engine's, and in their order, since several may refuse. A question
    /// about another time than now is answered as known at `mark`.
    pub fn evaluate(&self, question: &Question, mark: Option<Mark>) -> Verdict {
        let actor = &question.caller.actor;
        let project = self.catalogue.project(PROJECT);
        let project = project.ok_or_else(|| SchemaError::ProjectNotFound(PROJECT.to_owned()))?;
        let is_seen = |enabled: bool| enabled || actor.bypasses_grants();
        let database = project.databases.get(question.database);
        let database = database
            .filter(|database| is_seen(database.enabled))
            .ok_or_else(|| SchemaError::DatabaseNotFound(question.database.to_owned()))?;
        let table = database.tables.get(question.table);
        let table = table
            .filter(|table| is_seen(table.enabled))
            .ok_or_else(|| SchemaError::TableNotFound(question.table.to_owned()))?;
        let only = question.only.map(|id| RowId::new(id).expect("a legal id"));
        let visibility = query::visibility(table, actor).ok_or_else(|| match &only {
            Some(id) => EngineError::Read(ReadError::RowNotFound(id.clone())),
            None => EngineError::Access(AccessError::Unauthorized),
        })?;
        // A query of the past uses the names of then.
        let table = match mark.filter(|_| question.times.is_some()) {
            Some(mark) => &block_on(self.store.table_as_of(table, mark))?,
            None => table,
        };
        let ast = query::parse(&question.texts)?;
        let mut query = query::resolve(&ast, table, visibility, None, &self.limits)?;
        if let Some(id) = &only {
            let id = Test::In(vec![Value::Text(id.to_string())]);
            query.filter = Filter::All(vec![Filter::Field(Field::Id, id)]);
        }
        match (question.times, mark) {
            (Some(times), Some(mark)) => times.look_through(&mut query, mark),
            _ if self.is_due(table.number) => query.frame = Frame::Due(self.now),
            _ => {}
        }
        let listing = Listing {
            query: &query,
            rows: true,
            total: question.total.then_some(self.total_cap),
            place: false,
            bytes_max: usize::MAX,
            catalogue_epoch: self.catalogue.epoch,
            of_guest: false,
            shows_damaged: false,
        };
        let listed = block_on(self.store.list(listing))?.answer;
        if let Some(id) = only.filter(|_| listed.rows.is_empty()) {
            return Err(ReadError::RowNotFound(id).into());
        }
        let page = Page {
            table: table.clone(),
            selection: query.selection.clone(),
            rows: listed.rows,
            related: Vec::new(),
        };
        let total = if question.total { listed.total } else { 0 };
        Ok((fixture::encode_page(&page, question.family), total))
    }

    /// What the answer to a question about a settled time rests on now.
    pub fn grounds(&self, question: &Question) -> Grounds {
        let project = self.catalogue.project(PROJECT);
        let database = project.and_then(|project| project.databases.get(question.database));
        let table = self.table_of(question);
        let regranted = table.as_ref();
        let regranted = regranted.and_then(|table| self.regranted.get(&table.number));
        Grounds {
            is_enabled: database.is_some_and(|database| database.enabled),
            erasures: self.erasures,
            grants: regranted.copied().unwrap_or(0),
            table,
        }
    }

    /// The table of the question, in the state that stands.
    pub fn table_of(&self, question: &Question) -> Option<Arc<Table>> {
        let project = self.catalogue.project(PROJECT)?;
        let database = project.databases.get(question.database)?;
        database.tables.get(question.table).cloned()
    }

    /// Whether a row of the table was erased after a mark, as of the state of this number.
    pub fn has_erased(&self, table: TableNumber, after: Mark, state: usize) -> bool {
        let last = self.states[state].mark;
        let erased = self.erased.get(&table).into_iter().flatten();
        erased
            .into_iter()
            .any(|mark| after < *mark && *mark <= last)
    }

    /// The row, as a page, if the caller of the question may read it in the state that stands.
    pub fn row(&self, question: &Question, id: &RowId) -> Option<Vec<u8>> {
        let actor = &question.caller.actor;
        let database = self
            .catalogue
            .project(PROJECT)?
            .databases
            .get(question.database)?;
        let table = database.tables.get(question.table)?;
        let is_seen = actor.bypasses_grants() || (database.enabled && table.enabled);
        if !is_seen {
            return None;
        }
        let point = Point {
            table,
            id,
            selection: &Selection::All,
            visibility: &query::visibility(table, actor)?,
            at: None,
            shows_span: false,
            catalogue_epoch: self.catalogue.epoch,
        };
        let row = block_on(self.store.get(point)).ok()?.answer?;
        let page = Page {
            table: table.clone(),
            selection: Selection::All,
            rows: vec![row],
            related: Vec::new(),
        };
        Some(fixture::encode_page(&page, question.family))
    }

    /// The rows of its table that the caller of the question may read in the state that stands.
    pub fn readable_rows(&self, question: &Question) -> Vec<&'static str> {
        let may_read = |id: &&str| {
            let id = RowId::new(id).expect("a legal id");
            self.row(question, &id).is_some()
        };
        domain::IDS.iter().copied().filter(may_read).collect()
    }

    /// The next state is about to take this one's place. If it moves the catalogue, `further`
    /// may come while it is hidden.
    pub fn before_commit(&mut self, outcomes: &[Outcome], further: &[Arc<Question>]) {
        self.before.clear();
        if moves_catalogue(outcomes) {
            for question in further {
                let verdict = self.verdict(question);
                self.before.insert(question.number, verdict);
            }
        }
    }

    fn is_due(&self, table: TableNumber) -> bool {
        let next = self.boundaries.get(&table);
        next.is_some_and(|at| *at <= self.now)
    }

    /// Whether anything is due now, or would be at this instant.
    pub fn is_due_by(&self, instant: Timestamp) -> bool {
        let last = self.now.max(instant);
        self.boundaries.values().any(|at| *at <= last)
    }

    /// Whether a state stands that no reader can see yet.
    pub fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// It is another instant. If something was due before or is now, that is another state.
    pub fn passes(&mut self, now: Timestamp, now_ms: u64) -> bool {
        let is_other = now != self.now && self.is_due_by(now);
        self.now = now;
        if is_other {
            let mark = self.states[self.stands()].mark;
            self.states.push(State {
                mark,
                since_ms: now_ms,
                transaction: None,
            });
            self.known.clear();
        }
        is_other
    }

    /// A group became visible. One that activated what was due is no other state: it was said
    /// before, from the versions, what it shows.
    pub fn committed(&mut self, outcomes: &[Outcome], boundaries: Boundaries, now_ms: u64) {
        let applied = || outcomes.iter().flatten();
        let mark = applied().filter_map(|applied| applied.mark).max();
        self.boundaries = boundaries;
        self.known.clear();
        let Some(mark) = mark else { return };
        self.now = self.now.max(mark.timestamp());
        self.take_in_past(outcomes);
        self.states.push(State {
            mark,
            since_ms: now_ms,
            transaction: only_transaction(outcomes),
        });
        self.is_hidden = moves_catalogue(outcomes);
        for (applied, mark) in applied().filter_map(|one| Some((one, one.mark?))) {
            for table in &applied.erased {
                self.erased.entry(*table).or_default().push(mark);
            }
            if let Changes::Images(changes) = &applied.changes {
                let touched = changes.iter().map(|change| (change.table, mark));
                self.touched.extend(touched);
            }
        }
        for change in applied().flat_map(|applied| &applied.catalogue) {
            self.catalogue.apply(change.clone());
        }
        if let Some(last) = applied().rfind(|applied| !applied.catalogue.is_empty()) {
            self.catalogue.epoch = last.catalogue_epoch;
        }
    }

    /// Takes in what alters the answers about times that are settled.
    fn take_in_past(&mut self, outcomes: &[Outcome]) {
        if !self.travels {
            return;
        }
        // An erasure leaves no row to show; nor does a deletion, which is taken for one here.
        let timed = outcomes.iter().flatten().flat_map(|one| &one.timed);
        let erased = timed.filter(|done| done.is_affected && done.row.is_none());
        self.erasures += erased.count();
        for applied in outcomes.iter().flatten() {
            let touched: Vec<TableNumber> = match &applied.changes {
                Changes::Images(changes) => {
                    let grants =
                        |image: &Option<Image>| image.as_ref().map(|of| of.permissions.clone());
                    let moved = changes
                        .iter()
                        .filter(|change| grants(&change.before) != grants(&change.after));
                    moved.map(|change| change.table).collect()
                }
                Changes::Tables(tables) => tables.clone(),
            };
            // Of a row that is not there now no image tells, only that the past of its table
            // changed.
            for table in touched
                .into_iter()
                .chain(applied.past_changed.iter().copied())
            {
                *self.regranted.entry(table).or_default() += 1;
            }
        }
    }

    pub fn published(&mut self) {
        self.is_hidden = false;
        self.before.clear();
    }

    /// A purge of the table was answered.
    pub fn purged(&mut self, table: TableNumber) {
        self.purged.insert(table, self.states[self.stands()].mark);
    }

    /// Below which mark nothing may be served that was asked for now.
    pub fn purge_mark(&self, question: &Question) -> Mark {
        self.of_table(&self.purged, question)
    }

    /// The mark of the last commit that reported changed rows of the table.
    pub fn touched(&self, question: &Question) -> Mark {
        self.of_table(&self.touched, question)
    }

    fn of_table(&self, marks: &HashMap<TableNumber, Mark>, question: &Question) -> Mark {
        table_at(&self.catalogue, question.database, question.table)
            .and_then(|table| marks.get(&table.number))
            .copied()
            .unwrap_or(Mark::ZERO)
    }

    /// Until when the state of this mark stood; `None` if it stands.
    pub fn ended_ms(&self, mark: Mark) -> Option<u64> {
        let next = self.states.iter().find(|state| state.mark > mark)?;
        Some(next.since_ms)
    }
}

/// The transaction that was committed, if nothing else was.
fn only_transaction(outcomes: &[Outcome]) -> Option<String> {
    let mut applied = outcomes.iter().flatten().filter(|one| one.mark.is_some());
    let only = applied.next().filter(|_| applied.next().is_none())?;
    only.transactions.first().map(|one| one.id.clone())
}

fn moves_catalogue(outcomes: &[Outcome]) -> bool {
    outcomes
        .iter()
        .flatten()
        .any(|applied| !applied.catalogue.is_empty())
}
