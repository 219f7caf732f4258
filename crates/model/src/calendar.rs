//! ISO 8601 text to instants and back.
//!
//! Written here because `model` has no outside crates; the day arithmetic is the well-known
//! shift of the year's start to March, which puts the leap day last.

use std::fmt;

use crate::time::Timestamp;

const DAY_S: i64 = 86_400;

/// The first instant that can be written: 0000-01-01T00:00:00.
pub const DATETIME_MIN: Timestamp = Timestamp(-62_167_219_200_000_000);
/// The last one: 9999-12-31T23:59:59.999999.
pub const DATETIME_MAX: Timestamp = Timestamp(253_402_300_799_999_999);

/// Days from 1970-01-01 to the given day of the proleptic Gregorian calendar.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Eats fixed-width decimal numbers and separators from the front of a text.
struct DecimalReader<'a> {
    rest: &'a [u8],
}

impl DecimalReader<'_> {
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (head, rest) = self.rest.split_at_checked(digits)?;
        if !head.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.rest = rest;
        Some(
            head.iter()
                .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')),
        )
    }

    fn eat(&mut self, wanted: &[u8]) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if wanted.contains(first) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// A fraction of a second of any length, in microseconds, the rest cut off.
    fn fraction_us(&mut self) -> Option<i64> {
        let digits = self
            .rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits == 0 {
            return None;
        }
        let (head, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let digit = |at: usize| head.get(at).map_or(0, |byte| i64::from(byte - b'0'));
        Some((0..6).fold(0, |sum, at| sum * 10 + digit(at)))
    }

    /// `Z`, `+hh:mm`, `-hhmm`, `+hh` or nothing (which means UTC), in seconds east of UTC.
    fn offset_s(&mut self) -> Option<i64> {
        if self.rest.is_empty() || self.eat(b"Zz") {
            return Some(0);
        }
        let sign = if self.eat(b"+") {
            1
        } else if self.eat(b"-") {
            -1
        } else {
            return None;
        };
        let hours = self.number(2)?;
        let minutes = if self.rest.is_empty() {
            0
        } else {
            self.eat(b":");
            self.number(2)?
        };
        (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
    }
}

/// Reads `YYYY-MM-DD`, optionally followed by `T` or a space, `hh:mm`, `:ss`, a fraction, and
/// an offset. Without an offset the text is UTC. Years 0000 to 9999.
pub fn parse_iso(text: &str) -> Option<Timestamp> {
    let mut reader = DecimalReader {
        rest: text.as_bytes(),
    };
    let year = reader.number(4)?;
    let month = reader.eat(b"-").then(|| reader.number(2))??;
    let day = reader.eat(b"-").then(|| reader.number(2))??;
    let legal = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !legal {
        return None;
    }
    let mut instant_us = days_from_civil(year, month, day) * DAY_S * 1_000_000;
    if reader.eat(b"Tt ") {
        instant_us += time_of_day_us(&mut reader)?;
        instant_us -= reader.offset_s()? * 1_000_000;
    }
    // An offset may lead out of the years that can be written.
    let instant = Timestamp(instant_us);
    let legal = (DATETIME_MIN..=DATETIME_MAX).contains(&instant);
    (legal && reader.rest.is_empty()).then_some(instant)
}

fn time_of_day_us(reader: &mut DecimalReader<'_>) -> Option<i64> {
    let hour = reader.number(2)?;
    let minute = reader.eat(b":").then(|| reader.number(2))??;
    let second = if reader.eat(b":") {
        reader.number(2)?
    } else {
        0
    };
    let fraction_us = if reader.eat(b".,") {
        reader.fraction_us()?
    } else {
        0
    };
    // A leap second is read as the second before it: instants here have no leap seconds.
    let legal = hour <= 23 && minute <= 59 && second <= 60;
    legal.then(|| (hour * 3_600 + minute * 60 + second.min(59)) * 1_000_000 + fraction_us)
}

/// Appends `YYYY-MM-DDTHH:MM:SS.mmm+00:00`, the form the wire protocol uses everywhere.
///
/// Instants outside years 0000 to 9999 do not reach this function from any parser; they are
/// written with the year as it is.
pub fn write_iso_ms(instant: Timestamp, out: &mut Vec<u8>) {
    let ms = instant.0.div_euclid(1_000);
    let (days, ms_of_day) = (ms.div_euclid(DAY_S * 1_000), ms.rem_euclid(DAY_S * 1_000));
    let (year, month, day) = civil_from_days(days);
    // Below 2^32, in which dividing is cheaper.
    let (ms_of_day, second_of_day) = (ms_of_day as u32, ms_of_day as u32 / 1_000);
    let mut text = *b"0000-00-00T00:00:00.000+00:00";
    for (place, number) in [
        (5, month as u32),
        (8, day as u32),
        (11, second_of_day / 3_600),
        (14, second_of_day / 60 % 60),
        (17, second_of_day % 60),
        // Of three digits the last two.
        (21, ms_of_day % 100),
    ] {
        text[place..place + 2].copy_from_slice(&PAIRS[number as usize]);
    }
    text[20] = b'0' + (ms_of_day % 1_000 / 100) as u8;
    if (0..=9_999).contains(&year) {
        text[..2].copy_from_slice(&PAIRS[year as usize / 100]);
        text[2..4].copy_from_slice(&PAIRS[year as usize % 100]);
        out.extend_from_slice(&text);
    } else {
        out.extend_from_slice(format!("{year:05}").as_bytes());
        out.extend_from_slice(&text[4..]);
    }
}

/// The instant as `YYYY-MM-DDTHH:MM:SS.uuuuuu+00:00`, with all its digits.
pub fn iso_us(instant: Timestamp) -> String {
    let ms = iso_ms(instant);
    let (before, zone) = ms.split_at(ms.len() - "+00:00".len());
    format!("{before}{:03}{zone}", instant.0.rem_euclid(1_000))
}

/// As messages show it: ISO 8601 with microseconds, of an instant that the calendar has.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Timestamp::BOT => f.write_str("the beginning of time"),
            Timestamp::END => f.write_str("the end of time"),
            instant if (DATETIME_MIN..=DATETIME_MAX).contains(&instant) => {
                f.write_str(&iso_us(instant))
            }
            Timestamp(us) => write!(f, "{us} microseconds since 1970"),
        }
    }
}

