//! What a request names: project, caller, place and parameters.

use std::rc::Rc;

use engine::{
    AccessError, Caller, EngineError, Family, GrantsAsOf, JsonBudget, ListContainers, Place,
};
use hyper::Method;
use hyper::body::{Body as _, Incoming};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use model::calendar::parse_iso;
use model::{Actor, ModelError, Scope, Timestamp};

use super::commit_meta;
use super::fields::{Fields, read_flag};
use super::form::FileForm;
use super::idempotency_key::Named;
use super::jailed_caller::{self, JailedCaller};
use crate::http::head::accept;
use crate::http::head::credentials::secret_of;
use crate::http::head::forwarded::Client;
use crate::http::head::headers::{
    X_APPWRITE_JWT, X_APPWRITE_KEY, X_APPWRITE_PROJECT, X_APPWRITE_TIMESTAMP, X_TIDEMARK_CACHE,
    header,
};
use crate::http::head::query_string::QueryString;
use crate::http::head::route::{Action, Route};
use crate::http::head::router::PathIds;
use crate::http::head::{media, query_string};
use crate::http::limits::body::{self, Held};
use crate::http::limits::body_budget::Share;
use crate::http::limits::guest_turns::GuestTurns;
use crate::http::state::app::{App, Shared};
use crate::http::state::generated_ids::{UNIQUE, unique_id};
use crate::http::wire::error::{ApiError, Kind};
use crate::http::wire::{self, InstantForm, Words};
use crate::secret::sha256;

/// Longest age a reader may allow a cached list, in seconds (wire protocol, TTL list cache).
const TTL_S_MAX: i64 = model::options::TTL_S_MAX as i64;
/// Longest text to search containers for, in characters (wire protocol, pagination).
pub(in crate::http) const SEARCH_CHARS_MAX: usize = 256;

/// Largest body that is parsed on the thread that took the request, in bytes: about a millisecond
/// of parsing, for which every other connection of that thread waits.
pub(in crate::http) const PARSED_HERE_BYTES_MAX: usize = 128 * 1_024;

/// The arrays and objects of a large body from a caller without a key may take this part of
/// `--body-max`, `1 / GUESTS_ROOM_PART`, and at least [`GUESTS_ROOM_MIN`]: what more takes to read,
/// to judge and to let go holds up others.
const GUESTS_ROOM_PART: usize = 8;
const GUESTS_ROOM_MIN: usize = 1 << 20;

/// Whether no known key came with the request, or none came at all.
pub fn is_without_key(app: &App, sent: (&Parts, Client)) -> bool {
    let query = QueryString::parse(sent.0.uri.query().unwrap_or_default());
    let Ok(query) = query else { return true };
    !has_known_key(app, project(&query, sent.0), sent)
}

fn has_known_key(app: &App, project: Option<&str>, sent: (&Parts, Client)) -> bool {
    let has_secret = secret_of(sent.0.headers.get(&X_APPWRITE_KEY)).is_some();
    has_secret && find_caller(app, project, sent).is_ok_and(|caller| !caller.is_guest())
}

/// Who asks.
fn find_caller(
    app: &App,
    project: Option<&str>,
    (head, peer): (&Parts, Client),
) -> Result<Rc<Caller>, EngineError> {
    let secret = secret_of(head.headers.get(&X_APPWRITE_KEY));
    let engine = &app.shared.engine;
    let Some(deployment) = peer.deployment else {
        return app.callers.find(engine, project, secret);
    };
    let runs = app.shared.functions.live_runs();
    let found = jailed_caller::find((engine, runs), deployment, project, secret);
    found.map(|found| Rc::new(found.identity.caller))
}

/// The project that a request names; the query string wins over the header.
fn project<'a>(query: &'a QueryString, head: &'a Parts) -> Option<&'a str> {
    let context = query.project.as_deref().filter(|id| !id.is_empty());
    context.or_else(|| header(&head.headers, &X_APPWRITE_PROJECT))
}

/// A request that has found its route.
pub struct RequestContext<'a> {
    /// The thread's state.
    pub app: &'a App,
    /// Line and headers.
    pub head: &'a Parts,
    /// Who has connected.
    pub peer: Client,
    /// The route family.
    pub family: Family,
    /// What the route does.
    pub action: Action,
    /// The words of that family.
    pub words: &'static Words,
    /// The ids in the path.
    pub ids: PathIds<'a>,
    /// The query string.
    pub query: QueryString,
    body: Option<Incoming>,
    held: Option<Held<'a>>,
    /// Where the request carries a key.
    pub named: Option<Named>,
}

