//! Reading rows: now, at other times, cached or not.

pub(crate) mod batch_read;
pub(crate) mod coordinates;
pub(crate) mod erased;
pub(crate) mod explained;
pub(crate) mod export;
pub(crate) mod hit_audit;
pub(crate) mod offload;
pub(crate) mod pinned;
pub(crate) mod prepared;
pub(crate) mod related;
pub(crate) mod related_plan;
pub(crate) mod rows;
pub(crate) mod view;
