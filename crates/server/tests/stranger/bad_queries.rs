//! Query texts that no list understands, and how they are refused.

use server::http::error::Kind;

use super::bad::ARGUMENT;

const QUERY: &[Kind] = &[Kind::QueryInvalid];

/// Query texts that no list of rows understands.
pub fn row_queries() -> Vec<(String, &'static [Kind])> {
    let mut texts: Vec<(String, &'static [Kind])> = Vec::new();
    let mut add = |text: &str, refused| texts.push((text.to_owned(), refused));
    for text in NO_QUERY {
        add(text, QUERY);
    }
    add(
        r#"{"method":"cursorAfter","values":["nobody"]}"#,
        &[Kind::CursorNotFound],
    );
    add(
        &format!(
            r#"{{"method":"equal","attribute":"s","values":["{}"]}}"#,
            "x".repeat(4_097)
        ),
        ARGUMENT,
    );
    add(
        &format!(
            r#"{{"method":"equal","attribute":"n","values":[{}]}}"#,
            vec!["1"; 501].join(",")
        ),
        QUERY,
    );
    for depth in [18, 100] {
        add(&nested_or(depth), QUERY);
    }
    add(
        &format!("{}{}", "[".repeat(2_000), "]".repeat(2_000)),
        QUERY,
    );
    texts
}

const NO_QUERY: &[&str] = &[
    "",
    " ",
    "limit(1)",
    "[]",
    "{}",
    "5",
    "null",
    "{",
    r#"{"method":"limit","values":[1]} x"#,
    r#"{"method":5}"#,
    r#"{"method":null}"#,
    r#"{"method":"fly"}"#,
    r#"{"method":"regex","attribute":"s","values":["("]}"#,
    r#"{"method":"regex","attribute":"s","values":["a{1000000}"]}"#,
    r#"{"method":"regex","attribute":"s","values":["(?<=a)b"]}"#,
    r#"{"method":"regex","attribute":"s","values":["(a)\\1"]}"#,
    r#"{"method":"regex","attribute":"s","values":["\u0000"]}"#,
    r#"{"method":"regex","attribute":"s","values":["(((((((((((a{99}){99}){99}){99}){99}){99}){99}){99}){99}){99})"]}"#,
    r#"{"method":"regex","attribute":"s","values":["a","b"]}"#,
    r#"{"method":"regex","attribute":"n","values":["1"]}"#,
    r#"{"method":"search","attribute":"s","values":["x"]}"#,
    r#"{"method":"search","attribute":"n","values":["x"]}"#,
    r#"{"method":"search","attribute":"s","values":["\" OR *:* NEAR("]}"#,
    r#"{"method":"equal","attribute":5,"values":[1]}"#,
    r#"{"method":"equal","attribute":"n","values":"x"}"#,
    r#"{"method":"equal","attribute":"n","values":{"0":1}}"#,
    r#"{"method":"equal","values":[1]}"#,
    r#"{"method":"equal","attribute":"n","values":[]}"#,
    r#"{"method":"equal","attribute":"n","values":[null]}"#,
    r#"{"method":"equal","attribute":"n","values":["1"]}"#,
    r#"{"method":"equal","attribute":"n","values":[1.5]}"#,
    r#"{"method":"equal","attribute":"n","values":[[1]]}"#,
    r#"{"method":"equal","attribute":"n","values":[{}]}"#,
    r#"{"method":"equal","attribute":"n","values":[9223372036854775808]}"#,
    r#"{"method":"greaterThan","attribute":"n","values":[-9223372036854775809]}"#,
    r#"{"method":"equal","attribute":"s","values":[5]}"#,
    r#"{"method":"equal","attribute":"s","values":["a\u0000"]}"#,
    r#"{"method":"equal","attribute":"s","values":["\ud800"]}"#,
    r#"{"method":"equal","attribute":"f","values":[1e400]}"#,
    r#"{"method":"equal","attribute":"b","values":[1]}"#,
    r#"{"method":"equal","attribute":"at","values":["never"]}"#,
    r#"{"method":"equal","attribute":"nobody","values":[1]}"#,
    r#"{"method":"equal","attribute":"","values":[1]}"#,
    r#"{"method":"equal","attribute":"n\u0000","values":[1]}"#,
    r#"{"method":"equal","attribute":"c1","values":[1]}"#,
    r#"{"method":"equal","attribute":"n) OR 1=1 --","values":[1]}"#,
    r#"{"method":"orderAsc","attribute":"n; DROP TABLE t"}"#,
    r#"{"method":"orderAsc","attribute":"nobody"}"#,
    r#"{"method":"select","values":["nobody"]}"#,
    r#"{"method":"select","values":["*; DROP TABLE t"]}"#,
    r#"{"method":"select","values":[5]}"#,
    r#"{"method":"select","values":[]}"#,
    r#"{"method":"limit","values":[0]}"#,
    r#"{"method":"limit","values":[-1]}"#,
    r#"{"method":"limit","values":[1.5]}"#,
    r#"{"method":"limit","values":["1"]}"#,
    r#"{"method":"limit"}"#,
    r#"{"method":"limit","values":[9223372036854775808]}"#,
    r#"{"method":"offset","values":[-1]}"#,
    r#"{"method":"offset","values":[null]}"#,
    r#"{"method":"cursorAfter","values":[5]}"#,
    r#"{"method":"cursorAfter","values":[]}"#,
    r#"{"method":"cursorAfter","values":["_x"]}"#,
    r#"{"method":"cursorAfter","values":["a\u0000"]}"#,
    r#"{"method":"cursorBefore","values":["' OR 1=1 --"]}"#,
    r#"{"method":"or","values":[]}"#,
    r#"{"method":"and","values":[5]}"#,
    r#"{"method":"or","values":[{"method":"limit","values":[1]},{"method":"limit","values":[1]}]}"#,
    r#"{"method":"or","values":["{\"method\":\"isNull\",\"attribute\":\"n\"}","x"]}"#,
    r#"{"method":"between","attribute":"n","values":[1]}"#,
    r#"{"method":"between","attribute":"n","values":[1,2,3]}"#,
    r#"{"method":"startsWith","attribute":"n","values":["a"]}"#,
    r#"{"method":"contains","attribute":"n","values":[1]}"#,
];

/// Query texts that no list of databases, tables, columns or indexes understands.
pub const NO_CONTAINER_QUERY: &[&str] = &[
    "",
    "limit(1)",
    "[]",
    "{}",
    "5",
    r#"{"method":"fly"}"#,
    r#"{"method":"limit","values":[0]}"#,
    r#"{"method":"limit","values":[-1]}"#,
    r#"{"method":"limit","values":[9223372036854775808]}"#,
    r#"{"method":"offset","values":[-1]}"#,
    r#"{"method":"limit","values":["1"]}"#,
    r#"{"method":"equal","attribute":"nobody","values":["x"]}"#,
    r#"{"method":"equal","attribute":"name\u0000","values":["x"]}"#,
    r#"{"method":"equal","attribute":"name) OR 1=1 --","values":["x"]}"#,
    r#"{"method":"equal","attribute":"name","values":[]}"#,
    r#"{"method":"or","values":[5]}"#,
];

/// `or` inside each other, `depth` times.
fn nested_or(depth: usize) -> String {
    let open = r#"{"method":"or","values":["#.repeat(depth);
    let inner = r#"{"method":"isNull","attribute":"n"},{"method":"isNull","attribute":"n"}"#;
    format!("{open}{inner}{}", "]}".repeat(depth))
}
