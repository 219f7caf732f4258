//! What was acknowledged is there after `kill -9`, whole; what was not is there whole or not at
//! all.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use tests::ledger::Ledger;
use tests::{Server, furnish};

const KILLS: usize = 20;

#[tokio::test]
async fn acknowledged_writes_survive_twenty_kills_under_32_writers() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let ledger = Arc::<Ledger>::default();
    let mut server = Arc::new(Server::start(directory.path(), &[])?);
    furnish(&server).await?;
    ledger.furnish(&server).await?;
    for round in 0..KILLS {
        let writers = ledger.start(&server, round);
        ledger.grow(&writers, 150 + round * 7).await?;
        server.kill()?;
        writers.finish().await?;
        drop(server);
        server = Arc::new(Server::start(directory.path(), &[])?);
        let checked = ledger.check(&server).await;
        checked.with_context(|| format!("after kill {round}"))?;
    }
    let server = Arc::into_inner(server).context("the writers are done")?;
    server.stop()
}
