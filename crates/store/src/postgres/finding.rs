//! What a check of a database has found.

/// How a check of a database ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Works, and may not as expected.
    Warning,
    /// No store can be there, or acknowledged writes could be lost.
    Bad,
}

/// What one check of a database found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFinding {
    /// What was looked at.
    pub check: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found, as a sentence.
    pub found: String,
    /// What to do, if anything.
    pub advice: Option<String>,
}

impl DatabaseFinding {
    pub(super) fn good(check: &'static str, found: impl Into<String>) -> DatabaseFinding {
        DatabaseFinding {
            check,
            verdict: Verdict::Good,
            found: found.into(),
            advice: None,
        }
    }

    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> DatabaseFinding {
        DatabaseFinding {
            verdict: Verdict::Warning,
            advice: Some(advice.into()),
            ..DatabaseFinding::good(check, found)
        }
    }

    pub(super) fn bad(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> DatabaseFinding {
        DatabaseFinding {
            verdict: Verdict::Bad,
            ..DatabaseFinding::warning(check, found, advice)
        }
    }
}
