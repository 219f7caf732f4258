//! What a caller asks for, as the rim hands it in: texts where only the engine can judge them.

use std::fmt;
use std::sync::Arc;

use list_cache::Family;
use model::{Actor, FunctionId, Json, Mark, Page, ProjectId, RowId};
use store::Transaction;

/// Who asks, and in which project.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The project of the request.
    pub project: ProjectId,
    /// Who asks.
    pub actor: Actor,
    /// The name of the request, if it may be sent again: what it writes is written once.
    pub request: Option<Arc<Request>>,
    /// What the caller says of its commits, for their records: a JSON object as text.
    pub meta: Option<Arc<str>>,
    /// The function whose process asks, by whatever key; `None` for all others.
    pub function: Option<Arc<CallingFunction>>,
}

/// A function whose process asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallingFunction {
    /// Its id.
    pub id: FunctionId,
    /// How many executions stand behind what it writes, each of them executed by what the one
    /// before wrote: 1 where a person, or the clock, has executed it.
    pub depth: u8,
}

impl Caller {
    /// Whether it carries no key: guests, and users who are signed in.
    pub fn is_guest(&self) -> bool {
        !self.actor.bypasses_grants()
    }
}

/// A table, as a path names it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The database's id.
    pub database: &'a str,
    /// The table's id.
    pub table: &'a str,
}

/// A list to read.
#[derive(Clone, Copy, Debug)]
pub struct ListRows<'a> {
    /// Where.
    pub place: Place<'a>,
    /// The query texts as sent.
    pub texts: &'a [String],
    /// Whether the total is wanted.
    pub total: bool,
    /// How old an answer may be, in seconds; 0 asks for none from the TTL cache.
    pub ttl_s: u32,
    /// Whether the caller wants no cached answer; heard of callers with a key only.
    pub bypass: bool,
    /// How the answer calls its system fields.
    pub family: Family,
}

/// A list, as it goes to the client.
#[derive(Clone, Debug)]
pub struct ListAnswer {
    /// The rows, encoded, joined by commas.
    pub rows: Arc<[u8]>,
    /// A number that stands for the encoded rows; see [`Engine::fingerprint`](crate::Engine).
    pub tag: u128,
    /// The total; 0 if it was not wanted.
    pub total: u64,
    /// What the cache did; `None` when it was not asked.
    pub cached: Option<Cached>,
    /// The mark the rows are true for.
    pub mark: Mark,
    /// What is known of an answer that never changes; `None` of any other.
    pub fixed: Option<Fixed>,
    /// Whether rows that it may have shown once are erased since.
    pub is_erased: bool,
}

/// What is known of an answer at coordinates that no write can change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Numbers that rise when the past is judged or shown otherwise: by erasures and grants of
    /// rows, by the schema, by the grants of the table.
    pub epochs: [u64; 3],
    /// For how many seconds a client may keep it without asking; 0 if it is to ask each time.
    pub max_age_s: u32,
}

/// Whose grants decide what a read of the past shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrantsAsOf {
    /// Those of today.
    #[default]
    Today,
    /// Those of today and those that were known at the mark it looks at: what either hides is not
    /// seen. `$permissions` are those of then.
    Mark,
}

impl ListAnswer {
    /// Whether anything was read for it, by this request or one that it joined.
    pub(crate) fn was_read(&self) -> bool {
        self.cached.is_none_or(|cached| !cached.is_hit)
    }

    /// Whether a commit may have altered it since it was read.
    pub fn may_be_old(&self) -> bool {
        self.cached
            .is_some_and(|cached| cached.is_stale == Some(true))
    }
}

/// What the cache did for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Whether nothing was read for this request, or for one that it joined: within a `ttl` no
    /// rows, else no total either.
    pub is_hit: bool,
    /// Of a hit, seconds since the rows were read from the store.
    pub age_s: u64,
    /// Whether a commit since may have altered the answer. Only of answers within a `ttl`: others
    /// never are.
    pub is_stale: Option<bool>,
}

/// A row to write.
#[derive(Clone, Debug)]
pub struct RowInput {
    /// The row's id.
    pub id: RowId,
    /// The members of `data` as sent, reserved keys (`$…`) included.
    pub members: Vec<(String, Json)>,
    /// Permission strings, if given beside `data`.
    pub permissions: Option<Vec<String>>,
}

impl From<RowId> for RowInput {
    /// Nothing but the row.
    fn from(id: RowId) -> RowInput {
        RowInput {
            id,
            members: Vec::new(),
            permissions: None,
        }
    }
}

