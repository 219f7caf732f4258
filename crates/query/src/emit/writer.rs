//! SQL text in the making, with its parameters.

use std::fmt::Write;

use model::Value;

use crate::dialect::Dialect;

use super::Statement;

/// Long enough for a list statement of a table with some fifteen columns.
const SQL_BYTES_USUAL: usize = 512;

pub(super) struct SqlWriter {
    pub(super) dialect: Dialect,
    sql: String,
    parameters: Vec<Value>,
}

/// A parameter that may be written more than once.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    number: usize,
    cast: &'static str,
}

/// What joins the next condition to those before it.
pub(super) struct Clause {
    joint: &'static str,
}

impl Clause {
    /// The conditions of a statement that has none yet.
    pub(super) fn of_where() -> Clause {
        Clause { joint: " WHERE " }
    }

    /// The conditions under which a row is joined, which has none yet.
    pub(super) fn of_join() -> Clause {
        Clause { joint: " ON " }
    }

    /// Further conditions after one that stands already.
    pub(super) fn further() -> Clause {
        Clause { joint: " AND " }
    }

    /// Writes what comes before a condition.
    pub(super) fn open(&mut self, out: &mut SqlWriter) {
        out.push(self.joint);
        self.joint = " AND ";
    }
}

impl SqlWriter {
    pub(super) fn new(dialect: Dialect) -> SqlWriter {
        SqlWriter {
            dialect,
            sql: String::with_capacity(SQL_BYTES_USUAL),
            parameters: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.sql.push_str(text);
    }

    pub(super) fn push_number(&mut self, number: impl std::fmt::Display) {
        write!(self.sql, "{number}").expect("a string takes all that is written to it");
    }

    /// Takes a value as the next parameter, without writing it yet.
    pub(super) fn parameter(&mut self, value: Value) -> Parameter {
        let cast = self.dialect.cast(&value);
        self.parameters.push(value);
        Parameter {
            number: self.parameters.len(),
            cast,
        }
    }

    pub(super) fn push_parameter(&mut self, parameter: Parameter) {
        self.sql.push(self.dialect.parameter_sign());
        self.push_number(parameter.number);
        self.push(parameter.cast);
    }

    /// A parameter as it stands in the text.
    pub(super) fn sign_of(&self, parameter: Parameter) -> String {
        let (sign, Parameter { number, cast }) = (self.dialect.parameter_sign(), parameter);
        format!("{sign}{number}{cast}")
    }

    /// Writes a value as the next parameter.
    pub(super) fn bind(&mut self, value: Value) {
        let parameter = self.parameter(value);
        self.push_parameter(parameter);
    }

    /// Writes the values as parameters, between parentheses.
    pub(super) fn bind_list(&mut self, values: impl IntoIterator<Item = Value>) {
        let mut separator = "(";
        for value in values {
            self.push(separator);
            self.bind(value);
            separator = ", ";
        }
        self.push(")");
    }

    pub(super) fn finish(self) -> Statement {
        Statement {
            sql: self.sql,
            parameters: self.parameters,
        }
    }
}
