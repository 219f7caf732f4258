//! Values as PostgreSQL has them: on their way out of a row, and into a statement, singly or many
//! of one column at once.

use model::{Column, Field, Storage, Table, Timestamp, Value};
use query::field;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::StoreError;
use crate::error::corrupt;

/// A parameter of a statement.
pub(super) type SqlParameter = Box<dyn ToSql + Sync + Send>;

/// Parameters as a statement is given them.
pub(super) fn borrowed(parameters: &[SqlParameter]) -> Vec<&(dyn ToSql + Sync)> {
    parameters
        .iter()
        .map(|parameter| &**parameter as &(dyn ToSql + Sync))
        .collect()
}

/// What a field holds, which stands in this column of a result.
pub(super) fn field_value(
    row: &Row,
    position: usize,
    (table, of): (&Table, Field),
) -> Result<Value, StoreError> {
    match of {
        Field::Column(column) => value(row, position, &table.columns[column]),
        _ => single(row, position, field::storage(table, of)),
    }
}

/// What a row has in a column of the user that is not encrypted.
pub(super) fn value(row: &Row, position: usize, column: &Column) -> Result<Value, StoreError> {
    if column.encrypt {
        return Err(not_plain());
    }
    let storage = column.kind.storage();
    if column.array {
        return list(row, position, storage);
    }
    single(row, position, storage)
}

/// What stands there of this storage.
pub(super) fn single(row: &Row, position: usize, storage: Storage) -> Result<Value, StoreError> {
    let found = match storage {
        Storage::Text => row.try_get::<_, Option<String>>(position)?.map(Value::Text),
        Storage::Int => row.try_get::<_, Option<i64>>(position)?.map(Value::Int),
        Storage::Float => row.try_get::<_, Option<f64>>(position)?.map(Value::Float),
        Storage::Bool => row.try_get::<_, Option<bool>>(position)?.map(Value::Bool),
        Storage::Instant => {
            let found = row.try_get::<_, Option<i64>>(position)?;
            found.map(|us| Value::Instant(Timestamp(us)))
        }
    };
    Ok(found.unwrap_or(Value::Null))
}

fn list(row: &Row, position: usize, storage: Storage) -> Result<Value, StoreError> {
    fn all<T>(found: Option<Vec<T>>, value: fn(T) -> Value) -> Value {
        let list = |values: Vec<T>| Value::List(values.into_iter().map(value).collect());
        found.map_or(Value::Null, list)
    }
    Ok(match storage {
        Storage::Text => all(row.try_get(position)?, Value::Text),
        Storage::Int => all(row.try_get(position)?, Value::Int),
        Storage::Float => all(row.try_get(position)?, Value::Float),
        Storage::Bool => all(row.try_get(position)?, Value::Bool),
        Storage::Instant => all(row.try_get(position)?, |us| Value::Instant(Timestamp(us))),
    })
}

/// A value as a parameter.
pub(super) fn parameter(value: &Value) -> SqlParameter {
    match value {
        Value::Null => Box::new(None::<String>),
        Value::Bool(truth) => Box::new(*truth),
        Value::Int(number) => Box::new(*number),
        Value::Float(number) => Box::new(*number),
        Value::Text(text) => Box::new(text.clone()),
        Value::Instant(instant) => Box::new(instant.0),
        Value::List(values) => match values.first() {
            Some(Value::Bool(_)) => list_parameter(Storage::Bool, values.iter()),
            Some(Value::Int(_)) => list_parameter(Storage::Int, values.iter()),
            Some(Value::Float(_)) => list_parameter(Storage::Float, values.iter()),
            Some(Value::Instant(_)) => list_parameter(Storage::Instant, values.iter()),
            _ => list_parameter(Storage::Text, values.iter()),
        },
    }
}

/// The type of a parameter.
pub(super) fn parameter_type(value: &Value) -> Type {
    match value {
        Value::Null | Value::Text(_) => Type::TEXT,
        Value::Bool(_) => Type::BOOL,
        Value::Int(_) | Value::Instant(_) => Type::INT8,
        Value::Float(_) => Type::FLOAT8,
        Value::List(values) => match values.first() {
            Some(Value::Int(_) | Value::Instant(_)) => Type::INT8_ARRAY,
            Some(Value::Float(_)) => Type::FLOAT8_ARRAY,
            Some(Value::Bool(_)) => Type::BOOL_ARRAY,
            _ => Type::TEXT_ARRAY,
        },
    }
}

