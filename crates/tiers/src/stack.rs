//! Several tiers, nearest first, driven by [`CallPolicy`] on the thread of the caller.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::breaker::BreakerAnswer;
use super::host::{ByProcess, Host};
use super::leases::LeaseBook;
use super::listing::{ListingTier, TokenGuard};
use super::narrow::NarrowTiers;
use super::policy::{CallPolicy, CallStep, GateAnswer, GateSettings, LeaseRule, TierGate};
use super::releases::{ReleaseWait, ReleaseWaker};
use super::tier::{MissTicket, NEVER_MS, Tier, TierError, TierFault, TierHit, TokenName};
use super::tokens::TagWatch;
use look::Looked;

mod listed;
mod look;
mod noted;

/// All reads of a call begin within this time, and all its stores.
const CALL_MS: u64 = 5_000;
/// The tier that is asked first.
const NEAREST: usize = 0;
/// How long a call waits for another process between two looks, at first and at most.
const PAUSE_MS: (u64, u64) = (1, 25);
/// As that, where it is notified when the other process is ready.
const NOTIFIED_PAUSE_MS: u64 = 100;

/// Tiers that many functions may share.
pub struct TierStack {
    shared: Arc<StackShared>,
}

struct StackShared {
    tiers: Vec<Arc<dyn Tier>>,
    narrow: NarrowTiers,
    /// By the number of the tier; none of those behind the last one.
    listing: Vec<Option<Arc<dyn ListingTier>>>,
    settings: GateSettings,
    host: Host,
    gates: ByProcess<StackGates>,
    leases: Vec<ByProcess<LeaseBook>>,
    /// Which tiers give leases.
    leasing: Arc<[bool]>,
}

/// The gates of one process, made at their first use.
#[derive(Default)]
struct StackGates {
    gates: Mutex<Vec<TierGate>>,
    left: Condvar,
}

/// One call of a function, from its first question to its last store.
pub struct TierCall {
    steps: CallPolicy,
    key: Vec<u8>,
    names: Vec<TokenName>,
    is_forced: bool,
    /// Whether the value is known before the tiers are asked.
    has_value: bool,
    has_own_tags: bool,
    own_tags: Vec<TokenName>,
    /// Of a value that replaces another: what tells those that have that one in memory.
    notice: Vec<u8>,
    guard: Option<TokenName>,
    /// What other hosts have invalidated before this is in no answer that follows: when the body
    /// may begin, or before the tier was read that has the value.
    known_ms: u64,
    /// What each tier that missed the value gave to store it.
    rights: Vec<Option<StoreRight>>,
    lease: Option<HeldLease>,
    pause_ms: u64,
    wait: Option<ReleaseWait>,
    /// What tiers did not do.
    pub failures: Vec<TierError>,
    /// Operations that did not take place, for the breaker or for want of room.
    pub rejected: u32,
}

/// A lease that is given back when this is dropped.
struct HeldLease {
    shared: Arc<StackShared>,
    tier: usize,
    key: Vec<u8>,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        let leases = self.shared.tiers[self.tier].leases();
        if let (Some(book), Some(leases)) = (self.shared.leases[self.tier].own(), leases) {
            // What cannot be given back now is overdue soon.
            let _ = book.release(leases, &self.key);
        }
    }
}

/// What comes of asking the tiers.
pub enum AskAnswer {
    /// This value, to be followed by [`TierStack::accept`] or [`TierStack::refuse`].
    Hit(StackHit),
    /// Another process computes it: [`TierStack::ask`] again after so many milliseconds.
    Wait(u64),
    /// Another process computes it, and the call is not to wait.
    Leave,
    /// The body has to run.
    Run,
}

struct StoreRight {
    key: Vec<u8>,
    /// `None` for a value that no deletion until now can have made wrong.
    ticket: Option<MissTicket>,
    /// Of a call whose values have tags.
    watch: Option<TagWatch>,
    /// Of a call whose entries are listed.
    guard: Option<TokenGuard>,
}

