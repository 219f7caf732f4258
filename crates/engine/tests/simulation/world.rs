//! One run: an engine over a gated store, requests in flight, and the order in which all move.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use engine::{Engine, EngineError, ListAnswer, ListRows, Place, PreparedList, View};
use list_cache::Rule;
use model::{Marked, RowId, Table, Timestamp};
use store::{Outcome, TotalCap};
use testing::Hooked;

use super::chance::Chance;
use super::domain::{self, Attribute, DATABASES, TABLES};
use super::fixture::{self, NEW_YEAR_US, TickingClock};
use super::gate::{self, Fate, GatedClock, Lost, Moment, Stop};
use super::gated::Gated;
use super::judge::{Judge, Verdict};
use super::plan::{LIMITS, Move, Plan, RunKind};
use super::question::{Question, table_at};
use super::tally::Tally;
use super::temporal_transaction::Ledger;
use super::write::{self, Scene, Write};

#[path = "check.rs"]
mod check;
#[path = "claims.rs"]
mod claims;
#[path = "erased.rs"]
mod erased;
#[path = "travel.rs"]
mod travel;

use travel::Given;

/// Most requests for lists in flight at once.
const READERS_MAX: usize = 6;
/// Most writes in flight at once.
const WRITES_MAX: usize = 4;
/// Questions that may come while a change of the catalogue is visible and not published.
const ASKED_WHILE_HIDDEN: usize = 4;
/// Between two commits the writer passes one gate more.
const SURPRISE_GATES_MAX: usize = 4;
/// A run that has not ended after so many further steps never ends.
const DRAIN_STEPS_MAX: usize = 10_000;

/// What a run found, and in which step.
#[derive(Debug)]
pub struct Failure {
    pub step: usize,
    pub what: String,
}

type Prepared = Arc<Mutex<Names>>;
type Found = Result<(), String>;
type Answering = Pin<Box<dyn Future<Output = Result<ListAnswer, EngineError>>>>;

/// What a server keeps of questions that come again.
#[derive(Default)]
struct Names {
    /// By the numbers of the questions.
    lists: HashMap<usize, Arc<PreparedList>>,
    hits: u64,
}

/// A request for a list, in flight.
struct Reader {
    question: Arc<Question>,
    answering: Answering,
    /// The state that could be read when it came.
    floor: usize,
    /// What the states from there on answer, up to the one that stands.
    verdicts: Vec<(usize, Verdict)>,
    arrived_ms: u64,
    /// Its table then.
    table: Option<Arc<Table>>,
    purge_mark: model::Mark,
    /// Within a `ttl`: the rows that the caller might read in any state since it came; `None` if
    /// that is not known of the first one.
    seen: Option<BTreeSet<&'static str>>,
    /// Lists that were read on its behalf.
    lists: usize,
    /// A list could not be read on its behalf.
    has_failed: bool,
}

pub struct World {
    chance: Chance,
    engine: Arc<Engine>,
    gated: Arc<Hooked<Gated>>,
    clock: Arc<TickingClock>,
    judge: Judge,
    pool: Vec<Arc<Question>>,
    asked: usize,
    prepared: Prepared,
    /// Requests for lists so far.
    arrivals: usize,
    readers: Vec<Reader>,
    writes: Vec<Write>,
    stop: Stop,
    kind: RunKind,
    /// Whether writes of rows are staged in transactions, and how many scenes there were.
    stages: Option<u64>,
    /// Whether other times than now are read.
    travels: bool,
    /// Whether answers to commits are lost.
    loses_answers: bool,
    /// Whether the commit that is in doubt is done.
    hides_commit: bool,
    /// Whether lists look at where rows stand in time.
    pub(super) ends: &'static [Attribute],
    /// Questions about a time that is settled, or soon is.
    settled: Vec<Arc<Question>>,
    /// What was answered to them.
    given: Vec<Given>,
    /// What transactions share with the run.
    ledger: Ledger,
    /// Steps that ended well.
    pub steps_done: usize,
    pub tally: Tally,
    trace: Option<String>,
    _directory: tempfile::TempDir,
}

