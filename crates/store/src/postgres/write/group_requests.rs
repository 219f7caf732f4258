//! The requests of a group: read with its lock, and written with its commit. The writer counts the
//! bytes of answers itself (`postgres/format.rs`).

use std::collections::{BTreeSet, HashMap};

use model::{Mark, Timestamp};
use tokio_postgres::Row;

use super::array_lists::ArrayLists;
use super::session::SqlCall;
use crate::StoreError;
use crate::batch::{Op, WriteBatch};
use crate::error::corrupt;
use crate::laws::requests::{FORGOTTEN_MAX, RanRequest, RequestToKeep, owner_of};
use crate::postgres::cells::SqlParameter;
use crate::staged::{Once, request_text};
use crate::vault::{Place, StoredText, Vault};

/// Most answers that give way to a new one: others wait for the commit.
const EVICTED_MAX: i64 = 500;

/// Forgets requests, and counts their answers no more.
const FORGET: &str = "
WITH gone AS (
  DELETE FROM request_key AS k USING (
    SELECT project, key, part FROM request_key WHERE at < $1 ORDER BY at LIMIT $2) AS o
  WHERE k.project = o.project AND k.key = o.key AND k.part = o.part
  RETURNING k.project, substr(k.key, 1, strpos(k.key, ' ')) AS owner, k.bytes),
less AS (
  SELECT project, owner, sum(bytes)::bigint AS bytes FROM gone WHERE bytes > 0 GROUP BY 1, 2),
none AS (
  DELETE FROM kept_bytes AS b USING less AS l
  WHERE b.project = l.project AND b.owner = l.owner AND b.bytes = l.bytes)
UPDATE kept_bytes AS b SET bytes = b.bytes - l.bytes FROM less AS l
WHERE b.project = l.project AND b.owner = l.owner AND b.bytes <> l.bytes";

/// Answers give way in the order of their requests until those of an owner are within the bound
/// `$4`; those under the key of the new one only if that is not enough.
const EVICT: &str = "
WITH over AS (
  SELECT coalesce(sum(bytes), 0)::bigint - $4 AS bytes FROM kept_bytes
  WHERE project = $1 AND owner = $2),
oldest AS (
  SELECT key, part, at, bytes FROM request_key
  WHERE project = $1 AND substr(key, 1, strpos(key, ' ')) = $2 AND bytes > 0 AND key <> $3
    AND (SELECT bytes FROM over) > 0
  ORDER BY at, bytes, key, part LIMIT $6),
older AS (
  SELECT key, part, bytes, sum(bytes) OVER (ORDER BY at, bytes, key, part) - bytes AS before
  FROM oldest),
others AS (SELECT o.key, o.part, o.bytes FROM older AS o, over WHERE o.before < over.bytes),
own AS (
  SELECT k.key, k.part, k.bytes FROM request_key AS k, over
  WHERE k.project = $1 AND k.key = $3 AND k.part = $5 AND k.bytes > 0
    AND over.bytes > (SELECT coalesce(sum(bytes), 0) FROM others)),
gone AS (SELECT * FROM others UNION ALL SELECT * FROM own),
cut AS (
  UPDATE request_key AS k SET answer = NULL, bytes = 0 FROM gone AS g
  WHERE k.project = $1 AND k.key = g.key AND k.part = g.part)
UPDATE kept_bytes SET bytes = bytes - (SELECT coalesce(sum(bytes), 0)::bigint FROM gone)
WHERE project = $1 AND owner = $2 AND EXISTS (SELECT 1 FROM gone)";

/// A batch of a request: project, key and part.
type BatchName = (String, String, u32);

/// What a group knows of requests, and what of it is unsent.
#[derive(Default)]
pub(crate) struct GroupRequests {
    /// Of each batch that the group may ask for.
    ran: HashMap<BatchName, Option<FoundRequest>>,
    /// The bytes that are kept for owners, or more.
    kept_bytes: HashMap<(String, String), i64>,
    unsent: Vec<UnsentRequest>,
    /// How many of them are of earlier batches.
    earlier: usize,
}

/// A request that has run, as it is stored.
#[derive(Clone)]
struct FoundRequest {
    request: Option<StoredText>,
    mark: Option<Mark>,
    at: Timestamp,
}

/// One act, in the order in which they are to be done.
enum UnsentRequest {
    Forget(Timestamp),
    Keep(Box<KeptBatch>),
    Evict { name: BatchName, bytes_max: u64 },
}

struct KeptBatch {
    name: BatchName,
    /// As the column of texts holds it.
    request: String,
    mark: Option<Mark>,
    at: Timestamp,
    answer: Option<Vec<u8>>,
}

impl KeptBatch {
    fn bytes(&self) -> i64 {
        self.answer.as_ref().map_or(0, Vec::len) as i64
    }
}

fn name_of(once: &Once) -> BatchName {
    (once.project.to_string(), once.key.clone(), once.part)
}

