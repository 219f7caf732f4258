//! What one execution costs others of its process.

use std::time::Duration;

use functions::jail::JailLevel;
use functions::{FunctionOutcome, RunCause};

use super::{Host, can, run};

#[test]
fn an_answer_is_not_held_back_by_a_handler_that_began_after_it() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let host = Host::new();
    let executor = host.executor(JailLevel::Full);
    let work = |path| host.work(&executor, "node", "neighbours.js", path);
    run(&executor, work("/warm"));
    let mut endless = work("/loop");
    endless.timeout = Duration::from_secs(1);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    // While the first is busy the process reads nothing, and then both of the others at once.
    let (busy, quick, endless) = runtime.unwrap().block_on(async {
        tokio::join!(
            executor.run(work("/busy")),
            executor.run(work("/quick")),
            executor.run(endless)
        )
    });
    let cause = |outcome: Result<FunctionOutcome, _>| outcome.unwrap().cause;
    assert_eq!(cause(endless), RunCause::TimedOut);
    assert_eq!(cause(busy), RunCause::Answered);
    assert_eq!(cause(quick), RunCause::Answered);
}
