//! What the statistics of a server say of a store that is in a schema of it.

use std::path::Path;

use tokio_postgres::{Client, Error, SimpleQueryRow};

use super::connection::{identifier, literal, row, rows};
use super::finding::DatabaseFinding;
use crate::vault::Vault;

/// So many tables are named.
const SHOWN_MAX: usize = 6;

/// Looks at what the store in the schema has left behind, and whether this directory has the key
/// that it needs.
pub(super) async fn findings(
    client: &Client,
    schema: &str,
    keys: &Path,
) -> Result<Vec<DatabaseFinding>, Error> {
    let invalid = invalid_indexes(client, schema).await?;
    let dead = dead_rows(client, schema).await?;
    let moved = moved_updates(client, schema).await?;
    let erased = erased_tables(client, schema).await?;
    Ok(vec![
        indexes_of(schema, &invalid),
        dead_rows_of(schema, dead.as_ref()),
        heap_only_of(schema, moved.as_ref()),
        erased_of(&erased),
        key_of(&key_id(client, schema).await?, keys),
    ])
}

/// The id of the key that the store was written with; empty where nothing is encrypted.
async fn key_id(client: &Client, schema: &str) -> Result<String, Error> {
    let sql = format!("SELECT key_id FROM {}.meta", identifier(schema));
    let found = row(client, &sql).await?;
    let id = found.as_ref().and_then(|found| found.get(0));
    Ok(id.unwrap_or_default().to_owned())
}

/// Whether the key of encrypted columns is there.
fn key_of(id: &str, keys: &Path) -> DatabaseFinding {
    const CHECK: &str = "key";
    if id.is_empty() {
        return DatabaseFinding::good(CHECK, "Nothing is encrypted, so no key is needed.");
    }
    match Vault::of_values(keys).need(id) {
        Ok(()) => DatabaseFinding::good(
            CHECK,
            "The key of the encrypted columns is there. Keep a copy of tidemark.key, and not \
             beside the copies of the data.",
        ),
        Err(error) => DatabaseFinding::bad(
            CHECK,
            error.to_string(),
            "No start goes on without it: what was encrypted could be neither read nor told from \
             what another key wrote",
        ),
    }
}

/// Indexes whose building did not end, and does not go on.
async fn invalid_indexes(client: &Client, schema: &str) -> Result<Vec<String>, Error> {
    let sql = format!(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = {} AND NOT i.indisvalid AND NOT EXISTS (SELECT 1 \
         FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) \
         ORDER BY 1 LIMIT 5",
        literal(schema)
    );
    let found = rows(client, &sql).await?;
    let names = found.iter().filter_map(|row| row.get(0).map(str::to_owned));
    Ok(names.collect())
}

/// A table, and two numbers of its rows.
struct WornTable {
    table: String,
    all: u64,
    part: u64,
}

impl WornTable {
    fn of(row: &SimpleQueryRow) -> WornTable {
        let number = |position| row.get(position).and_then(|text| text.parse().ok());
        WornTable {
            table: row.get(0).unwrap_or_default().to_owned(),
            all: number(1).unwrap_or(0),
            part: number(2).unwrap_or(0),
        }
    }
}

/// The table with the most dead versions of rows, if those are many: every read of `meta` goes
/// through all of its own.
async fn dead_rows(client: &Client, schema: &str) -> Result<Option<WornTable>, Error> {
    let sql = format!(
        "SELECT relname, n_live_tup + n_dead_tup, n_dead_tup FROM pg_stat_user_tables \
         WHERE schemaname = {} AND (n_dead_tup > 10000 AND n_dead_tup * 4 > n_live_tup \
         OR relname = 'meta' AND n_dead_tup > 1000) ORDER BY n_dead_tup DESC LIMIT 1",
        literal(schema)
    );
    Ok(rows(client, &sql).await?.first().map(WornTable::of))
}

/// A table of rows of now whose updates wrote to its indexes, though no index of a user is over it:
/// what its own ones hold never changes.
async fn moved_updates(client: &Client, schema: &str) -> Result<Option<WornTable>, Error> {
    let sql = format!(
        "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables s \
         WHERE schemaname = {} AND relname ~ '^t[0-9]+$' AND n_tup_upd > 10000 \
         AND n_tup_hot_upd * 10 < n_tup_upd * 9 \
         AND (SELECT count(*) FROM pg_index i WHERE i.indrelid = s.relid) = 2 \
         ORDER BY n_tup_upd DESC LIMIT 1",
        literal(schema)
    );
    Ok(rows(client, &sql).await?.first().map(WornTable::of))
}

