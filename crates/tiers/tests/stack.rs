//! Calls through several tiers: what they answer, what they store, and what a failing tier costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tiers::breaker::BreakerSettings;
use tiers::policy::{GateSettings, LeaseRule, PressureSettings};
use tiers::{
    AskAnswer, Host, RecordTier, StackHit, StoredInTiers, Tier, TierCall, TierStack, TokenName,
};

mod support;

use support::Numbers;
use support::faulty::FaultyTier;
use support::records::MemoryRecords;

const FUNCTION: TokenName = [1; 32];
const TAG: TokenName = [2; 32];
const BREAKER: BreakerSettings = BreakerSettings {
    failures_max: 5,
    window_ms: 60_000,
    pause_ms: 30_000,
    checks: 3,
};
const GATE: GateSettings = GateSettings {
    breaker: Some(BREAKER),
    pressure: None,
};

struct Stage {
    tiers: Vec<Arc<FaultyTier>>,
    stack: TierStack,
}

fn stage(tiers: usize, settings: GateSettings, now_ms: fn() -> u64) -> Stage {
    let tiers: Vec<Arc<FaultyTier>> = (0..tiers).map(|_| Arc::default()).collect();
    let used = tiers.iter().map(|tier| tier.clone() as Arc<dyn Tier>);
    let host = Host {
        now_ms,
        ..support::host()
    };
    Stage {
        stack: TierStack::new(used.collect(), settings, host),
        tiers,
    }
}

fn at_start() -> u64 {
    0
}

impl Stage {
    fn begin(&self, key: &[u8]) -> TierCall {
        self.begin_by(key, LeaseRule::Run)
    }

    fn begin_by(&self, key: &[u8], rule: LeaseRule) -> TierCall {
        self.stack.begin(key, vec![FUNCTION, TAG], false, rule)
    }

    /// The hit, or `None` if the body has to run.
    fn ask(&self, call: &mut TierCall) -> Option<StackHit> {
        match self.stack.ask(call) {
            AskAnswer::Hit(hit) => Some(hit),
            AskAnswer::Run => None,
            AskAnswer::Wait(_) | AskAnswer::Leave => panic!("nobody else has a lease"),
        }
    }

    /// What is stored, as a call would get it.
    fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut call = self.begin(key);
        let hit = self.ask(&mut call)?;
        self.stack.accept(&mut call, &hit);
        Some(hit.value().to_vec())
    }

    /// A whole call whose body gives `value`.
    fn call(&self, key: &[u8], value: &[u8]) -> (Vec<u8>, TierCall) {
        let mut call = self.begin(key);
        if let Some(hit) = self.ask(&mut call) {
            self.stack.accept(&mut call, &hit);
            return (hit.value().to_vec(), call);
        }
        self.stack.store(&mut call, value, None);
        (value.to_vec(), call)
    }
}

#[test]
fn value_goes_into_every_tier_and_comes_back_into_those_that_lost_it() {
    let stage = stage(3, GATE, at_start);
    assert_eq!(stage.call(b"k", b"1").0, b"1");
    // Two tokens and one value each.
    assert!(stage.tiers.iter().all(|tier| tier.len() == 3));
    stage.tiers[0].clear().unwrap();
    stage.tiers[1].clear().unwrap();
    assert_eq!(stage.call(b"k", b"2").0, b"1");
    assert!(stage.tiers.iter().all(|tier| tier.len() == 3));
    stage.tiers[2].clear().unwrap();
    assert_eq!(stage.call(b"k", b"3").0, b"1");
    assert_eq!(stage.tiers[2].len(), 0);
}

#[test]
fn value_that_was_overtaken_in_the_farther_tier_goes_into_no_nearer_one() {
    let stage = stage(2, GATE, at_start);
    let far = stage.tiers[1].clone() as Arc<dyn Tier>;
    let other_host = TierStack::new(vec![far], GATE, support::host());
    let mut run = stage.begin(b"k");
    assert!(stage.ask(&mut run).is_none());
    other_host.forget(&FUNCTION);
    let stored = stage.stack.store(&mut run, b"old", None);
    assert_eq!(stored, StoredInTiers::Overtaken);
    // Two tokens and no value.
    assert_eq!(stage.tiers[0].len(), 2);
}

