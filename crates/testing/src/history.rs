//! Random histories of one row, and the oracle that says what is believed of it: the model's tests
//! play them in memory, the store's on the store.

mod grid;
mod sequence;

pub use grid::{GridArea, GridPiece};
pub use grid::{HistoryGrid, instants};
pub use sequence::{
    HistoryDoc, HistoryEnd, HistoryOp, HistoryTransaction, HistoryWrite, MARK_MAX, SetColumns,
    moved_ends, transactions,
};
