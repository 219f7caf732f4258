//! Query texts to an AST.

use model::Json;

use crate::ast::{Ast, Call, Method, is_not_offered};
use crate::error::QueryError;
use crate::json;

/// Most queries of one request (wire protocol, 1.4).
pub const QUERIES_MAX: usize = 100;
/// Longest query text, in characters (wire protocol, 1.4).
pub const QUERY_CHARS_MAX: usize = 4_096;
/// Deepest nesting of `or` and `and` inside each other. The wire protocol states none.
pub const NESTING_MAX: usize = 16;
/// Most of a client's own word that a message repeats, in characters.
const ECHO_CHARS_MAX: usize = 100;

/// Reads the queries of one request.
///
/// # Errors
/// [`QueryError::TooLarge`] beyond [`QUERIES_MAX`] or [`QUERY_CHARS_MAX`],
/// [`QueryError::NotJson`] and [`QueryError::Syntax`] for a text that is no query object,
/// [`QueryError::Invalid`] for a method that is not offered and for nesting beyond
/// [`NESTING_MAX`].
pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Ast, QueryError> {
    if texts.len() > QUERIES_MAX {
        return Err(QueryError::TooLarge(format!(
            "At most {QUERIES_MAX} queries are allowed, got {}.",
            texts.len()
        )));
    }
    let texts = texts.iter().map(AsRef::as_ref).enumerate();
    let calls: Result<_, _> = texts.map(|(nth, text)| parse_one(nth, text)).collect();
    Ok(Ast { calls: calls? })
}

fn parse_one(nth: usize, text: &str) -> Result<Call, QueryError> {
    // Bytes first: a text of few bytes needs no counting.
    if text.len() > QUERY_CHARS_MAX && text.chars().count() > QUERY_CHARS_MAX {
        return Err(QueryError::TooLarge(format!(
            "A query may be at most {QUERY_CHARS_MAX} characters long."
        )));
    }
    match json::read(text.as_bytes()) {
        Ok(json) => call(json, 0),
        Err(why) => Err(QueryError::NotJson(format!(
            "`queries[{nth}]` is not JSON: {why}. A query is an object with `method`, \
             `attribute` and `values`"
        ))),
    }
}

/// The call that `json` describes, inside `depth` others.
fn call(json: Json, depth: usize) -> Result<Call, QueryError> {
    let kind = json.kind();
    let Json::Object(members) = json else {
        return Err(QueryError::Syntax(format!(
            "A query must be an object, got {kind}"
        )));
    };
    let (mut method, mut attribute, mut values) = (Json::Null, Json::Null, Json::Null);
    for (key, value) in members {
        match key.as_str() {
            "method" => method = value,
            "attribute" => attribute = value,
            "values" => values = value,
            unknown => {
                return Err(QueryError::Invalid(format!(
                    "A query has the members `method`, `attribute` and `values`, and no `{}`",
                    echo(unknown)
                )));
            }
        }
    }
    let method = read_method(&method)?;
    let attribute = read_attribute(attribute)?;
    let values = read_values(values)?;
    let (values, inner) = match method {
        Method::Or | Method::And => (Vec::new(), read_inner(method, values, depth)?),
        _ => (values, Vec::new()),
    };
    Ok(Call {
        method,
        attribute,
        values,
        inner,
    })
}

fn read_method(json: &Json) -> Result<Method, QueryError> {
    let Json::Text(text) = json else {
        return Err(QueryError::Syntax(format!(
            "Query method is invalid: it must be a string, got {}",
            json.kind()
        )));
    };
    if let Some(method) = Method::parse(text) {
        return Ok(method);
    }
    Err(QueryError::Invalid(match text.as_str() {
        known if is_not_offered(known) => format!("Method `{known}` is not supported here"),
        _ => format!("Query method is invalid: {}", echo(text)),
    }))
}

fn read_attribute(json: Json) -> Result<Option<String>, QueryError> {
    match json {
        Json::Null => Ok(None),
        Json::Text(text) => Ok(Some(text)),
        other => Err(QueryError::Syntax(format!(
            "Query attribute is invalid: it must be a string, got {}",
            other.kind()
        ))),
    }
}

fn read_values(json: Json) -> Result<Vec<Json>, QueryError> {
    match json {
        Json::Null => Ok(Vec::new()),
        Json::List(values) => Ok(values),
        other => Err(QueryError::Syntax(format!(
            "Query values are invalid: they must be an array, got {}",
            other.kind()
        ))),
    }
}

fn read_inner(method: Method, values: Vec<Json>, depth: usize) -> Result<Vec<Call>, QueryError> {
    if depth == NESTING_MAX {
        return Err(QueryError::Invalid(format!(
            "At most {NESTING_MAX} queries `or` and `and` may stand inside each other, and `{}` \
             is one more",
            method.as_str()
        )));
    }
    values
        .into_iter()
        .map(|value| call(value, depth + 1))
        .collect()
}

