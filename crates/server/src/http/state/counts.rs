//! What was answered: counted by each thread for itself, and added up when it is read.
//!
//! A thread writes its own counts only, by plain loads and stores (see [`engine::tally`]); so a
//! cached list pays a few of its own core's cycles for being counted. What may be distinguished is
//! fixed at the start: routes by their patterns, statuses by the table of errors. No client can
//! add to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::tally::{Count, Distribution, Histogram, TIMES_NS};
use engine::{AccessError, Cached, EngineError};
use hyper::StatusCode;

use crate::functions::counts::FunctionCounts;
use crate::http::head::route::{Route, routes};
use crate::http::wire::error::Kind;

/// Statuses of answers that are no errors.
const GOOD: [u16; 6] = [101, 200, 201, 202, 204, 304];

/// What all threads have answered.
#[derive(Debug)]
pub struct Counts {
    /// Method and pattern of each route; the last one stands for what has none.
    routes: Vec<(String, String)>,
    statuses: Statuses,
    threads: Box<[Arc<ThreadCounts>]>,
    /// What functions come to.
    pub functions: Arc<FunctionCounts>,
    /// Connections that were refused, counted by the one thread that accepts.
    pub refused: Count,
    /// The same of connections from jails.
    pub refused_jailed: Count,
    is_timed: AtomicBool,
}

/// The statuses that are distinguished.
#[derive(Debug)]
struct Statuses {
    all: Vec<u16>,
    /// For each status from 100 its place in `all`; what is unknown leads behind its end.
    places: [u8; 500],
}

/// What one thread has answered. On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct ThreadCounts {
    /// For each route, a count for each status.
    answers: Box<[Count]>,
    /// For each route.
    times: Box<[Histogram]>,
    hits: Count,
    misses: Count,
    bypasses: Count,
    stale: Count,
    keys_unknown: Count,
    keys_expired: Count,
    rate_refused: Count,
    executions_refused: Count,
    /// Connections it holds; the acceptor counts them up.
    pub live: Arc<AtomicUsize>,
}

/// What was answered up to now.
#[derive(Clone, Debug)]
pub struct Answered {
    /// By route and status; only what has occurred.
    pub answers: Vec<Answers>,
    /// By each status of a failure, whether it has occurred or not.
    pub failures: Vec<(u16, u64)>,
    /// By route, in nanoseconds; only what has occurred and was timed.
    pub times: Vec<Times>,
    /// Lists that the cache answered.
    pub hits: u64,
    /// Lists that were read because the cache had no answer.
    pub misses: u64,
    /// Lists that no cache was asked for: switched off, bypassed, or of a kind that is not kept.
    pub bypasses: u64,
    /// Of the hits, those within a `ttl` that a commit since may have altered.
    pub stale: u64,
    /// Requests with an API key that was never issued or was revoked.
    pub keys_unknown: u64,
    /// Requests with an API key that has expired.
    pub keys_expired: u64,
    /// Requests without an API key that were more than their address may send.
    pub rate_refused: u64,
    /// Executions without an API key that were more than their address may have at once.
    pub executions_refused: u64,
    /// Connections that are open.
    pub connections: usize,
    /// Connections that were refused.
    pub refused: u64,
    /// The same of connections from jails.
    pub refused_jailed: u64,
}

/// How often one route was answered with one status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Of the route; `OPTIONS` and unknown methods have none.
    pub method: String,
    /// With `{…}` where an id stands; empty where no route was found.
    pub route: String,
    /// `None` for one that no answer of ours has.
    pub status: Option<u16>,
    /// How often.
    pub count: u64,
}

/// How long the answers of one route took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Of the route.
    pub method: String,
    /// With `{…}` where an id stands; empty where no route was found.
    pub route: String,
    /// Nanoseconds from the end of the head until the answer stood.
    pub took_ns: Distribution,
}

impl Statuses {
    fn new() -> Statuses {
        let of_errors = Kind::ALL.iter().map(|kind| kind.status().as_u16());
        let mut all: Vec<u16> = GOOD.into_iter().chain(of_errors).collect();
        all.sort_unstable();
        all.dedup();
        let mut places = [all.len() as u8; 500];
        for (place, status) in all.iter().enumerate() {
            places[usize::from(*status) - 100] = place as u8;
        }
        Statuses { all, places }
    }

