//! How many requests an address may send that carry no API key.
//!
//! The table has a fixed size and holds no addresses: an address leads to two places, which each
//! hold the instant up to which its requests are paid for (a token bucket as a single number, known
//! as GCRA). Who shares one place with a busy address is still admitted by the other, and no caller
//! can say which addresses share both: the numbers are drawn at the start.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rng::Rng;

/// Places of each of the two halves: 128 KiB together.
const PLACES: usize = 1 << 13;
/// A bucket holds the requests of so long a time, in microseconds.
const BURST_US: u64 = 1_000_000;

/// The requests of all addresses that send no API key.
pub struct GuestRate {
    /// Requests of a second.
    pub(in crate::http) per_s: u32,
    /// Where each half finds an address.
    seeds: [u64; 2],
    paid_to_us: [Box<[AtomicU64]>; 2],
}

impl GuestRate {
    /// At most so many requests a second from one address; `None` for any number.
    pub fn new(per_s: u32, rng: Rng) -> Option<GuestRate> {
        if per_s == 0 {
            return None;
        }
        let mut chance = [0; 16];
        rng(&mut chance);
        let chance = u128::from_ne_bytes(chance);
        let places = || (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Some(GuestRate {
            per_s,
            seeds: [chance as u64, (chance >> 64) as u64],
            paid_to_us: [places(), places()],
        })
    }

    /// Whether this address may send a request now.
    pub(in crate::http) fn takes(&self, address: IpAddr, now_us: u64) -> bool {
        let who = group(address);
        let each_us = (BURST_US / u64::from(self.per_s)).max(1);
        let pay = |half: usize| {
            let hash = mixed(who, self.seeds[half]);
            let place = &self.paid_to_us[half][hash as usize % PLACES];
            // Read and written apart: what two threads pay at one instant may count once.
            let paid_us = place.load(Ordering::Relaxed).max(now_us) + each_us;
            let fits = paid_us <= now_us + BURST_US;
            if fits {
                place.store(paid_us, Ordering::Relaxed);
            }
            fits
        };
        // Both pay, also where the first one has room.
        let fits = [pay(0), pay(1)];
        fits.contains(&true)
    }
}

/// An IPv6 network of 64 bits counts as one address: its holder can use all of it.
pub fn group(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

/// As [`group`], for people to read.
pub fn shown(address: IpAddr) -> IpAddr {
    let group = std::net::Ipv6Addr::from_bits(group(address));
    IpAddr::V6(group).to_canonical()
}

/// A number that cannot be predicted without the seed (two rounds of multiply and fold).
fn mixed(who: u128, seed: u64) -> u64 {
    let fold = |product: u128| (product as u64) ^ ((product >> 64) as u64);
    let low = fold(u128::from((who as u64) ^ seed) * u128::from(seed | 1));
    let high = ((who >> 64) as u64) ^ low.rotate_left(32);
    fold(u128::from(high ^ seed.rotate_left(17)) * u128::from(seed.rotate_left(41) | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_s: u32) -> GuestRate {
        let chance: Rng = |bytes| {
            for (place, byte) in bytes.iter_mut().enumerate() {
                *byte = (place as u8).wrapping_mul(151).wrapping_add(77);
            }
        };
        GuestRate::new(per_s, chance).unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// How many of `count` requests at this instant are admitted.
    fn taken(rate: &GuestRate, address: &str, now_us: u64, count: usize) -> usize {
        (0..count)
            .filter(|_| rate.takes(ip(address), now_us))
            .count()
    }

    #[test]
    fn an_address_has_its_requests_of_a_second_and_then_one_at_a_time() {
        let rate = rate(10);
        let began = 5_000_000;
        assert_eq!(taken(&rate, "192.0.2.1", began, 50), 10);
        assert_eq!(taken(&rate, "192.0.2.1", began + 99_999, 50), 0);
        assert_eq!(taken(&rate, "192.0.2.1", began + 100_000, 50), 1);
        assert_eq!(taken(&rate, "192.0.2.1", began + 60_000_000, 50), 10);
        // Over any time it has so many and no more.
        let many: usize = (0..1_000)
            .map(|ms| taken(&rate, "192.0.2.9", began + ms * 10_000, 3))
            .sum();
        assert!((100..=110).contains(&many), "{many} in ten seconds");
    }

    #[test]
    fn one_address_takes_nothing_from_others() {
        let rate = rate(5);
        assert_eq!(taken(&rate, "192.0.2.1", 1, 10_000), 5);
        for last in 2..250 {
            assert_eq!(taken(&rate, &format!("192.0.2.{last}"), 1, 9), 5, "{last}");
        }
    }

    #[test]
    fn a_network_of_64_bits_is_one_address_and_a_mapped_one_is_the_same() {
        let rate = rate(4);
        let mut admitted = 0;
        for host in 0..100 {
            admitted += taken(&rate, &format!("2001:db8:1:2::{host:x}"), 1, 1);
        }
        assert_eq!(admitted, 4);
        assert_eq!(taken(&rate, "2001:db8:1:3::1", 1, 9), 4);
        assert_eq!(taken(&rate, "192.0.2.1", 1, 2), 2);
        assert_eq!(taken(&rate, "::ffff:192.0.2.1", 1, 9), 2);
        assert_eq!(shown(ip("2001:db8:1:2::9")).to_string(), "2001:db8:1:2::");
        assert_eq!(shown(ip("::ffff:192.0.2.1")).to_string(), "192.0.2.1");
    }

    #[test]
    fn no_rate_keeps_no_table() {
        assert!(GuestRate::new(0, |_| {}).is_none());
    }
}
