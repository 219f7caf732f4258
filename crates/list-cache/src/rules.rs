//! The rules that keep exact lists exact. A test build can switch each one off while it runs, to
//! show that something fails without it; in a release all of them hold, always.

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {
        /// One rule; its text says what it demands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($(#[doc = $doc])* $name,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Rule] = &[$(Rule::$name),*];
        }
    };
}

rules! {
    /// Buckets are looked up by what the row was. Without it, a row that leaves a list is missed.
    BucketsSeeBefore;
    /// Buckets are looked up by what the row became. Without it, a row that enters is missed.
    BucketsSeeAfter;
    /// Alternatives are bucketed only if each one has an equality.
    EachAlternativeHasAnEquality;
    /// Filters without an equality are asked on each change.
    ResidualsAreAsked;
    /// Groups are passed over by the ranks of the row on both of its sides. Without it, a row that
    /// leaves a range is missed.
    GuardsSeeBefore;
    /// No group is passed over that has a page which is not known to end.
    EndlessPagesAreAsked;
    /// A row with the rank of a page's last row may stand before it.
    EqualRanksAreAsked;
    /// Filters that memory cannot decide as the database does are dropped by each change.
    UndecidableAreDropped;
    /// Whether a row was seen before a change is judged by the grants it had then.
    VisibilityOfBefore;
    /// A page that is not full has no row beyond it.
    WindowOfFullPagesOnly;
    /// A row that was in the window alters the page, wherever it is now.
    WindowSeesBefore;
    /// A row that is in the window now alters the page, wherever it was.
    WindowSeesAfter;
    /// Rows that are equal in the order asked for stand in the order of `$sequence`.
    WindowBreaksTies;
    /// A page beside a cursor depends on the cursor's row, whether or not it matches.
    CursorRow;
    /// A commit that tells tables, not rows, alters whatever is listed of them.
    WholeTables;
    /// A read that a commit may have overtaken fills nothing.
    LateFillsAreRefused;
    /// A read that begins while a commit is in flight is asked against that commit.
    InFlightIsAsked;
    /// No caller joins a read that a commit may have overtaken.
    SpoiledRunsAreNotJoined;
    /// A commit that moves a total takes the old one away.
    TotalsAreWithheld;
    /// A patched total comes back after the commit, never before.
    TotalsWaitForPublish;
    /// A commit that failed leaves totals as they were.
    FailedCommitsPatchNothing;
    /// A total at the cap is no number to add to.
    TotalsAtCapAreDropped;
    /// Lists beyond the bound of their table are dropped by each change of it.
    DegradedAreDropped;
    /// Rows and total of one answer were true together at some instant.
    OneInstant;
    /// What goes is unregistered by its own number, so that a newer entry of the same name stays.
    UnregisterByNumber;
    /// What is evicted between two looks of one answer counts as altered.
    EvictedCountsAsAltered;
    /// A purge also bars reads that are open within a `ttl`.
    PurgeIsAFence;
    /// A purge takes exact lists as well.
    PurgeTakesExactLists;
    /// Lists are kept only where the changes of their own table are all that alters them.
    KeepsWhatIsWatched;
    /// A commit that may have altered an answer within a `ttl` makes it say so.
    StaleIsTold;
    /// A commit that takes a row from a caller's sight takes the answers within a `ttl` that show
    /// it to him.
    LossesEndAges;
    /// A table whose next boundary has passed serves nothing that is cached, until what is due
    /// has been activated.
    ListsEndAtBoundaries;
    /// What becomes due alters lists as a commit does.
    DueRowsAreChanges;
    /// A commit that schedules something moves the boundary of its table before it is visible.
    BoundariesAreMovedBefore;
    /// A commit that changes the past of a table raises its past epoch.
    RecastsAreFences;
    /// While such a commit is in flight, no answer at fixed coordinates is found or kept.
    FencesStandInFlight;
    /// Answers at fixed coordinates are named by the line below which their table lets its past go.
    PinnedNamesHoldTheLine;
    /// Of a table that keeps no past none is kept: what they look at goes with the next commit.
    NothingIsPinnedThatGoes;
}

/// Which rules hold.
#[derive(Debug, Default)]
pub struct Rules {
    #[cfg(feature = "test-switches")]
    off: std::sync::atomic::AtomicU64,
    /// See [`Rules::limit_watches`]; 0 leaves bounds as they are.
    #[cfg(feature = "test-switches")]
    bound_max: std::sync::atomic::AtomicUsize,
    /// See [`Rules::limit_entry_share`]; 0 leaves the share as it is.
    #[cfg(feature = "test-switches")]
    share: std::sync::atomic::AtomicU64,
    #[cfg(feature = "test-switches")]
    between_looks: Between,
}

/// What a test lets happen between two looks.
#[cfg(feature = "test-switches")]
#[derive(Default)]
struct Between(std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>);

#[cfg(feature = "test-switches")]
impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Between")
    }
}

#[cfg(feature = "test-switches")]
impl Rules {
    /// Goes on without `rule`.
    pub fn switch_off(&self, rule: Rule) {
        self.off
            .fetch_or(1 << rule as u64, std::sync::atomic::Ordering::Relaxed);
    }

    /// Obeys `rule` again.
    pub fn switch_on(&self, rule: Rule) {
        self.off
            .fetch_and(!(1 << rule as u64), std::sync::atomic::Ordering::Relaxed);
    }

    /// Watches so many lists of a table, a bucket and a filter at most, so that a test can pass
    /// these bounds.
    pub fn limit_watches(&self, bound_max: usize) {
        self.bound_max
            .store(bound_max, std::sync::atomic::Ordering::Relaxed);
    }

    /// Lets one entry take up to one part in `share` of the capacity, so that a few entries fill
    /// it, and nearly each new one evicts another.
    pub fn limit_entry_share(&self, share: u64) {
        self.share
            .store(share, std::sync::atomic::Ordering::Relaxed);
    }

    /// Calls `act` from now on where another thread might come between the looks for the rows
    /// and for the total of one answer.
    pub fn between_looks(&self, act: impl Fn() + Send + Sync + 'static) {
        // Set twice, it keeps the first value.
        let _ = self.between_looks.0.set(Box::new(act));
    }

    pub(crate) fn pause_for_test(&self) {
        if let Some(act) = self.between_looks.0.get() {
            act();
        }
    }

    pub(crate) fn bound(&self, bound: usize) -> usize {
        match self.bound_max.load(std::sync::atomic::Ordering::Relaxed) {
            0 => bound,
            bound_max => bound.min(bound_max),
        }
    }

    pub(crate) fn share(&self, share: u64) -> u64 {
        match self.share.load(std::sync::atomic::Ordering::Relaxed) {
            0 => share,
            cramped => cramped,
        }
    }

    pub(crate) fn hold(&self, rule: Rule) -> bool {
        self.off.load(std::sync::atomic::Ordering::Relaxed) & (1 << rule as u64) == 0
    }
}

#[cfg(not(feature = "test-switches"))]
impl Rules {
    #[expect(clippy::unused_self, reason = "the switches exist in test builds only")]
    pub(crate) fn hold(&self, _rule: Rule) -> bool {
        true
    }

    #[expect(clippy::unused_self, reason = "the switches exist in test builds only")]
    pub(crate) fn bound(&self, bound: usize) -> usize {
        bound
    }

    #[expect(clippy::unused_self, reason = "the switches exist in test builds only")]
    pub(crate) fn share(&self, share: u64) -> u64 {
        share
    }

    #[expect(clippy::unused_self, reason = "the switches exist in test builds only")]
    pub(crate) fn pause_for_test(&self) {}
}
