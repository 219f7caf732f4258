//! Query strings: which parameters there are, and how clients write them.

use std::borrow::Cow;

use crate::http::wire::error::ApiError;

/// Most queries of a request (wire protocol, query-string and body encoding).
pub const QUERIES_MAX: usize = 100;

/// The parameters that some route takes from the query string; others are ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryString {
    /// `project`, which wins over the header.
    pub project: Option<String>,
    /// `queries[0]=…`, `queries[1]=…` or `queries[]=…`, in the order of their numbers.
    pub queries: Vec<String>,
    /// `total`
    pub total: Option<String>,
    /// `ttl`
    pub ttl: Option<String>,
    /// `search`
    pub search: Option<String>,
    /// `transactionId`
    pub transaction: Option<String>,
    /// `permissions`
    pub permissions: Option<String>,
    /// `$validFrom`
    pub valid_from: Option<String>,
    /// `$validTo`
    pub valid_to: Option<String>,
}

/// A query with its number.
type Numbered = Vec<(u32, String)>;

impl QueryString {
    /// Reads what follows the question mark.
    ///
    /// # Errors
    /// A parameter whose value is not UTF-8; more than [`QUERIES_MAX`] queries, or a number in
    /// brackets that is none.
    pub fn parse(raw: &str) -> Result<QueryString, ApiError> {
        let mut parsed = QueryString::default();
        let mut queries = Numbered::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A name that is not UTF-8 is none of ours.
            let Some(name) = decode(name) else { continue };
            match &*name {
                "project" => parsed.project = Some(text("project", value)?),
                "total" => parsed.total = Some(text("total", value)?),
                "ttl" => parsed.ttl = Some(text("ttl", value)?),
                "search" => parsed.search = Some(text("search", value)?),
                "transactionId" => parsed.transaction = Some(text("transactionId", value)?),
                "$validFrom" => parsed.valid_from = Some(text("$validFrom", value)?),
                "$validTo" => parsed.valid_to = Some(text("$validTo", value)?),
                "permissions" => parsed.permissions = Some(text("permissions", value)?),
                other => {
                    if let Some(brackets) = other.strip_prefix("queries") {
                        add_query(&mut queries, brackets, value)?;
                    }
                }
            }
        }
        // Nearly always in order already, which costs one pass.
        queries.sort_by_key(|(number, _)| *number);
        parsed.queries = queries.into_iter().map(|(_, query)| query).collect();
        Ok(parsed)
    }
}

/// A parameter of one route alone: the last of this name, as it was written.
pub fn parameter<'q>(raw: &'q str, name: &str) -> Option<&'q str> {
    let pairs = raw.rsplit('&').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(known, _)| *known == name);
    named.next().map(|(_, value)| value)
}

/// Adds the query that stood at `queries[n]`, or at `queries[]`, which means one after the
/// highest number so far. Of two with one number the later counts.
fn add_query(queries: &mut Numbered, brackets: &str, value: &str) -> Result<(), ApiError> {
    let Some(inside) = brackets
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    else {
        // A bare `queries` is not how arrays are sent; `queriesX` is another parameter.
        let refusal = || ApiError::invalid("queries", "Write an array as queries[0]=…");
        return if brackets.is_empty() {
            Err(refusal())
        } else {
            Ok(())
        };
    };
    let next = queries
        .iter()
        .map(|(number, _)| number + 1)
        .max()
        .unwrap_or(0);
    let number = if inside.is_empty() {
        Some(next)
    } else {
        inside.parse().ok()
    };
    let Some(number) = number.filter(|number| *number < u32::MAX) else {
        let why = format!("`queries[{}]` has no number.", inside.escape_default());
        return Err(ApiError::invalid("queries", why));
    };
    let query = text("queries", value)?;
    match queries.iter().position(|(known, _)| *known == number) {
        Some(position) => queries[position].1 = query,
        None if queries.len() >= QUERIES_MAX => return Err(too_many_queries()),
        None => queries.push((number, query)),
    }
    Ok(())
}

