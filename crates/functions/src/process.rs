//! One warm process: the requests in flight in it, and what its frames mean for them.
//!
//! Decides; starts nothing and waits for nothing. All that a process sends is hostile input.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::frame::{FrameKind, PipeFrame, write_frame, write_pieces};
use crate::head::{self, ResponseHead};
use crate::launch::{Launched, ProcessExit};
use crate::log_tail::LogTail;
use crate::memory_budget::MemoryBudget;
use crate::pending_run::{PendingRun, RunFailure};
use crate::work::{FunctionOutcome, RunCause, RunResponse};

/// Of a body, in either direction, that was sent and not yet taken.
const CREDIT_BYTES: usize = 256 * 1024;
/// A body goes on by so much at least, or by all that is left: a process that gives credit byte by
/// byte, and reads nothing, is not owed a frame for each.
const BODY_STEP_MIN: usize = 16 * 1024;
/// Of answers that are not complete, in one process.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A response's head: more than 64 KiB of headers never are, and JSON escapes them.
const HEAD_BYTES_MAX: usize = 1024 * 1024;
/// Of such heads that have not come whole, in one process: an adapter sends each at once.
const OPEN_HEADS_BYTES_MAX: usize = 8 * 1024 * 1024;
/// An adapter sends at most two limits of letters for each of logs and errors.
const LOG_BYTES_PER_LETTER: usize = 2 * 2 * 4;
/// A loop that is free answers a cancellation at once.
const CANCEL_MAX: Duration = Duration::from_millis(250);
/// A loop that is free reports a request as started at once.
const STALL_MIN: Duration = Duration::from_millis(50);

/// What a process may send, and for how long it may be silent.
#[derive(Clone, Copy, Debug)]
pub struct ProcessLimits {
    pub body_bytes: usize,
    pub log_letters: usize,
    /// From its start until the code is loaded, and until an idle one starts a request.
    pub start_max: Duration,
}

/// A request that was sent to a process.
#[derive(Debug)]
struct SentRequest {
    /// `None` once its caller has been answered, and its place in the process is not yet free.
    run: Option<PendingRun>,
    sent: Instant,
    started: Option<Instant>,
    timeout: Duration,
    body: Bytes,
    body_sent: usize,
    credit: usize,
    head_bytes: Vec<u8>,
    head: Option<ResponseHead>,
    answer: Vec<u8>,
    /// Bytes of its body that have come, also where no caller waits and they are dropped.
    answered: usize,
    /// What the process may still send of its body before it gets more credit.
    answer_credit: usize,
    logs: LogTail,
    errors: LogTail,
    log_bytes: usize,
    cancelled: Option<(RunCause, Instant)>,
}

impl SentRequest {
    /// When it has to be cancelled, and why.
    fn deadline(&self) -> Option<(Instant, RunCause)> {
        let run = self.run.as_ref().filter(|_| self.cancelled.is_none())?;
        let timeout = self
            .started
            .map(|started| (started + self.timeout, RunCause::TimedOut));
        let wait = run.wait_end().map(|end| (end, RunCause::WaitedTooLong));
        timeout.into_iter().chain(wait).min_by_key(|(end, _)| *end)
    }

    /// Whether it is to be given credit again. Half of it is left then, so that no one waits; and
    /// a process that sends a body byte by byte, and reads nothing, is not owed a frame for each.
    fn is_short_of_credit(&self) -> bool {
        self.answer_credit <= CREDIT_BYTES / 2
    }

    /// How long its handler has run; zero only where it was not called. Its start may be seen late,
    /// so what its process reports counts, between the time since then and the time since it was
    /// sent.
    fn ran_for(&self, now: Instant) -> Duration {
        let since = |instant| now.saturating_duration_since(instant);
        let reported = self.head.as_ref().and_then(|head| head.took);
        let reported = reported.map(|took| took.min(since(self.sent)));
        let ran = reported.max(self.started.map(since));
        ran.map_or(Duration::ZERO, |ran| ran.max(Duration::from_micros(1)))
    }

    fn fail(mut self, now: Instant, cause: RunCause, reason: &str) {
        let duration = self.ran_for(now);
        let Some(run) = self.run else { return };
        // Within the bound of the errors: a handler may write the reason.
        self.errors.push_last_line(reason);
        let (logs, of_logs) = self.logs.finish("Logs");
        let (errors, of_errors) = self.errors.finish("Errors");
        let failed = RunFailure {
            logs,
            errors,
            held: of_logs.join(of_errors),
            duration,
        };
        run.fail(cause, failed);
    }

