//! What stands for a parameter of a statement that every database runs.

/// What stands there; `None` is null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StoredParameter {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    /// What code has printed: a database whose texts hold no U+0000 keeps its bytes.
    Printed(String),
    /// A bound of a column of whole numbers …
    WholeBound(i64),
    /// … and of one of others. Where a column has one type, a bound is JSON text.
    RealBound(f64),
}

impl From<i64> for StoredParameter {
    fn from(number: i64) -> StoredParameter {
        StoredParameter::Int(Some(number))
    }
}

impl From<Option<i64>> for StoredParameter {
    fn from(number: Option<i64>) -> StoredParameter {
        StoredParameter::Int(number)
    }
}

impl From<u32> for StoredParameter {
    fn from(number: u32) -> StoredParameter {
        i64::from(number).into()
    }
}

impl From<Option<u32>> for StoredParameter {
    fn from(number: Option<u32>) -> StoredParameter {
        number.map(i64::from).into()
    }
}

impl From<bool> for StoredParameter {
    fn from(flag: bool) -> StoredParameter {
        StoredParameter::Int(Some(flag.into()))
    }
}

impl From<&str> for StoredParameter {
    fn from(text: &str) -> StoredParameter {
        StoredParameter::Text(Some(text.to_owned()))
    }
}

impl From<Option<&str>> for StoredParameter {
    fn from(text: Option<&str>) -> StoredParameter {
        StoredParameter::Text(text.map(str::to_owned))
    }
}

impl From<String> for StoredParameter {
    fn from(text: String) -> StoredParameter {
        StoredParameter::Text(Some(text))
    }
}

impl From<Option<String>> for StoredParameter {
    fn from(text: Option<String>) -> StoredParameter {
        StoredParameter::Text(text)
    }
}

impl From<Vec<u8>> for StoredParameter {
    fn from(bytes: Vec<u8>) -> StoredParameter {
        StoredParameter::Bytes(Some(bytes))
    }
}

impl From<Option<Vec<u8>>> for StoredParameter {
    fn from(bytes: Option<Vec<u8>>) -> StoredParameter {
        StoredParameter::Bytes(bytes)
    }
}