impl World {
    /// # Panics
    /// When no store can be opened here.
    pub fn new(seed: u64, without: Option<Rule>, traces: bool) -> World {
        let mut chance = Chance::new(seed);
        let plan = Plan::of(seed, &mut chance);
        let directory = tempfile::tempdir().expect("a place for the store");
        let config = plan.config(directory.path());
        let inner = fixture::open_store(&config);
        let clock = TickingClock::at(NEW_YEAR_US);
        let gated = Arc::new(Hooked(Gated::new(inner.clone())));
        let gated_clock = Arc::new(GatedClock {
            ticking: clock.clone(),
            gate: gated.gate.clone(),
        });
        let engine = Engine::over(gated.clone(), &config, gated_clock).expect("an empty store");
        let gate = gated.gate.clone();
        let rules = engine.list_rules();
        rules.between_looks(move || gate.reader_is_at(Moment::HasLookedForRows));
        plan.kind.bound(&engine);
        if let Some(rule) = without {
            engine.list_rules().switch_off(rule);
        }
        let total_cap = match plan.total_cap {
            0 => TotalCap::None,
            cap => TotalCap::UpTo(cap),
        };
        let stop = gated.gate.first_stop();
        let mut world = World {
            chance,
            engine,
            gated,
            clock,
            judge: Judge::new(inner, LIMITS, total_cap),
            pool: Vec::new(),
            asked: 0,
            prepared: Prepared::default(),
            arrivals: 0,
            readers: Vec::new(),
            writes: Vec::new(),
            stop,
            kind: plan.kind,
            stages: None,
            travels: false,
            loses_answers: false,
            hides_commit: false,
            ends: &[],
            settled: Vec::new(),
            given: Vec::new(),
            ledger: Ledger::default(),
            steps_done: 0,
            tally: Tally::default(),
            trace: traces.then(String::new),
            _directory: directory,
        };
        world.furnish();
        world
    }

    /// From now on writes of rows are staged in transactions.
    pub fn stage_writes(&mut self) {
        self.stages = Some(0);
    }

    /// From now on no answer comes of some commits, done or not.
    pub fn lose_answers(&mut self) {
        self.loses_answers = true;
    }

    /// From now on commits in doubt are taken for such that came to nothing, to show that it is
    /// noticed.
    pub fn ignore_doubt(&mut self) {
        self.engine.ignore_doubt();
    }

    fn furnish(&mut self) {
        for write in write::furniture(&mut self.scene()) {
            self.begin(write).expect("nobody reads yet");
            self.settle().expect("nobody reads yet");
        }
        self.heal().expect("nobody reads yet");
        for _ in 0..self.kind.pool() {
            let question = self.draw_question();
            self.pool.push(question);
        }
    }

    /// Runs so many steps, then lets everything end and asks every question once more.
    pub fn run(&mut self, steps: usize) -> Result<(), Failure> {
        let failed = |step| move |what| Failure { step, what };
        for step in 1..=steps {
            self.step().map_err(failed(step))?;
            self.steps_done = step;
        }
        self.tally.states(self.judge.stands());
        self.finish().map_err(failed(steps))?;
        self.tally.lists(&self.engine.list_counts());
        self.tally
            .add("hits by name", self.prepared.lock().unwrap().hits);
        Ok(())
    }

