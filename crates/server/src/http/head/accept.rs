//! What a client says in `Accept`: how it wants instants written, and bytes.

use hyper::header::{ACCEPT, HeaderMap};

use crate::http::wire::InstantForm;
use crate::http::wire::error::ApiError;

/// The parameter of a media type that says so.
const PARAMETER: &str = "times";
/// Most characters of its value that a refusal repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// Whether the client names `multipart/form-data`, which can hold any bytes.
pub fn takes_form(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter();
    let mut ranges = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    ranges.any(|range| {
        let name = range.split(';').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("multipart/form-data")
    })
}

/// The first parameter `times` of `Accept`; `None` where there is none.
///
/// # Errors
/// A value that is neither `iso` nor `integer`.
pub fn instant_form(headers: &HeaderMap) -> Result<Option<InstantForm>, ApiError> {
    let lines = headers.get_all(ACCEPT).iter();
    // What is no text says nothing of it.
    let mut parts = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split([',', ';']));
    let said = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case(PARAMETER);
        is_it.then(|| value.trim().trim_matches('"'))
    });
    match said {
        None => Ok(None),
        Some(word) if word.eq_ignore_ascii_case("iso") => Ok(Some(InstantForm::Iso)),
        Some(word) if word.eq_ignore_ascii_case("integer") => Ok(Some(InstantForm::Integer)),
        Some(other) => {
            let other: String = other.chars().take(SHOWN_CHARS_MAX).collect();
            let why = format!("`{PARAMETER}` must be `iso` or `integer`, got `{other}`.");
            Err(ApiError::invalid("Accept", why))
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn said(lines: &[&str]) -> Result<Option<InstantForm>, ApiError> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT, HeaderValue::from_str(line).unwrap());
        }
        instant_form(&headers)
    }

    #[test]
    fn a_form_is_taken_where_it_is_named() {
        for (line, wanted) in [
            ("multipart/form-data", true),
            ("application/json, Multipart/Form-Data; q=0.5", true),
            ("application/json", false),
            ("*/*", false),
            ("multipart/*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(ACCEPT, HeaderValue::from_static(line));
            assert_eq!(takes_form(&headers), wanted, "{line}");
        }
    }

    #[test]
    fn the_form_of_instants_is_a_parameter_of_a_media_type() {
        for (line, form) in [
            ("*/*", None),
            ("application/json; charset=utf-8", None),
            ("application/json; times=iso", Some(InstantForm::Iso)),
            (
                "text/html, application/json;TIMES=\"Integer\";q=0.5",
                Some(InstantForm::Integer),
            ),
            (
                "application/json;times=iso, */*;times=integer",
                Some(InstantForm::Iso),
            ),
        ] {
            assert_eq!(said(&[line]).unwrap(), form, "{line}");
        }
        assert_eq!(said(&[]).unwrap(), None);
        let second = said(&["text/html", "application/json; times=integer"]);
        assert_eq!(second.unwrap(), Some(InstantForm::Integer));
        for line in ["a/b;times=", "a/b; times=unix", "a/b;times=iso8601"] {
            let refused = said(&[line]).unwrap_err();
            assert!(
                refused
                    .message(engine::Family::Tables)
                    .contains("`iso` or `integer`")
            );
        }
    }
}
