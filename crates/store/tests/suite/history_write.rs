//! What the random histories write, as the store takes it.

use model::{Patch, Permission, Value};
use store::{Guard, RowAct, Stamps};
use testing::history::HistoryWrite;

/// A write of `kind`: of all `values`, or of those in `patch`. An insert grants `inserted`.
pub fn row_act(
    kind: HistoryWrite,
    values: Vec<Value>,
    patch: Patch,
    inserted: Vec<Permission>,
) -> RowAct {
    let (stamps, guard) = (Stamps::default(), Guard::Open);
    match kind {
        HistoryWrite::Insert => RowAct::Insert {
            values,
            permissions: inserted,
            stamps,
            guard,
        },
        HistoryWrite::Put => RowAct::Replace {
            values,
            permissions: None,
            guard,
        },
        HistoryWrite::Patch => RowAct::Put {
            patch,
            insert: Ok(values),
            permissions: None,
            insert_permissions: Vec::new(),
            stamps,
            guard,
        },
        HistoryWrite::Update | HistoryWrite::UpdateWhereDifferent => RowAct::Update {
            patch,
            permissions: None,
            stamps,
            guard,
        },
        HistoryWrite::Delete => RowAct::Delete { guard },
    }
}
