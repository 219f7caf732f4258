//! Memory for bodies: what requests hold of it, and in whose share it counts.
//!
//! Callers with a key have memory of their own, so what guests hold never refuses a key. Of the
//! guests' memory one address has a part, so that one client cannot shut the others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rate::group;
use crate::http::wire::error::{ApiError, Kind};
use crate::serve::Limits;

/// So many bytes of each body are not counted, so that a few clients with large bodies cannot
/// keep others from writing rows. Also the most that an announced length reserves before it has
/// come: an announcement costs a client nothing.
pub const FREE_BYTES: usize = 16 * 1_024;

/// An address has at most one of so many parts of the guests' memory, and room for one body.
const ADDRESS_PARTS: usize = 4;

/// In whose share of the budget a body counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// That of callers with an API key.
    Keys,
    /// That of all others, and in it that of the address which they call from.
    Guests(IpAddr),
}

/// Counts the bytes of the bodies that all requests hold together, beyond [`FREE_BYTES`] of each.
#[derive(Debug)]
pub struct Budget {
    keys: Pool,
    guests: Pool,
    address_bytes_max: usize,
    /// What guests hold, by network; those that hold nothing are not in it.
    networks: Mutex<HashMap<u128, usize>>,
}

#[derive(Debug)]
struct Pool {
    held: AtomicUsize,
    bytes_max: usize,
}

impl Pool {
    fn new(bytes_max: usize) -> Pool {
        Pool {
            held: AtomicUsize::new(0),
            bytes_max,
        }
    }

    fn take(&self, bytes: usize) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.bytes_max;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Budget {
    /// A budget of which nothing is taken.
    pub fn new(limits: &Limits) -> Budget {
        let guests_bytes_max = limits.guest_bodies_bytes_max;
        let part = (guests_bytes_max / ADDRESS_PARTS).max(limits.body_bytes_max);
        Budget {
            keys: Pool::new(limits.bodies_bytes_max),
            guests: Pool::new(guests_bytes_max),
            address_bytes_max: part.min(guests_bytes_max),
            networks: Mutex::default(),
        }
    }

    fn take(&self, share: Share, bytes: usize) -> Result<(), ApiError> {
        match share {
            Share::Keys if self.keys.take(bytes) => Ok(()),
            Share::Keys => Err(refusal("bodies that are being read", self.keys.bytes_max)),
            Share::Guests(address) => self.take_for(address, bytes),
        }
    }

    fn take_for(&self, address: IpAddr, bytes: usize) -> Result<(), ApiError> {
        let mut networks = self.networks.lock().expect("no thread panics holding it");
        let network = group(address);
        let held = networks.get(&network).copied().unwrap_or_default();
        if held + bytes > self.address_bytes_max {
            let whose = "bodies without an API key from one address";
            return Err(refusal(whose, self.address_bytes_max));
        }
        if !self.guests.take(bytes) {
            let whose = "bodies without an API key";
            return Err(refusal(whose, self.guests.bytes_max));
        }
        networks.insert(network, held + bytes);
        Ok(())
    }

    fn give_back(&self, share: Share, bytes: usize) {
        let Share::Guests(address) = share else {
            return self.keys.give_back(bytes);
        };
        self.guests.give_back(bytes);
        let mut networks = self.networks.lock().expect("no thread panics holding it");
        let network = group(address);
        if let Some(held) = networks.get_mut(&network) {
            *held -= bytes;
            if *held == 0 {
                networks.remove(&network);
            }
        }
    }
}

fn refusal(whose: &str, bytes_max: usize) -> ApiError {
    let message = format!(
        "The server holds {bytes_max} bytes of {whose} at most, beyond {FREE_BYTES} of each. \
         Try again later."
    );
    ApiError::new(Kind::ServiceUnavailable, message)
}

/// What one body takes of a budget, until it is dropped.
#[derive(Debug)]
pub struct Counted<'a> {
    budget: &'a Budget,
    share: Option<Share>,
    read: usize,
    taken: usize,
}