impl GroupRequests {
    /// The statements that read what the batches may ask for, if they ask for anything.
    pub(super) fn reads(batches: &[WriteBatch]) -> Vec<SqlCall> {
        let ops = batches.iter().flat_map(|batch| &batch.ops);
        let once = ops.filter_map(|op| match op {
            Op::Once(once) => Some(once),
            _ => None,
        });
        let all: Vec<&Once> = once.collect();
        if all.is_empty() {
            return Vec::new();
        }
        let names: BTreeSet<BatchName> = all.iter().map(|once| name_of(once)).collect();
        let mut lists = ArrayLists::default();
        lists.texts("project", names.iter().map(|name| name.0.clone()));
        lists.texts("key", names.iter().map(|name| name.1.clone()));
        lists.numbers("part", names.iter().map(|name| i64::from(name.2)));
        let ran = format!(
            "SELECT u.project, u.key, u.part, k.request, k.mark, k.at FROM {} \
             LEFT JOIN request_key k \
             ON k.project = u.project AND k.key = u.key AND k.part = u.part",
            lists.rows()
        );
        let ran = SqlCall::new(ran, lists.into_parameters());
        let owner = |name: &BatchName| (name.0.clone(), owner_of(&name.1).to_owned());
        let owners: BTreeSet<(String, String)> = names.iter().map(owner).collect();
        let mut lists = ArrayLists::default();
        lists.texts("project", owners.iter().map(|owner| owner.0.clone()));
        lists.texts("owner", owners.iter().map(|owner| owner.1.clone()));
        let kept = format!(
            "SELECT b.project, b.owner, b.bytes FROM {} \
             JOIN kept_bytes b ON b.project = u.project AND b.owner = u.owner",
            lists.rows()
        );
        vec![ran, SqlCall::new(kept, lists.into_parameters())]
    }

    /// What [`GroupRequests::reads`] found.
    pub(super) fn take_in(&mut self, found: &[Vec<Row>]) -> Result<(), StoreError> {
        let [ran, kept] = found else {
            return Ok(());
        };
        for row in ran {
            let part: i64 = row.try_get(2)?;
            let part = u32::try_from(part).map_err(|error| corrupt(error.to_string()))?;
            let at: Option<i64> = row.try_get(5)?;
            let request = row.try_get::<_, Option<&str>>(3)?;
            let request = request.map(StoredText::of_column_text);
            let mark = row.try_get::<_, Option<i64>>(4)?.map(Mark);
            let ran = at.map(|at| FoundRequest {
                request,
                mark,
                at: Timestamp(at),
            });
            self.ran
                .insert((row.try_get(0)?, row.try_get(1)?, part), ran);
        }
        for row in kept {
            let owner = (row.try_get(0)?, row.try_get(1)?);
            self.kept_bytes.insert(owner, row.try_get(2)?);
        }
        Ok(())
    }

    /// A batch begins: it sees what those before it have kept.
    pub(super) fn begin(&mut self) {
        for act in &self.unsent[self.earlier..] {
            match act {
                UnsentRequest::Keep(kept) => {
                    let ran = FoundRequest {
                        request: Some(StoredText::of_column_text(&kept.request)),
                        mark: kept.mark,
                        at: kept.at,
                    };
                    self.ran.insert(kept.name.clone(), Some(ran));
                }
                UnsentRequest::Forget(_) | UnsentRequest::Evict { .. } => {}
            }
        }
        self.earlier = self.unsent.len();
    }

    /// The batch is refused.
    pub(super) fn drop_own(&mut self) {
        self.unsent.truncate(self.earlier);
    }

    /// The statements that write what earlier batches did.
    pub(super) fn take_earlier(&mut self) -> Vec<SqlCall> {
        let own = self.unsent.split_off(self.earlier);
        self.earlier = 0;
        calls_of(std::mem::replace(&mut self.unsent, own))
    }

    /// The statements that write all.
    pub(super) fn take_all(&mut self) -> Vec<SqlCall> {
        self.earlier = 0;
        calls_of(std::mem::take(&mut self.unsent))
    }

    /// Forgets requests that ran before the instant.
    pub(super) fn forget(&mut self, before: Timestamp) {
        self.unsent.push(UnsentRequest::Forget(before));
    }

    /// The batch that ran under the key of this one, which was read.
    pub(super) fn ran(&self, once: &Once, vault: &Vault) -> Result<Option<RanRequest>, StoreError> {
        let ran = self.ran.get(&name_of(once)).cloned();
        let ran = ran.ok_or_else(|| corrupt("the key of a request was not read with its group"))?;
        let Some(FoundRequest { request, mark, at }) = ran else {
            return Ok(None);
        };
        let (project, key, part) = (once.project.as_str(), &*once.key, once.part);
        let place = Place::Request(project, key, part);
        let request = request.map(|request| request.open(vault, place));
        Ok(Some(RanRequest {
            request: request.transpose()?,
            mark,
            at,
        }))
    }

