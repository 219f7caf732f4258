//! The table that the cases ask: columns of every storage, indexes that compete.

use std::sync::Arc;

use model::{
    Column, ColumnKind, Direction, Field, Index, IndexColumn, IndexKey, IndexKind, Table,
    TableNumber, Timestamp,
};

use crate::tables::{plain_column, plain_table};

/// Table 5, under schema 3. Columns have numbers other than their positions.
pub fn products() -> Table {
    Table {
        number: TableNumber(5),
        name: "Products".into(),
        row_security: true,
        indexes: indexes(),
        schema_epoch: 3,
        ..plain_table("products", columns())
    }
}

fn columns() -> Vec<Column> {
    let elements: Arc<[String]> = ["books", "electronics", "toys"].map(str::to_owned).into();
    let int = || ColumnKind::Integer {
        min: i64::MIN,
        max: i64::MAX,
    };
    let float = || ColumnKind::Float {
        min: f64::MIN,
        max: f64::MAX,
    };
    vec![
        column(1, "category", ColumnKind::Enum { elements }, false),
        column(2, "name", ColumnKind::Varchar { chars_max: 128 }, false),
        column(3, "price", float(), false),
        column(4, "stock", int(), false),
        column(6, "inStock", ColumnKind::Boolean, false),
        column(7, "releasedAt", ColumnKind::Datetime, false),
        column(8, "tags", ColumnKind::Text, true),
        column(9, "scores", int(), true),
        column(10, "weights", float(), true),
        column(12, "days", ColumnKind::Datetime, true),
        column(13, "rating", float(), false),
    ]
}

fn column(number: u32, key: &str, kind: ColumnKind, array: bool) -> Column {
    Column {
        array,
        ..plain_column(number, key, kind)
    }
}

fn indexes() -> Vec<Index> {
    use Direction::{Asc, Desc};
    let column = Field::Column;
    vec![
        index(1, "by_category", IndexKind::Key, &[(column(0), Asc)]),
        index(
            2,
            "by_category_stock",
            IndexKind::Key,
            &[(column(0), Asc), (column(3), Desc)],
        ),
        index(3, "by_name", IndexKind::Unique, &[(column(1), Asc)]),
        index(4, "by_price", IndexKind::Key, &[(column(2), Asc)]),
        index(6, "by_creation", IndexKind::Key, &[(Field::Created, Asc)]),
        index(7, "by_release", IndexKind::Key, &[(column(5), Desc)]),
        index(
            8,
            "by_stock_price_name",
            IndexKind::Key,
            &[(column(3), Asc), (column(2), Desc), (column(1), Asc)],
        ),
        index(9, "words_of_name", IndexKind::Fulltext, &[(column(1), Asc)]),
    ]
}

fn index(number: u32, key: &str, kind: IndexKind, columns: &[(Field, Direction)]) -> Index {
    Index {
        number,
        key: IndexKey::new(key).unwrap(),
        kind,
        columns: columns
            .iter()
            .map(|(field, direction)| IndexColumn {
                field: *field,
                direction: *direction,
                length: None,
                held: None,
            })
            .collect(),
        status: model::IndexStatus::Available,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}
