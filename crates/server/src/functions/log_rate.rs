//! How many bytes of logs each function may bring into the store in a time.
//!
//! A handler that logs all it can in each execution would write as fast as the disk does, and keep
//! all other writers waiting. Its executions go on, and the callers who wait for them get all of
//! their logs; of the logs in its records the end is kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use engine::ExecutionRecord;

/// Of the logs of a record, and of its errors, whatever the others have brought.
const FREE_BYTES: usize = 1_024;
/// Beyond that a function may bring so much at once: some of the largest logs that there are.
const AT_ONCE_BYTES: usize = 32 << 20;
/// And so much in each second from then on, as of what processes write (wire protocol, handler
/// contract).
const BYTES_A_SECOND: usize = 1 << 20;
/// Functions that are remembered. Of more, those that may bring the most by now begin again.
const FUNCTIONS_MAX: usize = 1_024;

/// What functions have brought.
#[derive(Debug, Default)]
pub struct LogRate {
    allowances: Mutex<HashMap<i64, Allowance>>,
}

/// What one function may bring, as of an instant.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    bytes: usize,
    since: Instant,
}

impl Allowance {
    fn whole(now: Instant) -> Allowance {
        Allowance {
            bytes: AT_ONCE_BYTES,
            since: now,
        }
    }

    fn bytes_at(self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.since);
        let earned = passed.as_secs_f64() * BYTES_A_SECOND as f64;
        // Saturates, and is far from where it is not exact.
        self.bytes
            .saturating_add(earned as usize)
            .min(AT_ONCE_BYTES)
    }
}

impl LogRate {
    /// Cuts the logs of a record that is to be kept if its function, of this number, has brought
    /// too much of them.
    pub fn bound(&self, function: i64, record: &mut ExecutionRecord, now: Instant) {
        let texts = [&record.logs, &record.errors];
        let bytes: usize = texts
            .map(|text| text.len().saturating_sub(FREE_BYTES))
            .iter()
            .sum();
        if bytes > 0 && !self.take(function, bytes, now) {
            cut("Logs", &mut record.logs);
            cut("Errors", &mut record.errors);
        }
    }

    fn take(&self, function: i64, bytes: usize, now: Instant) -> bool {
        let mut all = self
            .allowances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if all.len() >= FUNCTIONS_MAX && !all.contains_key(&function) {
            let most = all
                .iter()
                .max_by_key(|(_, allowance)| allowance.bytes_at(now));
            if let Some(most) = most.map(|(function, _)| *function) {
                all.remove(&most);
            }
        }
        let allowance = all.entry(function).or_insert_with(|| Allowance::whole(now));
        let left = allowance.bytes_at(now);
        let Some(rest) = left.checked_sub(bytes) else {
            return false;
        };
        *allowance = Allowance {
            bytes: rest,
            since: now,
        };
        true
    }
}

/// Keeps the end, with a first line that says so.
fn cut(title: &str, text: &mut String) {
    let Some(surplus) = text.len().checked_sub(FREE_BYTES).filter(|more| *more > 0) else {
        return;
    };
    let end = &text[text.ceil_char_boundary(surplus)..];
    let mib = BYTES_A_SECOND >> 20;
    *text = format!(
        "[WARNING] {title} truncated in this record: the function logs more than {mib} MiB a \
         second\n{end}"
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::{ExecutionStatus, ExecutionTrigger};
    use model::{DeploymentId, Timestamp};

    use super::*;

    fn record(logs: &str, errors: &str) -> ExecutionRecord {
        ExecutionRecord {
            seq: 0,
            id: "e".to_owned(),
            trigger: ExecutionTrigger::Http,
            deployment: DeploymentId::new("d").unwrap(),
            status: ExecutionStatus::Completed,
            method: "POST".to_owned(),
            path: "/".to_owned(),
            request_headers: Vec::new(),
            response_status: 200,
            response_headers: Vec::new(),
            logs: logs.to_owned(),
            errors: errors.to_owned(),
            duration_us: 1,
            scheduled: None,
            created: Timestamp(1),
            updated: Timestamp(1),
        }
    }

    /// Bytes of the logs of a record that a function brings.
    fn brought(rate: &LogRate, function: i64, bytes: usize, now: Instant) -> usize {
        let mut record = record(&"x".repeat(bytes), "");
        rate.bound(function, &mut record, now);
        record.logs.len()
    }

    #[test]
    fn function_brings_so_much_at_once_and_so_much_a_second() {
        let (rate, now) = (LogRate::default(), Instant::now());
        let large = (8 << 20) + FREE_BYTES;
        for _ in 0..4 {
            assert_eq!(brought(&rate, 1, large, now), large);
        }
        assert!(brought(&rate, 1, large, now) < 2 * FREE_BYTES);
        assert_eq!(brought(&rate, 1, FREE_BYTES, now), FREE_BYTES, "free");
        assert_eq!(brought(&rate, 2, large, now), large, "another function");
        // What was cut cost nothing.
        let second = (1 << 20) + FREE_BYTES;
        let later = now + Duration::from_secs(1);
        assert_eq!(brought(&rate, 1, second, later), second);
        assert!(brought(&rate, 1, second, later) < 2 * FREE_BYTES);
        // No more than at first, however long it brings nothing.
        let later = now + Duration::from_hours(1);
        for _ in 0..4 {
            assert_eq!(brought(&rate, 1, large, later), large);
        }
        assert!(brought(&rate, 1, large, later) < 2 * FREE_BYTES);
    }

    #[test]
    fn logs_that_are_cut_keep_their_end_and_say_so() {
        let (rate, now) = (LogRate::default(), Instant::now());
        brought(&rate, 1, AT_ONCE_BYTES + FREE_BYTES, now);
        // Its letters have two bytes each.
        let mut record = record(&("é".repeat(1_000) + "!"), "short");
        rate.bound(1, &mut record, now);
        let (warning, rest) = record.logs.split_once('\n').unwrap();
        let words = "[WARNING] Logs truncated in this record: the function logs more than 1 MiB a \
                     second";
        assert_eq!(warning, words);
        assert_eq!(rest, "é".repeat(511) + "!");
        assert_eq!(record.errors, "short");
    }

    #[test]
    fn only_so_many_functions_are_remembered() {
        let (rate, now) = (LogRate::default(), Instant::now());
        let large = AT_ONCE_BYTES + FREE_BYTES;
        brought(&rate, 0, large, now);
        for function in 1..=FUNCTIONS_MAX as i64 {
            brought(&rate, function, FREE_BYTES + 1, now);
        }
        assert_eq!(rate.allowances.lock().unwrap().len(), FUNCTIONS_MAX);
        // The one that has brought the most is none of those that are forgotten.
        assert!(brought(&rate, 0, large, now) < 2 * FREE_BYTES);
    }
}
