//! Rows as requests send them: those of lists, and those inside other rows.

use engine::RowInput;
use model::{Json, RowId};

use super::error::ApiError;
use super::extract::Sender;
use super::fields::Fields;
use super::relationships::name_inner_rows;
use super::unique::UNIQUE;

/// Most rows one request may create or upsert (wire protocol, limits).
pub(super) const ROWS_MAX: usize = 100;

pub(super) fn name_inner(sender: Sender<'_>, members: &mut [(String, Json)]) {
    name_inner_rows(members, sender.shared.clock.now(), sender.shared.rng);
}

/// One of several rows. Its grants stay among its members, where the engine looks for them.
pub(super) fn inner_row(sender: Sender<'_>, mut row: Fields) -> Result<RowInput, ApiError> {
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
