//! What a call does that no fresh entry answers at once: it refreshes, waits, or runs the body.

use cache::{EntryPlace, NEVER_US};
use pyo3::ffi;

use crate::api;
use crate::bind::GivenCall;
use crate::callable::{Inner, tags_in};
use crate::decided;
use crate::entry::{self, EntryExtras, KeptEntry};
use crate::flight::{FlightWait, LedRun, RunEnding};
use crate::guard::{Holders, SharedCount};
use crate::isolate::{self, IsolatedValue, Isolation, SharedParts};
use crate::key::{HeldKey, LookupKey};
use crate::object::{HeldObject, Outcome, PlainRc, Raised};
use crate::python::{self, PythonFunction};
use crate::ready;
use crate::store::{CallStore, EntryWay, FoundEntry, StoredEntry};
use crate::value_bytes;

/// After a refresh began, or a body failed for which an old value stood in, the next one begins no
/// sooner than this.
const RETRY_PAUSE_US: u64 = 10_000_000;

/// What an entry is good for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EntryUse {
    /// It answers.
    Serve,
    /// It answers, and a caller should refresh it.
    ServeAndRefresh,
    /// It answers only if the body fails.
    OnError,
}

/// One miss: a key in a store, and the call that asks.
#[derive(Clone, Copy)]
pub struct MissedCall<'a> {
    pub store: &'a CallStore,
    pub lookup: &'a LookupKey<'a>,
    pub hash: u64,
    pub call: &'a GivenCall,
    /// The edition of the runs when the store was looked through, if it just was.
    pub runs_seen: Option<u64>,
    /// The edition of the table at which no entry of this key was there.
    pub absent_at: Option<u64>,
}

/// What was true before a body ran.
#[derive(Default)]
pub struct BodyStart {
    generation: u64,
    tokens: Option<cache::TagTokens>,
}

impl Inner {
    /// What an entry is good for now.
    pub fn use_of(&self, entry: &FoundEntry, now_us: u64) -> EntryUse {
        let Some(extras) = &entry.item.extras else {
            return EntryUse::Serve;
        };
        let fresh_until_us = extras.fresh_until_us.get();
        let stale_until_us = fresh_until_us.saturating_add(self.plan.freshness.stale_us);
        if entry.is_stale && now_us >= stale_until_us {
            return match now_us < extras.error_until_us.get() {
                true => EntryUse::Serve,
                false => EntryUse::OnError,
            };
        }
        match extras.is_due(now_us) {
            true => EntryUse::ServeAndRefresh,
            false => EntryUse::Serve,
        }
    }

    /// The answer by the whole way.
    pub unsafe fn answer(
        &self,
        cached: *mut ffi::PyObject,
        call: &GivenCall,
    ) -> Outcome<HeldObject> {
        let found = self.with_key(call, |store, lookup, hash| {
            let now_us = self.now_us();
            let (runs_seen, seen) = (store.runs.edition(), store.table.lock().edition());
            let found = store.find(hash, lookup, now_us)?;
            // Where nothing expires, what is not found is not there.
            let absent_at = (found.is_none() && !self.plan.reads_clock).then_some(seen);
            if let Some(entry) = found.filter(|entry| entry.item.is_current()) {
                let good_for = self.use_of(&entry, now_us);
                let is_later = entry.item.isolation == Isolation::Raise && self.plan.is_async;
                if good_for != EntryUse::OnError && !is_later {
                    if good_for == EntryUse::ServeAndRefresh {
                        self.freshen(cached, store, &entry, call, now_us);
                    }
                    let value = self.serve(store, &entry)?;
                    return match self.plan.is_async {
                        true => ready::awaitable(value),
                        false => Ok(value),
                    };
                }
            }
            let missed = MissedCall {
                store,
                lookup,
                hash,
                call,
                runs_seen: Some(runs_seen),
                absent_at,
            };
            match self.plan.is_async {
                true => self.async_miss(cached, missed),
                false => self.miss(missed),
            }
        })?;
        match found {
            Some(value) => Ok(value),
            None => call.run(self.function.as_ptr()),
        }
    }

    /// Answers by an entry, which counts as a use of it.
    pub unsafe fn serve(&self, store: &CallStore, entry: &FoundEntry) -> Outcome<HeldObject> {
        store.table.lock().hit(entry.place);
        self.hits.raise();
        if entry.is_stale {
            self.stale_hits.raise();
        }
        entry.item.answer()
    }

