//! Requests that run once, however often they are sent.
//!
//! A request that carries a key has it stored by the commit that does what it asks, with what was
//! asked, the mark and the answer. So no crash comes between effect and key, and whoever sends it
//! again gets the answer of then, whatever the rows are by now.

use std::fmt;
use std::sync::Arc;

use model::{Mark, Page};
use store::staged::{REQUESTS_KEPT_US, request_text};
use store::{AnswerOf, Done, Once, Transaction};

use crate::Engine;
use crate::asked::Caller;
use crate::error::EngineError;
use crate::transactions::owner;

/// A request that may be sent again.
pub struct Request {
    /// The key that it is sent under.
    pub key: String,
    /// Stands for what is asked; see [`Engine::fingerprint`].
    pub print: u128,
    /// Writes the answer that is kept. Without it marks alone are.
    pub answer: Option<Box<WriteAnswer>>,
}

/// Writes an answer from what the request has done, and the mark it is true for. Called by the
/// writer: it must not wait.
pub type WriteAnswer = dyn Fn(&Effect<'_>, Mark) -> Vec<u8> + Send + Sync;

/// What a request has done.
#[derive(Clone, Copy, Debug)]
pub enum Effect<'a> {
    /// Wrote rows; deleted ones are as they were, if they are shown at all.
    Rows {
        /// How many.
        total: u64,
        /// The first of them.
        page: &'a Page,
    },
    /// Committed a transaction of a client.
    Transaction(&'a Transaction),
    /// Ran operations over valid periods: whether each changed anything.
    Timed(&'a [bool]),
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Request");
        shown.field("key", &self.key).finish_non_exhaustive()
    }
}

impl Engine {
    /// The answer that was kept when the caller's request ran, within the last hour. `None` if it
    /// has not run, or if its answer was not kept, or was erased.
    ///
    /// # Errors
    /// [`EngineError::RequestKeyReused`] when another request ran under its key.
    pub async fn kept_answer(&self, caller: &Caller) -> Result<Option<Vec<u8>>, EngineError> {
        let Some(request) = &caller.request else {
            return Ok(None);
        };
        let (store, key) = (&self.shared.store, stored_key(caller, request));
        let kept = store.kept_request(&caller.project, &key).await?;
        let kept_from = self.shared.clock.now().0.saturating_sub(REQUESTS_KEPT_US);
        match kept.filter(|kept| kept.at.0 >= kept_from) {
            None => Ok(None),
            Some(kept) if kept.request == request_text(request.print) => Ok(kept.answer),
            Some(_) => Err(EngineError::RequestKeyReused),
        }
    }

    /// What keeps a batch of the caller's request from running twice, if it carries a key. `effect`
    /// hands on what the batch has done.
    pub(crate) fn once(
        &self,
        caller: &Caller,
        effect: impl Fn(&Done<'_>, &mut dyn FnMut(&Effect<'_>)) + Send + Sync + 'static,
    ) -> Option<Once> {
        let request = caller.request.clone()?;
        let mut once = self.once_of_part(caller, 0)?;
        once.answer = request.answer.is_some().then(|| {
            AnswerOf(Arc::new(move |done: &Done<'_>| {
                let mut answer = Vec::new();
                if let Some(write) = &request.answer {
                    effect(done, &mut |effect| answer = write(effect, done.mark));
                }
                answer
            }))
        });
        Some(once)
    }

    /// The same for one of several batches of a request, of which the marks alone are kept.
    pub(crate) fn once_of_part(&self, caller: &Caller, part: u32) -> Option<Once> {
        let request = caller.request.as_ref()?;
        Some(Once {
            project: caller.project.clone(),
            key: stored_key(caller, request),
            part,
            request: request.print,
            now: self.shared.clock.now(),
            answer: None,
        })
    }
}

/// Of callers who cannot see each other's transactions, keys do not meet either.
fn stored_key(caller: &Caller, request: &Request) -> String {
    format!("{} {}", owner(&caller.actor), request.key)
}
