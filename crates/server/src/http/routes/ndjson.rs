//! Batches as streams: a line of JSON for each element that is asked, and one for each answer, in
//! the same order, each as soon as it is there.
//!
//! Nothing is kept but the lines that have come and are not answered yet. A client that does not
//! take its answers is not read from.

use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{
    AccessError, BATCH_ROWS_READ_MAX, BatchPart, BatchRead, BatchWrite, EngineError, Identity,
    JsonBudget,
};
use hyper::header::HeaderMap;
use model::{Actor, Mark};
use tokio::sync::watch;
use tokio::time::Instant;

use super::batch;
use super::transactions::read_operation;
use crate::functions::LiveRun;
use crate::http::head::media;
use crate::http::input::context::{PARSED_HERE_BYTES_MAX, RequestContext, Sender};
use crate::http::input::fields::Fields;
use crate::http::input::jailed_caller::JailedCaller;
use crate::http::limits::body::{LINE_PIECE_BYTES, Paced};
use crate::http::limits::guest_turns::{GuestTurns, InTurns};
use crate::http::limits::rate;
use crate::http::limits::streams::Place;
use crate::http::limits::unsent::Sending;
use crate::http::reply::Reply;
use crate::http::reply::ndjson_body::{Answers, Lines, NextLines};
use crate::http::state::app::Shared;
use crate::http::wire::error::{ApiError, Kind};
use crate::http::wire::{self, InstantForm, Words};

/// The media type of lines of JSON.
const MEDIA_TYPE: &str = "application/x-ndjson";
/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;
/// How much is read and dropped of a stream that cannot go on, in bytes, so that its client comes
/// to look for the reason: cut off while it writes, it would find a broken connection instead.
const DISCARDED_BYTES_MAX: usize = 4 * LINE_BYTES_MAX;
/// Most lines that are done together: they share a snapshot, or the disk's sync.
const LINES_AT_ONCE: usize = 100;
/// How long a client may take at the end of the server to look for the last line.
const PARTING: Duration = Duration::from_secs(1);

/// What each line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// An element of a batch of reads.
    Read,
    /// An operation of a batch of writes.
    Write,
}

/// Whether the body is lines.
pub fn are_sent(headers: &HeaderMap) -> bool {
    media::media_type(headers).eq_ignore_ascii_case(MEDIA_TYPE)
}

/// Answers a body of lines.
///
/// # Errors
/// What keeps the caller out; too many streams at once.
pub fn answer(mut context: RequestContext<'_>, does: Does) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    media::need_plain(&context.head.headers)?;
    let shared = context.app.shared.clone();
    let is_guest = is_guest(&caller.actor);
    if is_guest {
        context
            .action
            .need_right(&shared.engine, &caller, &context.ids)?;
    }
    let network = is_guest.then(|| {
        let client = shared.proxies.client(context.peer, &context.head.headers);
        rate::group(client.address)
    });
    let place = Place::take(&shared.streams, network)?;
    let JailedCaller { identity, run } = context.identity()?;
    let form = context.instant_form()?;
    let body = context.take_body();
    let Some(body) = body else {
        return Err(ApiError::internal("the body was taken"));
    };
    Ok(Reply::lines(Lines::new(
        Source {
            body: Paced::new(body, &shared.limits, LINE_PIECE_BYTES),
            identity,
            run,
            until: Instant::now() + Duration::from_millis(shared.limits.stream_ms),
            ending: shared.streams.ending.subscribe(),
            database: context.ids.database.to_string(),
            words: context.words,
            form: form.unwrap_or(InstantForm::Iso),
            does,
            pending: Vec::new(),
            wanted: VecDeque::new(),
            sending: context.app.sending.clone(),
            turns: is_guest.then(|| context.app.guest_turns.clone()),
            is_over: false,
            is_refused: false,
            shared,
            _place: place,
        }
        .next_in_turn(),
    )))
}

fn is_guest(actor: &Actor) -> bool {
    !actor.bypasses_grants()
}

/// What is asked, as far as it has come.
struct Source {
    shared: Arc<Shared>,
    /// Who asks, looked up again where anything about it may have changed.
    identity: Identity,
    /// The execution that asks by its own key.
    run: Option<Arc<LiveRun>>,
    /// The end of its longest life.
    until: Instant,
    ending: watch::Receiver<bool>,
    database: String,
    words: &'static Words,
    /// How answers write instants.
    form: InstantForm,
    does: Does,
    body: Paced,
    /// What has come and is not answered.
    pending: Vec<u8>,
    /// Of the lines that were taken, what is yet to be read for them: so that the answers to one
    /// group are sent before those to the next are made.
    wanted: VecDeque<Result<BatchRead, ApiError>>,
    sending: Rc<Sending>,
    /// `None` for a caller with a key.
    turns: Option<Rc<GuestTurns>>,
    is_over: bool,
    /// Whether the client knows that no more is answered.
    is_refused: bool,
    _place: Place,
}

