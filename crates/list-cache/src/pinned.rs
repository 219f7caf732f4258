//! Answers at coordinates that no write can change any more.
//!
//! What was known at a settled mark stays so: no commit alters these answers, none is asked about
//! them, and they do not expire. Only how the past is judged by today can change: a row is erased,
//! others may see what it once was, the table has another schema or other grants. The last two
//! stand in the table's epochs; for the first two each table has a **past epoch**, a number that
//! rises with every such commit. All three are part of the name, so nothing that was kept before is
//! found after it. While such a commit is in flight nothing is found and nothing is kept.

use std::sync::PoisonError;

use model::{Retention, TableNumber};
use query::Query;

use crate::entry::{Entry, EntryContent, Pinned, StaleFlag, WatchPlace};
use crate::key::{Family, Key};
use crate::lists::ListCache;
use crate::rules::Rule;

/// What the answer at fixed coordinates is kept under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedName {
    key: Key,
    /// The numbers that make older answers unreachable: past epoch, schema, permissions.
    pub epochs: [u64; 3],
}

impl ListCache {
    /// The name of the answer to a query at coordinates that are settled; `None` while it can be
    /// neither looked for nor kept. To be asked for before the snapshot is opened.
    pub fn name_pinned(&self, query: &Query, family: Family, total: bool) -> Option<PinnedName> {
        if query.at.is_none() || query.random {
            return None;
        }
        let table = &query.table;
        let options = table.options;
        let rules = self.rules();
        // What it looks at goes with the next commit.
        if options.history == Retention::None && rules.hold(Rule::NothingIsPinnedThatGoes) {
            return None;
        }
        let past_epochs = self
            .past_epochs
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let past_epoch = past_epochs.of(table.number)?;
        drop(past_epochs);
        let mut bytes = Vec::with_capacity(256);
        let epochs = [past_epoch, table.schema_epoch, table.permission_epoch];
        let [past_epoch, schema, permission] = epochs;
        // Below the line nothing is answered, whatever was kept before it rose.
        let mut line = options.kept_from.0.cast_unsigned();
        if !rules.hold(Rule::PinnedNamesHoldTheLine) {
            line = 0;
        }
        let numbers = [past_epoch, schema, permission, line];
        Key::write_pinned(&mut bytes, query, family, total, numbers);
        Some(PinnedName {
            key: Key::new(&bytes),
            epochs,
        })
    }

    /// What is kept under a name.
    pub fn pinned(&self, name: &PinnedName) -> Option<Pinned> {
        match self.entries.get(&name.key)?.content {
            EntryContent::Pinned(pinned) => Some(pinned),
            EntryContent::Rows(_) | EntryContent::Total(_) => None,
        }
    }

    /// Keeps what was read on a snapshot that was opened after the name was given. Kept under a
    /// name that has become too old, it is not found.
    pub fn keep_pinned(&self, name: PinnedName, pinned: Pinned) {
        let entry = Entry {
            place: WatchPlace {
                group: None,
                number: 0,
            },
            stale: StaleFlag::default(),
            content: EntryContent::Pinned(pinned),
            watch_bytes: 0,
        };
        let mut locked = self.lock();
        let gone = self.put(&mut locked, name.key, entry);
        drop(locked);
        drop(gone);
    }

    /// Forgets every answer at fixed coordinates: marks are given again.
    pub fn forget_pinned(&self) {
        let mut past_epochs = self
            .past_epochs
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        past_epochs.raised.purge_all();
        drop(past_epochs);
        self.entries.retain(|key, _| !key.is_pinned());
    }

    /// Before a commit can be seen.
    pub(crate) fn raise_past_epochs(&self, past_changed: &[TableNumber]) {
        if past_changed.is_empty() {
            return;
        }
        let mut past_epochs = self
            .past_epochs
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if self.rules().hold(Rule::RecastsAreFences) {
            for table in past_changed {
                past_epochs.raised.purge(*table);
            }
        }
        if self.rules().hold(Rule::FencesStandInFlight) {
            past_epochs.in_flight = past_changed.to_vec();
        }
    }

    /// After it became visible, or was given up.
    pub(crate) fn settle_past_epochs(&self, past_changed: &[TableNumber]) {
        if past_changed.is_empty() {
            return;
        }
        let mut past_epochs = self
            .past_epochs
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        past_epochs.in_flight = Vec::new();
    }
}