    fn place(&self, status: StatusCode) -> usize {
        let above = usize::from(status.as_u16()).saturating_sub(100);
        let place = self.places.get(above).copied();
        place.map_or(self.all.len(), usize::from)
    }
}

impl Counts {
    /// Nothing counted yet, of every route there is, on so many threads.
    pub fn new(threads: usize) -> Arc<Counts> {
        Counts::of(&routes(), threads)
    }

    fn of(routes: &[Route], threads: usize) -> Arc<Counts> {
        let named = |route: &Route| (route.method.to_string(), route.pattern.clone());
        let none = (String::new(), String::new());
        let routes: Vec<_> = routes.iter().map(named).chain([none]).collect();
        let statuses = Statuses::new();
        let of_thread = |_| Arc::new(ThreadCounts::new(routes.len(), statuses.all.len() + 1));
        Arc::new(Counts {
            threads: (0..threads.max(1)).map(of_thread).collect(),
            routes,
            statuses,
            functions: Arc::default(),
            refused: Count::default(),
            refused_jailed: Count::default(),
            is_timed: AtomicBool::new(false),
        })
    }

    /// The counts of one thread.
    pub fn thread(&self, number: usize) -> Arc<ThreadCounts> {
        self.threads[number].clone()
    }

    /// From now on it is counted how long answers take, too. Reading the clock twice costs about
    /// 0.1 µs an answer, which is paid only once a reader has asked.
    pub fn begin_timing(&self) {
        self.is_timed.store(true, Ordering::Relaxed);
    }

    /// Whether it is counted how long answers take.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.is_timed.load(Ordering::Relaxed)
    }

    /// The place of what has no route.
    pub fn nowhere(&self) -> usize {
        self.routes.len() - 1
    }

    /// Counts an answer of the route at this position, by its thread.
    #[inline]
    pub fn answered(&self, thread: &ThreadCounts, route: usize, status: StatusCode) {
        let place = route * (self.statuses.all.len() + 1) + self.statuses.place(status);
        thread.answers[place].add(1);
    }

    /// All threads together.
    pub fn read(&self) -> Answered {
        let sum = |of: fn(&ThreadCounts) -> &Count| -> u64 {
            self.threads.iter().map(|thread| of(thread).get()).sum()
        };
        let live = |thread: &Arc<ThreadCounts>| thread.live.load(Ordering::Relaxed);
        let answers = self.answers();
        Answered {
            failures: self.failures(&answers),
            answers,
            times: self.times(),
            hits: sum(|thread| &thread.hits),
            misses: sum(|thread| &thread.misses),
            bypasses: sum(|thread| &thread.bypasses),
            stale: sum(|thread| &thread.stale),
            keys_unknown: sum(|thread| &thread.keys_unknown),
            keys_expired: sum(|thread| &thread.keys_expired),
            rate_refused: sum(|thread| &thread.rate_refused),
            executions_refused: sum(|thread| &thread.executions_refused),
            connections: self.threads.iter().map(live).sum(),
            refused: self.refused.get(),
            refused_jailed: self.refused_jailed.get(),
        }
    }

    fn answers(&self) -> Vec<Answers> {
        let width = self.statuses.all.len() + 1;
        let mut answers = Vec::new();
        for (nth, (method, route)) in self.routes.iter().enumerate() {
            for place in 0..width {
                let at = nth * width + place;
                let count = self.threads.iter().map(|t| t.answers[at].get()).sum();
                if count > 0 {
                    answers.push(Answers {
                        method: method.clone(),
                        route: route.clone(),
                        status: self.statuses.all.get(place).copied(),
                        count,
                    });
                }
            }
        }
        answers
    }

    fn failures(&self, answers: &[Answers]) -> Vec<(u16, u64)> {
        let statuses = self.statuses.all.iter().filter(|status| **status >= 500);
        let count = |status: u16| {
            let of_status = answers.iter().filter(|of| of.status == Some(status));
            of_status.map(|of| of.count).sum()
        };
        statuses.map(|status| (*status, count(*status))).collect()
    }

    fn times(&self) -> Vec<Times> {
        let mut times = Vec::new();
        for (nth, (method, route)) in self.routes.iter().enumerate() {
            let mut took_ns = Distribution::none(TIMES_NS);
            for thread in &self.threads {
                took_ns.add(&thread.times[nth].read());
            }
            if took_ns.count() > 0 {
                times.push(Times {
                    method: method.clone(),
                    route: route.clone(),
                    took_ns,
                });
            }
        }
        times
    }
}

