//! The tiers of a function as an object of Python, and one call on its way through them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use tiers::breaker::BreakerSettings;
use tiers::envelope::{FrameCheck, Sealing};
use tiers::policy::{GateSettings, LeaseRule, PressureSettings};
use tiers::{
    AskAnswer, Deleted, Host, ListingTier, NAME_BYTES, NEVER_MS, NarrowTier, NarrowTiers,
    RedisTier, StackHit, StoredInTiers, Tier, TierCall, TierFault, TierHit, TierStack, TokenName,
};

use crate::file_tier::{FailureText, SharedFile, failure_text, opened, sealed};
use crate::guard::Guarded;
use crate::memcached_tier::SharedMemcached;
use crate::note::{guard_of, with_note, without_note};
use crate::object_tier::{SharedObject, raise_what_was_raised};
use crate::recent_answers::RecentAnswers;
use crate::redis_tier::SharedRedis;
use crate::value_bytes::damaged;
use crate::{isolate, python, value_bytes};

/// A value, the milliseconds it has left, None for no end, those it has had already, and those of
/// them that count for memory: how old it is in a tier that invalidations may not reach, else 0.
type Found = Option<(Py<PyAny>, Option<u64>, u64, u64)>;

/// What comes of the tiers for a call.
#[derive(Default)]
struct TierAnswers {
    found: Found,
    /// An older value.
    old: Found,
    /// How long to wait, or [`RUN`] or [`LEAVE`].
    next: i64,
    /// What `found` was decoded from.
    found_bytes: usize,
}

/// Operations that did not take place, and failures.
type Troubles = (u32, Vec<FailureText>);

/// What was found, an older value, how long to wait, and the call.
type CallAnswer = (Found, Found, i64, StackedCall);

/// In files alone, whose bytes travel nowhere, smaller values are kept as they are: to compress one
/// of 10 KB takes longer than to write it, and to open it again longer than to read it. Each record
/// of a file has a checksum.
const IN_FILES: Sealing = Sealing {
    compress_from: 16 << 10,
    check: FrameCheck::ByStore,
};

/// A thread that waits looks for signals this often.
const SLICE_MS: u64 = 50;

/// The body has to run; as a number of milliseconds to wait.
const RUN: i64 = -1;
/// Another process computes the value, and the call does not wait for it.
const LEAVE: i64 = 0;

/// The names that these bytes are, one after another.
pub fn names_in(bytes: &[u8]) -> Vec<TokenName> {
    bytes.as_chunks::<NAME_BYTES>().0.to_vec()
}

/// A tier of any kind.
#[derive(FromPyObject)]
enum SharedTier<'py> {
    File(PyRef<'py, SharedFile>),
    Redis(PyRef<'py, SharedRedis>),
    Memcached(PyRef<'py, SharedMemcached>),
    Object(PyRef<'py, SharedObject>),
}

/// Tiers below memory, nearest first. The interpreter's lock is released while they are used, and
/// none of their failures is raised.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct StackOfTiers {
    pub stack: TierStack,
    host: Host,
    sealing: Sealing,
    /// Who has checked what the nearest tier gives. A file may have what functions in files alone
    /// have stored; from there it goes into no other tier.
    nearest_check: FrameCheck,
    /// A server that is the only tier, whose stream says what memory may keep.
    streaming: Option<Arc<RedisTier>>,
}

/// One call, between its question to the tiers and what it stores in them.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct StackedCall {
    // Away while a thread uses it with the interpreter's lock released.
    call: Mutex<Option<TierCall>>,
    stream_run: u64,
}

impl StackedCall {
    fn of(call: TierCall, stream_run: u64) -> StackedCall {
        StackedCall {
            call: Mutex::new(Some(call)),
            stream_run,
        }
    }

    /// Does something with the call, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut TierCall) -> T + Send,
    ) -> PyResult<T> {
        let mut call = self.take()?;
        let done = py.detach(|| act(&mut call));
        self.put_back(call);
        raise_what_was_raised()?;
        Ok(done)
    }

    fn take(&self) -> PyResult<TierCall> {
        let mut held = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = held.take();
        taken.ok_or_else(|| PyRuntimeError::new_err("another thread uses this call"))
    }

    fn put_back(&self, call: TierCall) {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }
}

