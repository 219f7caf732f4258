//! What must hold over valid time, judged against all that is known when a batch has run.

pub(crate) mod constrain;
