//! What a server says of itself, and of the schema that is to hold a store.

use std::path::Path;

use tokio_postgres::{Client, Error};

use super::address::DatabaseUrl;
use super::checks::{self, SETTINGS, SchemaContent, SchemaSeen, ServerSettings};
use super::connection::{connect, literal, row, rows};
use super::finding::DatabaseFinding;

/// The settings that are looked at.
pub(super) async fn settings(client: &Client) -> Result<ServerSettings, Error> {
    let names = SETTINGS.map(literal).join(", ");
    let sql =
        format!("SELECT name, current_setting(name) FROM pg_settings WHERE name IN ({names})");
    let found = rows(client, &sql).await?;
    let pairs = found
        .iter()
        .filter_map(|row| Some((row.get(0)?.to_owned(), row.get(1)?.to_owned())));
    Ok(ServerSettings(pairs.collect()))
}

/// The schema of this name. A store has the table `meta` with these columns.
pub(super) async fn schema(client: &Client, name: &str) -> Result<SchemaSeen, Error> {
    let sql = format!(
        "SELECT current_user, has_database_privilege(current_database(), 'CREATE'), \
         n.oid IS NOT NULL, \
         coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE'), \
         false), (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid), \
         (SELECT count(*) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
         WHERE c.relnamespace = n.oid AND c.relname = 'meta' \
         AND a.attname IN ('format', 'x_at', 'lineage')) = 3 \
         FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = {}",
        literal(name)
    );
    let found = row(client, &sql).await?;
    let text = |nth: usize| {
        found
            .as_ref()
            .and_then(|row| row.get(nth))
            .unwrap_or_default()
    };
    Ok(SchemaSeen {
        user: text(0).to_owned(),
        may_create: text(1) == "t",
        is_there: text(2) == "t",
        may_use: text(3) == "t",
        holds: match (text(5), text(4).parse().unwrap_or(0)) {
            ("t", _) => SchemaContent::Store,
            (_, 0) => SchemaContent::Nothing,
            (_, count) => SchemaContent::Other(count),
        },
    })
}

/// Whether each connection has a process of the server to itself: a second connection takes a
/// transaction. A pooler that lends processes by the transaction gives it the one that has served
/// the first connection last.
pub(super) async fn pooler(
    client: &Client,
    url: &DatabaseUrl,
    password_file: Option<&Path>,
) -> Result<DatabaseFinding, Error> {
    let before = process(client).await?;
    let second = match connect(url, password_file).await {
        Ok(second) => second.client,
        Err(fault) => return Ok(checks::refused(url, &fault)),
    };
    second.batch_execute("BEGIN; SELECT 1").await?;
    let meanwhile = process(client).await?;
    second.batch_execute("ROLLBACK").await?;
    Ok(checks::pooler(&before, &meanwhile))
}

async fn process(client: &Client) -> Result<String, Error> {
    let found = row(client, "SELECT pg_backend_pid()").await?;
    Ok(found
        .and_then(|row| row.get(0).map(str::to_owned))
        .unwrap_or_default())
}