impl<'a> Counted<'a> {
    /// Of a body of which nothing has come.
    pub fn new(budget: &'a Budget) -> Counted<'a> {
        Counted {
            budget,
            share: None,
            read: 0,
            taken: 0,
        }
    }

    /// The share that the body counts in.
    ///
    /// # Errors
    /// The refusal of `share`.
    pub fn belongs_to(
        &mut self,
        share: impl Fn() -> Result<Share, ApiError>,
    ) -> Result<Share, ApiError> {
        let known = self.share.map_or_else(share, Ok)?;
        self.share = Some(known);
        Ok(known)
    }

    /// Counts so many more bytes.
    ///
    /// # Errors
    /// More than the share bears; the refusal of `share`.
    pub fn add(
        &mut self,
        bytes: usize,
        share: impl Fn() -> Result<Share, ApiError>,
    ) -> Result<(), ApiError> {
        self.read += bytes;
        let bytes = self.read.saturating_sub(FREE_BYTES) - self.taken;
        if bytes == 0 {
            return Ok(());
        }
        let share = self.belongs_to(share)?;
        self.budget.take(share, bytes)?;
        self.taken += bytes;
        Ok(())
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(share) = self.share {
            self.budget.give_back(share, self.taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn budget(keys: usize, guests: usize, body: usize) -> Budget {
        Budget::new(&Limits {
            connections_max: 1,
            head_bytes_max: 8_192,
            body_bytes_max: body,
            bodies_bytes_max: keys,
            guest_bodies_bytes_max: guests,
            guest_rate: 0,
            guest_executions: 0,
            guest_executions_bytes_max: 0,
            answer_bytes_max: 1,
            answers_bytes_max: 1,
            head_ms: 1,
            body_ms: 1,
            idle_ms: 1,
            rate_bytes_min: 1,
            stream_ms: 5_000,
            drain_ms: 1,
        })
    }

    fn guest(last: u8) -> Share {
        Share::Guests(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
    }

    /// A body of so many bytes beyond those that are free, if the budget bears it.
    fn body(budget: &Budget, share: Share, bytes: usize) -> Option<Counted<'_>> {
        let mut counted = Counted::new(budget);
        counted.add(FREE_BYTES + bytes, || Ok(share)).ok()?;
        Some(counted)
    }

    #[test]
    fn bodies_of_guests_never_refuse_a_key() {
        let budget = budget(100, 40, 10);
        let held: Vec<_> = (0..4)
            .map(|n| body(&budget, guest(n), 10).unwrap())
            .collect();
        assert!(
            body(&budget, guest(9), 1).is_none(),
            "the guests' part is full"
        );
        let keys = body(&budget, Share::Keys, 100).unwrap();
        assert!(body(&budget, Share::Keys, 1).is_none());
        drop(held);
        assert!(
            body(&budget, guest(9), 1).is_some(),
            "what keys hold refuses no guest"
        );
        drop(keys);
        assert!(body(&budget, Share::Keys, 100).is_some());
        assert!(budget.networks.lock().unwrap().is_empty());
    }

    #[test]
    fn an_address_has_a_part_of_what_guests_have_and_room_for_one_body() {
        let small = budget(0, 40, 1);
        let first = body(&small, guest(1), 10).unwrap();
        assert!(body(&small, guest(1), 1).is_none());
        assert!(body(&small, guest(2), 10).is_some());
        drop(first);
        assert!(body(&small, guest(1), 10).is_some());
        let large = budget(0, 40, 30);
        assert!(body(&large, guest(1), 30).is_some());
        assert!(body(&large, guest(1), 31).is_none());
    }

    #[test]
    fn a_refused_body_takes_nothing_and_small_ones_belong_to_nobody() {
        let budget = budget(10, 10, 10);
        let refuse = || Err(ApiError::new(Kind::Unauthorized, "no"));
        let mut counted = Counted::new(&budget);
        counted.add(FREE_BYTES, refuse).unwrap();
        assert!(counted.add(1, refuse).is_err());
        assert!(body(&budget, Share::Keys, 11).is_none());
        assert!(body(&budget, Share::Keys, 10).is_some());
    }
}
