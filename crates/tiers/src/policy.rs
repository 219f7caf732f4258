//! In which order a call asks its tiers, when it runs the body, and what it stores where.
//!
//! A state machine without clock and without input or output: a driver does what [`CallPolicy`]
//! says next and reports what came of it. [`TierGate`] is what the calls of one process share of
//! one tier. No failure of a tier is one of the call: it goes on with the next tier, or the body.

use super::breaker::{Breaker, BreakerAnswer, BreakerSettings};
use super::tier::TierFault;

/// One retry for this many first tries, so that a slow tier is not asked twice as often.
const TRIES_PER_RETRY: u32 = 10;
/// Retries that may be saved up.
const RETRIES_MAX: u32 = 10;

/// What a driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStep {
    /// Ask this tier for the value.
    Ask(usize),
    /// Run the body.
    Run,
    /// Store the value in this tier, with the ticket of its miss.
    Store(usize),
    /// Nothing.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStage {
    Asking {
        tier: usize,
        is_retry: bool,
    },
    Body,
    /// The tiers before this number are still to be looked at.
    Storing {
        before: usize,
    },
}

/// One call on its way through the tiers, the nearest of which is number 0.
#[derive(Debug)]
pub struct CallPolicy {
    /// Which tiers have said that they do not have the value. Only these may store it: of others it
    /// is unknown what was deleted there while the body ran.
    missed: Vec<bool>,
    stage: CallStage,
    limit_ms: u64,
    deadline_ms: u64,
}

impl CallPolicy {
    /// A call that begins at `now_ms`. All its reads together, and all its stores, begin within
    /// `limit_ms`.
    pub fn new(tiers: usize, limit_ms: u64, now_ms: u64) -> CallPolicy {
        CallPolicy {
            missed: vec![false; tiers],
            stage: CallStage::Asking {
                tier: 0,
                is_retry: false,
            },
            limit_ms,
            deadline_ms: now_ms.saturating_add(limit_ms),
        }
    }

    /// What to do now. The same until a report.
    pub fn next(&mut self, now_ms: u64) -> CallStep {
        let is_late = now_ms >= self.deadline_ms;
        match self.stage {
            CallStage::Asking { tier, .. } if tier < self.missed.len() && !is_late => {
                CallStep::Ask(tier)
            }
            CallStage::Asking { .. } | CallStage::Body => {
                self.stage = CallStage::Body;
                CallStep::Run
            }
            CallStage::Storing { before } => {
                let farthest = self.missed[..before].iter().rposition(|missed| *missed);
                let tier = farthest.filter(|_| !is_late);
                self.stage = CallStage::Storing {
                    before: tier.map_or(0, |tier| tier + 1),
                };
                tier.map_or(CallStep::Done, CallStep::Store)
            }
        }
    }

    /// The tier has the value: it goes into the tiers before it.
    pub fn hit(&mut self) {
        let before = self.current();
        self.stage = CallStage::Storing { before };
    }

    /// The tier has said that it does not have the value.
    pub fn miss(&mut self) {
        let tier = self.current();
        self.missed[tier] = true;
        self.pass();
    }

    /// The tier was not asked, or has failed: the next one is asked.
    pub fn pass(&mut self) {
        let tier = self.current() + 1;
        self.stage = CallStage::Asking {
            tier,
            is_retry: false,
        };
    }

    /// The tier has failed. It is asked once more if that may help and the gate has a retry left.
    pub fn fail(&mut self, fault: TierFault, gate: &mut TierGate) {
        match self.stage {
            CallStage::Asking {
                tier,
                is_retry: false,
            } if is_transient(fault) && gate.take_retry() => {
                self.stage = CallStage::Asking {
                    tier,
                    is_retry: true,
                };
            }
            _ => self.pass(),
        }
    }

    /// The body has given a value that is to be stored, in the farthest tier first: what is near
    /// is never there without having been farther away, so that deletions can go the same way.
    ///
    /// # Panics
    /// When it was not the body's turn.
    pub fn ran(&mut self, now_ms: u64) {
        assert_eq!(self.stage, CallStage::Body);
        self.stage = CallStage::Storing {
            before: self.missed.len(),
        };
        self.deadline_ms = now_ms.saturating_add(self.limit_ms);
    }

    /// The tier that was to store has done so, or has failed to.
    ///
    /// # Panics
    /// When no tier was to store.
    pub fn stored(&mut self) {
        let CallStage::Storing { before } = self.stage else {
            panic!("no tier was to store");
        };
        self.stage = CallStage::Storing { before: before - 1 };
    }

    fn current(&self) -> usize {
        match self.stage {
            CallStage::Asking { tier, .. } => tier,
            _ => panic!("no tier was asked"),
        }
    }
}

