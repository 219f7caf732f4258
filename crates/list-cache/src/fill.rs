//! Who may fill an entry, and who may wait for that instead of reading as well.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use cache::Flight;
use model::TableNumber;

use crate::key::Key;
use crate::ttl::Rows;

/// What a look for rows found.
pub enum Lookup {
    /// Rows young enough for the reader.
    Hit(Rows),
    /// Somebody is reading them; wait for that.
    Join(Joined),
    /// The caller reads, and fills.
    Lead(Ticket),
}

/// The right to fill one key. Dropped without a fill, it sends those who joined to read for
/// themselves.
pub struct Ticket {
    key: Key,
    run: Arc<Run>,
    runs: Arc<Mutex<Runs>>,
}

/// A wait for somebody else's read. Gives `None` when that read came to nothing.
pub struct Joined(Arc<Run>);

struct Run {
    flight: Flight<Rows>,
}

/// The reads that are open now, and the tables a commit is about to change.
#[derive(Default)]
pub(crate) struct Runs {
    open: HashMap<Key, Arc<Run>>,
    /// Tables between withhold and publish, with the number of commits that hold them.
    withheld: HashMap<TableNumber, usize>,
}

impl Runs {
    pub(crate) fn join_or_lead(runs: &Arc<Mutex<Runs>>, key: &Key) -> Lookup {
        let mut locked = lock(runs);
        if let Some(run) = locked.open.get(key) {
            return Lookup::Join(Joined(run.clone()));
        }
        let run = Arc::new(Run {
            flight: Flight::default(),
        });
        if !locked.withheld.contains_key(&key.table) {
            locked.open.insert(key.clone(), run.clone());
        }
        Lookup::Lead(Ticket {
            key: key.clone(),
            run,
            runs: runs.clone(),
        })
    }

    pub(crate) fn withhold(&mut self, tables: &[TableNumber]) {
        for table in tables {
            *self.withheld.entry(*table).or_default() += 1;
        }
        self.open.retain(|key, _| !tables.contains(&key.table));
    }

    pub(crate) fn publish(&mut self, tables: &[TableNumber]) {
        for table in tables {
            let holders = self
                .withheld
                .get_mut(table)
                .expect("published once per withhold");
            *holders -= 1;
            if *holders == 0 {
                self.withheld.remove(table);
            }
        }
    }

    fn close(&mut self, ticket: &Ticket) {
        // Another run may have taken the key since this one was withheld.
        if self
            .open
            .get(&ticket.key)
            .is_some_and(|run| Arc::ptr_eq(run, &ticket.run))
        {
            self.open.remove(&ticket.key);
        }
    }
}

impl Ticket {
    /// What may be filled.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Closes the run, then hands out its rows: whoever comes in between starts anew.
    pub(crate) fn land(self, rows: Rows) {
        lock(&self.runs).close(&self);
        self.run.flight.land(rows);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.runs).close(self);
        self.run.flight.crash();
    }
}

impl Future for Joined {
    type Output = Option<Rows>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.flight.poll(context.waker())
    }
}

fn lock(runs: &Mutex<Runs>) -> MutexGuard<'_, Runs> {
    // A panic elsewhere leaves the maps whole: each step on them is one call.
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}
