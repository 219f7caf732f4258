use super::*;

const TEXT: &str = r#"{
  "format": "tidemark-schema-1",
  "databases": [
    {
      "id": "shop",
      "name": "Shop",
      "tables": [
        {
          "id": "orders",
          "name": "Orders",
          "permissions": ["read(\"any\")"],
          "rowSecurity": true,
          "constraints": {"unique":[["number"]],"refs":[]},
          "columns": [
            {"key":"number","type":"integer","min":1,"required":true},
            {"key":"buyer","type":"relationship","relatedTable":"people","relationType":"manyToOne","twoWayKey":"orders","onDelete":"restrict"}
          ],
          "indexes": [
            {"key":"by_number","type":"key","columns":["number"],"orders":["DESC"]}
          ]
        },
        {
          "id": "people",
          "name": "People",
          "enabled": false,
          "permissions": [],
          "rowSecurity": false,
          "columns": [],
          "indexes": []
        }
      ]
    }
  ]
}
"#;

#[test]
fn text_of_a_parsed_file_is_the_file() {
    assert_eq!(SchemaFile::parse(TEXT).unwrap().text(), TEXT);
}

#[test]
fn parsed_file_is_in_the_form_that_servers_show() {
    let text = r#"{"format": "tidemark-schema-1", "databases": [{"id": "d", "name": "D", "tables": [
        {"id": "t", "name": "T", "permissions": ["write(\"any\")"],
         "options": {"history": "days(07)", "past": "keys", "pinnedMaxAge": 0, "ttlMax": 9},
         "columns": [
            {"key": "f", "type": "float", "max": 3, "default": 1},
            {"key": "i", "type": "integer", "min": -9223372036854775808},
            {"key": "d", "type": "datetime", "default": "2020-01-01"},
            {"key": "l", "type": "relationship", "relatedTable": "t", "relationType": "oneToOne"}],
         "indexes": [{"key": "k", "type": "key", "columns": ["f"], "orders": ["asc"]}]}]}]}"#;
    let table = &SchemaFile::parse(text).unwrap().databases[0].tables[0];
    let shown = serde_json::to_string(&table.columns).unwrap();
    assert_eq!(
        shown,
        r#"[{"key":"f","type":"float","max":3.0,"default":1.0},{"key":"i","type":"integer"},{"key":"d","type":"datetime","default":"2020-01-01T00:00:00.000+00:00"},{"key":"l","type":"relationship","relatedTable":"t","relationType":"oneToOne","onDelete":"restrict"}]"#
    );
    let actions = ["create", "update", "delete"].map(|action| format!("{action}(\"any\")"));
    assert_eq!(table.permissions, actions);
    assert!(table.indexes[0].orders.is_empty());
    assert_eq!(table.options.as_ref().unwrap().history, "days(7)");
}

#[track_caller]
fn refused(from: &str, to: &str, wanted: &str) {
    let text = TEXT.replacen(from, to, 1);
    assert_ne!(text, TEXT, "`{from}` is not in the text");
    let error = format!("{:#}", SchemaFile::parse(&text).unwrap_err());
    assert!(error.contains(wanted), "`{wanted}` is not in: {error}");
}

#[test]
fn file_of_another_form_is_refused_with_its_line() {
    refused(
        "schema-1",
        "schema-2",
        "`format` is \"tidemark-schema-2\"; this version reads \"tidemark-schema-1\"",
    );
    refused("\"format\"", "\"form\"", "`format` is missing");
    refused("\"min\"", "\"least\"", "unknown field `least`");
    refused("\"min\"", "\"least\"", "line 15");
    refused("\"min\":1,", "\"min\":1", "line 15 column");
    refused(
        "\"rowSecurity\": true",
        "\"rowSecurity\": 1",
        "expected a boolean at line 12",
    );
    refused("\"key\":\"number\",", "", "missing field `key` at line 15");
    refused("\"min\":1", "\"min\":1,\"min\":2", "duplicate field `min`");
}

