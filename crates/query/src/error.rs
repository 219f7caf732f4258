//! Why a query text cannot be answered.

use std::fmt;

/// A refused query. The text is written for the person who sent it; every one starts with
/// "Invalid query" on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The text is not JSON; see [`QueryError::detail`].
    NotJson(String),
    /// The text is not a JSON object of the known shape.
    Syntax(String),
    /// The query is readable, but cannot be asked of this table.
    Invalid(String),
    /// More queries, or a longer query, than a request may hold.
    TooLarge(String),
}

impl QueryError {
    /// Which text is refused, where and why, when the message does not say so.
    pub fn detail(&self) -> Option<&str> {
        match self {
            QueryError::NotJson(detail) => Some(detail),
            QueryError::Syntax(_) | QueryError::Invalid(_) | QueryError::TooLarge(_) => None,
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Exactly these words: clients of the reference compare them (wire protocol, 3).
            QueryError::NotJson(_) => f.write_str("Invalid query: Syntax error"),
            QueryError::Syntax(why) | QueryError::Invalid(why) => {
                write!(f, "Invalid query: {why}")
            }
            QueryError::TooLarge(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for QueryError {}