    /// Its response is complete.
    fn finish(self, now: Instant) {
        let head = self.head.as_ref().map(|head| head.failure.clone());
        let (Some(failure), Some(_)) = (head, &self.run) else {
            return;
        };
        if let Some((cause, _)) = self.cancelled {
            self.fail(now, cause, timeout_reason(cause));
        } else if let Some(reason) = failure {
            self.fail(now, RunCause::Answered, &reason);
        } else {
            self.answer(now);
        }
    }

    fn answer(self, now: Instant) {
        let duration = self.ran_for(now);
        let (Some(run), Some(head)) = (self.run, self.head) else {
            return;
        };
        let (logs, of_logs) = self.logs.finish("Logs");
        let (errors, of_errors) = self.errors.finish("Errors");
        let _ = run.reply.send(FunctionOutcome {
            cause: RunCause::Answered,
            response: RunResponse {
                status: head.status,
                headers: head.headers,
                body: Bytes::from(self.answer),
            },
            logs,
            errors,
            held: of_logs.join(of_errors),
            duration,
            is_cold: run.is_cold,
        });
    }
}

fn timeout_reason(cause: RunCause) -> &'static str {
    match cause {
        RunCause::WaitedTooLong => "The caller has waited as long as a caller may.",
        _ => "Execution timed out.",
    }
}

/// Why a process ends or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself.
    ByItself,
    /// It broke this rule.
    RuleBroken(String),
    /// It held this request longer than it might, and its loop was blocked.
    Blocked(u32),
    /// It held more memory than it might.
    Memory,
    /// Its code was not loaded, or an idle one started nothing, in time.
    Silent,
    /// It was not needed any more.
    Retired,
    /// The executor is being shut down.
    ShutDown,
}

impl ProcessEnd {
    /// As metrics name it.
    pub fn as_str(&self) -> &'static str {
        match self {
            ProcessEnd::ByItself => "exited",
            ProcessEnd::RuleBroken(_) => "rule_broken",
            ProcessEnd::Blocked(_) => "blocked",
            ProcessEnd::Memory => "memory",
            ProcessEnd::Silent => "silent",
            ProcessEnd::Retired => "retired",
            ProcessEnd::ShutDown => "shut_down",
        }
    }
}

/// What a process may be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessStage {
    /// Its code is being loaded.
    Starting,
    Ready,
    /// No new work; ends when it is empty.
    Retiring,
    /// Killed, or about to be seen as ended.
    Ending(ProcessEnd, Instant),
}

/// One process of a deployment.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is of its own")]
pub struct WarmProcess {
    pub number: u64,
    pub stage: ProcessStage,
    pub started: Instant,
    /// When it began to take work: a spare later than it was started.
    pub takes_since: Instant,
    /// When its last request ended, or it became ready.
    pub last_work: Instant,
    /// Requests that it has answered.
    pub answered: u64,
    /// Those of them that its deployment has taken note of.
    pub answered_before: u64,
    /// What it was started with: a deployment may have another limit since.
    pub memory_max_mib: u32,
    pub memory_bytes: u64,
    pub last_words: LogTail,
    pub exit: Option<ProcessExit>,
    pub is_closed: bool,
    /// Whether it waits until another process is needed.
    pub is_spare: bool,
    /// Whether it takes no more work because it holds too much memory.
    pub is_large: bool,
    /// How long it took until its code was loaded; taken out once it is counted.
    pub loaded_after: Option<Duration>,
    /// When its socket was closed while it seemed to live.
    pub closed_at: Option<Instant>,
    pub launched: Launched,
    flights: BTreeMap<u32, SentRequest>,
    /// Whether a body waits for credit until others have ended.
    has_waiting_bodies: bool,
    next_request: u32,
    /// Requests that it was sent, and that it said to have started, of which there are no more.
    sent_count: u64,
    started_count: u64,
    limits: ProcessLimits,
    /// What the logs of its requests take their memory from.
    logs: Arc<MemoryBudget>,
}

/// Of its standard error, looked through for why it ended.
const LAST_WORDS_LETTERS: usize = 16_000;