/// Values of one storage as one parameter.
pub(super) fn list_parameter<'v>(
    storage: Storage,
    values: impl Iterator<Item = &'v Value>,
) -> SqlParameter {
    fn all<'v, T: ToSql + Sync + Send + 'static>(
        values: impl Iterator<Item = &'v Value>,
        one: fn(&Value) -> Option<T>,
    ) -> SqlParameter {
        Box::new(values.map(one).collect::<Vec<Option<T>>>())
    }
    match storage {
        Storage::Text => all(values, |value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }),
        Storage::Int | Storage::Instant => all(values, |value| match value {
            Value::Int(number) => Some(*number),
            Value::Instant(instant) => Some(instant.0),
            _ => None,
        }),
        Storage::Float => all(values, |value| match value {
            Value::Float(number) => Some(*number),
            _ => None,
        }),
        Storage::Bool => all(values, |value| match value {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }),
    }
}

/// The type of a field's values, one by one.
pub(super) fn type_of(table: &Table, field: Field) -> &'static str {
    match field::storage(table, field) {
        Storage::Text => "text",
        Storage::Int | Storage::Instant => "bigint",
        Storage::Float => "double precision",
        Storage::Bool => "boolean",
    }
}

/// A column of a statement's rows, as a list of values.
pub(super) struct ValueList {
    /// The type of its elements.
    pub(super) element: &'static str,
    /// What an element is cast to.
    pub(super) cast: &'static str,
    pub(super) values: SqlParameter,
}

/// What rows have in a column of the user that is not encrypted.
pub(super) fn value_list<'v>(
    column: &Column,
    values: impl Iterator<Item = &'v Value>,
) -> Result<ValueList, StoreError> {
    if column.encrypt {
        return Err(not_plain());
    }
    let element = match (column.array, column.kind.storage()) {
        // A list of lists would lose its inner bounds, so each one is a text.
        (true, _) | (false, Storage::Text) => "text",
        (false, Storage::Int | Storage::Instant) => "bigint",
        (false, Storage::Float) => "double precision",
        (false, Storage::Bool) => "boolean",
    };
    let cast = match (column.array, column.kind.storage()) {
        (false, _) => "",
        (true, Storage::Text) => "::text[]",
        (true, Storage::Int | Storage::Instant) => "::bigint[]",
        (true, Storage::Float) => "::double precision[]",
        (true, Storage::Bool) => "::boolean[]",
    };
    let values = if column.array {
        let texts: Vec<Value> = values.map(list_text).collect();
        list_parameter(Storage::Text, texts.iter())
    } else {
        list_parameter(column.kind.storage(), values)
    };
    Ok(ValueList {
        element,
        cast,
        values,
    })
}

/// A list as PostgreSQL writes one.
fn list_text(value: &Value) -> Value {
    let Value::List(values) = value else {
        return Value::Null;
    };
    let elements: Vec<String> = values.iter().map(element_text).collect();
    Value::Text(format!("{{{}}}", elements.join(",")))
}

fn element_text(value: &Value) -> String {
    match value {
        Value::Null | Value::List(_) => "NULL".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        // The shortest text that is this number again.
        Value::Float(number) => format!("{number:?}"),
        Value::Instant(instant) => instant.0.to_string(),
        Value::Text(text) => {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{text}\"")
        }
    }
}

/// What a value counts of the bytes of a version: that of a list, its elements.
pub(super) fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Text(text) => text.len(),
        Value::List(values) => values.iter().map(bytes_of).sum(),
        _ => crate::laws::growth::NUMBER_BYTES,
    }
}

fn not_plain() -> StoreError {
    corrupt("a value of an encrypted column was taken for a plain one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_as_the_database_reads_them() {
        let texts = ["a", "", "NULL", "\"\\{},", "ü\n"].map(|text| Value::Text(text.into()));
        let text = |values: &[Value]| list_text(&Value::List(values.to_vec()));
        assert_eq!(
            text(&texts),
            Value::Text("{\"a\",\"\",\"NULL\",\"\\\"\\\\{},\",\"ü\n\"}".into())
        );
        let floats = [1e300, 5e-324, -0.5].map(Value::Float);
        assert_eq!(text(&floats), Value::Text("{1e300,5e-324,-0.5}".into()));
        assert_eq!(text(&[]), Value::Text("{}".into()));
        assert_eq!(list_text(&Value::Null), Value::Null);
    }
}
