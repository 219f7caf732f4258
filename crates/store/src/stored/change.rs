//! How a statement changes tables that every database has.

use std::borrow::Cow;

use super::parameter::StoredParameter;

/// A statement that changes rows, and answers with nothing but how many. What is said of the
/// parameters of a [`super::read::StoredRead`] holds here, too.
pub(crate) struct StoredChange {
    pub(crate) sql: Cow<'static, str>,
    pub(crate) parameters: Vec<StoredParameter>,
}

impl StoredChange {
    pub(crate) fn new(
        sql: impl Into<Cow<'static, str>>,
        parameters: impl Into<Vec<StoredParameter>>,
    ) -> StoredChange {
        StoredChange {
            sql: sql.into(),
            parameters: parameters.into(),
        }
    }
}
