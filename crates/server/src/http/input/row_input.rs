//! Rows as requests send them: those of lists, and those inside other rows.

use engine::RowInput;
use model::{Json, RowId};

use super::context::Sender;
use super::fields::Fields;
use super::inner_row_ids::name_inner_rows;
use crate::http::head::query_string::QueryString;
use crate::http::state::generated_ids::UNIQUE;
use crate::http::wire::error::ApiError;

/// Most rows one request may create or upsert (wire protocol, limits).
pub(in crate::http) const ROWS_MAX: usize = 100;

pub(in crate::http) fn name_inner(sender: Sender<'_>, members: &mut [(String, Json)]) {
    name_inner_rows(members, sender.shared.clock.now(), sender.shared.rng);
}

/// The valid period of a deletion, as row data would name it: from the body, or else from the
/// query string.
pub(in crate::http) fn period(query: &QueryString, fields: &mut Fields) -> Vec<(String, Json)> {
    let sent = [
        ("$validFrom", &query.valid_from),
        ("$validTo", &query.valid_to),
    ];
    let named = sent.into_iter().filter_map(|(key, in_query)| {
        let in_query = || in_query.clone().map(Json::Text);
        let json = fields.take(key).or_else(in_query)?;
        Some((key.to_owned(), json))
    });
    named.collect()
}

/// # Errors
/// A period beside `data`, where no write looks for it.
pub(in crate::http) fn need_no_period(fields: &Fields) -> Result<(), ApiError> {
    let mut named = ["$validFrom", "$validTo"].into_iter();
    match named.find(|key| fields.holds(key)) {
        Some(key) => {
            let why = format!("`{key}` is a member of `data`, not of the body.");
            Err(ApiError::invalid(key, why))
        }
        None => Ok(()),
    }
}

/// One of several rows. Its grants stay among its members, where the engine looks for them.
pub(in crate::http) fn inner_row(
    sender: Sender<'_>,
    mut row: Fields,
) -> Result<RowInput, ApiError> {
    let id = match row.take("$id") {
        None => UNIQUE.to_owned(),
        Some(Json::Text(id)) => id,
        Some(other) => {
            let why = format!("`$id` must be a string, got {}.", other.kind());
            return Err(ApiError::invalid(sender.words.rows, why));
        }
    };
    let id = sender.id(sender.words.rows, &id, RowId::new)?;
    Ok(RowInput {
        id,
        members: row.rest(),
        permissions: None,
    })
}
