//! Points read by the engine inside this process: what remains without HTTP.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use engine::{Caller, Clock, Engine, EngineError, Family, ListRows, Place, RowAnswer, View};
use model::{Actor, KeyId, ProjectId, RowId, Scope};
use server::http::wire;
use server::offline::offline_engine;

use super::drive::Driven;
use super::figure::Tally;
use super::filled::{Filled, Shape, as_of_query, row_of};
use super::objects;
use crate::run::Sample;

/// Turns of each.
const SLICES: u32 = 10;

/// `count` points now and as many of the past, in turns, of the data directory of a server that
/// has ended.
///
/// # Errors
/// When it cannot be opened, or a row is not there.
pub fn points(
    directory: &Path,
    project: &str,
    filled: &Filled,
    count: u32,
    clock: &Arc<dyn Clock>,
) -> Result<[Tally; 2]> {
    let engine = Engine::open(offline_engine(directory.into()), clock.clone())?;
    let scopes: Arc<[Scope]> = Scope::ALL.into();
    let caller = Caller {
        project: ProjectId::new(project)?,
        actor: Actor::Key {
            id: KeyId::new("bench")?,
            scopes,
        },
        request: None,
        meta: None,
        function: None,
    };
    let (database, table) = objects::place(filled.shape.table);
    let place = Place { database, table };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.context("no runtime")?;
    let mut tallies: [Tally; 2] = Default::default();
    let each = count.div_ceil(SLICES).max(1);
    // The first turn fills the page cache.
    for slice in 0..=SLICES {
        for (is_past, tally) in [false, true].into_iter().zip(&mut tallies) {
            let mut samples = Vec::new();
            let mut ended = Duration::ZERO;
            for nth in slice * each..(slice + 1) * each {
                let id = RowId::new(&Shape::id(row_of(filled.shape, nth)))?;
                let instant = filled.past(nth).1;
                let texts: Vec<String> = is_past
                    .then(|| as_of_query(instant).to_string())
                    .into_iter()
                    .collect();
                let list = ListRows {
                    place,
                    texts: &texts,
                    total: false,
                    ttl_s: 0,
                    bypass: true,
                    family: Family::Tables,
                };
                let before = Instant::now();
                let is_there = runtime.block_on(async {
                    let body = match engine.get_row(&caller, &list, &id, View::CURRENT).await? {
                        RowAnswer::AtTimes(read) => return Ok(!read.rows.is_empty()),
                        RowAnswer::Page(read) => wire::encode_page(&read.answer, Family::Tables),
                    };
                    Ok::<_, EngineError>(!body.is_empty())
                })?;
                let took = before.elapsed();
                ensure!(is_there, "row {nth} is not there");
                ended += took;
                samples.push(Sample { ended, took });
            }
            if slice > 0 {
                tally.add(Driven::of_one(samples, each, ended));
            }
        }
    }
    engine.close()?;
    Ok(tallies)
}