/// A value that a tier gave, and the tags of its own.
pub struct StackHit {
    hit: TierHit,
    tags: Vec<TokenName>,
}

impl Deref for StackHit {
    type Target = TierHit;

    fn deref(&self) -> &TierHit {
        &self.hit
    }
}

/// What is stored.
struct NewValue<'a> {
    bytes: &'a [u8],
    tags: &'a [TokenName],
    lifetime_ms: Option<u64>,
}

/// What became of a value in the tiers that could store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredInTiers {
    /// At least one has it, and nothing it depends on was deleted meanwhile.
    Kept,
    /// As that, but in narrow tiers only: what other hosts have invalidated since the body began is
    /// not known.
    KeptNarrow,
    /// Something was deleted while it was computed: it is the answer to its own call and no other.
    Overtaken,
    /// No tier has it.
    Nowhere,
}

/// What a deletion did.
pub struct Deleted {
    /// Whether there was something to delete.
    pub was_there: bool,
    /// Why tiers did not do it: these may still give the value.
    pub failures: Vec<TierError>,
}

/// How the breaker of a tier stands.
pub struct TierState {
    /// Whether callers are kept from it.
    pub is_open: bool,
    /// Why it cannot be used.
    pub error: Option<TierError>,
}

impl TierStack {
    /// A stack of these tiers, nearest first, with one gate each in every process.
    pub fn new(tiers: Vec<Arc<dyn Tier>>, settings: GateSettings, host: Host) -> TierStack {
        TierStack::with_narrow(tiers, NarrowTiers::default(), settings, host)
    }

    /// As that, with some tiers that are narrow.
    pub fn with_narrow(
        tiers: Vec<Arc<dyn Tier>>,
        narrow: NarrowTiers,
        settings: GateSettings,
        host: Host,
    ) -> TierStack {
        let leases = tiers.iter().map(|_| ByProcess::new(&host)).collect();
        let shared = StackShared {
            leasing: tiers.iter().map(|tier| tier.leases().is_some()).collect(),
            tiers,
            narrow,
            listing: Vec::new(),
            settings,
            host,
            gates: ByProcess::new(&host),
            leases,
        };
        TierStack {
            shared: Arc::new(shared),
        }
    }

    /// A call for `key`, whose entries depend on `names`. If it is forced the body runs whatever
    /// is stored.
    pub fn begin(
        &self,
        key: &[u8],
        names: Vec<TokenName>,
        is_forced: bool,
        rule: LeaseRule,
    ) -> TierCall {
        let tiers = self.shared.tiers.len();
        let now_ms = self.now_ms();
        TierCall {
            steps: CallPolicy::new(self.shared.leasing.clone(), rule, CALL_MS, now_ms),
            key: key.to_vec(),
            names,
            is_forced,
            has_value: false,
            has_own_tags: false,
            own_tags: Vec::new(),
            notice: Vec::new(),
            guard: None,
            known_ms: now_ms,
            rights: (0..tiers).map(|_| None).collect(),
            lease: None,
            pause_ms: PAUSE_MS.0,
            wait: None,
            failures: Vec::new(),
            rejected: 0,
        }
    }

    fn now_ms(&self) -> u64 {
        (self.shared.host.now_ms)()
    }

    /// Asks the tiers until one has the value, or it is clear who computes it.
    pub fn ask(&self, call: &mut TierCall) -> AskAnswer {
        let mut now_ms = self.now_ms();
        if call.steps.next(now_ms) == CallStep::Wait {
            call.steps.waited(now_ms);
        }
        loop {
            call.known_ms = now_ms;
            match call.steps.next(now_ms) {
                CallStep::Ask(tier) => {
                    if let Some(hit) = self.ask_tier(call, tier) {
                        return AskAnswer::Hit(hit);
                    }
                }
                CallStep::Lease(tier) => self.take_lease(call, tier),
                CallStep::Wait => return AskAnswer::Wait(call.next_pause_ms()),
                CallStep::Leave => return AskAnswer::Leave,
                CallStep::Run | CallStep::Store(_) | CallStep::Done => return AskAnswer::Run,
            }
            now_ms = self.now_ms();
        }
    }

