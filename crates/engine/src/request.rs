//! Who asks for what, and whether they may.

pub(crate) mod attempt;
pub(crate) mod authorize;
pub(crate) mod callers;
pub(crate) mod inputs;
pub(crate) mod named_times;
pub(crate) mod past;
pub(crate) mod times;
pub(crate) mod turn;
