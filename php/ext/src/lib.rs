//! The cache of Tidemark as an extension of PHP.
//!
//! C (`zend/`) speaks to Zend, because its macros know what PHP's structures look like. Rust has
//! the mapped table and the codec. PHP leaves functions by a jump, at an exhausted `memory_limit`
//! for one: so nothing that calls Zend keeps a lock, a guard or memory of Rust meanwhile. What
//! Rust keeps belongs to the thread ([`worker`]) and not to a frame of the stack.

use std::ffi::c_void;

mod border;
mod calls;
mod encoding;
mod forks;
mod number;
mod read;
mod table;
mod worker;
mod write;

unsafe extern "C" {
    fn tm_module_entry() -> *const c_void;
}

/// Where PHP finds the module.
///
/// # Safety
/// To be called by PHP, when it loads the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn get_module() -> *const c_void {
    tm_module_entry()
}
