//! What became of the parts of a request that reads or writes many rows.

use engine::BatchPart;
use model::Mark;

use super::object::Object;
use super::{Wording, Words, encode_one, error_body};
use crate::http::wire::error::ApiError;

/// Bytes of the rows that are shown.
pub fn size_bytes(results: &[Result<BatchPart, ApiError>]) -> usize {
    results.iter().flatten().map(BatchPart::size_bytes).sum()
}

/// Room for all of it: what grows by being moved takes twice its memory, and more than its time.
fn room_for(results: &[Result<BatchPart, ApiError>]) -> Vec<u8> {
    /// Of a row with its system fields, or an element without any.
    const SYSTEM_BYTES: usize = 240;
    /// Of a part that was refused.
    const REFUSAL_BYTES: usize = 512;
    let of_parts = results.iter().map(|result| match result {
        Ok(part) => (1 + part.places.len()) * SYSTEM_BYTES,
        Err(_) => REFUSAL_BYTES,
    });
    let around: usize = of_parts.sum();
    Vec::with_capacity(size_bytes(results) + around + SYSTEM_BYTES)
}

/// Rows that were read, or `null` for each that is not there, by the parts of the request.
pub fn batch_read(
    mark: Mark,
    results: &[Result<BatchPart, ApiError>],
    wording: Wording<'_>,
) -> Vec<u8> {
    let mut out = room_for(results);
    let mut object = Object::open(&mut out);
    object.number("mark", mark.0);
    object.array("results", results, |result, out| {
        let mut object = Object::open(out);
        write_found(&mut object, result, wording);
        object.close();
    });
    object.close();
    out
}

/// The same of each part, as a line. `mark` is unknown where nothing could be read.
pub fn found_lines(
    mark: Option<Mark>,
    results: &[Result<BatchPart, ApiError>],
    wording: Wording<'_>,
) -> Vec<u8> {
    let mut out = room_for(results);
    for result in results {
        found_line(mark, result, wording, &mut out);
    }
    out
}

fn found_line(
    mark: Option<Mark>,
    result: &Result<BatchPart, ApiError>,
    wording: Wording<'_>,
    out: &mut Vec<u8>,
) {
    let mut object = Object::open(out);
    if let (Some(mark), Ok(_)) = (mark, result) {
        object.number("mark", mark.0);
    }
    write_found(&mut object, result, wording);
    object.close();
    out.push(b'\n');
}

fn write_found(
    object: &mut Object<'_>,
    result: &Result<BatchPart, ApiError>,
    wording: Wording<'_>,
) {
    let part = match result {
        Ok(part) => part,
        Err(refusal) => return write_refusal(object, refusal, wording.0),
    };
    if let Some(at) = part.at {
        let (_, form) = wording;
        form.write(object, "asOf", Some(at.system.timestamp()));
        form.write(object, "validAt", Some(at.valid));
    }
    if part.is_erased {
        object.flag("erased", true);
    }
    object.array("rows", &part.places, |place, out| match place {
        Some(at) => encode_one(&part.page, (*at, &part.page.rows[*at]), wording, out),
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
    let body = error_body(
        &refusal.message(family),
        kind.status(),
        kind.name(family),
        None,
        &[],
    );
    object.raw("error", &body);
}
