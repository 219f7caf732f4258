//! Whether a database is fit for a store: what the store finds, as findings of the doctor.

use std::path::Path;

use anyhow::Result;
use engine::{Clock, DatabaseFinding, DatabaseUrl, Verdict, accept_restore, examine_database};

use super::{Finding, Health};

/// Looks at the database, whose keys are in the directory `keys`, and hands each finding over.
pub fn examine(
    url: &DatabaseUrl,
    (password_file, keys): (Option<&Path>, &Path),
    clock: &dyn Clock,
    say: impl FnMut(Finding),
) {
    let findings = examine_database(url, password_file, keys, &|| clock.now());
    findings.into_iter().map(finding).for_each(say);
}

/// Lets the store that was restored go on.
///
/// # Errors
/// What the store says.
pub fn accept(url: &DatabaseUrl, password_file: Option<&Path>) -> Result<Finding> {
    let lineage = accept_restore(url, password_file)?;
    let found = format!("The store goes on from what is there, as the history {lineage}.");
    Ok(Finding::good("restore", found))
}

fn finding(found: DatabaseFinding) -> Finding {
    let health = match found.verdict {
        Verdict::Good => Health::Good,
        Verdict::Warning => Health::Warning,
        Verdict::Bad => Health::Bad,
    };
    Finding {
        check: found.check,
        health,
        found: found.found,
        advice: found.advice,
    }
}
