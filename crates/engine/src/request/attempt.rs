//! Requests that begin again under a newer catalogue.

use std::sync::Arc;

use model::Catalogue;
use store::StoreError;

use crate::Engine;
use crate::error::{EngineError, Unavailable};

/// A read is begun again so often when the schema changes under it.
pub(crate) const ATTEMPTS_MAX: usize = 16;

impl Engine {
    /// Runs `attempt` under the newest catalogue, and again under a newer one each time it ends
    /// with [`StoreError::CatalogueMoved`].
    ///
    /// # Errors
    /// What `attempt` says; [`Unavailable::Overloaded`] when the catalogue moved too often.
    pub(crate) async fn under_catalogue<T>(
        &self,
        attempt: impl AsyncFnMut(&Arc<Catalogue>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.under_catalogue_up_to(ATTEMPTS_MAX, attempt).await
    }

    /// The same, begun so often at most.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn under_catalogue_up_to<T>(
        &self,
        attempts_max: usize,
        mut attempt: impl AsyncFnMut(&Arc<Catalogue>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        for _ in 0..attempts_max {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            match attempt(&catalogue).await {
                Err(EngineError::Store(StoreError::CatalogueMoved)) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                answer => return answer,
            }
        }
        Err(Unavailable::Overloaded.into())
    }
}
