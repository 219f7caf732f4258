//! Requests that have run, as PostgreSQL keeps them.

use model::Timestamp;

use super::rows::PostgresRows;
use crate::StoreError;
use crate::laws::requests::{RanRequest, RequestStore, RequestToKeep};
use crate::staged::Once;

impl RequestStore for PostgresRows<'_> {
    fn forget_requests(&self, before: Timestamp) -> Result<(), StoreError> {
        self.requests.borrow_mut().forget(before);
        Ok(())
    }

    fn ran(&self, once: &Once) -> Result<Option<RanRequest>, StoreError> {
        self.requests.borrow().ran(once, &self.keys.values)
    }

    fn keep_request(&self, request: RequestToKeep<'_>) -> Result<(), StoreError> {
        self.requests.borrow_mut().keep(request, &self.keys.values)
    }

    fn bound_answers(&self, once: &Once) -> Result<(), StoreError> {
        self.requests.borrow_mut().bound(once);
        Ok(())
    }
}
