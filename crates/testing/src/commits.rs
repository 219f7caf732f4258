//! Commits that end as a test wants it.

use store::{Boundaries, Changes, Committed, InDoubt, Outcome, Pending, StoreError, StoreFuture};

/// What became of the batches of a commit that was done.
///
/// # Errors
/// Why it was not, or why that is not known.
pub fn done(committed: Result<Committed, StoreError>) -> Result<Vec<Outcome>, StoreError> {
    match committed? {
        Committed::Done(outcomes) => Ok(outcomes),
        Committed::Unknown(doubt) => Err(doubt.cause().clone()),
    }
}

/// What is applied, with `commit` in place of its commit.
pub fn on_commit(
    inner: Box<dyn Pending>,
    commit: impl FnOnce(Box<dyn Pending>) -> StoreFuture<'static, Committed> + Send + 'static,
) -> Box<dyn Pending> {
    Box::new(HookedPending { inner, commit })
}

struct HookedPending<C> {
    inner: Box<dyn Pending>,
    commit: C,
}

impl<C> Pending for HookedPending<C>
where
    C: FnOnce(Box<dyn Pending>) -> StoreFuture<'static, Committed> + Send,
{
    fn outcomes(&self) -> &[Outcome] {
        self.inner.outcomes()
    }

    fn due(&self) -> &[Changes] {
        self.inner.due()
    }

    fn boundaries(&self) -> Boundaries {
        self.inner.boundaries()
    }

    fn commit(self: Box<Self>) -> StoreFuture<'static, Committed> {
        (self.commit)(self.inner)
    }
}

/// Commits what was applied, or takes it back, and says neither before it is asked: each time
/// `ask` decides whether the database answers.
pub fn in_doubt(
    applied: Box<dyn Pending>,
    is_done: bool,
    ask: impl FnMut() -> Result<(), StoreError> + Send + 'static,
) -> StoreFuture<'static, Committed> {
    Box::pin(async move {
        let outcomes = applied.outcomes().to_vec();
        if is_done {
            applied.commit().await?;
        } else {
            drop(applied);
        }
        let cause = StoreError::Io {
            detail: "the answer to a commit was lost".to_owned(),
        };
        Ok(Committed::Unknown(Box::new(Doubt {
            outcomes,
            cause,
            is_done,
            ask,
        })))
    })
}

struct Doubt<A> {
    outcomes: Vec<Outcome>,
    cause: StoreError,
    is_done: bool,
    ask: A,
}

impl<A> InDoubt for Doubt<A>
where
    A: FnMut() -> Result<(), StoreError> + Send,
{
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn cause(&self) -> &StoreError {
        &self.cause
    }

    fn ask(&mut self) -> StoreFuture<'_, bool> {
        let answered = (self.ask)().map(|()| self.is_done);
        Box::pin(std::future::ready(answered))
    }
}