impl<'a> RequestContext<'a> {
    /// Reads the query string; the body waits until a route wants it.
    pub fn new(
        app: &'a App,
        (head, peer): (&'a Parts, Client),
        (route, ids): (&Route, PathIds<'a>),
        body: Incoming,
    ) -> Result<RequestContext<'a>, ApiError> {
        let query = QueryString::parse(head.uri.query().unwrap_or_default())?;
        let names_period = query.valid_from.is_some() || query.valid_to.is_some();
        if names_period && head.method != Method::DELETE {
            return Err(ApiError::invalid(
                "$validFrom",
                "In the query string only deletions take `$validFrom` and `$validTo`. A write has \
                 them in `data`; a read takes the queries `validAt` and `validBetween`.",
            ));
        }
        let words = wire::words(route.family);
        Ok(RequestContext {
            app,
            head,
            peer,
            family: route.family,
            action: route.action,
            words,
            ids,
            query,
            body: Some(body),
            held: None,
            named: None,
        })
    }

    /// The project that the request names; the query string wins over the header.
    pub fn project(&self) -> Option<&str> {
        project(&self.query, self.head)
    }

    /// What is asked for as it was written, path and query string; `None` where it names the
    /// project, too.
    pub fn target(&self) -> Option<&'a str> {
        let target = self.head.uri.path_and_query();
        let target = target.filter(|_| self.query.project.is_none());
        target.map(PathAndQuery::as_str)
    }

    /// Who asks.
    ///
    /// # Errors
    /// No project or an unknown one, a key that is not known or has expired, or a user's token:
    /// there are no users yet, so none can be valid.
    pub fn caller(&self) -> Result<Rc<Caller>, ApiError> {
        let found = find_caller(self.app, self.project(), (self.head, self.peer));
        let caller = found.inspect_err(|error| self.app.counts.key_refused(error))?;
        if header(&self.head.headers, &X_APPWRITE_JWT).is_some() {
            return Err(ApiError::new(Kind::JwtInvalid, "The token is not valid."));
        }
        Ok(self.who_says(&caller)?.map_or(caller, Rc::new))
    }

    /// Whether a known key came with the request.
    pub fn is_keyed(&self) -> bool {
        has_known_key(self.app, self.project(), (self.head, self.peer))
    }

