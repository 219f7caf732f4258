//! Runs in progress that later callers may join.

/// Names one run of a list; no later run has it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimNumber(u64);

/// The runs in progress of one function.
///
/// Most runs end before a second caller comes. Such a run is a claim that stands in the list and
/// needs no memory of its own. The first caller that joins it has an `S` made, which all who wait
/// for the run share.
///
/// The list compares no keys and drops nothing, since both may run foreign code that calls it
/// again: it gives the runs of a hash, and hands out whatever leaves it.
#[derive(Debug)]
pub struct ClaimList<C, S> {
    runs: Vec<ClaimedRun<C, S>>,
    edition: u64,
}

/// A run in progress.
#[derive(Debug)]
pub struct ClaimedRun<C, S> {
    number: ClaimNumber,
    hash: u64,
    /// What its leader has said of it.
    pub claim: C,
    /// What those who wait for it share; `None` until the first of them comes.
    pub shared: Option<S>,
    /// Whether an invalidation meant it: no caller joins it any more, and its value is not stored.
    pub is_detached: bool,
}

impl<C, S> Default for ClaimList<C, S> {
    fn default() -> ClaimList<C, S> {
        ClaimList {
            runs: Vec::new(),
            edition: 0,
        }
    }
}

impl<C, S: Clone> ClaimList<C, S> {
    /// Rises whenever a run begins or ends.
    #[inline]
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Begins a run.
    ///
    /// # Errors
    /// The claim, if a run began or ended since `edition`: another one may be under way for the
    /// same key, or have stored its value.
    #[inline]
    pub fn begin(&mut self, edition: u64, hash: u64, claim: C) -> Result<ClaimNumber, C> {
        if self.edition != edition {
            return Err(claim);
        }
        self.edition += 1;
        let number = ClaimNumber(self.edition);
        self.runs.push(ClaimedRun {
            number,
            hash,
            claim,
            shared: None,
            is_detached: false,
        });
        Ok(number)
    }

    /// What the runs of that hash share that a caller may join, if it has the key of one of them.
    /// `share` makes it for a run that no caller has joined yet.
    ///
    /// `S: Clone` is called here, so it must do nothing but count a reference.
    #[inline]
    pub fn join(
        &mut self,
        hash: u64,
        may_join: impl Fn(&C) -> bool,
        share: impl Fn(ClaimNumber, &C) -> S,
    ) -> Vec<S> {
        let alike = self.runs.iter_mut().filter(|run| {
            let is_open = run.hash == hash && !run.is_detached;
            is_open && may_join(&run.claim)
        });
        let shared = alike.map(|run| {
            let shared = &mut run.shared;
            shared.get_or_insert_with(|| share(run.number, &run.claim))
        });
        shared.map(|shared| shared.clone()).collect()
    }

    /// The run, until it ends.
    #[inline]
    pub fn get_mut(&mut self, number: ClaimNumber) -> Option<&mut ClaimedRun<C, S>> {
        let position = self.position(number)?;
        Some(&mut self.runs[position])
    }

    /// Lets no caller join any run of now.
    pub fn detach_all(&mut self) {
        self.runs.iter_mut().for_each(|run| run.is_detached = true);
    }

    /// Takes a run out that has ended. The caller drops it, when no borrow of the list is held,
    /// and wakes who shares it.
    #[inline]
    pub fn end(&mut self, number: ClaimNumber) -> Option<ClaimedRun<C, S>> {
        let position = self.position(number)?;
        self.edition += 1;
        Some(self.runs.swap_remove(position))
    }

    /// From the newest on: a run that began later, inside this one, ends earlier.
    #[inline]
    fn position(&self, number: ClaimNumber) -> Option<usize> {
        self.runs.iter().rposition(|run| run.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type List = ClaimList<&'static str, u64>;

    fn join(list: &mut List, hash: u64) -> Vec<u64> {
        list.join(hash, |_| true, |number, _| number.0)
    }

    fn begin(list: &mut List, hash: u64, claim: &'static str) -> ClaimNumber {
        let edition = list.edition();
        list.begin(edition, hash, claim)
            .expect("nothing came in between")
    }

    #[test]
    fn claim_is_shared_from_the_first_caller_that_joins_it() {
        let mut list = List::default();
        let number = begin(&mut list, 7, "a");
        assert_eq!(list.get_mut(number).and_then(|run| run.shared), None);
        assert_eq!(join(&mut list, 8), [], "another hash");
        assert_eq!(list.get_mut(number).and_then(|run| run.shared), None);
        let joined = join(&mut list, 7);
        assert_eq!(
            list.join(7, |_| true, |_, _| unreachable!("made once")),
            joined
        );
        let ended = list.end(number).expect("it is in progress");
        assert_eq!((ended.claim, ended.shared), ("a", Some(joined[0])));
        assert!(list.end(number).is_none() && join(&mut list, 7).is_empty());
    }

    #[test]
    fn claim_is_given_back_once_a_run_has_begun_or_ended() {
        let mut list = List::default();
        let edition = list.edition();
        let number = begin(&mut list, 1, "first");
        assert_eq!(list.begin(edition, 1, "second"), Err("second"));
        let edition = list.edition();
        list.end(number);
        assert_eq!(list.begin(edition, 1, "third"), Err("third"));
        assert_ne!(begin(&mut list, 1, "fourth"), number);
    }

    #[test]
    fn claim_that_is_detached_is_joined_by_nobody_and_ends_for_those_who_wait() {
        let mut list = List::default();
        let before = begin(&mut list, 1, "before");
        let waited = join(&mut list, 1);
        list.detach_all();
        let after = begin(&mut list, 1, "after");
        assert_eq!(join(&mut list, 1), [after.0]);
        let ended = list.end(before).expect("it is in progress");
        assert!(ended.is_detached);
        assert_eq!(ended.shared, waited.first().copied());
        assert!(list.end(after).is_some_and(|run| !run.is_detached));
    }

    #[test]
    fn claim_that_may_not_be_joined_is_not_shared() {
        let mut list = List::default();
        let number = begin(&mut list, 1, "of the parent");
        let joined = list.join(1, |claim| *claim != "of the parent", |number, _| number.0);
        assert_eq!(joined, []);
        assert_eq!(list.end(number).and_then(|run| run.shared), None);
    }
}
