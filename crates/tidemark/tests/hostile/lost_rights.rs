//! What a guest goes on seeing of a row that he lost the right to: nothing, by whatever he
//! requested before: lists within a `ttl`, answers that may be kept under a name, open streams.

use serde_json::json;

use super::fixture::Fixture;
use testing::{Credentials, RawAnswer, RawClient, RequestLines};

const SECRET: &str = "what was shown once";

/// A way in which a guest loses the row: who sends what.
struct Loss {
    name: &'static str,
    /// What follows the path of the table.
    path: &'static str,
    method: &'static str,
    body: &'static str,
}

const LOSSES: &[Loss] = &[
    Loss {
        name: "the row grants no more",
        path: "/rows/r",
        method: "PATCH",
        body: r#"{"permissions":[]}"#,
    },
    Loss {
        name: "the row is put with grants for others",
        path: "/rows/r",
        method: "PUT",
        body: r#"{"data":{"s":"what was shown once"},"permissions":["read(\"user:u\")"]}"#,
    },
    Loss {
        name: "the row is deleted",
        path: "/rows/r",
        method: "DELETE",
        body: "",
    },
    Loss {
        name: "all rows are deleted",
        path: "/rows",
        method: "DELETE",
        body: r#"{"queries":[]}"#,
    },
    Loss {
        name: "rows grant no more at all",
        path: "",
        method: "PUT",
        body: r#"{"name":"T","permissions":[],"rowSecurity":false}"#,
    },
    Loss {
        name: "the table is disabled",
        path: "",
        method: "PUT",
        body: r#"{"name":"T","permissions":[],"rowSecurity":true,"enabled":false}"#,
    },
    Loss {
        name: "the table is deleted",
        path: "",
        method: "DELETE",
        body: "",
    },
];

/// A table of its own database, whose row a guest may read and write.
fn furnish(fixture: &mut Fixture, database: &str) -> String {
    let body = json!({"databaseId": database, "name": "L"}).to_string();
    fixture.make("POST", "/v1/tablesdb", &body);
    let tables = format!("/v1/tablesdb/{database}/tables");
    let table = json!({"tableId": "t", "name": "T", "rowSecurity": true,
        "columns": [{"key": "s", "type": "text"}, {"key": "n", "type": "integer"}]});
    fixture.make("POST", &tables, &table.to_string());
    let row = json!({"rowId": "r", "data": {"s": SECRET, "n": 0},
        "permissions": ["read(\"any\")", "update(\"any\")"]});
    fixture.make("POST", &format!("{tables}/t/rows"), &row.to_string());
    format!("{tables}/t")
}

/// A guest's write of this row, under one name each time.
fn named(client: &RawClient, table: &str) -> RawAnswer {
    let name = table.replace('/', "-");
    let body = r#"{"data":{"n":1}}"#;
    let more = format!(
        "Idempotency-Key: {name}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let head = client.head(
        Credentials::Guest,
        "PATCH",
        &format!("{table}/rows/r"),
        &more,
    );
    client.send(format!("{head}{body}").as_bytes()).unwrap()
}

/// What a guest is answered by each way.
fn ways(fixture: &mut Fixture, table: &str, lines: &mut RequestLines) -> Vec<(String, String)> {
    let documents = table
        .replace("tablesdb", "databases")
        .replace("/tables/", "/collections/");
    let mut told = Vec::new();
    for path in [
        format!("{table}/rows?ttl=86400"),
        format!("{table}/rows?ttl=1"),
        format!("{table}/rows?ttl=86400&total=false"),
        format!("{documents}/documents?ttl=86400"),
        format!("{table}/rows"),
        format!("{table}/rows/r"),
    ] {
        // The second is from the cache, the third what a thread remembers.
        for _ in 0..3 {
            let answer = fixture.client.ask(Credentials::Guest, "GET", &path, b"");
            told.push((path.clone(), answer.text));
        }
    }
    let query = br#"{"queries":[],"ttl":86400}"#;
    let path = format!("{table}/rows/query");
    let answer = fixture.client.ask(Credentials::Guest, "POST", &path, query);
    told.push((path, answer.text));
    let line = json!({"tableId": "t", "ids": ["r"]}).to_string();
    told.push(("a stream".to_owned(), lines.ask(&line).to_string()));
    told.push(("a name".to_owned(), named(&fixture.client, table).text));
    told
}

#[test]
fn lost_row_is_shown_by_no_list_no_kept_answer_and_no_stream() {
    let mut fixture = Fixture::new();
    for (nth, loss) in LOSSES.iter().enumerate() {
        let database = format!("lost{nth}");
        let table = furnish(&mut fixture, &database);
        let batch = format!("/v1/tidemark/databases/{database}/batch/reads");
        let mut lines = fixture.client.lines(Credentials::Guest, &batch);
        for (way, text) in ways(&mut fixture, &table, &mut lines) {
            assert!(text.contains(SECRET), "{way}: {text}");
        }
        let path = format!("{table}{}", loss.path);
        fixture.make(loss.method, &path, loss.body);
        for (way, text) in ways(&mut fixture, &table, &mut lines) {
            assert!(!text.contains(SECRET), "{}: {way}: {text}", loss.name);
        }
    }
    fixture.end();
}
