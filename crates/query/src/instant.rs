//! Instants as clients write them, wherever they do: in queries, row data and bodies.

use model::calendar::{DATETIME_MAX, DATETIME_MIN, parse_iso};
use model::{Json, Mark, Timestamp};

/// Longest text that a refusal repeats, in characters.
const SHOWN_CHARS_MAX: usize = 60;

/// An instant of valid time: a date and time as text with up to six digits of a second, or
/// microseconds since 1970 as an integer, of the years 0000 to 9999. `"min"` is the beginning of
/// time; its end is none.
///
/// # Errors
/// Why `json` is none, as the rest of a sentence.
pub fn instant(json: &Json) -> Result<Timestamp, String> {
    match json {
        // Answers that name times as integers say so of the beginning of time.
        Json::Int(i64::MIN) => Ok(Timestamp::BOT),
        Json::Int(us) if (DATETIME_MIN.0..=DATETIME_MAX.0).contains(us) => Ok(Timestamp(*us)),
        Json::Int(us) => Err(format!(
            "{us} microseconds since 1970 lie outside the years 0000 to 9999"
        )),
        Json::Text(text) if text == "min" => Ok(Timestamp::BOT),
        Json::Text(text) => parse_iso(text).ok_or_else(|| no_time(text)),
        other => Err(format!(
            "expected a date and time as text, or microseconds since 1970 as an integer, got {}",
            other.kind()
        )),
    }
}

/// A mark: as [`instant`], and any integer, since which marks there are is said by the horizon.
///
/// # Errors
/// As there.
pub fn mark(json: &Json) -> Result<Mark, String> {
    match json {
        Json::Int(us) => Ok(Mark(*us)),
        other => Ok(Mark(instant(other)?.0)),
    }
}

fn no_time(text: &str) -> String {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let shown = shown(text);
        return format!(
            "the text `{shown}` may be a year or microseconds: write a whole date such as \
             2026-01-31, or microseconds as an integer"
        );
    }
    let shown = shown(text);
    format!(
        "the text `{shown}` is no date and time such as 2026-01-31T10:00:00Z, of the years 0000 \
         to 9999"
    )
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Json {
        Json::Text(text.to_owned())
    }

    #[test]
    fn instants_are_texts_or_microseconds() {
        let read = |json: &Json| instant(json).map(|at| at.0);
        assert_eq!(read(&Json::Int(5)), Ok(5));
        assert_eq!(read(&Json::Int(-7)), Ok(-7));
        assert_eq!(read(&text("1970-01-01T00:00:00.000005Z")), Ok(5));
        assert_eq!(read(&text("1970-01-01")), Ok(0));
        assert_eq!(read(&text("min")), Ok(i64::MIN));
        assert_eq!(read(&Json::Int(i64::MIN)), Ok(i64::MIN));
        assert_eq!(
            read(&text("9999-12-31T23:59:59.999999Z")),
            Ok(DATETIME_MAX.0)
        );
    }

    #[test]
    fn instants_of_other_forms_are_refused_by_their_form() {
        for (json, why) in [
            (text("2026"), "may be a year or microseconds"),
            (text("-7"), "may be a year or microseconds"),
            (text("1767225600000000"), "may be a year or microseconds"),
            (text("2026-01"), "no date and time"),
            (text("soon"), "no date and time"),
            (text("next"), "no date and time"),
            (text("Min"), "no date and time"),
            (text(""), "no date and time"),
            (text("12026-01-01"), "no date and time"),
            (text("9999-12-31T23:59:59-01:00"), "no date and time"),
            (text("0000-01-01T00:00:00+01:00"), "no date and time"),
            (Json::Int(DATETIME_MAX.0 + 1), "outside the years"),
            (Json::Int(DATETIME_MIN.0 - 1), "outside the years"),
            (Json::Int(i64::MIN + 1), "outside the years"),
            (Json::Float(1.0), "got"),
            (Json::Bool(true), "got"),
            (Json::Null, "got"),
        ] {
            let refused = instant(&json).unwrap_err();
            assert!(refused.contains(why), "{json:?}: {refused}");
        }
        let long = instant(&text(&"x".repeat(5_000))).unwrap_err();
        assert!(long.len() < 200, "{long}");
    }

    #[test]
    fn a_mark_may_lie_beyond_all_years() {
        assert_eq!(mark(&Json::Int(i64::MAX - 1)), Ok(Mark(i64::MAX - 1)));
        assert_eq!(mark(&text("1970-01-01")), Ok(Mark(0)));
        assert!(mark(&text("7")).is_err());
    }
}
