//! Writes that are staged in a transaction, looked at inside, and committed, rolled back, or left
//! open until it expires or a caller commits it late.

use std::sync::{Arc, Mutex};

use engine::{Act, Engine, EngineError, ListAnswer, ListRows, Operation, View};
use model::{Json, RowId, Timestamp};

use super::chance::Chance;
use super::domain::{self, IDS};
use super::fixture;
use super::question::{Question, filter};
use super::write::{Scene, Target, Write, input, members, write};

/// The shortest time that a transaction may stay open.
const TTL_S: i64 = 60;

/// What transactions share with the run, which asks them while they are polled.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    stands: usize,
    left: Vec<Left>,
}

/// A transaction that was left open.
struct Left {
    id: String,
    expires: Timestamp,
}

impl Ledger {
    /// The state of this number stands.
    pub fn stands(&self, number: usize) {
        self.0.lock().unwrap().stands = number;
    }

    fn now_stands(&self) -> usize {
        self.0.lock().unwrap().stands
    }

    fn leave(&self, id: String, expires: Timestamp) {
        self.0.lock().unwrap().left.push(Left { id, expires });
    }

    fn take_left(&self, chance: &mut Chance) -> Option<Left> {
        let mut shared = self.0.lock().unwrap();
        let count = shared.left.len();
        (count > 0).then(|| shared.left.swap_remove(chance.below(count)))
    }
}

/// What must be true once a write of a transaction has ended.
pub enum Claim {
    /// What was seen inside is what its commit alone leaves.
    Inside(Arc<Mutex<Option<Inside>>>),
    /// It was committed if and only if it had not expired.
    InTime {
        begun: Timestamp,
        expires: Timestamp,
    },
}

/// A list that was read inside a transaction, and when.
pub struct Inside {
    pub question: Question,
    pub seen: ListAnswer,
    pub transaction: String,
    /// The state that stood when it was asked for, and when it was answered.
    pub stood: [usize; 2],
    /// Nothing was staged before, so nothing but what every reader sees is to be seen.
    pub is_empty: bool,
    pub is_committed: bool,
}

/// What becomes of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    RollBack,
    Abandon,
}

/// Up to four operations on one table, and what becomes of them.
pub fn transaction(scene: &mut Scene<'_>, target: Target, number: u64) -> Write {
    if scene.travels
        && scene.chance.one_in(6)
        && let Some(left) = scene.ledger.take_left(scene.chance)
    {
        return late(scene, left);
    }
    let chance = &mut *scene.chance;
    let mut count = 1 + chance.below(4);
    if scene.travels && chance.one_in(8) {
        count = 0;
    }
    let acts: Vec<Act> = (0..count).map(|_| act(chance, &target)).collect();
    let mut end = if chance.one_in(6) {
        End::RollBack
    } else {
        End::Commit
    };
    let looks = chance.one_in(2);
    if scene.travels && chance.one_in(8) {
        end = End::Abandon;
    }
    let seen = Arc::new(Mutex::new(None));
    let question = scene.travels.then(|| {
        let question = Question::draw(chance, scene.catalogue, 0);
        question.inside(target.caller.clone(), target.database, target.table)
    });
    let what = format!("{end:?} {}.{} {acts:?}", target.database, target.table);
    let claim = question.is_some() && looks && end != End::Abandon && is_timeless(&what);
    let claim = claim.then(|| Claim::Inside(seen.clone()));
    let ledger = scene.ledger.clone();
    let staged = Staged {
        target,
        id: format!("t{number}"),
        acts,
        looks,
        question,
        end,
    };
    Write {
        claim,
        ..write(what, staged.run(ledger, seen))
    }
}

/// Whether what the operations do does not depend on the instant of the commit.
fn is_timeless(what: &str) -> bool {
    !["dateSetNow", "$createdAt", "$updatedAt"]
        .iter()
        .any(|word| what.contains(word))
}