impl WarmProcess {
    pub fn new(
        number: u64,
        (launched, memory_max_mib): (Launched, u32),
        setup: &[u8],
        (limits, logs): (ProcessLimits, Arc<MemoryBudget>),
        now: Instant,
    ) -> WarmProcess {
        let mut bytes = Vec::new();
        write_pieces(&mut bytes, FrameKind::Setup, 0, setup, true);
        launched.outgoing.push(bytes);
        WarmProcess {
            number,
            stage: ProcessStage::Starting,
            started: now,
            takes_since: now,
            last_work: now,
            answered: 0,
            answered_before: 0,
            memory_max_mib,
            memory_bytes: 0,
            last_words: LogTail::new(LAST_WORDS_LETTERS),
            exit: None,
            is_closed: false,
            is_spare: false,
            is_large: false,
            loaded_after: None,
            closed_at: None,
            launched,
            flights: BTreeMap::new(),
            has_waiting_bodies: false,
            next_request: 1,
            sent_count: 0,
            started_count: 0,
            limits,
            logs,
        }
    }

    pub fn flights(&self) -> usize {
        self.flights.len()
    }

    pub fn memory_max_bytes(&self) -> u64 {
        u64::from(self.memory_max_mib) * 1024 * 1024
    }

    /// Whether it may be given another request: it has room, and starts what it has.
    pub fn has_room(&self, concurrency: usize, now: Instant) -> bool {
        let is_stalled = || {
            let mut waiting = self
                .flights
                .values()
                .filter(|flight| flight.started.is_none());
            waiting.any(|flight| now.saturating_duration_since(flight.sent) >= STALL_MIN)
        };
        let takes_work = self.stage == ProcessStage::Ready && !self.is_spare;
        takes_work && self.flights.len() < concurrency && !is_stalled()
    }

    /// Whether it can end at once without a run.
    pub fn is_idle(&self) -> bool {
        let has_none = self.stage == ProcessStage::Ready && self.flights.is_empty();
        has_none || self.is_usable_spare()
    }

    /// Whether it is a spare that can take work, now or once its code is loaded.
    pub fn is_usable_spare(&self) -> bool {
        self.is_spare && matches!(self.stage, ProcessStage::Starting | ProcessStage::Ready)
    }

    /// Sends a request to it.
    pub fn send(&mut self, run: PendingRun, now: Instant) {
        let request = self.next_request;
        // A number is free again long before four billion others are used up.
        self.next_request = self.next_request.checked_add(1).unwrap_or(1);
        self.sent_count += 1;
        let mut bytes = Vec::new();
        let head = head::request(&run.work);
        write_pieces(&mut bytes, FrameKind::Request, request, &head, true);
        let mut flight = SentRequest {
            sent: now,
            started: None,
            timeout: run.work.timeout,
            body: run.work.body.clone(),
            body_sent: 0,
            credit: CREDIT_BYTES,
            head_bytes: Vec::new(),
            head: None,
            answer: Vec::new(),
            answered: 0,
            answer_credit: CREDIT_BYTES,
            logs: LogTail::within(self.limits.log_letters, &self.logs),
            errors: LogTail::within(self.limits.log_letters, &self.logs),
            log_bytes: 0,
            cancelled: None,
            run: Some(run),
        };
        write_body(&mut bytes, request, &mut flight, true);
        self.flights.insert(request, flight);
        self.launched.outgoing.push(bytes);
    }

