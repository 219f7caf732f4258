//! When rows change by themselves.

use model::Timestamp;
use query::Dialect;

use super::lending::LentConnection;
use super::snapshot::{self, PlanManner, STAMP};
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads, stored_reads};
use crate::stored::boundaries::BoundaryRead;

impl DatabaseRead for BoundaryRead {
    type Answer = Option<Timestamp>;

    /// Of a whole table as it was known before now every version is looked at: then it is given
    /// up, and begun again.
    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Option<Timestamp>> {
        Box::pin(async move {
            let (client, kept) = lent.parts();
            let stamp = kept.keep(client, STAMP).await?;
            lent.begin();
            let client = &*lent.client();
            let planned = (&stamp, PlanManner::EachTime);
            let stamp = snapshot::begin(client, planned, self.catalogue_epoch).await?;
            let read = self.statement(Dialect::Postgres, (stamp.mark, stamp.activated))?;
            let found = stored_reads::one_planned(client, &read).await?;
            snapshot::end(client).await?;
            lent.end();
            Ok(found)
        })
    }
}
