//! What one thread of PHP keeps from one request to the next: its tables, and the buffers in which
//! values are encoded. It is never freed, so that no jump can skip its end.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::ffi::c_int;
use std::ptr;

use crate::encoding::Encoding;
use crate::table::SharedTable;

/// Tables of one thread; each has a map of its own.
const TABLES: usize = 16;
/// How often encoding may come to encode again, by a class that uses the cache in `__serialize`.
const ENCODINGS: usize = 8;

thread_local! {
    static WORKER: Cell<*const PhpWorker> = const { Cell::new(ptr::null()) };
}

pub struct PhpWorker {
    tables: [OnceCell<SharedTable>; TABLES],
    encodings: [UnsafeCell<Encoding>; ENCODINGS],
    /// Encodings in use.
    level: Cell<usize>,
}

/// That of this thread.
pub fn worker() -> &'static PhpWorker {
    let known = WORKER.get();
    if !known.is_null() {
        // SAFETY: made below, and never freed.
        return unsafe { &*known };
    }
    let made: &'static PhpWorker = Box::leak(Box::new(PhpWorker {
        tables: [const { OnceCell::new() }; TABLES],
        encodings: [const { UnsafeCell::new(Encoding::new()) }; ENCODINGS],
        level: Cell::new(0),
    }));
    WORKER.set(made);
    made
}

impl PhpWorker {
    /// The number of the table of this file. `None` if there are too many.
    pub fn table_of(&self, path: &[u8], bytes: u64) -> Option<usize> {
        let place = self.tables.iter().position(|table| {
            let known = table.get();
            known.is_none_or(|table| table.path == path)
        })?;
        self.tables[place].get_or_init(|| SharedTable::new(path, bytes));
        Some(place)
    }

    pub fn table(&self, number: c_int) -> Option<&SharedTable> {
        self.tables.get(usize::try_from(number).ok()?)?.get()
    }

    /// A buffer that no encoding uses; `None` where too many are in use.
    pub fn take_encoding(&self) -> Option<*mut Encoding> {
        let level = self.level.get();
        let encoding = self.encodings.get(level)?;
        self.level.set(level + 1);
        Some(encoding.get())
    }

    pub fn give_encoding_back(&self) {
        self.level.set(self.level.get().saturating_sub(1));
    }
}

/// To be called when everything of a request is gone.
#[unsafe(no_mangle)]
extern "C" fn tm_request_end() {
    let worker = worker();
    // What left by a jump has not given it back.
    worker.level.set(0);
    for encoding in &worker.encodings {
        // SAFETY: no request runs in this thread now, so nothing uses it.
        unsafe { (*encoding.get()).shrink() };
    }
    for table in worker.tables.iter().filter_map(OnceCell::get) {
        table.end_request();
    }
}
