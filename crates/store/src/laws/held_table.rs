//! A table as a working set holds it: rows by their ids, what finds them, and what they were when
//! the batch began and when the database last had them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use model::{Index, IndexKind, RelationKind, RowId, Table, Timestamp, Value};

use super::bulk_rows::{RowsRead, TableCounts};
use super::held_row::{HeldNow, HeldRow, HeldVersion};
use super::row_write::{Target, field_value};
use super::unsent::UnsentTable;
use super::versions::Stored;
use crate::StoreError;
use crate::error::corrupt;

/// A unique index by its number, or a column of links that no two rows share, and the values.
pub(crate) type HeldKey = (u32, Vec<u8>);

/// When the first row of a table begins or ends by itself.
#[derive(Default)]
pub(crate) enum FirstDue {
    /// Then, if any does.
    Known(Option<Timestamp>),
    /// Only the database knows.
    #[default]
    Unknown,
}

/// One table.
pub(crate) struct HeldTable {
    pub(crate) table: Arc<Table>,
    /// `None` when they are to be read again.
    pub(crate) counts: Option<TableCounts>,
    rows: HashMap<Box<str>, Arc<HeldRow>>,
    ids: BTreeMap<i64, Box<str>>,
    versions: HashMap<i64, Box<str>>,
    /// Which row of now has the values, by its `$sequence`.
    holders: HashMap<HeldKey, i64>,
    /// Values that the database was asked for: a row of it that has them is held.
    probed: HashSet<HeldKey>,
    /// Rows that were changed since the database had them, as it has them.
    sent: HashMap<Box<str>, Arc<HeldRow>>,
    /// Rows that the batch changed, as they were before it.
    before: HashMap<Box<str>, Arc<HeldRow>>,
    counts_before: Option<TableCounts>,
}

impl HeldTable {
    pub(crate) fn new(table: Arc<Table>) -> HeldTable {
        HeldTable {
            table,
            counts: None,
            rows: HashMap::new(),
            ids: BTreeMap::new(),
            versions: HashMap::new(),
            holders: HashMap::new(),
            probed: HashSet::new(),
            sent: HashMap::new(),
            before: HashMap::new(),
            counts_before: None,
        }
    }

    /// Takes in what was read: what is held already stays as it is.
    pub(crate) fn take_in(&mut self, read: RowsRead) {
        self.counts.get_or_insert(read.counts);
        for (id, row) in read.rows {
            if self.rows.contains_key(&id) {
                continue;
            }
            self.find_by(&id, &row);
            if let Some(now) = &row.now {
                for key in unique_keys(&self.table, now) {
                    self.holders.insert(key, now.seq);
                }
            }
            self.rows.insert(id, Arc::new(row));
        }
    }

    fn find_by(&mut self, id: &str, row: &HeldRow) {
        if let Some(seq) = row.seq {
            self.ids.insert(seq, id.into());
        }
        for held in &row.versions {
            self.versions.insert(held.version.number.0, id.into());
        }
    }

    pub(crate) fn row(&self, id: &str) -> Option<&HeldRow> {
        self.rows.get(id).map(|row| &**row)
    }