#[test]
fn deletion_reaches_every_tier_and_runs_in_progress() {
    for forget in [
        |stage: &Stage| stage.stack.delete(b"k", &[FUNCTION, TAG]),
        |stage: &Stage| stage.stack.forget(&FUNCTION),
        |stage: &Stage| stage.stack.forget(&TAG),
    ] {
        let stage = stage(2, GATE, at_start);
        stage.call(b"k", b"1");
        let done = forget(&stage);
        assert!(done.was_there && done.failures.is_empty());
        let mut run = stage.begin(b"k");
        assert!(stage.ask(&mut run).is_none());
        forget(&stage);
        let stored = stage.stack.store(&mut run, b"old", None);
        assert_eq!(stored, StoredInTiers::Overtaken);
        assert_eq!(stage.read(b"k"), None);
        assert_eq!(stage.call(b"k", b"2").0, b"2");
        // A tier that is filled from a farther one is one of those that a deletion must reach.
        stage.tiers[0].clear().unwrap();
        let mut fill = stage.begin(b"k");
        let hit = stage.ask(&mut fill).expect("the farther tier has it");
        forget(&stage);
        stage.stack.accept(&mut fill, &hit);
        assert_eq!(stage.read(b"k"), None);
    }
}

/// A whole call whose body gives this value under these tags, and the value it has.
fn tagged_call(stack: &TierStack, value: &[u8], tags: &[TokenName]) -> Vec<u8> {
    let mut call = stack.begin(b"k", vec![FUNCTION], false, LeaseRule::Run);
    call.expect_tags();
    if let AskAnswer::Hit(hit) = stack.ask(&mut call) {
        stack.accept(&mut call, &hit);
        return hit.value().to_vec();
    }
    call.tag(tags.to_vec());
    stack.store(&mut call, value, None);
    value.to_vec()
}

#[test]
fn tag_of_a_value_forgets_it_and_no_other_tag_does() {
    let stage = stage(2, GATE, at_start);
    let call = |value: &[u8], tags: &[TokenName]| tagged_call(&stage.stack, value, tags);
    let (first, second) = ([3; 32], [4; 32]);
    assert_eq!(call(b"1", &[first, second]), b"1");
    stage.tiers[0].clear().unwrap();
    // The nearer tier has it with its tags, too.
    assert_eq!(call(b"2", &[]), b"1");
    stage.stack.forget_tag(&[5; 32]);
    assert_eq!(call(b"2", &[]), b"1");
    stage.stack.forget_tag(&second);
    assert_eq!(call(b"2", &[]), b"2");
    stage.stack.forget_tag(&first);
    assert_eq!(call(b"3", &[first]), b"2");
    stage.stack.delete(b"k", &[FUNCTION]);
    assert_eq!(call(b"3", &[first]), b"3");
    stage.stack.forget(&FUNCTION);
    assert_eq!(call(b"4", &[first; 64]), b"4");
    stage.stack.forget_tag(&first);
    assert_eq!(call(b"5", &[first]), b"5");
}

#[test]
fn tag_forgotten_while_a_value_is_computed_keeps_it_from_being_stored() {
    let stage = stage(2, GATE, at_start);
    let tag = [3; 32];
    for was_known in [false, true] {
        let mut run = (stage.stack).begin(b"run", vec![FUNCTION], false, LeaseRule::Run);
        run.expect_tags();
        assert!(stage.ask(&mut run).is_none());
        assert_eq!(stage.stack.forget_tag(&tag).was_there, was_known);
        run.tag(vec![tag]);
        let stored = stage.stack.store(&mut run, b"old", None);
        assert_eq!(stored, StoredInTiers::Overtaken);
        tagged_call(&stage.stack, b"1", &[tag]);
    }
    let mut run = (stage.stack).begin(b"run", vec![FUNCTION], false, LeaseRule::Run);
    run.expect_tags();
    assert!(stage.ask(&mut run).is_none());
    run.tag(vec![tag; 65]);
    let stored = stage.stack.store(&mut run, b"many", None);
    assert_eq!(stored, StoredInTiers::Nowhere);
    assert_eq!(run.failures[0].text, "a value may have 64 tags, not 65");
}

#[test]
fn value_whose_tags_are_no_tags_is_a_miss() {
    let stage = stage(1, GATE, at_start);
    let value = [&[200][..], &[7; 300]].concat();
    for bytes in [&b""[..], &[1], &[65; 60], &value] {
        stage.stack.forget(&FUNCTION);
        let mut plain = (stage.stack).begin(b"k", vec![FUNCTION], false, LeaseRule::Run);
        assert!(stage.ask(&mut plain).is_none());
        stage.stack.store(&mut plain, bytes, None);
        assert_eq!(tagged_call(&stage.stack, b"v", &[]), b"v");
    }
}

