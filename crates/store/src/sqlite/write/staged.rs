//! Transactions of clients on disk: opened, filled, ended; and what the operations of one ask of
//! the rows they change.

use model::{Mark, ProjectId, Table, Timestamp};
use rusqlite::params;
use rusqlite::types::Value as Stored;

use super::run::SqliteRun;
use crate::laws::halt::Step;
use crate::refusal::Refusal;
use crate::sqlite::disk::keys;
use crate::sqlite::schema::stored_reads;
use crate::staged::{
    ANSWER_BYTES_MAX, Bound, Done, KEPT_US, OPERATION_BYTES_MAX, OPERATIONS_MAX, Once,
    PROJECT_BYTES_MAX, REQUESTS_KEPT_US, Repeated, Share, StagedOperation, TRANSACTIONS_MAX,
    Transaction, TransactionOp, TransactionRefusal, TransactionStatus, class_of, request_text,
};
use crate::stored::transactions;
use crate::vault::Place;

/// Most transactions that are removed for a new one: more than one, so that they cannot pile up,
/// and few enough that no writer waits for it.
const REMOVED_MAX: i64 = 100;

/// Keeps a request, also in the place of one whose time is over.
pub(crate) const KEEP_REQUEST: &str = "
INSERT INTO request_key (project, key, part, request, mark, at, answer, bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (project, key, part) DO UPDATE SET request = excluded.request, mark = excluded.mark,
  at = excluded.at, answer = excluded.answer, bytes = excluded.bytes";

/// Whether a transaction's owner is of the class `?4`.
const OF_CLASS: &str = "owner = ?4 OR substr(owner, 1, length(?4) + 1) = ?4 || ' '";

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

impl SqliteRun<'_, '_> {
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
                self.need_open(project, owner, *now, *share)?;
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
                self.statement("DELETE FROM staged WHERE seq = ?1")?
                    .execute([known.seq])?;
                known
            }
        };
        self.staged.changed.push(changed);
        Ok(())
    }

    /// # Errors
    /// [`Refusal::Repeated`] when the request has run before.
    pub(crate) fn need_first_time(&mut self, once: &Once) -> Step<()> {
        let kept_from = once.now.0.saturating_sub(REQUESTS_KEPT_US);
        self.statement(
            "DELETE FROM request_key WHERE (project, key, part) IN \
             (SELECT project, key, part FROM request_key WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute(params![kept_from, REMOVED_MAX])?;
        if let Some(repeated) = self.repeated(once, kept_from)? {
            return Err(Refusal::Repeated(repeated).into());
        }
        self.staged.once = Some(once.clone());
        Ok(())
    }

    /// The request that ran under this key since `kept_from`.
    fn repeated(&self, once: &Once, kept_from: i64) -> Step<Option<Repeated>> {
        let (project, key, part) = (once.project.as_str(), &*once.key, once.part);
        let mut known = self.statement(
            "SELECT request, mark FROM request_key \
             WHERE project = ?1 AND key = ?2 AND part = ?3 AND at >= ?4",
        )?;
        let mut rows = known.query(params![project, key, part, kept_from])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let place = Place::Request(project, key, part);
        let vault = &self.rows.coding.vault;
        let request = keys::open_text(vault, row.get_ref(0)?, place)?;
        Ok(Some(Repeated {
            mark: row.get::<_, Option<i64>>(1)?.map(Mark),
            is_same: request == Some(request_text(once.request)),
        }))
    }

    /// Keeps the key of the request, if it has one, and the answer.
    pub(crate) fn keep_request(&self, has_mark: bool, done: &Done<'_>) -> Step<()> {
        let Some(once) = &self.staged.once else {
            return Ok(());
        };
        let answer = once.answer.as_ref().map(|answer| (answer.0)(done));
        if answer
            .as_ref()
            .is_some_and(|answer| answer.len() > ANSWER_BYTES_MAX)
        {
            let bytes_max = ANSWER_BYTES_MAX;
            return Err(Refusal::AnswerTooLarge { bytes_max }.into());
        }
        let (project, key, part) = (once.project.as_str(), &*once.key, once.part);
        let mut request = Stored::Text(request_text(once.request));
        let mut answer = answer.map_or(Stored::Null, Stored::Blob);
        let vault = &self.rows.coding.vault;
        if self.state.is_sealing {
            let text = request_text(once.request);
            let place = Place::Request(project, key, part);
            request = Stored::Blob(vault.seal(place, text.as_bytes())?);
            if let Stored::Blob(plain) = answer {
                answer = Stored::Blob(vault.seal(Place::Answer(project, key, part), &plain)?);
            }
        }
        let bytes = match &answer {
            Stored::Blob(answer) => answer.len() as i64,
            _ => 0,
        };
        self.statement(KEEP_REQUEST)?.execute(params![
            project,
            key,
            part,
            request,
            has_mark.then_some(self.mark.0),
            once.now.0,
            answer,
            bytes
        ])?;
        if bytes > 0 {
            self.bound_answers(once)?;
        }
        Ok(())
    }

    /// Removes the transactions of a project that goes, and the keys of its requests.
    pub(crate) fn delete_transactions(&self, project: &ProjectId) -> Step<()> {
        self.statement("DELETE FROM request_key WHERE project = ?1")?
            .execute([project.as_str()])?;
        self.statement("DELETE FROM staged WHERE project = ?1")?
            .execute([project.as_str()])?;
        Ok(())
    }

    fn find_transaction(&self, project: &ProjectId, id: &str) -> Step<Option<Transaction>> {
        let read = transactions::of_id(project, id);
        Ok(stored_reads::first(self.rows.connection, &read)?)
    }

    fn known_transaction(&self, (project, id): (&ProjectId, &str)) -> Step<Transaction> {
        let known = self.find_transaction(project, id)?;
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
            let kind = crate::Container::Project;
            return Err(Refusal::NotFound(kind, project.to_string()).into());
        }
        if self.find_transaction(project, id)?.is_some() {
            return Err(refuse(TransactionRefusal::Exists(id.to_owned())).into());
        }
        self.make_room(project, now)?;
        let keep = expires.0.saturating_add(KEPT_US);
        let pending = TransactionStatus::Pending.as_str();
        let instant = now.cut_to_ms();
        self.statement(
            "INSERT INTO staged (project, id, owner, status, created, updated, expires, keep, \
             count, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, 0, 0)",
        )?
        .execute(params![
            project.as_str(),
            id,
            owner,
            pending,
            instant.0,
            expires.cut_to_ms().0,
            keep
        ])?;
        self.known_transaction((project, id))
    }

    /// Refuses what would leave no room for other owners.
    fn need_open(
        &self,
        project: &ProjectId,
        owner: &str,
        now: Timestamp,
        share: Share,
    ) -> Step<()> {
        if share.own.open >= TRANSACTIONS_MAX && share.class == Bound::WHOLE {
            return Ok(());
        }
        let sql = format!(
            "SELECT coalesce(sum(owner = ?3), 0), coalesce(sum({OF_CLASS}), 0) FROM staged \
             WHERE project = ?1 AND status = ?2 AND expires > ?5"
        );
        let pending = TransactionStatus::Pending.as_str();
        let class = class_of(owner);
        let parameters = params![project.as_str(), pending, owner, class, now.0];
        let (own, all): (i64, i64) = self
            .statement(&sql)?
            .query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (who, open, open_max) in [
            (one_of(class), own, share.own.open),
            (all_of(class), all, share.class.open),
        ] {
            if open as usize >= open_max {
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
        self.statement(
            "DELETE FROM staged WHERE seq IN (SELECT seq FROM staged WHERE keep < ?1 \
             ORDER BY keep LIMIT ?2)",
        )?
        .execute(params![now.0, REMOVED_MAX])?;
        let count: i64 = self
            .statement("SELECT count(*) FROM staged WHERE project = ?1")?
            .query_row([project.as_str()], |row| row.get(0))?;
        if count < TRANSACTIONS_MAX as i64 || self.remove_ended(project, now)? > 0 {
            return Ok(());
        }
        let why =
            format!("A project can have {TRANSACTIONS_MAX} open transactions; {count} are open.");
        Err(refuse(TransactionRefusal::NoRoom(why)).into())
    }

    /// Removes the oldest transactions that have ended or expired; how many.
    fn remove_ended(&self, project: &ProjectId, now: Timestamp) -> Step<usize> {
        let removed = self
            .statement(
                "DELETE FROM staged WHERE seq IN (SELECT seq FROM staged WHERE project = ?1 \
                 AND (status <> ?2 OR expires <= ?3) ORDER BY seq LIMIT ?4)",
            )?
            .execute(params![
                project.as_str(),
                TransactionStatus::Pending.as_str(),
                now.0,
                REMOVED_MAX
            ])?;
        Ok(removed)
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
        self.need_bytes(named.0, &known.owner, added, (now, share))?;
        let mut insert = self.statement(
            "INSERT INTO staged_op (tx, n, seen, place, id, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let vault = &self.rows.coding.vault;
        for (n, op) in (known.operation_count as i64..).zip(operations) {
            let (transaction, seen, place, row) = (known.seq, op.seen.0, &op.place, &op.row);
            if self.state.is_sealing {
                let body = vault.seal(Place::Operation(transaction, n), op.body.as_bytes())?;
                insert.execute(params![transaction, n, seen, place, row, body])?;
            } else {
                insert.execute(params![transaction, n, seen, place, row, &*op.body])?;
            }
        }
        drop(insert);
        self.statement("UPDATE staged SET count = ?2, bytes = ?3, updated = ?4 WHERE seq = ?1")?
            .execute(params![
                known.seq,
                count as i64,
                bytes as i64,
                now.cut_to_ms().0
            ])?;
        self.known_transaction(named)
    }

    /// Refuses what would let the open transactions of one project take too much of the disk.
    fn need_bytes(
        &self,
        project: &ProjectId,
        owner: &str,
        added: usize,
        (now, share): (Timestamp, Share),
    ) -> Step<()> {
        let sql = format!(
            "SELECT coalesce(sum(bytes), 0), coalesce(sum(bytes) FILTER (WHERE owner = ?3), 0), \
             coalesce(sum(bytes) FILTER (WHERE {OF_CLASS}), 0) \
             FROM staged WHERE project = ?1 AND status = ?2"
        );
        let pending = TransactionStatus::Pending.as_str();
        let class = class_of(owner);
        // Who holds too much: so much, of so much.
        let full = || -> Step<Option<(&str, usize, usize)>> {
            let (held, own, all): (i64, i64, i64) = self
                .statement(&sql)?
                .query_row(params![project.as_str(), pending, owner, class], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            let bounds = [
                (one_of(class), own as usize, share.own.bytes),
                (all_of(class), all as usize, share.class.bytes),
                ("A project", held as usize, PROJECT_BYTES_MAX),
            ];
            Ok(bounds
                .into_iter()
                .find(|(_, held, max)| held + added > *max))
        };
        if full()?.is_none() {
            return Ok(());
        }
        if self.remove_ended(project, now)? > 0 && full()?.is_none() {
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
        self.rows().forget_operations(known.seq, status, now)?;
        self.known_transaction(named)
    }
}

impl SqliteRun<'_, '_> {
    /// Fails every open transaction with operations on the table's database that were staged while
    /// there was no key, and forgets their operations: content is judged by the commit, so they may
    /// hold values of a column that is only now created as an encrypted one.
    pub(crate) fn fail_plain_transactions(&mut self, table: &Table) -> Step<()> {
        let sql = "SELECT DISTINCT s.seq FROM staged AS s JOIN staged_op AS o ON o.tx = s.seq \
                   WHERE s.project = ?1 AND s.status = ?2 AND typeof(o.body) = 'text' \
                   AND substr(o.place, 1, length(?3)) = ?3";
        let database = format!("{}/", table.database);
        let pending = TransactionStatus::Pending.as_str();
        let mut statement = self.statement(sql)?;
        let parameters = params![table.project.as_str(), pending, database];
        let found = statement.query_map(parameters, |row| row.get::<_, i64>(0))?;
        let found = found.collect::<Result<Vec<_>, _>>()?;
        drop(statement);
        for seq in &found {
            self.rows().forget_operations(
                *seq,
                TransactionStatus::Failed,
                self.mark.timestamp(),
            )?;
        }
        // So the log is cut, in which they stand, too.
        self.state.erased += found.len() as u64;
        Ok(())
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
