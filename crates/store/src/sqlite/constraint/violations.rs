//! What breaks a constraint over valid time that is to be declared: the first violation refuses
//! it, and some more are looked for, so that its author can put them right.

use std::time::{Duration, Instant};

use model::history::VersionNumber;
use model::{ColumnNumber, RowId, Table, TableNumber};
use query::names;

use crate::StoreError;
use crate::batch::Constraint;
use crate::error::corrupt;
use crate::laws::halt::{Halt, Step};
use crate::laws::ledger::SingleRows as _;
use crate::laws::period_search::SharedKey;
use crate::laws::versions::VersionsWanted;
use crate::refusal::{Refusal, VIOLATIONS_MAX, Violation, Violations};
use crate::sqlite::schema::constraints::{beginnings, held};
use crate::sqlite::schema::tables::END;
use crate::sqlite::write::run::SqliteRun;
use crate::sqlite::write::stored_rows::stored_period;
use crate::stored::overlaps::{BELIEVED_END, overlap_sql};

/// How long further violations are looked for. No other writer can go on meanwhile.
const FURTHER_MAX: Duration = Duration::from_millis(200);

/// So much of a text that refers is shown: an id is no longer.
const SHOWN_CHARS_MAX: usize = 36;

/// A piece, by its number and its row.
type Found = (i64, RowId);

impl SqliteRun<'_, '_> {
    fn find_overlaps(&self, sql: &str, found: &mut Vec<Found>) -> Step<()> {
        let mut statement = self.rows.connection.prepare(sql)?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let id: String = row.get(0)?;
            let id = RowId::new(&id).map_err(|error| corrupt(error.to_string()))?;
            found.push((row.get(1)?, id));
        }
        Ok(())
    }

    /// # Errors
    /// [`Refusal::NotKept`] when something known now breaks the constraint.
    pub(crate) fn need_kept(&self, table: &Table, constraint: &Constraint) -> Step<()> {
        match constraint {
            Constraint::Unique(columns) => {
                let key = columns.iter().filter_map(|c| table.numbered(*c)).collect();
                self.need_unique(table, key)
            }
            Constraint::Ref(column, to) => self.need_referred(table, *column, *to),
        }
    }

    fn need_unique(&self, table: &Table, key: Vec<usize>) -> Step<()> {
        // In the order of the index, so that no more is sorted than has one beginning.
        let mut columns = beginnings(table, &key);
        columns.extend(held(table, &key).into_iter().map(|(name, _)| name));
        let mut first = Vec::new();
        self.find_overlaps(&overlap_sql(table.number, &columns, 1), &mut first)?;
        if first.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        let sql = overlap_sql(table.number, &columns, VIOLATIONS_MAX + 1);
        let search = || self.find_overlaps(&sql, &mut found);
        let mut more = match self.rows.deadline.within(FURTHER_MAX, search) {
            Err(Halt::Failed(StoreError::Interrupted)) => true,
            searched => searched.map(|()| false)?,
        };
        if found.is_empty() {
            found = first;
        }
        more |= found.len() > VIOLATIONS_MAX;
        found.truncate(VIOLATIONS_MAX);
        let clashes = found.into_iter();
        let clashes = clashes.map(|piece| self.clash_of(table, &key, piece));
        let found: Vec<Violation> = clashes.collect::<Step<_>>()?;
        let columns = key.iter().map(|at| table.columns[*at].key.to_string());
        let first = &found[0];
        Err(Refusal::NotKept {
            first: Box::new(Refusal::UniqueOverTime {
                columns: columns.collect(),
                other: first.row.clone(),
                shared: first.period,
            }),
            violations: Violations { found, more },
        }
        .into())
    }

    /// With which row a piece that was found shares values and an instant.
    fn clash_of(&self, table: &Table, key: &[usize], (rid, row): Found) -> Step<Violation> {
        let gone = || corrupt("a piece that was found is not there");
        let piece = VersionsWanted::Numbered(VersionNumber(rid));
        let piece = self.rows().versions(table, row.as_str(), piece)?.pop();
        let piece = piece.ok_or_else(gone)?;
        let clash = self.clash(table, SharedKey::OverTime(key), &row, &piece)?;
        let (other, period) = clash.ok_or_else(gone)?;
        Ok(Violation {
            row,
            against: other.to_string(),
            period,
        })
    }

    fn need_referred(&self, table: &Table, column: ColumnNumber, to: TableNumber) -> Step<()> {
        let Some(position) = table.numbered(column) else {
            return Ok(());
        };
        let name = names::column(column);
        let sql = format!(
            "SELECT {name}, vf, {BELIEVED_END}, id FROM {} WHERE st = {END} AND {name} IS NOT NULL",
            names::versions(table.number),
        );
        let related = self.table_numbered(to)?;
        let mut statement = self.rows.connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        let mut first: Option<(Box<Refusal>, Instant)> = None;
        let mut violations = Violations::default();
        while let Some(row) = rows.next()? {
            let is_late = |(_, since): &(_, Instant)| since.elapsed() >= FURTHER_MAX;
            if violations.found.len() >= VIOLATIONS_MAX || first.as_ref().is_some_and(is_late) {
                violations.more = true;
                break;
            }
            let target: String = row.get(0)?;
            let valid = stored_period(row.get(1)?, row.get(2)?)?;
            let refusal = match self.need_covered(&related, &target, valid, table, position) {
                Ok(()) => continue,
                Err(Halt::Refused(refusal)) => refusal,
                Err(halt) => return Err(halt),
            };
            let id: String = row.get(3)?;
            violations.found.push(Violation {
                row: RowId::new(&id).map_err(|error| corrupt(error.to_string()))?,
                against: target.chars().take(SHOWN_CHARS_MAX).collect(),
                period: match &refusal {
                    Refusal::ReferenceOverTime { missing, .. } => *missing,
                    _ => valid,
                },
            });
            first.get_or_insert_with(|| (Box::new(refusal), Instant::now()));
        }
        match first {
            None => Ok(()),
            Some((first, _)) => Err(Refusal::NotKept { first, violations }.into()),
        }
    }
}
