//! `tidemark options` and `tidemark explain`: one table of a server that runs.

mod process;

use process::{Folder, assert_refused, json_of, on, text};
use serde_json::{Value, json};
use testing::ChildServer;

fn books(folder: &Folder) -> ChildServer {
    let server = process::start(folder);
    let make = |route: &str, body: Value| {
        let made = server.call("POST", route, &body);
        assert!(made["code"].is_null(), "{made}");
    };
    make("/tablesdb", json!({"databaseId": "shop", "name": "Shop"}));
    make(
        "/tablesdb/shop/tables",
        json!({"tableId": "books", "name": "Books", "columns": [
            {"key": "genre", "type": "varchar", "size": 40}, {"key": "year", "type": "integer"}],
            "indexes": [{"key": "by_year", "type": "key", "attributes": ["year"]}]}),
    );
    server
}

#[test]
fn options_are_shown_set_and_refused_where_versions_would_be_lost() {
    let folder = Folder::new();
    let server = books(&folder);
    let shown = json_of(&on(&folder, "options shop books --json"));
    assert_eq!(
        shown,
        json!({"history": "keep", "past": "keys", "pinnedMaxAge": 0, "ttlMax": 86_400,
            "keptFrom": null})
    );
    let shown = json_of(&on(
        &folder,
        "options shop books --ttl-max 60 --past both --json",
    ));
    assert_eq!(
        (&shown["ttlMax"], &shown["past"]),
        (&json!(60), &json!("both"))
    );
    let less = "options shop books --history days(30)";
    let refused = on(&folder, less);
    assert_refused(
        &refused,
        1,
        "older versions of rows would be lost: history keep -> days(30)",
    );
    let shown = json_of(&on(&folder, "options shop books --json"));
    assert_eq!(shown["history"], "keep");
    let set = on(&folder, &format!("{less} --allow-data-loss"));
    assert!(
        text(&set.stdout).starts_with("history       days(30) "),
        "{set:?}"
    );
    let more = on(&folder, "options shop books --history days(31)");
    assert!(more.status.success(), "{more:?}");
    assert_refused(&on(&folder, "options shop books --past all"), 1, "`past`");
    assert_refused(&on(&folder, "options shop none"), 1, "table_not_found");
    server.stop().unwrap();
}

#[test]
fn explain_names_the_index_that_would_help() {
    let folder = Folder::new();
    let server = books(&folder);
    let genre = r#"{"method":"equal","attribute":"genre","values":["a&b#"]}"#;
    let latest = r#"{"method":"orderDesc","attribute":"year"}"#;
    let found = on(&folder, &format!("explain shop books {genre} {latest}"));
    let printed = text(&found.stdout);
    assert!(
        printed.starts_with(r#"query   equal("genre") orderDesc("year")"#),
        "{found:?}"
    );
    let better = "better  one over (genre, year DESC) would lead to these rows\n";
    assert!(printed.contains(better), "{printed}");
    let found = text(&on(&folder, &format!("explain shop books {latest}")).stdout);
    let index = "index   `by_year`, which gives the rows in their order\n";
    assert!(
        found.contains(index) && found.contains("USING INDEX by_year"),
        "{found}"
    );
    let found = json_of(&on(&folder, "explain shop books --json"));
    assert_eq!(found["wantedIndex"], Value::Null, "{found}");
    assert_refused(
        &on(&folder, "explain shop books equal(genre)"),
        1,
        "(general_query_invalid): `queries[0]` is not JSON: expected value at line 1, column 1.",
    );
    server.stop().unwrap();
}
