//! How much the batches of one group have written, and which of them wait for the next one.

use crate::batch::{GROUP_IMAGE_BYTES_MAX, WriteBatch};

/// Bytes that the batches of one group wrote: those of API keys, and all others. Apart, so that
/// large rows of one side do not keep the other out of the group.
#[derive(Default)]
pub(crate) struct GroupBytes {
    by_keys: usize,
    by_others: usize,
}

impl GroupBytes {
    fn of(&mut self, batch: &WriteBatch) -> &mut usize {
        match batch.author {
            Some(_) => &mut self.by_keys,
            None => &mut self.by_others,
        }
    }

    pub(crate) fn add(&mut self, batch: &WriteBatch, bytes: usize) {
        *self.of(batch) += bytes;
    }

    /// Whether this batch is to wait for the next group.
    pub(crate) fn is_enough(&mut self, batch: &WriteBatch) -> bool {
        *self.of(batch) >= GROUP_IMAGE_BYTES_MAX
    }
}
