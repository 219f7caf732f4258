//! Text that other people may have a part in, made fit for a terminal.

/// The text without what a terminal takes as an order: control characters are written out, but for
/// line breaks and tabs.
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.replace("\r\n", "\n").chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            letter if letter.is_control() => shown.extend(letter.escape_default()),
            letter => shown.push(letter),
        }
    }
    shown
}

/// Each line behind a mark that says where it comes from.
pub fn marked(mark: &str, text: &str) -> String {
    let lines = harmless(text.trim_end());
    let lines = lines.lines().map(|line| format!("  {mark} | {line}\n"));
    lines.collect()
}

/// What processes wrote outside of any run, if they wrote something.
pub fn outside_runs(output: &str) -> String {
    if output.trim().is_empty() {
        return String::new();
    }
    format!("Outside of any run:\n{}", marked("out", output))
}

/// A log that grows between one look and the next, and of which the server may keep the end alone.
#[derive(Default)]
pub struct GrowingLog {
    seen: String,
}

/// So many bytes of the end of what was seen are looked for in what came.
const ANCHOR_BYTES: usize = 200;

impl GrowingLog {
    /// What is new in the log.
    pub fn news(&mut self, log: &str) -> String {
        let news = if let Some(news) = log.strip_prefix(self.seen.as_str()) {
            news
        } else {
            let mut start = self.seen.len().saturating_sub(ANCHOR_BYTES);
            while !self.seen.is_char_boundary(start) {
                start += 1;
            }
            let anchor = &self.seen[start..];
            log.rfind(anchor)
                .map_or(log, |at| &log[at + anchor.len()..])
        };
        let news = news.to_owned();
        log.clone_into(&mut self.seen);
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_processes_stands_apart_from_runs() {
        assert_eq!(outside_runs(" \n"), "");
        let shown = "Outside of any run:\n  out | one\n  out | two\n";
        assert_eq!(outside_runs("one\ntwo\n"), shown);
    }

    #[test]
    fn a_control_character_is_written_out() {
        assert_eq!(
            harmless("a\u{1b}[2Jb\r\n\tc\rd\u{9b}"),
            "a\\u{1b}[2Jb\n\tc\\rd\\u{9b}"
        );
        assert_eq!(
            marked("log", "a\n\nb\n\n"),
            "  log | a\n  log | \n  log | b\n"
        );
        assert_eq!(marked("log", ""), "");
    }

    #[test]
    fn only_what_is_new_of_a_log_is_shown() {
        let mut log = GrowingLog::default();
        assert_eq!(log.news(""), "");
        assert_eq!(log.news("one"), "one");
        assert_eq!(log.news("one\ntwo"), "\ntwo");
        assert_eq!(log.news("one\ntwo"), "");
        // Its beginning was cut off.
        let end = "ä".repeat(150);
        log.news(&format!("one\ntwo{end}"));
        assert_eq!(log.news(&format!("[WARNING]\n{end}three")), "three");
        assert_eq!(log.news("all else"), "all else");
    }
}
