//! How often what may happen did happen, so that a simulation that finds nothing has looked.

use std::collections::BTreeMap;

use engine::{Cached, EngineError, ListAnswer, WriteError};
use query::ast::Method;
use store::{Changes, Outcome};

use super::question::Question;
use super::write::Write;

/// Counts by what is counted.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub fn count(&mut self, what: &str, happened: bool) {
        self.add(what, u64::from(happened));
    }

    pub fn add(&mut self, what: &str, times: u64) {
        match self.0.get_mut(what) {
            Some(count) => *count += times,
            None => {
                self.0.insert(what.to_owned(), times);
            }
        }
    }

    pub fn take_in(&mut self, other: &Tally) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub fn answered(
        &mut self,
        question: &Question,
        lists: usize,
        answer: Result<&ListAnswer, &EngineError>,
    ) {
        let Ok(list) = answer else {
            return self.count("refusals", true);
        };
        self.count("answers", true);
        if question.is_random {
            self.count("answers in random order", true);
        }
        if question.times.is_some() {
            self.count("answers at other times", true);
            self.count("rows at other times", question.only.is_some());
            self.count(
                "hits at other times",
                list.cached.is_some_and(|it| it.is_hit),
            );
        } else if let Some(Cached {
            is_hit, is_stale, ..
        }) = list.cached
        {
            self.count("exact hits", is_hit && is_stale.is_none());
            self.count("exact misses", !is_hit && is_stale.is_none());
            self.count("hits that may be stale", is_hit && is_stale == Some(true));
            self.count(
                "hits within a ttl that are not stale",
                is_hit && is_stale == Some(false),
            );
            self.count("misses within a ttl", !is_hit && is_stale.is_some());
            self.count("joins", !is_hit && lists == 0);
        }
        self.count("answers with several reads", lists > 1);
        for method in Method::ALL {
            let word = format!("\"{}\"", method.as_str());
            if question.texts.iter().any(|text| text.contains(&word)) {
                self.add(method.as_str(), 1);
            }
        }
    }

    /// States that followed each other in a run.
    pub fn states(&mut self, count: usize) {
        self.add("states", count as u64);
    }

    /// What the cache itself has counted in a run.
    pub fn lists(&mut self, counts: &list_cache::Counts) {
        self.add("degradations", counts.degradations);
        self.add("invalidations", counts.invalidations);
        self.add("refused fills", counts.refused_fills);
        self.add("patched totals", counts.patched_totals);
        self.add("evictions", counts.evictions);
    }

    pub fn written(&mut self, write: &Write, written: &Result<(), EngineError>) {
        let word = write.what.split(' ').next().unwrap_or_default();
        match written {
            Ok(()) => self.add(word, 1),
            Err(error) => {
                self.count("writes refused", true);
                let is_left = matches!(error, EngineError::Write(WriteError::CommitUnknown { .. }));
                self.count("writes that left a commit in doubt", is_left);
            }
        }
    }

    pub fn group(&mut self, outcomes: &[Outcome]) {
        let applied = outcomes
            .iter()
            .flatten()
            .filter(|applied| applied.mark.is_some());
        self.count("groups of several commits", applied.clone().count() > 1);
        let is_vague =
            |changes: &Changes| matches!(changes, Changes::Tables(tables) if !tables.is_empty());
        self.count(
            "groups that report tables",
            applied.clone().any(|one| is_vague(&one.changes)),
        );
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (what, times) in &self.0 {
            writeln!(f, "{times:>9}  {what}")?;
        }
        Ok(())
    }
}