    /// What happened so far, if it was to be written down.
    pub fn trace(&self) -> &str {
        self.trace.as_deref().unwrap_or_default()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            writeln!(trace, "{}", what()).expect("a string takes all");
        }
    }

    fn step(&mut self) -> Found {
        if self.lacks_table() && self.chance.one_in(6) {
            return self.heal();
        }
        match self.chance.weighed(&self.kind.pace()) {
            Move::Arrive => self.arrive(),
            Move::Read => self.go_on_reading(),
            Move::Write => self.write(),
            Move::Advance => self.advance(),
            Move::Clock => {
                self.pass_time();
                Ok(())
            }
        }
    }

    /// Whether what most questions are about is not there.
    fn lacks_table(&self) -> bool {
        table_at(self.judge.catalogue(), DATABASES[0], TABLES[0]).is_none()
    }

    /// Puts back what was deleted, with some rows, while others read.
    fn heal(&mut self) -> Found {
        self.settle()?;
        while self.lacks_table() {
            let write = self.draw_write();
            self.begin(write)?;
            self.settle()?;
        }
        if self.kind == RunKind::Related {
            let write = write::relate(&mut self.scene());
            self.begin(write)?;
            self.settle()?;
        }
        for write in write::population(&mut self.scene()) {
            self.begin(write)?;
            self.settle()?;
        }
        Ok(())
    }

    fn scene(&mut self) -> Scene<'_> {
        self.stages = self.stages.map(|number| number + 1);
        Scene {
            chance: &mut self.chance,
            engine: &self.engine,
            catalogue: self.judge.catalogue(),
            now: self.clock.look(),
            is_large: self.kind == RunKind::Large,
            stages: self.stages,
            travels: self.travels,
            ledger: &self.ledger,
        }
    }

    fn pass_time(&mut self) {
        let by_ms = self
            .chance
            .weighed(&[(4, 1), (2, 300), (2, 2_000), (1, -1_500)]);
        // Transactions expire after a minute, and tables let go of what is a day old. No commit
        // takes so long: the clock would not be believed after it.
        let by_ms = match self.chance.below(if self.travels { 6 } else { 1 }) {
            4 if self.stop == Stop::Idle => 25 * 3_600_000,
            5 => 61_000,
            _ => by_ms,
        };
        let later = Timestamp(self.clock.look().0 + by_ms * 1_000);
        if self.judge.is_due_by(later) {
            if self.judge.is_hidden() {
                return;
            }
            self.keep_verdicts();
        }
        self.clock.step_us(by_ms * 1_000);
        self.clock.pass_ms(by_ms.max(0));
        let status = self.engine.status();
        let passed = status.horizon.max(status.matured);
        let now = later.max(passed.timestamp());
        let passed = self.judge.passes(now, self.now_ms());
        self.tally.count("boundaries that passed", passed);
        self.note(|| format!("clock {by_ms} ms"));
        self.tally.count("clock steps back", by_ms < 0);
    }

    fn now_ms(&self) -> u64 {
        engine::Clock::elapsed_ms(&*self.clock)
    }

    fn draw_question(&mut self) -> Arc<Question> {
        self.asked += 1;
        if !self.pool.is_empty() && self.chance.one_in(3) {
            let like = self.chance.pick(&self.pool).clone();
            return Arc::new(like.vary(&mut self.chance, self.asked));
        }
        let catalogue = self.judge.catalogue();
        let drawn = Question::draw_of(&mut self.chance, catalogue, self.asked, self.ends);
        Arc::new(drawn)
    }

    /// A reader comes: mostly with a question from before, often with that of another reader.
    fn arrive(&mut self) -> Found {
        if self.readers.len() >= READERS_MAX {
            return self.go_on_reading();
        }
        if self.travels && self.chance.one_in(3) {
            return self.travel();
        }
        if self.travels && self.chance.one_in(8) {
            return self.ask_for_row();
        }
        let question = match self.chance.below(10) {
            // Where lists are evicted, more of them are read again.
            roll if roll == 0 || (self.kind == RunKind::Small && roll > 6) => {
                let question = self.draw_question();
                let place = self.chance.below(self.kind.pool());
                self.pool[place] = question.clone();
                question
            }
            1..4 if !self.readers.is_empty() => self.chance.pick(&self.readers).question.clone(),
            _ => self.chance.pick(&self.pool).clone(),
        };
        if !self.judge.may_be_asked(&question) {
            return Ok(());
        }
        self.read_row(&question)?;
        self.ask(question);
        self.go_on(self.readers.len() - 1)
    }

    /// A row of the table that the question is about, read at once or not at all.
    fn read_row(&mut self, question: &Question) -> Found {
        let id = RowId::new(domain::IDS[self.arrivals % domain::IDS.len()]).expect("an id");
        let place = Place {
            database: question.database,
            table: question.table,
        };
        self.gated.let_reads_pass(usize::MAX);
        let Ok(table) = self.engine.prepare_table(&question.caller, place) else {
            return Ok(());
        };
        let read = self.engine.row_at_once(&table, &id, |_, row| {
            fixture::encode_shown_row(row, question.family)
        });
        let Some(Marked { answer: found, .. }) = read else {
            return Ok(());
        };
        self.tally.count("rows at once", true);
        match self.judge.row(question, &id) {
            Some(row) if row == found => Ok(()),
            row => Err(format!(
                "{question:?}: row {id} at once is {found:?}, and {row:?} stands"
            )),
        }
    }

    fn ask(&mut self, question: Arc<Question>) {
        let (engine, asked) = (self.engine.clone(), question.clone());
        let bypass = self.chance.one_in(30);
        self.arrivals += 1;
        // Every other one first looks by names, as servers do.
        let prepared = (!bypass && self.arrivals.is_multiple_of(2)).then(|| self.prepared.clone());
        let answering = async move {
            if asked.only.is_some() {
                return travel::at_other_time(engine, asked).await;
            }
            let list = list_of(&asked, bypass);
            let held = prepared.and_then(|known| held(&engine, &known, &asked, &list));
            match held {
                Some(answer) => Ok(answer),
                None => engine.list_rows(&asked.caller, &list, View::CURRENT).await,
            }
        };
        self.tally.count(
            "asked while hidden",
            self.judge.readable() < self.judge.stands(),
        );
        self.readers.push(Reader {
            answering: Box::pin(answering),
            floor: self.judge.readable(),
            verdicts: self.judge.on_arrival(&question).into_iter().collect(),
            arrived_ms: self.now_ms(),
            table: self.judge.table_of(&question),
            purge_mark: self.judge.purge_mark(&question),
            seen: (!self.judge.is_hidden() && question.ttl_s > 0).then(BTreeSet::new),
            lists: 0,
            has_failed: false,
            question,
        });
    }

    fn go_on_reading(&mut self) -> Found {
        if self.readers.is_empty() {
            return Ok(());
        }
        let place = self.chance.below(self.readers.len());
        if self.chance.one_in(30) {
            let gone = self.readers.swap_remove(place);
            self.note(|| format!("question {} goes away", gone.question.number));
            self.tally.count("requests that went away", true);
            return Ok(());
        }
        self.go_on(place)
    }

    /// Lets one request go on, up to where it waits or stops.
    fn go_on(&mut self, place: usize) -> Found {
        let passes = self
            .chance
            .weighed(&[(5, usize::MAX), (3, 0), (2, 1), (1, 2), (1, 3)]);
        self.poll(place, passes)
    }

    fn poll(&mut self, place: usize, passes: usize) -> Found {
        let is_surprised = self.chance.one_in(6);
        if is_surprised {
            self.surprise();
        }
        self.gated.let_reads_pass(passes);
        self.gated.fail_reads(self.chance.one_in(40));
        let reader = &mut self.readers[place];
        let polled = reader
            .answering
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        reader.lists += self.gated.take_lists();
        reader.has_failed |= self.gated.take_failed();
        let number = reader.question.number;
        if is_surprised {
            self.take_in_surprises();
        }
        let Poll::Ready(answer) = polled else {
            self.note(|| format!("question {number} waits"));
            return Ok(());
        };
        let reader = self.readers.swap_remove(place);
        self.check(&reader, answer)
    }

    /// A question that is refused is repeated a few times, then gives way to another one.
    fn tire_of(&mut self, number: usize) {
        let place = self.pool.iter().position(|one| one.number == number);
        if let Some(place) = place.filter(|_| !self.chance.one_in(3)) {
            self.pool[place] = self.draw_question();
        }
    }

    fn draw_write(&mut self) -> Write {
        write::draw(&mut self.scene())
    }

    fn write(&mut self) -> Found {
        if self.writes.len() >= WRITES_MAX {
            return self.advance();
        }
        let write = self.draw_write();
        self.begin(write)
    }

    /// Puts a write into the writer's queue.
    fn begin(&mut self, write: Write) -> Found {
        self.note(|| write.what.clone());
        self.writes.push(write);
        self.poll_writes()
    }

    fn poll_writes(&mut self) -> Found {
        self.ledger.stands(self.judge.stands());
        self.gated.let_reads_pass(usize::MAX);
        self.gated.fail_reads(false);
        let mut place = 0;
        while place < self.writes.len() {
            let writing = self.writes[place].writing.as_mut();
            let Poll::Ready(written) = writing.poll(&mut Context::from_waker(Waker::noop())) else {
                place += 1;
                continue;
            };
            let write = self.writes.remove(place);
            self.note(|| format!("{written:?}: {:.40}", write.what));
            self.tally.written(&write, &written);
            if let (Some(table), Ok(())) = (write.purges, &written) {
                self.judge.purged(table);
            }
            if let Some(claim) = &write.claim {
                self.check_claim(claim, &written)?;
            }
        }
        self.gated.take_lists();
        Ok(())
    }

    /// Lets the writer go on to where it stands next.
    fn advance(&mut self) -> Found {
        if self.stop == Stop::Withheld {
            self.before_commit();
        }
        if self.stop == Stop::InDoubt && self.chance.one_in(4) {
            // Longer than callers wait.
            self.clock.pass_ms(11_000);
        }
        self.decide();
        let runs_upkeep = self.chance.one_in(3);
        let moved = self.gated.gate.advance(runs_upkeep);
        self.take_in(moved.ok_or("the writer is gone")?);
        self.poll_writes()
    }

    fn decide(&mut self) {
        let is_lost = self.loses_answers && self.chance.one_in(4);
        let lost = is_lost.then(|| Lost {
            is_done: self.chance.one_in(2),
            asks: self.chance.below(4),
        });
        self.gated.gate.decide(Fate {
            lost,
            fails: self.chance.one_in(12),
            is_vague: self.chance.one_in(12),
        });
    }

    /// Takes in where the writer went.
    fn take_in(&mut self, moved: gate::Move) {
        self.stop = moved.to;
        match (moved.from, moved.to) {
            (Stop::InDoubt, Stop::InDoubt) => {}
            (from, Stop::InDoubt) => {
                self.hides_commit = from == Stop::Committed;
                let (is_done, count) = (self.hides_commit, &mut self.tally);
                count.count("commits in doubt that were done", is_done);
                count.count("commits in doubt that were not done", !is_done);
            }
            (Stop::Committed | Stop::InDoubt, _) => self.judge.published(),
            // Staging makes something durable that no list shows.
            (Stop::Withheld, Stop::Committed) if !gives_mark(&moved.outcomes) => {
                self.tally.count("groups that only stage", true);
            }
            (Stop::Withheld, Stop::Committed) => {
                self.tally.count("what was due activated", moved.activates);
                let now_ms = self.now_ms();
                self.judge
                    .committed(&moved.outcomes, moved.boundaries, now_ms);
            }
            (Stop::Withheld, _) => self.tally.count("commits that failed", true),
            _ => {}
        }
        if moved.to == Stop::Applied {
            self.tally.group(&moved.outcomes);
        }
        if (moved.from, moved.to) != (Stop::Idle, Stop::Idle) {
            let (stop, stands) = (self.stop, self.judge.stands());
            self.note(|| format!("writer: {stop:?}, state {stands} stands"));
        }
    }

    /// The writer may pass some gates between two steps of the request that goes on now; at most
    /// one state passes with them.
    fn surprise(&mut self) {
        self.keep_verdicts();
        self.judge.before_commit(&[], &[]);
        self.decide();
        let moment = *self
            .chance
            .pick(&[Moment::LooksAtClock, Moment::HasLookedForRows]);
        let gates = 1 + self.chance.below(SURPRISE_GATES_MAX);
        self.gated.gate.surprise(moment, gates);
    }

    fn take_in_surprises(&mut self) {
        let surprised = self.gated.gate.take_surprised();
        self.tally
            .add("gates passed between steps", surprised.len() as u64);
        for moved in surprised {
            self.take_in(moved);
        }
    }

    /// The state that stands is about to pass.
    fn before_commit(&mut self) {
        self.keep_verdicts();
        let further: Vec<Arc<Question>> = (0..ASKED_WHILE_HIDDEN.min(self.pool.len()))
            .map(|_| self.chance.pick(&self.pool).clone())
            .collect();
        self.judge
            .before_commit(&self.gated.gate.outcomes(), &further);
    }

    /// A reader in flight may be answered the state that stands, also when it has passed.
    fn keep_verdicts(&mut self) {
        let stands = self.judge.stands();
        for reader in &mut self.readers {
            let is_known = reader.verdicts.iter().any(|(state, _)| *state == stands);
            if !is_known && self.judge.readable() >= reader.floor {
                let verdict = self.judge.verdict(&reader.question);
                reader.verdicts.push((stands, verdict));
                if let Some(seen) = &mut reader.seen {
                    seen.extend(self.judge.readable_rows(&reader.question));
                }
            }
        }
    }

    /// Lets the writer end what it has begun.
    fn settle(&mut self) -> Found {
        for _ in 0..DRAIN_STEPS_MAX {
            if self.stop == Stop::Idle && self.writes.is_empty() {
                return Ok(());
            }
            self.advance()?;
        }
        Err("writes never end".to_owned())
    }

    /// Marks may have to be reserved for the callers that still wait, which is the writer's.
    fn wait_for_marks(&mut self) -> Found {
        for _ in 0..DRAIN_STEPS_MAX {
            let Some(last) = self.readers.len().checked_sub(1) else {
                break;
            };
            self.advance()?;
            self.poll(last, usize::MAX)?;
        }
        self.settle()
    }

    /// Lets everything end, then asks every question once more of a store at rest.
    fn finish(&mut self) -> Found {
        self.settle()?;
        for _ in 0..DRAIN_STEPS_MAX {
            if self.readers.is_empty() {
                break;
            }
            let place = self.chance.below(self.readers.len());
            self.poll(place, usize::MAX)?;
        }
        self.wait_for_marks()?;
        if !self.readers.is_empty() {
            return Err("a request waits for ever".to_owned());
        }
        for question in self.pool.clone() {
            self.ask(question);
            self.poll(0, usize::MAX)?;
            if !self.readers.is_empty() {
                return Err("nothing is left to wait for".to_owned());
            }
        }
        self.ask_again()?;
        self.purge_all()
    }

    /// When everything is purged, nothing is watched that is nowhere.
    fn purge_all(&mut self) -> Found {
        for write in write::purges(&mut self.scene()) {
            self.begin(write)?;
            self.settle()?;
        }
        let counts = self.engine.list_counts();
        if counts.watches + counts.degraded + counts.shown > 0 {
            return Err(format!(
                "all is purged and something is watched: {counts:?}"
            ));
        }
        Ok(())
    }
}

