//! The database that entries go into. Each is checked as it comes; what only the whole can show is
//! checked at the end (`settled.rs`, `derived.rs`).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use model::{Column, Mark, RowId, Table, Value};
use query::names;
use rusqlite::types::Value as Stored;
use rusqlite::{Connection, params_from_iter};
use serde_json::Value as Json;

use super::fault::{HistoryCount, HistoryFault, HistoryMembers};
use super::fields::{self, MemberShape, column_value, kind};
use super::parts::{
    CATALOGUE, COMMITS, GRANT, HistoryPart, PARTS, PartMember, ROWS, SHOWN, STORE, STORE_FIELDS,
    VERSION,
};
use super::tables;
use crate::EncodeRow;
use crate::sqlite::disk::connection::{self, Location};
use crate::sqlite::disk::keys::vault_of;
use crate::sqlite::schema::coding::Coding;
use crate::sqlite::schema::columns::column_list;
use crate::sqlite::schema::migrate;
use crate::vault::{Place, Vault};

/// Entries of one transaction of the database that is built.
const ENTRIES_MAX: u32 = 20_000;

/// A table while its rows are read.
pub(super) struct LoadedTable {
    /// With every column it ever had.
    pub(super) ever: Table,
    /// Positions of the columns, by their numbers.
    positions: HashMap<String, usize>,
    insert: String,
}

/// The database while entries come.
pub(super) struct HistoryBuild {
    pub(super) connection: Connection,
    pub(super) coding: Coding,
    pub(super) tables: HashMap<i64, LoadedTable>,
    pub(super) count: HistoryCount,
    stage: u8,
    is_begun: bool,
    are_tables_made: bool,
    last_commit: Option<(i64, i64)>,
    is_sealing: bool,
    entries: u32,
}

