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
        write_found(&mut object, result, words);
        object.close();
    });
    object.close();
    out
}

/// The same of one part, as a line. `mark` is unknown where nothing could be read.
pub fn found_line(
    mark: Option<Mark>,
    result: &Result<BatchPart, ApiError>,
    words: &Words,
    out: &mut Vec<u8>,
) {
    let mut object = Object::open(out);
    if let (Some(mark), Ok(_)) = (mark, result) {
        object.number("mark", mark.0);
    }
    write_found(&mut object, result, words);
    object.close();
    out.push(b'\n');
}

fn write_found(object: &mut Object<'_>, result: &Result<BatchPart, ApiError>, words: &Words) {
    let part = match result {
        Ok(part) => part,
        Err(refusal) => return write_refusal(object, refusal, words),
    };
    if let Some(at) = part.at {
        object.number("asOf", at.system.0);
        object.number("validAt", at.valid.0);
    }
    object.array("rows", &part.places, |place, out| match place {
        Some(at) => encode_one(&part.page, (*at, &part.page.rows[*at]), words, out),
        None => out.extend_from_slice(b"null"),
    });
}

/// The marks of what was written, `null` for each that changed nothing.
pub fn batch_written(results: &[Result<Option<Mark>, ApiError>], words: &Words) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::open(&mut out);
    object.array("results", results, |result, out| {
        let mut object = Object::open(out);
        write_mark(&mut object, result, words);
        object.close();
    });
    object.close();
    out
}

/// The same of one operation, as a line.
pub fn written_line(result: &Result<Option<Mark>, ApiError>, words: &Words, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    write_mark(&mut object, result, words);
    object.close();
    out.push(b'\n');
}

/// Why no more lines are answered.
pub fn refused_line(refusal: &ApiError, words: &Words, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    write_refusal(&mut object, refusal, words);
    object.close();
    out.push(b'\n');
}

fn write_mark(object: &mut Object<'_>, result: &Result<Option<Mark>, ApiError>, words: &Words) {
    match result {
        Ok(Some(mark)) => object.number("mark", mark.0),
        Ok(None) => object.raw("mark", b"null"),
        Err(refusal) => write_refusal(object, refusal, words),
    }
}

fn write_refusal(object: &mut Object<'_>, refusal: &ApiError, words: &Words) {
    let family = words.family();
    let kind = refusal.kind;
    let body = error(
        &refusal.message(family),
        kind.status(),
        kind.name(family),
        None,
    );
    object.raw("error", &body);
}