    /// Keeps a batch, sealed if it is to be.
    pub(super) fn keep(
        &mut self,
        request: RequestToKeep<'_>,
        vault: &Vault,
    ) -> Result<(), StoreError> {
        let once = request.once;
        let (project, key, part) = (once.project.as_str(), &*once.key, once.part);
        let (mut text, mut answer) = (request_text(once.request), request.answer);
        if request.is_sealed {
            text = vault.seal_text(Place::Request(project, key, part), &text)?;
            let place = Place::Answer(project, key, part);
            answer = answer.map(|plain| vault.seal(place, &plain)).transpose()?;
        }
        let kept = KeptBatch {
            name: name_of(once),
            request: text,
            mark: request.mark,
            at: once.now,
            answer,
        };
        let owner = (kept.name.0.clone(), owner_of(&kept.name.1).to_owned());
        // What a refused batch had kept, or one replaces, counts on: it may be too much.
        let bytes = self.kept_bytes.entry(owner).or_default();
        *bytes = bytes.saturating_add(kept.bytes());
        self.unsent.push(UnsentRequest::Keep(Box::new(kept)));
        Ok(())
    }

    /// Makes room for the answers to the owner of this key, if there may be too little.
    pub(super) fn bound(&mut self, once: &Once) {
        let (name, bytes_max) = (name_of(once), once.answers_bytes_max);
        if self.may_be_over(&name, bytes_max) {
            let evict = UnsentRequest::Evict { name, bytes_max };
            self.unsent.push(evict);
        }
    }

    /// Whether the answers to the owner of this key may be over the bound.
    fn may_be_over(&self, name: &BatchName, bytes_max: u64) -> bool {
        let owner = (name.0.clone(), owner_of(&name.1).to_owned());
        let kept = self.kept_bytes.get(&owner).copied().unwrap_or_default();
        u64::try_from(kept).is_ok_and(|kept| kept > bytes_max)
    }
}

/// Acts of one kind that follow each other are one statement, but for those that make room.
fn calls_of(acts: Vec<UnsentRequest>) -> Vec<SqlCall> {
    let mut calls = Vec::new();
    let (mut forgets, mut kept): (Vec<Timestamp>, Vec<KeptBatch>) = (Vec::new(), Vec::new());
    for act in acts {
        match act {
            UnsentRequest::Forget(before) => forgets.push(before),
            UnsentRequest::Keep(batch) => kept.push(*batch),
            UnsentRequest::Evict { name, bytes_max } => {
                calls.extend(keep(std::mem::take(&mut kept)));
                calls.push(evict(name, bytes_max));
            }
        }
    }
    calls.extend(keep(kept));
    // What was kept in the group is younger.
    if let Some(before) = forgets.iter().max() {
        let count_max = FORGOTTEN_MAX * forgets.len() as i64;
        let all: Vec<SqlParameter> = vec![Box::new(before.0), Box::new(count_max)];
        calls.insert(0, SqlCall::new(FORGET, all));
    }
    calls
}

fn evict((project, key, part): BatchName, bytes_max: u64) -> SqlCall {
    let owner = owner_of(&key).to_owned();
    let all: Vec<SqlParameter> = vec![
        Box::new(project),
        Box::new(owner),
        Box::new(key),
        Box::new(i64::try_from(bytes_max).unwrap_or(i64::MAX)),
        Box::new(i64::from(part)),
        Box::new(EVICTED_MAX),
    ];
    SqlCall::new(EVICT, all)
}

/// Keeps batches, each also in the place of one whose time is over.
fn keep(batches: Vec<KeptBatch>) -> Option<SqlCall> {
    if batches.is_empty() {
        return None;
    }
    let all = || batches.iter();
    let mut lists = ArrayLists::default();
    lists.texts("project", all().map(|one| one.name.0.clone()));
    lists.texts("key", all().map(|one| one.name.1.clone()));
    lists.numbers("part", all().map(|one| i64::from(one.name.2)));
    lists.texts("request", all().map(|one| one.request.clone()));
    lists.maybe_numbers("mark", all().map(|one| one.mark.map(|mark| mark.0)));
    lists.numbers("at", all().map(|one| one.at.0));
    lists.numbers("bytes", all().map(KeptBatch::bytes));
    lists.maybe_bytes("answer", batches.into_iter().map(|one| one.answer));
    let (names, rows) = (lists.names(), lists.rows());
    let sql = format!(
        "WITH u AS (SELECT * FROM {rows}), \
         old AS (SELECT k.project, k.key, k.bytes FROM u JOIN request_key AS k \
           ON k.project = u.project AND k.key = u.key AND k.part = u.part), \
         kept AS (INSERT INTO request_key ({names}) SELECT {names} FROM u \
           ON CONFLICT (project, key, part) DO UPDATE SET request = excluded.request, \
           mark = excluded.mark, at = excluded.at, answer = excluded.answer, \
           bytes = excluded.bytes), \
         moved AS (SELECT project, substr(key, 1, strpos(key, ' ')) AS owner, \
             sum(bytes)::bigint AS bytes \
           FROM (SELECT project, key, bytes FROM u \
             UNION ALL SELECT project, key, -bytes FROM old) AS m GROUP BY 1, 2) \
         INSERT INTO kept_bytes (project, owner, bytes) \
         SELECT project, owner, bytes FROM moved WHERE bytes <> 0 \
         ON CONFLICT (project, owner) DO UPDATE SET bytes = kept_bytes.bytes + excluded.bytes"
    );
    Some(SqlCall::new(sql, lists.into_parameters()))
}
