//! When rows change by themselves.

use std::future::ready;

use model::Timestamp;
use query::{Dialect, emit};

use super::{OF_KEYS, Reader, Readers, Step, activated, read_stamp};
use crate::sqlite::schema::stored_reads::first;
use crate::stored::boundaries::BoundaryRead;
use crate::{BoundaryOf, StoreFuture};

impl Readers {
    /// What [`crate::StoreReads::next_boundary`] promises. Of a whole table as it was known before
    /// now every version is looked at, which may be a long read.
    pub(in crate::sqlite) fn next_boundary<'a>(
        &self,
        request: BoundaryOf<'_>,
    ) -> StoreFuture<'a, Option<Timestamp>> {
        let request = BoundaryRead::new(request);
        match self.shared.short(|reader| reader.next_boundary(&request)) {
            Some(answer) => Box::pin(ready(answer)),
            None => self.long(OF_KEYS, move |_, reader| reader.next_boundary(&request)),
        }
    }
}

impl Reader {
    fn next_boundary(&self, request: &BoundaryRead) -> Step<Option<Timestamp>> {
        let mut statement = self.connection.prepare_cached(emit::stamp())?;
        // Open until the answer is complete: it holds the snapshot.
        let mut stamp = statement.query(())?;
        let mark = read_stamp(&mut stamp, request.catalogue_epoch)?;
        let standing = (mark, activated(&self.connection)?);
        let read = request.statement(Dialect::Sqlite, standing)?;
        Ok(first(&self.connection, &read)?.flatten())
    }
}