    /// Waits on this thread for another process, so long at most. Whether that one is ready. Who
    /// cannot wait on a thread uses [`TierCall::wake_by`].
    pub fn pause(&self, call: &mut TierCall, limit: Duration) -> bool {
        if let Some(wait) = &mut call.wait {
            return wait.pause(limit);
        }
        thread::sleep(limit);
        false
    }

    fn ask_tier(&self, call: &mut TierCall, tier: usize) -> Option<StackHit> {
        let host = &self.shared.host;
        match self.shared.operate(tier, |one| call.look(one, host)) {
            GatedOperation::Done(Looked::Hit(hit)) => return Some(hit),
            GatedOperation::Done(Looked::Miss(right)) => {
                call.rights[tier] = Some(right);
                call.steps.miss();
            }
            GatedOperation::Rejected => {
                call.rejected += 1;
                call.steps.pass();
            }
            GatedOperation::Failed(error) => {
                self.shared.with_gate(tier, |gate| match gate {
                    Some(gate) => call.steps.fail(error.fault, gate),
                    None => call.steps.pass(),
                });
                call.failures.push(error);
            }
        }
        None
    }

    fn take_lease(&self, call: &mut TierCall, tier: usize) {
        let key = call.rights[tier].as_ref().expect("a tier that has missed");
        let key = key.key.clone();
        let Some(book) = self.shared.leases[tier].own() else {
            call.steps.lease_failed();
            return;
        };
        let taken = self.shared.operate(tier, |one| {
            let leases = one.leases().expect("a tier that gives leases");
            book.take(leases, &key, &self.shared.host)
        });
        match taken {
            GatedOperation::Done(is_held) => {
                if is_held {
                    let shared = self.shared.clone();
                    call.lease = Some(HeldLease { shared, tier, key });
                    self.shared.keep_renewed(tier);
                } else if call.wait.is_none() {
                    let leases = self.shared.tiers[tier].leases();
                    call.wait = leases.and_then(|leases| leases.wait_for(&key));
                }
                call.steps.leased(is_held, self.now_ms());
            }
            GatedOperation::Rejected => {
                call.rejected += 1;
                call.steps.lease_failed();
            }
            GatedOperation::Failed(error) => {
                call.failures.push(error);
                call.steps.lease_failed();
            }
        }
    }

    /// Whether the breaker of the nearest tier lets it be read by a connection that many calls
    /// share, of which the server does one read after another: those are no pressure.
    pub fn may_read(&self) -> bool {
        let answer = self.shared.with_gate(NEAREST, |gate| {
            gate.map_or(BreakerAnswer::Open, |gate| {
                gate.ask_breaker(self.shared.host.now_ms)
            })
        });
        if let BreakerAnswer::Check(number) = answer {
            self.shared.check_beside(NEAREST, number);
        }
        answer == BreakerAnswer::Closed
    }

    /// Such a read has failed.
    pub fn read_failed(&self, fault: TierFault) {
        let now_ms = self.now_ms();
        self.shared.with_gate(NEAREST, |gate| {
            if let Some(gate) = gate {
                gate.count_failure(fault, now_ms);
            }
        });
    }

    /// The call ends without a value to store: others need not wait for it.
    pub fn end(&self, call: &mut TierCall) {
        call.lease = None;
    }

    /// How old the hit is, if the tier that has it is narrow.
    pub fn narrow_age_ms(&self, call: &TierCall, hit: &StackHit, now_ms: u64) -> Option<u64> {
        let is_narrow = self.shared.narrow.has(call.current_tier()?);
        is_narrow.then(|| now_ms.saturating_sub(hit.written_ms))
    }

    /// Whether a hit of this age in a narrow tier may be the answer.
    pub fn is_within_span(&self, narrow_age_ms: u64) -> bool {
        self.shared.narrow.is_within_span(narrow_age_ms)
    }

