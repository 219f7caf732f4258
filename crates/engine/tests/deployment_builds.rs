//! Builds of deployments: the one that has waited the longest, one project after the other.

mod fixture;

use std::sync::Arc;

use engine::Engine;
use fixture::functions::{definition, send};
use fixture::{NEW_YEAR_US, TickingClock, furnish_for, key_of, open};
use futures_executor::block_on;
use model::{Function, FunctionId};

/// Builds the next deployment; its id.
fn build_next(engine: &Engine, last: &mut Option<Arc<Function>>) -> Option<String> {
    let build = block_on(engine.begin_build(last.as_deref())).unwrap()?;
    block_on(engine.end_build(&build, true, 1)).unwrap();
    *last = Some(build.function.clone());
    Some(build.deployment.id.to_string())
}

#[test]
fn a_project_with_many_deployments_does_not_hold_up_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    for project in ["p", "q"] {
        let key = key_of(project);
        furnish_for(&engine, &key);
        for id in ["f", "g"] {
            let id = FunctionId::new(id).unwrap();
            block_on(engine.create_function(&key, id, definition())).unwrap();
        }
    }
    for (project, function, id) in [
        ("p", "f", "p1"),
        ("p", "f", "p2"),
        ("p", "g", "p3"),
        ("p", "f", "p4"),
        ("q", "f", "q1"),
        ("q", "g", "q2"),
    ] {
        send(&engine, &key_of(project), function, id);
    }
    let mut last = None;
    let built: Vec<String> = std::iter::from_fn(|| build_next(&engine, &mut last)).collect();
    assert_eq!(built, ["p1", "q1", "p2", "q2", "p3", "p4"]);
}
