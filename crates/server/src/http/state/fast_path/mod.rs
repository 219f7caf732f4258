//! Requests that were answered before.
//!
//! A thread remembers what a request target meant. Of a list that was answered from the cache:
//! under which names the cache holds it, and which headers preceded it. Of a row: its table, and
//! the time at which it was read, if that is over. The same request of the same caller is then
//! answered without being parsed, while the catalogue is the same. The cache is looked up each
//! time, and rows are read. Where the cache has no answer, or anything is out of the ordinary, the
//! request is dispatched as any other.

mod meaning;
mod plan;
mod routes;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::{Caller, Engine};
pub use meaning::Meaning;
pub use plan::{CachedPlan, ListPlan, PastRowPlan, RowPlan, around_row};
pub use routes::FastRoutes;

/// Sets of targets that a thread remembers: room for the thousand distinct lists of the mixed
/// workload, spread unevenly.
const SETS: usize = 512;
/// Where a target's fingerprint leads, so many are kept.
const WAYS: usize = 4;
/// Most bytes of a target and what it means, four times the published benchmark's list: a thread
/// remembers at most 8 MB, and about as much again of what goes before lists.
const KNOWN_BYTES_MAX: usize = 4_096;

/// What one thread remembers.
pub struct FastPath {
    sets: RefCell<Vec<Set>>,
    /// The catalogue under which all of it was learnt.
    catalogue_epoch: Cell<u64>,
}

/// The latest one first.
type Set = [Option<Rc<Known>>; WAYS];

/// A request target and what it means to one caller.
pub(in crate::http) struct Known {
    fingerprint: u128,
    target: Box<str>,
    caller: Rc<Caller>,
    pub(in crate::http) plan: CachedPlan,
}

impl FastPath {
    /// Remembers nothing yet.
    pub fn new() -> FastPath {
        FastPath {
            sets: RefCell::new((0..SETS).map(|_| Set::default()).collect()),
            catalogue_epoch: Cell::new(0),
        }
    }

    /// Remembers what `target`, of which there is something to learn, means when `caller` sends it.
    pub fn remember(&self, engine: &Engine, target: &str, caller: Rc<Caller>, plan: CachedPlan) {
        let plan = match plan {
            CachedPlan::List(list)
                if target.len() + list.prepared.size_bytes() > KNOWN_BYTES_MAX =>
            {
                CachedPlan::Dispatch
            }
            plan => plan,
        };
        self.forget_older(engine);
        let fingerprint = engine.fingerprint(target.as_bytes());
        let mut sets = self.sets.borrow_mut();
        let set = &mut sets[fingerprint as usize % SETS];
        // An older plan of the same request goes first, then whatever was asked longest ago.
        let gives_way = |known: &Option<Rc<Known>>| {
            let known = known.as_ref();
            known.is_none_or(|known| known.is(fingerprint, target, &caller))
        };
        let position = set.iter().position(gives_way).unwrap_or(WAYS - 1);
        if let Some(CachedPlan::List(list)) = set[position].as_ref().map(|known| &known.plan) {
            list.report(engine);
        }
        set[position] = Some(Rc::new(Known {
            fingerprint,
            target: target.into(),
            caller,
            plan,
        }));
        set[..=position].rotate_right(1);
    }

    /// Whether there is nothing to learn about `target`, which dispatch has answered: it is
    /// remembered and would be answered so again, or it is too long to be remembered.
    pub fn knows(&self, engine: &Engine, target: &str, caller: &Rc<Caller>) -> bool {
        if target.len() > KNOWN_BYTES_MAX {
            return true;
        }
        let known = self.find(engine, target, caller);
        known.is_some_and(|known| match &known.plan {
            // Not where it was purged since, say.
            CachedPlan::List(list) => engine.held(&list.prepared).is_some(),
            CachedPlan::Row(_) | CachedPlan::PastRow(_) | CachedPlan::Dispatch => true,
        })
    }

    /// Tells the engine how often each list was answered since the last time. Walks over all.
    pub fn report(&self, engine: &Engine) {
        let sets = self.sets.borrow();
        for known in sets.iter().flatten().flatten() {
            if let CachedPlan::List(list) = &known.plan {
                list.report(engine);
            }
        }
        drop(sets);
        self.forget_older(engine);
    }

    /// Forgets what was learnt under another catalogue than the one of now: nothing would be
    /// answered by it any more, and it holds on to the tables of its time.
    fn forget_older(&self, engine: &Engine) {
        let epoch = engine.catalogue_epoch();
        if self.catalogue_epoch.replace(epoch) == epoch {
            return;
        }
        for known in self.sets.borrow_mut().iter_mut().flatten() {
            if let Some(known) = known.take()
                && let CachedPlan::List(list) = &known.plan
            {
                list.report(engine);
            }
        }
    }