#[test]
fn lease_is_that_of_the_farthest_tier_that_gives_some() {
    let near: Arc<FaultyTier> = Arc::default();
    let records = RecordTier::new(MemoryRecords::default(), support::host());
    let tiers: Vec<Arc<dyn Tier>> = vec![near.clone(), Arc::new(records)];
    let stack = TierStack::new(tiers, GATE, support::host());
    let rule = LeaseRule::Wait { limit_ms: 60_000 };
    let mut run = stack.begin(b"k", vec![FUNCTION], false, rule);
    assert!(matches!(stack.ask(&mut run), AskAnswer::Run));
    assert_eq!(near.leased().len(), 1);
    stack.store(&mut run, b"v", None);
    assert!(near.leased().is_empty() && run.failures.is_empty());
    let only = RecordTier::new(MemoryRecords::default(), support::host());
    let stack = TierStack::new(vec![Arc::new(only)], GATE, support::host());
    let mut run = stack.begin(b"k", vec![FUNCTION], false, rule);
    assert!(matches!(stack.ask(&mut run), AskAnswer::Run));
    assert!(run.failures.is_empty());
}

#[test]
fn forced_call_asks_no_tier_and_replaces_what_is_there() {
    let stage = stage(2, GATE, at_start);
    stage.call(b"k", b"1");
    let mut call = stage
        .stack
        .begin(b"k", vec![FUNCTION, TAG], true, LeaseRule::Run);
    assert!(stage.ask(&mut call).is_none());
    let stored = stage.stack.store(&mut call, b"2", None);
    assert_eq!(stored, StoredInTiers::Kept);
    assert_eq!(stage.read(b"k").unwrap(), b"2");
}

#[test]
fn value_that_is_brought_replaces_what_is_there_and_is_deleted_like_any() {
    let stage = stage(2, GATE, at_start);
    let bring = |between: &dyn Fn()| {
        let mut call = stage.begin(b"k");
        call.bring_value();
        assert!(stage.ask(&mut call).is_none());
        between();
        stage.stack.store(&mut call, b"2", None)
    };
    stage.call(b"k", b"1");
    let reads = || {
        let tiers = stage.tiers.iter();
        let reads = tiers.map(|tier| tier.reads.load(Ordering::SeqCst));
        reads.sum::<u64>()
    };
    let before = reads();
    assert_eq!(bring(&|| {}), StoredInTiers::Kept);
    // The two tokens of each tier, once.
    assert_eq!(reads() - before, 4);
    assert_eq!(stage.read(b"k").unwrap(), b"2");
    stage.stack.delete(b"k", &[FUNCTION, TAG]);
    assert_eq!(stage.read(b"k"), None);
    // What it depends on is forgotten before it is stored: no later call gets it.
    let stack = &stage.stack;
    bring(&|| drop(stack.forget(&TAG)));
    assert_eq!(stage.read(b"k"), None);
}

#[test]
fn hit_that_cannot_be_read_is_a_miss_of_that_tier() {
    let stage = stage(2, GATE, at_start);
    stage.call(b"k", b"1");
    let mut call = stage.begin(b"k");
    assert!(stage.ask(&mut call).is_some());
    stage.stack.refuse(&mut call);
    let hit = stage.ask(&mut call).expect("the other tier has it");
    stage.stack.accept(&mut call, &hit);
    let mut call = stage.begin(b"k");
    for _ in 0..2 {
        assert!(stage.ask(&mut call).is_some());
        stage.stack.refuse(&mut call);
    }
    assert!(stage.ask(&mut call).is_none());
    let stored = stage.stack.store(&mut call, b"2", None);
    assert_eq!(stored, StoredInTiers::Kept);
    assert_eq!(stage.read(b"k").unwrap(), b"2");
}

static BREAKER_NOW_MS: AtomicU64 = AtomicU64::new(0);

fn breaker_now_ms() -> u64 {
    BREAKER_NOW_MS.load(Ordering::SeqCst)
}

