//! Lists of rows with words, read among those that the indexes of words give.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use query::Query;
use query::emit::{self, Statement};
use tokio_postgres::Client;

use super::kept_statements::ReadyStatement;
use super::read_halt::Step;

/// So long is an index read for it. A beginning that most words have takes it through all of them,
/// and rows with such a word are soon found without it.
const NARROWING_MAX: Duration = Duration::from_millis(100);

/// Begins what [`NARROWED`] ends. Of a word in most rows the planner would rather make the words of
/// all texts again than read the index.
pub(in crate::postgres) fn narrows() -> String {
    let time_max = NARROWING_MAX.as_millis();
    format!(
        "SAVEPOINT words; SET LOCAL enable_seqscan = off; SET LOCAL statement_timeout = {time_max}"
    )
}

const NARROWED: &str = "ROLLBACK TO words; RELEASE words";

/// The query among those rows, in the open transaction; `None` where they are no help.
pub(super) async fn narrowed(client: &Client, query: &Query) -> Step<Option<Query>> {
    let Some(statement) = emit::narrowing(query) else {
        return Ok(None);
    };
    let began = Instant::now();
    client.batch_execute(&narrows()).await?;
    let found = sequences(client, &statement).await;
    client.batch_execute(NARROWED).await?;
    match found {
        Ok(rows) => Ok(emit::narrowed(query, rows)),
        // And not because its caller went.
        Err(halt) if halt.is_interruption() && began.elapsed() >= NARROWING_MAX => Ok(None),
        Err(halt) => Err(halt),
    }
}

async fn sequences(client: &Client, statement: &Statement) -> Step<Vec<i64>> {
    let rows = ReadyStatement::once(statement).run(client).await?;
    let rows: Vec<tokio_postgres::Row> = rows.try_collect().await?;
    let sequences = rows.iter().map(|row| row.try_get(0));
    Ok(sequences.collect::<Result<_, _>>()?)
}