    /// The hit is the answer. Tiers before it store it for what is left of its life.
    pub fn accept(&self, call: &mut TierCall, found: &StackHit) {
        call.steps.hit(self.now_ms());
        let until_ms = found.hit.until_ms;
        let left_ms = until_ms.saturating_sub(self.now_ms());
        let value = NewValue {
            bytes: found.hit.value(),
            tags: &found.tags,
            lifetime_ms: (until_ms != NEVER_MS).then_some(left_ms),
        };
        self.store_in_turn(call, &value);
        call.lease = None;
    }

    /// The hit cannot be read: it counts as a miss.
    pub fn refuse(&self, call: &mut TierCall) {
        let CallStep::Ask(tier) = call.steps.next(self.now_ms()) else {
            return;
        };
        let host = &self.shared.host;
        let taken = (self.shared).operate(tier, |one| call.right_in(one, host));
        match taken {
            GatedOperation::Done(right) => {
                call.rights[tier] = Some(right);
                call.steps.miss();
                return;
            }
            GatedOperation::Rejected => call.rejected += 1,
            GatedOperation::Failed(error) => call.failures.push(error),
        }
        call.steps.pass();
    }

    /// Stores what the body gave in every tier that had missed it.
    pub fn store(
        &self,
        call: &mut TierCall,
        value: &[u8],
        lifetime_ms: Option<u64>,
    ) -> StoredInTiers {
        call.steps.ran(self.now_ms());
        let value = NewValue {
            bytes: value,
            tags: &std::mem::take(&mut call.own_tags),
            lifetime_ms,
        };
        let stored = self.store_in_turn(call, &value);
        call.lease = None;
        stored
    }

    fn store_in_turn(&self, call: &mut TierCall, value: &NewValue<'_>) -> StoredInTiers {
        let mut stored = StoredInTiers::Nowhere;
        let mut known_ms = call.known_ms;
        loop {
            let now_ms = self.now_ms();
            let CallStep::Store(tier) = call.steps.next(now_ms) else {
                return stored;
            };
            call.steps.stored();
            if stored == StoredInTiers::Overtaken {
                // A value that was overtaken in one tier is old in all of them, also in those that
                // a deletion by another host does not reach.
                continue;
            }
            let narrow = self.shared.narrow.store_of(tier, known_ms);
            if narrow.is_some() && !self.is_within_span(now_ms.saturating_sub(known_ms)) {
                continue;
            }
            let right = call.rights[tier].as_ref().expect("a tier that has missed");
            let host = &self.shared.host;
            let listing = self.shared.listing_of(tier);
            let store = |one: &dyn Tier| call.store_in(one, listing, narrow, right, value, host);
            match self.shared.operate(tier, store) {
                GatedOperation::Done(false) => stored = StoredInTiers::Overtaken,
                GatedOperation::Done(true) if narrow.is_none() => {
                    // Nothing had been invalidated when this began.
                    known_ms = now_ms;
                    stored = StoredInTiers::Kept;
                }
                GatedOperation::Done(true) if stored == StoredInTiers::Nowhere => {
                    stored = StoredInTiers::KeptNarrow;
                }
                GatedOperation::Done(true) => {}
                GatedOperation::Rejected => call.rejected += 1,
                GatedOperation::Failed(error) => call.failures.push(error),
            }
        }
    }

    /// Deletes the entry of `key`, in the farthest tier first: a nearer one could be filled again
    /// from it. A breaker keeps no deletion from a tier, for what is not deleted is served again.
    pub fn delete(&self, key: &[u8], names: &[TokenName]) -> Deleted {
        self.delete_noted(key, names, b"")
    }

    /// As [`TierStack::forget`], of a tag that values may have of their own.
    pub fn forget_tag(&self, tag: &TokenName) -> Deleted {
        self.forget_tag_noted(tag, b"")
    }

