//! What became of the parts of a request that reads or writes many rows.

use engine::BatchPart;
use model::Mark;

use super::object::Object;
use super::{Words, encode_one, error};
use crate::http::error::ApiError;

/// Rows that were read, or `null` for each that is not there, by the parts of the request.
pub fn batch_read(mark: Mark, results: &[Result<BatchPart, ApiError>], words: &Words) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::open(&mut out);
    object.number("mark", mark.0);
    object.array("results", results, |result, out| {
        let mut object = Object::open(out);
        match result {
            Ok(part) => object.array("rows", &part.places, |place, out| match place {
                Some(at) => encode_one(&part.page, (*at, &part.page.rows[*at]), words, out),
                None => out.extend_from_slice(b"null"),
            }),
            Err(refusal) => write_refusal(&mut object, refusal, words),
        }
        object.close();
    });
    object.close();
    out
}

/// The marks of what was written, `null` for each that changed nothing.
pub fn batch_written(results: &[Result<Option<Mark>, ApiError>], words: &Words) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::open(&mut out);
    object.array("results", results, |result, out| {
        let mut object = Object::open(out);
        match result {
            Ok(Some(mark)) => object.number("mark", mark.0),
            Ok(None) => object.raw("mark", b"null"),
            Err(refusal) => write_refusal(&mut object, refusal, words),
        }
        object.close();
    });
    object.close();
    out
}

fn write_refusal(object: &mut Object<'_>, refusal: &ApiError, words: &Words) {
    let family = words.family();
    let kind = refusal.kind;
    let body = error(&refusal.message(family), kind.status(), kind.name(family));
    object.raw("error", &body);
}
