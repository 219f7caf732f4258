//! Text of which only the end is kept.

use std::sync::Arc;

use crate::memory_budget::{HeldMemory, LOG_BYTES_FREE, MemoryBudget};

/// The last letters of what was written to it.
#[derive(Debug)]
pub struct LogTail {
    text: String,
    letters: usize,
    letters_max: usize,
    is_cut: bool,
    /// What the text may take of memory.
    bytes_max: usize,
    held: HeldMemory,
    /// Whether letters below the limit were left out, because there was no memory for them.
    lacked_memory: bool,
}

impl LogTail {
    pub fn new(letters_max: usize) -> LogTail {
        LogTail {
            text: String::new(),
            letters: 0,
            letters_max,
            is_cut: false,
            bytes_max: usize::MAX,
            held: HeldMemory::default(),
            lacked_memory: false,
        }
    }

    /// As [`LogTail::new`]; what is long takes its memory from a budget.
    pub fn within(letters_max: usize, budget: &Arc<MemoryBudget>) -> LogTail {
        LogTail {
            bytes_max: LOG_BYTES_FREE,
            held: HeldMemory::of(budget.clone()),
            ..LogTail::new(letters_max)
        }
    }

    pub fn push(&mut self, text: &str) {
        let text = self.fit(text);
        self.text.push_str(text);
        self.letters += text.chars().count();
        // Not at each push, or a flood of short lines would move all letters each time.
        if self.letters > self.letters_max + self.letters_max / 2 {
            self.cut_to(self.letters_max);
        }
    }

    /// Makes room for a text, at the cost of what was written before; what is to be written of it.
    fn fit<'a>(&mut self, text: &'a str) -> &'a str {
        let wanted = self.text.len() + text.len();
        if wanted <= self.bytes_max || self.grow(wanted) {
            return text;
        }
        self.lacked_memory = true;
        let text = end_of(text, self.bytes_max);
        // Half at least goes, or a flood of short lines would move all letters each time.
        self.keep_bytes((self.bytes_max - text.len()).min(self.bytes_max / 2));
        text
    }

    fn grow(&mut self, wanted: usize) -> bool {
        for bytes_max in [wanted.max(2 * self.bytes_max), wanted] {
            if self.held.take(bytes_max - self.bytes_max) {
                self.bytes_max = bytes_max;
                // Else the text would grow beyond what was taken for it.
                self.text.reserve_exact(bytes_max - self.text.len());
                return true;
            }
        }
        false
    }

    /// Keeps the end, of at most so many bytes.
    fn keep_bytes(&mut self, bytes: usize) {
        let surplus = self.text.len() - end_of(&self.text, bytes).len();
        if surplus > 0 {
            self.text.drain(..surplus);
            self.letters = self.text.chars().count();
            self.is_cut = true;
        }
    }

    /// Writes a line of its own.
    pub fn push_last_line(&mut self, line: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push("\n");
        }
        self.push(line);
    }

    /// What was kept, and the memory that it holds; with a first line that begins with `[WARNING]`
    /// when that is not all.
    pub fn finish(mut self, title: &str) -> (String, HeldMemory) {
        if self.letters > self.letters_max || self.lacked_memory {
            self.is_cut = true;
        }
        if self.is_cut {
            let limit = self.letters_max;
            let warning = if self.lacked_memory {
                format!("[WARNING] {title} truncated: functions that run hold too much of logs\n")
            } else {
                format!("[WARNING] {title} truncated to the last {limit} letters\n")
            };
            self.cut_to(limit.saturating_sub(warning.chars().count()));
            self.keep_bytes(self.bytes_max.saturating_sub(warning.len()));
            self.text.insert_str(0, &warning);
        }
        if self.text.capacity() > LOG_BYTES_FREE {
            self.text.shrink_to_fit();
        }
        self.held
            .shrink_to(self.text.len().saturating_sub(LOG_BYTES_FREE));
        (self.text, self.held)
    }

    /// What is kept now, of any length up to one and a half limits.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its last letters, and the blanks at the end left out.
    pub fn last(&self, letters: usize) -> &str {
        let text = self.text.trim_end();
        let mut starts = text.char_indices().rev();
        let start = letters.checked_sub(1).and_then(|nth| starts.nth(nth));
        start.map_or(text, |(at, _)| &text[at..])
    }

    fn cut_to(&mut self, letters: usize) {
        let Some(surplus) = self.letters.checked_sub(letters).filter(|more| *more > 0) else {
            return;
        };
        let mut starts = self.text.char_indices();
        let start = starts.nth(surplus).map_or(self.text.len(), |(at, _)| at);
        self.text.drain(..start);
        self.letters = letters;
        self.is_cut = true;
    }
}

