//! What batches would do: they are run in a transaction that is never committed.
//!
//! On the connection that writes, because no other can write, and a read that is to show what
//! operations would do must have them done: so they are sent, and the database reads them. Nothing
//! else is written as long as a preview exists, and what is left of its time bounds each statement.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Catalogue, Mark, Row};

use super::shared_writer::{LentWriter, SharedWriter};
use super::writer::DatabaseWriter;
use crate::batch::Outcome;
use crate::history_line;
use crate::postgres::read::preview::PreviewReads;
use crate::{Listed, Listing, Point, Preview, StoreError, StoreFuture, Trial};

/// An open transaction with what became of its batches.
pub(super) struct DatabasePreview {
    shared: Arc<SharedWriter>,
    /// `None` once it is given back.
    writer: Option<Box<DatabaseWriter>>,
    outcomes: Vec<Outcome>,
    catalogue: Arc<Catalogue>,
    limit_ms: u64,
    until: Instant,
}

impl DatabasePreview {
    /// What [`crate::WriteTurn::preview`] promises, by a writer that is lent.
    pub(super) fn begin(
        mut lent: LentWriter<'_>,
        shared: Arc<SharedWriter>,
        (trials, first): (&[Trial], Mark),
        limit_ms: u64,
    ) -> Result<DatabasePreview, StoreError> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        let tried = lent.writer().try_batches(trials, first, until);
        let (outcomes, catalogue) = tried.map_err(|error| {
            lent.writer().give_up_group();
            explain(error, limit_ms)
        })?;
        Ok(DatabasePreview {
            shared,
            writer: Some(lent.keep()),
            outcomes,
            catalogue,
            limit_ms,
            until,
        })
    }

    fn writer(&self) -> &DatabaseWriter {
        self.writer.as_ref().expect("given back at the end only")
    }

    /// Reads what would be, if a reader of this catalogue may.
    fn read<T>(
        &self,
        catalogue_epoch: u64,
        read: impl AsyncFnOnce(&PreviewReads<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.catalogue.epoch != catalogue_epoch {
            return Err(StoreError::CatalogueMoved);
        }
        let (writer, session) = (self.writer(), self.writer().session());
        let found = session.limit_statements(self.until).and_then(|()| {
            session.read(async |client| {
                let reads = PreviewReads {
                    client,
                    encode_row: writer.encode_row(),
                    vault: &self.shared.place().keys.values,
                    until: self.until,
                };
                read(&reads).await
            })
        });
        found.map_err(|error| explain(error, self.limit_ms))
    }

    fn find_list(&self, listing: Listing<'_>) -> Result<Listed, StoreError> {
        history_line::check_query(listing.query, self.mark())?;
        self.read(listing.catalogue_epoch, async |reads| {
            reads.list(listing).await
        })
    }

    fn find(&self, point: Point<'_>) -> Result<Option<Row>, StoreError> {
        self.read(point.catalogue_epoch, async |reads| reads.get(point).await)
    }
}

/// Nothing but its limit interrupts a preview, or a search within it.
fn explain(error: StoreError, limit_ms: u64) -> StoreError {
    match error {
        StoreError::Interrupted | StoreError::Timeout { .. } => StoreError::Timeout { limit_ms },
        other => other,
    }
}

impl Preview for DatabasePreview {
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn mark(&self) -> Mark {
        self.writer().committed().mark
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Listed> {
        Box::pin(ready(self.find_list(listing)))
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Option<Row>> {
        Box::pin(ready(self.find(point)))
    }
}

impl Drop for DatabasePreview {
    fn drop(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.give_up_group();
            self.shared.give_back(writer);
        }
    }
}
