//! One database's way to write SQL: what differs, with the common form as the default.

use model::{Direction, Storage, Value};

use crate::names;

/// A database's SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// SQLite 3.
    Sqlite,
    /// PostgreSQL 15 and later.
    Postgres,
}

impl Dialect {
    /// What introduces a parameter's number.
    pub(crate) fn parameter_sign(self) -> char {
        match self {
            Dialect::Sqlite => '?',
            Dialect::Postgres => '$',
        }
    }

    /// The cast that follows a parameter: PostgreSQL must know each one's type, and would guess
    /// it from the neighbours otherwise.
    pub(crate) fn cast(self, value: &Value) -> &'static str {
        match (self, value) {
            (Dialect::Sqlite, _) => "",
            (Dialect::Postgres, Value::Null | Value::Text(_)) => "::text",
            (Dialect::Postgres, Value::Int(_) | Value::Instant(_)) => "::bigint",
            (Dialect::Postgres, Value::Float(_)) => "::double precision",
            (Dialect::Postgres, Value::Bool(_)) => "::boolean",
            (Dialect::Postgres, Value::List(elements)) => match elements.first() {
                Some(Value::Int(_) | Value::Instant(_)) => "::bigint[]",
                Some(Value::Float(_)) => "::double precision[]",
                Some(Value::Bool(_)) => "::boolean[]",
                Some(Value::Text(_) | Value::Null | Value::List(_)) | None => "::text[]",
            },
        }
    }

    /// What makes a column compare by bytes. SQLite does so by itself.
    pub(crate) fn collation(self, storage: Storage) -> &'static str {
        match (self, storage) {
            (Dialect::Postgres, Storage::Text) => " COLLATE \"C\"",
            _ => "",
        }
    }

    /// What puts nulls first ascending and last descending. SQLite does so by itself; a column
    /// that holds none must not be asked, or PostgreSQL would not order by its plain index.
    pub(crate) fn nulls(self, direction: Direction, is_nullable: bool) -> &'static str {
        match (self, direction) {
            (Dialect::Postgres, Direction::Asc) if is_nullable => " NULLS FIRST",
            (Dialect::Postgres, Direction::Desc) if is_nullable => " NULLS LAST",
            _ => "",
        }
    }

    /// The function (text, part) → 0 where the text lacks the part, else more.
    pub(crate) fn has_part(self) -> &'static str {
        match self {
            Dialect::Sqlite => names::HAS_PART,
            Dialect::Postgres => "strpos",
        }
    }

    /// A FROM item that yields an array's elements, as rows called `name` with one column
    /// `value`, between the two texts.
    pub(crate) fn elements(self, name: &str) -> (&'static str, String) {
        match self {
            Dialect::Sqlite => ("json_each(", format!(") AS {name}")),
            Dialect::Postgres => ("unnest(", format!(") AS {name}(value)")),
        }
    }

    /// The JSON array of permission strings that `entry`, an SQL text, makes of each row of a
    /// FROM clause, in the order of `order`; `[]` without rows.
    pub(crate) fn texts_to_array(self, entry: &str, order: &str) -> String {
        match self {
            Dialect::Sqlite => format!("json_group_array({entry} ORDER BY {order})"),
            Dialect::Postgres => format!(
                "'[' || coalesce(string_agg(to_json({entry})::text, ',' ORDER BY {order}), '') \
                 || ']'"
            ),
        }
    }

    /// What keeps the planner out of the OR it follows. SQLite plans each branch of each OR
    /// again, with all that stands beside it: 90 queries with 45 branches took 25 s to prepare.
    pub(crate) fn unplanned(self) -> &'static str {
        match self {
            Dialect::Sqlite => " IS TRUE",
            Dialect::Postgres => "",
        }
    }

    /// Whether a statement may name its index.
    pub(crate) fn names_index(self) -> bool {
        match self {
            Dialect::Sqlite => true,
            Dialect::Postgres => false,
        }
    }
}