    /// Makes an entry that is due last longer, or has it refreshed by another caller.
    unsafe fn freshen(
        &self,
        cached: *mut ffi::PyObject,
        store: &CallStore,
        entry: &FoundEntry,
        call: &GivenCall,
        now_us: u64,
    ) {
        let Some(extras) = &entry.item.extras else {
            return;
        };
        if !extras.claim(now_us, now_us + RETRY_PAUSE_US) {
            return;
        }
        if let (true, Some(lifetime)) = (self.plan.freshness.extends, self.plan.lifetime_us) {
            self.prolong(store, entry.place, &entry.item, lifetime);
            return;
        }
        python::apart(|| self.ask_for_refresh(cached, call));
    }

    /// Begins the lifetime of an entry again. False once it has left.
    pub fn prolong(
        &self,
        store: &CallStore,
        place: EntryPlace,
        item: &KeptEntry,
        lifetime_us: u64,
    ) -> bool {
        let now_us = self.now_us();
        let until_us = now_us.saturating_add(lifetime_us);
        if let Some(extras) = &item.extras {
            extras.fresh_until_us.set(until_us);
            extras
                .refresh_at_us
                .set(self.refresh_at(now_us, Some(lifetime_us)));
            extras.claimed_until_us.set(0);
        }
        store.table.lock().touch(place, until_us)
    }

    unsafe fn ask_for_refresh(
        &self,
        cached: *mut ffi::PyObject,
        call: &GivenCall,
    ) -> Outcome<HeldObject> {
        let (arguments, names) = call.taken()?;
        let parts = [cached, arguments.as_ptr(), names.as_ptr()];
        let function = python::known(PythonFunction::Refresh)?;
        python::call(function, parts.as_ptr(), parts.len(), std::ptr::null_mut())
    }

    /// Runs the body of a call that no entry has the hash of.
    #[inline(never)]
    pub unsafe fn miss_of_plain(
        &self,
        cached: *mut ffi::PyObject,
        call: &GivenCall,
        arguments: &[*mut ffi::PyObject],
        hash: u64,
        edition: u64,
    ) -> Outcome<HeldObject> {
        // Held for the call: the body may drop the last name of its own function.
        let _held = HeldObject::borrowed(cached);
        self.miss(MissedCall {
            store: &self.store,
            lookup: &LookupKey::Plain(arguments),
            hash,
            call,
            // No other thread has run since the table was looked at.
            runs_seen: Some(self.store.runs.edition()),
            absent_at: Some(edition),
        })
    }

    /// Waits for a run of the same key, or runs the body.
    unsafe fn miss(&self, missed: MissedCall<'_>) -> Outcome<HeldObject> {
        let MissedCall {
            store,
            lookup,
            hash,
            ..
        } = missed;
        let mut seen = missed.runs_seen;
        let run = loop {
            let edition = match seen.take() {
                Some(edition) => edition,
                None => {
                    let edition = store.runs.edition();
                    let now_us = self.now_us();
                    if let Some(entry) = store.find_current(hash, lookup, now_us)?
                        && self.use_of(&entry, now_us) != EntryUse::OnError
                    {
                        return self.serve(store, &entry);
                    }
                    edition
                }
            };
            let Some(run) = store.runs.find(hash, lookup)? else {
                match LedRun::begin(&store.runs, edition, hash, lookup)? {
                    Some(begun) => break begun,
                    None => continue,
                }
            };
            match run.wait(self.plan.flight_wait)? {
                FlightWait::Ended(RunEnding::Value(entry)) => {
                    self.hits.raise();
                    return entry.answer();
                }
                FlightWait::Ended(RunEnding::Raised(raised)) => {
                    let error = python::call_one(PythonFunction::ErrorForCaller, raised.as_ptr())?;
                    return Err(python::raise_object(&error));
                }
                FlightWait::Unshared => {
                    self.misses.raise();
                    return missed.call.run(self.function.as_ptr());
                }
                FlightWait::Abandoned => {}
            }
        };
        self.misses.raise();
        match self.lead(missed, &run, None) {
            Ok((value, entry)) => {
                run.end(entry.map(RunEnding::Value));
                Ok(value)
            }
            Err(Raised) => self.failed(missed, run),
        }
    }

