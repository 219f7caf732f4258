//! What can be wrong about what is said of functions.

use server::http::wire::error::Kind;

use super::bad_values::{ARGUMENT, Group, NO_INTEGER, NO_LIST, NO_TEXT, list_of, text_of};
use super::routes::OfFunction;

const UNSUPPORTED: &[Kind] = &[Kind::FeatureUnsupported];
const NO_TEXTS: &[&str] = &["[5]", "[null]", "[[]]", "[true]", "[{}]"];
const NUL: &[&str] = &[r#""a\u0000""#];

/// What can be written down.
pub fn written(takes: OfFunction) -> Vec<Group> {
    let of_text = |wrong: &'static [&str]| vec![(NO_TEXT, ARGUMENT), (wrong, ARGUMENT)];
    match takes {
        OfFunction::Execute | OfFunction::Events | OfFunction::Scopes => {
            vec![
                (NO_LIST, ARGUMENT),
                (NO_TEXTS, ARGUMENT),
                wrong_element(takes),
            ]
        }
        OfFunction::Runtime => of_text(&[
            r#""""#,
            r#""node""#,
            r#""node-20.0.0""#,
            r#""NODE-20.0""#,
            r#""node-20.0\u0000""#,
            r#""../node-20.0""#,
            r#""cobol-1""#,
        ]),
        OfFunction::Schedule => of_text(&[
            r#"" ""#,
            r#""*""#,
            r#""* * * *""#,
            r#""* * * * * *""#,
            r#""60 * * * *""#,
            r#""* * * * 99999999999999999999""#,
            r#""*/0 * * * *""#,
            r#""1-0 * * * *""#,
            r#""@reboot""#,
            r#""é * * * *""#,
            r#""* * * * *\u0000""#,
        ]),
        OfFunction::Number(..) => vec![(NO_INTEGER, ARGUMENT), (&["-1"], ARGUMENT)],
        OfFunction::Text(_) => of_text(NUL),
        OfFunction::Specification => of_text(&[
            r#""""#,
            r#""shared-1""#,
            r#""s-1vcpu-1tb""#,
            r#""s-0vcpu-512mb""#,
            r#""s-1vcpu-1mb""#,
            r#""s-1vcpu-99999999999gb""#,
            r#""s-nanvcpu-512mb""#,
            r#""s-1vcpu-512mb\u0000""#,
        ]),
        OfFunction::Network => of_text(&[r#""""#, r#""all""#, r#""None""#, r#""none\u0000""#]),
        OfFunction::VariableKey => of_text(&[r#""""#, r#""A=B""#, r#""=""#, r#""A\u0000""#]),
    }
}

/// Lists with an element that is none.
fn wrong_element(takes: OfFunction) -> Group {
    match takes {
        OfFunction::Execute => (
            &[
                r#"[""]"#,
                r#"["nobody"]"#,
                r#"["user"]"#,
                r#"["user:"]"#,
                r#"["user:_x"]"#,
                r#"["any:x"]"#,
                r#"["read(\"any\")"]"#,
                r#"["any\u0000"]"#,
                r#"["any","any'; DROP TABLE function_; --"]"#,
            ],
            ARGUMENT,
        ),
        OfFunction::Events => (
            &[
                r#"[""]"#,
                r#"["*"]"#,
                r#"["users.*.create"]"#,
                r#"["databases.d.tables.t.rows.r.upsert"]"#,
                r#"["databases.d.tables.t.rows.r.create.x"]"#,
                r#"["databases.d\u0000"]"#,
                r#"["databases.d","databases.d.create"]"#,
            ],
            UNSUPPORTED,
        ),
        _ => (
            &[
                r#"[""]"#,
                r#"["rows"]"#,
                r#"["rows.admire"]"#,
                r#"["ROWS.READ"]"#,
                r#"["rows.read\u0000"]"#,
            ],
            ARGUMENT,
        ),
    }
}

/// What is too long, too much, or just beyond.
pub fn built(takes: OfFunction) -> Vec<(String, &'static [Kind])> {
    let many = |element: &str| list_of(101, |_| element.to_owned());
    match takes {
        OfFunction::Execute => vec![
            (list_of(101, |n| format!("\"user:u{n}\"")), ARGUMENT),
            (format!("[{}]", text_of(100_000)), ARGUMENT),
        ],
        OfFunction::Events => vec![
            (many(r#""databases.d""#), ARGUMENT),
            (
                format!("[\"databases.{}\"]", "x".repeat(100_000)),
                UNSUPPORTED,
            ),
            (format!("[\"{}\"]", ".".repeat(100_000)), UNSUPPORTED),
        ],
        OfFunction::Scopes => vec![(many(r#""rows.read""#), ARGUMENT)],
        OfFunction::Schedule => {
            let long = format!("\"{}1 * * * *\"", "1,".repeat(100_000));
            vec![(text_of(129), ARGUMENT), (long, ARGUMENT)]
        }
        OfFunction::Number(min, max) => vec![
            ((min - 1).to_string(), ARGUMENT),
            ((max + 1).to_string(), ARGUMENT),
            (i64::MAX.to_string(), ARGUMENT),
        ],
        OfFunction::Text(chars_max) => vec![
            (text_of(chars_max + 1), ARGUMENT),
            (text_of(100_000), ARGUMENT),
        ],
        OfFunction::VariableKey => vec![(text_of(256), ARGUMENT)],
        OfFunction::Runtime | OfFunction::Specification | OfFunction::Network => {
            vec![(text_of(100_000), ARGUMENT)]
        }
    }
}