#[pymethods]
impl StackedCall {
    /// Which run of the stream was followed when the call began; 0 for none.
    #[getter]
    fn stream_run(&self) -> u64 {
        self.stream_run
    }

    /// Has `wake` called, on another thread, when the process that the call waits for gives its
    /// lease back, if a thread of this process is notified of that. False if it has already.
    fn wake_by(&self, wake: Py<PyAny>) -> PyResult<bool> {
        let mut call = self.take()?;
        let waits = call.wake_by(Box::new(move || {
            // Not where the interpreter ends.
            Python::try_attach(|py| {
                if let Err(error) = wake.call0(py) {
                    error.write_unraisable(py, Some(wake.bind(py)));
                }
            });
        }));
        self.put_back(call);
        Ok(waits)
    }

    /// What went wrong since this was asked for: operations that did not take place, and failures.
    /// None if nothing did.
    fn troubles(&self) -> Option<Troubles> {
        let mut held = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        troubles(held.as_mut()?)
    }
}

#[pymethods]
impl StackOfTiers {
    /// `breaker`: failures, their window, the pause (milliseconds), and checks. `pressure`: how
    /// many operations run, how many callers wait, and how many milliseconds. `narrow_ms`: how old
    /// an answer of a file may be that stands next to a server.
    #[new]
    fn new(
        tiers: Vec<SharedTier<'_>>,
        breaker: Option<(u32, u64, u64, u32)>,
        pressure: Option<(u32, u32, u64)>,
        narrow_ms: u64,
    ) -> PyResult<StackOfTiers> {
        let host = match tiers.first() {
            Some(SharedTier::File(file)) => file.host,
            Some(SharedTier::Redis(redis)) => redis.host,
            Some(SharedTier::Memcached(memcached)) => memcached.host,
            Some(SharedTier::Object(object)) => object.host,
            None => return Err(PyRuntimeError::new_err("a stack has at least one tier")),
        };
        let breaker = breaker.map(
            |(failures_max, window_ms, pause_ms, checks)| BreakerSettings {
                failures_max,
                window_ms,
                pause_ms,
                checks,
            },
        );
        let pressure = pressure.map(|(running_max, waiting_max, wait_ms)| PressureSettings {
            running_max,
            waiting_max,
            wait_ms,
        });
        let is_file = |tier: &SharedTier<'_>| matches!(tier, SharedTier::File(_));
        let nearest_check = match is_file(&tiers[0]) {
            true => FrameCheck::ByStore,
            false => FrameCheck::InFrame,
        };
        let are_files = tiers.iter().all(is_file);
        // Files are narrow if there is a server.
        let narrow = tiers.iter().map(|tier| match tier {
            SharedTier::File(file) if !are_files => Some(file.tier.clone() as Arc<dyn NarrowTier>),
            _ => None,
        });
        let narrow = NarrowTiers::new(narrow.collect(), narrow_ms);
        let streaming = match &tiers[..] {
            [SharedTier::Redis(redis)] => Some(redis.tier.clone()),
            _ => None,
        };
        let listing = tiers.iter().map(|tier| match tier {
            SharedTier::File(file) => Some(file.tier.clone() as Arc<dyn ListingTier>),
            SharedTier::Redis(redis) => Some(redis.tier.clone() as Arc<dyn ListingTier>),
            SharedTier::Memcached(_) | SharedTier::Object(_) => None,
        });
        let tiers = tiers.iter().map(|tier| match tier {
            SharedTier::File(file) => file.tier.clone() as Arc<dyn Tier>,
            SharedTier::Redis(redis) => redis.tier.clone() as Arc<dyn Tier>,
            SharedTier::Memcached(memcached) => memcached.tier.clone() as Arc<dyn Tier>,
            SharedTier::Object(object) => object.tier.clone() as Arc<dyn Tier>,
        });
        let settings = GateSettings { breaker, pressure };
        let stack = TierStack::with_narrow(tiers.collect(), narrow, settings, host);
        Ok(StackOfTiers {
            stack: stack.listed_by(listing.collect()),
            host,
            sealing: match are_files {
                true => IN_FILES,
                false => Sealing::default(),
            },
            nearest_check,
            streaming,
        })
    }