    /// The turns in which the request is worked on; `None` where it waits for none.
    pub fn turns(&self) -> Option<&'a Rc<GuestTurns>> {
        (!self.is_keyed()).then_some(&self.app.guest_turns)
    }

    /// As [`RequestContext::caller`], to be looked up again while a long answer goes on.
    ///
    /// # Errors
    /// As [`RequestContext::caller`].
    pub fn identity(&self) -> Result<JailedCaller, ApiError> {
        let secret = secret_of(self.head.headers.get(&X_APPWRITE_KEY));
        let shared = &self.app.shared;
        let (engine, project) = (&shared.engine, self.project());
        let mut found = match self.peer.deployment {
            None => JailedCaller {
                identity: engine.identify(project, secret.map(sha256).as_ref())?,
                run: None,
            },
            Some(deployment) => {
                let runs = shared.functions.live_runs();
                jailed_caller::find((engine, runs), deployment, project, secret)?
            }
        };
        if let Some(caller) = self.who_says(&found.identity.caller)? {
            found.identity.caller = caller;
        }
        Ok(found)
    }

    /// The caller with what the request says of the commits it makes, if it makes any and says
    /// anything.
    fn who_says(&self, caller: &Caller) -> Result<Option<Caller>, ApiError> {
        if !self.action.keeps_meta() {
            return Ok(None);
        }
        commit_meta::said_by(caller, &self.head.headers)
    }

    /// Whether the request wants no cached answer.
    pub fn bypasses_cache(&self) -> bool {
        let context = header(&self.head.headers, &X_TIDEMARK_CACHE);
        context.is_some_and(|context| context.eq_ignore_ascii_case("bypass"))
    }

    /// The caller of a route that only keys may use.
    ///
    /// # Errors
    /// As [`RequestContext::caller`]; any caller without a key.
    pub fn key_caller(&self) -> Result<Rc<Caller>, ApiError> {
        let caller = self.caller()?;
        match caller.actor {
            Actor::Key { .. } | Actor::Function { .. } => Ok(caller),
            Actor::Guest | Actor::User { .. } => Err(ApiError::new(
                Kind::UnauthorizedScope,
                "This route needs an API key.",
            )),
        }
    }

    /// The caller of a route that one of `scopes` opens, where the engine has no say.
    pub fn caller_with(&self, scopes: &'static [Scope]) -> Result<Rc<Caller>, ApiError> {
        let caller = self.caller()?;
        if caller.actor.has_scope(scopes) {
            Ok(caller)
        } else {
            Err(EngineError::Access(AccessError::ScopeMissing(scopes)).into())
        }
    }

    /// The table that the path names.
    pub fn place(&self) -> Place<'_> {
        Place {
            database: &self.ids.database,
            table: &self.ids.table,
        }
    }

    /// The instant after which no other request may have changed a row that this one changes.
    ///
    /// # Errors
    /// A header that holds no date and time.
    pub fn unchanged_since(&self) -> Result<Option<Timestamp>, ApiError> {
        let value = self.head.headers.get(&X_APPWRITE_TIMESTAMP);
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let instant = value.to_str().ok().and_then(parse_iso);
        instant.map(Some).ok_or_else(|| {
            let why = "The header must hold a date and time such as 2026-01-31T10:00:00.000Z.";
            ApiError::invalid("X-Appwrite-Timestamp", why)
        })
    }

    /// The body. It is counted until the request ends, because what is parsed of it is about as
    /// large.
    pub async fn load(&mut self) -> Result<&[u8], ApiError> {
        if let Some(body) = self.body.take() {
            if !body.is_end_stream() {
                media::need_json(&self.head.headers)?;
            }
            let shared = &self.app.shared;
            let read = body::read(body, &shared.limits, &shared.bodies, || self.share());
            self.held = Some(read.await?);
        }
        Ok(self.held.as_ref().map_or(&[], Held::bytes))
    }

    /// The members of a body that is a form with a file. It is counted until the request ends.
    pub async fn form(&mut self) -> Result<FileForm, ApiError> {
        let kind = media::need_form(&self.head.headers)?;
        let Some(body) = self.body.take() else {
            return Err(ApiError::missing("code"));
        };
        let shared = &self.app.shared;
        let read = body::read(body, &shared.limits, &shared.bodies, || self.share());
        let mut held = read.await?;
        // What is taken out of it is copied.
        held.count_parsed(2 * held.bytes().len(), || self.share())?;
        let form = FileForm::read(held.shared(), kind).await?;
        self.held = Some(held);
        Ok(form)
    }

    /// In whose share of the memory for bodies the body counts. Called for large ones only.
    ///
    /// # Errors
    /// What the head alone says against the request: a caller without a key has no right that
    /// the route needs, so that its body would be held for nothing.
    fn share(&self) -> Result<Share, ApiError> {
        let caller = self.caller()?;
        if !caller.is_guest() {
            return Ok(Share::Keys);
        }
        self.action
            .need_right(&self.app.shared.engine, &caller, &self.ids)?;
        let client = self
            .app
            .shared
            .proxies
            .client(self.peer, &self.head.headers);
        Ok(Share::Guests(client.address))
    }

    /// The members of the body.
    pub async fn fields(&mut self) -> Result<Fields, ApiError> {
        self.load().await?;
        let Some(mut held) = self.held.take() else {
            return Ok(Fields::default());
        };
        let bytes_max = self.app.shared.limits.body_bytes_max;
        let (fields, taken) = if held.bytes().len() > PARSED_HERE_BYTES_MAX {
            let budget = JsonBudget::new(match self.share()? {
                Share::Keys => bytes_max,
                Share::Guests(_) => (bytes_max / GUESTS_ROOM_PART).max(GUESTS_ROOM_MIN),
            });
            let bytes = held.shared();
            let read = move || (Fields::read(&bytes, &budget), budget.taken());
            let parsed = tokio::task::spawn_blocking(read).await;
            parsed.map_err(|broken| ApiError::internal(broken.to_string()))?
        } else {
            let budget = JsonBudget::new(bytes_max);
            (Fields::read(held.bytes(), &budget), budget.taken())
        };
        let fields = fields?;
        held.count_parsed(taken, || self.share())?;
        self.held = Some(held);
        Ok(fields)
    }

    /// Whether the total is wanted; it is unless the query string says otherwise.
    pub fn total(&self) -> Result<bool, ApiError> {
        let Some(text) = &self.query.total else {
            return Ok(true);
        };
        read_flag(text).ok_or_else(|| ApiError::invalid("total", "Value must be a boolean."))
    }

    /// How old the answer may be, in seconds.
    pub fn ttl_s(&self) -> Result<u32, ApiError> {
        match &self.query.ttl {
            None => Ok(0),
            Some(text) => text.parse().map_err(|_| ttl_refusal()).and_then(check_ttl),
        }
    }

    /// Whose grants decide what a read of the past shows.
    pub fn grants(&self) -> Result<GrantsAsOf, ApiError> {
        grants(self.query.permissions.as_deref())
    }

    /// A listing of containers, as the query string asks for it.
    pub fn containers(&self) -> Result<ListContainers<'_>, ApiError> {
        let search = self.query.search.as_deref().unwrap_or_default();
        if search.chars().count() > SEARCH_CHARS_MAX {
            let why = format!("At most {SEARCH_CHARS_MAX} characters are allowed.");
            return Err(ApiError::invalid("search", why));
        }
        Ok(ListContainers {
            texts: &self.query.queries,
            search,
            total: self.total()?,
        })
    }

    /// The id that `text` gives, or a new one where it asks for one.
    pub fn id<T>(
        &self,
        name: &'static str,
        text: &str,
        check: impl Fn(&str) -> Result<T, ModelError>,
    ) -> Result<T, ApiError> {
        self.sender().id(name, text, check)
    }

    /// How the client wants instants written, if it says so.
    pub fn instant_form(&self) -> Result<Option<InstantForm>, ApiError> {
        accept::instant_form(&self.head.headers)
    }

    /// What is needed to read operations on rows.
    pub fn sender(&self) -> Sender<'_> {
        Sender {
            shared: &self.app.shared,
            words: self.words,
        }
    }

    /// The body as it comes; nothing if it was taken.
    pub fn take_body(&mut self) -> Option<Incoming> {
        self.body.take()
    }
}

