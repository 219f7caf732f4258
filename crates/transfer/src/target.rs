//! The store an export reads or an import writes, reached through whichever way there is.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use client::Client;
use engine::Engine;
use http_body_util::Full;
use hyper::Request;
use hyper::header::HOST;
use serde::Deserialize;
use serde_json::Value;

use super::act;
use super::port_request::{
    PartPut, PortRequest, PortResponse, ROUTE, RowsPut, TablePath, frame, unframe,
};
use super::refusal::Refusal;
use super::schema::{Schema, Step};

/// How often a step is tried again when the store is busy, and how long is waited before the
/// first time, in milliseconds; each further time twice as long. 6 s in all.
const ATTEMPTS_MAX: u32 = 6;
const PAUSE_MS: u64 = 100;

/// Longest time a running server may take for one act.
pub const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The way to a store.
pub enum StoreAccess {
    /// A server runs: it is answer.
    Running(Client),
    /// None runs: the store is open here, and locked.
    Offline(Arc<Engine>),
}

impl StoreAccess {
    /// Does one step of an export or import.
    ///
    /// # Errors
    /// The [`Refusal`] itself where the store refused, else what broke.
    pub async fn port(&mut self, ask: &PortRequest, rows: &[u8]) -> Result<PortResponse> {
        match self {
            StoreAccess::Offline(engine) => Ok(act::perform(engine, ask.clone(), rows).await?),
            StoreAccess::Running(client) => {
                let answer = tokio::time::timeout(ANSWER_MAX, ask_port(client, ask, rows)).await;
                answer.map_err(|_| {
                    anyhow!(
                        "the running server did not answer within {} s",
                        ANSWER_MAX.as_secs()
                    )
                })?
            }
        }
    }

    /// Closes the store, if it was opened here.
    ///
    /// # Errors
    /// When the store cannot be closed in order.
    pub fn close(self) -> Result<()> {
        match self {
            StoreAccess::Running(_) => Ok(()),
            StoreAccess::Offline(engine) => Ok(apart(move || engine.close())?),
        }
    }
}

/// Does this on a thread of its own: a store in a database waits on a runtime of its own, which
/// cannot be done where another one runs.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let done = thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