    /// Runs the body for all waiters, and stores its value; if `only` names an entry, in the place
    /// of that one or not at all. A value that goes to this caller alone makes no entry: a waiter
    /// that comes now starts again.
    unsafe fn lead(
        &self,
        missed: MissedCall<'_>,
        run: &LedRun<'_>,
        only: Option<EntryPlace>,
    ) -> Outcome<(HeldObject, Option<PlainRc<KeptEntry>>)> {
        // The whole of it owns the run: destructors and policies of the user's run here as well,
        // and what they ask of the cache must not wait for this run.
        run.enter()?;
        let start = self.start(missed.store, missed.call)?;
        run.set_tokens(&start.tokens);
        let value = missed.call.run(self.function.as_ptr())?;
        if self.plan.policy.is_some() && decided::passes(&value) && !run.is_waited_for() {
            return Ok((value, None));
        }
        let (entry, lifetime) = self.kept(&value, missed.lookup.held(), &start)?;
        let may_keep = || !run.is_detached() && self.is_current(missed.store, &start);
        if let Some(lifetime) = lifetime {
            let entry = entry.clone();
            let place = EntryWay {
                only,
                absent_at: missed.absent_at,
            };
            self.store_entry(missed.store, missed.hash, entry, lifetime, place, may_keep)?;
        }
        // A miss gets what a hit would get: of a large array, a view that cannot be changed.
        let value = match entry.isolation {
            Isolation::OwnWay => entry.answer()?,
            _ => value,
        };
        Ok((value, Some(entry)))
    }

    /// To be called before the body runs, so that an invalidation meanwhile counts.
    pub unsafe fn start(&self, store: &CallStore, call: &GivenCall) -> Outcome<BodyStart> {
        let generation = store.generation.get();
        let tags = self.tag_hashes(call)?;
        Ok(BodyStart {
            generation,
            tokens: entry::tag_tokens(&tags),
        })
    }

    /// As `start`, where the tags do not depend on the call.
    pub fn start_of_any(&self, store: &CallStore) -> BodyStart {
        BodyStart {
            generation: store.generation.get(),
            tokens: entry::tag_tokens(&self.plan.tags),
        }
    }

    /// Whether nothing that the run began with was invalidated since.
    pub fn is_current(&self, store: &CallStore, start: &BodyStart) -> bool {
        // A method's instances notice it when their table is next used, which may be later.
        let of_function = self.store.generation.get();
        let is_cleared = self.is_method() && store.cleared.get() != of_function;
        let tokens = start.tokens.as_ref();
        !is_cleared
            && start.generation == store.generation.get()
            && tokens.is_none_or(entry::tags_are_current)
    }

    /// The entry for a value, and its lifetime; `None` if it is not to be stored.
    pub unsafe fn kept(
        &self,
        value: &HeldObject,
        key: HeldKey,
        start: &BodyStart,
    ) -> Outcome<(PlainRc<KeptEntry>, Option<Option<u64>>)> {
        let kept = match &self.plan.codec {
            Some(codec) => {
                let bytes = value_bytes::own_way(value, codec)?;
                IsolatedValue::new(bytes, Isolation::OwnWay)
            }
            None => isolate::kept(value, self.plan.copy_mode)?,
        };
        let lifetime = self.lifetime(value)?;
        let extras = self.extras(start, lifetime.flatten(), kept.shared);
        let is_idle = extras.as_ref().is_none_or(|extras| extras.is_idle());
        let entry = KeptEntry {
            key,
            value: kept.value,
            isolation: kept.isolation,
            is_plain: kept.isolation == Isolation::Same && is_idle,
            extras,
            holders: Holders::one(),
        };
        Ok((PlainRc::new(entry), lifetime))
    }

    fn extras(
        &self,
        start: &BodyStart,
        lifetime_us: Option<u64>,
        shared: Option<Box<SharedParts>>,
    ) -> Option<Box<EntryExtras>> {
        let is_renewed = self.store.shared.renewal.get().is_some();
        let renewable = if is_renewed {
            decided::renewable()
        } else {
            None
        };
        let is_wanted = self.plan.freshness.is_wanted() || renewable.is_some();
        if start.tokens.is_none() && shared.is_none() && !is_wanted {
            return None;
        }
        let now_us = self.now_us();
        let until_us = lifetime_us.map_or(NEVER_US, |us| now_us.saturating_add(us));
        Some(Box::new(EntryExtras {
            tokens: start.tokens.clone(),
            fresh_until_us: SharedCount::new(until_us),
            refresh_at_us: SharedCount::new(self.refresh_at(now_us, lifetime_us)),
            claimed_until_us: SharedCount::new(0),
            error_until_us: SharedCount::new(0),
            shared,
            renewable,
        }))
    }

