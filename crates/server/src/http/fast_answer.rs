//! Answers to requests whose target this thread remembers.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use engine::{Caller, Family};
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use model::{Marked, RowId};

use crate::http::App;
use crate::http::head::cors::Origin;
use crate::http::head::etag::{self, BodyTag};
use crate::http::head::headers::{KnownHeaders, X_REQUEST_ID};
use crate::http::head::min_mark;
use crate::http::head::request_ids::RequestName;
use crate::http::reply::fixed_head::{BodyNames, FixedAnswer, FixedHead, QuickAnswer};
use crate::http::reply::{Reply, ReplyBody};
use crate::http::state::fast_path::{CachedPlan, Known, Meaning, PastRowPlan, around_row};
use crate::http::state::known_heads::KnownHead;
use crate::http::wire;

/// The answer to a request whose plan is remembered, if it can be given at once, and the place
/// of its route.
pub fn answer<B>(app: &App, request: &Request<B>) -> Option<(QuickAnswer, usize)> {
    let (meaning, known) = meaning_of(app, request)?;
    answer_so(app, (&meaning, &known.plan), request.headers())
}

/// The same of a request that is known by its bytes: what it means is not asked again.
pub fn answer_known(app: &App, head: &KnownHead) -> Option<(QuickAnswer, usize)> {
    let engine = &*app.shared.engine;
    let mut kept = head.meaning.borrow_mut();
    let still = kept
        .as_ref()
        .and_then(|kept| kept.still(engine, &app.fast_path));
    let known = if let Some(known) = still {
        known
    } else {
        let (meaning, known) = meaning_of(app, &head.request)?;
        *kept = Some(meaning);
        known
    };
    answer_so(app, (kept.as_ref()?, &known.plan), head.request.headers())
}

/// What a request means, and what is remembered of its target; `None` where only dispatch can say.
fn meaning_of<B>(app: &App, request: &Request<B>) -> Option<(Meaning, Rc<Known>)> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let heads = KnownHeaders::of(request.headers());
    if heads.cache.is_some() {
        return None;
    }
    let min_mark = match heads.min_mark {
        Some(named) => Some(min_mark::read(named)?),
        None => None,
    };
    let engine = &*app.shared.engine;
    let caller = app.callers.known(engine, &heads)?;
    let (around, id) = parts(request.uri().path_and_query()?.as_str());
    let known = app.fast_path.find(engine, &around, &caller.caller)?;
    let row = match known.plan {
        CachedPlan::Row(_) | CachedPlan::PastRow(_) => Some(RowId::new(id).ok()?),
        CachedPlan::List(_) => None,
        CachedPlan::Dispatch => return None,
    };
    let origin = app.shared.origins.judge(heads.origin);
    let meaning = Meaning {
        caller,
        known: Rc::downgrade(&known),
        row,
        min_mark,
        is_conditional: heads.held.is_some(),
        is_named: heads.request_id.is_some(),
        origin,
    };
    (meaning.origin != Origin::Foreign).then_some((meaning, known))
}

/// A target without the id of the row that it names, and that id, which is empty where it names
/// none.
fn parts(target: &str) -> (Cow<'_, str>, &str) {
    // A list without a query string ends in such a word as well. A row of that name is answered
    // by dispatch.
    let is_of_list = |id: &str| {
        [Family::Tables, Family::Documents]
            .map(|family| wire::words(family).rows)
            .contains(&id)
    };
    let around = around_row(target).filter(|(_, id)| !is_of_list(id));
    around.unwrap_or((target.into(), ""))
}

fn answer_so(
    app: &App,
    (meaning, plan): (&Meaning, &CachedPlan),
    headers: &HeaderMap,
) -> Option<(QuickAnswer, usize)> {
    let engine = &*app.shared.engine;
    // One that is not reached yet is waited for.
    if meaning
        .min_mark
        .is_some_and(|mark| !engine.has_reached(mark))
    {
        return None;
    }
    let sent_id = || {
        meaning
            .is_named
            .then(|| headers.get(X_REQUEST_ID))
            .flatten()
    };
    let conditional = meaning.is_conditional.then_some(headers);
    let caller = &*meaning.caller.caller;
    let respond = |head: &Rc<FixedHead>, names, pieces| {
        let of_request = (app.request_ids.text(sent_id()), meaning.origin.clone());
        respond(
            (head, names),
            pieces,
            conditional,
            of_request,
            (app, is_guest(caller)),
        )
    };
    match plan {
        CachedPlan::List(list) => {
            let answer = engine.held(&list.prepared)?;
            if meaning.min_mark.is_some() && answer.may_be_old() {
                return None;
            }
            app.counts.listed(answer.cached);
            list.count();
            let (head, pieces) = list.write(answer);
            let answer = respond(&head, None, pieces)?;
            Some((answer, app.shared.fast_routes.list(list.family)))
        }
        CachedPlan::Row(table) => {
            let Marked { answer: body, mark } = table.read(engine, meaning.row.as_ref()?)?;
            let tag = BodyTag::of(engine.fingerprint(&body));
            let pieces = [Bytes::from(body), Bytes::new(), Bytes::new()];
            let answer = respond(&table.head, Some(BodyNames { tag, mark }), pieces)?;
            Some((answer, app.shared.fast_routes.row(table.family)))
        }
        CachedPlan::PastRow(past) => {
            let reply = past_reply(past, app, meaning.row.as_ref()?, (headers, caller))?;
            let route = app.shared.fast_routes.row(past.words.family());
            let response = reply.into_response(app.request_ids.name(sent_id()), &meaning.origin);
            Some((QuickAnswer::Written(response), route))
        }
        CachedPlan::Dispatch => None,
    }
}

fn past_reply(
    past: &PastRowPlan,
    app: &App,
    id: &RowId,
    sent: (&HeaderMap, &Caller),
) -> Option<Reply> {
    let engine = &*app.shared.engine;
    let answer = engine.past_at_once(&past.table, id)?;
    app.counts.listed(answer.cached);
    let (headers, caller) = sent;
    let reply = Reply::row(answer, past.words);
    let reply = reply.unless_held(headers, |body| engine.fingerprint(body));
    let untaken = app.counted(reply.pieces(), is_guest(caller)).ok()?;
    Some(reply.counted(untaken))
}

/// The answer in these pieces, or 304 where the client holds it: `conditional` are the headers of
/// a request that says what it holds. `None` while too many large answers wait: dispatch then says
/// so.
fn respond(
    (head, names): (&Rc<FixedHead>, Option<BodyNames>),
    pieces: [Bytes; 3],
    conditional: Option<&HeaderMap>,
    (request_id, origin): (RequestName, Origin),
    (app, of_guest): (&App, bool),
) -> Option<QuickAnswer> {
    let is_held = conditional.is_some_and(|conditional| {
        let tag = names
            .as_ref()
            .map_or(head.tag(), |names| names.tag.as_bytes());
        etag::is_held(conditional, tag)
    });
    let pieces = if is_held {
        <[Bytes; 3]>::default()
    } else {
        pieces
    };
    let untaken = app.counted(&pieces, of_guest).ok()?;
    Some(QuickAnswer::Fixed(FixedAnswer {
        head: head.clone(),
        is_held,
        request_id,
        names,
        origin,
        body: ReplyBody::whole(pieces, untaken),
    }))
}

fn is_guest(caller: &Caller) -> bool {
    !caller.actor.bypasses_grants()
}
