//! How many streams of lines are open, and the end of all of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::http::wire::error::{ApiError, Kind};

/// Most streams of callers with a key at once: each may hold a line of the greatest length and
/// the answers to a group.
const STREAMS_MAX: usize = 64;
/// The same of all others, who take none from a key.
const GUEST_STREAMS_MAX: usize = 16;
/// Of these one address has so many, so that one client cannot shut the others out.
const ADDRESS_STREAMS_MAX: usize = GUEST_STREAMS_MAX / 4;

/// The streams of all threads.
#[derive(Debug)]
pub struct Streams {
    of_keys: AtomicUsize,
    /// The network of each one that is open: see [`group`](super::rate::group).
    of_guests: Mutex<Vec<u128>>,
    /// Whether the server ends.
    pub(in crate::http) ending: watch::Sender<bool>,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            of_keys: AtomicUsize::new(0),
            of_guests: Mutex::default(),
            ending: watch::Sender::new(false),
        }
    }
}

impl Streams {
    /// Lets each stream answer the lines that it has taken, and end.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    fn guests(&self) -> MutexGuard<'_, Vec<u128>> {
        // No step on it can fail half-way.
        self.of_guests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream among those that may be open.
pub(in crate::http) struct Place {
    streams: Arc<Streams>,
    /// Where a caller without a key is.
    network: Option<u128>,
}

impl Place {
    pub(in crate::http) fn take(
        streams: &Arc<Streams>,
        network: Option<u128>,
    ) -> Result<Place, ApiError> {
        if let Some(network) = network {
            Place::take_for(&mut streams.guests(), network)?;
        } else {
            let open = &streams.of_keys;
            if open.fetch_add(1, Ordering::Relaxed) >= STREAMS_MAX {
                open.fetch_sub(1, Ordering::Relaxed);
                return Err(too_many(STREAMS_MAX, "of API keys"));
            }
        }
        Ok(Place {
            streams: streams.clone(),
            network,
        })
    }

    fn take_for(open: &mut Vec<u128>, network: u128) -> Result<(), ApiError> {
        if open.iter().filter(|one| **one == network).count() >= ADDRESS_STREAMS_MAX {
            let whose = "without an API key from one address";
            return Err(too_many(ADDRESS_STREAMS_MAX, whose));
        }
        if open.len() >= GUEST_STREAMS_MAX {
            return Err(too_many(GUEST_STREAMS_MAX, "without an API key"));
        }
        open.push(network);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let streams = &self.streams;
        let Some(network) = self.network else {
            streams.of_keys.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let mut open = streams.guests();
        if let Some(place) = open.iter().position(|one| *one == network) {
            open.swap_remove(place);
        }
    }
}

fn too_many(streams_max: usize, whose: &str) -> ApiError {
    let message =
        format!("At most {streams_max} streams {whose} may be open at once. Try again later.");
    ApiError::new(Kind::ServiceUnavailable, message)
}
