//! What a reader without a lock may see of a writer, in every order that the memory model allows:
//! that of processors which reorder more than those of x86-64, too.
//!
//! The words here are a model of those in the map, which a checker cannot place there. Who changes
//! an ordering in `raise_head`, `write_record`, `store_bucket`, `find` or `is_whole` changes it
//! here. `cargo xtask full` and `night` build this with `--cfg loom`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

/// A ring with room for one record, so that each write overwrites the one before. A position
/// decides what its record is: a length, and the position as its text.
struct Ring {
    head: AtomicU64,
    slot: AtomicU64,
    record: [AtomicU64; 2],
}

/// What is planted.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    NoFenceOfTheWriter,
    NoFenceOfTheReader,
    SlotAlone,
    SecondFetch,
}

const RECORDS: u64 = 3;

fn length_of(position: u64) -> u64 {
    2 + position * 8
}

fn record_of(position: u64) -> [u64; 2] {
    [length_of(position), position]
}

/// Two writers follow each other under one lock, so that they are one writer here.
fn write(ring: &Ring, position: u64, planted: Planted) {
    ring.head.store(position + 1, Ordering::Release);
    if planted != Planted::NoFenceOfTheWriter {
        fence(Ordering::SeqCst);
    }
    // The kernel copies these, in no order that it promises.
    for (word, value) in ring.record.iter().zip(record_of(position)) {
        word.store(value, Ordering::Relaxed);
    }
    ring.slot.store(position, Ordering::Release);
}

/// The position of the slot and what was read as its record, if that counts.
fn read(ring: &Ring, planted: Planted) -> Option<(u64, [u64; 2])> {
    let position = ring.slot.load(Ordering::Acquire);
    let room = length_of(position);
    let checked = ring.record[0].load(Ordering::Relaxed);
    if checked > room {
        return None;
    }
    let length = match planted {
        Planted::SecondFetch => ring.record[0].load(Ordering::Relaxed),
        _ => checked,
    };
    assert!(length <= room, "a read past the record");
    let text = ring.record[1].load(Ordering::Relaxed);
    if planted != Planted::NoFenceOfTheReader {
        fence(Ordering::Acquire);
    }
    let is_whole = match planted {
        Planted::SlotAlone => ring.slot.load(Ordering::Acquire) == position,
        _ => ring.head.load(Ordering::Acquire) == position + 1,
    };
    is_whole.then_some((position, [length, text]))
}

/// Every interleaving of at most three preemptions; by night, with optimisation, every one.
fn check(planted: Planted) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = cfg!(debug_assertions).then_some(3);
    model.check(move || {
        let ring = Arc::new(Ring {
            head: AtomicU64::new(1),
            slot: AtomicU64::new(0),
            record: record_of(0).map(AtomicU64::new),
        });
        let written = Arc::clone(&ring);
        let writer =
            thread::spawn(move || (1..RECORDS).for_each(|at| write(&written, at, planted)));
        if let Some((position, record)) = read(&ring, planted) {
            assert_eq!(record, record_of(position), "a wrong value counted");
        }
        writer.join().expect("the writer ends");
        let last = RECORDS - 1;
        assert_eq!(read(&ring, planted), Some((last, record_of(last))));
    });
}

#[test]
fn reader_counts_no_wrong_value_in_any_order() {
    check(Planted::Nothing);
}

#[test]
#[should_panic(expected = "a wrong value counted")]
fn writer_without_a_fence_is_found() {
    check(Planted::NoFenceOfTheWriter);
}

#[test]
#[should_panic(expected = "a wrong value counted")]
fn reader_without_a_fence_is_found() {
    check(Planted::NoFenceOfTheReader);
}

#[test]
#[should_panic(expected = "a wrong value counted")]
fn reader_that_compares_the_slot_alone_is_found() {
    check(Planted::SlotAlone);
}

#[test]
#[should_panic(expected = "a read past the record")]
fn reader_that_fetches_a_length_twice_is_found() {
    check(Planted::SecondFetch);
}
