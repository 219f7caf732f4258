//! Parameters of statements that every database runs, as PostgreSQL takes them.

use tokio_postgres::types::Type;

use super::cells::SqlParameter;
use crate::stored::parameter::StoredParameter;

pub(super) fn all(parameters: &[StoredParameter]) -> Vec<SqlParameter> {
    parameters.iter().map(one).collect()
}

fn one(parameter: &StoredParameter) -> SqlParameter {
    match parameter {
        StoredParameter::Int(number) => Box::new(*number),
        StoredParameter::Text(text) => Box::new(text.clone()),
        StoredParameter::Bytes(bytes) => Box::new(bytes.clone()),
        StoredParameter::Printed(text) => Box::new(text.clone().into_bytes()),
        StoredParameter::WholeBound(number) => Box::new(number.to_string()),
        // The shortest text that is this number again.
        StoredParameter::RealBound(number) => Box::new(format!("{number:?}")),
    }
}

pub(super) fn sql_type(parameter: &StoredParameter) -> Type {
    match parameter {
        StoredParameter::Int(_) => Type::INT8,
        StoredParameter::Text(_)
        | StoredParameter::WholeBound(_)
        | StoredParameter::RealBound(_) => Type::TEXT,
        StoredParameter::Bytes(_) | StoredParameter::Printed(_) => Type::BYTEA,
    }
}
