//! Ids and keys that users choose, each kind a type of its own.

use std::fmt;
use std::sync::Arc;

use crate::error::ModelError;

/// Longest id or key, in characters (wire protocol: custom ids are 1 to 36 characters).
pub const ID_CHARS_MAX: usize = 36;

/// Whether `text` may be an id: 1 to 36 of `A-Z a-z 0-9 _ . -`, the first not one of `_ . -`.
pub fn is_valid_id(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(legal)
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

macro_rules! id_type {
    ($(#[$doc:meta] $name:ident, $what:literal;)*) => {$(
        #[$doc]
        ///
        /// Cheap to clone: copies of an id share one allocation.
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` against the rule of [`is_valid_id`].
            ///
            /// # Errors
            /// [`ModelError::InvalidId`] when the rule does not hold.
            pub fn new(text: &str) -> Result<Self, ModelError> {
                if is_valid_id(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(ModelError::InvalidId { what: $what })
                }
            }

            /// The id as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        // Lets maps keyed by the id be asked with a borrowed `str`; `Arc<str>` hashes as `str`.
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    )*};
}

id_type! {
    /// Names a project.
    ProjectId, "project id";
    /// Names a database within its project.
    DatabaseId, "database id";
    /// Names a table within its database.
    TableId, "table id";
    /// Names a row within its table, through deletion and re-creation.
    RowId, "row id";
    /// Names a column within its table; users see it, storage uses [`crate::ColumnNumber`].
    ColumnKey, "column key";
    /// Names an index within its table.
    IndexKey, "index key";
    /// Names an API key within its project. It is not the key's secret.
    KeyId, "key id";
    /// Names a function within its project.
    FunctionId, "function id";
    /// Names a variable within its function.
    VariableId, "variable id";
    /// Names a deployment within its function.
    DeploymentId, "deployment id";
}

/// A column's number in its table: names the physical column `c<n>`, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnNumber(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_holds_at_its_borders() {
        let longest = "a".repeat(36);
        for good in ["a", "0", "a_.-", "Products2", longest.as_str()] {
            assert!(RowId::new(good).is_ok(), "{good}");
        }
        let too_long = "a".repeat(37);
        for bad in [
            "",
            "_a",
            ".a",
            "-a",
            "a b",
            "é",
            "a/b",
            "a\0",
            too_long.as_str(),
        ] {
            assert!(RowId::new(bad).is_err(), "{bad:?}");
        }
    }
}