    /// Takes one frame.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn receive(&mut self, frame: PipeFrame, now: Instant) -> Result<(), String> {
        if frame.kind == FrameKind::Started && frame.request == 0 {
            if self.stage != ProcessStage::Starting {
                return Err("it reported twice that it is ready".into());
            }
            self.stage = ProcessStage::Ready;
            self.last_work = now;
            self.loaded_after = Some(now.saturating_duration_since(self.started));
            return Ok(());
        }
        let Some(flight) = self.flights.get_mut(&frame.request) else {
            // An adapter stops at its response, and its logs go before that.
            return Err(format!(
                "it answered request {}, which it has not got",
                frame.request
            ));
        };
        match frame.kind {
            FrameKind::Started => take_started(flight, now),
            FrameKind::Credit => {
                let bytes = take_credit(flight, frame.request, &frame.payload)?;
                self.launched.outgoing.push(bytes);
                Ok(())
            }
            FrameKind::Log => take_log(flight, &frame.payload, self.limits),
            FrameKind::Response => {
                take_head(flight, &frame.payload, now)?;
                let is_whole = flight.head_bytes.is_empty();
                if is_whole {
                    Ok(())
                } else {
                    self.need_few_open_heads()
                }
            }
            FrameKind::Body => self.take_body(frame, now),
            FrameKind::Setup | FrameKind::Request | FrameKind::Cancel => {
                Err("it sent a frame that only the server sends".into())
            }
        }
    }

    /// Heads of many requests would add up where none of them ends.
    fn need_few_open_heads(&self) -> Result<(), String> {
        let open = self.flights.values().map(|flight| flight.head_bytes.len());
        let bytes: usize = open.sum();
        if bytes > OPEN_HEADS_BYTES_MAX {
            return Err(format!(
                "it sent {bytes} bytes of heads that do not end; at most {OPEN_HEADS_BYTES_MAX} \
                 bytes are held"
            ));
        }
        Ok(())
    }

    fn take_body(&mut self, frame: PipeFrame, now: Instant) -> Result<(), String> {
        let (request, limit) = (frame.request, self.limits.body_bytes);
        let flight = self
            .flights
            .get_mut(&request)
            .ok_or("it answered an unknown request")?;
        if flight.head.is_none() {
            return Err("it sent a body before its response".into());
        }
        let (flag, piece) = frame
            .payload
            .split_first()
            .ok_or("it sent an empty frame of a body")?;
        need_part(*flag, piece, "body")?;
        let beyond = "it sent more of a body than it had credit for";
        flight.answer_credit = flight
            .answer_credit
            .checked_sub(piece.len())
            .ok_or(beyond)?;
        flight.answered += piece.len();
        if flight.answered > limit {
            return Err(format!("it sent a body of more than {limit} bytes"));
        }
        let run = flight.run.as_ref();
        if run.is_some_and(|run| run.work.wait_max.is_some()) {
            flight.answer.extend_from_slice(piece);
        }
        if *flag == 0 {
            if flight.is_short_of_credit() {
                self.give_credit();
            }
            return Ok(());
        }
        let flight = self
            .flights
            .remove(&request)
            .ok_or("it answered an unknown request")?;
        let was_cancelled = flight.cancelled.is_some();
        flight.finish(now);
        self.answered += 1;
        self.last_work = now;
        if was_cancelled {
            self.retire();
        }
        if self.has_waiting_bodies {
            self.give_credit();
        }
        Ok(())
    }

    /// Lets bodies go on. While many are held, the oldest alone does, so that one of them ends.
    fn give_credit(&mut self) {
        let held: usize = self
            .flights
            .values()
            .map(|flight| flight.answer.len())
            .sum();
        let mut bytes = Vec::new();
        self.has_waiting_bodies = false;
        let answering = self
            .flights
            .iter_mut()
            .filter(|(_, flight)| flight.head.is_some());
        for (nth, (request, flight)) in answering.enumerate() {
            if !flight.is_short_of_credit() {
                continue;
            }
            if nth > 0 && held > HELD_BYTES_MAX {
                self.has_waiting_bodies = true;
            } else {
                let taken = CREDIT_BYTES - flight.answer_credit;
                flight.answer_credit = CREDIT_BYTES;
                let credit = (taken as u32).to_le_bytes();
                write_frame(&mut bytes, FrameKind::Credit, *request, &[&credit]);
            }
        }
        if !bytes.is_empty() {
            self.launched.outgoing.push(bytes);
        }
    }

    /// Gives what the process wrote to a standard descriptor to the one request in flight.
    /// False when there is none, or more than one.
    pub fn log_output(&mut self, is_error: bool, text: &str) -> bool {
        if is_error {
            self.last_words.push(text);
        }
        let mut flights = self.flights.values_mut();
        let (Some(flight), None) = (flights.next(), flights.next()) else {
            return false;
        };
        [&mut flight.logs, &mut flight.errors][usize::from(is_error)].push(text);
        true
    }

    /// No new work; it ends when it is empty.
    pub fn retire(&mut self) {
        if matches!(self.stage, ProcessStage::Starting | ProcessStage::Ready) {
            self.stage = ProcessStage::Retiring;
        }
    }

    /// Kills it. The first reason stays.
    pub fn end(&mut self, reason: ProcessEnd, now: Instant) {
        if !matches!(self.stage, ProcessStage::Ending(..)) {
            self.stage = ProcessStage::Ending(reason, now);
        }
        self.launched.kill();
    }

    /// Looks which requests it says that it has started.
    fn take_starts(&mut self, now: Instant) {
        let (flights, started_count) = (&mut self.flights, &mut self.started_count);
        self.launched.starts.take(|request| {
            *started_count += 1;
            // Most have been answered by now.
            if let Some(flight) = flights.get_mut(&request) {
                flight.started.get_or_insert(now);
            }
        });
    }

    /// What is due by the clock: cancels, and kills what does not answer.
    pub fn tick(&mut self, now: Instant) {
        self.take_starts(now);
        if matches!(self.stage, ProcessStage::Ending(..)) {
            return;
        }
        if self.started_count > self.sent_count {
            let rule = "it said to have started more requests than it has got";
            self.end(ProcessEnd::RuleBroken(rule.into()), now);
            return;
        }
        if self.stage == ProcessStage::Starting && now >= self.started + self.limits.start_max {
            self.end(ProcessEnd::Silent, now);
            return;
        }
        if self.closed_at.is_some_and(|at| now >= at + CANCEL_MAX) {
            self.end(ProcessEnd::RuleBroken("it closed its socket".into()), now);
            return;
        }
        let mut bytes = Vec::new();
        for (request, flight) in &mut self.flights {
            let due = flight.deadline().filter(|(end, _)| now >= *end);
            if let Some((_, cause)) = due {
                flight.cancelled = Some((cause, now));
                write_frame(&mut bytes, FrameKind::Cancel, *request, &[]);
            }
        }
        if !bytes.is_empty() {
            self.launched.outgoing.push(bytes);
        }
        self.answer_unstarted(now);
        if let Some(reason) = self.overdue(now) {
            self.end(reason, now);
        } else if self.stage == ProcessStage::Retiring && self.is_done() {
            self.end(ProcessEnd::Retired, now);
        }
    }

    /// A caller who waited too long for a handler that was not called is answered at once: the
    /// process may be blocked by another, which has its own time.
    fn answer_unstarted(&mut self, now: Instant) {
        for flight in self.flights.values_mut() {
            let cancelled = flight.cancelled.filter(|_| flight.started.is_none());
            if let (Some((cause, _)), Some(run)) =
                (cancelled, flight.run.take_if(|_| cancelled.is_some()))
            {
                let mut failed = RunFailure::because(timeout_reason(cause));
                failed.duration = now.saturating_duration_since(flight.sent);
                run.fail(cause, failed);
            }
        }
    }

    /// Why it cannot be waited for any longer.
    fn overdue(&self, now: Instant) -> Option<ProcessEnd> {
        for (request, flight) in &self.flights {
            let (Some((_, at)), Some(started)) = (flight.cancelled, flight.started) else {
                continue;
            };
            // One that another has held up learns of both at the same time.
            if now >= at.max(started) + CANCEL_MAX {
                return Some(ProcessEnd::Blocked(*request));
            }
        }
        let is_idle = self.flights.values().all(|flight| flight.started.is_none());
        let mut waiting = self.flights.values();
        let oldest = waiting.next().filter(|_| is_idle)?;
        (now >= oldest.sent + self.limits.start_max).then_some(ProcessEnd::Silent)
    }

    /// Whether it has nothing that its caller waits for.
    fn is_done(&self) -> bool {
        self.flights.values().all(|flight| flight.run.is_none())
    }

    /// Ends all that was in flight, once the process has ended: what was started fails, and what
    /// was not is handed back, the oldest first.
    pub fn abandon(
        &mut self,
        reason: &ProcessEnd,
        words: &EndWords,
        now: Instant,
    ) -> Vec<PendingRun> {
        let mut moving = Vec::new();
        let whole = words.whole();
        self.take_starts(now);
        for (request, flight) in std::mem::take(&mut self.flights) {
            if flight.started.is_none() {
                moving.extend(flight.run);
                continue;
            }
            if let Some((cause, _)) = flight.cancelled {
                flight.fail(now, cause, timeout_reason(cause));
                continue;
            }
            let (cause, sentence) = match reason {
                ProcessEnd::Blocked(blocking) if *blocking == request => {
                    (RunCause::TimedOut, "Execution timed out.")
                }
                ProcessEnd::Blocked(_) | ProcessEnd::Retired | ProcessEnd::Silent => {
                    (RunCause::NeighbourStopped, "worker stopped")
                }
                ProcessEnd::ShutDown => (RunCause::ShutDown, "The server is stopping."),
                ProcessEnd::Memory => (RunCause::OutOfMemory, words.sentence.as_str()),
                ProcessEnd::ByItself | ProcessEnd::RuleBroken(_) => (
                    RunCause::ProcessEnded,
                    whole_or_rest(&flight, words, &whole),
                ),
            };
            flight.fail(now, cause, sentence);
        }
        moving
    }
}

