//! Requests that may be sent again: each runs once, however often it comes. A key that is known
//! stays known for its time, and what was answered is kept with it as long as there is room.

use model::{Mark, Timestamp};

use super::halt::Step;
use super::run::Run;
use crate::StoreError;
use crate::refusal::Refusal;
use crate::staged::{ANSWER_BYTES_MAX, Done, Once, Repeated, request_text};

/// Most keys that are forgotten for a new one: more than one, so that they cannot pile up, and few
/// enough that no writer waits for it.
pub(crate) const FORGOTTEN_MAX: i64 = 100;

/// What a database keeps of requests.
pub(crate) trait RequestStore {
    /// Forgets requests that ran before this instant, the oldest ones and at most
    /// [`FORGOTTEN_MAX`].
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn forget_requests(&self, before: Timestamp) -> Result<(), StoreError>;

    /// The batch that ran under the key of this one. One that ran before [`Once::kept_from`] may
    /// be left out: it counts for nothing, whatever its bytes are.
    fn ran(&self, once: &Once) -> Result<Option<RanRequest>, StoreError>;

    /// Keeps a request, also in the place of one whose time is over.
    fn keep_request(&self, request: RequestToKeep<'_>) -> Result<(), StoreError>;

    /// Keeps the bytes of all answers to the owner of a key within the request's bound: those of
    /// the oldest requests go, and where that makes too little room, the new one.
    fn bound_answers(&self, once: &Once) -> Result<(), StoreError>;
}

/// A batch that has run under a key.
#[derive(Clone)]
pub(crate) struct RanRequest {
    /// As [`request_text`]; `None` if it cannot be read.
    pub(crate) request: Option<String>,
    pub(crate) mark: Option<Mark>,
    pub(crate) at: Timestamp,
}

/// A request to be kept.
pub(crate) struct RequestToKeep<'a> {
    pub(crate) once: &'a Once,
    pub(crate) mark: Option<Mark>,
    pub(crate) answer: Option<Vec<u8>>,
    /// Whether what stands for it, and the answer, are to be sealed.
    pub(crate) is_sealed: bool,
}

impl<D: RequestStore> Run<'_, D> {
    /// # Errors
    /// [`Refusal::Repeated`] when the request has run before.
    pub(crate) fn need_first_time(&mut self, once: &Once) -> Step<()> {
        let kept_from = once.kept_from();
        self.rows().forget_requests(kept_from)?;
        let ran = self.rows().ran(once)?;
        if let Some(ran) = ran.filter(|ran| ran.at >= kept_from) {
            let is_same = ran.request == Some(request_text(once.request));
            let mark = ran.mark;
            return Err(Refusal::Repeated(Repeated { mark, is_same }).into());
        }
        self.staged.once = Some(once.clone());
        Ok(())
    }

    /// Keeps the key of the request, if it has one, and the answer.
    pub(crate) fn keep_request(&self, has_mark: bool, done: &Done<'_>) -> Step<()> {
        let Some(once) = &self.staged.once else {
            return Ok(());
        };
        let answer = once.answer.as_ref().map(|answer| (answer.0)(done));
        let bytes = answer.as_ref().map_or(0, Vec::len);
        if bytes > ANSWER_BYTES_MAX {
            let bytes_max = ANSWER_BYTES_MAX;
            return Err(Refusal::AnswerTooLarge { bytes_max }.into());
        }
        self.rows().keep_request(RequestToKeep {
            once,
            mark: has_mark.then_some(self.mark),
            answer,
            is_sealed: self.state.is_sealing,
        })?;
        if bytes > 0 {
            self.rows().bound_answers(once)?;
        }
        Ok(())
    }
}

/// Whose a key is: up to its first space.
pub(crate) fn owner_of(key: &str) -> &str {
    key.find(' ').map_or("", |end| &key[..=end])
}