impl Source {
    fn next_in_turn(self) -> NextLines {
        let turns = self.turns.clone();
        NextLines(Box::pin(async move {
            let next = pin!(self.next());
            let next = InTurns::of(turns.as_deref(), next).await;
            next.map(|(answers, source)| (answers, source.next_in_turn()))
        }))
    }

    async fn next(mut self) -> Option<(Answers, Source)> {
        if self.is_refused {
            self.discard().await;
            return None;
        }
        match self.group().await {
            Ok(Some(answers)) => Some((answers, self)),
            Ok(None) => None,
            Err(refusal) => Some(self.end(&refusal)),
        }
    }

    /// The answers to the next group of lines; `None` where no more come.
    async fn group(&mut self) -> Result<Option<Answers>, ApiError> {
        loop {
            if !self.wanted.is_empty() {
                self.may_go_on().await?;
                let answers = self.read_group().await;
                // While it waited for answers, a client need not have sent more.
                self.body.begin_again();
                return Ok(Some(answers));
            }
            let lines = take_lines(&mut self.pending, self.is_over);
            if lines.is_empty() {
                if !self.more().await? {
                    return Ok(None);
                }
                continue;
            }
            let elements = parsed(lines).await;
            match self.does {
                Does::Read => self.wanted.extend(elements.into_iter().map(wanted)),
                Does::Write => {
                    self.may_go_on().await?;
                    let answers = self.write(elements).await;
                    self.body.begin_again();
                    return Ok(Some(self.owed(answers)));
                }
            }
        }
    }

    /// Waits for more to come; `false` where no more will.
    async fn more(&mut self) -> Result<bool, ApiError> {
        if self.pending.len() > LINE_BYTES_MAX {
            let message = format!("A line may have at most {LINE_BYTES_MAX} bytes.");
            return Err(ApiError::new(Kind::PayloadTooLarge, message));
        }
        if self.is_over {
            return Ok(false);
        }
        let came = tokio::select! {
            biased;
            // The sender lives as long as what all threads share.
            _ = self.ending.wait_for(|ends| *ends) => return Err(ends()),
            came = tokio::time::timeout_at(self.until, self.body.data()) => came,
        };
        match came.map_err(|_| self.too_old())?? {
            Some(bytes) => self.pending.extend_from_slice(&bytes),
            None => self.is_over = true,
        }
        Ok(true)
    }

    fn too_old(&self) -> ApiError {
        let message = format!(
            "A stream may last {} ms. What follows can be sent on another one.",
            self.shared.limits.stream_ms
        );
        ApiError::new(Kind::RequestTimeout, message)
    }

    /// Whether lines that have come may still be answered: a key may have been revoked, or lost a
    /// right, while its stream went on.
    ///
    /// The other requests of the thread come first, and what was answered is sent: a client that
    /// has gone is found by that, and its stream is dropped here.
    async fn may_go_on(&mut self) -> Result<(), ApiError> {
        tokio::task::yield_now().await;
        if *self.ending.borrow() {
            return Err(ends());
        }
        if Instant::now() >= self.until {
            return Err(self.too_old());
        }
        if self.run.as_ref().is_some_and(|run| run.has_ended()) {
            return Err(EngineError::Access(AccessError::KeyExpired).into());
        }
        let engine = &self.shared.engine;
        if !engine.still_holds(&self.identity) {
            self.identity = engine.identify_again(&self.identity)?;
        }
        Ok(())
    }

    /// The last line: why no more are answered.
    fn end(mut self, refusal: &ApiError) -> (Answers, Source) {
        self.is_refused = true;
        self.pending = Vec::new();
        self.wanted = VecDeque::new();
        let mut out = Vec::new();
        wire::refused_line(refusal, self.words, &mut out);
        ((out.into(), None), self)
    }

    async fn discard(&mut self) {
        let parting = if *self.ending.borrow() {
            PARTING
        } else {
            Duration::from_millis(self.shared.limits.body_ms)
        };
        let until = Instant::now() + parting;
        let mut left = DISCARDED_BYTES_MAX;
        while let Ok(Ok(Some(bytes))) = tokio::time::timeout_at(until, self.body.data()).await {
            left = left.saturating_sub(bytes.len());
            if left == 0 {
                break;
            }
        }
    }

