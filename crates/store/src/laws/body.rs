//! The columns of a row as readers copy them.

use model::{Table, Value};

use crate::EncodeRow;

/// Rows whose encoded columns are larger keep no body: copying it would no longer be cheaper
/// than encoding the columns (design page, section 3).
pub(crate) const BODY_BYTES_MAX: usize = 16 << 10;

/// What is kept of a row for its readers. Rows of a table with an encrypted column keep none: it
/// would hold its values.
pub(crate) fn body_to_keep(
    encode_row: EncodeRow,
    table: &Table,
    values: &[Value],
) -> Option<Box<[u8]>> {
    if table.columns.iter().any(|column| column.encrypt) {
        return None;
    }
    let mut body = Vec::with_capacity(512);
    encode_row(table, values, &mut body);
    (body.len() <= BODY_BYTES_MAX).then(|| body.into_boxed_slice())
}
