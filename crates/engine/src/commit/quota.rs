//! How much callers and projects may take of what is stored.
//!
//! Rows are counted and bytes looked up by a thread of their own, so that no commit pays for it,
//! and only where there is a bound. Between two counts every row that may be added counts as one
//! that was: a project gets past its bound by no more than the writes that wait while it is
//! counted, and one that is nearly full may be refused an upsert until the next count.
//!
//! The bytes of a project are counted by each commit, and a batch is held against their bound when
//! it has run: no estimate says how large the versions are that it makes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use model::{Catalogue, Direction, ProjectId, Selection, Table, TableNumber};
use query::{Filter, Frame, Query, Visibility};
use store::staged::Bound;
use store::{
    Counted, DeploymentAct, Full, FunctionOp, Listing, OpenTransactions, SpaceLimit, Store,
    TotalCap, TransactionOp, WriteBatch,
};
use store::{MatchingAct, Op, QueueOp, RelatedOp, RowAct, RowOp};

use crate::error::{EngineError, TransactionError};
use crate::state::shared::Shared;

/// Shortest time between two counts: so old a number of bytes may be.
const REST_MIN: Duration = Duration::from_secs(1);
/// After a count nothing is counted for so many times what it took: it has a twentieth of a core.
const REST: u32 = 20;

/// What may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// The open transactions of one address that sends no API key.
    pub guest_transactions: Bound,
    /// Those of one API key.
    pub key_transactions: Bound,
    /// Bytes of the answers that are kept for one API key, for requests that may be sent again.
    pub key_answers_bytes: u64,
    /// Most rows that a project has now; 0 for any number.
    pub project_rows: u64,
    /// Most bytes that the versions of a project's rows hold, present and past; 0 for any number.
    pub project_bytes: u64,
    /// Most bytes of the pages that the store uses, all projects and their past together; 0 for any
    /// number.
    pub data_bytes: u64,
    /// Most bytes of the archive of a deployment, as it is sent.
    pub source_bytes: u64,
}

impl Quotas {
    /// No bound beside those that every project has.
    pub const NONE: Quotas = Quotas {
        guest_transactions: Bound::PART,
        key_transactions: Bound::WHOLE,
        key_answers_bytes: 256 << 20,
        project_rows: 0,
        project_bytes: 0,
        data_bytes: 0,
        // The wire protocol, deployments: 30 MB.
        source_bytes: 30_000_000,
    };
}

/// What is taken of what may be, and what was refused for it since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The rows of each project that has any, those with the most first; empty without a bound.
    pub rows: Vec<(ProjectId, u64)>,
    /// [`Quotas::project_rows`].
    pub rows_max: u64,
    /// The bytes that the versions of each project hold, those with the most first.
    pub project_bytes: Vec<(ProjectId, u64)>,
    /// [`Quotas::project_bytes`].
    pub project_bytes_max: u64,
    /// Bytes of the pages that the store uses.
    pub data_bytes: u64,
    /// [`Quotas::data_bytes`].
    pub data_bytes_max: u64,
    /// Open transactions of clients, and what is staged in them.
    pub transactions: OpenTransactions,
    /// Bytes of the answers that are kept for requests which may be sent again.
    pub kept_answer_bytes: u64,
    /// Requests that would have added a row too many.
    pub rows_refused: u64,
    /// Requests that would have added more bytes than were left to a project.
    pub project_bytes_refused: u64,
    /// Requests that would have added bytes to a full store.
    pub bytes_refused: u64,
    /// Requests that would have opened a transaction too many, or staged too much.
    pub transactions_refused: u64,
}

/// What is held, as far as it is bounded.
pub(crate) struct Held {
    rows_max: u64,
    project_bytes_max: u64,
    bytes_max: u64,
    rows_refused: AtomicU64,
    project_bytes_refused: AtomicU64,
    bytes_refused: AtomicU64,
    transactions_refused: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    rows: HashMap<ProjectId, Rows>,
    bytes: u64,
    is_closing: bool,
}

#[derive(Clone, Copy, Default)]
struct Rows {
    counted: u64,
    /// Those that may have been added since that count began.
    admitted: u64,
}

impl Rows {
    fn held(self) -> u64 {
        self.counted.saturating_add(self.admitted)
    }
}

impl Held {
    pub(crate) fn new(quotas: Quotas) -> Held {
        Held {
            rows_max: quotas.project_rows,
            project_bytes_max: quotas.project_bytes,
            bytes_max: quotas.data_bytes,
            rows_refused: AtomicU64::new(0),
            project_bytes_refused: AtomicU64::new(0),
            bytes_refused: AtomicU64::new(0),
            transactions_refused: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            thread: Mutex::default(),
        }
    }