    /// The answers to as many elements as are read together.
    async fn read_group(&mut self) -> Answers {
        let count = group_len(self.wanted.make_contiguous());
        let mut parts: Vec<Result<BatchRead, ApiError>> = self.wanted.drain(..count).collect();
        let (mark, found) = self.read(&parts).await;
        let fitting = fitting_len(&found);
        for part in parts.drain(fitting..).rev() {
            self.wanted.push_front(part);
        }
        let mut found = found;
        found.truncate(fitting);
        match self.counted(mark, found).await {
            Ok(answers) => answers,
            Err(refusal) => {
                let mut out = Vec::new();
                for _ in &parts {
                    wire::refused_line(&refusal, self.words, &mut out);
                }
                (out.into(), None)
            }
        }
    }

    /// The lines of what was found, if there is room for them.
    async fn counted(
        &self,
        mark: Option<Mark>,
        found: Vec<Result<BatchPart, ApiError>>,
    ) -> Result<Answers, ApiError> {
        let (bytes, wording) = (wire::size_bytes(&found), (self.words, self.form));
        self.sending.need_room(bytes, self.is_guest())?;
        let lines = move || wire::found_lines(mark, &found, wording);
        let lines = self
            .shared
            .engine
            .offload(bytes, self.is_guest(), lines)
            .await?;
        let pieces = [lines.into(), Bytes::new(), Bytes::new()];
        let untaken = self.sending.take(&pieces, self.is_guest())?;
        let [lines, ..] = pieces;
        Ok((lines, untaken))
    }

    /// What has been done is reported, whatever waits.
    fn owed(&self, lines: Vec<u8>) -> Answers {
        let pieces = [lines.into(), Bytes::new(), Bytes::new()];
        let untaken = self.sending.owe(&pieces, self.is_guest());
        let [lines, ..] = pieces;
        (lines, untaken)
    }

    fn is_guest(&self) -> bool {
        is_guest(&self.identity.caller.actor)
    }

    /// What was found of each element, and as of which mark.
    async fn read(
        &self,
        parts: &[Result<BatchRead, ApiError>],
    ) -> (Option<Mark>, Vec<Result<BatchPart, ApiError>>) {
        let right: Vec<BatchRead> = parts.iter().flatten().cloned().collect();
        let engine = &self.shared.engine;
        let read = engine
            .read_batch(&self.identity.caller, &self.database, right)
            .await;
        let (mark, mut found) = match read {
            Ok(read) => (Some(read.mark), Ok(read.answer.into_iter())),
            Err(error) => (None, Err(ApiError::from(error))),
        };
        let of_part = |part: &Result<BatchRead, ApiError>| match (part, &mut found) {
            (Err(refusal), _) => Err(refusal.clone()),
            (Ok(_), Err(refusal)) => Err(refusal.clone()),
            (Ok(_), Ok(found)) => {
                let found = found.next().expect("one answer to each part");
                found.map_err(ApiError::from)
            }
        };
        (mark, parts.iter().map(of_part).collect())
    }

    async fn write(&self, elements: Vec<Result<Fields, ApiError>>) -> Vec<u8> {
        let mut out = Vec::new();
        let sender = Sender {
            shared: &self.shared,
            words: self.words,
        };
        let operations = elements
            .into_iter()
            .map(|fields| read_operation(sender, fields?, Some(&self.database)));
        let operations: Vec<Result<_, ApiError>> = operations.collect();
        let context = BatchWrite {
            operations: operations.iter().flatten().cloned().collect(),
            is_atomic: false,
        };
        let engine = &self.shared.engine;
        let written = engine.write_batch(&self.identity.caller, &context).await;
        let written = written.map_err(ApiError::from);
        let mut done = written.as_ref().map(|written| written.iter());
        for operation in &operations {
            let done = match (operation, &mut done) {
                (Err(refusal), _) => Err(refusal.clone()),
                (Ok(_), Err(refusal)) => Err((*refusal).clone()),
                (Ok(_), Ok(done)) => {
                    let done = done.next().expect("one outcome of each operation");
                    done.clone().map_err(ApiError::from)
                }
            };
            wire::written_line(&done, self.words, &mut out);
        }
        out
    }
}

/// The last line at the end of the server.
fn ends() -> ApiError {
    let message = "The server is stopping. Lines without an answer were not begun.";
    ApiError::new(Kind::ServiceUnavailable, message)
}

/// The objects of lines: those of many bytes are read on a thread that parses large bodies.
async fn parsed(lines: Vec<Vec<u8>>) -> Vec<Result<Fields, ApiError>> {
    let one = |line: &Vec<u8>| Fields::read(line, &JsonBudget::new(LINE_BYTES_MAX));
    let read = move |lines: Vec<Vec<u8>>| lines.iter().map(one).collect();
    let (count, bytes) = (lines.len(), lines.iter().map(Vec::len).sum::<usize>());
    if bytes <= PARSED_HERE_BYTES_MAX {
        return read(lines);
    }
    let parsed = tokio::task::spawn_blocking(move || read(lines)).await;
    parsed.unwrap_or_else(|broken| {
        let broken = broken.to_string();
        let refusal = || Err(ApiError::internal(broken.clone()));
        (0..count).map(|_| refusal()).collect()
    })
}

