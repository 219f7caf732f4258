//! `tidemark licenses`: the binary is often passed on alone, so it carries these texts itself.

use anyhow::Result;

use super::say;

const MIT: &str = include_str!("../../../../LICENSE-MIT");
const APACHE: &str = include_str!("../../../../LICENSE-APACHE");
const THIRD_PARTY: &str = include_str!("../../../../THIRD-PARTY-NOTICES.txt");

/// Prints all of them.
///
/// # Errors
/// When standard output cannot be written.
pub fn run() -> Result<()> {
    say(&format!(
        "Tidemark is licensed under the MIT licence or the Apache License 2.0, at your choice.\n\n\
         {MIT}\n{APACHE}\n{THIRD_PARTY}"
    ))
}
