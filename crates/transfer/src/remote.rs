//! A compatible server as the source of a copy, read over the wire.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use client::{Access, Answer, Client};
use engine::Family;
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

/// Rows, tables or databases of one page: the most that every server of the protocol gives.
const PAGE_MAX: usize = 100;
/// Ids of one look-up. They stand in the route, which servers bound at some 8 KiB, and each has at
/// most 36 characters, or 108 bytes there.
const IDS_MAX: usize = 50;
/// How often a request is sent before its failure counts.
const ATTEMPTS_MAX: u32 = 8;
/// The pause after the first failure, doubled after each further one, and the longest pause.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A compatible server.
pub struct Remote {
    access: Access,
    client: Option<Client>,
    family: Family,
}

impl Remote {
    /// Connects, and finds out which route family the server has.
    ///
    /// # Errors
    /// When it cannot be reached or refuses the key.
    pub async fn connect(access: Access) -> Result<Remote> {
        let mut remote = Remote {
            client: None,
            family: Family::Tables,
            access,
        };
        let route = "/tablesdb?queries%5B0%5D=".to_owned() + &encoded(&limit(1));
        let answer = remote.send(&route).await?;
        if has_no_route(&answer) {
            remote.family = Family::Documents;
            let what = "reading /databases";
            let route = "/databases?queries%5B0%5D=".to_owned() + &encoded(&limit(1));
            remote.send(&route).await?.accepted(what)?;
        } else {
            answer.accepted("reading /tablesdb")?;
        }
        Ok(remote)
    }

    /// The words of the server's route family for databases, tables and rows.
    fn words(&self) -> (&'static str, &'static str, &'static str) {
        match self.family {
            Family::Tables => ("/tablesdb", "tables", "rows"),
            Family::Documents => ("/databases", "collections", "documents"),
        }
    }

