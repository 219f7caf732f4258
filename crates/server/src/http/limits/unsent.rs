//! Answers that wait until their clients have taken them, counted in bytes.
//!
//! A thread writes its own counts only, by plain loads and stores (see [`engine::tally`]), and adds
//! up those of all threads when a large answer comes. Small ones are not counted: a cached list of
//! usual size pays for none of this.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use engine::tally::Count;

/// An answer of up to so many bytes is not counted: clients that leave large ones untaken cannot
/// keep others from reading rows.
pub use super::body_budget::FREE_BYTES;
use crate::http::wire::error::{ApiError, Kind};

/// Callers without a key have this part of all bytes together: `1 / GUESTS_PART`. The rest is
/// left to those with one, whatever guests do.
const GUESTS_PART: usize = 2;

/// What all threads have to send.
#[derive(Debug)]
pub struct Answers {
    threads: Box<[OfThread]>,
    bytes_max: usize,
}

/// What one thread has to send, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OfThread {
    bytes: Count,
    /// Of these, for callers without a key.
    of_guests: Count,
}

/// The answers of one thread.
#[derive(Debug)]
pub struct Sending {
    all: Arc<Answers>,
    thread: usize,
    /// By the address of its bytes, each body that is being sent: one that the list cache holds may
    /// be sent to many, and takes its memory once.
    bodies: RefCell<HashMap<usize, Body>>,
}

#[derive(Debug)]
struct Body {
    bytes: u64,
    of_guest: bool,
    answers: usize,
}

/// An answer that counts until this is dropped. The bytes must live as long.
pub struct Untaken {
    sending: Rc<Sending>,
    address: usize,
}

impl Answers {
    /// Counts the answers of so many threads.
    pub fn new(threads: usize, bytes_max: usize) -> Arc<Answers> {
        Arc::new(Answers {
            threads: (0..threads.max(1)).map(|_| OfThread::default()).collect(),
            bytes_max,
        })
    }

    /// Bytes that wait, and those of callers without a key among them.
    fn waiting(&self) -> (u64, u64) {
        let threads = self.threads.iter();
        threads.fold((0, 0), |(bytes, of_guests), thread| {
            (
                bytes + thread.bytes.get(),
                of_guests + thread.of_guests.get(),
            )
        })
    }

    fn need_room(&self, bytes: u64, of_guest: bool) -> Result<(), ApiError> {
        let (waiting, of_guests) = self.waiting();
        let bytes_max = self.bytes_max as u64;
        let has_room = waiting + bytes <= bytes_max
            && (!of_guest || of_guests + bytes <= bytes_max / GUESTS_PART as u64);
        if has_room {
            return Ok(());
        }
        let message = format!(
            "Too many large answers wait for their clients: {bytes_max} bytes may, those of \
             callers without a key up to 1/{GUESTS_PART} of it. Try again later, or ask for less."
        );
        Err(ApiError::new(Kind::ServiceUnavailable, message))
    }
}

impl Sending {
    /// The answers of the thread with this number.
    pub fn new(all: Arc<Answers>, thread: usize) -> Rc<Sending> {
        Rc::new(Sending {
            all,
            thread,
            bodies: RefCell::default(),
        })
    }

    /// Counts an answer in these pieces; `None` for a small one.
    ///
    /// # Errors
    /// More bytes than may wait.
    pub fn take(
        self: &Rc<Sending>,
        pieces: &[Bytes; 3],
        of_guest: bool,
    ) -> Result<Option<Untaken>, ApiError> {
        self.hold(pieces, of_guest, true)
    }

    /// Whether an answer of about so many bytes would be refused: asked before it is made.
    ///
    /// # Errors
    /// More bytes than may wait.
    pub fn need_room(&self, bytes: usize, of_guest: bool) -> Result<(), ApiError> {
        if bytes <= FREE_BYTES {
            return Ok(());
        }
        self.all.need_room(bytes as u64, of_guest)
    }

    /// Counts an answer that must be given, because what it tells of has been done.
    pub fn owe(self: &Rc<Sending>, pieces: &[Bytes; 3], of_guest: bool) -> Option<Untaken> {
        self.hold(pieces, of_guest, false).ok().flatten()
    }

