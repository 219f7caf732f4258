//! What one thread of PHP keeps from one request to the next: its tables, and the buffers in which
//! values are encoded. It is freed where the thread ends, which no jump can skip; that of the main
//! thread ends with the process.

use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::ffi::c_int;
use std::ptr;

use crate::encoding::Encoding;
use crate::table::SharedTable;

/// Tables of one thread; each has a map of its own.
const TABLES: usize = 16;
/// Texts that one thread remembers, and bytes of one with its name.
const TEXTS: usize = 16;
const TEXT_BYTES: usize = 16 << 10;
/// How often encoding may come to encode again, by a class that uses the cache in `__serialize`.
const ENCODINGS: usize = 8;

thread_local! {
    static WORKER: Cell<*const PhpWorker> = const { Cell::new(ptr::null()) };
}

unsafe extern "C" {
    fn tm_has_threads() -> bool;
    fn tm_keys_free();
}

/// Of a thread of a server that has many.
struct ThreadEnd;

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let worker = WORKER.replace(ptr::null()).cast_mut();
        // SAFETY: the thread has ended its last request, so no value refers to a key.
        unsafe { tm_keys_free() };
        if !worker.is_null() {
            // SAFETY: made by `worker` from a box, and nothing of this thread refers to it now.
            drop(unsafe { Box::from_raw(worker) });
        }
    }
}

thread_local! {
    static END: ThreadEnd = const { ThreadEnd };
}

pub struct PhpWorker {
    /// Changed as a whole only where a request has ended.
    tables: UnsafeCell<[OnceCell<SharedTable>; TABLES]>,
    /// Tables that this request was allowed to open, a bit each.
    allowed: Cell<u16>,
    encodings: [UnsafeCell<Encoding>; ENCODINGS],
    /// Encodings in use, a bit each: with fibers they end in any order.
    used: Cell<u8>,
    /// Names with texts of programs, the oldest first.
    texts: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// That of this thread.
pub fn worker() -> &'static PhpWorker {
    let known = WORKER.get();
    if !known.is_null() {
        // SAFETY: made below, and freed where the thread ends.
        return unsafe { &*known };
    }
    let made: &'static PhpWorker = Box::leak(Box::new(PhpWorker {
        tables: UnsafeCell::new([const { OnceCell::new() }; TABLES]),
        allowed: Cell::new(0),
        encodings: [const { UnsafeCell::new(Encoding::new()) }; ENCODINGS],
        used: Cell::new(0),
        texts: RefCell::default(),
    }));
    WORKER.set(made);
    // SAFETY: only says what was compiled.
    if unsafe { tm_has_threads() } {
        END.with(|_| ());
    }
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

    /// Where the text of a name is, until another one is remembered.
    pub fn recall(&self, name: &[u8]) -> Option<(*const u8, usize)> {
        let texts = self.texts.borrow();
        let (_, text) = texts.iter().find(|(known, _)| known == name)?;
        Some((text.as_ptr(), text.len()))
    }

    pub fn remember(&self, name: &[u8], text: &[u8]) {
        let mut texts = self.texts.borrow_mut();
        texts.retain(|(known, _)| known != name);
        if name.len().saturating_add(text.len()) > TEXT_BYTES {
            return;
        }
        if texts.len() >= TEXTS {
            texts.remove(0);
        }
        texts.push((name.to_vec(), text.to_vec()));
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
