//! What the owner of a table decides about its past, and about the age of its lists.

use std::fmt;

use crate::time::Timestamp;

/// Most days of history that can be asked for: a hundred years.
pub const HISTORY_DAYS_MAX: u32 = 36_525;
/// Longest time in seconds that clients may be allowed to keep an answer: a year.
pub const PINNED_MAX_AGE_S_MAX: u32 = 31_536_000;
/// Greatest age in seconds that a reader may accept of a list: a day.
pub const TTL_S_MAX: u32 = 86_400;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// How much of its past a table keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Retention {
    /// All of it.
    #[default]
    All,
    /// At least what was known and valid on so many last days.
    Days(u32),
    /// None: as known before the last commit, or valid before it, it cannot be read.
    None,
}

impl Retention {
    /// Reads `keep`, `none`, or `days(n)` with 1 to [`HISTORY_DAYS_MAX`] days.
    pub fn parse(text: &str) -> Option<Retention> {
        match text {
            "keep" => Some(Retention::All),
            "none" => Some(Retention::None),
            text => {
                let days = text.strip_prefix("days(")?.strip_suffix(')')?;
                let is_plain = days.bytes().all(|byte| byte.is_ascii_digit());
                let days = days.parse().ok().filter(|_| is_plain)?;
                (1..=HISTORY_DAYS_MAX)
                    .contains(&days)
                    .then_some(Retention::Days(days))
            }
        }
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Retention::All => f.write_str("keep"),
            Retention::Days(days) => write!(f, "days({days})"),
            Retention::None => f.write_str("none"),
        }
    }
}

/// Who may look at a table at other times than now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Past {
    /// API keys alone.
    #[default]
    Keys,
    /// Also who may see a row now, and might then, at one instant.
    Both,
    /// Those who may see a row now, too, whatever its grants were then.
    Now,
}

impl Past {
    /// Reads `keys`, `both` or `now`.
    pub fn parse(text: &str) -> Option<Past> {
        [Past::Keys, Past::Both, Past::Now]
            .into_iter()
            .find(|past| past.as_str() == text)
    }

    /// As it is read.
    pub fn as_str(self) -> &'static str {
        match self {
            Past::Keys => "keys",
            Past::Both => "both",
            Past::Now => "now",
        }
    }
}

/// What the owner of a table decides, and how far it has been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// For how many seconds clients may keep an answer at fixed coordinates without asking again;
    /// 0 has them ask each time.
    pub pinned_max_age_s: u32,
    /// How much of its past is kept.
    pub history: Retention,
    /// Who may look at it.
    pub past: Past,
    /// Greatest age in seconds of a list, whatever age its reader accepts; 0 keeps lists exact.
    pub ttl_max_s: u32,
    /// The line below which nothing can be read, on either axis. It rises and never falls.
    pub kept_from: Timestamp,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            pinned_max_age_s: 0,
            history: Retention::All,
            past: Past::Keys,
            ttl_max_s: TTL_S_MAX,
            kept_from: Timestamp::BOT,
        }
    }
}

impl TableOptions {
    /// The line below which nothing can be read by a snapshot whose last commit has this instant.
    pub fn line(&self, last_commit: Timestamp) -> Timestamp {
        match self.history {
            Retention::None => self.kept_from.max(last_commit),
            Retention::All | Retention::Days(_) => self.kept_from,
        }
    }

    /// Where the line may be at `now`; never below where it is.
    pub fn line_due(&self, now: Timestamp) -> Timestamp {
        match self.history {
            Retention::Days(days) => {
                let before = i64::from(days) * DAY_US;
                self.kept_from.max(Timestamp(now.0.saturating_sub(before)))
            }
            // What ends without a commit lies above the last one, until the line is raised.
            Retention::None => self.kept_from.max(now),
            Retention::All => self.kept_from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_is_written_as_it_is_read() {
        for text in ["keep", "none", "days(1)", "days(36525)"] {
            assert_eq!(Retention::parse(text).unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "days",
            "days()",
            "days(0)",
            "days(36526)",
            "days(+1)",
            "days(1",
            "Keep",
        ] {
            assert_eq!(Retention::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn access_to_the_past_is_written_as_it_is_read() {
        for text in ["keys", "both", "now"] {
            assert_eq!(Past::parse(text).unwrap().as_str(), text);
        }
        for wrong in ["", "Keys", "as-of", "now "] {
            assert_eq!(Past::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_line_follows_the_clock_by_days_or_the_last_commit_and_never_falls() {
        let of = |history, kept_from| TableOptions {
            history,
            kept_from: Timestamp(kept_from),
            ..TableOptions::default()
        };
        let now = Timestamp(10 * DAY_US);
        let days = of(Retention::Days(3), 5);
        assert_eq!(days.line_due(now), Timestamp(7 * DAY_US));
        assert_eq!(days.line_due(Timestamp(DAY_US)), Timestamp(5));
        assert_eq!(days.line(now), Timestamp(5), "until it is carried out");
        assert_eq!(of(Retention::All, 5).line_due(now), Timestamp(5));
        assert_eq!(of(Retention::All, 5).line(now), Timestamp(5));
        assert_eq!(of(Retention::None, 5).line(now), now);
        assert_eq!(of(Retention::None, 5).line_due(now), now);
        assert_eq!(of(Retention::None, 5).line(Timestamp(1)), Timestamp(5));
        assert_eq!(TableOptions::default().line(now), Timestamp::BOT);
    }
}