/// What a line asks to read.
fn wanted(fields: Result<Fields, ApiError>) -> Result<BatchRead, ApiError> {
    let part = batch::part(fields?)?;
    batch::need_rows(part.rows.count())?;
    Ok(part)
}

/// How many of the parts, at least one, ask for no more rows together than one batch may.
fn group_len(parts: &[Result<BatchRead, ApiError>]) -> usize {
    let mut rows = 0;
    let fits = |part: &&Result<BatchRead, ApiError>| {
        rows += part.as_ref().map_or(0, |part| part.rows.count());
        rows <= BATCH_ROWS_READ_MAX
    };
    parts.iter().take_while(fits).count().max(1)
}

/// How many of the elements, at least one, are answered together: those for which there is no room
/// in one answer beside the ones before them are read again, by themselves.
fn fitting_len(found: &[Result<BatchPart, ApiError>]) -> usize {
    let is_too_large = |found: &Result<BatchPart, ApiError>| {
        let refusal = found.as_ref().err();
        refusal.is_some_and(|refusal| refusal.kind == Kind::AnswerTooLarge)
    };
    found
        .iter()
        .position(is_too_large)
        .unwrap_or(found.len())
        .max(1)
}

/// Takes whole lines out of what has come; blank ones are none. At the end, the rest is a line.
fn take_lines(pending: &mut Vec<u8>, is_over: bool) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut taken = 0;
    while lines.len() < LINES_AT_ONCE {
        let rest = &pending[taken..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, next) = match end {
            Some(end) if end <= LINE_BYTES_MAX => (&rest[..end], taken + end + 1),
            None if is_over && rest.len() <= LINE_BYTES_MAX => (rest, pending.len()),
            _ => break,
        };
        if !line.trim_ascii().is_empty() {
            lines.push(line.to_vec());
        }
        taken = next;
        if taken == pending.len() {
            break;
        }
    }
    pending.drain(..taken);
    lines
}

#[cfg(test)]
mod tests {
    use hyper::header::{self, HeaderValue};

    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[track_caller]
    fn check(came: &str, is_over: bool, wanted: &[&str], left: &str) {
        let mut pending = came.as_bytes().to_vec();
        let lines = take_lines(&mut pending, is_over);
        let lines: Vec<&str> = lines
            .iter()
            .map(|l| std::str::from_utf8(l).unwrap())
            .collect();
        assert_eq!((lines.as_slice(), &*pending), (wanted, left.as_bytes()));
    }

    #[test]
    fn whole_lines_are_taken_and_the_rest_waits_for_its_end() {
        check("", false, &[], "");
        check("a", false, &[], "a");
        check("a\nb", false, &["a"], "b");
        check("a\n\n \r\nb\n", false, &["a", "b"], "");
        check("a\nb", true, &["a", "b"], "");
        check("\n\n", true, &[], "");
        let many = "x\n".repeat(LINES_AT_ONCE + 3);
        check(&many, true, &["x"; LINES_AT_ONCE], &"x\n".repeat(3));
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        check(&long, true, &[], &long);
        let ended = format!("a\n{long}\nb\n");
        check(&ended, false, &["a"], &ended[2..]);
    }

    /// The objects of so many lines of so many bytes, and how many threads were started for them.
    fn objects(count: usize, bytes: usize) -> (usize, usize) {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .on_thread_start(|| {
                STARTED.fetch_add(1, Ordering::Relaxed);
            })
            .build()
            .unwrap();
        STARTED.store(0, Ordering::Relaxed);
        let line = format!("{{\"tableId\":\"{}\"}}", "t".repeat(bytes));
        let objects = runtime.block_on(parsed(vec![line.into_bytes(); count]));
        let right = objects.iter().flatten().filter(|one| one.holds("tableId"));
        (right.count(), STARTED.load(Ordering::Relaxed))
    }

    #[test]
    fn lines_of_many_bytes_are_parsed_apart() {
        assert_eq!(objects(2, 1_000), (2, 0));
        assert_eq!(objects(2, PARSED_HERE_BYTES_MAX / 2), (2, 1));
        assert_eq!(objects(1, LINE_BYTES_MAX - 20), (1, 1));
    }

    #[test]
    fn lines_are_known_by_their_media_type() {
        let are = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(text));
            are_sent(&headers)
        };
        assert!(!are_sent(&HeaderMap::new()));
        assert!(are("application/x-ndjson") && are("Application/X-NDJSON; charset=utf-8"));
        assert!(!are("application/json") && !are("x/application/x-ndjson"));
    }
}