#[test]
fn column_that_a_server_would_refuse_is_refused_with_its_path() {
    let number = "database `shop`: table `orders`: column `number`: ";
    let buyer = "database `shop`: table `orders`: column `buyer`: ";
    for (from, to, path, wanted) in [
        (
            "\"integer\"",
            "\"int\"",
            number,
            "`type` is `int`; expected one of boolean, bigint",
        ),
        (
            "\"integer\"",
            "\"text\"",
            number,
            "`min` does not belong to the type text, but to integer",
        ),
        (
            "\"min\":1",
            "\"size\":1",
            number,
            "`size` does not belong to the type integer",
        ),
        (
            "\"manyToOne\"",
            "\"many\"",
            buyer,
            "`relationType` is `many`; expected oneToOne,",
        ),
        (
            "\"restrict\"",
            "\"no\"",
            buyer,
            "`onDelete` is `no`; expected restrict, cascade or setNull",
        ),
        (
            "\"people\",\"rel",
            "\"men\",\"rel",
            buyer,
            "`relatedTable`: the file has no table `men`",
        ),
        (
            "\"relatedTable\":\"people\",",
            "",
            buyer,
            "a relationship needs `relatedTable`",
        ),
        (
            "\"twoWayKey\":",
            "\"array\":true,\"twoWayKey\":",
            buyer,
            "`array` does not belong",
        ),
        (
            "\"twoWayKey\":\"o",
            "\"twoWayKey\":\"/",
            buyer,
            "`twoWayKey`: ",
        ),
    ] {
        refused(from, to, &format!("{path}{wanted}"));
    }
}

#[test]
fn index_that_a_server_would_refuse_is_refused_with_its_path() {
    let index = "database `shop`: table `orders`: index `by_number`: ";
    refused(
        "\"DESC\"",
        "\"DESC\",\"ASC\"",
        &format!("{index}`orders` has 2 items; expected 1"),
    );
    refused(
        "[\"number\"],\"orders",
        "[\"buyer\"],\"orders",
        &format!("{index}the relationship `buyer` cannot be indexed"),
    );
}

#[test]
fn table_that_a_server_would_refuse_is_refused_with_its_path() {
    let orders = "database `shop`: table `orders`: ";
    for (from, to, wanted) in [
        (
            "\"min\":1",
            "\"min\":1.5",
            "min and max must be 64-bit integers",
        ),
        (
            "[\"number\"],\"orders",
            "[\"none\"],\"orders",
            "names the unknown column `none`",
        ),
        ("\"DESC\"", "\"UP\"", "order `UP` is neither ASC nor DESC"),
        (
            "\"type\":\"key\"",
            "\"type\":\"hash\"",
            "index `by_number` has the unknown type `hash`",
        ),
        ("read(", "see(", "action `see` is not one of read"),
        (
            "[[\"number\"]]",
            "[[\"none\"]]",
            "`constraints`: the table has no column `none`",
        ),
        (
            "\"refs\":[]",
            "\"refs\":[{\"column\":\"number\",\"table\":\"none\"}]",
            "`constraints`: `refs`: the file has no table `none`",
        ),
        (
            "\"name\": \"Orders\"",
            "\"name\": \"\"",
            "expected 1 to 128 characters",
        ),
    ] {
        let text = TEXT.replacen(from, to, 1);
        let error = format!("{:#}", SchemaFile::parse(&text).unwrap_err());
        assert!(
            error.starts_with(orders) && error.contains(wanted),
            "{error}"
        );
    }
}

#[test]
fn options_that_a_server_would_refuse_are_refused_with_their_path() {
    let orders = "database `shop`: table `orders`: ";
    let options = |text: &str, wanted: &str| {
        let with = format!("\"options\": {text},\n          \"constraints\"");
        refused(
            "\"constraints\"",
            &with,
            &format!("{orders}`options`: {wanted}"),
        );
    };
    options(
        r#"{"history": "days(0)", "past": "keys", "pinnedMaxAge": 0, "ttlMax": 0}"#,
        "`history` is `days(0)`; expected keep, days(N) or none",
    );
    options(
        r#"{"history": "keep", "past": "all", "pinnedMaxAge": 0, "ttlMax": 0}"#,
        "`past` is `all`; expected keys, both or now",
    );
    options(
        r#"{"history": "keep", "past": "keys", "pinnedMaxAge": -1, "ttlMax": 0}"#,
        "`pinnedMaxAge` is -1; expected 0 to 31536000",
    );
}

#[test]
fn file_that_names_one_thing_twice_is_refused() {
    refused(
        "\"columns\": []",
        "\"columns\": [{\"key\":\"Orders\",\"type\":\"text\"}]",
        "database `shop`: table `people`: the column `orders` is there twice",
    );
    refused(
        "\"id\": \"people\"",
        "\"id\": \"orders\"",
        "database `shop`: the table `orders`",
    );
    refused(
        "\"id\": \"people\"",
        "\"id\": \"a\\nb\"",
        "the file has no table `people`",
    );
}