    /// All of them.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &HeldRow> {
        self.rows.values().map(|row| &**row)
    }

    /// The id of the row of this `$sequence`.
    pub(crate) fn id_of(&self, seq: i64) -> Option<&str> {
        let id = self.ids.get(&seq)?;
        (self.row(id)?.seq == Some(seq)).then_some(id)
    }

    pub(crate) fn row_of(&self, seq: i64) -> Option<&HeldRow> {
        self.row(self.id_of(seq)?)
    }

    /// The id of the row of the version.
    pub(crate) fn id_of_version(&self, number: i64) -> Option<Box<str>> {
        let id = self.versions.get(&number)?;
        let is_held = |held: &HeldVersion| held.version.number.0 == number;
        let row = self.row(id)?;
        row.versions.iter().any(is_held).then(|| id.clone())
    }

    /// The highest `$sequence`; `None` when it is to be read again, for what had it has gone.
    pub(crate) fn highest_seq(&self) -> Option<i64> {
        let read = self.counts.as_ref()?.highest_seq;
        let mut own = self.ids.range(read.saturating_add(1)..).rev();
        let keeps = |seq: i64| self.row_of(seq).is_some_and(HeldRow::keeps_seq);
        if let Some((seq, _)) = own.find(|entry| keeps(*entry.0)) {
            return Some(*seq);
        }
        let is_gone = self.row_of(read).is_some_and(|row| !row.keeps_seq());
        (!is_gone).then_some(read)
    }

    /// When the first of its rows begins or ends by itself.
    pub(crate) fn first_due(&self) -> FirstDue {
        let Some(counts) = &self.counts else {
            return FirstDue::Unknown;
        };
        let own = self.rows.values().filter_map(|row| row.due).min();
        let Some((at, id)) = &counts.first_due else {
            return FirstDue::Known(own);
        };
        if self
            .row(id.as_str())
            .is_some_and(|row| row.due != Some(*at))
        {
            return FirstDue::Unknown;
        }
        FirstDue::Known(Some(own.map_or(*at, |own| own.min(*at))))
    }

    pub(crate) fn is_probed(&self, key: &HeldKey) -> bool {
        self.probed.contains(key) || self.holders.contains_key(key)
    }

    pub(crate) fn add_probed(&mut self, key: HeldKey) {
        self.probed.insert(key);
    }

    /// The row of now that has these values.
    pub(crate) fn holder(&self, key: &HeldKey) -> Option<&HeldNow> {
        let seq = self.holders.get(key)?;
        self.row_of(*seq)?.now.as_ref()
    }

    /// Changes a row that is held.
    pub(crate) fn edit<T>(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut HeldRow) -> T,
    ) -> Result<T, StoreError> {
        let row = self.rows.get_mut(id);
        let row = row.ok_or_else(|| corrupt("a row is changed that was not read"))?;
        let former = Arc::clone(row);
        let changed = change(Arc::make_mut(row));
        let row = Arc::clone(row);
        self.show(former.now.as_ref(), row.now.as_ref());
        self.find_by(id, &row);
        self.sent
            .entry(id.into())
            .or_insert_with(|| Arc::clone(&former));
        self.before.entry(id.into()).or_insert(former);
        Ok(changed)
    }

    fn show(&mut self, former: Option<&HeldNow>, now: Option<&HeldNow>) {
        if let (Some(former), Some(now)) = (former, now)
            && Arc::ptr_eq(&former.image, &now.image)
        {
            return;
        }
        if let Some(former) = former {
            for key in unique_keys(&self.table, former) {
                if self.holders.get(&key) == Some(&former.seq) {
                    self.holders.remove(&key);
                    // The database may have it still, of a row that is held.
                    self.probed.insert(key);
                }
            }
        }
        if let Some(now) = now {
            for key in unique_keys(&self.table, now) {
                self.holders.insert(key, now.seq);
            }
        }
    }

    /// Takes in versions of a row that were read one by one.
    pub(crate) fn add_versions(&mut self, id: &str, found: &[Stored]) {
        let Some(row) = self.rows.get_mut(id) else {
            return;
        };
        for version in found {
            if row.numbered(version.number).is_some() {
                continue;
            }
            self.versions.insert(version.number.0, id.into());
            Arc::make_mut(row).versions.push(HeldVersion {
                version: version.clone(),
                is_twin: false,
                bytes: 0,
            });
        }
    }

    /// Another batch may begin.
    pub(crate) fn keep(&mut self) {
        self.before.clear();
        self.counts_before = self.counts.clone();
    }

    /// The rows are again what they were before the batch.
    pub(crate) fn take_back(&mut self) {
        let before = std::mem::take(&mut self.before);
        let changed: Vec<(Box<str>, Arc<HeldRow>)> = before.into_iter().collect();
        for (id, row) in &changed {
            let former = self.rows.insert(id.clone(), Arc::clone(row));
            self.show(former.as_ref().and_then(|row| row.now.as_ref()), None);
        }
        for (id, row) in &changed {
            self.show(None, row.now.as_ref());
            self.find_by(id, row);
        }
        if self.counts_before.is_some() {
            self.counts = self.counts_before.clone();
        }
    }

    /// Whether the batch has changed anything that was not sent.
    pub(crate) fn is_changed(&self) -> bool {
        !self.before.is_empty()
    }

    /// What is left to be sent; `earlier` if only what was done before the batch. From now on the
    /// database has it.
    pub(crate) fn take_unsent(&mut self, earlier: bool) -> Result<UnsentTable, StoreError> {
        let mut unsent = UnsentTable::new(Arc::clone(&self.table));
        let mut sent: Vec<_> = std::mem::take(&mut self.sent).into_iter().collect();
        sent.sort_by_key(|(_, row)| row.seq);
        for (id, had) in sent {
            let row = &self.rows[&id];
            let before = self.before.get(&id).filter(|_| earlier);
            let key = RowId::new(&id).map_err(|error| corrupt(error.to_string()))?;
            unsent.add(&key, &had, before.unwrap_or(row));
            if let Some(before) = before {
                self.sent.insert(id, Arc::clone(before));
            }
        }
        Ok(unsent)
    }

    /// The row was changed behind: it is read again when it is wanted, as the counts are.
    pub(crate) fn forget(&mut self, id: &str) {
        if let Some(row) = self.rows.remove(id) {
            self.show(row.now.as_ref(), None);
        }
        self.sent.remove(id);
        self.counts = None;
    }
}