/// What is said of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndWords {
    /// One sentence.
    pub sentence: String,
    /// The end of its standard error.
    pub last_words: String,
}

impl EndWords {
    /// Both; the sentence last, as in all errors.
    pub fn whole(&self) -> String {
        match self.last_words.as_str() {
            "" => self.sentence.clone(),
            words => format!("{words}\n{}", self.sentence),
        }
    }
}

/// A run that was alone in its process has the last words among its errors already.
fn whole_or_rest<'a>(flight: &SentRequest, words: &'a EndWords, whole: &'a str) -> &'a str {
    if flight.errors.text().trim_end().ends_with(&words.last_words) {
        return &words.sentence;
    }
    whole
}

fn write_body(bytes: &mut Vec<u8>, request: u32, flight: &mut SentRequest, is_first: bool) {
    let rest = flight.body.len() - flight.body_sent;
    let count = rest.min(flight.credit);
    let is_small = count < rest.min(BODY_STEP_MIN);
    if (count == 0 || is_small) && !is_first {
        return;
    }
    let piece = flight
        .body
        .slice(flight.body_sent..flight.body_sent + count);
    flight.body_sent += count;
    flight.credit -= count;
    write_pieces(bytes, FrameKind::Body, request, &piece, count == rest);
}

fn take_started(flight: &mut SentRequest, now: Instant) -> Result<(), String> {
    if flight.started.is_some() {
        return Err("it started a request twice".into());
    }
    flight.started = Some(now);
    Ok(())
}