    /// Every database.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn databases(&mut self) -> Result<Vec<Value>> {
        let (databases, ..) = self.words();
        self.every(databases, "databases").await
    }

    /// Every table of a database, with its columns and indexes.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn tables(&mut self, database: &str) -> Result<Vec<Value>> {
        let (databases, tables, _) = self.words();
        self.every(
            &format!("{databases}/{}/{tables}", segment(database)),
            tables,
        )
        .await
    }

    /// What the owner of a table decided about its past; `None` where the server knows no such
    /// thing.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn options(&mut self, database: &str, table: &str) -> Result<Option<Value>> {
        self.own(database, table, "options").await
    }

    /// The rules over valid time of a table; `None` where the server knows no such thing.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn constraints(&mut self, database: &str, table: &str) -> Result<Option<Value>> {
        self.own(database, table, "constraints").await
    }

    /// What a route of a table answers that only Tidemark has.
    async fn own(&mut self, database: &str, table: &str, what: &str) -> Result<Option<Value>> {
        let (database, table) = (segment(database), segment(table));
        let route = format!("/tidemark/databases/{database}/tables/{table}/{what}");
        let answer = self.send(&route).await?;
        if has_no_route(&answer) {
            return Ok(None);
        }
        answer.accepted(&format!("reading {route}")).map(Some)
    }

    /// Whether the server has the routes of tables, or only those of collections.
    pub fn has_tables(&self) -> bool {
        self.family == Family::Tables
    }

    /// The rows of a table after one of them; `None` when that one is not there any more.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn rows(
        &mut self,
        database: &str,
        table: &str,
        after: Option<&str>,
    ) -> Result<Option<Vec<Map<String, Value>>>> {
        let (databases, tables, rows) = self.words();
        let (database, table) = (segment(database), segment(table));
        let route = format!("{databases}/{database}/{tables}/{table}/{rows}");
        let page = self.page(&route, rows, Wanted::all_after(after)).await?;
        page.map(|page| objects(&route, page)).transpose()
    }

    /// The rows of a table after one of them, each with the ids of the rows that it is related to
    /// by `key`; `None` when that one is not there any more.
    ///
    /// # Errors
    /// When the server refuses; it may do so for a row that is related to very many.
    pub async fn related(
        &mut self,
        (database, table): (&str, &str),
        key: &str,
        after: Option<&str>,
    ) -> Result<Option<Vec<Links>>> {
        let (databases, tables, rows) = self.words();
        let (database, table) = (segment(database), segment(table));
        let route = format!("{databases}/{database}/{tables}/{table}/{rows}");
        let mut wanted = Wanted {
            select: Some(json!(["$id", format!("{key}.$id")])),
            ..Wanted::all_after(after)
        };
        loop {
            match self.page(&route, rows, wanted.clone()).await {
                // A server may bound how many related rows one answer shows.
                Err(error) if wanted.rows_max > 1 && error.is::<TooMuch>() => wanted.rows_max /= 2,
                Ok(Some(page)) => {
                    let rows = objects(&route, page)?.into_iter();
                    return rows
                        .map(|row| links(&row, key))
                        .collect::<Result<_>>()
                        .map(Some);
                }
                Ok(None) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Those of the ids that rows of a table have.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn known(
        &mut self,
        (database, table): (&str, &str),
        ids: &[String],
    ) -> Result<HashSet<String>> {
        let (databases, tables, rows) = self.words();
        let (database, table) = (segment(database), segment(table));
        let route = format!("{databases}/{database}/{tables}/{table}/{rows}");
        let mut known = HashSet::new();
        for some in ids.chunks(IDS_MAX) {
            let wanted = Wanted {
                ids: some,
                ..Wanted::all_after(None)
            };
            let page = self.page(&route, rows, wanted).await?;
            for row in objects(&route, page.unwrap_or_default())? {
                known.extend(row["$id"].as_str().map(str::to_owned));
            }
        }
        Ok(known)
    }

    async fn every(&mut self, route: &str, key: &str) -> Result<Vec<Value>> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let after = all.last().and_then(|item| item["$id"].as_str());
            let after = after.map(str::to_owned);
            let wanted = Wanted::all_after(after.as_deref());
            let page = self.page(route, key, wanted).await?;
            let page = page.ok_or_else(|| anyhow!("{route} changed while it was read"))?;
            let is_last = page.len() < PAGE_MAX;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn page(
        &mut self,
        route: &str,
        key: &str,
        wanted: Wanted<'_>,
    ) -> Result<Option<Vec<Value>>> {
        let mut queries = vec![limit(wanted.rows_max)];
        let method = |method: &str, values: Value| json!({ "method": method, "values": values });
        queries.extend(
            wanted
                .after
                .map(|after| method("cursorAfter", json!([after]))),
        );
        queries.extend(wanted.select.clone().map(|names| method("select", names)));
        if !wanted.ids.is_empty() {
            let of_ids = json!({"method": "equal", "attribute": "$id", "values": wanted.ids});
            queries.push(of_ids);
        }
        let queries: Vec<String> = (0..)
            .zip(&queries)
            .map(|(nth, query): (u32, _)| format!("queries%5B{nth}%5D={}", encoded(query)))
            .collect();
        let answer = self.send(&format!("{route}?{}", queries.join("&"))).await?;
        let refused = kind(&answer);
        if wanted.after.is_some() && refused.is_some_and(|kind| kind.contains("cursor")) {
            return Ok(None);
        }
        let is_too_much = wanted.select.is_some() && answer.status == StatusCode::BAD_REQUEST;
        let body = answer.accepted(&format!("reading {route}"));
        let mut body = if is_too_much {
            body.context(TooMuch)?
        } else {
            body?
        };
        match body[key].take() {
            Value::Array(items) => Ok(Some(items)),
            _ => bail!("reading {route}: the answer holds no list `{key}`"),
        }
    }

    /// Sends a request; again where the server is busy, broken or gone for the moment.
    async fn send(&mut self, route: &str) -> Result<Answer> {
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let sent = self.send_once(route).await;
            let wait = match &sent {
                Ok(answer) if !is_passing(answer.status) => return sent,
                Ok(answer) => wanted_pause(answer).unwrap_or(pause),
                Err(_) => pause,
            };
            if attempt == ATTEMPTS_MAX {
                return sent.with_context(|| format!("gave up after {ATTEMPTS_MAX} attempts"));
            }
            tokio::time::sleep(wait.min(PAUSE_MAX)).await;
            pause = (pause * 2).min(PAUSE_MAX);
            attempt += 1;
        }
    }

    /// Over the kept connection, or over a new one where the server has closed that one.
    async fn send_once(&mut self, route: &str) -> Result<Answer> {
        if let Some(mut client) = self.client.take() {
            let sent = client.call(&self.access, Method::GET, route, None).await;
            if let Ok(answer) = sent {
                self.client = Some(client);
                return Ok(answer);
            }
        }
        let mut client = Client::connect(&self.access.endpoint).await?;
        let answer = client.call(&self.access, Method::GET, route, None).await?;
        self.client = Some(client);
        Ok(answer)
    }
}

/// One page to read.
#[derive(Clone)]
struct Wanted<'a> {
    after: Option<&'a str>,
    rows_max: usize,
    /// What is shown of each row.
    select: Option<Value>,
    /// The rows' ids; none means all.
    ids: &'a [String],
}

