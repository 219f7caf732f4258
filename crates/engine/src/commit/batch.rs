//! A batch as the writer takes it: operations of a caller under a catalogue.

use model::{Actor, Catalogue};
use store::{Op, SpaceLimit, WriteBatch};

use crate::request::inputs::Caller;

/// Operations that are done together, or not at all.
pub(crate) fn batch(catalogue: &Catalogue, caller: &Caller, ops: Vec<Op>) -> WriteBatch {
    WriteBatch {
        catalogue_epoch: catalogue.epoch,
        ops,
        author: author(caller),
        unchanged_since: None,
        meta: caller.meta.clone(),
        noted_in: None,
        space: SpaceLimit::Any,
    }
}

/// Who a commit's record names as its author. Of what comes out of an execution of a function it
/// says how deep that is: events of such a commit may execute functions again.
pub(crate) fn author(caller: &Caller) -> Option<String> {
    let function = caller.function.as_ref();
    let function = function.map(|function| format!("function:{}:{}", function.id, function.depth));
    match (&caller.actor, function) {
        (Actor::Key { id, .. }, None) => Some(format!("key:{id}")),
        (Actor::Key { id, .. }, Some(function)) => Some(format!("key:{id}:{function}")),
        (_, function) => function,
    }
}
