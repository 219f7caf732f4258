//! Answers to requests whose target this thread remembers.

use bytes::Bytes;
use engine::{Caller, Family};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use model::{Marked, RowId};

use crate::http::App;
use crate::http::head::cors::Origin;
use crate::http::head::etag;
use crate::http::head::headers::{KnownHeaders, X_REQUEST_ID, X_TIDEMARK_MARK};
use crate::http::head::min_mark;
use crate::http::reply::{Reply, ReplyBody};
use crate::http::state::fast_path::{CachedPlan, PastRowPlan, around_row};
use crate::http::wire;

/// The answer to a request whose plan is remembered, if it can be given at once, and the place
/// of its route.
pub fn answer<B>(app: &App, request: &Request<B>) -> Option<(Response<ReplyBody>, usize)> {
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
    let of_request = |app: &App| app.request_ids.name(heads.request_id);
    let conditional = heads.held.map(|_| headers);
    match &known.plan {
        CachedPlan::List(list) => {
            let answer = engine.held(&list.prepared)?;
            if min_mark.is_some() && answer.may_be_old() {
                return None;
            }
            app.counts.listed(answer.cached);
            list.count();
            let of_request = (of_request(app), &origin);
            let (always, pieces) = list.write(answer);
            let sender = (app, is_guest(&caller));
            let response = respond(always, pieces, conditional, of_request, sender)?;
            Some((response, app.shared.fast_routes.list(list.family)))
        }
        CachedPlan::Row(table) => {
            let Marked { answer: body, mark } = table.read(engine, id)?;
            let tag = etag::of_body(engine.fingerprint(&body));
            let mut answered = table.headers.clone();
            answered.insert(header::ETAG, tag);
            answered.insert(X_TIDEMARK_MARK, mark.0.into());
            let pieces = [Bytes::from(body), Bytes::new(), Bytes::new()];
            let of_request = (of_request(app), &origin);
            let sender = (app, is_guest(&caller));
            let response = respond(answered, pieces, conditional, of_request, sender)?;
            Some((response, app.shared.fast_routes.row(table.family)))
        }
        CachedPlan::PastRow(past) => {
            let reply = past_reply(past, app, id, (headers, &caller))?;
            let route = app.shared.fast_routes.row(past.words.family());
            Some((reply.into_response(of_request(app), &origin), route))
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

/// The answer in these pieces, with the headers that it always has, or 304 where the client holds
/// it: `conditional` are the headers of a request that says what it holds. `None` while too many
/// large answers wait: dispatch then says so.
fn respond(
    mut headers: HeaderMap,
    pieces: [Bytes; 3],
    conditional: Option<&HeaderMap>,
    (request_id, origin): (HeaderValue, &Origin),
    (app, of_guest): (&App, bool),
) -> Option<Response<ReplyBody>> {
    headers.insert(X_REQUEST_ID, request_id);
    origin.write(&mut headers);
    let is_held =
        conditional.is_some_and(|conditional| etag::is_held(conditional, &headers[header::ETAG]));
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
    !caller.actor.bypasses_grants()
}
