//! What a group does beside rows, over a working set: it holds none of this. Requests are the
//! database's own to keep until the group is sent; transactions of clients and what belongs to
//! functions are changed there at once, behind what can be taken back.

use model::{ProjectId, RowId, Table, Timestamp};

use super::bulk_rows::BulkRows;
use super::growth::Growth;
use super::past::PastRows;
use super::requests::{RanRequest, RequestStore, RequestToKeep};
use super::stored_tables::StoredTables;
use super::transaction_store::{
    AddedOperations, GoneTransactions, HeldShare, NewTransaction, TransactionOwner,
    TransactionStore,
};
use super::working_set::WorkingSet;
use crate::StoreError;
use crate::staged::{Once, Transaction, TransactionStatus};
use crate::stored::change::StoredChange;
use crate::stored::read::StoredRead;
use crate::vault::Vault;

impl<B: BulkRows + PastRows> PastRows for WorkingSet<B> {
    fn forget_below(
        &self,
        table: &Table,
        ids: &[&RowId],
        line: Timestamp,
        growth: &Growth,
    ) -> Result<(), StoreError> {
        self.directly()?.forget_below(table, ids, line, growth)
    }
}

impl<B: BulkRows + RequestStore> RequestStore for WorkingSet<B> {
    fn forget_requests(&self, before: Timestamp) -> Result<(), StoreError> {
        self.database().forget_requests(before)
    }

    fn ran(&self, once: &Once) -> Result<Option<RanRequest>, StoreError> {
        self.database().ran(once)
    }

    fn keep_request(&self, request: RequestToKeep<'_>) -> Result<(), StoreError> {
        self.database().keep_request(request)
    }

    fn bound_answers(&self, once: &Once) -> Result<(), StoreError> {
        self.database().bound_answers(once)
    }
}

impl<B: BulkRows + StoredTables> StoredTables for WorkingSet<B> {
    fn read_stored<T>(&self, read: &StoredRead<T>) -> Result<Vec<T>, StoreError> {
        // It may look at rows, and at the records of the batches before.
        self.behind_to_change()?.read_stored(read)
    }

    fn change_stored(&self, change: &StoredChange) -> Result<usize, StoreError> {
        self.beside()?.change_stored(change)
    }

    fn change_in_order(
        &self,
        changes: impl IntoIterator<Item = StoredChange>,
    ) -> Result<(), StoreError> {
        self.beside()?.change_in_order(changes)
    }

    fn vault_of_functions(&self) -> &Vault {
        self.database().vault_of_functions()
    }
}

impl<B: BulkRows + TransactionStore> TransactionStore for WorkingSet<B> {
    fn transaction(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<Transaction>, StoreError> {
        self.database().transaction(project, id)
    }

    fn open_transaction(&self, new: &NewTransaction<'_>) -> Result<(), StoreError> {
        self.beside()?.open_transaction(new)
    }

    fn add_operations(
        &self,
        to: &Transaction,
        added: &AddedOperations<'_>,
    ) -> Result<(), StoreError> {
        self.beside()?.add_operations(to, added)
    }

    fn end_transaction(
        &self,
        seq: i64,
        status: TransactionStatus,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.beside()?.end_transaction(seq, status, now)
    }

    fn remove_transactions(&self, which: GoneTransactions<'_>) -> Result<usize, StoreError> {
        self.beside()?.remove_transactions(which)
    }

    fn transaction_count(&self, project: &ProjectId) -> Result<usize, StoreError> {
        self.database().transaction_count(project)
    }

    fn open_count(
        &self,
        of: TransactionOwner<'_>,
        now: Timestamp,
    ) -> Result<HeldShare, StoreError> {
        self.database().open_count(of, now)
    }

    fn operation_bytes(&self, of: TransactionOwner<'_>) -> Result<HeldShare, StoreError> {
        self.database().operation_bytes(of)
    }
}