/// The list that a question asks for.
fn list_of(asked: &Question, bypass: bool) -> ListRows<'_> {
    ListRows {
        place: Place {
            database: asked.database,
            table: asked.table,
        },
        texts: &asked.texts,
        total: asked.total,
        ttl_s: asked.ttl_s,
        bypass,
        family: asked.family,
    }
}

/// The answer, if the cache holds it under names that were made some time before.
fn held(
    engine: &Engine,
    known: &Mutex<Names>,
    asked: &Question,
    list: &ListRows<'_>,
) -> Option<ListAnswer> {
    let prepared = known.lock().unwrap().lists.get(&asked.number).cloned();
    let prepared = match prepared {
        Some(prepared) => prepared,
        None => Arc::new(engine.prepare(&asked.caller, list).ok()??),
    };
    let answer = engine.held(&prepared);
    let mut known = known.lock().unwrap();
    match &answer {
        Some(_) => known.lists.insert(asked.number, prepared),
        None => known.lists.remove(&asked.number),
    };
    known.hits += u64::from(answer.is_some());
    answer
}

impl Drop for World {
    fn drop(&mut self) {
        self.readers.clear();
        self.writes.clear();
        self.gated.let_reads_pass(usize::MAX);
        self.gated.gate.open();
        // A failed run may have left a writer that panicked; the run has said so.
        let _ = self.engine.close();
    }
}

fn gives_mark(outcomes: &[Outcome]) -> bool {
    let mut applied = outcomes.iter().flatten();
    applied.any(|applied| applied.mark.is_some())
}
