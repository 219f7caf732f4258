//! Indexes of words, and the function by which they hold them (`query::lexemes`).

use model::IndexKind;
use query::{lexemes, names};
use tokio_postgres::Client;

use super::connection::{literal, row};
use super::filling::PATIENT;
use super::loading::load;
use super::row_tables::{drop_index, user_indexes};
use crate::StoreError;

/// Makes the function, and each index of words again, if they were made by another rule or never:
/// what another rule holds is not found. All of it is one transaction; after a crash it is done by
/// the next start. It waits without a limit for other sessions that use the tables: a vacuum gives
/// way only to one that has waited for a second, after which others give up.
pub(super) async fn renew(client: &Client) -> Result<(), StoreError> {
    let rule = lexemes::rule();
    let made_by = format!(
        "SELECT words FROM meta WHERE to_regprocedure('{}(text)') IS NOT NULL",
        names::INDEXED_WORDS
    );
    let made_by = row(client, &made_by).await?;
    if made_by.as_ref().and_then(|row| row.get(0)) == Some(&rule) {
        return Ok(());
    }
    let catalogue = load(client).await?.catalogue;
    let mut sql = format!("BEGIN;{PATIENT};SET LOCAL lock_timeout = 0;");
    sql.push_str(lexemes::function());
    for table in catalogue.tables() {
        let is_of_words = |index: &&model::Index| index.kind == IndexKind::Fulltext;
        for index in table.indexes.iter().filter(is_of_words) {
            sql += &drop_index(table.number, index.number);
            // One that is being built is begun again.
            if index.is_available() {
                let made = user_indexes(table, index);
                sql.extend(made.iter().map(|one| one.create("")));
            }
        }
    }
    sql.extend(["UPDATE meta SET words = ", &literal(&rule), ";COMMIT"]);
    Ok(client.batch_execute(&sql).await?)
}