#[test]
fn failing_tier_is_left_alone_and_checked_beside_the_callers() {
    let stage = stage(2, GATE, breaker_now_ms);
    let near = &stage.tiers[0];
    near.fail_from_now(true);
    let mut failures = 0;
    for number in 0..20_u8 {
        let (value, call) = stage.call(&[number], b"v");
        assert_eq!(value, b"v");
        failures += call.failures.len();
    }
    // Each failed read is tried once more, and either failure counts.
    assert_eq!(failures, 5);
    let reads = near.reads.load(Ordering::SeqCst);
    let open = stage.stack.states();
    assert!(open[0].is_open && !open[1].is_open && open[1].error.is_none());
    // The check fails, so that the pause begins again.
    BREAKER_NOW_MS.store(30_000, Ordering::SeqCst);
    assert_eq!(stage.call(b"k", b"v").1.rejected, 1);
    while near.checks.load(Ordering::SeqCst) < 1 {
        thread::yield_now();
    }
    near.fail_from_now(false);
    assert_eq!(near.reads.load(Ordering::SeqCst), reads);
    BREAKER_NOW_MS.store(90_000, Ordering::SeqCst);
    assert_eq!(stage.call(b"k", b"w").1.rejected, 1);
    while stage.stack.states()[0].is_open {
        // The failed check may have ended only now: its pause is to end, too.
        BREAKER_NOW_MS.fetch_add(1, Ordering::SeqCst);
        stage.call(b"k", b"w");
        thread::yield_now();
    }
    assert_eq!(near.checks.load(Ordering::SeqCst), 1 + 3 + 1);
    assert_eq!(stage.call(b"k", b"w").0, b"v");
    assert!(near.reads.load(Ordering::SeqCst) > reads);
}

#[test]
fn open_breaker_keeps_no_deletion_from_its_tier() {
    let stage = stage(1, GATE, at_start);
    stage.call(b"k", b"old");
    stage.tiers[0].fail_from_now(true);
    while !stage.stack.states()[0].is_open {
        stage.call(b"other", b"v");
    }
    assert_eq!(stage.stack.delete(b"k", &[FUNCTION, TAG]).failures.len(), 1);
    stage.tiers[0].fail_from_now(false);
    assert!(stage.stack.delete(b"k", &[FUNCTION, TAG]).was_there);
    assert_eq!(stage.tiers[0].len(), 2);
}

#[test]
fn pressure_rejects_callers_beyond_its_bounds_and_wakes_those_who_wait() {
    let pressure = PressureSettings {
        running_max: 1,
        waiting_max: 64,
        wait_ms: 60_000,
    };
    let settings = GateSettings {
        breaker: None,
        pressure: Some(pressure),
    };
    let stage = stage(2, settings, at_start);
    thread::scope(|scope| {
        for thread in 0..16_u8 {
            let stage = &stage;
            scope.spawn(move || {
                for number in 0..200_u8 {
                    let (value, call) = stage.call(&[number], &[number]);
                    assert_eq!((value, call.rejected), (vec![number], 0), "{thread}");
                }
            });
        }
    });
    let none = PressureSettings {
        running_max: 0,
        ..pressure
    };
    let settings = GateSettings {
        breaker: None,
        pressure: Some(PressureSettings {
            waiting_max: 0,
            ..none
        }),
    };
    let closed = self::stage(2, settings, at_start);
    let (value, call) = closed.call(b"k", b"v");
    assert_eq!((value, call.rejected), (b"v".to_vec(), 2));
}

#[test]
fn lease_is_given_back_after_the_value_is_stored_or_the_call_has_ended() {
    for ends in [0, 1, 2] {
        let stage = stage(2, GATE, at_start);
        let mut call = stage.begin_by(b"k", LeaseRule::Wait { limit_ms: 10 });
        assert!(stage.ask(&mut call).is_none());
        // The lease is that of the farthest tier, which processes of other hosts may share.
        assert_eq!(
            (stage.tiers[0].leased().len(), stage.tiers[1].leased().len()),
            (0, 1)
        );
        // A body that asks for its own key does not wait for itself.
        let mut own = stage.begin_by(b"k", LeaseRule::Wait { limit_ms: 10 });
        assert!(stage.ask(&mut own).is_none());
        stage.stack.end(&mut own);
        assert_eq!(stage.tiers[1].leased().len(), 1);
        match ends {
            0 => drop(stage.stack.store(&mut call, b"v", None)),
            1 => stage.stack.end(&mut call),
            _ => drop(call),
        }
        assert!(stage.tiers[1].leased().is_empty());
    }
}

static WAIT_NOW_MS: AtomicU64 = AtomicU64::new(0);

fn wait_now_ms() -> u64 {
    WAIT_NOW_MS.load(Ordering::SeqCst)
}

