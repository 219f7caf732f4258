//! Transactions of clients: opened, filled and ended within what a project has room for.

use model::{ProjectId, Timestamp};

use super::halt::Step;
use super::run::Run;
use super::transaction_store::{
    AddedOperations, GoneTransactions, NewTransaction, TransactionOwner, TransactionStore,
};
use crate::refusal::{Container, Refusal};
use crate::staged::{
    Bound, KEPT_US, OPERATION_BYTES_MAX, OPERATIONS_MAX, PROJECT_BYTES_MAX, Share, StagedOperation,
    TRANSACTIONS_MAX, Transaction, TransactionOp, TransactionRefusal, TransactionStatus, class_of,
};

/// One owner of a class, as a refusal names it.
fn one_of(class: &str) -> &'static str {
    match class {
        "key" => "An API key",
        "guest" => "An address without an API key",
        _ => "A user",
    }
}

/// All of them.
fn all_of(class: &str) -> &'static str {
    match class {
        "key" => "All API keys together",
        "guest" => "All callers without an API key together",
        _ => "A user",
    }
}

impl<D: TransactionStore> Run<'_, D> {
    /// Changes a client's transaction.
    pub(crate) fn transaction_op(&mut self, op: &TransactionOp) -> Step<()> {
        let changed = match op {
            TransactionOp::Create {
                project,
                id,
                owner,
                now,
                expires,
                share,
            } => {
                self.need_open(TransactionOwner { project, owner }, *now, *share)?;
                self.create_transaction((project, id), owner, (*now, *expires))?
            }
            TransactionOp::Stage {
                project,
                id,
                now,
                operations,
                share,
            } => self.stage((project, id), *now, operations, *share)?,
            TransactionOp::End {
                project,
                id,
                now,
                status,
                operation_count,
            } => self.end_transaction((project, id), *now, *status, *operation_count)?,
            TransactionOp::Delete { project, id } => {
                let known = self.known_transaction((project, id))?;
                let one = GoneTransactions::One(known.seq);
                self.rows().remove_transactions(one)?;
                known
            }
        };
        self.staged.changed.push(changed);
        Ok(())
    }

    fn known_transaction(&self, (project, id): (&ProjectId, &str)) -> Step<Transaction> {
        let known = self.rows().transaction(project, id)?;
        known.ok_or_else(|| refuse(TransactionRefusal::NotFound(id.to_owned())).into())
    }

    fn open_transaction(&self, named: (&ProjectId, &str)) -> Step<Transaction> {
        let known = self.known_transaction(named)?;
        if known.status != TransactionStatus::Pending {
            return Err(refuse(TransactionRefusal::Ended(known.id)).into());
        }
        Ok(known)
    }

    fn create_transaction(
        &mut self,
        (project, id): (&ProjectId, &str),
        owner: &str,
        (now, expires): (Timestamp, Timestamp),
    ) -> Step<Transaction> {
        if self.state.catalogue.project(project.as_str()).is_none() {
            return Err(Refusal::NotFound(Container::Project, project.to_string()).into());
        }
        if self.rows().transaction(project, id)?.is_some() {
            return Err(refuse(TransactionRefusal::Exists(id.to_owned())).into());
        }
        self.make_room(project, now)?;
        self.rows().open_transaction(&NewTransaction {
            project,
            id,
            owner,
            now,
            expires,
            keep: Timestamp(expires.0.saturating_add(KEPT_US)),
        })?;
        self.known_transaction((project, id))
    }

    /// Refuses what would leave no room for other owners.
    fn need_open(&self, of: TransactionOwner<'_>, now: Timestamp, share: Share) -> Step<()> {
        if share.own.open >= TRANSACTIONS_MAX && share.class == Bound::WHOLE {
            return Ok(());
        }
        let class = class_of(of.owner);
        let held = self.rows().open_count(of, now)?;
        for (who, open, open_max) in [
            (one_of(class), held.own, share.own.open),
            (all_of(class), held.class, share.class.open),
        ] {
            if open >= open_max {
                let why = format!(
                    "{who} can have {open_max} open transactions of a project; {open} are open."
                );
                return Err(refuse(TransactionRefusal::NoRoom(why)).into());
            }
        }
        Ok(())
    }

    /// Removes transactions that are no longer kept, and, where a project has too many, the
    /// oldest of those that have ended.
    fn make_room(&self, project: &ProjectId, now: Timestamp) -> Step<()> {
        let rows = self.rows();
        rows.remove_transactions(GoneTransactions::KeptUntil(now))?;
        let count = rows.transaction_count(project)?;
        let ended = GoneTransactions::Ended(project, now);
        if count < TRANSACTIONS_MAX || rows.remove_transactions(ended)? > 0 {
            return Ok(());
        }
        let why =
            format!("A project can have {TRANSACTIONS_MAX} open transactions; {count} are open.");
        Err(refuse(TransactionRefusal::NoRoom(why)).into())
    }

    fn stage(
        &mut self,
        named: (&ProjectId, &str),
        now: Timestamp,
        operations: &[StagedOperation],
        share: Share,
    ) -> Step<Transaction> {
        let known = self.open_transaction(named)?;
        need_time(&known, now)?;
        let count = known.operation_count + operations.len();
        let added: usize = operations.iter().map(|op| op.body.len()).sum();
        let bytes = known.operation_bytes + added;
        if count > OPERATIONS_MAX {
            let why = format!("A transaction can have {OPERATIONS_MAX} operations.");
            return Err(refuse(TransactionRefusal::LimitExceeded(why)).into());
        }
        if bytes > OPERATION_BYTES_MAX {
            let why = format!("A transaction can hold {OPERATION_BYTES_MAX} bytes of operations.");
            return Err(refuse(TransactionRefusal::LimitExceeded(why)).into());
        }
        let of = TransactionOwner {
            project: named.0,
            owner: &known.owner,
        };
        self.need_bytes(of, added, (now, share))?;
        let added = AddedOperations {
            operations,
            count,
            bytes,
            now,
            is_sealed: self.state.is_sealing,
        };
        self.rows().add_operations(&known, &added)?;
        self.known_transaction(named)
    }

    /// Refuses what would let the open transactions of one project take too much of the disk.
    fn need_bytes(
        &self,
        of: TransactionOwner<'_>,
        added: usize,
        (now, share): (Timestamp, Share),
    ) -> Step<()> {
        let class = class_of(of.owner);
        // Who holds too much: so much, of so much.
        let full = || -> Step<Option<(&str, usize, usize)>> {
            let held = self.rows().operation_bytes(of)?;
            let bounds = [
                (one_of(class), held.own, share.own.bytes),
                (all_of(class), held.class, share.class.bytes),
                ("A project", held.all, PROJECT_BYTES_MAX),
            ];
            Ok(bounds
                .into_iter()
                .find(|(_, held, max)| held + added > *max))
        };
        if full()?.is_none() {
            return Ok(());
        }
        let ended = GoneTransactions::Ended(of.project, now);
        if self.rows().remove_transactions(ended)? > 0 && full()?.is_none() {
            return Ok(());
        }
        let Some((who, held, bytes_max)) = full()? else {
            return Ok(());
        };
        let why = format!(
            "{who} can hold {bytes_max} bytes of operations in open transactions of a project; \
             {held} are held, and {added} would be added."
        );
        Err(refuse(TransactionRefusal::NoRoom(why)).into())
    }

    fn end_transaction(
        &mut self,
        named: (&ProjectId, &str),
        now: Timestamp,
        status: TransactionStatus,
        operation_count: Option<usize>,
    ) -> Step<Transaction> {
        let known = self.open_transaction(named)?;
        if status == TransactionStatus::Committed {
            need_time(&known, now)?;
        }
        if operation_count.is_some_and(|count| count != known.operation_count) {
            return Err(refuse(TransactionRefusal::Moved).into());
        }
        self.rows().end_transaction(known.seq, status, now)?;
        self.known_transaction(named)
    }
}

fn need_time(known: &Transaction, now: Timestamp) -> Result<(), Refusal> {
    if known.expires <= now {
        return Err(refuse(TransactionRefusal::Expired(known.id.clone())));
    }
    Ok(())
}

fn refuse(refusal: TransactionRefusal) -> Refusal {
    Refusal::Transaction(refusal)
}
