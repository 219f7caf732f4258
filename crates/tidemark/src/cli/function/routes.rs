//! The routes of functions, called one after the other.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use client::{Access, Answer, Client};
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use transfer::remote::segment;

/// Items of one page: the most that every server of the protocol gives.
const PAGE_MAX: usize = 100;
/// Pages that are read before a list counts as endless.
const PAGES_MAX: usize = 1_000;

/// A connection to the routes of functions.
pub struct FunctionRoutes<'a> {
    access: &'a Access,
    client: Client,
}

/// The route of a function, or of what belongs to it.
pub fn route_of(function: &str, rest: &str) -> String {
    format!("/functions/{}{rest}", segment(function))
}

/// `?queries[0]=…` with these queries.
pub fn with_queries(route: &str, queries: &[Value]) -> String {
    let pairs = queries.iter().enumerate().map(|(nth, query)| {
        let mark = if nth == 0 { '?' } else { '&' };
        format!("{mark}queries%5B{nth}%5D={}", segment(&query.to_string()))
    });
    route.to_owned() + &pairs.collect::<String>()
}

impl<'a> FunctionRoutes<'a> {
    /// # Errors
    /// When the server cannot be reached.
    pub async fn connect(access: &'a Access) -> Result<FunctionRoutes<'a>> {
        let client = Client::connect(&access.endpoint).await?;
        Ok(FunctionRoutes { access, client })
    }

    /// Sends a request that is not to be repeated.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn send(
        &mut self,
        method: Method,
        route: &str,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let body = body.map(Value::to_string);
        self.client.call(self.access, method, route, body).await
    }

    /// Reads a route; once more over a new connection where the old one broke, as after a pause.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn get(&mut self, route: &str) -> Result<Answer> {
        if let Ok(answer) = self.send(Method::GET, route, None).await {
            return Ok(answer);
        }
        self.client = Client::connect(&self.access.endpoint).await?;
        self.send(Method::GET, route, None).await
    }

    /// What stands at a route of the function; an error says that the function is not there.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn read(&mut self, route: &str, what: &str) -> Result<Value> {
        self.get(route).await?.accepted(what)
    }

    /// Sends a form, with these headers beside it.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn send_form(
        &mut self,
        route: &str,
        (kind, form): (&str, Vec<u8>),
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Answer> {
        let mut request = self.access.request(Method::POST, route, None)?;
        let kind = HeaderValue::from_str(kind).context("the kind of a form")?;
        request.headers_mut().insert(CONTENT_TYPE, kind);
        request.headers_mut().extend(headers);
        *request.body_mut() = Full::new(Bytes::from(form));
        let sent = self.client.send(request).await;
        sent.with_context(|| format!("the upload to {} broke off", self.access.endpoint))
    }

    /// Every item of a list, page by page.
    ///
    /// # Errors
    /// When the server refuses, or the list does not end.
    pub async fn every(&mut self, route: &str, member: &str) -> Result<Vec<Value>> {
        let mut items: Vec<Value> = Vec::new();
        for _ in 0..PAGES_MAX {
            let mut queries = vec![json!({"method": "limit", "values": [PAGE_MAX]})];
            if let Some(last) = items.last() {
                queries.push(json!({"method": "cursorAfter", "values": [last["$id"]]}));
            }
            let page = with_queries(route, &queries);
            let mut page = self.read(&page, &format!("listing {member}")).await?;
            let Value::Array(found) = page[member].take() else {
                bail!("the server's list of {member} has no `{member}`");
            };
            let is_last = found.len() < PAGE_MAX;
            items.extend(found);
            if is_last {
                return Ok(items);
            }
        }
        bail!("the server's list of {member} does not end")
    }

    /// The function as the server has it; `None` where it does not.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn function(&mut self, id: &str) -> Result<Option<Value>> {
        let answer = self.get(&route_of(id, "")).await?;
        answer.found(&format!("reading function `{id}`"))
    }

    /// # Errors
    /// When the server refuses, or does not have it.
    pub async fn existing(&mut self, id: &str) -> Result<Value> {
        match self.function(id).await? {
            Some(function) => Ok(function),
            None => bail!("{}", missing(id)),
        }
    }
}

/// What a person can do about a function that is not there.
pub fn missing(id: &str) -> String {
    format!(
        "the project has no function `{id}`; `tidemark function list` shows those it has, and \
         `tidemark function deploy` creates one"
    )
}

/// Whether an answer says that there is no such function.
pub fn is_missing(answer: &Answer) -> bool {
    let kind = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    answer.status == StatusCode::NOT_FOUND && kind["type"] == "function_not_found"
}

/// A member as text; empty where there is none.
pub fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_holds_ids_and_queries_encoded() {
        assert_eq!(
            route_of("a/b", "/executions"),
            "/functions/a%2Fb/executions"
        );
        let queries = [json!({"a": 1}), json!("&")];
        assert_eq!(
            with_queries("/functions", &queries),
            "/functions?queries%5B0%5D=%7B%22a%22%3A1%7D&queries%5B1%5D=%22%26%22"
        );
    }
}
