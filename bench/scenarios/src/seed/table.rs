//! The benchmark's table: where it stands and how it is defined. `bench/ttl/setup.js` makes the
//! same one.

use serde_json::{Value, json};

use super::words::CATEGORIES;

/// The database's id.
pub const DATABASE: &str = "bench_db";
/// The table's id.
pub const TABLE: &str = "products";
/// The key of the optional index.
pub const INDEX: &str = "by_category_review";

/// The fifteen user columns, in order.
pub const COLUMNS: [&str; 15] = [
    "name",
    "description",
    "sku",
    "category",
    "brand",
    "price",
    "stock",
    "rating",
    "reviewCount",
    "manufacturerEmail",
    "manufacturerUrl",
    "releasedAt",
    "warehouseIp",
    "tags",
    "inStock",
];

/// The route of the database.
pub fn database_route() -> String {
    format!("/tablesdb/{DATABASE}")
}

/// The route of the table.
pub fn table_route() -> String {
    format!("/tablesdb/{DATABASE}/tables/{TABLE}")
}

/// The route of the table's rows.
pub fn rows_route() -> String {
    format!("{}/rows", table_route())
}

fn column(key: &str) -> Value {
    let (kind, limits) = match key {
        "category" => ("enum", json!({ "elements": CATEGORIES })),
        "price" => ("double", json!({ "min": 5, "max": 500 })),
        "stock" => ("integer", json!({ "min": 0, "max": 500 })),
        "rating" => ("double", json!({ "min": 2, "max": 5 })),
        "reviewCount" => ("integer", json!({ "min": 0, "max": 8_000 })),
        "manufacturerEmail" => ("email", json!({})),
        "manufacturerUrl" => ("url", json!({})),
        "releasedAt" => ("datetime", json!({})),
        "warehouseIp" => ("ip", json!({})),
        "inStock" => ("boolean", json!({})),
        _ => ("text", json!({})),
    };
    let array = key == "tags";
    let mut column = json!({ "key": key, "type": kind, "required": !array, "array": array });
    for (name, value) in limits.as_object().into_iter().flatten() {
        column[name] = value.clone();
    }
    column
}

/// The body that creates the table, with or without the index.
pub fn definition(indexed: bool) -> Value {
    // The rating comes last: the list is read in review order and tested inside the index.
    let index = json!({
        "key": INDEX,
        "type": "key",
        "attributes": ["category", "reviewCount", "rating"],
        "orders": ["ASC", "DESC", "ASC"],
    });
    json!({
        "tableId": TABLE,
        "name": "Products",
        "permissions": ["read(\"any\")"],
        "rowSecurity": false,
        "columns": COLUMNS.map(column),
        "indexes": if indexed { vec![index] } else { Vec::new() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_required_but_the_array() {
        let table = definition(true);
        let columns = table["columns"].as_array().unwrap();
        let required = columns
            .iter()
            .filter(|column| column["required"] == true)
            .count();
        assert_eq!((columns.len(), required), (15, 14));
        assert_eq!(columns[13]["array"], true);
        assert_eq!(columns[3]["elements"].as_array().unwrap().len(), 8);
        assert_eq!(columns[5]["max"], 500);
    }

    #[test]
    fn the_columns_are_the_generators() {
        let row = crate::seed::generator::Product::new(0).json();
        let row: serde_json::Map<String, Value> = serde_json::from_str(&row).unwrap();
        let mut keys: Vec<&str> = row.keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = COLUMNS.iter().copied().chain(["$id"]).collect();
        keys.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(keys, wanted);
    }
}
