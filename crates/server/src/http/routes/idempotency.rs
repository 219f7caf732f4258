//! Writes that carry an `Idempotency-Key`: sent again, they are not done again, and are answered
//! as they were.
//!
//! What is answered under a key is what was kept by the commit, the first time, too: so it cannot
//! differ from what is answered later.

use std::rc::Rc;
use std::sync::Arc;

use engine::{Caller, Effect, Engine, Family, OFFLOAD_BYTES_MIN, Request, WriteAnswer};
use hyper::StatusCode;
use model::{Mark, Marked, Page};

use super::ndjson;
use crate::http::input::context::RequestContext;
use crate::http::input::idempotency_key::{Named, request_key};
use crate::http::reply::Reply;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// Answers a write that carries a key, and that `write` carries out.
pub async fn perform<'a, F>(
    mut context: RequestContext<'a>,
    write: impl FnOnce(RequestContext<'a>) -> F,
) -> Result<Reply, ApiError>
where
    F: Future<Output = Result<Reply, ApiError>>,
{
    let app = context.app;
    if ndjson::are_sent(&context.head.headers) {
        let why = "A stream takes no key: what was answered need not be sent again.";
        return Err(ApiError::invalid("Idempotency-Key", why));
    }
    let engine = &*app.shared.engine;
    let key = request_key(&context.head.headers)?;
    let named = Named {
        key: key.unwrap_or_default().to_owned(),
        print: print(engine, &mut context).await?,
    };
    context.named = Some(named);
    let caller = context.writer_of_marks(context.caller()?);
    if let Some(reply) = kept(engine, &caller).await? {
        return Ok(reply);
    }
    let done = write(context).await;
    // Also where it could not be done: the same request may have been done meanwhile.
    match kept(engine, &caller).await? {
        Some(reply) => Ok(reply),
        None => done,
    }
}

async fn kept(engine: &Engine, caller: &Caller) -> Result<Option<Reply>, ApiError> {
    let answer = engine.kept_answer(caller).await?;
    let unreadable = || ApiError::internal("a kept answer cannot be read");
    let reply = answer.map(|answer| Reply::restored(&answer).ok_or_else(unreadable));
    reply.transpose()
}

async fn print(engine: &Engine, context: &mut RequestContext<'_>) -> Result<u128, ApiError> {
    let body = engine.fingerprint(context.load().await?);
    let (method, target) = (&context.head.method, &context.head.uri);
    let described = format!("{method} {target} {body:032x}");
    Ok(engine.fingerprint(described.as_bytes()))
}

impl RequestContext<'_> {
    /// The caller as one who writes: what a request that carries a key has done is answered by
    /// `answer`, and kept.
    pub fn writer(
        &self,
        caller: Rc<Caller>,
        answer: impl Fn(&Effect<'_>) -> Reply + Send + Sync + 'static,
    ) -> Rc<Caller> {
        self.writer_at(caller, move |effect, _| answer(effect))
    }

    /// The same for an answer that shows its mark.
    pub fn writer_at(
        &self,
        caller: Rc<Caller>,
        answer: impl Fn(&Effect<'_>, Mark) -> Reply + Send + Sync + 'static,
    ) -> Rc<Caller> {
        let keep = move |effect: &Effect<'_>, mark| answer(effect, mark).to_keep(mark);
        self.under_its_key(caller, || Some(Box::new(keep)))
    }

    /// The caller of a request of which marks alone are kept.
    pub fn writer_of_marks(&self, caller: Rc<Caller>) -> Rc<Caller> {
        self.under_its_key(caller, || None)
    }

    fn under_its_key(
        &self,
        caller: Rc<Caller>,
        answer: impl FnOnce() -> Option<Box<WriteAnswer>>,
    ) -> Rc<Caller> {
        let Some(named) = &self.named else {
            return caller;
        };
        Rc::new(Caller {
            request: Some(Arc::new(Request {
                key: named.key.clone(),
                print: named.print,
                answer: answer(),
            })),
            ..(*caller).clone()
        })
    }

    /// Refuses a key where nothing is done yet.
    ///
    /// # Errors
    /// When the request carries one.
    pub fn need_no_key(&self) -> Result<(), ApiError> {
        if self.named.is_none() {
            return Ok(());
        }
        let why = "Operations are staged without a key; the commit of the transaction takes one.";
        Err(ApiError::invalid("Idempotency-Key", why))
    }
}

/// How the answer to a write shows what was done.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// The one row that was written.
    Row(StatusCode),
    /// The rows that were written.
    Rows(StatusCode),
}

impl Shape {
    /// The answer that shows `effect`.
    pub fn reply(self, effect: &Effect<'_>, family: Family) -> Reply {
        let Effect::Rows { total, page } = effect else {
            unreachable!("a route of rows writes rows");
        };
        Reply::json(self.status(), self.body(*total, page, family))
    }

    fn status(self) -> StatusCode {
        let (Shape::Row(status) | Shape::Rows(status)) = self;
        status
    }

    fn body(self, total: u64, page: &Page, family: Family) -> Vec<u8> {
        match self {
            Shape::Row(_) => wire::encode_page(page, family),
            Shape::Rows(_) => wire::rows_of(total, page, wire::words(family)),
        }
    }

    /// The answer to what `caller` has written: large rows are encoded apart, but here rather than
    /// not at all, because they have been written.
    pub async fn written(
        self,
        context: &RequestContext<'_>,
        caller: &Caller,
        (total, written): (u64, Marked<Page>),
    ) -> Reply {
        let Marked { answer: page, mark } = written;
        let (bytes, family) = (page.size_bytes(), context.family);
        if bytes < OFFLOAD_BYTES_MIN {
            let body = self.body(total, &page, family);
            return Reply::json(self.status(), body).at(mark);
        }
        let page = Arc::new(page);
        let apart = page.clone();
        let work = move || self.body(total, &apart, family);
        let engine = &context.app.shared.engine;
        let body = engine.offload(bytes, caller.is_guest(), work).await;
        let body = body.unwrap_or_else(|_| self.body(total, &page, family));
        Reply::json(self.status(), body).at(mark)
    }
}
