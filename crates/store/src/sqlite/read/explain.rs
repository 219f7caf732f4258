//! How SQLite finds the rows of a list, in the words of the schema.

use query::emit;
use query::{Dialect, Query};

use super::{Limit, PLANNED_HERE_MAX, Reader, Readers, Step, bind};
use crate::StoreError;
use crate::plan_words::{STEPS_MAX, translated, words};

impl Readers {
    /// What [`crate::StoreReads::explain`] promises. Plans without reading, on the calling thread.
    pub(in crate::sqlite) fn explain(&self, query: &Query) -> Result<Vec<String>, StoreError> {
        let shared = &self.shared;
        let limit = Limit::Short(std::time::Duration::MAX, shared.stop_after());
        // From where in the order the rows come changes nothing about how they are found.
        let query = Query {
            cursor: None,
            ..query.clone()
        };
        let steps = shared.with_reader(limit, |reader| reader.plan(&query));
        steps.map_err(|halt| shared.explain(halt))
    }
}

impl Reader {
    fn plan(&self, query: &Query) -> Step<Vec<String>> {
        let statement = emit::rows(query, None, Dialect::Sqlite);
        let sql = format!("EXPLAIN QUERY PLAN {}", statement.sql);
        if sql.len() > PLANNED_HERE_MAX {
            return Ok(Vec::new());
        }
        let mut prepared = self.prepare(&sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let words = words(&query.table);
        let mut steps = Vec::new();
        while let Some(row) = found.next()? {
            if steps.len() < STEPS_MAX {
                let detail: String = row.get("detail")?;
                steps.push(translated(&detail, &words));
            }
        }
        Ok(steps)
    }
}
