//! Ids of containers and rows that the server makes.

use model::Timestamp;

use crate::http::head::request_ids::random;
use crate::rng::Rng;

/// What clients send where the server is to choose an id.
pub const UNIQUE: &str = "unique()";

/// A new id of 20 characters: 8 hex digits of seconds, 5 of microseconds, 7 of chance. The
/// official clients make theirs alike, so both sort by time.
pub fn unique_id(now: Timestamp, rng: Rng) -> String {
    let (seconds, microseconds) = (
        now.0.div_euclid(1_000_000) as u32,
        now.0.rem_euclid(1_000_000),
    );
    let chance = random(rng) & 0x0fff_ffff;
    format!("{seconds:08x}{microseconds:05x}{chance:07x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_time_and_chance() {
        let now = Timestamp(0x6b00_f557 * 1_000_000 + 999_999);
        assert_eq!(
            unique_id(now, |bytes| bytes.fill(0x11)),
            "6b00f557f423f1111111"
        );
        assert_eq!(
            unique_id(Timestamp(0), |bytes| bytes.fill(0xff)),
            "0000000000000fffffff"
        );
    }
}