    fn refresh_at(&self, now_us: u64, lifetime_us: Option<u64>) -> u64 {
        let freshness = &self.plan.freshness;
        let (Some(lifetime), true) = (lifetime_us, freshness.refreshes()) else {
            return NEVER_US;
        };
        // A tenth earlier or later, so that entries of one moment are not all due in one.
        let share = freshness.refresh_share.unwrap_or(1.0) * (0.9 + 0.2 * python::chance());
        now_us.saturating_add((lifetime as f64 * share.min(1.0)) as u64)
    }

    /// Puts an entry into the store, unless `may_keep` says no at the last moment.
    pub unsafe fn store_entry(
        &self,
        store: &CallStore,
        hash: u64,
        entry: PlainRc<KeptEntry>,
        lifetime_us: Option<u64>,
        way: EntryWay,
        may_keep: impl Fn() -> bool,
    ) -> Outcome<bool> {
        let weight = match self.plan.weighs {
            false => 1,
            true => python::weight(&entry.value)?,
        };
        let new = StoredEntry {
            hash,
            entry,
            weight,
            lifetime_us,
            way,
        };
        store.insert(new, self.now_us(), may_keep)
    }

    /// Ends a run whose body failed: with an old value if one may stand in, else with the
    /// exception, which is stored if that is asked for.
    unsafe fn failed(&self, missed: MissedCall<'_>, run: LedRun<'_>) -> Outcome<HeldObject> {
        let MissedCall {
            store,
            lookup,
            hash,
            ..
        } = missed;
        let Some(raised) = python::take_exception() else {
            return Err(python::raise_runtime("a body failed without an exception"));
        };
        // Ctrl-C and the end of a thread are this caller's alone.
        if ffi::PyObject_IsInstance(raised.as_ptr(), ffi::PyExc_Exception) != 1 {
            run.end(None);
            return Err(python::raise_object(&raised));
        }
        let stand_in = match self.stand_in(store, lookup, hash) {
            Ok(found) => found,
            Err(Raised) => {
                ffi::PyErr_Clear();
                None
            }
        };
        if let Some(entry) = stand_in {
            run.end(Some(RunEnding::Value(entry.item.clone())));
            return self.serve(store, &entry);
        }
        if self.plan.errors.is_some() {
            let may_keep = || !run.is_detached();
            python::apart(|| {
                self.keep_error(store, hash, lookup.held(), &raised, may_keep)?;
                Ok(HeldObject::borrowed(ffi::Py_None()))
            });
        }
        run.end(Some(RunEnding::Raised(raised.clone())));
        Err(python::raise_object(&raised))
    }

    /// The old value that answers for a body that failed; for a while it answers at once.
    pub unsafe fn stand_in(
        &self,
        store: &CallStore,
        lookup: &LookupKey<'_>,
        hash: u64,
    ) -> Outcome<Option<FoundEntry>> {
        if self.plan.freshness.error_us == 0 {
            return Ok(None);
        }
        let now_us = self.now_us();
        let found = store.find_current(hash, lookup, now_us)?;
        let found = found.filter(|entry| entry.item.isolation != Isolation::Raise);
        Ok(found.filter(|entry| {
            let Some(extras) = &entry.item.extras else {
                return false;
            };
            let fresh_until_us = extras.fresh_until_us.get();
            let until_us = fresh_until_us.saturating_add(self.plan.freshness.error_us);
            extras
                .error_until_us
                .set(until_us.min(now_us + RETRY_PAUSE_US));
            now_us < until_us
        }))
    }