    fn hold(
        self: &Rc<Sending>,
        pieces: &[Bytes; 3],
        of_guest: bool,
        may_refuse: bool,
    ) -> Result<Option<Untaken>, ApiError> {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        if bytes <= FREE_BYTES {
            return Ok(None);
        }
        let largest = pieces.iter().max_by_key(|piece| piece.len());
        let address = largest.map_or(0, |piece| piece.as_ptr().addr());
        match self.bodies.borrow_mut().entry(address) {
            Entry::Occupied(mut body) => body.get_mut().answers += 1,
            Entry::Vacant(place) => {
                let bytes = bytes as u64;
                if may_refuse {
                    self.all.need_room(bytes, of_guest)?;
                }
                self.count(bytes, of_guest, u64::wrapping_add);
                place.insert(Body {
                    bytes,
                    of_guest,
                    answers: 1,
                });
            }
        }
        Ok(Some(Untaken {
            sending: self.clone(),
            address,
        }))
    }

    fn count(&self, bytes: u64, of_guest: bool, change: fn(u64, u64) -> u64) {
        let own = &self.all.threads[self.thread];
        own.bytes.set(change(own.bytes.get(), bytes));
        if of_guest {
            own.of_guests.set(change(own.of_guests.get(), bytes));
        }
    }

    fn taken(&self, address: usize) {
        let mut bodies = self.bodies.borrow_mut();
        let Entry::Occupied(mut body) = bodies.entry(address) else {
            return;
        };
        body.get_mut().answers -= 1;
        if body.get().answers == 0 {
            let body = body.remove();
            self.count(body.bytes, body.of_guest, u64::wrapping_sub);
        }
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        self.sending.taken(self.address);
    }
}

impl fmt::Debug for Untaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Untaken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 100_000;

    fn body(bytes: usize) -> [Bytes; 3] {
        let rows = vec![0; bytes - 2].into();
        [Bytes::from_static(b"["), rows, Bytes::from_static(b"]")]
    }

    fn waiting(sending: &Sending) -> (u64, u64) {
        sending.all.waiting()
    }

    #[test]
    fn an_answer_counts_until_it_is_taken_and_a_small_one_never() {
        let sending = Sending::new(Answers::new(1, 10 * LARGE), 0);
        let small = sending.take(&body(FREE_BYTES), true).unwrap();
        assert!(small.is_none());
        let one = body(FREE_BYTES + 1);
        let first = sending.take(&one, true).unwrap();
        assert_eq!(waiting(&sending), (16_385, 16_385));
        let other = body(LARGE);
        let second = sending.take(&other, false).unwrap();
        assert_eq!(waiting(&sending), (116_385, 16_385));
        drop(first);
        assert_eq!(waiting(&sending), (100_000, 0));
        drop(second);
        assert_eq!(waiting(&sending), (0, 0));
    }

    #[test]
    fn a_body_sent_to_many_counts_once_for_each_thread() {
        let all = Answers::new(2, 10 * LARGE);
        let threads = [0, 1].map(|thread| Sending::new(all.clone(), thread));
        let pieces = body(LARGE);
        let sent: Vec<Untaken> = [0, 0, 1, 0, 1]
            .iter()
            .map(|nth: &usize| threads[*nth].take(&pieces.clone(), true).unwrap().unwrap())
            .collect();
        assert_eq!(all.waiting(), (200_000, 200_000));
        let mut sent = sent.into_iter();
        drop((sent.next(), sent.next(), sent.next()));
        assert_eq!(all.waiting(), (200_000, 200_000), "each is sent once more");
        drop(sent);
        assert_eq!(all.waiting(), (0, 0));
    }

    #[test]
    fn callers_without_a_key_have_half_and_those_with_one_all() {
        let sending = Sending::new(Answers::new(1, 4 * LARGE), 0);
        let bodies: Vec<[Bytes; 3]> = (0..5).map(|_| body(LARGE)).collect();
        let guests = [0, 1].map(|nth| sending.take(&bodies[nth], true).unwrap());
        let refused = sending.take(&bodies[2], true).unwrap_err();
        assert_eq!(refused.kind, Kind::ServiceUnavailable);
        let keys = [2, 3].map(|nth| sending.take(&bodies[nth], false).unwrap());
        assert!(sending.take(&bodies[4], false).is_err());
        let owed = sending.owe(&bodies[4], false);
        assert_eq!(waiting(&sending), (500_000, 200_000), "a write is answered");
        drop((guests, owed));
        assert!(sending.take(&bodies[4], true).is_ok());
        drop(keys);
    }
}