/// The end of a text, of at most so many bytes.
fn end_of(text: &str, bytes_max: usize) -> &str {
    let surplus = text.len().saturating_sub(bytes_max);
    &text[text.ceil_char_boundary(surplus)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(tail: LogTail, title: &str) -> String {
        tail.finish(title).0
    }

    /// The longest letters, in floods of one line and of many, of many runs at once.
    #[test]
    fn logs_of_all_runs_are_within_their_budget() {
        const RUNS: usize = 200;
        const BUDGET: usize = 1_000_000;
        let budget = MemoryBudget::new(BUDGET).for_another();
        let mut tails: Vec<LogTail> = (0..RUNS)
            .map(|_| LogTail::within(1_000_000, &budget))
            .collect();
        let held = |tails: &[LogTail]| -> usize {
            let capacities = tails.iter().map(|tail| tail.text.capacity());
            capacities.sum()
        };
        let line = "😀".repeat(16_000);
        for nth in 0..20 {
            for tail in &mut tails {
                tail.push(&line);
                tail.push(&format!("{nth} "));
            }
            // What is free grows as texts do, by doubling.
            assert!(held(&tails) <= BUDGET / 2 + RUNS * 2 * LOG_BYTES_FREE);
        }
        for _ in 0..2_000 {
            tails[0].push("ä ");
        }
        let ended: Vec<_> = tails.into_iter().map(|tail| tail.finish("Logs")).collect();
        for (text, _) in &ended {
            assert!(text.len() <= 1_000_000 && text.starts_with("[WARNING] Logs truncated: "));
        }
        assert!(ended[0].0.ends_with("ä ä "));
        assert!(ended[1].0.ends_with("😀19 "), "its end is kept");
        let bytes: usize = ended.iter().map(|(text, _)| text.len()).sum();
        assert!(bytes <= BUDGET / 2 + RUNS * LOG_BYTES_FREE, "{bytes}");
        // What is dropped makes room.
        let mut late = LogTail::within(1_000_000, &budget);
        drop(ended);
        late.push(&line);
        assert_eq!(finished(late, "Logs"), line);
    }

    #[test]
    fn a_last_line_is_kept_where_there_is_no_memory() {
        let budget = MemoryBudget::new(0).for_another();
        for (before, line) in [(5_000, 10), (5_000, 9_000), (0, 9_000)] {
            let mut tail = LogTail::within(1_000_000, &budget);
            tail.push(&"x".repeat(before));
            tail.push_last_line(&"€".repeat(line));
            let text = finished(tail, "Errors");
            assert!(text.len() <= LOG_BYTES_FREE);
            assert!(text.starts_with("[WARNING] Errors truncated: "));
            assert!(text.ends_with(&"€".repeat(line.min(1_000))), "{line}");
        }
    }

    #[test]
    fn a_log_at_its_limit_is_whole() {
        let mut tail = LogTail::new(100);
        tail.push(&"ä".repeat(100));
        assert_eq!(finished(tail, "Logs"), "ä".repeat(100));
    }

    #[test]
    fn a_last_line_stands_alone_and_within_the_limit() {
        let written = |before: &str, line: &str| {
            let mut tail = LogTail::new(100);
            tail.push(before);
            tail.push_last_line(line);
            finished(tail, "Errors")
        };
        assert_eq!(written("", "why"), "why");
        assert_eq!(written("a\n", "why"), "a\nwhy");
        assert_eq!(written("a", "why"), "a\nwhy");
        let long = written("a", &"ä".repeat(1_000));
        assert_eq!(long.chars().count(), 100);
        assert!(
            long.starts_with("[WARNING]") && long.ends_with('ä'),
            "{long}"
        );
    }

    #[test]
    fn a_log_beyond_its_limit_keeps_its_end() {
        let mut tail = LogTail::new(100);
        for number in 0..1_000 {
            tail.push(&format!("ä{number} "));
            assert!(tail.text().chars().count() <= 150);
        }
        let text = finished(tail, "Logs");
        assert!(text.starts_with("[WARNING] Logs truncated"), "{text}");
        assert!(text.ends_with("ä998 ä999 "), "{text}");
        assert_eq!(text.chars().count(), 100);
    }

    #[test]
    fn a_log_has_last_letters() {
        let mut tail = LogTail::new(100);
        assert_eq!(tail.last(3), "");
        tail.push("zwölf \n");
        assert_eq!(
            (tail.last(3), tail.last(5), tail.last(9)),
            ("ölf", "zwölf", "zwölf")
        );
    }

    #[test]
    fn a_log_one_letter_beyond_its_limit_is_cut() {
        let mut tail = LogTail::new(100);
        tail.push(&"x".repeat(101));
        let text = finished(tail, "Errors");
        assert!(text.starts_with("[WARNING] Errors truncated"));
        assert_eq!(text.len(), 100);
    }
}