    /// Asks for the value of `key`. Bytes that cannot be read count as a miss; so does a value with
    /// no more than `least_ms` left, which is the old one of the answer. `limit_ms`: how long the
    /// call waits for another process that computes the value, None not to wait; if it `leaves`, it
    /// leaves the value to that process. Waits here if it `blocks`. With `own_tags` its values have
    /// tags of their own. If it `serves_old`, it waits for no process while there is an old value.
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        key: &[u8],
        names: &[u8],
        codec: &Bound<'_, PyAny>,
        is_forced: bool,
        least_ms: u64,
        limit_ms: Option<u64>,
        leaves: bool,
        blocks: bool,
        own_tags: bool,
        serves_old: bool,
    ) -> PyResult<CallAnswer> {
        let rule = match limit_ms {
            _ if leaves => LeaseRule::Leave,
            _ => lease_rule(limit_ms),
        };
        let stream_run = self.stream_run();
        let mut call = self.begin(key, names, is_forced, rule);
        if own_tags {
            call.expect_tags();
        }
        let TierAnswers {
            found, old, next, ..
        } = self.ask(py, &mut call, codec, least_ms, waiting(blocks, serves_old))?;
        Ok((found, old, next, StackedCall::of(call, stream_run)))
    }

    /// Goes on with a call that has waited.
    fn go_on(
        &self,
        py: Python<'_>,
        call: &StackedCall,
        codec: &Bound<'_, PyAny>,
        least_ms: u64,
        serves_old: bool,
    ) -> PyResult<(Found, Found, i64)> {
        let mut taken = call.take()?;
        let waiting = waiting(false, serves_old);
        let done = self.ask(py, &mut taken, codec, least_ms, waiting);
        call.put_back(taken);
        done.map(|done| (done.found, done.old, done.next))
    }

    /// The call ends without a value to store.
    fn end(&self, py: Python<'_>, call: &StackedCall) -> PyResult<()> {
        call.with(py, |call| self.stack.end(call))
    }

    /// Stores what the body gave, under tags of its own with these names, and behind the note of a
    /// call whose entry is listed. True if a tier that invalidations reach has it, False if
    /// something was deleted meanwhile, None if none has it. `notice` tells those that have another
    /// value in memory.
    fn store(
        &self,
        call: &StackedCall,
        value: &Bound<'_, PyAny>,
        codec: &Bound<'_, PyAny>,
        lifetime_ms: Option<u64>,
        tags: &[u8],
        notes: (Bound<'_, PyBytes>, Bound<'_, PyBytes>),
    ) -> PyResult<Option<bool>> {
        let bytes = value_bytes::encode_with_room(value, codec)?;
        let tags = names_in(tags);
        let (note, notice) = (notes.0.as_bytes(), notes.1.as_bytes());
        call.with(value.py(), |call| {
            call.tag(tags);
            call.replace_by(notice.to_vec());
            let frame = with_note(note, sealed(self.sealing, bytes));
            is_kept(self.stack.store(call, &frame, lifetime_ms))
        })
    }

    /// Stores a value that no body has given as the answer to `key`, whatever is stored there. As
    /// `store`; and what went wrong.
    #[allow(clippy::too_many_arguments)]
    fn put(
        &self,
        key: &[u8],
        names: &[u8],
        value: &Bound<'_, PyAny>,
        codec: &Bound<'_, PyAny>,
        lifetime_ms: Option<u64>,
        own_tags: Option<&[u8]>,
        notes: (Bound<'_, PyBytes>, Bound<'_, PyBytes>),
    ) -> PyResult<(Option<bool>, Option<Troubles>)> {
        let bytes = value_bytes::encode_with_room(value, codec)?;
        let mut call = self.begin(key, names, true, LeaseRule::Run);
        call.bring_value();
        let (note, notice) = (notes.0.as_bytes(), notes.1.as_bytes());
        call.replace_by(notice.to_vec());
        if let Some(tags) = own_tags {
            call.expect_tags();
            call.tag(names_in(tags));
        }
        let is_kept = value.py().detach(|| {
            let frame = with_note(note, sealed(self.sealing, bytes));
            let next = self.stack.ask(&mut call);
            debug_assert!(matches!(next, AskAnswer::Run));
            is_kept(self.stack.store(&mut call, &frame, lifetime_ms))
        });
        raise_what_was_raised()?;
        Ok((is_kept, troubles(&mut call)))
    }

    /// The frame of a value for these tiers.
    fn frame<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        codec: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = value_bytes::encode_with_room(value, codec)?;
        Ok(PyBytes::new(value.py(), &sealed(self.sealing, bytes)))
    }

    /// As `store`, with the note and the frame of the value.
    fn store_frame(
        &self,
        py: Python<'_>,
        call: &StackedCall,
        frame: &[u8],
        lifetime_ms: Option<u64>,
        tags: &[u8],
        notice: &[u8],
    ) -> PyResult<Option<bool>> {
        let tags = names_in(tags);
        call.with(py, |call| {
            call.tag(tags);
            call.replace_by(notice.to_vec());
            is_kept(self.stack.store(call, frame, lifetime_ms))
        })
    }

    /// Deletes the entry of `key`, by a notice. Whether there was one, and what failed.
    fn delete(
        &self,
        py: Python<'_>,
        key: &[u8],
        names: &[u8],
        notice: &[u8],
    ) -> PyResult<(bool, Vec<FailureText>)> {
        let names = names_in(names);
        let done = deleted(py.detach(|| self.stack.delete_noted(key, &names, notice)));
        raise_what_was_raised()?;
        Ok(done)
    }

    /// Forgets every entry that depends on one of the names, which are tags or those of functions.
    /// Each has a notice of its own, which begins with `notice`. What failed.
    fn forget(
        &self,
        py: Python<'_>,
        names: &[u8],
        are_tags: bool,
        notice: &[u8],
    ) -> PyResult<Vec<FailureText>> {
        let forget = |name: &TokenName| {
            let notice = [notice, name].concat();
            deleted(match are_tags {
                true => self.stack.forget_tag_noted(name, &notice),
                false => self.stack.forget_noted(name, &notice),
            })
            .1
        };
        let names = names_in(names);
        let done = py.detach(|| names.iter().flat_map(forget).collect());
        raise_what_was_raised()?;
        Ok(done)
    }

    /// Why each tier cannot be used, nearest first; None if it can.
    fn states(&self, py: Python<'_>) -> PyResult<Vec<Option<String>>> {
        let states = py.detach(|| self.stack.states());
        raise_what_was_raised()?;
        let texts = states.into_iter().map(|state| match state.is_open {
            true => Some("its breaker is open".to_owned()),
            false => state.error.map(|error| error.text),
        });
        Ok(texts.collect())
    }
}