impl HistoryBuild {
    /// Makes the database, in which nothing stands yet.
    pub(super) fn begin(
        location: Location<'_>,
        directory: &Path,
        encode_row: EncodeRow,
    ) -> Result<HistoryBuild, HistoryFault> {
        let mut connection = connection::open(location)?;
        // Should this break off, all of it is removed: nothing is taken back, or synced, before.
        connection.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;",
        )?;
        migrate::migrate(&mut connection)?;
        connection.execute_batch(
            "CREATE TABLE import_shown (tab INTEGER, id TEXT, perms TEXT, updated INTEGER); BEGIN;",
        )?;
        let vault = Arc::new(vault_of(directory, &connection)?);
        Ok(HistoryBuild {
            coding: Coding {
                encode_row,
                vault,
                variables: Arc::new(Vault::of_variables(directory)),
            },
            connection,
            tables: HashMap::new(),
            count: HistoryCount::NONE,
            stage: 0,
            is_begun: false,
            are_tables_made: false,
            last_commit: None,
            is_sealing: false,
            entries: 0,
        })
    }

    /// Takes the next entry in.
    pub(super) fn take(&mut self, part: &str, members: HistoryMembers) -> Result<(), HistoryFault> {
        self.entries += 1;
        if self.entries == ENTRIES_MAX {
            self.entries = 0;
            self.connection.execute_batch("COMMIT; BEGIN;")?;
        }
        if part == STORE {
            return self.take_store(members);
        }
        self.need_begun()?;
        let known = PARTS.iter().find(|known| known.name == part);
        let stage = known.map_or(ROWS, |part| part.stage);
        if stage < self.stage {
            let why = format!("`{part}` comes too late: it stands before what was read already");
            return Err(HistoryFault::entry("", why));
        }
        self.stage = stage;
        if let Some(known) = known {
            return self.take_row(known, members);
        }
        self.make_tables()?;
        match part {
            "grant" => self.take_grant(members),
            "version" => self.take_version(members),
            SHOWN => self.take_shown(members),
            _ => Err(HistoryFault::entry(
                "",
                format!("there is no part `{part}` in a history"),
            )),
        }
    }

    pub(super) fn need_begun(&self) -> Result<(), HistoryFault> {
        if self.is_begun {
            return Ok(());
        }
        let why = "the history does not begin with where its store stands (`store`)";
        Err(HistoryFault::Unfit(why.to_owned()))
    }

    fn take_store(&mut self, mut members: HistoryMembers) -> Result<(), HistoryFault> {
        if self.is_begun {
            return Err(HistoryFault::entry("", "`store` stands there twice"));
        }
        let mut values = Vec::new();
        for (name, _) in STORE_FIELDS {
            let value = fields::take(&mut members, (name, MemberShape::Int, false), i64::MAX)?;
            match value {
                Stored::Integer(number) if number >= 0 => values.push(number),
                _ => return Err(HistoryFault::entry(name, "is below 0")),
            }
        }
        need_no_more(&members)?;
        let [mark, shown, horizon, ..] = values[..] else {
            unreachable!("as many as there are fields");
        };
        // Marks go on above the horizon: there must be some left.
        if mark > shown || mark > horizon || shown.max(horizon) > i64::MAX / 2 {
            let why = "is below `mark`, or beyond all clocks".to_owned();
            return Err(HistoryFault::entry("horizon", why));
        }
        let columns: Vec<String> = STORE_FIELDS
            .iter()
            .map(|(_, column)| format!("{column} = ?"))
            .collect();
        let sql = format!("UPDATE meta SET {}", columns.join(", "));
        self.connection.execute(&sql, params_from_iter(values))?;
        self.count.mark = Mark(mark);
        self.is_begun = true;
        Ok(())
    }

    /// The members of an entry as they are stored, and those that are left.
    fn fields(
        &self,
        part: &HistoryPart,
        members: &mut HistoryMembers,
    ) -> Result<Vec<Stored>, HistoryFault> {
        let mark = self.count.mark.0;
        let fields = part.fields.iter();
        let take = |field: &PartMember| {
            let wanted = (field.name, field.shape, field.is_optional);
            fields::take(members, wanted, mark)
        };
        fields.map(take).collect()
    }

    fn insert(
        &self,
        physical: &str,
        columns: &str,
        values: Vec<Stored>,
    ) -> Result<(), HistoryFault> {
        let sql = format!(
            "INSERT INTO {physical} ({columns}) VALUES (?{})",
            ", ?".repeat(values.len() - 1)
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement
            .execute(params_from_iter(values))
            .map_err(contradicts)?;
        Ok(())
    }

    fn take_row(
        &mut self,
        part: &HistoryPart,
        mut members: HistoryMembers,
    ) -> Result<(), HistoryFault> {
        let mut values = self.fields(part, &mut members)?;
        need_no_more(&members)?;
        let mut columns = part.columns();
        if part.stage == COMMITS {
            let (mark, number) = (integer(&values[0]), integer(&values[1]));
            let before = self.last_commit.replace((mark, number));
            if before.is_some_and(|before| mark <= before.0 || number != before.1 + 1) {
                return Err(HistoryFault::entry(
                    "mark",
                    "and `number` do not follow those of the commit before",
                ));
            }
            values.push(Stored::Integer(before.map_or(0, |before| before.0)));
            columns.push_str(", prev");
            let note = part.fields.iter().position(|field| field.name == "meta");
            let note = &mut values[note.expect("a commit has a note")];
            if let (true, Stored::Text(text)) = (self.is_sealing, &*note) {
                let sealed = self.coding.vault.seal(Place::Note(mark), text.as_bytes())?;
                *note = Stored::Blob(sealed);
            }
            self.count.commits += 1;
        }
        if part.stage == CATALOGUE && part.name == "column" {
            self.seal_if_encrypted(part, &values)?;
        }
        self.insert(part.table, &columns, values)
    }

    /// With the first encrypted column there is a key.
    fn seal_if_encrypted(
        &mut self,
        part: &HistoryPart,
        values: &[Stored],
    ) -> Result<(), HistoryFault> {
        let fields = part.fields.iter().zip(values);
        let is_encrypted = fields
            .filter(|(field, _)| field.name == "encrypt")
            .any(|(_, value)| *value == Stored::Integer(1));
        if is_encrypted && !self.is_sealing {
            let id = self.coding.vault.ready()?;
            self.connection
                .execute("UPDATE meta SET key_id = ?1", [id])?;
            self.is_sealing = true;
        }
        Ok(())
    }

    /// Makes the tables of rows, when the catalogue is read.
    pub(super) fn make_tables(&mut self) -> Result<(), HistoryFault> {
        if self.are_tables_made {
            return Ok(());
        }
        self.are_tables_made = true;
        for ever in tables::make_tables(&self.connection)? {
            self.tables.insert(ever.number.0, LoadedTable::new(ever));
            self.count.tables += 1;
        }
        Ok(())
    }

    fn table(&self, members: &mut HistoryMembers) -> Result<&LoadedTable, HistoryFault> {
        let number = fields::take(members, ("table", MemberShape::Int, false), i64::MAX)?;
        let number = integer(&number);
        self.tables.get(&number).ok_or_else(|| {
            HistoryFault::entry(
                "table",
                format!("is {number}, and no table has that number"),
            )
        })
    }

    fn take_grant(&mut self, mut members: HistoryMembers) -> Result<(), HistoryFault> {
        let table = self.table(&mut members)?.ever.number;
        let values = self.fields(&GRANT, &mut members)?;
        need_no_more(&members)?;
        if !(0..16).contains(&integer(&values[2])) {
            return Err(HistoryFault::entry("actions", "is no sum of 1, 2, 4 and 8"));
        }
        if integer(&values[3]) > integer(&values[4]) {
            return Err(HistoryFault::entry("knownTo", "is before `knownFrom`"));
        }
        self.insert(&names::grants(table), &GRANT.columns(), values)
    }

    fn take_version(&mut self, mut members: HistoryMembers) -> Result<(), HistoryFault> {
        let fields = self.fields(&VERSION, &mut members)?;
        let values = match members.remove("values") {
            Some(Json::Object(values)) => values,
            Some(other) => {
                let why = format!("is {}; an object is meant", kind(&other));
                return Err(HistoryFault::entry("values", why));
            }
            None => return Err(HistoryFault::entry("values", "is missing")),
        };
        let loading = self.table(&mut members)?;
        need_no_more(&members)?;
        let Stored::Text(id) = &fields[0] else {
            unreachable!("the shape of an id is a text");
        };
        RowId::new(id).map_err(|error| HistoryFault::entry("id", format!("is none: {error}")))?;
        need_times(&fields)?;
        let values = loading.values(values)?;
        let mut statement = self.connection.prepare_cached(&loading.insert)?;
        for (nth, field) in fields.iter().enumerate() {
            statement.raw_bind_parameter(nth + 1, field)?;
        }
        let place = (&loading.ever, &**id);
        self.coding
            .bind(&mut statement, fields.len() + 1, place, &values)?;
        statement.raw_execute().map_err(contradicts)?;
        drop(statement);
        self.count.versions += 1;
        Ok(())
    }

    fn take_shown(&mut self, mut members: HistoryMembers) -> Result<(), HistoryFault> {
        let table = self.table(&mut members)?.ever.number;
        let id = fields::take(&mut members, ("id", MemberShape::Text, false), 0)?;
        let shown = ("permissions", MemberShape::Json, false);
        let shown = fields::take(&mut members, shown, 0)?;
        let updated = ("updatedAt", MemberShape::Int, false);
        let updated = fields::take(&mut members, updated, 0)?;
        need_no_more(&members)?;
        let values = vec![Stored::Integer(table.0), id, shown, updated];
        self.insert("import_shown", "tab, id, perms, updated", values)
    }
}

