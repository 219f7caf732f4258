//! Answers to what is remembered.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use bytes::Bytes;
use engine::{Caller, Engine, Family, ListAnswer, PreparedList, PreparedPast, PreparedTable};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use model::{Actor, Mark, Marked, RowId};

use super::super::cors::Origin;
use super::super::heads::Heads;
use super::super::min_mark::{self, X_TIDEMARK_MARK};
use super::super::reply::{Reply, ReplyBody, X_REQUEST_ID, shared_bytes};
use super::super::wire::{self, Words};
use super::super::{App, etag};

/// What a target asks for.
pub enum CachedPlan {
    /// A list.
    List(Box<List>),
    /// A row, whose id follows.
    RowOf(RowOf),
    /// A row at a time that is over, whose id stands before the queries.
    Past(Box<Past>),
    /// What only the long way can answer.
    Longer,
}

/// A list and what went before its rows the last time.
pub struct List {
    pub(super) prepared: PreparedList,
    family: Family,
    words: &'static Words,
    head: RefCell<Option<Head>>,
    /// Answers since they were last reported.
    answers: Cell<u64>,
}

/// A table whose rows are read.
pub struct RowOf {
    table: PreparedTable,
    family: Family,
    /// Every header of an answer, with nothing in those of one request.
    headers: HeaderMap,
}

/// A table whose rows are read at a time that is over.
pub struct Past {
    table: PreparedPast,
    words: &'static Words,
}

/// What went before the rows the last time.
struct Head {
    /// The answer it was written for, without its rows.
    answer: ListAnswer,
    /// Every header but those of one request.
    headers: HeaderMap,
    open: Bytes,
    close: Bytes,
}

/// A target without the id of the row that it names, and that id.
pub fn around_row(target: &str) -> Option<(Cow<'_, str>, &str)> {
    let (path, queries) = target.split_at(target.find('?').unwrap_or(target.len()));
    let (before, id) = path.split_at(path.rfind('/')? + 1);
    let around = match queries {
        "" => before.into(),
        queries => [before, queries].concat().into(),
    };
    Some((around, id))
}

/// The answer to a request whose plan is remembered, if it can be given at once, and the place
/// of its route.
pub fn answer<B>(app: &App, request: &Request<B>) -> Option<(Response<ReplyBody>, usize)> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let headers = request.headers();
    let heads = Heads::of(headers);
    if heads.cache.is_some() {
        return None;
    }
    let target = request.uri().path_and_query()?.as_str();
    let engine = &*app.shared.engine;
    let min_mark = match heads.min_mark {
        // One that is not reached yet is waited for.
        Some(named) => Some(min_mark::read(named).filter(|mark| engine.has_reached(*mark))?),
        None => None,
    };
    let caller = app.callers.known(engine, &heads)?;
    // A list without a query string ends in such a word as well. A row of that name is answered
    // the long way.
    let is_of_list = |id: &str| {
        [Family::Tables, Family::Documents]
            .map(|family| wire::words(family).rows)
            .contains(&id)
    };
    let around = around_row(target).filter(|(_, id)| !is_of_list(id));
    let (around, id) = around.unwrap_or((target.into(), ""));
    let known = app.fast_path.find(engine, &around, &caller)?;
    let origin = app.shared.origins.judge(heads.origin);
    if origin == Origin::Foreign {
        return None;
    }
    let of_request = |app: &App| app.request_ids.name(heads.request_id);
    let asked = heads.held.map(|_| headers);
    match &known.plan {
        CachedPlan::List(list) => {
            let answer = engine.held(&list.prepared)?;
            if min_mark.is_some() && answer.may_be_old() {
                return None;
            }
            app.counts.listed(answer.cached);
            list.answers.set(list.answers.get() + 1);
            let of_request = (of_request(app), &origin);
            let response = list.response(answer, asked, of_request, (app, is_guest(&caller)))?;
            Some((response, app.shared.fast_routes.list(list.family)))
        }
        CachedPlan::RowOf(table) => {
            let Marked { answer: body, mark } = table.read(engine, id)?;
            let tag = etag::of_body(engine.fingerprint(&body));
            let mut answered = table.headers.clone();
            answered.insert(header::ETAG, tag);
            answered.insert(X_TIDEMARK_MARK, mark.0.into());
            let pieces = [Bytes::from(body), Bytes::new(), Bytes::new()];
            let of_request = (of_request(app), &origin);
            let response = respond(
                answered,
                pieces,
                asked,
                of_request,
                (app, is_guest(&caller)),
            )?;
            Some((response, app.shared.fast_routes.row(table.family)))
        }
        CachedPlan::Past(past) => {
            let reply = past.reply(app, id, (headers, &caller))?;
            let route = app.shared.fast_routes.row(past.words.family());
            Some((reply.into_response(of_request(app), &origin), route))
        }
        CachedPlan::Longer => None,
    }
}