impl StackOfTiers {
    /// Which run of its stream is followed now; 0 if it has none.
    fn stream_run(&self) -> u64 {
        let streaming = self.streaming.as_ref();
        streaming.map_or(0, |tier| tier.stream_run())
    }

    fn begin(&self, key: &[u8], names: &[u8], is_forced: bool, rule: LeaseRule) -> TierCall {
        let mut call = self.stack.begin(key, names_in(names), is_forced, rule);
        if let Some(guard) = guard_of(key) {
            call.guard_by(guard);
        }
        call
    }

    /// Waits here for another process.
    fn pause(&self, py: Python<'_>, call: &mut TierCall, pause_ms: u64) -> PyResult<()> {
        let mut left_ms = pause_ms;
        while left_ms > 0 {
            let slice_ms = left_ms.min(SLICE_MS);
            let slice = Duration::from_millis(slice_ms);
            let is_ready = py.detach(|| self.stack.pause(call, slice));
            // Ctrl-C ends the wait.
            py.check_signals()?;
            left_ms = if is_ready { 0 } else { left_ms - slice_ms };
        }
        Ok(())
    }

    /// Stores a hit in the tiers before the one that has it, but for one of a tier that
    /// invalidations may not reach: it would be as new there.
    fn take_over(
        &self,
        py: Python<'_>,
        call: &mut TierCall,
        hit: &StackHit,
        is_narrow: bool,
    ) -> PyResult<()> {
        // The nearest tier has it: there is nothing to store, and no lease.
        if call.is_at_nearest() {
            return Ok(());
        }
        py.detach(|| match is_narrow {
            true => self.stack.end(call),
            false => self.stack.accept(call, hit),
        });
        raise_what_was_raised()
    }

