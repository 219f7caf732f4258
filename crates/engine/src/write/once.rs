//! Requests that run once, however often they are sent.
//!
//! A request that carries a key has it stored by the commit that does what it asks, with what was
//! asked, the mark and the answer. So no crash comes between effect and key, and an API key that
//! sends it again gets the answer of then, whatever the rows are by now.
//!
//! Answers are kept for API keys alone, each under the key that made it. Guests are all the same
//! here: one that guessed a request of another would get the rows that it answered, and each
//! would leave an answer on the disk that is larger than what was sent.

use std::sync::Arc;

use model::{Actor, ApiKey};
use store::staged::{REQUESTS_KEPT_US, request_text};
use store::{AnswerOf, Done, Once};

use crate::Engine;
use crate::error::{AccessError, EngineError, WriteError};
use crate::request::authorize::{WRITE_ROWS, owner};
use crate::request::inputs::{Caller, Effect, Request};

impl Engine {
    /// The answer that was kept when this key's request ran, within the last hour. `None` if it
    /// has not run, if its answer was not kept, gave way to others, or was erased; always for
    /// callers without a key.
    ///
    /// # Errors
    /// [`AccessError::ScopeMissing`] when the key may write no rows, or no longer;
    /// [`WriteError::RequestKeyReused`] when another request ran under its key.
    pub async fn kept_answer(&self, caller: &Caller) -> Result<Option<Vec<u8>>, EngineError> {
        let Some(request) = &caller.request else {
            return Ok(None);
        };
        let Some(api_key) = self.api_key(caller) else {
            return Ok(None);
        };
        // As the key is now: it may have changed since the request began.
        if !api_key.scopes.iter().any(|held| WRITE_ROWS.contains(held)) {
            return Err(AccessError::ScopeMissing(WRITE_ROWS).into());
        }
        let (store, key) = (&self.shared.store, self.stored_key(caller, request));
        let kept = store.kept_request(&caller.project, &key).await?;
        let kept_from = self.shared.clock.now().0.saturating_sub(REQUESTS_KEPT_US);
        match kept.filter(|kept| kept.at.0 >= kept_from) {
            None => Ok(None),
            Some(kept) if kept.request == request_text(request.print) => Ok(kept.answer),
            Some(_) => Err(WriteError::RequestKeyReused.into()),
        }
    }

    /// The caller's key as it is now; `None` if it has none, or it was revoked.
    fn api_key(&self, caller: &Caller) -> Option<Arc<ApiKey>> {
        let Actor::Key { id, .. } = &caller.actor else {
            return None;
        };
        let catalogue = self.catalogue();
        let is_it = |key: &&Arc<ApiKey>| key.project == caller.project && key.id == *id;
        catalogue.keys().find(is_it).cloned()
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
        let is_kept = request.answer.is_some() && matches!(caller.actor, Actor::Key { .. });
        once.answer = is_kept.then(|| {
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
            key: self.stored_key(caller, request),
            part,
            request: request.print,
            now: self.shared.clock.now(),
            answer: None,
            answers_bytes_max: self.quotas.key_answers_bytes,
        })
    }

    /// The name under which a request is kept. Those of two API keys never meet, nor those of a key
    /// and of one that was created later with its id.
    fn stored_key(&self, caller: &Caller, request: &Request) -> String {
        match self.api_key(caller) {
            Some(key) => format!("key:{}@{} {}", key.id, key.created.0, request.key),
            None => match &caller.actor {
                Actor::Function { id, .. } => format!("function:{id} {}", request.key),
                actor => format!("{} {}", owner(actor), request.key),
            },
        }
    }
}
