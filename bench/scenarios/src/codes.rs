//! Samples as text: two characters each, on a logarithmic scale. The page has the same table
//! (bench/report/src/codes.js); a test of each reads the other's words.

use std::time::Duration;

/// Printable ASCII but `"&'<>\` and the backtick: nothing that HTML or JSON would escape.
const LETTERS: &[u8; 87] =
    b"!#$%()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~";
/// The shortest time that can be shown.
const LEAST_S: f64 = 1e-7;
/// Ten decades, from 100 ns to 1,000 s.
const DECADES: f64 = 10.0;
const GREATEST: f64 = (LETTERS.len() * LETTERS.len() - 1) as f64;

/// Times as text, each within 0.16 % of the one given; those outside the scale go to its end.
pub fn encode(times: impl IntoIterator<Item = Duration>) -> String {
    let mut text = String::new();
    for time in times {
        let place = (time.as_secs_f64() / LEAST_S).log10() / DECADES * GREATEST;
        let code = place.round().clamp(0.0, GREATEST) as usize;
        for letter in [code / LETTERS.len(), code % LETTERS.len()] {
            text.push(char::from(LETTERS[letter]));
        }
    }
    text
}

/// Text as times; `None` where it is none that [`encode`] writes.
pub fn decode(text: &str) -> Option<Vec<Duration>> {
    let place = |letter: &u8| LETTERS.iter().position(|known| known == letter);
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let [high, low] = pair else { return None };
            let code = place(high)? * LETTERS.len() + place(low)?;
            let seconds = LEAST_S * 10_f64.powf(code as f64 * DECADES / GREATEST);
            Some(Duration::from_secs_f64(seconds))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_back_within_half_a_step_of_the_scale() {
        let mut ns = 100_u64;
        while ns < 900_000_000_000 {
            let time = Duration::from_nanos(ns);
            let back = decode(&encode([time])).unwrap()[0];
            let apart = back.abs_diff(time).as_nanos() as f64;
            // A duration has whole nanoseconds.
            assert!(
                apart <= 0.0016 * ns as f64 + 0.5,
                "{ns} ns came back as {back:?}"
            );
            ns += ns / 7 + 1;
        }
    }

    #[test]
    fn words_are_those_that_the_page_reads() {
        let us = [0, 1, 75, 1_234, 1_000_000, 5_000_000_000].map(Duration::from_micros);
        assert_eq!(encode(us), "!!,e?#IYdv~~");
    }

    #[test]
    fn other_text_is_no_samples() {
        assert_eq!(decode("!"), None);
        assert_eq!(decode("!<"), None);
        assert_eq!(decode(""), Some(Vec::new()));
    }
}