    /// Asks until there is a value, or the body has to run, or the call has to wait: what was
    /// found, an older value, and for how long to wait.
    fn ask(
        &self,
        py: Python<'_>,
        call: &mut TierCall,
        codec: &Bound<'_, PyAny>,
        least_ms: u64,
        waiting: CallWaiting,
    ) -> PyResult<TierAnswers> {
        let mut answers = TierAnswers {
            next: RUN,
            ..TierAnswers::default()
        };
        loop {
            // The time of the answer, which waits here for the interpreter's lock.
            let (answer, now_ms) = py.detach(|| (self.stack.ask(call), (self.host.now_ms)()));
            raise_what_was_raised()?;
            if waiting.leaves(&answer, &answers) {
                answers.next = LEAVE;
                return Ok(answers);
            }
            let hit = match answer {
                AskAnswer::Run | AskAnswer::Leave => return Ok(answers),
                AskAnswer::Wait(pause_ms) if waiting.blocks => {
                    self.pause(py, call, pause_ms)?;
                    continue;
                }
                AskAnswer::Wait(pause_ms) => {
                    answers.next = pause_ms as i64;
                    return Ok(answers);
                }
                AskAnswer::Hit(hit) => hit,
            };
            let check = match call.is_at_nearest() {
                true => self.nearest_check,
                false => self.sealing.check,
            };
            let value = match opened_behind_note(check, hit.value(), call.is_guarded(), codec) {
                Ok((value, bytes)) => {
                    answers.found_bytes = bytes;
                    value.unbind()
                }
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    py.detach(|| self.stack.refuse(call));
                    raise_what_was_raised()?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let age_ms = now_ms.saturating_sub(hit.written_ms);
            let left_ms = hit.until_ms.saturating_sub(now_ms);
            let shown_ms = (hit.until_ms != NEVER_MS).then_some(left_ms);
            let narrow_age_ms = self.stack.narrow_age_ms(call, &hit, now_ms);
            let found = Some((value, shown_ms, age_ms, narrow_age_ms.unwrap_or(0)));
            let is_current = narrow_age_ms.is_none_or(|age_ms| self.stack.is_within_span(age_ms));
            if left_ms > least_ms && is_current {
                self.take_over(py, call, &hit, narrow_age_ms.is_some())?;
                answers.found = found;
                return Ok(answers);
            }
            // Another host may have invalidated the others.
            if is_current {
                answers.old = found;
            }
            py.detach(|| self.stack.refuse(call));
            raise_what_was_raised()?;
        }
    }
}

/// As [`opened`], of a value that has a note before its frame if its entry is listed.
fn opened_behind_note<'py>(
    check: FrameCheck,
    value: &[u8],
    is_listed: bool,
    codec: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let frame = without_note(value, is_listed).ok_or_else(|| damaged("no arguments"))?;
    opened(check, frame, codec)
}