struct Staged {
    target: Target,
    id: String,
    acts: Vec<Act>,
    looks: bool,
    question: Option<Question>,
    end: End,
}

impl Staged {
    async fn run(
        self,
        ledger: Ledger,
        seen: Arc<Mutex<Option<Inside>>>,
    ) -> Result<(), EngineError> {
        let Staged {
            target, id, acts, ..
        } = self;
        let (engine, caller) = (&target.engine, &target.caller);
        let ttl_s = if self.end == End::Abandon {
            TTL_S
        } else {
            3_600
        };
        let made = engine.create_transaction(caller, &id, ttl_s).await?;
        let mut is_empty = true;
        for act in acts {
            let operation = Operation {
                database: target.database.to_owned(),
                table: target.table.to_owned(),
                act,
                unchanged_since: None,
            };
            // One whose row is not there is refused, and the others go on.
            is_empty &= engine.stage(caller, &id, vec![operation]).await.is_err();
        }
        if self.looks {
            let texts = self.question.as_ref().map(|question| &question.texts[..]);
            let asked = ListRows {
                place: target.place(),
                texts: texts.unwrap_or_default(),
                total: true,
                ttl_s: 0,
                bypass: false,
                family: engine::Family::Tables,
            };
            let before = ledger.now_stands();
            let list = engine.list_rows(caller, &asked, View::Staged(&id)).await;
            if let (Ok(list), Some(question)) = (list, self.question) {
                *seen.lock().unwrap() = Some(Inside {
                    question,
                    seen: list,
                    transaction: id.clone(),
                    stood: [before, ledger.now_stands()],
                    is_empty,
                    is_committed: self.end == End::Commit,
                });
            }
        }
        match self.end {
            End::Commit => engine.commit_transaction(caller, &id).await.map(drop),
            End::RollBack => engine.roll_back_transaction(caller, &id).await.map(drop),
            End::Abandon => {
                ledger.leave(id, made.expires);
                Ok(())
            }
        }
    }
}

/// Commits what was left open, whether or not it is too late.
fn late(scene: &Scene<'_>, left: Left) -> Write {
    let engine: Arc<Engine> = scene.engine.clone();
    let claim = Claim::InTime {
        begun: scene.now,
        expires: left.expires,
    };
    let writing = async move {
        let key = fixture::key();
        let committed = engine.commit_transaction(&key, &left.id);
        committed.await.map(drop)
    };
    Write {
        claim: Some(claim),
        ..write(format!("Late {:?}", left.expires), writing)
    }
}

fn act(chance: &mut Chance, target: &Target) -> Act {
    let id = |chance: &mut Chance| {
        let id = chance.pick::<&str>(&IDS);
        RowId::new(id).expect("a legal id")
    };
    let row = id(chance);
    match chance.below(8) {
        0 => Act::Create(input(chance, target, row, false)),
        1 | 2 => Act::Update(input(chance, target, row, true)),
        3 => Act::Upsert(input(chance, target, row, true)),
        4 => Act::Delete(row.into()),
        5 => Act::Increment {
            id: row,
            column: (*chance.pick(&["n", "m", "f"])).to_owned(),
            is_down: chance.one_in(2),
            by: Json::Int(1),
            bound: None,
        },
        6 => {
            let mut columns = target.columns.clone();
            columns.extend(&domain::SYSTEM);
            let texts = vec![filter(chance, &columns, 1)];
            if chance.one_in(3) {
                return Act::DeleteMany {
                    texts,
                    members: Vec::new(),
                };
            }
            let members = members(chance, &target.columns, true);
            Act::UpdateMany { texts, members }
        }
        _ => {
            let mut rows = vec![input(chance, target, row, false)];
            let second = id(chance);
            if second != rows[0].id {
                rows.push(input(chance, target, second, false));
            }
            for row in &mut rows {
                row.permissions = None;
            }
            Act::UpsertMany(rows)
        }
    }
}