/// The bytes that may now be sent.
fn take_credit(flight: &mut SentRequest, request: u32, payload: &[u8]) -> Result<Vec<u8>, String> {
    let count = <[u8; 4]>::try_from(payload).map_err(|_| "it sent a credit that is no number")?;
    let count = u32::from_le_bytes(count) as usize;
    if count == 0 {
        return Err("it gave a credit of nothing".into());
    }
    let on_its_way = flight.body_sent;
    let credit = flight.credit.saturating_add(count);
    if credit > CREDIT_BYTES || credit > on_its_way + flight.credit {
        return Err("it gave more credit than it had taken bytes".into());
    }
    flight.credit = credit;
    let mut bytes = Vec::new();
    write_body(&mut bytes, request, flight, false);
    Ok(bytes)
}

fn take_log(flight: &mut SentRequest, payload: &[u8], limits: ProcessLimits) -> Result<(), String> {
    flight.log_bytes += payload.len();
    if flight.log_bytes > LOG_BYTES_PER_LETTER * limits.log_letters {
        return Err("it sent more logs than an adapter sends".into());
    }
    let (stream, text) = payload
        .split_first()
        .ok_or("it sent an empty frame of a log")?;
    need_part(0, text, "log")?;
    let text = String::from_utf8_lossy(text);
    match stream {
        0 => flight.logs.push(&text),
        1 => flight.errors.push(&text),
        other => return Err(format!("it sent a log of the unknown kind {other}")),
    }
    Ok(())
}

fn take_head(flight: &mut SentRequest, payload: &[u8], now: Instant) -> Result<(), String> {
    if flight.head.is_some() {
        return Err("it sent a second response".into());
    }
    let (flag, piece) = payload
        .split_first()
        .ok_or("it sent an empty frame of a response")?;
    need_part(*flag, piece, "response")?;
    flight.head_bytes.extend_from_slice(piece);
    if flight.head_bytes.len() > HEAD_BYTES_MAX {
        return Err(format!(
            "it sent a response whose head has more than {HEAD_BYTES_MAX} bytes"
        ));
    }
    if *flag == 1 {
        let bytes = std::mem::take(&mut flight.head_bytes);
        let head = head::parse_response(&bytes);
        flight.head = Some(head.map_err(|rule| format!("it sent {rule}"))?);
        // Its pipe may not say so: what answers has begun, and has no more than its time.
        flight.started.get_or_insert(now);
    }
    Ok(())
}

/// Pieces of nothing would have no end.
fn need_part(flag: u8, piece: &[u8], of: &str) -> Result<(), String> {
    if flag == 0 && piece.is_empty() {
        return Err(format!("it sent an empty part of a {of}"));
    }
    Ok(())
}
