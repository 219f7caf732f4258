//! The stream of notices. The server numbers each invalidation in the step that makes it, and a
//! process that listens asks once in a second how far the numbers are.
//!
//! Question, answer and notices take one connection, so that all notices of what had been
//! invalidated when the question was sent are there before its answer. As long as no number is
//! missing, what memory was not told to forget was right at that moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::{Pipeline, RedisError, RedisResult, Value};

use super::{RedisTier, is_elsewhere};
use crate::host::Host;

/// How often the number is asked for.
const BEAT: Duration = Duration::from_secs(1);
/// A question that has no answer after this time ends the connection.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Random bytes next to the number: a server that loses both counts under others.
const EPOCH_BYTES: usize = 16;
/// Digits of a number in front of its notice, in base 16.
const DIGITS: usize = 16;

type Epoch = [u8; EPOCH_BYTES];

/// What a script does after it has invalidated: the key of this place in its list is where the
/// number is, and the last three arguments are an epoch in case there is none, a channel and a
/// notice. That a notice cannot be published is found by its number.
macro_rules! numbering {
    ($place:literal) => {
        concat!(
            "
    local stream = KEYS[",
            $place,
            "]
    if stream then
        local at = #ARGV - 2
        local number = redis.call('HINCRBY', stream, 'n', 1)
        redis.call('HSETNX', stream, 'e', ARGV[at])
        local notice = redis.call('HGET', stream, 'e') .. string.format('%016x', number)
        redis.pcall('PUBLISH', ARGV[at + 1], notice .. ARGV[at + 2])
    end
"
        )
    };
}
pub(super) use numbering;

/// How far the stream has been followed, in one process. One thread follows it.
#[derive(Default)]
pub struct StreamState {
    /// Random, another one after each gap; 0 while nothing follows the stream.
    run: AtomicU64,
    beat_ms: AtomicU64,
}

impl RedisTier {
    /// Which run of the stream this process follows now, 0 if none. A run ends with the first gap.
    pub fn stream_run(&self) -> u64 {
        let state = self.stream.own();
        state.map_or(0, |state| state.run.load(Ordering::Acquire))
    }

    /// Until when, in milliseconds of the host's clock, what memory was not told to forget was
    /// right, if it was read in this run.
    pub fn right_until_ms(&self, run: u64) -> Option<u64> {
        let state = self.stream.own()?;
        // Before the run: a later run begins before its first beat is written.
        let beat_ms = state.beat_ms.load(Ordering::Acquire);
        let is_same = run != 0 && state.run.load(Ordering::Acquire) == run;
        is_same.then_some(beat_ms)
    }

    /// Where the number and its epoch are. Next to the entries, for their slot of a Cluster.
    pub fn stream_key(&self) -> Vec<u8> {
        [self.key_prefix.as_bytes(), b"{stream}"].concat()
    }

    /// One for a server that has none.
    pub fn epoch(&self) -> Epoch {
        self.token().to_be_bytes()
    }

    /// The question. A server that takes no writes refuses it: what such a one has may be old.
    pub fn stream_question(&self) -> Pipeline {
        let key = self.stream_key();
        let mut question = redis::pipe();
        let epoch = self.epoch();
        question.cmd("HSETNX").arg(&key).arg("e").arg(&epoch);
        question.cmd("HMGET").arg(&key).arg("e").arg("n");
        question
    }
}

/// A notice, and its place in the stream.
pub struct StreamNotice<'a> {
    epoch: Epoch,
    number: u64,
    /// What was announced.
    pub notice: &'a [u8],
}

impl StreamNotice<'_> {
    /// What was published; `None` for other bytes.
    pub fn of(bytes: &[u8]) -> Option<StreamNotice<'_>> {
        let (epoch, rest) = bytes.split_first_chunk()?;
        let (digits, notice) = rest.split_at_checked(DIGITS)?;
        let digits = str::from_utf8(digits).ok()?;
        Some(StreamNotice {
            epoch: *epoch,
            number: u64::from_str_radix(digits, 16).ok()?,
            notice,
        })
    }
}

/// A question that was sent.
struct StreamQuestion {
    sent_ms: u64,
    at: Instant,
    answers: Vec<Value>,
}

/// Whether notices may have been missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    Whole,
    Gap,
}

/// Follows the stream on one connection.
pub struct StreamFollower<'a> {
    state: &'a StreamState,
    host: Host,
    /// The last number; none before the first answer, and after a gap.
    last: Option<(Epoch, u64)>,
    question: Option<StreamQuestion>,
    asked_at: Option<Instant>,
}

