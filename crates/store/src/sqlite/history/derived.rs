//! What a store derives of its versions: rows of now with their bodies, links, words and schedules.
//! The store is opened as any other, and what it is to show comes in as what is due does.

use model::{Grantee, Mark, Permission, Timestamp};
use query::names;
use rusqlite::{OptionalExtension as _, params};

use super::fault::HistoryFault;
use crate::Options;
use crate::error::corrupt;
use crate::laws::halt::Halt;
use crate::laws::permissions::{grants, permissions_text};
use crate::sqlite::SqliteStore;
use crate::sqlite::commit::writer::Writer;
use crate::sqlite::schema::tables::END;
use crate::stored::overlaps::BELIEVED_END;
use crate::{StoreError, refusal::Refusal};

/// Derives all of it in the store that `options` name, which is closed in the end.
pub(super) fn derive(options: Options, mark: Mark) -> Result<(), HistoryFault> {
    let store = SqliteStore::open(options)?;
    let horizon = store
        .shared
        .with_writer(|writer| Ok(derive_in(writer, mark)))??;
    store.close_at(horizon)?;
    Ok(())
}

fn derive_in(writer: &mut Writer, mark: Mark) -> Result<Mark, HistoryFault> {
    let (shown_at, horizon) = stands(writer)?;
    while has_due(writer, shown_at) {
        writer.begin_due(shown_at)?;
        // No cache waits for the images.
        drop(writer.take_due());
        writer.commit()?;
    }
    need_all_shown(writer, shown_at)?;
    need_constraints(writer, mark)?;
    show_as_before(writer)?;
    Ok(horizon)
}

fn stands(writer: &Writer) -> Result<(Timestamp, Mark), StoreError> {
    let sql = "SELECT x_at, horizon FROM meta";
    Ok(writer.connection.query_row(sql, (), |row| {
        Ok((Timestamp(row.get(0)?), Mark(row.get(1)?)))
    })?)
}

fn has_due(writer: &Writer, instant: Timestamp) -> bool {
    let boundaries = &writer.state().boundaries;
    boundaries.values().any(|at| *at <= instant)
}

/// A row that contradicts a unique index was left out.
fn need_all_shown(writer: &Writer, instant: Timestamp) -> Result<(), HistoryFault> {
    for table in writer.state().catalogue.tables() {
        let sql = format!(
            "SELECT id FROM {versions} WHERE st = {END} AND vf <= ?1 AND {BELIEVED_END} > ?1 \
             AND id NOT IN (SELECT id FROM {now}) LIMIT 1",
            versions = names::versions(table.number),
            now = names::now(table.number)
        );
        let missing: Option<String> = writer
            .connection
            .query_row(&sql, [instant.0], |row| row.get(0))
            .optional()?;
        if let Some(id) = missing {
            return Err(HistoryFault::Unfit(format!(
                "row `{id}` of table `{}` has a value that is unique, and another row has it",
                table.id
            )));
        }
    }
    Ok(())
}

fn need_constraints(writer: &mut Writer, mark: Mark) -> Result<(), HistoryFault> {
    let run = writer.run_without_batch(mark.timestamp());
    let tables: Vec<_> = run.state.catalogue.tables().cloned().collect();
    for table in tables {
        for constraint in run.state.constraints.of(table.number).each() {
            match run.need_kept(&table, &constraint) {
                Ok(()) => {}
                Err(Halt::Failed(error)) => return Err(error.into()),
                Err(Halt::Refused(refusal)) => return Err(broken(&table, &refusal)),
            }
        }
    }
    Ok(())
}

fn broken(table: &model::Table, refusal: &Refusal) -> HistoryFault {
    HistoryFault::Unfit(format!(
        "a constraint over valid time of table `{}` does not hold: {refusal:?}",
        table.id
    ))
}

/// Rows show what neither their versions nor their grants tell: see the part `row`.
fn show_as_before(writer: &mut Writer) -> Result<(), HistoryFault> {
    writer.begin()?;
    let ordered = set_shown(writer);
    if let Err(error) = ordered {
        writer.rollback();
        return Err(error);
    }
    writer.connection.execute_batch("DROP TABLE import_shown")?;
    writer.commit()?;
    Ok(())
}

fn set_shown(writer: &Writer) -> Result<(), HistoryFault> {
    let connection = &writer.connection;
    let sql = "SELECT tab, id, perms, updated FROM import_shown ORDER BY rowid";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let number = model::TableNumber(row.get(0)?);
        let (id, text): (String, String) = (row.get(1)?, row.get(2)?);
        let table = writer.state().catalogue.table_by_number(number);
        let table = table.ok_or_else(|| corrupt(format!("table {} is not there", number.0)))?;
        let now = names::now(number);
        let shown: Option<String> = connection
            .prepare_cached(&format!("SELECT perms FROM {now} WHERE id = ?1"))?
            .query_row([&id], |row| row.get(0))
            .optional()?;
        let given = parse(&text);
        let granted = shown.as_deref().and_then(parse);
        let (Some(given), Some(granted)) = (given, granted) else {
            return Err(other_permissions(&table.id, &id));
        };
        if sorted(&given) != sorted(&granted) {
            return Err(other_permissions(&table.id, &id));
        }
        connection
            .prepare_cached(&format!(
                "UPDATE {now} SET perms = ?2, updated = ?3 WHERE id = ?1"
            ))?
            .execute(params![id, permissions_text(&given), row.get::<_, i64>(3)?])?;
    }
    Ok(())
}

fn parse(text: &str) -> Option<Vec<Permission>> {
    let texts: Vec<String> = serde_json::from_str(text).ok()?;
    let texts = texts.iter().map(String::as_str);
    Grantee::Row.parse(texts).ok()
}

fn sorted(permissions: &[Permission]) -> Vec<(&str, i64)> {
    let mut sorted = grants(permissions);
    sorted.sort_unstable();
    sorted
}

fn other_permissions(table: &model::TableId, id: &str) -> HistoryFault {
    HistoryFault::Unfit(format!(
        "the permissions of row `{id}` of table `{table}` are not those of its grants"
    ))
}
