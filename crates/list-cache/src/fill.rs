//! The right to read parts of a list and to keep them.

use std::sync::Arc;

use crate::entry::{Entry, EntryContent, FlaggedPart, Rows, StaleFlag, Total, WatchPlace};
use crate::key::{Contract, EntryPart, Key, rows_meant};
use crate::lists::{ListCache, Locked};
use crate::registry::ReadPurpose;
use crate::request::{ListRequest, Read};
use crate::rules::Rule;
use crate::run::{Failure, OpenRead, ReadParts, Waiter};

/// The right to read and to keep. What it will fill is watched from here on, so a commit that
/// overtakes the read is noticed. Dropped without a fill or [`Fill::fail`], it sends those
/// who joined to read for themselves.
pub struct Fill<'a> {
    lists: &'a ListCache,
    contract: Contract,
    run: Arc<OpenRead>,
    rows: Option<Ticket>,
    total: Option<Ticket>,
}

/// What one part will be kept as.
struct Ticket {
    key: Key,
    place: WatchPlace,
    stale: StaleFlag,
}

/// What is done about what is not cached.
pub(crate) enum FillTurn<'a> {
    /// A caller reads it.
    Joined(Waiter),
    /// The caller reads it.
    Opened(Fill<'a>),
}

impl<'a> Fill<'a> {
    /// Joins a caller that reads all that is named, rows and total, or reads it for all who come:
    /// in one piece, so that of those who come at once no two read.
    pub(crate) fn join_or_open(
        lists: &'a ListCache,
        request: ListRequest<'_>,
        (rows_key, total_key): (Option<&[u8]>, Option<&[u8]>),
        may_join: bool,
    ) -> FillTurn<'a> {
        let mut written = Vec::new();
        let form = rows_meant(total_key.unwrap_or_else(|| {
            Key::write(
                &mut written,
                request.query,
                request.contract,
                EntryPart::Total,
                0,
            );
            &written
        }));
        let mut locked = lists.lock();
        if let Some(key) = rows_key.or(total_key).filter(|_| may_join) {
            let wants = (rows_key.is_some(), total_key.is_some());
            if let Some(joined) = locked.runs.join(key, wants, lists.rules()) {
                return FillTurn::Joined(joined);
            }
        }
        let mut ticket = |key: &[u8], of_rows| {
            let wanted = ReadPurpose {
                query: request.query,
                name: key,
                form,
                is_exact: request.contract.is_exact(),
                of_rows,
            };
            let (place, stale) = locked.registry.open(&wanted, lists.rules());
            Ticket {
                key: Key::new(key),
                place,
                stale,
            }
        };
        let rows = rows_key.map(|key| ticket(key, true));
        let total = total_key.map(|key| ticket(key, false));
        let run = Arc::new(OpenRead {
            rows: rows.as_ref().map(|ticket| ticket.stale.clone()),
            total: total.as_ref().map(|ticket| ticket.stale.clone()),
            ..OpenRead::default()
        });
        for ticket in rows.iter().chain(&total) {
            locked.runs.open(ticket.key.clone(), run.clone());
        }
        drop(locked);
        FillTurn::Opened(Fill {
            lists,
            contract: request.contract,
            run,
            rows,
            total,
        })
    }

    /// Whether the rows are to be read.
    pub fn rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Whether the total is to be read.
    pub fn total(&self) -> bool {
        self.total.is_some()
    }

    /// Ends a read that failed: those who joined are answered so, and do not wait as long again.
    pub fn fail(self, failure: Failure) {
        self.run.flight.complete(Err(failure));
    }

    /// Keeps what was read unless a commit overtook it, and hands it to those who joined.
    pub(crate) fn fill(mut self, read: Read) -> ReadParts {
        let lists = self.lists;
        let (mark, read_ms) = (read.mark, read.read_ms);
        let mut locked = lists.lock();
        let mut parts = ReadParts::default();
        // Freed when no thread waits for the lock.
        let mut gone = Vec::new();
        if let Some(rows) = read.rows
            && let Some(ticket) = self.rows.take()
        {
            let value = Rows {
                body: rows.body,
                tag: rows.tag,
                mark,
                read_ms,
            };
            let stale = ticket.stale.clone();
            let table = ticket.key.table();
            let registry = &mut locked.registry;
            registry.set_window(table, &ticket.place, rows.last_place);
            let content = EntryContent::Rows(value.clone());
            gone.extend(self.keep(&mut locked, ticket, content, Some(rows.shown)));
            parts.rows = Some(FlaggedPart { value, stale });
        }
        if let Some(count) = read.total
            && let Some(ticket) = self.total.take()
        {
            let value = Total { count, read_ms };
            let stale = ticket.stale.clone();
            gone.extend(self.keep(&mut locked, ticket, EntryContent::Total(value), None));
            parts.total = Some(FlaggedPart { value, stale });
        }
        drop(locked);
        drop(gone);
        self.run.flight.complete(Ok(parts.clone()));
        parts
    }

    /// `shown`: the rows, unless it is a total.
    fn keep(
        &self,
        locked: &mut Locked<'_>,
        ticket: Ticket,
        content: EntryContent,
        shown: Option<Vec<i64>>,
    ) -> Vec<(Key, Entry)> {
        locked.runs.close(&ticket.key, &self.run);
        let lists = self.lists;
        let mut stale = ticket.stale;
        if stale.is_set() && self.contract.is_exact() {
            if lists.rules().hold(Rule::LateFillsAreRefused) {
                locked.registry.refused_fills += 1;
                return Vec::new();
            }
            stale = StaleFlag::default();
        }
        if !lists.may_fill(&ticket.key, self.contract) {
            let table = ticket.key.table();
            locked
                .registry
                .close(table, &ticket.place, &stale, lists.rules());
            return Vec::new();
        }
        let total = match &content {
            EntryContent::Total(total) => Some(total.count),
            EntryContent::Rows(_) | EntryContent::Pinned(_) => None,
        };
        let mut watch_bytes = 0;
        if !self.contract.is_exact() {
            let known = locked
                .registry
                .keep_shown(&ticket.key, &ticket.place, shown);
            let Some(bytes) = known else {
                locked.registry.refused_fills += 1;
                let (table, place) = (ticket.key.table(), &ticket.place);
                locked.registry.close(table, place, &stale, lists.rules());
                return Vec::new();
            };
            watch_bytes = bytes;
        }
        let registered = locked.registry.keep(&ticket.key, &ticket.place, total);
        let watch_bytes = watch_bytes.saturating_add(registered);
        let entry = Entry {
            place: ticket.place,
            stale,
            content,
            watch_bytes,
        };
        lists.put(locked, ticket.key, entry)
    }
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        if self.rows.is_some() || self.total.is_some() {
            let mut locked = self.lists.lock();
            for ticket in self.rows.take().iter().chain(&self.total.take()) {
                locked.runs.close(&ticket.key, &self.run);
                let (table, place) = (ticket.key.table(), &ticket.place);
                locked
                    .registry
                    .close(table, place, &ticket.stale, self.lists.rules());
            }
        }
        // Of no effect after its end.
        self.run.flight.abandon();
    }
}