/// Tables that were not rewritten since a row was erased of which they may have held something:
/// that gives them another file, which frees of old transactions all that it takes over. What a
/// move has copied holds no erased row.
pub(super) async fn erased_tables(client: &Client, schema: &str) -> Result<Vec<String>, Error> {
    let sql = format!(
        "SELECT DISTINCT c.relname FROM {schema}.erasure e \
         JOIN pg_namespace n ON n.nspname = {name} \
         LEFT JOIN pg_class o ON o.relnamespace = n.oid AND o.relname = 't' || e.tab \
         JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' \
         AND c.relname IN ('t' || e.tab, 't' || e.tab || '_v', 't' || e.tab || '_perm', \
         't' || e.tab || '_sched', 'tx_row', 'request_key', 'staged_op') \
         WHERE o.xmin IS DISTINCT FROM e.xmin \
         AND (age(c.xmin) >= age(e.xmin) OR age(c.relfrozenxid) >= age(e.xmin)) ORDER BY 1",
        schema = identifier(schema),
        name = literal(schema)
    );
    let found = rows(client, &sql).await?;
    let names = found.iter().filter_map(|row| row.get(0).map(str::to_owned));
    Ok(names.collect())
}

/// Indexes whose building did not end.
fn indexes_of(schema: &str, invalid: &[String]) -> DatabaseFinding {
    const CHECK: &str = "indexes";
    if invalid.is_empty() {
        return DatabaseFinding::good(CHECK, "Each index of the store is valid.");
    }
    let drop = invalid.iter().map(|name| {
        let (schema, name) = (identifier(schema), identifier(name));
        format!("DROP INDEX CONCURRENTLY {schema}.{name}")
    });
    let drop: Vec<String> = drop.collect();
    DatabaseFinding::warning(
        CHECK,
        format!(
            "The building of {} did not end: each write pays for it, and no read uses it.",
            invalid.join(", ")
        ),
        format!("{}, and create it again", drop.join("; ")),
    )
}

/// The table with the most dead versions of rows, where those are many.
fn dead_rows_of(schema: &str, most: Option<&WornTable>) -> DatabaseFinding {
    const CHECK: &str = "dead rows";
    let Some(WornTable { table, all, part }) = most else {
        return DatabaseFinding::good(CHECK, "No table of the store holds many.");
    };
    DatabaseFinding::warning(
        CHECK,
        format!("Of {all} rows in `{table}` {part} are dead, and reads go past them."),
        format!(
            "VACUUM {}.{}. If they stay, a session, a slot or a standby holds an old snapshot",
            identifier(schema),
            identifier(table)
        ),
    )
}

/// A table whose updates wrote to indexes that hold nothing that changes.
fn heap_only_of(schema: &str, worst: Option<&WornTable>) -> DatabaseFinding {
    const CHECK: &str = "heap-only updates";
    let Some(WornTable { table, all, part }) = worst else {
        return DatabaseFinding::good(CHECK, "Updates find room beside the row.");
    };
    DatabaseFinding::warning(
        CHECK,
        format!(
            "Of {all} updates of `{table}` {part} found room beside the row: the others wrote to \
             its indexes, too."
        ),
        format!(
            "VACUUM (FULL) {}.{}, which locks it meanwhile, and look for old snapshots",
            identifier(schema),
            identifier(table)
        ),
    )
}

/// Tables that may hold bytes of erased rows.
fn erased_of(tables: &[String]) -> DatabaseFinding {
    const CHECK: &str = "erased rows";
    if tables.is_empty() {
        return DatabaseFinding::good(CHECK, "No table of the store holds bytes of erased rows.");
    }
    let mut shown: Vec<&str> = tables.iter().map(String::as_str).take(SHOWN_MAX).collect();
    if tables.len() > SHOWN_MAX {
        shown.push("…");
    }
    DatabaseFinding::warning(
        CHECK,
        format!(
            "No answer shows erased rows, and these tables of the database may hold their bytes: \
             {}.",
            shown.join(", ")
        ),
        "Run `tidemark maintain`, which rewrites these tables and locks each meanwhile. Old WAL \
         and backups hold those bytes as long as you keep them",
    )
}
