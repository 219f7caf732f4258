//! Whether a jail can be made on this host.

use std::fs;
use std::path::{Path, PathBuf};

use super::{JailLevel, JailSetup, next_user};
use crate::probe::print_of;

/// Makes a jail of this level and ends it again. `launcher` is a program as
/// [`crate::FunctionIsolation::Jail`] names it.
///
/// # Errors
/// What the launcher says: the step that failed, and why.
pub fn try_jail(launcher: &Path, level: JailLevel) -> Result<(), String> {
    let shell = fs::canonicalize("/bin/sh").unwrap_or_else(|_| PathBuf::from("/bin/sh"));
    let setup = JailSetup {
        level,
        user: next_user(),
        code: "/usr".into(),
        is_writable: false,
        adapter: shell.clone(),
        folders: Vec::new(),
        program: shell,
        arguments: vec!["-c".into(), ":".into()],
        memory_mib: 64,
        has_api: false,
        reaches_outside: false,
        has_starts: false,
        group: None,
    };
    print_of(launcher, &["jail".to_owned(), setup.to_argument()]).map(|_| ())
}