/// A table to create.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// The table's id.
    pub id: model::TableId,
    /// What people call it, at most 128 characters.
    pub name: String,
    /// Permission strings.
    pub permissions: Vec<String>,
    /// Whether grants on rows count.
    pub row_security: bool,
    /// Whether callers without a key see it.
    pub enabled: bool,
    /// Its columns.
    pub columns: Vec<NewColumn>,
    /// Its indexes.
    pub indexes: Vec<NewIndex>,
}

/// A column as sent. Absent members are `None`; nothing is judged yet.
#[derive(Clone, Debug, Default)]
pub struct NewColumn {
    /// The key.
    pub key: String,
    /// `varchar`, `integer`, `email` and so on.
    pub kind: String,
    /// Most characters.
    pub size: Option<i64>,
    /// Whether each row must have a value.
    pub required: bool,
    /// The value of rows created without one.
    pub default: Option<Json>,
    /// Whether it holds lists.
    pub array: bool,
    /// What an enum allows.
    pub elements: Option<Vec<String>>,
    /// Least number.
    pub min: Option<Json>,
    /// Greatest number.
    pub max: Option<Json>,
    /// For `string`: `email`, `url`, `ip`, `enum`, or empty.
    pub format: Option<String>,
    /// Whether values are to be encrypted on disk.
    pub encrypt: bool,
}

/// An index as sent.
#[derive(Clone, Debug, Default)]
pub struct NewIndex {
    /// The key.
    pub key: String,
    /// `key`, `unique` and so on.
    pub kind: String,
    /// Keys of columns, or `$id`, `$createdAt`, `$updatedAt`.
    pub columns: Vec<String>,
    /// `ASC` or `DESC` in any case; empty, or as many as columns.
    pub orders: Vec<Option<String>>,
    /// Prefix lengths; empty, or as many as columns.
    pub lengths: Vec<Option<i64>>,
}

/// A change of a column, as sent. `None` keeps, but for the default.
#[derive(Clone, Debug, Default)]
pub struct ColumnChange {
    /// The kind the column must have, by the words of [`NewColumn::kind`] without formats.
    pub kind: &'static str,
    /// Another key.
    pub new_key: Option<String>,
    /// Whether each row must have a value. Rows that have none may keep none.
    pub required: bool,
    /// The value of rows created without one from now on; `None` takes it away.
    pub default: Option<Json>,
    /// Most characters.
    pub size: Option<i64>,
    /// What an enum allows.
    pub elements: Option<Vec<String>>,
    /// Least number.
    pub min: Option<Json>,
    /// Greatest number.
    pub max: Option<Json>,
}

/// A change of a table; `None` keeps.
#[derive(Clone, Debug, Default)]
pub struct TableChange {
    /// What people call it.
    pub name: Option<String>,
    /// Permission strings.
    pub permissions: Option<Vec<String>>,
    /// Whether grants on rows count.
    pub row_security: Option<bool>,
    /// Whether callers without a key see it.
    pub enabled: Option<bool>,
    /// Whether every cached list of the table is dropped before the answer.
    pub purge: bool,
}

/// One page of a listing of containers.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// All that match, whatever the page; 0 if it was not wanted.
    pub total: u64,
    /// The page, in order of creation where no query says otherwise.
    pub items: Vec<T>,
}

/// Which containers to list.
#[derive(Clone, Copy, Debug)]
pub struct ListContainers<'a> {
    /// The query texts as sent.
    pub texts: &'a [String],
    /// A part of the id or name, in any case; empty for all.
    pub search: &'a str,
    /// Whether the total is wanted.
    pub total: bool,
}

/// A request that may be sent again.
pub struct Request {
    /// The key that it is sent under.
    pub key: String,
    /// Stands for what is asked; see [`Engine::fingerprint`].
    pub print: u128,
    /// Writes the answer that is kept. Without it marks alone are.
    pub answer: Option<Box<WriteAnswer>>,
}

/// Writes an answer from what the request has done, and the mark it is true for. Called by the
/// writer: it must not wait.
pub type WriteAnswer = dyn Fn(&Effect<'_>, Mark) -> Vec<u8> + Send + Sync;

/// What a request has done.
#[derive(Clone, Copy, Debug)]
pub enum Effect<'a> {
    /// Wrote rows; deleted ones are as they were, if they are shown at all.
    Rows {
        /// How many.
        total: u64,
        /// The first of them.
        page: &'a Page,
    },
    /// Committed a transaction of a client.
    Transaction(&'a Transaction),
    /// Ran operations over valid periods: whether each changed anything.
    Timed(&'a [bool]),
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Request");
        shown.field("key", &self.key).finish_non_exhaustive()
    }
}
