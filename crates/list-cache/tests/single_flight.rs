//! Those who miss at once: one reads, whatever the others want and whenever they come.

mod fixture;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use fixture::{EXACT, World, query, row, says};
use list_cache::{Failure, ListFetch, Step, Waiter};
use query::Query;

fn first_of_all() -> Query {
    query(&[
        r#"{"method":"orderAsc","attribute":"m"}"#,
        r#"{"method":"limit","values":[1]}"#,
    ])
}

fn waits(fetch: &mut ListFetch<'_>) -> Option<Waiter> {
    match fetch.step(0) {
        Step::Wait(joined) => Some(joined),
        _ => None,
    }
}

#[test]
fn callers_with_a_total_wait_for_one_that_reads_it() {
    let world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    let query = first_of_all();
    let mut of_rows = world.fetch_rows(&query, EXACT);
    let Step::Read(_rows_alone) = of_rows.step(0) else {
        panic!("nobody reads yet");
    };
    let mut leader = world.fetch(&query, EXACT);
    let Step::Read(fill) = leader.step(0) else {
        panic!("nobody reads the total");
    };
    assert!(fill.rows() && fill.total());
    for _ in 0..3 {
        assert!(waits(&mut world.fetch(&query, EXACT)).is_some());
    }
    assert!(waits(&mut world.fetch_rows(&query, EXACT)).is_some());
}

#[test]
fn waiters_whose_total_changes_share_one_more_read() {
    let mut world = World::with(&[("a", 1, 1), ("b", 1, 2)]);
    let query = first_of_all();
    world.ask(&query, EXACT);
    // The rows go, the total stays.
    world.commit(&[("a", row(7, 1))]);
    let changes = world.changes(&[("c", row(1, 9))]);
    let mut shown = World::with(&[("a", 7, 1), ("b", 1, 2)]);
    shown.commit(&[("c", row(1, 9))]);
    let mut leader = world.fetch(&query, EXACT);
    let Step::Read(fill) = leader.step(0) else {
        panic!("the rows are nowhere");
    };
    assert!(!fill.total());
    let mut others: Vec<ListFetch<'_>> = (0..4).map(|_| world.fetch(&query, EXACT)).collect();
    let joined: Vec<Waiter> = others.iter_mut().filter_map(waits).collect();
    assert_eq!(joined.len(), 4);
    let withheld = world.withhold(&changes);
    let found = world.found(&query, &fill);
    leader.fill(fill, found);
    world.lists.publish(withheld, true);
    for (other, joined) in others.iter_mut().zip(&joined) {
        let Poll::Ready(outcome) = joined.look() else {
            panic!("the read has ended");
        };
        other.take_outcome(outcome).unwrap();
    }
    let mut next = others.pop().unwrap();
    let Step::Read(fill) = next.step(0) else {
        panic!("its total is altered");
    };
    assert!(fill.rows() && fill.total());
    let joined: Vec<Waiter> = others.iter_mut().filter_map(waits).collect();
    assert_eq!(joined.len(), 3);
    let found = shown.found(&query, &fill);
    next.fill(fill, found);
    let (body, total, _) = shown.read(&query);
    for (other, joined) in others.iter_mut().zip(&joined) {
        let Poll::Ready(outcome) = joined.look() else {
            panic!("the read has ended");
        };
        other.take_outcome(outcome).unwrap();
        let Step::Answer(answer) = other.step(0) else {
            panic!("it is of one snapshot");
        };
        assert!(says(&answer, &body, total));
    }
}

#[test]
fn a_read_that_failed_is_not_begun_again_by_those_who_joined_it() {
    let world = World::with(&[("a", 1, 1)]);
    let query = first_of_all();
    let mut leader = world.fetch(&query, EXACT);
    let Step::Read(fill) = leader.step(0) else {
        panic!("nobody reads yet");
    };
    let mut other = world.fetch(&query, EXACT);
    let joined = waits(&mut other).unwrap();
    let failure = Failure::TimedOut { limit_ms: 7 };
    fill.fail(failure);
    let Poll::Ready(outcome) = joined.look() else {
        panic!("the read has ended");
    };
    assert_eq!(other.take_outcome(outcome), Err(failure));
    // A reader that comes later reads for itself.
    assert!(waits(&mut world.fetch(&query, EXACT)).is_none());
}

#[test]
fn of_those_who_come_in_one_moment_one_reads() {
    const THREADS: usize = 8;
    let world = World::with(&[("a", 1, 1)]);
    let query = first_of_all();
    let (ready, done) = (Barrier::new(THREADS), Barrier::new(THREADS));
    let leaders = AtomicUsize::new(0);
    let rounds = 1_000;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut fetch = world.fetch_rows(&query, EXACT);
                    ready.wait();
                    let step = fetch.step(0);
                    let leads = matches!(step, Step::Read(_));
                    leaders.fetch_add(usize::from(leads), Ordering::Relaxed);
                    done.wait();
                    drop(step);
                }
            });
        }
    });
    assert_eq!(leaders.into_inner(), rounds);
}
