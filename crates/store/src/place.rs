//! Where a store is.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::DatabaseUrl;

/// Where a store is. Neither its `Debug` nor its `Display` form has a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// A data directory of this machine.
    Directory(PathBuf),
    /// A schema in a database.
    Database(Box<DatabaseUrl>),
}

impl StorePlace {
    /// By which option another one is named.
    pub(crate) fn option(&self) -> &'static str {
        match self {
            StorePlace::Directory(_) => "another directory with --data",
            StorePlace::Database(_) => "another schema in its URL",
        }
    }
}

impl From<PathBuf> for StorePlace {
    fn from(path: PathBuf) -> StorePlace {
        StorePlace::Directory(path)
    }
}

impl From<&Path> for StorePlace {
    fn from(path: &Path) -> StorePlace {
        StorePlace::Directory(path.to_owned())
    }
}

impl From<DatabaseUrl> for StorePlace {
    fn from(url: DatabaseUrl) -> StorePlace {
        StorePlace::Database(Box::new(url))
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorePlace::Directory(path) => write!(f, "data directory {}", path.display()),
            StorePlace::Database(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_words_has_no_password() {
        let url = "postgres://shop:secret@db.example:5433/tidemark?schema=shop";
        let place = StorePlace::from(DatabaseUrl::parse(url).unwrap());
        let words = format!("{place} {place:?}");
        let expected = "database tidemark at db.example:5433, schema shop";
        assert!(words.starts_with(expected), "{words}");
        assert!(!words.contains("secret"), "{words}");
        let place = StorePlace::from(Path::new("/var/lib/shop"));
        assert_eq!(place.to_string(), "data directory /var/lib/shop");
    }
}