/// In whose words operations are sent, and where ids come from that they ask for.
#[derive(Clone, Copy)]
pub struct Sender<'a> {
    /// What all threads share.
    pub shared: &'a Shared,
    /// The words of the route family.
    pub words: &'static Words,
}

impl Sender<'_> {
    /// As [`RequestContext::id`].
    pub fn id<T>(
        &self,
        name: &'static str,
        text: &str,
        check: impl Fn(&str) -> Result<T, ModelError>,
    ) -> Result<T, ApiError> {
        let refuse = |error: ModelError| ApiError::invalid(name, error.to_string());
        if text == UNIQUE {
            let (now, rng) = (self.shared.clock.now(), self.shared.rng);
            return check(&unique_id(now, rng)).map_err(refuse);
        }
        check(text).map_err(refuse)
    }
}

/// The age in seconds that a `ttl` parameter gives.
pub fn check_ttl(ttl_s: i64) -> Result<u32, ApiError> {
    if (0..=TTL_S_MAX).contains(&ttl_s) {
        Ok(ttl_s as u32)
    } else {
        Err(ttl_refusal())
    }
}

/// Whose grants decide what a read shows, as the parameter `permissions` says.
pub fn grants(permissions: Option<&str>) -> Result<GrantsAsOf, ApiError> {
    match permissions {
        None | Some("now") => Ok(GrantsAsOf::Today),
        Some("as-of") => Ok(GrantsAsOf::Mark),
        Some(_) => Err(ApiError::invalid(
            "permissions",
            "Value must be `now` or `as-of`.",
        )),
    }
}

fn ttl_refusal() -> ApiError {
    ApiError::invalid(
        "ttl",
        format!("Value must be an integer from 0 to {TTL_S_MAX}."),
    )
}

/// Query texts of a body.
pub fn check_queries(queries: Option<Vec<String>>) -> Result<Vec<String>, ApiError> {
    let queries = queries.unwrap_or_default();
    if queries.len() > query_string::QUERIES_MAX {
        return Err(query_string::too_many_queries());
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_at_most_a_day() {
        assert_eq!(check_ttl(0).unwrap(), 0);
        assert_eq!(check_ttl(86_400).unwrap(), 86_400);
        for ttl_s in [-1, 86_401, i64::MAX] {
            assert_eq!(check_ttl(ttl_s).unwrap_err().kind, Kind::ArgumentInvalid);
        }
    }

    #[test]
    fn a_hundred_queries_of_a_body_are_taken_and_one_more_is_not() {
        assert_eq!(
            check_queries(Some(vec![String::new(); 100])).unwrap().len(),
            100
        );
        let refused = check_queries(Some(vec![String::new(); 101]));
        assert_eq!(refused.unwrap_err().kind, Kind::ArgumentInvalid);
    }
}
