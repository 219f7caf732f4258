//! Queries that name times: whether a list is of now, or of another time.

use query::{Ast, NamedTimes};

use crate::error::EngineError;

/// Queries that name times.
pub(crate) struct Timed {
    pub(crate) ast: Ast,
    pub(crate) times: NamedTimes,
}

/// The queries, if they name times. Texts without such a method, which is nearly all, are not read
/// for it.
pub(crate) fn timed(texts: &[String]) -> Result<Option<Timed>, EngineError> {
    let may_name = |text: &String| {
        let methods = ["asOf", "valid", "systemBetween", "versions"];
        methods.iter().any(|method| text.contains(method))
            // A method may be written with escapes.
            || text.contains('\\')
    };
    if !texts.iter().any(may_name) {
        return Ok(None);
    }
    let ast = query::parse(texts)?;
    let times = query::named_times(&ast)?;
    Ok(times.map(|times| Timed { ast, times }))
}
