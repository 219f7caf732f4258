//! What the writer's thread and the readers share.

use std::sync::{Arc, PoisonError, RwLock};

use list_cache::ListCache;
use model::Catalogue;
use store::{Outcome, Store};

use crate::EncodePage;
use crate::clock::Clock;
use crate::marks::Marks;

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) marks: Marks,
    pub(crate) lists: ListCache,
    pub(crate) encode_page: EncodePage,
    catalogue: RwLock<Arc<Catalogue>>,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        marks: Marks,
        lists: ListCache,
        catalogue: Catalogue,
        encode_page: EncodePage,
    ) -> Shared {
        let catalogue = RwLock::new(Arc::new(catalogue));
        Shared {
            store,
            clock,
            marks,
            lists,
            encode_page,
            catalogue,
        }
    }

    /// The containers as of the latest published commit.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes in what a commit changed in the catalogue. The writer alone calls this.
    pub(crate) fn take_in(&self, outcomes: &[Outcome]) {
        let applied = outcomes.iter().flatten();
        let changed: Vec<_> = applied
            .filter(|applied| !applied.catalogue.is_empty())
            .collect();
        let Some(last) = changed.last() else { return };
        let mut catalogue = Catalogue::clone(&self.catalogue());
        for change in changed.iter().flat_map(|applied| &applied.catalogue) {
            catalogue.apply(change.clone());
        }
        catalogue.epoch = last.catalogue_epoch;
        *self
            .catalogue
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(catalogue);
    }

    /// Waits until the catalogue is no longer the one of `epoch`, or a batch was settled since
    /// [`Marks::publications`] said `seen`. A snapshot may show a commit just before its
    /// catalogue is published; after this wait the reader begins anew.
    pub(crate) async fn newer_catalogue(&self, epoch: u64, seen: u64) {
        if self.catalogue().epoch == epoch {
            self.marks.after(seen).await;
        }
    }
}
