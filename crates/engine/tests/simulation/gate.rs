//! Where the writer's thread stands still, and who lets it go on.
//!
//! The engine's writer has a thread of its own. It runs only while [`Gate::advance`] waits for
//! it, so that of the two threads never both move, and a run is the same each time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::Clock;
use model::Timestamp;
use store::{Boundaries, Outcome};

use super::fixture::TickingClock;

/// A writer that has not come to the next gate by then never will: it has panicked.
const PATIENCE: Duration = Duration::from_mins(1);
/// The name of the writer's thread.
const WRITER: &str = "writer";

/// Where the writer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has nothing to do.
    Idle,
    /// A group was applied. Nothing of it is withheld, and no reader sees it.
    Applied,
    /// What it may alter is withheld, and no reader sees it.
    Withheld,
    /// Snapshots see it. It is not published.
    Committed,
    /// The writer asks what became of its commit, of which no answer came.
    InDoubt,
    /// Its marks and its catalogue are published; what is cached does not know it yet.
    Published,
}

/// What is to become of the group that is applied, or committed, next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// Its commit fails.
    pub fails: bool,
    /// It reports tables, as a group does that changed more than fits images.
    pub is_vague: bool,
    /// No answer comes of its commit.
    pub lost: Option<Lost>,
}

/// A commit of which no answer comes.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Whether it is done.
    pub is_done: bool,
    /// How often the writer asks in vain.
    pub asks: usize,
}

/// Where a reader may be while the writer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Between two steps.
    LooksAtClock,
    /// Between looking for the rows and looking for the total.
    HasLookedForRows,
}

/// The writer went from one gate to another.
#[derive(Clone, Debug)]
pub struct Move {
    pub from: Stop,
    pub to: Stop,
    /// What became of the batches of the group that was applied last.
    pub outcomes: Vec<Outcome>,
    /// When each table changes next by itself, once that group is visible.
    pub boundaries: Boundaries,
    /// Whether it activates what had become due.
    pub activates: bool,
}

#[derive(Default)]
struct State {
    at: Option<Stop>,
    last: Option<Stop>,
    /// No gate holds any thread any more.
    open: bool,
    /// The writer is gone.
    dead: bool,
    runs_upkeep: bool,
    fate: Fate,
    outcomes: Vec<Outcome>,
    boundaries: Boundaries,
    /// How many changes that had become due it activates.
    activates: usize,
    /// How many gates the writer passes when a reader is next at this moment.
    surprises: Option<(Moment, usize)>,
    /// What such looks have let the writer do.
    surprised: Vec<Move>,
}

#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer is here, and goes on when it may.
    fn hold(&self, at: Stop) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if !state.open {
            state.at = Some(at);
            state.last = Some(at);
            self.moved.notify_all();
        }
        let held = |state: &mut State| state.at.is_some() && !state.open;
        let waited = self.moved.wait_while(state, held);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stop(&self, at: Stop) {
        drop(self.hold(at));
    }

    /// The writer has nothing to do. Whether it is to do upkeep, and whether the gates are open.
    pub fn idle(&self) -> (bool, bool) {
        let state = self.hold(Stop::Idle);
        (state.runs_upkeep, state.open)
    }

    /// The writer has withheld a group. What becomes of its commit.
    pub fn withheld(&self) -> Fate {
        self.hold(Stop::Withheld).fate
    }

    /// The writer is past this gate, where it did not stand still.
    pub fn pass(&self, at: Stop) {
        self.lock().last = Some(at);
    }

    /// The writer has applied a group.
    pub fn applied(&self, outcomes: &[Outcome], boundaries: &Boundaries, activates: usize) {
        let mut state = self.lock();
        state.outcomes = outcomes.to_vec();
        state.boundaries = boundaries.clone();
        state.activates = activates;
        drop(state);
        self.stop(Stop::Applied);
    }

    pub fn is_vague(&self) -> bool {
        self.lock().fate.is_vague
    }

    /// The writer is gone.
    pub fn fall(&self) {
        self.lock().dead = true;
        self.moved.notify_all();
    }

    /// Waits until the writer, just started, has nothing to do.
    pub fn first_stop(&self) -> Stop {
        self.wait().unwrap_or(Stop::Idle)
    }

    /// Lets the writer go on to the next gate. `None` if it is gone.
    pub fn advance(&self, runs_upkeep: bool) -> Option<Move> {
        let mut state = self.lock();
        let from = state.at.take()?;
        state.runs_upkeep = runs_upkeep;
        self.moved.notify_all();
        drop(state);
        let to = self.wait()?;
        let state = self.lock();
        Some(Move {
            from,
            to,
            outcomes: state.outcomes.clone(),
            boundaries: state.boundaries.clone(),
            activates: state.activates > 0,
        })
    }

    fn wait(&self) -> Option<Stop> {
        let moves = |state: &mut State| state.at.is_none() && !state.dead;
        let waited = self.moved.wait_timeout_while(self.lock(), PATIENCE, moves);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.at.filter(|_| !state.dead)
    }

    /// Decides over the group that the writer works on, or over the next one.
    pub fn decide(&self, fate: Fate) {
        self.lock().fate = fate;
    }

    /// What became of the batches of the group that was applied last.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.lock().outcomes.clone()
    }

    /// Opens all gates for good.
    pub fn open(&self) {
        self.lock().open = true;
        self.moved.notify_all();
    }

    /// The next reader at this moment lets the writer pass so many gates.
    pub fn surprise(&self, moment: Moment, gates: usize) {
        self.lock().surprises = Some((moment, gates));
    }

    /// What surprises have let the writer do since the last question.
    pub fn take_surprised(&self) -> Vec<Move> {
        let mut state = self.lock();
        state.surprises = None;
        std::mem::take(&mut state.surprised)
    }

    fn looked_at_clock(&self) {
        if std::thread::current().name() == Some(WRITER) {
            let last = self.lock().last;
            if last == Some(Stop::Committed) {
                self.stop(Stop::Published);
            }
            return;
        }
        self.reader_is_at(Moment::LooksAtClock);
    }

    pub fn reader_is_at(&self, here: Moment) {
        let mut state = self.lock();
        let surprises = state.surprises.take_if(|(moment, _)| *moment == here);
        drop(state);
        for _ in 0..surprises.map_or(0, |(_, gates)| gates) {
            let Some(moved) = self.advance(false) else {
                return;
            };
            self.lock().surprised.push(moved);
        }
    }
}

/// The clock of the engine. The engine looks at it between two steps of a read, and between
/// publishing a commit and telling the cache of it; anything may happen then.
pub struct GatedClock {
    pub ticking: Arc<TickingClock>,
    pub gate: Arc<Gate>,
}

impl Clock for GatedClock {
    /// Stands still until the run moves it: a boundary passes between two steps, never within one.
    fn now(&self) -> Timestamp {
        self.ticking.look()
    }

    fn elapsed_ms(&self) -> u64 {
        self.gate.looked_at_clock();
        self.ticking.elapsed_ms()
    }
}
