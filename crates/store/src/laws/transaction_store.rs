//! What a database keeps of clients' transactions, for the laws of them.

use model::{ProjectId, Timestamp};

use crate::StoreError;
use crate::staged::{StagedOperation, Transaction, TransactionStatus};

/// Most transactions that are removed for a new one: more than one, so that they cannot pile up,
/// and few enough that no writer waits for it.
pub(crate) const REMOVED_MAX: i64 = 100;

/// Transactions of clients and the operations in them.
pub(crate) trait TransactionStore {
    /// The transaction of this id.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn transaction(&self, project: &ProjectId, id: &str)
    -> Result<Option<Transaction>, StoreError>;

    /// Opens one.
    fn open_transaction(&self, new: &NewTransaction<'_>) -> Result<(), StoreError>;

    /// Adds operations behind those that it holds.
    fn add_operations(
        &self,
        to: &Transaction,
        added: &AddedOperations<'_>,
    ) -> Result<(), StoreError>;

    /// Ends an open one, by its `seq`, and forgets its operations.
    fn end_transaction(
        &self,
        seq: i64,
        status: TransactionStatus,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Removes transactions with their operations; how many.
    fn remove_transactions(&self, which: GoneTransactions<'_>) -> Result<usize, StoreError>;

    /// How many a project has, whatever has become of them.
    fn transaction_count(&self, project: &ProjectId) -> Result<usize, StoreError>;

    /// How many of a project are open at the instant.
    fn open_count(&self, of: TransactionOwner<'_>, now: Timestamp)
    -> Result<HeldShare, StoreError>;

    /// Bytes of the operations in a project's open ones.
    fn operation_bytes(&self, of: TransactionOwner<'_>) -> Result<HeldShare, StoreError>;
}

/// A transaction to be opened.
pub(crate) struct NewTransaction<'a> {
    pub(crate) project: &'a ProjectId,
    pub(crate) id: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) now: Timestamp,
    pub(crate) expires: Timestamp,
    /// Until when it is kept.
    pub(crate) keep: Timestamp,
}

/// Operations to be added.
pub(crate) struct AddedOperations<'a> {
    pub(crate) operations: &'a [StagedOperation],
    /// How many the transaction holds then …
    pub(crate) count: usize,
    /// … and how many bytes.
    pub(crate) bytes: usize,
    pub(crate) now: Timestamp,
    /// Whether they are to be sealed.
    pub(crate) is_sealed: bool,
}

/// Which transactions go.
#[derive(Clone, Copy)]
pub(crate) enum GoneTransactions<'a> {
    /// The one of this `seq`.
    One(i64),
    /// Those that are kept no longer, the oldest ones and at most [`REMOVED_MAX`].
    KeptUntil(Timestamp),
    /// Those of a project that have ended, or have expired at the instant, the oldest ones and at
    /// most [`REMOVED_MAX`].
    Ended(&'a ProjectId, Timestamp),
}

/// Whose transactions are counted.
#[derive(Clone, Copy)]
pub(crate) struct TransactionOwner<'a> {
    pub(crate) project: &'a ProjectId,
    pub(crate) owner: &'a str,
}

/// How much of something a project has.
#[derive(Clone, Copy, Default)]
pub(crate) struct HeldShare {
    /// Of this owner …
    pub(crate) own: usize,
    /// … of all owners of its class …
    pub(crate) class: usize,
    /// … and of everyone.
    pub(crate) all: usize,
}