/// How a call waits for another process.
#[derive(Clone, Copy)]
struct CallWaiting {
    /// On its thread.
    blocks: bool,
    /// Not while there is an old value.
    serves_old: bool,
}

impl CallWaiting {
    /// Whether the value is left to another process.
    fn leaves(self, answer: &AskAnswer, so_far: &TierAnswers) -> bool {
        match answer {
            AskAnswer::Wait(_) => self.serves_old && so_far.old.is_some(),
            AskAnswer::Leave => true,
            AskAnswer::Run | AskAnswer::Hit(_) => false,
        }
    }
}

fn waiting(blocks: bool, serves_old: bool) -> CallWaiting {
    CallWaiting { blocks, serves_old }
}

fn lease_rule(limit_ms: Option<u64>) -> LeaseRule {
    match limit_ms {
        Some(limit_ms) => LeaseRule::Wait { limit_ms },
        None => LeaseRule::Run,
    }
}

/// What went wrong in a call since this was asked for; `None` if nothing did.
fn troubles(call: &mut TierCall) -> Option<Troubles> {
    let failures = std::mem::take(&mut call.failures);
    let rejected = std::mem::take(&mut call.rejected);
    let failures: Vec<FailureText> = failures.into_iter().map(failure_text).collect();
    (rejected > 0 || !failures.is_empty()).then_some((rejected, failures))
}

fn is_kept(stored: StoredInTiers) -> Option<bool> {
    match stored {
        StoredInTiers::Kept => Some(true),
        StoredInTiers::Overtaken => Some(false),
        StoredInTiers::KeptNarrow | StoredInTiers::Nowhere => None,
    }
}

fn deleted(done: Deleted) -> (bool, Vec<FailureText>) {
    let failures = done.failures.into_iter().map(failure_text);
    (done.was_there, failures.collect())
}

/// Of a larger value a copy for memory costs as much as to read it again.
const LARGE_BYTES: usize = 1_024;
/// What was so before the tiers were read.
#[derive(Clone, Copy)]
pub struct ReadBegin {
    at_s: f64,
    /// Which run of the stream was followed; 0 for none.
    stream_run: u64,
}

/// The short way to the tiers of one function, which most hits take.
#[pyclass(frozen, module = "tidemark_cache._native")]
pub struct TierReader {
    stack: Py<StackOfTiers>,
    codec: Py<PyAny>,
    limit_ms: Option<u64>,
    least_ms: u64,
    kept_ms: u64,
    span_s: f64,
    own_tags: bool,
    serves_old: bool,
    recent: Guarded<RecentAnswers>,
}

#[pymethods]
impl TierReader {
    /// The function that has this is reached from its codec.
    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.stack)?;
        visit.call(&self.codec)
    }

    /// `limit_ms`, `least_ms`, `own_tags` and `serves_old` as for `StackOfTiers.read`. Entries are
    /// kept for `kept_ms` past their lifetime, and memory may have an answer for `span_s`.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        stack: Py<StackOfTiers>,
        codec: Py<PyAny>,
        limit_ms: Option<u64>,
        least_ms: u64,
        kept_ms: u64,
        span_s: f64,
        own_tags: bool,
        serves_old: bool,
    ) -> TierReader {
        TierReader {
            stack,
            codec,
            limit_ms,
            least_ms,
            kept_ms,
            span_s,
            own_tags,
            serves_old,
            recent: Guarded::new(RecentAnswers::new()),
        }
    }

    /// Asks for the value of `key`. If it is there, within its lifetime, and no tier had a fault:
    /// what `decide` takes. Else what `StackOfTiers.read` gives.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        names: &[u8],
        blocks: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let begin_s = python::now_s();
        let stack = self.stack.get();
        let stream_run = stack.stream_run();
        let rule = lease_rule(self.limit_ms);
        let mut call = stack.begin(key, names, false, rule);
        if self.own_tags {
            call.expect_tags();
        }
        let codec = self.codec.bind(py);
        let waiting = waiting(blocks, self.serves_old);
        let answers = stack.ask(py, &mut call, codec, self.least_ms, waiting)?;
        let TierAnswers {
            found, old, next, ..
        } = answers;
        if let (Some((value, left_ms, _, narrow_age_ms)), None) = (&found, &old)
            && call.is_without_trouble()
        {
            let bytes = answers.found_bytes;
            // Memory may have it for what a narrow tier has left of its span.
            let begin_s = begin_s - *narrow_age_ms as f64 / 1e3;
            let begin = ReadBegin {
                at_s: begin_s,
                stream_run,
            };
            if let Some(answer) = self.for_memory(py, value, *left_ms, bytes, key, begin)? {
                return Ok(answer);
            }
        }
        (found, old, next, StackedCall::of(call, stream_run)).into_pyobject(py)
    }
}

