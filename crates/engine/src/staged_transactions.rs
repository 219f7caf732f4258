//! Transactions of clients: operations are staged one by one and committed together, all or none.
//!
//! What is staged stands on disk and is nothing but text there: no row is touched and no lock is
//! held before the commit, which makes one batch of it, with one mark. What a commit would do is
//! found out by trying it (`dry_run`): for the answer to the staging request, and for reads inside
//! the transaction, which therefore see what they would see after a commit at that moment.

use std::net::IpAddr;

use model::{Actor, Scope, Timestamp};
use store::staged::{Bound, class_of};
use store::{Op, OperationsOf, Share, Staged, TransactionOp, WriteBatch};

use crate::Engine;
use crate::commit::batch::author;
use crate::error::refused::{answer, shown};
use crate::error::{EngineError, TransactionError};
use crate::request::authorize::{self, OF_GUESTS, OF_KEYS, READ_ROWS, WRITE_ROWS, owner};
use crate::request::inputs::{Caller, ListContainers, Listed};
use crate::schema::listing::{self, Listable, TRANSACTIONS, no_such_attribute};

mod commit;
mod dry_run;
mod read;
mod read_at;
mod stage;
mod text;

pub use stage::Echo;
pub use store::{Transaction, TransactionStatus};

/// Shortest time that a transaction stays open, in seconds (wire protocol, transactions).
pub const TRANSACTION_TTL_S_MIN: i64 = 60;
/// Longest time.
pub const TRANSACTION_TTL_S_MAX: i64 = 3_600;
/// The time where none is asked for.
pub const TRANSACTION_TTL_S_DEFAULT: i64 = 300;

impl Engine {
    /// As [`Engine::create_transaction_from`], of a caller that no address is known of.
    ///
    /// # Errors
    /// The same.
    pub async fn create_transaction(
        &self,
        caller: &Caller,
        id: &str,
        ttl_s: i64,
    ) -> Result<Transaction, EngineError> {
        self.create_transaction_from(caller, None, id, ttl_s).await
    }

    /// Opens a transaction for `ttl_s` seconds. Guests are counted by the address `from` which
    /// they come.
    ///
    /// # Errors
    /// [`crate::AccessError::Unauthorized`] when no table lets the caller write,
    /// [`EngineError::Argument`] for a time that is too short or too long,
    /// [`TransactionError::LimitReached`] when the caller or the project has too many.
    pub async fn create_transaction_from(
        &self,
        caller: &Caller,
        from: Option<IpAddr>,
        id: &str,
        ttl_s: i64,
    ) -> Result<Transaction, EngineError> {
        authorize::need_scope(caller, WRITE_ROWS)?;
        authorize::need_some_write(&self.catalogue(), caller)?;
        if !(TRANSACTION_TTL_S_MIN..=TRANSACTION_TTL_S_MAX).contains(&ttl_s) {
            return Err(EngineError::Argument {
                name: "ttl",
                why: format!(
                    "Value must be an integer from {TRANSACTION_TTL_S_MIN} to \
                     {TRANSACTION_TTL_S_MAX}."
                ),
            });
        }
        let now = self.shared.clock.now();
        let op = TransactionOp::Create {
            project: caller.project.clone(),
            id: id.to_owned(),
            owner: holder(&caller.actor, from),
            now,
            expires: Timestamp(now.0 + ttl_s * 1_000_000),
            share: self.share(&caller.actor),
        };
        self.change_transaction(caller, op).await
    }

    /// The transaction `id`.
    ///
    /// # Errors
    /// [`TransactionError::NotFound`], also for another caller's.
    pub async fn get_transaction(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Transaction, EngineError> {
        let found = self.find(caller, READ_ROWS, id, OperationsOf::Nothing);
        Ok(self.as_of_now(found.await?.0))
    }

    /// The transactions that the caller may see: a key all of the project, a user its own, a guest
    /// none, because guests are not distinguished.
    ///
    /// # Errors
    /// [`crate::ReadError::Query`] for a query that is not understood here.
    pub async fn list_transactions(
        &self,
        caller: &Caller,
        request: ListContainers<'_>,
    ) -> Result<Listed<Transaction>, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        authorize::project(&self.catalogue(), caller)?;
        let mut all = if matches!(caller.actor, Actor::Guest) {
            Vec::new()
        } else {
            self.shared.store.transactions(&caller.project).await?
        };
        all.retain(|transaction| may_see(&caller.actor, &transaction.owner));
        let all = all.into_iter().map(|one| self.as_of_now(one)).collect();
        listing::page(all, &TRANSACTIONS, request, self.limits)
    }

