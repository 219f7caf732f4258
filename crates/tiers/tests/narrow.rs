//! How old an answer of a tier is that invalidations by other hosts do not reach, next to a server.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tiers::policy::{GateSettings, LeaseRule};
use tiers::{
    AskAnswer, Host, NarrowTier, NarrowTiers, StoredInTiers, Tier, TierCall, TierStack, TokenName,
};

mod support;

use support::faulty::FaultyTier;

const FUNCTION: TokenName = [1; 32];
const SPAN_MS: u64 = 3_000;
const GATE: GateSettings = GateSettings {
    breaker: None,
    pressure: None,
};

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(100_000) };
}

fn now_ms() -> u64 {
    NOW_MS.get()
}

fn pass(ms: u64) {
    NOW_MS.set(NOW_MS.get() + ms);
}

/// A narrow tier before a server.
struct Stage {
    narrow: Arc<FaultyTier>,
    server: Arc<FaultyTier>,
    stack: TierStack,
}

fn stage() -> Stage {
    let (narrow, server): (Arc<FaultyTier>, Arc<FaultyTier>) = Default::default();
    let which = vec![Some(narrow.clone() as Arc<dyn NarrowTier>), None];
    let host = Host {
        now_ms,
        ..support::host()
    };
    let tiers: Vec<Arc<dyn Tier>> = vec![narrow.clone(), server.clone()];
    let which = NarrowTiers::new(which, SPAN_MS);
    Stage {
        stack: TierStack::with_narrow(tiers, which, GATE, host),
        narrow,
        server,
    }
}

impl Stage {
    fn missed(&self) -> TierCall {
        let mut call = (self.stack).begin(b"k", vec![FUNCTION], false, LeaseRule::Run);
        assert!(matches!(self.stack.ask(&mut call), AskAnswer::Run));
        call
    }

    /// How old the value of the narrow tier is; `None` if it has none.
    fn age_ms(&self) -> Option<u64> {
        let mut call = (self.stack).begin(b"k", vec![FUNCTION], false, LeaseRule::Run);
        let AskAnswer::Hit(hit) = self.stack.ask(&mut call) else {
            return None;
        };
        self.stack.narrow_age_ms(&call, &hit, now_ms())
    }
}

#[test]
fn value_that_no_server_has_is_as_old_as_the_run_of_its_body() {
    let fails = |stage: &Stage, is_failing| stage.server.fail_from_now(is_failing);
    for (fails_at_ask, fails_at_store) in [(true, false), (true, true), (false, true)] {
        for (body_ms, is_kept) in [(0, true), (2_000, true), (2_999, true), (3_000, false)] {
            let stage = stage();
            fails(&stage, fails_at_ask);
            let mut call = stage.missed();
            fails(&stage, fails_at_store);
            pass(body_ms);
            let stored = stage.stack.store(&mut call, b"v", None);
            fails(&stage, false);
            let (expected, age_ms) = if is_kept {
                (StoredInTiers::KeptNarrow, Some(body_ms))
            } else {
                (StoredInTiers::Nowhere, None)
            };
            let found = (stored, stage.age_ms());
            assert_eq!(found, (expected, age_ms), "{fails_at_ask} {fails_at_store}");
            pass(2_999 - body_ms.min(2_999));
            let is_answer = stage
                .age_ms()
                .is_some_and(|age| stage.stack.is_within_span(age));
            assert_eq!(is_answer, is_kept);
            pass(1);
            assert!(
                !stage
                    .age_ms()
                    .is_some_and(|age| stage.stack.is_within_span(age))
            );
        }
    }
}

#[test]
fn value_that_the_server_took_is_as_old_as_that() {
    let stage = stage();
    let mut call = stage.missed();
    pass(10_000);
    // The process is stopped between its two stores.
    *stage.server.after_set.lock().unwrap() = Some(|| pass(1_000));
    let stored = stage.stack.store(&mut call, b"v", None);
    assert_eq!((stored, stage.age_ms()), (StoredInTiers::Kept, Some(1_000)));
    *stage.server.after_set.lock().unwrap() = Some(|| pass(SPAN_MS));
    stage.stack.delete(b"k", &[FUNCTION]);
    let stored = stage.stack.store(&mut stage.missed(), b"v", None);
    assert_eq!(stored, StoredInTiers::Kept);
    assert_eq!((stage.narrow.len(), stage.age_ms()), (1, None));
}

#[test]
fn answer_of_the_server_is_as_old_as_its_reading() {
    for (stop_ms, age_ms) in [(0, Some(0)), (2_999, Some(2_999)), (3_000, None)] {
        let stage = stage();
        stage.stack.store(&mut stage.missed(), b"v", None);
        stage.narrow.clear().unwrap();
        pass(10_000);
        let mut call = (stage.stack).begin(b"k", vec![FUNCTION], false, LeaseRule::Run);
        let AskAnswer::Hit(hit) = stage.stack.ask(&mut call) else {
            panic!("the server has it");
        };
        assert_eq!(stage.stack.narrow_age_ms(&call, &hit, now_ms()), None);
        // The process is stopped between the reading of the server and the narrow tier's store.
        pass(stop_ms);
        stage.stack.accept(&mut call, &hit);
        let reads = stage.server.reads.load(Ordering::SeqCst);
        assert_eq!(stage.age_ms(), age_ms);
        let is_asked = stage.server.reads.load(Ordering::SeqCst) > reads;
        assert_eq!(is_asked, age_ms.is_none());
    }
}