    /// Forgets every entry that depends on `name`.
    pub fn forget(&self, name: &TokenName) -> Deleted {
        self.forget_noted(name, b"")
    }

    fn delete_each(&self, delete: impl Fn(&dyn Tier) -> Result<bool, TierError>) -> Deleted {
        let mut deleted = Deleted {
            was_there: false,
            failures: Vec::new(),
        };
        for tier in self.shared.tiers.iter().rev() {
            match delete(&**tier) {
                Ok(was_there) => deleted.was_there |= was_there,
                Err(error) => deleted.failures.push(error),
            }
        }
        deleted
    }

    /// How each tier stands, nearest first. Tiers that are not kept from callers are checked now.
    pub fn states(&self) -> Vec<TierState> {
        let tiers = self.shared.tiers.iter().enumerate();
        let states = tiers.map(|(number, tier)| {
            let is_open = self.shared.is_open(number);
            TierState {
                is_open,
                error: if is_open { None } else { tier.check().err() },
            }
        });
        states.collect()
    }
}

impl TierCall {
    /// The values of this call have tags of their own: what is found is a value only if none of
    /// them was forgotten. Calls of one function are all of this kind, or none is.
    pub fn expect_tags(&mut self) {
        self.has_own_tags = true;
    }

    /// Entries of this call's function are listed for invalidations, which first delete the token
    /// of this name: what was computed before that is not stored after it.
    pub fn guard_by(&mut self, name: TokenName) {
        self.guard = Some(name);
    }

    /// Whether [`TierCall::guard_by`] was called.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Has `waker` called when the other process is ready, if this process is notified of it. False
    /// if it is ready already.
    pub fn wake_by(&mut self, waker: ReleaseWaker) -> bool {
        match &mut self.wait {
            Some(wait) => wait.wake_by(waker),
            None => true,
        }
    }

    /// The first one is short: of what was ready before there was a wait nothing is notified.
    fn next_pause_ms(&mut self) -> u64 {
        let pause_ms = self.pause_ms;
        self.pause_ms = (pause_ms * 2).min(PAUSE_MS.1);
        let is_notified = self.wait.as_ref().is_some_and(ReleaseWait::is_notified);
        if is_notified && pause_ms > PAUSE_MS.0 {
            NOTIFIED_PAUSE_MS
        } else {
            pause_ms
        }
    }

    /// Whether the tier that was asked last is the nearest: a hit there is stored nowhere.
    pub fn is_at_nearest(&self) -> bool {
        self.lease.is_none() && self.steps.is_at_nearest()
    }

    /// The tier that was asked last, until its answer is accepted.
    pub fn current_tier(&self) -> Option<usize> {
        self.steps.current_tier()
    }

    /// Whether every tier that was asked has answered.
    pub fn is_without_trouble(&self) -> bool {
        self.failures.is_empty() && self.rejected == 0
    }

    /// The call asks no tier for a value and runs no body: the value is there already, and no lease
    /// is taken for it. A deletion while the call lasts may come before it or after it.
    pub fn bring_value(&mut self) {
        self.is_forced = true;
        self.has_value = true;
    }

    /// The tags of the value that the body has given, of a call that expects them.
    pub fn tag(&mut self, tags: Vec<TokenName>) {
        self.own_tags = tags;
    }
}

enum GatedOperation<T> {
    Done(T),
    Rejected,
    Failed(TierError),
}

