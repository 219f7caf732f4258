//! In which order a call asks its tiers, when it runs the body, and what it stores where.
//!
//! A state machine without clock and without input or output: a driver does what [`CallPolicy`]
//! says next and reports what came of it. [`TierGate`] is what the calls of one process share of
//! one tier. No failure of a tier is one of the call: it goes on with the next tier, or the body.

use std::sync::Arc;

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
    /// Take this tier's lease, since no tier has the value.
    Lease(usize),
    /// Wait a moment: another process has the lease.
    Wait,
    /// Nothing: another process has the lease, and this call is not to wait for it.
    Leave,
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
    /// The tier whose lease the call takes is the farthest that missed.
    Leasing {
        tier: usize,
    },
    Waiting {
        tier: usize,
    },
    /// The tier is asked again: another process may have stored the value before its lease ended.
    Again {
        tier: usize,
        is_held: bool,
    },
    Left,
    Body,
    /// The tiers before this number are still to be looked at.
    Storing {
        before: usize,
    },
}

/// What a call does about other processes that run the body for the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRule {
    /// Nothing.
    Run,
    /// It waits for their value, so long at most, and then runs the body as well.
    Wait {
        /// Milliseconds.
        limit_ms: u64,
    },
    /// It leaves it to them.
    Leave,
}

/// One call on its way through the tiers, the nearest of which is number 0.
#[derive(Debug)]
pub struct CallPolicy {
    /// Which tiers have said that they do not have the value. Only these may store it: of others it
    /// is unknown what was deleted there while the body ran.
    missed: Vec<bool>,
    stage: CallStage,
    rule: LeaseRule,
    limit_ms: u64,
    deadline_ms: u64,
    /// When the call waits no longer, once it waits.
    wait_until_ms: Option<u64>,
    /// Which tiers give leases.
    leasing: Arc<[bool]>,
}

impl CallPolicy {
    /// A call that begins at `now_ms`, for as many tiers as `leasing` says of whether they give
    /// leases. All its reads together, and all its stores, begin within `limit_ms`.
    pub fn new(leasing: Arc<[bool]>, rule: LeaseRule, limit_ms: u64, now_ms: u64) -> CallPolicy {
        CallPolicy {
            missed: vec![false; leasing.len()],
            leasing,
            stage: CallStage::Asking {
                tier: 0,
                is_retry: false,
            },
            rule,
            limit_ms,
            deadline_ms: now_ms.saturating_add(limit_ms),
            wait_until_ms: None,
        }
    }

