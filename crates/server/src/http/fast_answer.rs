//! Answers to requests whose target this thread remembers.

use std::rc::Rc;

use bytes::Bytes;
use engine::{Caller, Family};
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use model::{Marked, RowId};

use crate::http::App;
use crate::http::head::cors::Origin;
use crate::http::head::etag::{self, BodyTag};
use crate::http::head::headers::KnownHeaders;
use crate::http::head::min_mark;
use crate::http::head::request_ids::RequestName;
use crate::http::reply::fixed_head::{BodyNames, FixedAnswer, FixedHead, QuickAnswer};
use crate::http::reply::{Reply, ReplyBody};
use crate::http::state::fast_path::{CachedPlan, PastRowPlan, around_row};
use crate::http::wire;

/// The answer to a request whose plan is remembered, if it can be given at once, and the place
/// of its route.
pub fn answer<B>(app: &App, request: &Request<B>) -> Option<(QuickAnswer, usize)> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let headers = request.headers();
    let heads = KnownHeaders::of(headers);
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
    // by dispatch.
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
    let conditional = heads.held.map(|_| headers);
    let respond = |head: &Rc<FixedHead>, names, pieces| {
        let of_request = (app.request_ids.text(heads.request_id), origin.clone());
        let sender = (app, is_guest(&caller));
        respond((head, names), pieces, conditional, of_request, sender)
    };
    match &known.plan {
        CachedPlan::List(list) => {
            let answer = engine.held(&list.prepared)?;
            if min_mark.is_some() && answer.may_be_old() {
                return None;
            }
            app.counts.listed(answer.cached);
            list.count();
            let (head, pieces) = list.write(answer);
            let answer = respond(&head, None, pieces)?;
            Some((answer, app.shared.fast_routes.list(list.family)))
        }
        CachedPlan::Row(table) => {
            let Marked { answer: body, mark } = table.read(engine, id)?;
            let tag = BodyTag::of(engine.fingerprint(&body));
            let pieces = [Bytes::from(body), Bytes::new(), Bytes::new()];
            let answer = respond(&table.head, Some(BodyNames { tag, mark }), pieces)?;
            Some((answer, app.shared.fast_routes.row(table.family)))
        }
        CachedPlan::PastRow(past) => {
            let reply = past_reply(past, app, id, (headers, &caller))?;
            let route = app.shared.fast_routes.row(past.words.family());
            let request_id = app.request_ids.name(heads.request_id);
            let response = reply.into_response(request_id, &origin);
            Some((QuickAnswer::Written(response), route))
        }
        CachedPlan::Dispatch => None,
    }
}

fn past_reply(
    past: &PastRowPlan,
    app: &App,
    id: &str,
    sent: (&HeaderMap, &Caller),
) -> Option<Reply> {
    let engine = &*app.shared.engine;
    let answer = engine.past_at_once(&past.table, &RowId::new(id).ok()?)?;
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