impl<'a> Wanted<'a> {
    fn all_after(after: Option<&'a str>) -> Wanted<'a> {
        Wanted {
            after,
            rows_max: PAGE_MAX,
            select: None,
            ids: &[],
        }
    }
}

/// Why a page with related rows may have been refused.
#[derive(Debug)]
struct TooMuch;

impl std::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the source gives no rows with all that they are related to")
    }
}

/// A row, and the rows that it is related to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// The row's id.
    pub id: String,
    /// The ids of the others.
    pub to: Vec<String>,
}

fn objects(route: &str, page: Vec<Value>) -> Result<Vec<Map<String, Value>>> {
    let object = |row| match row {
        Value::Object(row) if row.contains_key("$id") => Ok(row),
        _ => Err(anyhow!("{route}: a row came without its `$id`")),
    };
    page.into_iter().map(object).collect()
}

/// The ids in what a row shows under `key`: a row, rows, or ids.
fn links(row: &Map<String, Value>, key: &str) -> Result<Links> {
    let id = |value: &Value| {
        let id = value.as_str().or_else(|| value["$id"].as_str());
        let id = id.map(str::to_owned);
        id.ok_or_else(|| anyhow!("a row that `{key}` leads to came without its `$id`"))
    };
    let to = match row.get(key) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(rows)) => rows.iter().map(id).collect::<Result<_>>()?,
        Some(single) => vec![id(single)?],
    };
    let id = id(&row["$id"])?;
    Ok(Links { id, to })
}

fn is_passing(status: StatusCode) -> bool {
    // 501 says what the server will never do.
    status == StatusCode::TOO_MANY_REQUESTS
        || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED)
}

fn wanted_pause(answer: &Answer) -> Option<Duration> {
    let header = answer.headers.get(hyper::header::RETRY_AFTER)?;
    header.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// Whether the server does not have what was asked for, which is not for want of the project.
fn has_no_route(answer: &Answer) -> bool {
    matches!(answer.status.as_u16(), 404 | 405 | 501)
        && !kind(answer).is_some_and(|kind| kind.starts_with("project"))
}

/// The `type` of a refusal.
fn kind(answer: &Answer) -> Option<String> {
    if answer.status.is_success() {
        return None;
    }
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    body["type"].as_str().map(str::to_owned)
}

fn limit(count: usize) -> Value {
    json!({ "method": "limit", "values": [count] })
}

fn encoded(query: &Value) -> String {
    utf8_percent_encode(&query.to_string(), NON_ALPHANUMERIC).to_string()
}

/// A text as a part of a route: an id, or a value behind `?`.
pub fn segment(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}
