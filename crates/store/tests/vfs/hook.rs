//! Functions the VFS calls around each call, and holds: a call that waits for the test.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::{NamedFile, Op, Role};

/// How long a test waits for a held call before it fails. Only a wrong test gets there; without
/// the limit it would hang, and say nothing.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where in a call a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has happened yet; faults armed now can still strike this call.
    Before,
    /// The call is done and recorded, with this code of SQLite; SQLite does not know yet.
    After(i32),
}

/// One call as a hook sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is called.
    pub op: Op,
    /// On which file.
    pub file: &'a Arc<NamedFile>,
    /// First byte of a read or write; the new size of a truncate; otherwise 0.
    pub offset: u64,
    /// Bytes of a read or write; otherwise 0.
    pub length_bytes: usize,
    /// Before or after the work.
    pub phase: Phase,
}

impl<'a> Call<'a> {
    /// A call about to happen, without bytes.
    pub(super) fn new(op: Op, file: &'a Arc<NamedFile>) -> Call<'a> {
        Call {
            op,
            file,
            offset: 0,
            length_bytes: 0,
            phase: Phase::Before,
        }
    }
}

/// A function called around every call.
pub(super) type Hook = Arc<dyn Fn(&Call<'_>) + Send + Sync>;

/// All hooks of one VFS.
#[derive(Default)]
pub(super) struct Hooks {
    hooks: Mutex<Vec<Hook>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Hooks {
    pub(super) fn add(&self, hook: Hook) {
        self.lock().push(hook);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Runs the hooks, in the order they were added, with no lock held: a hook may block, and
    /// meanwhile other threads' calls must go on.
    ///
    /// A panic is kept for [`Hooks::take_panic`], because it cannot pass through C code.
    pub(super) fn run(&self, call: &Call<'_>) {
        let hooks = self.lock().clone();
        for hook in hooks {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| hook(call))) {
                self.kept_panic().get_or_insert(panic);
            }
        }
    }

    /// The first panic of a hook since the last call of this.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.kept_panic().take()
    }

    fn kept_panic(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.panic
            .lock()
            .expect("no code panics while it holds the kept panic")
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Hook>> {
        self.hooks
            .lock()
            .expect("no code panics while it holds the hooks")
    }
}

/// A call that stops before it happens, until the test releases it. Dropping releases too.
pub struct Hold {
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    reached: bool,
    released: bool,
}

impl Hold {
    /// The hold, and the hook that does the holding.
    pub(super) fn new(op: Op, role: Role, skip: u64) -> (Hold, Hook) {
        let gate = Arc::new(Gate::default());
        let held = Arc::clone(&gate);
        let seen = AtomicU64::new(0);
        let hook = move |call: &Call<'_>| {
            let counts = call.op == op && call.file.role == role && call.phase == Phase::Before;
            if counts && seen.fetch_add(1, Ordering::SeqCst) == skip {
                held.stop();
            }
        };
        (Hold { gate }, Arc::new(hook))
    }

    /// Waits until the call stands at the gate.
    ///
    /// # Panics
    /// When it does not come within a minute.
    pub fn wait_until_reached(&self) {
        let state = self.gate.lock();
        let waited = self
            .gate
            .changed
            .wait_timeout_while(state, PATIENCE, |s| !s.reached);
        let (_state, timeout) = waited.expect("no code panics while it holds a gate");
        assert!(
            !timeout.timed_out(),
            "no such call came within {PATIENCE:?}"
        );
    }

    /// True once the call stands, or stood, at the gate.
    pub fn is_reached(&self) -> bool {
        self.gate.lock().reached
    }

    /// Lets the call happen; one that has not come yet will pass.
    pub fn release(&self) {
        self.gate.lock().released = true;
        self.gate.changed.notify_all();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

impl Gate {
    fn stop(&self) {
        let mut state = self.lock();
        state.reached = true;
        self.changed.notify_all();
        let released = self.changed.wait_while(state, |s| !s.released);
        drop(released.expect("no code panics while it holds a gate"));
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state
            .lock()
            .expect("no code panics while it holds a gate")
    }
}