async fn ask_port(client: &mut Client, ask: &PortRequest, rows: &[u8]) -> Result<PortResponse> {
    let request = Request::post(ROUTE)
        .header(HOST, "tidemark")
        .body(Full::from(frame(ask, rows)))?;
    let answer = client
        .send(request)
        .await
        .context("the running server broke off")?;
    if answer.status.is_success() {
        let (head, rows) = unframe(&answer.body)?;
        let rows = rows.to_vec();
        return Ok(PortResponse { head, rows });
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let message = body["message"]
        .as_str()
        .unwrap_or("The running server refused; is it older?");
    Err(Refusal {
        status: answer.status,
        message: message.to_owned(),
    }
    .into())
}

/// One project of a store.
pub struct Target {
    store: StoreAccess,
    /// The project's id.
    pub project: String,
}

impl Target {
    /// A project of an opened store.
    pub fn new(store: StoreAccess, project: String) -> Target {
        Target { store, project }
    }

    /// Does one step; again while the store is too busy for it.
    ///
    /// # Errors
    /// The [`Refusal`] itself where the store refused, else what broke.
    pub async fn ask(&mut self, ask: &PortRequest, rows: &[u8]) -> Result<PortResponse> {
        let mut attempt = 0;
        loop {
            match self.store.port(ask, rows).await {
                Err(error) if attempt + 1 < ATTEMPTS_MAX && is_busy(&error) => {
                    let pause = PAUSE_MS << attempt;
                    tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// Does one step whose answer has a head of this form and no rows.
    ///
    /// # Errors
    /// As [`Target::ask`], and when the answer has another form.
    pub async fn read<T: for<'de> Deserialize<'de>>(&mut self, ask: &PortRequest) -> Result<T> {
        head(&self.ask(ask, &[]).await?)
    }

    /// Writes rows; see [`PortRequest::PutRows`].
    ///
    /// # Errors
    /// As [`Target::ask`].
    pub async fn put_rows(
        &mut self,
        path: TablePath,
        rows: &[u8],
        may_exist: bool,
    ) -> Result<RowsPut> {
        head(
            &self
                .ask(&PortRequest::PutRows { path, may_exist }, rows)
                .await?,
        )
    }

    /// Makes what tables could not be created with. What could not be made, in words.
    ///
    /// # Errors
    /// As [`Target::ask`].
    pub async fn finish(
        &mut self,
        database: &str,
        schema: &mut Schema,
        may_exist: bool,
    ) -> Result<Vec<String>> {
        let (steps, mut left_out) = schema.finish();
        for Step { table, part } in steps {
            let ask = PortRequest::PutPart {
                path: self.path(database, &table),
                part,
                may_exist,
            };
            let put: Result<PartPut> = self.read(&ask).await;
            let put = put.with_context(|| format!("table {database}/{table}"))?;
            left_out.extend(put.left_out);
        }
        Ok(left_out)
    }

    /// Sets links; see [`PortRequest::PutLinks`]. Those at fault are given back by their places.
    ///
    /// # Errors
    /// As [`Target::ask`], but for refusals of a single row's links.
    pub async fn put_links(
        &mut self,
        path: &TablePath,
        lines: &[&[u8]],
    ) -> Result<Vec<(usize, anyhow::Error)>> {
        let ask = PortRequest::PutLinks { path: path.clone() };
        self.in_halves(&ask, lines).await
    }

    /// Takes links away; see [`PortRequest::FreeLinks`]. Rows that are not here have none.
    ///
    /// # Errors
    /// As [`Target::ask`], but for refusals of a single row's links.
    pub async fn free_links(&mut self, path: &TablePath, lines: &[&[u8]]) -> Result<()> {
        let ask = PortRequest::FreeLinks { path: path.clone() };
        self.in_halves(&ask, lines).await.map(drop)
    }

    /// Asks with all lines; where that is refused with their halves, and theirs: so the lines at
    /// fault are found.
    async fn in_halves(
        &mut self,
        ask: &PortRequest,
        lines: &[&[u8]],
    ) -> Result<Vec<(usize, anyhow::Error)>> {
        let mut refused = Vec::new();
        let mut waiting = vec![(0, lines)];
        while let Some((first, some)) = waiting.pop() {
            match self.ask(ask, &some.join(&b'\n')).await {
                Err(error) if is_about_content(&error) && some.len() > 1 => {
                    let (one, other) = some.split_at(some.len() / 2);
                    waiting.push((first + one.len(), other));
                    waiting.push((first, one));
                }
                Err(error) if is_about_content(&error) => refused.push((first, error)),
                put => drop(put?),
            }
        }
        Ok(refused)
    }

    /// The definition of a table as it is now.
    ///
    /// # Errors
    /// As [`Target::ask`].
    pub async fn describe(&mut self, path: TablePath) -> Result<Value> {
        self.read(&PortRequest::DescribeTable { path }).await
    }

    /// A table of this project.
    pub fn path(&self, database: &str, table: &str) -> TablePath {
        TablePath {
            project: self.project.clone(),
            database: database.to_owned(),
            table: table.to_owned(),
        }
    }

    /// Closes the store, if it was opened here.
    ///
    /// # Errors
    /// When it cannot be closed in order.
    pub fn close(self) -> Result<()> {
        self.store.close()
    }
}

/// # Errors
/// When the running server is of another version and answers in another form.
pub fn head<T: for<'de> Deserialize<'de>>(response: &PortResponse) -> Result<T> {
    T::deserialize(&response.head)
        .context("the running server answered in another form; is it older?")
}

fn is_busy(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Refusal>()
        .is_some_and(|refusal| refusal.status.as_u16() == 503)
}

/// Whether the store refused what it was given, so that trying again cannot help.
pub fn is_about_content(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Refusal>()
        .is_some_and(|refusal| refusal.status.is_client_error())
}

/// Whether the store refused what it was given because something else stands in its way.
pub fn is_conflict(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Refusal>()
        .is_some_and(|refusal| refusal.status.as_u16() == 409)
}
