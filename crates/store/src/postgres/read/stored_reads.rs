//! Statements that every database runs (`store/stored`), run here.

use tokio_postgres::Client;

use super::kept_statements::KeptStatements;
use super::lending::LentConnection;
use super::read_halt::Step;
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads};
use crate::postgres::cells::borrowed;
use crate::postgres::stored_parameters;
use crate::stored::read::StoredRead;

/// By itself it needs no transaction: a statement has a snapshot of its own.
impl<T: Send + 'static> DatabaseRead for StoredRead<T> {
    type Answer = Vec<T>;

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Vec<T>> {
        Box::pin(async move {
            lent.begin();
            let (client, kept) = lent.parts();
            let found = all(client, kept, self).await?;
            lent.end();
            Ok(found)
        })
    }
}

/// What all rows are, by a statement that is kept.
pub(super) async fn all<T>(
    client: &Client,
    kept: &mut KeptStatements,
    read: &StoredRead<T>,
) -> Step<Vec<T>> {
    let statement = kept.keep(client, &read.sql).await?;
    let parameters = stored_parameters::all(&read.parameters);
    let rows = client.query(&statement, &borrowed(&parameters)).await?;
    let found = rows.iter().map(|row| (read.read)(row));
    Ok(found.collect::<Result<Vec<T>, _>>()?)
}

/// What the first row is, if there is one, by a statement that is kept.
pub(super) async fn first<T>(
    client: &Client,
    kept: &mut KeptStatements,
    read: &StoredRead<T>,
) -> Step<Option<T>> {
    Ok(all(client, kept, read).await?.into_iter().next())
}

/// What the one row is of a statement that is planned for its parameters.
pub(super) async fn one_planned<T>(client: &Client, read: &StoredRead<T>) -> Step<T> {
    let types = read.parameters.iter().map(stored_parameters::sql_type);
    let parameters = stored_parameters::all(&read.parameters);
    let parameters: Vec<_> = borrowed(&parameters).into_iter().zip(types).collect();
    let row = client.query_typed_one(&read.sql, &parameters).await?;
    Ok((read.read)(&row)?)
}