/// The two digits of each number below a hundred. Copied instead of divided for: a list of 25 rows
/// writes 50 instants.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// [`write_iso_ms`] as a text of its own.
pub fn iso_ms(instant: Timestamp) -> String {
    let mut out = Vec::with_capacity(29);
    write_iso_ms(instant, &mut out);
    String::from_utf8(out).expect("digits and separators are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, written: Option<&str>) {
        assert_eq!(parse_iso(text).map(iso_ms).as_deref(), written, "{text}");
    }

    #[test]
    fn message_shows_any_instant() {
        for (instant, expected) in [
            (Timestamp(-1), "1969-12-31T23:59:59.999999+00:00"),
            (Timestamp::BOT, "the beginning of time"),
            (Timestamp::END, "the end of time"),
            (DATETIME_MIN, "0000-01-01T00:00:00.000000+00:00"),
            (DATETIME_MAX, "9999-12-31T23:59:59.999999+00:00"),
            (
                Timestamp(DATETIME_MAX.0 + 1),
                "253402300800000000 microseconds since 1970",
            ),
        ] {
            assert_eq!(instant.to_string(), expected);
        }
    }

    #[test]
    fn instants_are_written_to_the_microsecond() {
        for (us, text) in [
            (5, "1970-01-01T00:00:00.000005+00:00"),
            (-1, "1969-12-31T23:59:59.999999+00:00"),
            (1_767_225_600_123_456, "2026-01-01T00:00:00.123456+00:00"),
        ] {
            assert_eq!(iso_us(Timestamp(us)), text);
            assert_eq!(parse_iso(text), Some(Timestamp(us)));
        }
    }

    #[test]
    fn each_digit_of_an_instant_is_written() {
        let step_us = 37 * DAY_S * 1_000_000 + 3_661_007_000;
        let mut us = DATETIME_MIN.0;
        while us <= DATETIME_MAX.0 {
            let ms = us.div_euclid(1_000);
            let (days, of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
            let (year, month, day) = civil_from_days(days);
            let (second, ms) = (of_day / 1_000, of_day % 1_000);
            let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
            let wanted = format!(
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00"
            );
            assert_eq!(iso_ms(Timestamp(us)), wanted);
            us += step_us;
        }
    }

    #[test]
    fn readable_texts_come_back_in_the_wire_form() {
        check("1970-01-01", Some("1970-01-01T00:00:00.000+00:00"));
        check(
            "2026-11-21T01:02:03.004+00:00",
            Some("2026-11-21T01:02:03.004+00:00"),
        );
        check(
            "2026-11-21T01:02:03.0049Z",
            Some("2026-11-21T01:02:03.004+00:00"),
        );
        check("2026-11-21 01:02", Some("2026-11-21T01:02:00.000+00:00"));
        check(
            "2026-11-21T01:02:03+02:30",
            Some("2026-11-20T22:32:03.000+00:00"),
        );
        check(
            "2026-11-21T01:02:03-0800",
            Some("2026-11-21T09:02:03.000+00:00"),
        );
        check(
            "2024-02-29T23:59:60Z",
            Some("2024-02-29T23:59:59.000+00:00"),
        );
        check(
            "0000-01-01T00:00:00Z",
            Some("0000-01-01T00:00:00.000+00:00"),
        );
        check(
            "9999-12-31T23:59:59.999Z",
            Some("9999-12-31T23:59:59.999+00:00"),
        );
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "now",
            "2026",
            "2026-13-01",
            "2026-00-01",
            "2026-02-30",
            "2023-02-29",
            "2026-11-21T",
            "2026-11-21T25:00Z",
            "2026-11-21T10:60Z",
            "2026-11-21T10:00:00.Z",
            "2026-11-21T10:00:00+24:00",
            "2026-11-21T10:00:00Zx",
            "20261121",
            "２026-11-21",
            "12026-11-21",
            "2026-11-21Z10:00",
            "9999-12-31T23:59:59-01:00",
            "0000-01-01T00:00:00+01:00",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn every_day_of_four_centuries_survives_the_round_trip() {
        for days in days_from_civil(1800, 1, 1)..days_from_civil(2200, 1, 1) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!((1..=days_in_month(year, month)).contains(&day));
        }
    }
}