/// A client's own word, cut for a message.
pub(crate) fn echo(text: &str) -> String {
    text.chars().take(ECHO_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_refused(texts: &[&str], expected: &str) {
        let error = parse(texts).expect_err("the queries are refused");
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn malformed_query_objects_say_why() {
        for (text, expected) in [
            ("limit(1)", "Invalid query: Syntax error"),
            ("", "Invalid query: Syntax error"),
            ("{} x", "Invalid query: Syntax error"),
            ("[]", "Invalid query: A query must be an object, got array"),
            ("{}", "Invalid query: Query method is invalid: it must be"),
            (
                r#"{"method":1}"#,
                "Invalid query: Query method is invalid: it must be a string, got integer",
            ),
            (
                r#"{"method":"fly"}"#,
                "Invalid query: Query method is invalid: fly",
            ),
            (
                r#"{"method":"limit","values":1}"#,
                "Invalid query: Query values are invalid: they must be an array, got integer",
            ),
            (
                r#"{"method":"equal","column":"a","values":[1]}"#,
                "Invalid query: A query has the members `method`, `attribute` and `values`, and \
                 no `column`",
            ),
            (
                r#"{"method":"isNull","attribute":[]}"#,
                "Invalid query: Query attribute is invalid: it must be a string, got array",
            ),
            (
                r#"{"method":"or","values":["{}"]}"#,
                "Invalid query: A query must be an object, got string",
            ),
        ] {
            check_refused(&[text], expected);
        }
    }

    #[test]
    fn refusal_of_a_text_that_is_not_json_names_text_place_and_reason() {
        let good = r#"{"method":"limit","values":[1]}"#;
        for (texts, expected) in [
            (
                vec!["{bad"],
                "`queries[0]` is not JSON: key must be a string at line 1, column 2.",
            ),
            (
                vec![good, "limit(1)"],
                "`queries[1]` is not JSON: expected value at line 1, column 1.",
            ),
            (
                vec![good, good, "{}\n x"],
                "`queries[2]` is not JSON: trailing characters at line 2",
            ),
            (
                vec![&good[..8]],
                "`queries[0]` is not JSON: EOF while parsing a string at line 1",
            ),
        ] {
            let refused = parse(&texts).unwrap_err();
            let detail = refused.detail().unwrap_or_default();
            assert!(detail.starts_with(expected), "{detail}");
        }
        assert_eq!(
            parse(&["[]"]).unwrap_err().detail(),
            None,
            "its message says it"
        );
    }

    #[test]
    fn methods_that_exist_elsewhere_are_called_unsupported() {
        for method in ["vectorDot", "groupBy", "elemMatch"] {
            let text = format!(r#"{{"method":"{method}"}}"#);
            let expected = format!("Invalid query: Method `{method}` is not supported here");
            check_refused(&[&text], &expected);
        }
    }

    #[test]
    fn a_hundred_queries_of_4096_characters_are_the_limit() {
        let padded = |chars: usize| {
            let frame = r#"{"method":"isNull","attribute":""}"#;
            let name = "é".repeat(chars - frame.len());
            frame.replace("\"\"}", &format!("\"{name}\"}}"))
        };
        let longest = padded(QUERY_CHARS_MAX);
        assert_eq!(longest.chars().count(), QUERY_CHARS_MAX);
        assert_eq!(parse(&vec![longest; 100]).unwrap().calls.len(), 100);
        check_refused(
            &[&padded(QUERY_CHARS_MAX + 1)],
            "A query may be at most 4096",
        );
        check_refused(
            &[r#"{"method":"limit"}"#; 101],
            "At most 100 queries are allowed",
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let open = r#"{"method":"or","values":["#.repeat(depth);
            format!("{open}{}", "]}".repeat(depth))
        };
        assert!(parse(&[nested(NESTING_MAX)]).is_ok());
        check_refused(
            &[&nested(NESTING_MAX + 1)],
            "Invalid query: At most 16 queries `or` and `and`",
        );
    }

    #[test]
    fn every_method_has_one_name() {
        for method in Method::ALL {
            assert_eq!(Method::parse(method.as_str()), Some(*method));
            assert!(!is_not_offered(method.as_str()));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = parse(&[text]);
        }

        #[test]
        fn any_object_is_read_or_refused(
            method in "(or|and|equal|limit|select|x)",
            members in "[\\[\\]{}\":,a-z0-9]{0,40}",
        ) {
            let _ = parse(&[format!(r#"{{"method":"{method}","values":[{members}]}}"#)]);
        }
    }
}