impl LoadedTable {
    fn new(ever: Table) -> LoadedTable {
        let columns = ever.columns.iter().enumerate();
        let list = column_list(&ever);
        LoadedTable {
            positions: columns
                .map(|(nth, column)| (column.number.0.to_string(), nth))
                .collect(),
            insert: format!(
                "INSERT INTO {} ({}{list}, twin) VALUES (?{}, 0)",
                names::versions(ever.number),
                VERSION.columns(),
                ", ?".repeat(VERSION.fields.len() - 1 + ever.columns.len())
            ),
            ever,
        }
    }

    fn values(&self, given: HistoryMembers) -> Result<Vec<Value>, HistoryFault> {
        let mut values = vec![Value::Null; self.ever.columns.len()];
        for (number, value) in given {
            let field = || format!("values.{number}");
            let Some(position) = self.positions.get(&number) else {
                let table = self.ever.number.0;
                let why = format!("names no column that table {table} ever had");
                return Err(HistoryFault::entry(&field(), why));
            };
            let column: &Column = &self.ever.columns[*position];
            values[*position] = column_value(&value, column).ok_or_else(|| {
                let list = if column.array { "a list of " } else { "" };
                let storage = column.kind.storage();
                let why = format!("is {}; {list}{storage:?} is meant", kind(&value));
                HistoryFault::entry(&field(), why)
            })?;
        }
        Ok(values)
    }
}

fn integer(stored: &Stored) -> i64 {
    match stored {
        Stored::Integer(number) => *number,
        _ => 0,
    }
}

fn need_no_more(members: &HistoryMembers) -> Result<(), HistoryFault> {
    match members.keys().next() {
        Some(name) => Err(HistoryFault::entry(name, "is no member of this part")),
        None => Ok(()),
    }
}

fn contradicts(error: rusqlite::Error) -> HistoryFault {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => {
            HistoryFault::entry("", format!("the entry contradicts an earlier one: {error}"))
        }
        _ => error.into(),
    }
}

/// The laws of a version: each time after the one that it ends, and what cuts it within.
fn need_times(fields: &[Stored]) -> Result<(), HistoryFault> {
    let at = |name: &str| {
        let nth = VERSION.fields.iter().position(|field| field.name == name);
        integer(&fields[nth.expect("a member of a version")])
    };
    let (from, to, known) = (at("validFrom"), at("validTo"), at("knownFrom"));
    let (cut, cut_to, gone) = (at("cutAt"), at("cutTo"), at("goneAt"));
    let after = "is not after what it ends";
    if to <= from {
        return Err(HistoryFault::entry("validTo", after));
    }
    if gone <= known {
        return Err(HistoryFault::entry("goneAt", after));
    }
    let is_cut = cut < i64::MAX;
    if is_cut != (cut_to < i64::MAX) || (is_cut && (cut_to <= from || cut_to >= to)) {
        return Err(HistoryFault::entry(
            "cutTo",
            "does not lie within the version",
        ));
    }
    if is_cut && (cut <= known || cut > gone) {
        return Err(HistoryFault::entry("cutAt", after));
    }
    if at("assertedAt") > known {
        return Err(HistoryFault::entry(
            "assertedAt",
            "is after the mark from which the version is known",
        ));
    }
    if at("sequence") <= 0 {
        return Err(HistoryFault::entry("sequence", "is no positive integer"));
    }
    Ok(())
}