#[test]
fn call_waits_for_the_value_of_another_process_and_no_longer_than_its_limit() {
    let stage = stage(1, GATE, wait_now_ms);
    let tier = &stage.tiers[0];
    let mut call = stage.begin_by(b"k", LeaseRule::Wait { limit_ms: 100 });
    assert!(stage.ask(&mut call).is_none());
    let keys = tier.leased();
    stage.stack.end(&mut call);
    let wait = || stage.begin_by(b"k", LeaseRule::Wait { limit_ms: 100 });
    tier.lease_elsewhere(&keys, true);
    let (mut first, mut second, mut third) = (wait(), wait(), wait());
    for call in [&mut first, &mut second, &mut third] {
        assert!(matches!(stage.stack.ask(call), AskAnswer::Wait(1)));
        assert!(matches!(stage.stack.ask(call), AskAnswer::Wait(2)));
    }
    let mut leaves = stage.begin_by(b"k", LeaseRule::Leave);
    assert!(matches!(stage.stack.ask(&mut leaves), AskAnswer::Leave));
    // The limit is over, and the other process has stored nothing.
    WAIT_NOW_MS.store(100, Ordering::SeqCst);
    assert!(stage.ask(&mut first).is_none());
    assert_eq!(tier.leased().len(), 1);
    WAIT_NOW_MS.store(99, Ordering::SeqCst);
    assert_eq!(stage.call(b"k", b"theirs").0, b"theirs");
    assert_eq!(stage.ask(&mut second).unwrap().value(), b"theirs");
    stage.stack.delete(b"k", &[FUNCTION, TAG]);
    // The other process has died: this one takes the lease and runs the body.
    tier.lease_elsewhere(&keys, false);
    assert!(stage.ask(&mut third).is_none());
    assert_eq!(tier.leased(), keys);
    let stored = stage.stack.store(&mut third, b"ours", None);
    assert_eq!(stored, StoredInTiers::Kept);
}

#[test]
fn lease_that_cannot_be_taken_costs_a_run() {
    let stage = stage(1, GATE, at_start);
    stage.call(b"other", b"v");
    let mut call = stage.begin_by(b"k", LeaseRule::Wait { limit_ms: 100 });
    stage.tiers[0].fail_leases.store(true, Ordering::SeqCst);
    assert!(stage.ask(&mut call).is_none());
    assert_eq!(call.failures.len(), 1);
    let stored = stage.stack.store(&mut call, b"v", None);
    assert_eq!(stored, StoredInTiers::Kept);
}

/// Random calls, deletions, losses and faults of three tiers: no call fails, and none gives a value
/// whose body began before a deletion that every tier took.
#[test]
fn history_with_faults_has_no_value_from_before_a_deletion() {
    for seed in 0..200 {
        let settings = GateSettings {
            breaker: None,
            pressure: None,
        };
        let stage = stage(3, settings, at_start);
        let mut numbers = Numbers(seed);
        let mut running: Vec<(u8, u64, TierCall)> = Vec::new();
        // By key: bodies that began before this number may not be seen.
        let (mut clock, mut deleted) = (0_u64, [0_u64; 4]);
        for step in 0..300 {
            clock += 1;
            let key = numbers.below(4) as u8;
            match numbers.below(8) {
                0..3 => {
                    let mut call = stage.begin(&[key]);
                    match stage.ask(&mut call) {
                        Some(hit) => {
                            let began = u64::from_le_bytes(hit.value().try_into().unwrap());
                            let limit = deleted[usize::from(key)];
                            assert!(began >= limit, "seed {seed}, step {step}");
                            stage.stack.accept(&mut call, &hit);
                        }
                        None => running.push((key, clock, call)),
                    }
                }
                3 | 4 if !running.is_empty() => {
                    let place = numbers.below(running.len() as u64) as usize;
                    let (_, began, mut call) = running.swap_remove(place);
                    stage.stack.store(&mut call, &began.to_le_bytes(), None);
                }
                5 => {
                    let done = stage.stack.delete(&[key], &[FUNCTION, TAG]);
                    if done.failures.is_empty() {
                        deleted[usize::from(key)] = clock;
                    }
                }
                6 => {
                    let done = match numbers.below(2) {
                        0 => stage.stack.forget(&FUNCTION),
                        _ => stage.stack.forget(&TAG),
                    };
                    if done.failures.is_empty() {
                        deleted = [clock; 4];
                    }
                }
                _ => {
                    let tier = &stage.tiers[numbers.below(3) as usize];
                    match numbers.below(3) {
                        0 => drop(tier.clear()),
                        other => tier.fail_from_now(other == 1),
                    }
                }
            }
        }
    }
}