impl StackShared {
    fn lock<'a>(&self, own: &'a StackGates) -> MutexGuard<'a, Vec<TierGate>> {
        let mut gates = own.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if gates.is_empty() {
            *gates = (self.tiers.iter())
                .map(|_| TierGate::new(self.settings))
                .collect();
        }
        gates
    }

    /// Does something with the gate of a tier; `None` in a fork of too many others.
    fn with_gate<T>(&self, tier: usize, act: impl FnOnce(Option<&mut TierGate>) -> T) -> T {
        match self.gates.own() {
            Some(own) => act(Some(&mut self.lock(own)[tier])),
            None => act(None),
        }
    }

    fn is_open(&self, tier: usize) -> bool {
        self.with_gate(tier, |gate| {
            let breaker = gate.and_then(TierGate::breaker);
            breaker.is_some_and(|breaker| breaker.is_open())
        })
    }

    /// Does something with a tier, if its gate lets it.
    fn operate<T>(
        self: &Arc<Self>,
        tier: usize,
        act: impl FnOnce(&dyn Tier) -> Result<T, TierError>,
    ) -> GatedOperation<T> {
        let Some(own) = self.gates.own() else {
            return GatedOperation::Rejected;
        };
        if !self.enter(own, tier) {
            return GatedOperation::Rejected;
        }
        let done = act(&*self.tiers[tier]);
        let failed = done.as_ref().err().map(|error| error.fault);
        let is_waited_for = {
            let gate = &mut self.lock(own)[tier];
            gate.leave(failed, self.host.now_ms);
            gate.is_waited_for()
        };
        // To wake no one is a call of the system as well.
        if is_waited_for {
            // Callers of every tier wait here, and one of this tier must be among those woken.
            own.left.notify_all();
        }
        match done {
            Ok(done) => GatedOperation::Done(done),
            Err(error) => GatedOperation::Failed(error),
        }
    }

    fn enter(self: &Arc<Self>, own: &StackGates, tier: usize) -> bool {
        let mut until_ms = None;
        let mut gates = self.lock(own);
        loop {
            match gates[tier].enter(self.host.now_ms) {
                GateAnswer::Enter => return true,
                GateAnswer::Rejected => return false,
                GateAnswer::Full => {
                    let now_ms = (self.host.now_ms)();
                    let until_ms =
                        until_ms.get_or_insert(now_ms.saturating_add(gates[tier].wait_ms()));
                    let left_ms = until_ms.saturating_sub(now_ms);
                    if left_ms == 0 {
                        return false;
                    }
                    gates[tier].begin_wait();
                    let waited = own.left.wait_timeout(gates, Duration::from_millis(left_ms));
                    gates = waited.unwrap_or_else(PoisonError::into_inner).0;
                    gates[tier].end_wait();
                }
                GateAnswer::Check(number) => {
                    drop(gates);
                    self.check_beside(tier, number);
                    return false;
                }
            }
        }
    }

    /// Has the leases of a tier renewed by a thread, as long as this process has some.
    fn keep_renewed(self: &Arc<Self>, tier: usize) {
        let Some(book) = self.leases[tier].own() else {
            return;
        };
        if !book.wants_thread() {
            return;
        }
        let shared = self.clone();
        let renew = move || {
            let leases = shared.tiers[tier].leases();
            if let (Some(book), Some(leases)) = (shared.leases[tier].own(), leases) {
                book.keep_renewed(leases);
            }
        };
        let name = "tidemark-cache-lease".to_owned();
        if thread::Builder::new().name(name).spawn(renew).is_err() {
            book.has_no_thread();
        }
    }

    /// Checks a tier on a thread of its own, which only this breaker waits for.
    fn check_beside(self: &Arc<Self>, tier: usize, number: u64) {
        let shared = self.clone();
        let check = move || {
            let checks = shared.with_gate(tier, |gate| {
                let breaker = gate.and_then(TierGate::breaker);
                breaker.map_or(0, |breaker| breaker.checks())
            });
            let is_good = (0..checks).all(|_| shared.tiers[tier].check().is_ok());
            shared.checked(tier, number, is_good);
        };
        let name = "tidemark-cache-check".to_owned();
        if thread::Builder::new().name(name).spawn(check).is_err() {
            self.checked(tier, number, false);
        }
    }

    fn checked(&self, tier: usize, number: u64, is_good: bool) {
        let now_ms = (self.host.now_ms)();
        self.with_gate(tier, |gate| {
            if let Some(breaker) = gate.and_then(TierGate::breaker) {
                breaker.checked(number, is_good, now_ms);
            }
        });
    }
}