/// The refusal of more than [`QUERIES_MAX`] queries.
pub fn too_many_queries() -> ApiError {
    ApiError::invalid(
        "queries",
        format!("At most {QUERIES_MAX} queries are allowed."),
    )
}

fn text(name: &'static str, value: &str) -> Result<String, ApiError> {
    let decoded = decode(value).ok_or_else(|| ApiError::invalid(name, "Value must be UTF-8."))?;
    Ok(decoded.into_owned())
}

/// Undoes form encoding: `+` is a space, `%xx` a byte. `None` when the bytes are not UTF-8.
fn decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.bytes().any(|byte| matches!(byte, b'+' | b'%')) {
        return Some(Cow::Borrowed(raw));
    }
    // One allocation and one pass for each text: lists are asked with several, and the decoder of
    // the library, an iterator, took a tenth of what the server does for a list by a key.
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes().iter();
    while let Some(byte) = rest.next().copied() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => match escaped(rest.as_slice()) {
                Some(escaped) => {
                    rest.nth(1); // Its digits.
                    escaped
                }
                None => b'%',
            },
            other => other,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The byte whose two hexadecimal digits come first.
fn escaped(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else { return None };
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    Some((value(high)? << 4 | value(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::wire::error::Kind;

    #[track_caller]
    fn check(raw: &str, queries: &[&str]) {
        assert_eq!(QueryString::parse(raw).unwrap().queries, queries, "{raw}");
    }

    #[track_caller]
    fn refuses(raw: &str) {
        let error = QueryString::parse(raw).unwrap_err();
        assert_eq!(error.kind, Kind::ArgumentInvalid, "{raw}");
    }

    #[test]
    fn queries_come_in_the_order_of_their_numbers() {
        check("", &[]);
        check("queries[0]=a&queries[1]=b", &["a", "b"]);
        check("queries%5B0%5D=a&queries%5B1%5D=b", &["a", "b"]);
        check("queries[1]=b&queries[0]=a", &["a", "b"]);
        check("queries[]=a&queries[]=b", &["a", "b"]);
        check("queries[5]=a&queries[]=b", &["a", "b"]);
        check("queries[0]=a&queries[0]=b", &["b"]);
        check("queriesX=%ff&x=y&&queries[0]=a=b", &["a=b"]);
    }

    #[test]
    fn values_are_decoded_as_forms_are() {
        check("queries[0]=a+b%2Bc%26d%c3%a9", &["a b+c&dé"]);
        check("queries[0]=50%", &["50%"]);
        check(
            "queries[0]=%4&queries[1]=%zz%+1%%34%2541",
            &["%4", "%zz% 1%4%41"],
        );
        check("queries[0]=%+f%C3%A9", &["% fé"]);
        check("queries[0]", &[""]);
    }

    #[test]
    fn known_parameters_are_kept_and_unknown_ones_ignored() {
        let parsed = QueryString::parse(
            "project=p&ttl=5&total=false&search=a+b&transactionId=t&x=%ff&%24validTo=next",
        );
        let wanted = QueryString {
            project: Some("p".into()),
            queries: vec![],
            total: Some("false".into()),
            ttl: Some("5".into()),
            search: Some("a b".into()),
            transaction: Some("t".into()),
            permissions: None,
            valid_from: None,
            valid_to: Some("next".into()),
        };
        assert_eq!(parsed.unwrap(), wanted);
    }

    #[test]
    fn ambiguous_query_strings_are_refused() {
        for raw in [
            "queries=a",
            "queries[x]=a",
            "queries[-1]=a",
            "queries[4294967295]=a",
        ] {
            refuses(raw);
        }
        for raw in ["queries[0]=%ff", "ttl=%ff", "project=%c3"] {
            refuses(raw);
        }
    }

    #[test]
    fn a_hundred_queries_are_taken_and_one_more_is_not() {
        let string = |count: usize| {
            (0..count)
                .map(|n| format!("queries[{n}]=q"))
                .collect::<Vec<_>>()
                .join("&")
        };
        assert_eq!(QueryString::parse(&string(100)).unwrap().queries.len(), 100);
        refuses(&string(101));
    }
}
