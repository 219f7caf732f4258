//! Who gets an answer that was kept under an `Idempotency-Key`: the API key that made it, as long
//! as it may write rows, and no other caller.

use super::fixture::Fixture;
use testing::{Credentials, RawAnswer, RawClient};

const ROW: &str = "/v1/tablesdb/kept/tables/t/rows/r";
const COUNT: &str = "/v1/tablesdb/kept/tables/t/rows/r/n/increment";

/// A table whose rows any caller may count, for which they have to be read.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.make(
        "POST",
        "/v1/tablesdb",
        r#"{"databaseId":"kept","name":"K"}"#,
    );
    let table = r#"{"tableId":"t","name":"T","permissions":["read(\"any\")","update(\"any\")"],
        "columns":[{"key":"n","type":"integer"}]}"#;
    fixture.make("POST", "/v1/tablesdb/kept/tables", table);
    let row = r#"{"rowId":"r","data":{"n":0}}"#;
    fixture.make("POST", "/v1/tablesdb/kept/tables/t/rows", row);
    fixture
}

/// Counts the row up under this name, on a connection of its own.
fn count(client: &RawClient, who: Credentials, name: &str) -> RawAnswer {
    let more = format!("Idempotency-Key: {name}\r\nContent-Length: 2\r\n");
    let head = client.head(who, "PATCH", COUNT, &more);
    client.send(format!("{head}{{}}").as_bytes()).unwrap()
}

fn n(fixture: &mut Fixture) -> i64 {
    fixture.make("GET", ROW, "").json()["n"].as_i64().unwrap()
}

#[test]
fn a_kept_answer_goes_to_the_key_that_made_it_and_to_no_other_caller() {
    let mut fixture = fixture();
    let (first, second) = (fixture.new_key("rows.write"), fixture.new_key("rows.write"));
    let reader = fixture.new_key("rows.read");
    let guest = fixture.new_key("rows.read");
    // Each line asks under the one name, and says how often the row was counted in all.
    let cases = [
        ("the key that makes it", &first, Credentials::Key, "200", 1),
        ("the same key", &first, Credentials::Key, "200", 1),
        ("another key", &second, Credentials::Key, "200", 2),
        ("the other key again", &second, Credentials::Key, "200", 2),
        (
            "a key that may not write",
            &reader,
            Credentials::Key,
            "401 general_unauthorized_scope",
            2,
        ),
        ("a guest", &guest, Credentials::Guest, "200", 3),
        (
            "another guest",
            &guest,
            Credentials::Guest,
            "409 general_idempotency_key_reused",
            3,
        ),
        ("the first key still", &first, Credentials::Key, "200", 3),
    ];
    let mut answers = Vec::new();
    for (case, client, who, outcome, counted) in cases {
        let answer = count(client, who, "one");
        assert_eq!(answer.outcome(), outcome, "{case}: {answer:?}");
        assert_eq!(n(&mut fixture), counted, "{case}");
        answers.push(answer.text);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[2], answers[3]);
    assert_eq!(answers[0], answers[7]);
    assert_ne!(answers[0], answers[2]);
    // The answer to the second guest shows nothing of the row.
    assert!(!answers[6].contains("$sequence"), "{}", answers[6]);
    fixture.end();
}

#[test]
fn a_guest_without_the_grant_learns_nothing_by_a_name_that_was_used() {
    let mut fixture = fixture();
    let client = fixture.new_key("rows.write");
    assert_eq!(count(&client, Credentials::Guest, "g").outcome(), "200");
    assert_eq!(count(&client, Credentials::Key, "k").outcome(), "200");
    let closed = r#"{"permissions":[]}"#;
    fixture.make("PUT", "/v1/tablesdb/kept/tables/t", closed);
    for name in ["g", "k", "unused"] {
        let refused = count(&client, Credentials::Guest, name);
        assert_eq!(
            refused.outcome(),
            "401 user_unauthorized",
            "{name}: {refused:?}"
        );
    }
    fixture.end();
}