    /// Ends a transaction without any effect.
    ///
    /// # Errors
    /// [`TransactionError::NotFound`], [`TransactionError::Ended`],
    /// [`TransactionError::Expired`].
    pub async fn roll_back_transaction(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Transaction, EngineError> {
        let (known, _) = self
            .find_open(caller, WRITE_ROWS, id, OperationsOf::Nothing)
            .await?;
        self.change_transaction(caller, self.end(&known, TransactionStatus::Failed, None))
            .await
    }

    /// Removes a transaction, whatever has become of it; what it committed stays.
    ///
    /// # Errors
    /// [`TransactionError::NotFound`].
    pub async fn delete_transaction(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        let (known, _) = self
            .find(caller, WRITE_ROWS, id, OperationsOf::Nothing)
            .await?;
        let op = TransactionOp::Delete {
            project: known.project,
            id: known.id,
        };
        self.change_transaction(caller, op).await.map(drop)
    }

    /// A transaction that the caller may see.
    async fn find(
        &self,
        caller: &Caller,
        scopes: &'static [Scope],
        id: &str,
        operations: OperationsOf<'_>,
    ) -> Result<Staged, EngineError> {
        authorize::need_scope(caller, scopes)?;
        authorize::project(&self.catalogue(), caller)?;
        let store = &self.shared.store;
        let found = store.transaction(&caller.project, id, operations).await?;
        found
            .filter(|(known, _)| may_see(&caller.actor, &known.owner))
            .ok_or_else(|| EngineError::Transaction(TransactionError::NotFound(shown(id))))
    }

    /// A transaction that the caller may see and that has not ended.
    async fn find_open(
        &self,
        caller: &Caller,
        scopes: &'static [Scope],
        id: &str,
        operations: OperationsOf<'_>,
    ) -> Result<Staged, EngineError> {
        let found = self.find(caller, scopes, id, operations).await?;
        if found.0.status != TransactionStatus::Pending {
            return Err(TransactionError::Ended(shown(id)).into());
        }
        if found.0.expires <= self.shared.clock.now() {
            return Err(TransactionError::Expired(shown(id)).into());
        }
        Ok(found)
    }

    /// One that was not ended in time can never be committed.
    fn as_of_now(&self, mut transaction: Transaction) -> Transaction {
        let is_open = transaction.status == TransactionStatus::Pending;
        if is_open && transaction.expires <= self.shared.clock.now() {
            transaction.status = TransactionStatus::Failed;
        }
        transaction
    }

    fn end(
        &self,
        known: &Transaction,
        status: TransactionStatus,
        operation_count: Option<usize>,
    ) -> TransactionOp {
        TransactionOp::End {
            project: known.project.clone(),
            id: known.id.clone(),
            now: self.shared.clock.now(),
            status,
            operation_count,
        }
    }

    async fn change_transaction(
        &self,
        caller: &Caller,
        op: TransactionOp,
    ) -> Result<Transaction, EngineError> {
        let batch = WriteBatch {
            catalogue_epoch: self.catalogue().epoch,
            ops: vec![Op::Transaction(op)],
            author: author(caller),
            unchanged_since: None,
            meta: None,
            noted_in: None,
            space: store::SpaceLimit::Any,
        };
        let applied = answer(self.writer.commit(batch).await?);
        let applied = applied.inspect_err(|refused| self.held.note(refused))?;
        let mut changed = applied.transactions.into_iter();
        Ok(changed.next().expect("one operation changes one"))
    }
}

/// Whose a transaction is that this actor creates, by its class and, where one class holds many, by
/// who of it: each has a share of its own.
fn holder(actor: &Actor, from: Option<IpAddr>) -> String {
    match (actor, from) {
        (Actor::Key { id, .. }, _) => format!("{OF_KEYS} {id}"),
        (Actor::Function { id, .. }, _) => format!("{OF_KEYS} function:{id}"),
        (Actor::Guest, Some(address)) => format!("{OF_GUESTS} {address}"),
        (Actor::Guest, None) | (Actor::User { .. }, _) => owner(actor),
    }
}

impl Engine {
    /// What the transactions of this caller may take.
    fn share(&self, actor: &Actor) -> Share {
        let quotas = &self.quotas;
        let (own, class) = match actor {
            Actor::Key { .. } | Actor::Function { .. } => (quotas.key_transactions, Bound::WHOLE),
            Actor::Guest => (quotas.guest_transactions, Bound::PART),
            Actor::User { .. } => (Bound::PART, Bound::PART),
        };
        Share { own, class }
    }
}

fn may_see(actor: &Actor, owner_of_it: &str) -> bool {
    match actor {
        Actor::Key { .. } | Actor::Function { .. } => true,
        Actor::Guest => class_of(owner_of_it) == OF_GUESTS,
        Actor::User { .. } => owner(actor) == owner_of_it,
    }
}

impl Listable for Transaction {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.id
    }

    fn sequence(&self) -> i64 {
        self.seq
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.created, self.updated)
    }

    fn attribute(&self, position: usize) -> model::Value {
        match position {
            0 => model::Value::Text(status_text(self.status).to_owned()),
            1 => model::Value::Int(self.operation_count as i64),
            2 => model::Value::Instant(self.expires),
            other => no_such_attribute(other),
        }
    }
}

/// What a status is called (wire protocol, transactions).
pub fn status_text(status: TransactionStatus) -> &'static str {
    match status {
        TransactionStatus::Pending => "pending",
        TransactionStatus::Committed => "committed",
        TransactionStatus::Failed => "failed",
    }
}