impl ThreadCounts {
    fn new(routes: usize, statuses: usize) -> ThreadCounts {
        ThreadCounts {
            answers: (0..routes * statuses).map(|_| Count::default()).collect(),
            times: (0..routes).map(|_| Histogram::new(TIMES_NS)).collect(),
            hits: Count::default(),
            misses: Count::default(),
            bypasses: Count::default(),
            stale: Count::default(),
            keys_unknown: Count::default(),
            keys_expired: Count::default(),
            rate_refused: Count::default(),
            executions_refused: Count::default(),
            live: Arc::default(),
        }
    }

    /// An answer of the route at this position took so long.
    #[inline]
    pub fn took(&self, route: usize, nanoseconds: u64) {
        self.times[route].record(nanoseconds);
    }

    /// Counts a request whose key was refused.
    pub fn key_refused(&self, error: &EngineError) {
        match error {
            EngineError::Access(AccessError::KeyUnknown) => self.keys_unknown.add(1),
            EngineError::Access(AccessError::KeyExpired) => self.keys_expired.add(1),
            _ => {}
        }
    }

    /// Counts a request whose address has sent too many.
    pub fn rate_refused(&self) {
        self.rate_refused.add(1);
    }

    /// Counts an execution whose address has too many that have not ended.
    pub fn executions_refused(&self) {
        self.executions_refused.add(1);
    }

    /// Counts a list by what the cache had to do with it.
    #[inline]
    pub fn listed(&self, cached: Option<Cached>) {
        match cached {
            Some(cached) if cached.is_hit => {
                self.hits.add(1);
                if cached.is_stale == Some(true) {
                    self.stale.add(1);
                }
            }
            Some(_) => self.misses.add(1),
            None => self.bypasses.add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_of_an_answer_has_a_place_of_its_own() {
        let statuses = Statuses::new();
        for kind in Kind::ALL {
            let place = statuses.place(kind.status());
            assert_eq!(statuses.all[place], kind.status().as_u16());
        }
        for status in GOOD {
            let place = statuses.place(StatusCode::from_u16(status).unwrap());
            assert_eq!(statuses.all[place], status);
        }
        for unknown in [100, 418, 599, 600, 999] {
            let place = statuses.place(StatusCode::from_u16(unknown).unwrap());
            assert_eq!(place, statuses.all.len(), "{unknown}");
        }
    }

    #[test]
    fn threads_are_added_up_by_route_and_status() {
        let routes = routes();
        let counts = Counts::of(&routes, 2);
        for number in [0, 1, 1] {
            let thread = counts.thread(number);
            counts.answered(&thread, 3, StatusCode::OK);
            thread.took(3, 20_000);
            thread.listed(Some(Cached {
                is_hit: true,
                age_s: 0,
                is_stale: Some(number == 0),
            }));
        }
        let thread = counts.thread(0);
        counts.answered(&thread, counts.nowhere(), StatusCode::NOT_FOUND);
        thread.listed(None);
        let read = counts.read();
        assert_eq!((read.hits, read.stale, read.bypasses), (3, 1, 1));
        assert!(read.failures.contains(&(500, 0)));
        let of_route = &read.answers[0];
        assert_eq!(of_route.route, routes[3].pattern);
        assert_eq!((of_route.status, of_route.count), (Some(200), 3));
        let nowhere = &read.answers[1];
        assert_eq!((nowhere.route.as_str(), nowhere.status), ("", Some(404)));
        assert_eq!(read.times.len(), 1);
        assert_eq!(read.times[0].took_ns.count(), 3);
    }
}