    pub(in crate::http) fn find(
        &self,
        engine: &Engine,
        target: &str,
        caller: &Rc<Caller>,
    ) -> Option<Rc<Known>> {
        self.forget_older(engine);
        let fingerprint = engine.fingerprint(target.as_bytes());
        let mut sets = self.sets.borrow_mut();
        let set = &mut sets[fingerprint as usize % SETS];
        let is_it = |known: &Option<Rc<Known>>| {
            let known = known.as_ref();
            known.is_some_and(|known| known.is(fingerprint, target, caller))
        };
        let position = set.iter().position(is_it)?;
        used(set, position);
        set[0].clone()
    }

    /// Whether it still says what its target means. Then it is the one of its set that was asked
    /// last.
    fn still_holds(&self, engine: &Engine, known: &Rc<Known>) -> bool {
        self.forget_older(engine);
        let mut sets = self.sets.borrow_mut();
        let set = &mut sets[known.fingerprint as usize % SETS];
        let is_it = |other: &Option<Rc<Known>>| {
            let other = other.as_ref();
            other.is_some_and(|other| Rc::ptr_eq(other, known))
        };
        let position = set.iter().position(is_it);
        if let Some(position) = position {
            used(set, position);
        }
        position.is_some()
    }
}

/// The latest one goes first.
fn used(set: &mut Set, position: usize) {
    if position > 0 {
        set[..=position].rotate_right(1);
    }
}

impl Default for FastPath {
    fn default() -> FastPath {
        FastPath::new()
    }
}

impl Known {
    fn is(&self, fingerprint: u128, target: &str, caller: &Rc<Caller>) -> bool {
        self.fingerprint == fingerprint
            && Rc::ptr_eq(&self.caller, caller)
            && *self.target == *target
    }
}

#[cfg(test)]
mod tests {
    use model::ProjectId;

    use super::*;
    use crate::http::head::credentials::Callers;
    use crate::http::head::credentials::tests::engine_with_project;

    #[test]
    fn plans_end_with_their_catalogue() {
        let folder = tempfile::tempdir().unwrap();
        let (engine, runtime) = engine_with_project(folder.path());
        let caller = Callers::default().find(&engine, Some("p"), None).unwrap();
        let fast_path = FastPath::new();
        fast_path.remember(&engine, "/a", caller.clone(), CachedPlan::Dispatch);
        assert!(fast_path.knows(&engine, "/a", &caller));
        assert!(!fast_path.knows(&engine, "/b", &caller));
        let other = ProjectId::new("q").unwrap();
        let made = engine.create_project(other, "Q".to_owned());
        runtime.block_on(made).unwrap();
        fast_path.report(&engine);
        let sets = fast_path.sets.borrow();
        assert!(sets.iter().flatten().all(Option::is_none));
        drop(sets);
        fast_path.remember(&engine, "/a", caller.clone(), CachedPlan::Dispatch);
        assert!(fast_path.knows(&engine, "/a", &caller));
        engine.close().unwrap();
    }

    #[test]
    fn a_target_that_was_found_holds_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let (engine, runtime) = engine_with_project(folder.path());
        let caller = Callers::default().find(&engine, Some("p"), None).unwrap();
        let fast_path = FastPath::new();
        let remember = || {
            fast_path.remember(&engine, "/a", caller.clone(), CachedPlan::Dispatch);
            fast_path.find(&engine, "/a", &caller).unwrap()
        };
        let first = remember();
        fast_path.remember(&engine, "/b", caller.clone(), CachedPlan::Dispatch);
        assert!(fast_path.still_holds(&engine, &first));
        let second = remember();
        assert!(
            !fast_path.still_holds(&engine, &first),
            "another took its place"
        );
        assert!(fast_path.still_holds(&engine, &second));
        let other = ProjectId::new("q").unwrap();
        let made = engine.create_project(other, "Q".to_owned());
        runtime.block_on(made).unwrap();
        assert!(
            !fast_path.still_holds(&engine, &second),
            "the catalogue is another one"
        );
        engine.close().unwrap();
    }

    #[test]
    fn a_target_that_holds_counts_as_used_and_gives_way_last() {
        let folder = tempfile::tempdir().unwrap();
        let (engine, _runtime) = engine_with_project(folder.path());
        let caller = Callers::default().find(&engine, Some("p"), None).unwrap();
        let fast_path = FastPath::new();
        let remember = |target: &str| {
            fast_path.remember(&engine, target, caller.clone(), CachedPlan::Dispatch);
        };
        remember("/a");
        let kept = fast_path.find(&engine, "/a", &caller).unwrap();
        // So many that each set has seen more than it has places for.
        for target in 0..40 * SETS {
            remember(&format!("/{target}"));
            assert!(fast_path.still_holds(&engine, &kept));
        }
        engine.close().unwrap();
    }
}
