//! What a write does to the columns of a row.

use crate::error::ModelError;
use crate::operator::Operator;
use crate::schema::Table;
use crate::time::Timestamp;
use crate::value::Value;

/// Edits of columns, each column once, by position in [`Table::columns`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    edits: Vec<(usize, Edit)>,
}

/// What happens to one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// It gets this value.
    Set(Value),
    /// Its value is computed from the one it has.
    Operate(Operator),
}

impl Patch {
    /// Adds an edit; of several for one column the last one counts.
    pub fn put(&mut self, position: usize, edit: Edit) {
        self.edits.retain(|(earlier, _)| *earlier != position);
        self.edits.push((position, edit));
    }

    /// About so many bytes of values it sets.
    pub fn size_bytes(&self) -> usize {
        let set = self.edits.iter().filter_map(|(_, edit)| match edit {
            Edit::Set(value) => Some(value.size_bytes()),
            Edit::Operate(_) => None,
        });
        set.sum()
    }

    /// The edits in the order of their last mention.
    pub fn edits(&self) -> &[(usize, Edit)] {
        &self.edits
    }

    /// The values of a row that has `values` before, one for each column of `table`.
    ///
    /// # Errors
    /// What [`Operator::apply`] says.
    pub fn apply(
        &self,
        table: &Table,
        values: &[Value],
        now: Timestamp,
    ) -> Result<Vec<Value>, ModelError> {
        let mut patched = values.to_vec();
        for (position, edit) in &self.edits {
            patched[*position] = match edit {
                Edit::Set(value) => value.clone(),
                Edit::Operate(operator) => {
                    operator.apply(&table.columns[*position], &values[*position], now)?
                }
            };
        }
        Ok(patched)
    }

    /// The values of a new row before its operators have run: what is set, else the default,
    /// else null. Operators then compute from these, so they may fill a required column.
    ///
    /// # Errors
    /// [`ModelError::MissingColumn`] for the first required column that nothing fills.
    pub fn start(&self, table: &Table) -> Result<Vec<Value>, ModelError> {
        let start = |(position, column): (usize, &crate::schema::Column)| {
            let edit = self.edits.iter().find(|(at, _)| *at == position);
            match edit.map(|(_, edit)| edit) {
                Some(Edit::Set(value)) => return Ok(value.clone()),
                Some(Edit::Operate(_)) => {
                    return Ok(column.default.clone().unwrap_or(Value::Null));
                }
                None => {}
            }
            match &column.default {
                Some(value) => Ok(value.clone()),
                None if column.required => Err(ModelError::MissingColumn {
                    column: column.key.to_string(),
                }),
                None => Ok(Value::Null),
            }
        };
        table.columns.iter().enumerate().map(start).collect()
    }

    /// Runs the operators alone over the values of a new row.
    ///
    /// # Errors
    /// What [`Operator::apply`] says.
    pub fn operate(
        &self,
        table: &Table,
        mut values: Vec<Value>,
        now: Timestamp,
    ) -> Result<Vec<Value>, ModelError> {
        for (position, edit) in &self.edits {
            if let Edit::Operate(operator) = edit {
                let column = &table.columns[*position];
                values[*position] = operator.apply(column, &values[*position], now)?;
            }
        }
        Ok(values)
    }
}

impl From<Vec<(usize, Value)>> for Patch {
    fn from(values: Vec<(usize, Value)>) -> Patch {
        let mut patch = Patch::default();
        for (position, value) in values {
            patch.put(position, Edit::Set(value));
        }
        patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::{column, empty_table};
    use crate::json::Json;
    use crate::schema::ColumnKind;

    fn patch(edits: &[(usize, Value)]) -> Patch {
        edits.to_vec().into()
    }

    #[test]
    fn required_columns_and_defaults_meet_when_a_row_begins() {
        let mut required = column(ColumnKind::Boolean);
        required.required = true;
        let mut defaulted = column(ColumnKind::Text);
        defaulted.default = Some(Value::Text("d".into()));
        let table = Table {
            columns: vec![required, defaulted],
            ..empty_table()
        };
        let error = patch(&[]).start(&table).unwrap_err();
        assert_eq!(error, ModelError::MissingColumn { column: "k".into() });
        let row = patch(&[(0, Value::Bool(true))]).start(&table).unwrap();
        assert_eq!(row, [Value::Bool(true), Value::Text("d".into())]);
        let nulled = patch(&[(0, Value::Bool(true)), (1, Value::Null)]);
        assert_eq!(nulled.start(&table).unwrap()[1], Value::Null);
    }

    #[test]
    fn operators_fill_a_required_column_and_go_on_from_a_default() {
        let int = ColumnKind::Bigint {
            min: i64::MIN,
            max: i64::MAX,
        };
        let (mut required, mut defaulted) = (column(int.clone()), column(int));
        required.required = true;
        defaulted.default = Some(Value::Int(10));
        let mut patch = Patch::default();
        for (position, column) in [&required, &defaulted].into_iter().enumerate() {
            let operator = Operator::read(column, "increment", &[Json::Int(5)]).unwrap();
            patch.put(position, Edit::Operate(operator));
        }
        let table = Table {
            columns: vec![required, defaulted],
            ..empty_table()
        };
        let start = patch.start(&table).unwrap();
        let row = patch.operate(&table, start, Timestamp(0)).unwrap();
        assert_eq!(row, [Value::Int(5), Value::Int(15)]);
        let again = patch.apply(&table, &row, Timestamp(0)).unwrap();
        assert_eq!(again, [Value::Int(10), Value::Int(20)]);
    }

    #[test]
    fn the_last_word_on_a_column_counts() {
        let patch = patch(&[(0, Value::Bool(true)), (0, Value::Bool(false))]);
        assert_eq!(patch.edits(), [(0, Edit::Set(Value::Bool(false)))]);
    }
}
