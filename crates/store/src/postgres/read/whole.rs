//! Reading what a store knows when it is opened.

use super::lending::LentConnection;
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads};
use crate::Loaded;
use crate::postgres::loading::load;

/// All containers, and the marks to go on from.
pub(super) struct WholeStore;

impl DatabaseRead for WholeStore {
    type Answer = Loaded;

    /// There may be very many containers.
    fn may_be_short(&self) -> bool {
        false
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Loaded> {
        Box::pin(async move {
            lent.begin();
            let loaded = load(lent.client()).await?;
            lent.end();
            Ok(loaded)
        })
    }
}