    /// Stores an exception, if the function's settings say so, for as long as they say.
    pub unsafe fn keep_error(
        &self,
        store: &CallStore,
        hash: u64,
        key: HeldKey,
        raised: &HeldObject,
        may_keep: impl Fn() -> bool,
    ) -> Outcome<()> {
        let Some(errors) = &self.plan.errors else {
            return Ok(());
        };
        let seconds = HeldObject::owned(api::call_one(errors.as_ptr(), raised.as_ptr()))?;
        if seconds.as_ptr() == ffi::Py_None() {
            return Ok(());
        }
        let seconds = ffi::PyFloat_AsDouble(seconds.as_ptr());
        if !ffi::PyErr_Occurred().is_null() {
            return Err(Raised);
        }
        let lifetime_us = (seconds * 1e6) as u64;
        let error = python::call_one(PythonFunction::ErrorForCaller, raised.as_ptr())?;
        let until_us = self.now_us().saturating_add(lifetime_us);
        let entry = PlainRc::new(KeptEntry {
            key,
            value: error,
            isolation: Isolation::Raise,
            is_plain: false,
            holders: Holders::one(),
            extras: Some(Box::new(EntryExtras {
                tokens: None,
                fresh_until_us: SharedCount::new(until_us),
                refresh_at_us: SharedCount::new(NEVER_US),
                claimed_until_us: SharedCount::new(0),
                error_until_us: SharedCount::new(0),
                shared: None,
                renewable: None,
            })),
        });
        let way = EntryWay::default();
        self.store_entry(store, hash, entry, Some(lifetime_us), way, may_keep)?;
        Ok(())
    }

    /// Runs the body again for an entry, in the place of which alone the new value may be stored;
    /// without one, in the place of whatever there is. `None` if another run is under way, or the
    /// entry has left.
    pub unsafe fn refresh(
        &self,
        missed: MissedCall<'_>,
        only: Option<EntryPlace>,
    ) -> Outcome<Option<HeldObject>> {
        let MissedCall {
            store,
            lookup,
            hash,
            ..
        } = missed;
        let edition = store.runs.edition();
        if only.is_some_and(|only| !store.table.lock().confirm(only))
            || store.runs.find(hash, lookup)?.is_some()
        {
            return Ok(None);
        }
        let Some(run) = LedRun::begin(&store.runs, edition, hash, lookup)? else {
            return Ok(None);
        };
        match self.lead(missed, &run, only) {
            Ok((value, entry)) => {
                run.end(entry.map(RunEnding::Value));
                self.refreshes.raise();
                Ok(Some(value))
            }
            Err(Raised) => {
                // Waiters that have joined meanwhile run the body themselves.
                let raised = python::take_exception();
                run.end(None);
                self.refresh_failures.raise();
                if let Some(raised) = raised {
                    python::raise_object(&raised);
                }
                Err(Raised)
            }
        }
    }

    /// The tags of a call.
    pub unsafe fn tag_hashes(&self, call: &GivenCall) -> Outcome<Vec<u64>> {
        let Some(tags_of) = &self.plan.tags_of else {
            return Ok(self.plan.tags.clone());
        };
        let more = call.run(tags_of.as_ptr())?;
        let mut hashes = self.plan.tags.clone();
        hashes.extend(tags_in(more.as_ptr())?);
        Ok(hashes)
    }

    /// `None` when the result is not to be stored; `Some(None)` when it never expires.
    pub unsafe fn lifetime(&self, value: &HeldObject) -> Outcome<Option<Option<u64>>> {
        let Some(policy) = &self.plan.policy else {
            return Ok(Some(self.plan.lifetime_us.map(|us| self.shortened(us))));
        };
        let seconds = HeldObject::owned(api::call_one(policy.as_ptr(), value.as_ptr()))?;
        if seconds.as_ptr() == ffi::Py_None() {
            return Ok(Some(self.plan.lifetime_us.map(|us| self.shortened(us))));
        }
        let seconds = ffi::PyFloat_AsDouble(seconds.as_ptr());
        if !ffi::PyErr_Occurred().is_null() {
            return Err(Raised);
        }
        if seconds == f64::INFINITY {
            return Ok(Some(None));
        }
        Ok((seconds > 0.0).then_some(Some(self.shortened((seconds * 1e6) as u64))))
    }

    /// A lifetime less a random part, so that entries of one moment do not end in one.
    fn shortened(&self, lifetime_us: u64) -> u64 {
        match self.plan.freshness.jitter {
            0.0 => lifetime_us,
            jitter => (lifetime_us as f64 * (1.0 - jitter * python::chance())) as u64,
        }
    }
}