    /// What to do now. The same until a report.
    pub fn next(&mut self, now_ms: u64) -> CallStep {
        let is_late = now_ms >= self.deadline_ms;
        match self.stage {
            CallStage::Asking { tier, .. } if tier < self.missed.len() && !is_late => {
                CallStep::Ask(tier)
            }
            CallStage::Asking { .. } => {
                match self
                    .lessor()
                    .filter(|_| !is_late && self.rule != LeaseRule::Run)
                {
                    Some(tier) => {
                        self.stage = CallStage::Leasing { tier };
                        CallStep::Lease(tier)
                    }
                    None => self.run(),
                }
            }
            CallStage::Leasing { tier } => CallStep::Lease(tier),
            CallStage::Waiting { .. } => CallStep::Wait,
            CallStage::Again { tier, .. } => CallStep::Ask(tier),
            CallStage::Left => CallStep::Leave,
            CallStage::Body => CallStep::Run,
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

    /// The farthest tier that missed and gives leases: those who share it are the most.
    fn lessor(&self) -> Option<usize> {
        let mut each = (0..self.missed.len()).rev();
        each.find(|tier| self.missed[*tier] && self.leasing[*tier])
    }

    fn run(&mut self) -> CallStep {
        self.stage = CallStage::Body;
        CallStep::Run
    }

    /// The call has the lease, or another process has it.
    ///
    /// # Panics
    /// When no lease was to be taken.
    pub fn leased(&mut self, is_held: bool, now_ms: u64) {
        let CallStage::Leasing { tier } = self.stage else {
            panic!("no lease was to be taken");
        };
        self.stage = match self.rule {
            _ if is_held => CallStage::Again { tier, is_held },
            LeaseRule::Wait { limit_ms } => {
                let limit_ms = now_ms.saturating_add(limit_ms);
                self.wait_until_ms.get_or_insert(limit_ms);
                CallStage::Waiting { tier }
            }
            LeaseRule::Leave | LeaseRule::Run => CallStage::Left,
        };
    }

    /// Whether there is a lease cannot be known: the body runs.
    pub fn lease_failed(&mut self) {
        self.run();
    }

    /// The call has waited a moment.
    ///
    /// # Panics
    /// When it was not to wait.
    pub fn waited(&mut self, now_ms: u64) {
        let CallStage::Waiting { tier } = self.stage else {
            panic!("the call was not to wait");
        };
        let is_over = self.wait_until_ms.is_none_or(|until_ms| now_ms >= until_ms);
        self.stage = if is_over {
            CallStage::Body
        } else {
            let is_held = false;
            CallStage::Again { tier, is_held }
        };
    }

    /// Whether the tier that is asked now has none before it.
    pub fn is_at_nearest(&self) -> bool {
        self.current_tier() == Some(0)
    }

    /// The tier that is asked.
    pub fn current_tier(&self) -> Option<usize> {
        match self.stage {
            CallStage::Asking { tier, .. } | CallStage::Again { tier, .. } => Some(tier),
            _ => None,
        }
    }

    /// The tier has the value: it goes into the tiers before it.
    pub fn hit(&mut self, now_ms: u64) {
        let before = self.current();
        self.deadline_ms = now_ms.saturating_add(self.limit_ms);
        self.stage = CallStage::Storing { before };
    }

    /// The tier has said that it does not have the value.
    pub fn miss(&mut self) {
        let tier = self.current();
        self.missed[tier] = true;
        match self.stage {
            CallStage::Again { is_held: false, .. } => self.stage = CallStage::Leasing { tier },
            _ => self.pass(),
        }
    }

    /// The tier was not asked, or has failed: the next one is asked.
    pub fn pass(&mut self) {
        let tier = self.current() + 1;
        self.stage = match self.stage {
            CallStage::Again { .. } => CallStage::Body,
            _ => CallStage::Asking {
                tier,
                is_retry: false,
            },
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
    /// A driver may have run it before its turn, as one that does not wait for other processes.
    pub fn ran(&mut self, now_ms: u64) {
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
        self.current_tier().expect("a tier that is asked")
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

    /// Whether an operation may begin. The clock is read only if the breaker is open.
    pub fn enter(&mut self, now_ms: impl FnOnce() -> u64) -> GateAnswer {
        match self.ask_breaker(now_ms) {
            BreakerAnswer::Closed => {}
            BreakerAnswer::Open => return GateAnswer::Rejected,
            BreakerAnswer::Check(number) => return GateAnswer::Check(number),
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

    /// What the breaker says; without one it is closed. The clock is read only if it is open.
    pub fn ask_breaker(&mut self, now_ms: impl FnOnce() -> u64) -> BreakerAnswer {
        match self.breaker.as_mut().filter(|breaker| breaker.is_open()) {
            Some(breaker) => breaker.admit(now_ms()),
            None => BreakerAnswer::Closed,
        }
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

    /// An operation that had entered is over. The clock is read only if it has failed.
    pub fn leave(&mut self, failed: Option<TierFault>, now_ms: impl FnOnce() -> u64) {
        self.running -= 1;
        if let Some(fault) = failed {
            self.count_failure(fault, now_ms());
        }
    }

    /// An operation has failed, if that says something of the tier.
    pub fn count_failure(&mut self, fault: TierFault, now_ms: u64) {
        if let Some(breaker) = self.breaker.as_mut().filter(|_| is_transient(fault)) {
            breaker.failed(now_ms);
        }
    }

    /// Whether a caller waits for its turn.
    pub fn is_waited_for(&self) -> bool {
        self.waiting > 0
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
        assert_eq!(gate.enter(|| 0), GateAnswer::Enter);
        assert_eq!(gate.enter(|| 0), GateAnswer::Enter);
        assert_eq!(gate.enter(|| 0), GateAnswer::Full);
        gate.begin_wait();
        assert_eq!(gate.enter(|| 0), GateAnswer::Rejected);
        gate.leave(None, || 0);
        gate.end_wait();
        assert_eq!(gate.enter(|| 0), GateAnswer::Enter);
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
            assert_eq!(gate.enter(|| 0), GateAnswer::Enter);
            gate.leave(Some(fault), || 0);
        }
        for _ in 0..5 {
            assert_eq!(gate.enter(|| 0), GateAnswer::Enter);
            gate.leave(Some(TierFault::Io), || 0);
        }
        assert_eq!(gate.enter(|| 0), GateAnswer::Rejected);
        assert_eq!(gate.enter(|| 30_000), GateAnswer::Check(1));
    }

    #[test]
    fn gate_spends_few_retries_on_a_tier_that_always_fails() {
        let mut gate = TierGate::new(OPEN_GATE);
        let mut reads = 0;
        for _ in 0..1_000 {
            let leasing = Arc::from([true]);
            let mut call = CallPolicy::new(leasing, LeaseRule::Run, 100, 0);
            while let CallStep::Ask(0) = call.next(0) {
                assert_eq!(gate.enter(|| 0), GateAnswer::Enter);
                reads += 1;
                gate.leave(Some(TierFault::Io), || 0);
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

    /// What a call meets: its tiers and how long each takes, whether it gets a lease each time it
    /// tries, and whether another process has stored the value until then.
    #[derive(Clone, Debug)]
    struct Surroundings {
        tiers: Vec<(Behaviour, u64)>,
        leasing: Vec<bool>,
        rule: LeaseRule,
        leases: Vec<Option<bool>>,
        has_stored: bool,
        body_ms: u64,
    }

    /// What the call did.
    #[derive(Default)]
    struct CallHistory {
        reads: Vec<usize>,
        stored: Vec<usize>,
        runs: u32,
        hit: Option<usize>,
        has_left: bool,
        is_leasing: bool,
        waited_ms: u64,
        now_ms: u64,
    }

    impl CallHistory {
        fn of(around: &Surroundings) -> CallHistory {
            let mut gate = TierGate::new(OPEN_GATE);
            let leasing = around.leasing[..around.tiers.len()].into();
            let mut call = CallPolicy::new(leasing, around.rule, 100, 0);
            let mut leases = around.leases.iter().cycle();
            let mut done = CallHistory::default();
            loop {
                let step = call.next(done.now_ms);
                assert_eq!(step, call.next(done.now_ms));
                match step {
                    CallStep::Ask(tier) => done.ask(around, tier, &mut call, &mut gate),
                    CallStep::Lease(tier) => {
                        let mut farther = around.tiers.iter().zip(&around.leasing).skip(tier + 1);
                        let is_better =
                            |one: (&(Behaviour, u64), &bool)| one.0.0 == Behaviour::Miss && *one.1;
                        assert!(around.leasing[tier] && !farther.any(is_better));
                        assert!(around.rule != LeaseRule::Run);
                        done.is_leasing = true;
                        match leases.next().expect("they begin again") {
                            Some(is_held) => call.leased(*is_held, done.now_ms),
                            None => call.lease_failed(),
                        }
                    }
                    CallStep::Wait => {
                        assert!(done.waited_ms < 60);
                        done.now_ms += 7;
                        done.waited_ms += 7;
                        call.waited(done.now_ms);
                    }
                    CallStep::Leave => {
                        done.has_left = true;
                        return done;
                    }
                    CallStep::Run => {
                        done.runs += 1;
                        done.now_ms += around.body_ms;
                        call.ran(done.now_ms);
                    }
                    CallStep::Store(tier) => {
                        done.stored.push(tier);
                        call.stored();
                    }
                    CallStep::Done => return done,
                }
            }
        }

        fn ask(
            &mut self,
            around: &Surroundings,
            tier: usize,
            call: &mut CallPolicy,
            gate: &mut TierGate,
        ) {
            assert!(self.hit.is_none() && self.runs == 0);
            let (mut behaviour, takes_ms) = around.tiers[tier];
            if self.is_leasing {
                assert_eq!(behaviour, Behaviour::Miss);
                if around.has_stored {
                    behaviour = Behaviour::Hit;
                }
            } else {
                assert!(self.now_ms < 100);
                self.reads.push(tier);
                self.now_ms += takes_ms;
            }
            match behaviour {
                Behaviour::Hit => {
                    self.hit = Some(tier);
                    call.hit(self.now_ms);
                }
                Behaviour::Miss => call.miss(),
                Behaviour::Rejected => call.pass(),
                Behaviour::Fails(fault) => call.fail(fault, gate),
            }
        }
    }

    fn surroundings() -> impl Strategy<Value = Surroundings> {
        let rule = prop_oneof![
            Just(LeaseRule::Run),
            Just(LeaseRule::Leave),
            Just(LeaseRule::Wait { limit_ms: 60 }),
        ];
        let tiers = prop::collection::vec((behaviour(), 0..40_u64), 0..5);
        let leasing = prop::collection::vec(any::<bool>(), 5);
        let leases = prop::collection::vec(any::<Option<bool>>(), 1..8);
        let parts = (tiers, leasing, rule, leases, any::<bool>(), 0..500_u64);
        parts.prop_map(
            |(tiers, leasing, rule, leases, has_stored, body_ms)| Surroundings {
                tiers,
                leasing,
                rule,
                leases,
                has_stored,
                body_ms,
            },
        )
    }

    proptest! {
        /// Whatever the tiers and other processes do and however long it takes: tiers are read in
        /// order, none after a hit and none after the deadline; a lease is taken only when no tier
        /// has the value, and the tier is read again before the body runs; the body runs once if
        /// nothing was hit and the call does not leave it to others; the value goes to the tiers
        /// that missed it, the farthest first; and no call waits beyond its limit.
        #[test]
        fn call_keeps_its_laws(around in surroundings()) {
            let done = CallHistory::of(&around);
            prop_assert!(done.reads.is_sorted());
            if done.has_left {
                prop_assert!(around.rule == LeaseRule::Leave);
                prop_assert!(done.runs == 0 && done.hit.is_none());
                return Ok(());
            }
            prop_assert_eq!(done.runs, u32::from(done.hit.is_none()));
            for (tier, (behaviour, _)) in around.tiers.iter().enumerate() {
                let count = done.reads.iter().filter(|number| **number == tier).count();
                let twice = *behaviour == Behaviour::Fails(TierFault::Io);
                prop_assert!(count <= 1 + usize::from(twice));
            }
            let missed = |tier: &usize| around.tiers[*tier].0 == Behaviour::Miss;
            let mut wanted: Vec<usize> = done.reads.iter().copied().filter(missed).collect();
            wanted.retain(|tier| done.hit.is_none_or(|hit| *tier < hit));
            wanted.reverse();
            prop_assert_eq!(done.stored, wanted);
        }
    }
}
