//! The two ways in which one request is asked again and again, and for how long.

use anyhow::Result;
use measure::awake::Awake;
use measure::wrk::Wrk;
use serde_json::{Value, json};

use crate::aim::{Aim, WRK_CONNECTIONS, WRK_THREADS};
use crate::figure::{Figure, Goal, Round, Slice};

/// How a request is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// By one connection, one request after the other.
    One,
    /// By wrk over [`WRK_CONNECTIONS`].
    Many,
}

/// One connection first: it warms up what both ways of asking use.
pub const WAYS: [Way; 2] = [Way::One, Way::Many];

/// How long everything is measured.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Rounds of everything.
    pub rounds: u32,
    /// A slice of wrk, in seconds.
    pub wrk_s: u64,
    /// A slice of one connection, in milliseconds.
    pub sequential_ms: u64,
}

impl Way {
    /// What the keys of its figures end in.
    pub fn key(self) -> &'static str {
        match self {
            Way::One => "sequential",
            Way::Many => "wrk",
        }
    }

    /// As a report says it.
    pub fn title(self) -> &'static str {
        match self {
            Way::One => "one connection",
            Way::Many => "wrk, 32 connections",
        }
    }

    /// What is measured.
    pub fn unit(self) -> &'static str {
        match self {
            Way::One => "p50 µs",
            Way::Many => "requests/s",
        }
    }

    /// A figure of requests that are asked in this way.
    pub fn figure(
        self,
        key: &str,
        title: &str,
        floor: &'static str,
        goal: Goal,
        rounds: Vec<Round>,
    ) -> Figure {
        Figure {
            key: format!("{key}_{}", self.key()),
            title: format!("{title}: {}", self.title()),
            unit: self.unit(),
            goal,
            floor,
            rounds,
        }
    }

    /// Measures with the cores kept awake, which load does by itself.
    ///
    /// # Errors
    /// Those of `measure`, and when the cores could not be kept awake.
    pub fn awake<T>(self, measure: impl FnOnce() -> Result<T>) -> Result<T> {
        if self == Way::Many {
            return measure();
        }
        let awake = Awake::begin()?;
        let measured = measure()?;
        awake.end()?;
        Ok(measured)
    }
}

impl Sizes {
    /// One slice.
    ///
    /// # Errors
    /// Those of [`Aim::load`] and [`Aim::one_by_one`].
    pub fn ask(&self, way: Way, aim: &Aim, wrk: &Wrk) -> Result<Slice> {
        match way {
            Way::One => aim.one_by_one(self.sequential_ms),
            Way::Many => aim.load(wrk, self.wrk_s),
        }
    }

    /// What a report says of them.
    pub fn parameters(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("wrk_connections", json!(WRK_CONNECTIONS)),
            ("wrk_threads", json!(WRK_THREADS)),
            ("rounds", json!(self.rounds)),
            ("wrk_slice_s", json!(self.wrk_s)),
            ("sequential_slice_ms", json!(self.sequential_ms)),
        ]
    }
}