impl TierReader {
    /// To be called before a loop reads.
    pub fn begin(&self) -> ReadBegin {
        ReadBegin {
            at_s: python::now_s(),
            stream_run: self.stack.get().stream_run(),
        }
    }

    /// Whether a loop may read the nearest tier.
    pub fn may_read(&self) -> bool {
        self.stack.get().stack.may_read()
    }

    /// What a loop read there has failed.
    pub fn read_failed(&self, fault: TierFault) {
        self.stack.get().stack.read_failed(fault);
    }

    /// What `answer` gives for a hit that a loop has read; `None` if `answer` itself has to be
    /// called.
    pub fn found_by_loop<'py>(
        &self,
        py: Python<'py>,
        hit: &TierHit,
        key: &[u8],
        begin: ReadBegin,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let now_ms = (self.stack.get().host.now_ms)();
        let left_ms = hit.until_ms.saturating_sub(now_ms);
        if left_ms <= self.least_ms {
            return Ok(None);
        }
        // What a loop reads has no file.
        let is_listed = guard_of(key).is_some();
        let codec = self.codec.bind(py);
        let opened = opened_behind_note(FrameCheck::InFrame, hit.value(), is_listed, codec);
        let (value, bytes) = match opened {
            Ok((value, bytes)) => (value.unbind(), bytes),
            Err(error) if error.is_instance_of::<PyException>(py) => return Ok(None),
            Err(error) => return Err(error),
        };
        let left_ms = (hit.until_ms != NEVER_MS).then_some(left_ms);
        self.for_memory(py, &value, left_ms, bytes, key, begin)
    }

    /// What `decide` takes, of a value within its lifetime.
    fn for_memory<'py>(
        &self,
        py: Python<'py>,
        value: &Py<PyAny>,
        left_ms: Option<u64>,
        bytes: usize,
        key: &[u8],
        begin: ReadBegin,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let fresh_ms = left_ms.map_or(u64::MAX, |left| left.saturating_sub(self.kept_ms));
        if fresh_ms == 0 {
            return Ok(None);
        }
        let fresh_s = fresh_ms as f64 / 1e3;
        let until_s = begin.at_s + self.span_s.min(fresh_s);
        let passes = bytes >= LARGE_BYTES && self.passes(value, key, begin.at_s);
        let fresh_until_s = begin.at_s + fresh_s;
        let answer = (value, until_s, passes, begin.stream_run, fresh_until_s);
        answer.into_pyobject(py).map(Some)
    }

    /// Whether memory is not to have this large answer yet: most answers of a tier are not
    /// wanted a second time soon.
    fn passes(&self, value: &Py<PyAny>, key: &[u8], now_s: f64) -> bool {
        let is_copied = unsafe { isolate::is_copied(value.as_ptr()) };
        is_copied && !self.recent.lock().is_kept(key, now_s, self.span_s)
    }
}