impl Drop for StreamFollower<'_> {
    fn drop(&mut self) {
        self.break_off();
    }
}

impl<'a> StreamFollower<'a> {
    pub fn new(state: &'a StreamState, host: Host) -> StreamFollower<'a> {
        StreamFollower {
            state,
            host,
            last: None,
            question: None,
            asked_at: None,
        }
    }

    /// Whether the question is to be sent now.
    pub fn is_due(&self) -> bool {
        self.question.is_none() && self.asked_at.is_none_or(|at| at.elapsed() >= BEAT)
    }

    /// Whether a question has waited for too long.
    pub fn is_lost(&self) -> bool {
        let question = self.question.as_ref();
        question.is_some_and(|question| question.at.elapsed() >= ANSWER_WAIT)
    }

    /// To be called before the question is sent.
    pub fn ask(&mut self) {
        let at = Instant::now();
        self.asked_at = Some(at);
        self.question = Some(StreamQuestion {
            sent_ms: (self.host.now_ms)(),
            at,
            answers: Vec::new(),
        });
    }

    fn break_off(&mut self) {
        self.state.run.store(0, Ordering::Release);
        self.last = None;
        // To begin again with the next answer.
        self.asked_at = None;
    }

    /// Takes the next notice, which the caller has passed on or passes on in the case of a gap.
    pub fn take_notice(&mut self, found: &StreamNotice<'_>) -> StreamStep {
        let Some((epoch, last)) = self.last else {
            return StreamStep::Whole;
        };
        if found.epoch == epoch && last.checked_add(1) == Some(found.number) {
            self.last = Some((epoch, found.number));
            return StreamStep::Whole;
        }
        self.break_off();
        StreamStep::Gap
    }

    /// Takes one of the two answers to the question.
    ///
    /// # Errors
    /// Where another server has, or may have, what this one had; answers to nothing.
    pub fn take_answer(&mut self, answer: Value) -> RedisResult<StreamStep> {
        let Some(question) = &mut self.question else {
            return Err(super::connection::unsent());
        };
        question.answers.push(answer);
        if question.answers.len() < 2 {
            return Ok(StreamStep::Whole);
        }
        let sent_ms = question.sent_ms;
        let answers = std::mem::take(&mut question.answers);
        self.question = None;
        match place_in(answers) {
            Ok(now) => Ok(self.compare(now, sent_ms)),
            Err(error) if is_elsewhere(&error) || error.is_io_error() => Err(error),
            // As of a server without memory, or of a user without the right: nothing is known by
            // it, and the notices go on.
            Err(_) => Ok(StreamStep::Whole),
        }
    }

    fn compare(&mut self, now: (Epoch, u64), sent_ms: u64) -> StreamStep {
        match self.last {
            Some(last) if last == now => {
                self.state.beat_ms.store(sent_ms, Ordering::Release);
                StreamStep::Whole
            }
            Some(_) => {
                self.break_off();
                StreamStep::Gap
            }
            None => {
                // What is read from now on is no older than this number.
                self.last = Some(now);
                let mut run = [0; 8];
                (self.host.random)(&mut run);
                let run = u64::from_ne_bytes(run).max(1);
                self.state.run.store(run, Ordering::Release);
                StreamStep::Whole
            }
        }
    }
}

/// What the answers to the question say.
fn place_in(answers: Vec<Value>) -> RedisResult<(Epoch, u64)> {
    let answers = answers.into_iter().map(Value::extract_error);
    let mut answers = answers.collect::<RedisResult<Vec<Value>>>()?.into_iter();
    let last = answers.next_back().unwrap_or_default();
    let (epoch, number): (Vec<u8>, Option<u64>) = redis::from_redis_value(last)?;
    let epoch = epoch.try_into().map_err(|_| {
        let what = "the epoch of the stream has another length";
        RedisError::from((redis::ErrorKind::Parse, what))
    })?;
    Ok((epoch, number.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host::of_this_machine(|| 0).unwrap()
    }

    fn notice(epoch: u8, number: u64) -> Vec<u8> {
        let digits = format!("{number:016x}");
        [[epoch; EPOCH_BYTES].as_slice(), digits.as_bytes(), b"it"].concat()
    }

    fn answer(follower: &mut StreamFollower<'_>, epoch: u8, number: Option<u64>) -> StreamStep {
        follower.ask();
        let set = follower.take_answer(Value::Int(0)).unwrap();
        assert_eq!(set, StreamStep::Whole);
        let epoch = Value::BulkString(vec![epoch; EPOCH_BYTES]);
        let number = number.map_or(Value::Nil, |number| {
            Value::BulkString(number.to_string().into_bytes())
        });
        follower
            .take_answer(Value::Array(vec![epoch, number]))
            .unwrap()
    }

    fn take(follower: &mut StreamFollower<'_>, epoch: u8, number: u64) -> StreamStep {
        let bytes = notice(epoch, number);
        let found = StreamNotice::of(&bytes).unwrap();
        assert_eq!(found.notice, b"it");
        follower.take_notice(&found)
    }

    fn run(state: &StreamState) -> u64 {
        state.run.load(Ordering::Acquire)
    }

    #[test]
    fn run_goes_on_while_no_number_is_missing() {
        let state = StreamState::default();
        let mut follower = StreamFollower::new(&state, host());
        // Before the first answer it is not known what was missed.
        assert_eq!(take(&mut follower, 1, 7), StreamStep::Whole);
        assert_eq!(run(&state), 0);
        assert_eq!(answer(&mut follower, 1, Some(9)), StreamStep::Whole);
        let first = run(&state);
        assert_ne!(first, 0);
        // What was read in this run may be older than the question that began it.
        assert_eq!(state.beat_ms.load(Ordering::Acquire), 0);
        for number in 10..20 {
            assert_eq!(take(&mut follower, 1, number), StreamStep::Whole);
        }
        let before = (host().now_ms)();
        assert_eq!(answer(&mut follower, 1, Some(19)), StreamStep::Whole);
        assert!(state.beat_ms.load(Ordering::Acquire) >= before);
        assert_eq!(run(&state), first);
        drop(follower);
        assert_eq!(run(&state), 0);
    }

    #[test]
    fn each_kind_of_gap_ends_the_run() {
        type Act = fn(&mut StreamFollower<'_>) -> StreamStep;
        let acts: [Act; 8] = [
            // A missing number, one twice, one that goes back, and another epoch.
            |follower| take(follower, 1, 7),
            |follower| take(follower, 1, 5),
            |follower| take(follower, 1, 4),
            |follower| take(follower, 2, 6),
            // The last notices are missing, the server has gone back, has another epoch, and has
            // lost its number alone.
            |follower| answer(follower, 1, Some(6)),
            |follower| answer(follower, 1, Some(4)),
            |follower| answer(follower, 2, Some(5)),
            |follower| answer(follower, 1, None),
        ];
        for (turn, act) in acts.iter().enumerate() {
            let state = StreamState::default();
            let mut follower = StreamFollower::new(&state, host());
            answer(&mut follower, 1, Some(5));
            let first = run(&state);
            assert_eq!(act(&mut follower), StreamStep::Gap, "{turn}");
            assert_eq!(run(&state), 0, "{turn}");
            assert!(follower.is_due(), "{turn}");
            answer(&mut follower, 3, Some(1));
            assert!(run(&state) != 0 && run(&state) != first, "{turn}");
        }
    }

    #[test]
    fn answer_that_says_nothing_moves_no_beat_and_ends_no_run() {
        let state = StreamState::default();
        let mut follower = StreamFollower::new(&state, host());
        answer(&mut follower, 1, Some(5));
        let first = run(&state);
        for (said, is_over) in [
            ("-OOM command not allowed\r\n", false),
            ("-NOPERM no\r\n", false),
            ("-READONLY a copy\r\n", true),
            ("-MOVED 1 a:1\r\n", true),
        ] {
            follower.ask();
            let refused = redis::parse_redis_value(said.as_bytes()).unwrap();
            follower.take_answer(refused.clone()).unwrap();
            assert_eq!(follower.take_answer(refused).is_err(), is_over, "{said}");
            assert_eq!(state.beat_ms.load(Ordering::Acquire), 0);
        }
        assert_eq!(run(&state), first);
        assert!(follower.take_answer(Value::Int(1)).is_err());
    }

    #[test]
    fn notices_of_other_forms_are_none() {
        let whole = notice(1, 7);
        for length in 0..EPOCH_BYTES + DIGITS {
            assert!(StreamNotice::of(&whole[..length]).is_none(), "{length}");
        }
        let mut wrong = whole;
        wrong[EPOCH_BYTES] = b'x';
        assert!(StreamNotice::of(&wrong).is_none());
    }
}