/// Whether the same operation may succeed at once if it is tried again, and whether its failure
/// says something of the tier's state. A file whose lock is taken still answers reads, and one that
/// cannot be used, or is damaged, says so without being tried.
fn is_transient(fault: TierFault) -> bool {
    match fault {
        TierFault::Io => true,
        TierFault::Off | TierFault::Busy | TierFault::TooLarge | TierFault::Damaged => false,
    }
}

/// How many operations of one tier run at once in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureSettings {
    /// Operations at once.
    pub running_max: u32,
    /// Callers that wait for their turn.
    pub waiting_max: u32,
    /// How long one waits.
    pub wait_ms: u64,
}

impl Default for PressureSettings {
    /// The numbers of cachekit's presets.
    fn default() -> Self {
        PressureSettings {
            running_max: 100,
            waiting_max: 1_000,
            wait_ms: 100,
        }
    }
}

/// How the calls of a process use a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSettings {
    /// None if the tier is asked however often it fails.
    pub breaker: Option<BreakerSettings>,
    /// None for no bound.
    pub pressure: Option<PressureSettings>,
}

/// What a gate says of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// It begins; [`TierGate::leave`] ends it.
    Enter,
    /// Others have to end before.
    Full,
    /// It does not take place.
    Rejected,
    /// As `Rejected`; and the tier is to be checked beside the callers, under this number.
    Check(u64),
}

/// What the calls of one process share of one tier.
#[derive(Debug)]
pub struct TierGate {
    settings: GateSettings,
    breaker: Option<Breaker>,
    running: u32,
    waiting: u32,
    /// What was saved up for retries, of which each costs [`TRIES_PER_RETRY`].
    tries: u32,
}

impl TierGate {
    /// A gate nothing has gone through.
    pub fn new(settings: GateSettings) -> TierGate {
        TierGate {
            settings,
            breaker: settings.breaker.map(Breaker::new),
            running: 0,
            waiting: 0,
            tries: RETRIES_MAX * TRIES_PER_RETRY,
        }
    }

    /// Whether an operation may begin.
    pub fn enter(&mut self, now_ms: u64) -> GateAnswer {
        match self.breaker.as_mut().map(|breaker| breaker.admit(now_ms)) {
            None | Some(BreakerAnswer::Closed) => {}
            Some(BreakerAnswer::Open) => return GateAnswer::Rejected,
            Some(BreakerAnswer::Check(number)) => return GateAnswer::Check(number),
        }
        if let Some(pressure) = self.settings.pressure
            && self.running >= pressure.running_max
        {
            let has_room = self.waiting < pressure.waiting_max;
            return if has_room {
                GateAnswer::Full
            } else {
                GateAnswer::Rejected
            };
        }
        self.running += 1;
        self.tries = (self.tries + 1).min(RETRIES_MAX * TRIES_PER_RETRY);
        GateAnswer::Enter
    }

    /// How long a caller waits for its turn.
    pub fn wait_ms(&self) -> u64 {
        self.settings
            .pressure
            .map_or(0, |pressure| pressure.wait_ms)
    }

    /// A caller begins to wait for its turn.
    pub fn begin_wait(&mut self) {
        self.waiting += 1;
    }

    /// A caller has waited.
    pub fn end_wait(&mut self) {
        self.waiting -= 1;
    }

    /// An operation that had entered is over.
    pub fn leave(&mut self, failed: Option<TierFault>, now_ms: u64) {
        self.running -= 1;
        if failed.is_some_and(is_transient)
            && let Some(breaker) = &mut self.breaker
        {
            breaker.failed(now_ms);
        }
    }

    /// The breaker, if there is one.
    pub fn breaker(&mut self) -> Option<&mut Breaker> {
        self.breaker.as_mut()
    }