impl Past {
    /// The rows of a table at a time, in the words of this family.
    pub fn new(table: PreparedPast, family: Family) -> Past {
        let words = wire::words(family);
        Past { table, words }
    }

    fn reply(&self, app: &App, id: &str, sent: (&HeaderMap, &Caller)) -> Option<Reply> {
        let engine = &*app.shared.engine;
        let answer = engine.past_at_once(&self.table, &RowId::new(id).ok()?)?;
        app.counts.listed(answer.cached);
        let (headers, caller) = sent;
        let reply = Reply::row(answer, self.words);
        let reply = reply.unless_held(headers, |body| engine.fingerprint(body));
        let untaken = app.counted(reply.pieces(), is_guest(caller)).ok()?;
        Some(reply.counted(untaken))
    }
}

impl List {
    /// A list whose answers are written in the words of this family.
    pub fn new(list: PreparedList, family: Family) -> List {
        List {
            prepared: list,
            family,
            words: wire::words(family),
            head: RefCell::default(),
            answers: Cell::new(0),
        }
    }

    pub(super) fn report(&self, engine: &Engine) {
        let answers = self.answers.take();
        if answers > 0 {
            engine.count_held(&self.prepared, answers);
        }
    }

    fn response(
        &self,
        answer: ListAnswer,
        asked: Option<&HeaderMap>,
        of_request: (HeaderValue, &Origin),
        sender: (&App, bool),
    ) -> Option<Response<ReplyBody>> {
        let mut remembered = self.head.borrow_mut();
        let head = match &mut *remembered {
            Some(head) if head.fits(&answer) => head,
            other => other.insert(Head::of(&answer, self.words)),
        };
        let pieces = [
            head.open.clone(),
            shared_bytes(answer.rows),
            head.close.clone(),
        ];
        respond(head.headers.clone(), pieces, asked, of_request, sender)
    }
}

impl RowOf {
    /// The rows of a table, in the words of this family.
    pub fn new(table: PreparedTable, family: Family) -> RowOf {
        let reply = Reply::ok(Vec::new()).at(Mark(0));
        let reply = reply.unless_held(&HeaderMap::new(), |_| 0);
        RowOf {
            table,
            family,
            headers: headers_of(reply),
        }
    }

    fn read(&self, engine: &Engine, id: &str) -> Option<Marked<Vec<u8>>> {
        let page = engine.row_at_once(&self.table, &RowId::new(id).ok()?)?;
        Some(page.map(|page| wire::encode_page(&page, self.family)))
    }
}

/// The headers of a reply, with a place for the name of each request, so that it is put there
/// without moving the others.
fn headers_of(reply: Reply) -> HeaderMap {
    let nobody = HeaderValue::from_static("");
    let response = reply.into_response(nobody, &Origin::None);
    response.into_parts().0.headers
}

/// The answer in these pieces, with the headers that it always has, or 304 where the client holds
/// it: `asked` are the headers of a request that says what it holds. `None` while too many large
/// answers wait: on the long way it is said so.
fn respond(
    mut headers: HeaderMap,
    pieces: [Bytes; 3],
    asked: Option<&HeaderMap>,
    (request_id, origin): (HeaderValue, &Origin),
    (app, of_guest): (&App, bool),
) -> Option<Response<ReplyBody>> {
    headers.insert(X_REQUEST_ID, request_id);
    origin.write(&mut headers);
    let is_held = asked.is_some_and(|asked| etag::is_held(asked, &headers[header::ETAG]));
    let (pieces, status) = if is_held {
        headers.remove(header::CONTENT_TYPE);
        (<[Bytes; 3]>::default(), StatusCode::NOT_MODIFIED)
    } else {
        (pieces, StatusCode::OK)
    };
    let untaken = app.counted(&pieces, of_guest).ok()?;
    let mut response = Response::new(ReplyBody::whole(pieces, untaken));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Some(response)
}

fn is_guest(caller: &Caller) -> bool {
    !matches!(caller.actor, Actor::Key { .. })
}

impl Head {
    fn of(answer: &ListAnswer, words: &'static Words) -> Head {
        let answer = ListAnswer {
            rows: [].into(),
            ..answer.clone()
        };
        let (open, close) = wire::list_envelope(words.rows, answer.total);
        Head {
            headers: headers_of(Reply::list(answer.clone(), words)),
            answer,
            open: Bytes::from(open),
            close: Bytes::from_static(close),
        }
    }

    /// Whether `answer` has the same head. Its rows are the same if their tag is.
    fn fits(&self, answer: &ListAnswer) -> bool {
        let told = |answer: &ListAnswer| (answer.tag, answer.total, answer.cached, answer.mark);
        told(&self.answer) == told(answer)
    }
}
