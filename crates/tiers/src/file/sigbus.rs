//! What a process does when a page of a mapped cache file is missing: the file was cut short by
//! another program, or lies on a disk that gave up.
//!
//! The kernel then sends SIGBUS to the thread that touches the page, and by default the process
//! dies. The handler here puts a page of zeros in its place and notes that the map is lost; the
//! reader finds nonsense, then the note, and gives the map up. A signal for any other address goes
//! to the handler that was there before.
#![allow(unsafe_code)] // A handler of signals can be written no other way.

use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::libc;

/// Maps that one process may have at the same time: of a server with threads each has its own. One
/// that was replaced stays until its last reader has ended.
const MAPS_MAX: usize = 1_024;

/// One map. A place is free while its size is 0.
struct WatchedMap {
    is_taken: AtomicBool,
    start: AtomicUsize,
    bytes: AtomicUsize,
    is_lost: AtomicBool,
}

static WATCHED: [WatchedMap; MAPS_MAX] = [const {
    WatchedMap {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; MAPS_MAX];

/// What is done with a signal that is not ours, and the size of a page.
struct SignalBefore {
    action: libc::sigaction,
    page: usize,
}

static BEFORE: OnceLock<SignalBefore> = OnceLock::new();
/// Whether the handler is in place, not only what it will leave signals to.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// While this lives, a missing page of a map is no death.
pub struct MapWatch(&'static WatchedMap);

impl MapWatch {
    /// # Errors
    /// When the handler cannot be set, or too many maps are watched.
    pub fn new(start: usize, bytes: usize) -> Result<MapWatch> {
        install()?;
        let free = WATCHED.iter().find(|watched| {
            let taken = &watched.is_taken;
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            taken
                .compare_exchange(false, true, acquire, relaxed)
                .is_ok()
        });
        let Some(watched) = free else {
            let text = format!("this process has {MAPS_MAX} cache files mapped already");
            return Err(Error::other(text));
        };
        watched.is_lost.store(false, Ordering::Relaxed);
        watched.start.store(start, Ordering::Relaxed);
        watched.bytes.store(bytes, Ordering::Release);
        Ok(MapWatch(watched))
    }

    pub fn is_lost(&self) -> bool {
        self.0.is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for MapWatch {
    fn drop(&mut self) {
        self.0.bytes.store(0, Ordering::Release);
        self.0.is_taken.store(false, Ordering::Release);
    }
}

/// Sets the handler in a process and those it forks. Threads that come at the same time all do so,
/// since none may use a map before the handler is there.
fn install() -> Result<()> {
    if IS_SET.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut before = MaybeUninit::uninit();
    // SAFETY: only asks for the present action, and writes it into memory of the right size.
    let result = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) };
    if result != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: written by the call above, which succeeded.
    let action = unsafe { before.assume_init() };
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = usize::try_from(page).map_err(Error::other)?;
    // Where another thread was first, `action` may be our handler already; its own is not.
    let _ = BEFORE.set(SignalBefore { action, page });
    // SAFETY: all zeros is a valid action; its parts are set below.
    let mut own: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    own.sa_sigaction = handler as usize;
    own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler calls only what may be called in one.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const own, ptr::null_mut()) } {
        0 => IS_SET.store(true, Ordering::Release),
        _ => return Err(Error::last_os_error()),
    }
    Ok(())
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid description with this kind of handler.
    let address = unsafe { (*info).si_addr() }.addr();
    if !replace_page(address) {
        chain(signal, info, context);
    }
}

/// Puts zeros in the place of the missing page, if it is one of a map.
fn replace_page(address: usize) -> bool {
    let Some(before) = BEFORE.get() else {
        return false;
    };
    let holds = |watched: &&WatchedMap| {
        let bytes = watched.bytes.load(Ordering::Acquire);
        let start = watched.start.load(Ordering::Relaxed);
        address.checked_sub(start).is_some_and(|at| at < bytes)
    };
    let Some(watched) = WATCHED.iter().find(holds) else {
        return false;
    };
    watched.is_lost.store(true, Ordering::Relaxed);
    let page = ptr::without_provenance_mut(address & !(before.page - 1));
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the location of this thread's error number, which interrupted code may be reading.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    // SAFETY: replaces a page of a map of ours, all access to which is atomic.
    let made = unsafe { libc::mmap(page, before.page, rights, kind, -1, 0) };
    // SAFETY: as above.
    unsafe { *errno = kept };
    made != libc::MAP_FAILED
}

/// Leaves the signal to the handler that was there before; without one, the process dies as it
/// would have.
fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let action = BEFORE.get().map(|before| before.action);
    match action.map_or(libc::SIG_DFL, |action| action.sa_sigaction) {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: sets the default, under which the repeated access ends the process. The
            // kernel does not let a fault be ignored.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        handler if action.is_some_and(|found| found.sa_flags & libc::SA_SIGINFO != 0) => {
            // SAFETY: the flag says that this is a function of three arguments.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag it is a function of one argument.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
