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
    /// Changed as a whole only where a request has ended.
    tables: UnsafeCell<[OnceCell<SharedTable>; TABLES]>,
    /// Tables that this request was allowed to open, a bit each.
    allowed: Cell<u16>,
    encodings: [UnsafeCell<Encoding>; ENCODINGS],
    /// Encodings in use, a bit each: with fibers they end in any order.
    used: Cell<u8>,
}

/// That of this thread.
pub fn worker() -> &'static PhpWorker {
    let known = WORKER.get();
    if !known.is_null() {
        // SAFETY: made below, and never freed.
        return unsafe { &*known };
    }
    let made: &'static PhpWorker = Box::leak(Box::new(PhpWorker {
        tables: UnsafeCell::new([const { OnceCell::new() }; TABLES]),
        allowed: Cell::new(0),
        encodings: [const { UnsafeCell::new(Encoding::new()) }; ENCODINGS],
        used: Cell::new(0),
    }));
    WORKER.set(made);
    made
}

impl PhpWorker {
    fn tables(&self) -> &[OnceCell<SharedTable>; TABLES] {
        // SAFETY: borrowed exclusively only where a request has ended.
        unsafe { &*self.tables.get() }
    }

    /// The number of the table of this file, which PHP may open. `None` if there are too many.
    pub fn table_of(&self, path: &[u8], bytes: u64) -> Option<usize> {
        let place = self.tables().iter().position(|table| {
            let known = table.get();
            known.is_none_or(|table| table.path == path)
        })?;
        self.tables()[place].get_or_init(|| SharedTable::new(path, bytes));
        self.allowed.set(self.allowed.get() | 1 << place);
        Some(place)
    }

    /// A table that this request has opened.
    pub fn table(&self, number: c_int) -> Option<&SharedTable> {
        let place = usize::try_from(number)
            .ok()
            .filter(|place| *place < TABLES)?;
        let is_allowed = self.allowed.get() >> place & 1 == 1;
        is_allowed.then(|| self.tables()[place].get())?
    }

    /// A buffer that no encoding uses; `None` where too many are in use.
    pub fn take_encoding(&self) -> Option<*mut Encoding> {
        let place = self.used.get().trailing_ones();
        let encoding = self.encodings.get(place as usize)?;
        self.used.set(self.used.get() | 1 << place);
        Some(encoding.get())
    }

    pub fn give_encoding_back(&self, encoding: *mut Encoding) {
        let place = self.encodings.iter().position(|one| one.get() == encoding);
        self.used
            .set(self.used.get() & !place.map_or(0, |place| 1 << place));
    }

    /// Where all tables are taken, the files of a next request would have no place.
    fn give_up_tables(&self) {
        if self.tables().iter().all(|table| table.get().is_some()) {
            // SAFETY: no request runs in this thread now, so nothing refers to them.
            let tables = unsafe { &mut *self.tables.get() };
            tables.iter_mut().for_each(|table| drop(table.take()));
        }
    }
}

/// To be called when everything of a request is gone.
#[unsafe(no_mangle)]
extern "C" fn tm_request_end() {
    let worker = worker();
    // What left by a jump has not given it back.
    worker.used.set(0);
    worker.allowed.set(0);
    for encoding in &worker.encodings {
        // SAFETY: no request runs in this thread now, so nothing uses it.
        unsafe { (*encoding.get()).shrink() };
    }
    for table in worker.tables().iter().filter_map(OnceCell::get) {
        table.end_request();
    }
    worker.give_up_tables();
}