    fn take_retry(&mut self) -> bool {
        let left = self.tries.checked_sub(TRIES_PER_RETRY);
        self.tries = left.unwrap_or(self.tries);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPEN_GATE: GateSettings = GateSettings {
        breaker: None,
        pressure: None,
    };

    #[test]
    fn gate_bounds_what_runs_and_what_waits() {
        let pressure = PressureSettings {
            running_max: 2,
            waiting_max: 1,
            wait_ms: 5,
        };
        let mut gate = TierGate::new(GateSettings {
            pressure: Some(pressure),
            ..OPEN_GATE
        });
        assert_eq!(gate.enter(0), GateAnswer::Enter);
        assert_eq!(gate.enter(0), GateAnswer::Enter);
        assert_eq!(gate.enter(0), GateAnswer::Full);
        gate.begin_wait();
        assert_eq!(gate.enter(0), GateAnswer::Rejected);
        gate.leave(None, 0);
        gate.end_wait();
        assert_eq!(gate.enter(0), GateAnswer::Enter);
    }

    #[test]
    fn gate_counts_only_what_says_something_of_the_tier() {
        let breaker = Some(BreakerSettings::default());
        let mut gate = TierGate::new(GateSettings {
            breaker,
            ..OPEN_GATE
        });
        let harmless = [
            TierFault::Off,
            TierFault::Busy,
            TierFault::TooLarge,
            TierFault::Damaged,
        ];
        for fault in harmless.repeat(10) {
            assert_eq!(gate.enter(0), GateAnswer::Enter);
            gate.leave(Some(fault), 0);
        }
        for _ in 0..5 {
            assert_eq!(gate.enter(0), GateAnswer::Enter);
            gate.leave(Some(TierFault::Io), 0);
        }
        assert_eq!(gate.enter(0), GateAnswer::Rejected);
        assert_eq!(gate.enter(30_000), GateAnswer::Check(1));
    }

    #[test]
    fn gate_spends_few_retries_on_a_tier_that_always_fails() {
        let mut gate = TierGate::new(OPEN_GATE);
        let mut reads = 0;
        for _ in 0..1_000 {
            let mut call = CallPolicy::new(1, 100, 0);
            while let CallStep::Ask(0) = call.next(0) {
                assert_eq!(gate.enter(0), GateAnswer::Enter);
                reads += 1;
                gate.leave(Some(TierFault::Io), 0);
                call.fail(TierFault::Io, &mut gate);
            }
            assert_eq!(call.next(0), CallStep::Run);
        }
        // Ten that were saved, and one for each ten tries.
        assert!((1_100..=1_125).contains(&reads), "{reads}");
    }

    /// What a tier does in the model.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Behaviour {
        Hit,
        Miss,
        Rejected,
        Fails(TierFault),
    }

    fn behaviour() -> impl Strategy<Value = Behaviour> {
        prop_oneof![
            Just(Behaviour::Hit),
            Just(Behaviour::Miss),
            Just(Behaviour::Rejected),
            Just(Behaviour::Fails(TierFault::Io)),
            Just(Behaviour::Fails(TierFault::Off)),
        ]
    }

    proptest! {
        /// Whatever the tiers do and however long it takes: they are read in order, none after a
        /// hit and none after the deadline; the body runs once if nothing was hit; and the value
        /// goes to the tiers that missed it, the farthest first.
        #[test]
        fn call_keeps_its_laws(
            tiers in prop::collection::vec((behaviour(), 0..40_u64), 0..5),
            body_ms in 0..500_u64,
        ) {
            let mut gate = TierGate::new(OPEN_GATE);
            let mut call = CallPolicy::new(tiers.len(), 100, 0);
            let (mut now_ms, mut reads, mut stored) = (0, Vec::new(), Vec::new());
            let (mut runs, mut hit) = (0, None);
            for _ in 0..50 {
                let step = call.next(now_ms);
                prop_assert_eq!(step, call.next(now_ms));
                match step {
                    CallStep::Ask(tier) => {
                        prop_assert!(now_ms < 100 && hit.is_none() && runs == 0);
                        reads.push(tier);
                        let (behaviour, takes_ms) = tiers[tier];
                        now_ms += takes_ms;
                        match behaviour {
                            Behaviour::Hit => {
                                hit = Some(tier);
                                call.hit();
                            }
                            Behaviour::Miss => call.miss(),
                            Behaviour::Rejected => call.pass(),
                            Behaviour::Fails(fault) => call.fail(fault, &mut gate),
                        }
                    }
                    CallStep::Run => {
                        runs += 1;
                        now_ms += body_ms;
                        call.ran(now_ms);
                    }
                    CallStep::Store(tier) => {
                        stored.push(tier);
                        call.stored();
                    }
                    CallStep::Done => break,
                }
            }
            prop_assert_eq!(call.next(now_ms), CallStep::Done);
            prop_assert_eq!(runs, usize::from(hit.is_none()));
            prop_assert!(reads.is_sorted());
            for (tier, (behaviour, _)) in tiers.iter().enumerate() {
                let count = reads.iter().filter(|number| **number == tier).count();
                let twice = *behaviour == Behaviour::Fails(TierFault::Io);
                prop_assert!(count <= 1 + usize::from(twice));
            }
            let missed = |tier: &usize| tiers[*tier].0 == Behaviour::Miss;
            let mut wanted: Vec<usize> = reads.iter().copied().filter(missed).collect();
            wanted.reverse();
            match hit {
                // A fill begins within the deadline of the reads.
                Some(_) if now_ms >= 100 => prop_assert!(stored.is_empty()),
                _ => prop_assert_eq!(stored, wanted),
            }
        }
    }
}