    /// Counts, where anything is bounded, and starts to do so again and again.
    pub(crate) fn start(self: &Arc<Held>, shared: &Arc<Shared>) -> std::io::Result<()> {
        if self.rows_max == 0 && self.bytes_max == 0 {
            return Ok(());
        }
        self.count(shared);
        let (held, shared) = (self.clone(), shared.clone());
        let thread = std::thread::Builder::new()
            .name("quotas".into())
            .spawn(move || held.run(&shared))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Takes in a batch that there is room for, as far as that is known before it runs.
    ///
    /// # Errors
    /// Of what there is too much.
    pub(crate) fn admit(&self, batch: &mut WriteBatch) -> Result<(), Full> {
        let bounds = [self.rows_max, self.project_bytes_max, self.bytes_max];
        if bounds == [0; 3] {
            return Ok(());
        }
        let growth: Vec<ProjectGrowth<'_>> = batch.ops.iter().filter_map(growth).collect();
        if growth.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        if let Some(full) = self.refusal(&state, &growth) {
            return Err(full);
        }
        if self.rows_max > 0 {
            for project in growth.iter().filter_map(|growth| growth.row_of) {
                state.rows.entry(project.clone()).or_default().admitted += 1;
            }
        }
        if self.project_bytes_max > 0 {
            batch.space = SpaceLimit::ProjectBytes(self.project_bytes_max);
        }
        Ok(())
    }

    fn refusal(&self, state: &State, growth: &[ProjectGrowth<'_>]) -> Option<Full> {
        if self.bytes_max > 0 && state.bytes >= self.bytes_max {
            return Some(Full {
                what: Counted::Bytes,
                held: state.bytes,
                max: self.bytes_max,
            });
        }
        let project = growth.iter().find_map(|growth| growth.row_of)?;
        let added = growth
            .iter()
            .filter(|one| one.row_of == Some(project))
            .count() as u64;
        let rows = state.rows.get(project).copied().unwrap_or_default();
        let held = rows.held();
        (self.rows_max > 0 && held.saturating_add(added) > self.rows_max).then(|| Full {
            what: Counted::Rows(project.clone()),
            held,
            max: self.rows_max,
        })
    }

    /// Counts a request that is refused for want of room.
    pub(crate) fn refused(&self, full: &Full) {
        let count = match full.what {
            Counted::Rows(_) => &self.rows_refused,
            Counted::ProjectBytes(_) => &self.project_bytes_refused,
            Counted::Bytes => &self.bytes_refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what is refused because of open transactions.
    pub(crate) fn note(&self, refused: &EngineError) {
        if let EngineError::Transaction(TransactionError::LimitReached(_)) = refused {
            self.transactions_refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is taken. What the store does not say counts as nothing.
    pub(crate) fn taken(&self, shared: &Shared) -> Taken {
        let store = &*shared.store;
        let state = self.lock();
        let rows = state.rows.iter();
        let rows = rows.map(|(project, rows)| (project.clone(), rows.held()));
        let rows = most_first(rows.collect());
        drop(state);
        let table_bytes = block_on(store.table_bytes()).unwrap_or_default();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Taken {
            rows,
            rows_max: self.rows_max,
            project_bytes: most_first(by_project(&shared.catalogue(), &table_bytes)),
            project_bytes_max: self.project_bytes_max,
            data_bytes: block_on(store.data_bytes()).unwrap_or_default(),
            data_bytes_max: self.bytes_max,
            transactions: block_on(store.open_transactions()).unwrap_or_default(),
            kept_answer_bytes: block_on(store.kept_answer_bytes()).unwrap_or_default(),
            rows_refused: count(&self.rows_refused),
            project_bytes_refused: count(&self.project_bytes_refused),
            bytes_refused: count(&self.bytes_refused),
            transactions_refused: count(&self.transactions_refused),
        }
    }

    fn run(&self, shared: &Shared) {
        let mut rest = REST_MIN;
        loop {
            let is_open = |state: &mut State| !state.is_closing;
            let waited = self.changed.wait_timeout_while(self.lock(), rest, is_open);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_closing {
                return;
            }
            let began = Instant::now();
            self.count(shared);
            rest = REST_MIN.max(began.elapsed() * REST);
        }
    }

    /// What cannot be read keeps its last number: the next count may come through.
    fn count(&self, shared: &Shared) {
        if self.bytes_max > 0
            && let Ok(bytes) = block_on(shared.store.data_bytes())
        {
            self.lock().bytes = bytes;
        }
        if self.rows_max == 0 {
            return;
        }
        let catalogue = shared.catalogue();
        for project in catalogue.projects() {
            let before = self.lock().rows.get(&project.id).copied();
            let databases = project.databases.values();
            let mut tables = databases.flat_map(|database| database.tables.values());
            let store = &*shared.store;
            let counted = tables.try_fold(0_u64, |sum, table| {
                // The end of the server does not wait for the tables that are left.
                let is_open = !self.lock().is_closing;
                Some(sum + is_open.then(|| rows_of(store, table, catalogue.epoch))??)
            });
            let Some(counted) = counted else { continue };
            let mut state = self.lock();
            let rows = state.rows.entry(project.id.clone()).or_default();
            rows.counted = counted;
            rows.admitted -= before.unwrap_or_default().admitted;
        }
        let mut state = self.lock();
        state
            .rows
            .retain(|id, _| catalogue.project(id.as_str()).is_some());
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.changed.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No step on it can fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn most_first(mut taken: Vec<(ProjectId, u64)>) -> Vec<(ProjectId, u64)> {
    taken.sort_by(|(one, held), (other, more)| more.cmp(held).then_with(|| one.cmp(other)));
    taken
}

fn by_project(catalogue: &Catalogue, tables: &[(TableNumber, u64)]) -> Vec<(ProjectId, u64)> {
    let tables: HashMap<TableNumber, u64> = tables.iter().copied().collect();
    let mut projects: BTreeMap<&ProjectId, u64> = BTreeMap::new();
    for table in catalogue.tables() {
        let bytes = tables.get(&table.number).unwrap_or(&0);
        *projects.entry(&table.project).or_default() += bytes;
    }
    let projects = projects.into_iter();
    projects.map(|(id, bytes)| (id.clone(), bytes)).collect()
}

fn rows_of(store: &dyn Store, table: &Arc<Table>, catalogue_epoch: u64) -> Option<u64> {
    let query = Query {
        table: table.clone(),
        filter: Filter::All(Vec::new()),
        order: Vec::new(),
        tie: Direction::Asc,
        random: false,
        limit: 1,
        offset: 0,
        cursor: None,
        selection: Selection::Some {
            columns: Vec::new(),
            fields: Vec::new(),
            permissions: false,
        },
        visibility: Visibility::Everything,
        then: None,
        at: None,
        frame: Frame::One,
        shows_span: false,
    };
    let listing = Listing {
        query: &query,
        rows: false,
        total: Some(TotalCap::None),
        place: false,
        bytes_max: usize::MAX,
        catalogue_epoch,
        of_guest: false,
        shows_damaged: false,
    };
    let listed = block_on(store.list(listing)).ok()?;
    Some(listed.answer.total)
}

/// What an operation may add.
struct ProjectGrowth<'a> {
    /// Of which project it may add a row; of none if it changes one.
    row_of: Option<&'a ProjectId>,
}

/// `None` of an operation that adds nothing, or makes room.
fn growth(op: &Op) -> Option<ProjectGrowth<'_>> {
    match op {
        Op::Row(op) => of_row(op),
        Op::Matching(op) => match op.act {
            MatchingAct::Update { .. } | MatchingAct::Resize { .. } => {
                Some(ProjectGrowth { row_of: None })
            }
            MatchingAct::Delete { .. } => None,
        },
        Op::Related(op) => match &**op {
            RelatedOp::Write(op) | RelatedOp::Alone(op) => of_row(op),
            RelatedOp::Link(_) => Some(ProjectGrowth { row_of: None }),
            RelatedOp::Need { .. }
            | RelatedOp::NeedUnlinked { .. }
            | RelatedOp::Free(_)
            | RelatedOp::Hold(_) => None,
        },
        Op::Transaction(TransactionOp::Stage { .. })
        | Op::Function(
            FunctionOp::Deployment {
                act: DeploymentAct::PutPiece(_),
                ..
            }
            | FunctionOp::KeepExecutions(_)
            | FunctionOp::Queue(QueueOp::Put(..) | QueueOp::PutMinute(..) | QueueOp::PutEvents(_)),
        ) => Some(ProjectGrowth { row_of: None }),
        Op::Transaction(_) | Op::Function(_) | Op::Catalogue(_) | Op::Since(_) | Op::Once(_) => {
            None
        }
    }
}

fn of_row(op: &RowOp) -> Option<ProjectGrowth<'_>> {
    let row_of = match op.act {
        RowAct::Insert { .. } | RowAct::Replace { .. } | RowAct::Put { .. } => {
            Some(&op.table.project)
        }
        RowAct::Update { .. } | RowAct::Resize { .. } => None,
        RowAct::Delete { .. } | RowAct::Erase | RowAct::Assert(_) => return None,
    };
    Some(ProjectGrowth { row_of })
}