/// The unique keys of a row of now. Null equals nothing.
pub(crate) fn unique_keys(table: &Table, now: &HeldNow) -> Vec<HeldKey> {
    let target = Target::new(table, &now.id);
    let unique = |index: &&Index| index.kind == IndexKind::Unique && index.is_available();
    let mut keys = Vec::new();
    for index in table.indexes.iter().filter(unique) {
        let fields = index.columns.iter().map(|part| part.field);
        let values: Vec<Value> = fields
            .map(|field| field_value(&target, now.seq, &now.image, field))
            .collect();
        keys.extend(unique_key(index, &values));
    }
    for (position, relation) in table.relations() {
        if relation.kind == RelationKind::OneToOne && table.has_links_table(position) {
            let number = table.columns[position].number.0;
            keys.extend(link_key(number, &now.image.values[position]));
        }
    }
    keys
}

/// The key of values in an index, unless one of them is null.
pub(crate) fn unique_key(index: &Index, values: &[Value]) -> Option<HeldKey> {
    Some((index.number, key_bytes(values)?))
}

/// The key of the one link in a column of this number.
pub(crate) fn link_key(column: u32, link: &Value) -> Option<HeldKey> {
    let bytes = key_bytes(std::slice::from_ref(link))?;
    Some((u32::MAX - column, bytes))
}

fn key_bytes(values: &[Value]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for value in values {
        match value {
            Value::Null => return None,
            Value::Bool(truth) => bytes.push(u8::from(*truth)),
            Value::Int(number) => bytes.extend(number.to_be_bytes()),
            Value::Float(number) => bytes.extend(number.to_bits().to_be_bytes()),
            Value::Instant(instant) => bytes.extend(instant.0.to_be_bytes()),
            Value::Text(text) => {
                bytes.extend(text.len().to_be_bytes());
                bytes.extend(text.as_bytes());
            }
            Value::List(list) => {
                bytes.extend(list.len().to_be_bytes());
                bytes.extend(key_bytes(list)?);
            }
        }
    }
    Some(bytes)
}
