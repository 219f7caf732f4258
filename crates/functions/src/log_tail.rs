//! Text of which only the end is kept.

/// The last letters of what was written to it.
#[derive(Debug)]
pub struct LogTail {
    text: String,
    letters: usize,
    letters_max: usize,
    is_cut: bool,
}

impl LogTail {
    pub fn new(letters_max: usize) -> LogTail {
        LogTail {
            text: String::new(),
            letters: 0,
            letters_max,
            is_cut: false,
        }
    }

    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.letters += text.chars().count();
        // Not at each push, or a flood of short lines would move all letters each time.
        if self.letters > self.letters_max + self.letters_max / 2 {
            self.cut_to(self.letters_max);
        }
    }

    /// Writes a line of its own.
    pub fn push_last_line(&mut self, line: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push("\n");
        }
        self.push(line);
    }

    /// What was kept; with a first line that begins with `[WARNING]` when that is not all.
    pub fn finish(mut self, title: &str) -> String {
        if self.letters > self.letters_max {
            self.is_cut = true;
        }
        if !self.is_cut {
            return self.text;
        }
        let limit = self.letters_max;
        let warning = format!("[WARNING] {title} truncated to the last {limit} letters\n");
        self.cut_to(limit.saturating_sub(warning.chars().count()));
        self.text.insert_str(0, &warning);
        self.text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_at_its_limit_is_whole() {
        let mut tail = LogTail::new(100);
        tail.push(&"ä".repeat(100));
        assert_eq!(tail.finish("Logs"), "ä".repeat(100));
    }

    #[test]
    fn a_last_line_stands_alone_and_within_the_limit() {
        let written = |before: &str, line: &str| {
            let mut tail = LogTail::new(100);
            tail.push(before);
            tail.push_last_line(line);
            tail.finish("Errors")
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
        let text = tail.finish("Logs");
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
        let text = tail.finish("Errors");
        assert!(text.starts_with("[WARNING] Errors truncated"));
        assert_eq!(text.len(), 100);
    }
}
