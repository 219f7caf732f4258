//! A server that is asked to stop finishes what it acknowledged, and takes nothing half.

use anyhow::{Result, ensure};
use serde_json::json;
use tests::{Server, call, furnish};

const ROWS: &str = "/tablesdb/d/tables/t/rows";

#[tokio::test]
async fn acknowledged_writes_before_a_stop_are_there_after_it() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = Server::start(directory.path(), &[])?;
    furnish(&server).await?;
    let access = server.access().clone();
    let mut client = server.connect().await?;
    let writer = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for n in 0.. {
            let id = format!("r{n}");
            let body = json!({"rowId": id, "data": {"n": n}});
            match call(&mut client, &access, "POST", ROWS, Some(&body)).await {
                Ok(answer) if answer.status == 201 => acknowledged.push(id),
                // Refused or cut off: the stop has begun.
                _ => break,
            }
        }
        acknowledged
    });
    let mut watcher = server.connect().await?;
    let access = server.access().clone();
    loop {
        let answer = call(&mut watcher, &access, "GET", ROWS, None).await?;
        if answer.accepted("listing")?["total"].as_u64() >= Some(20) {
            break;
        }
    }
    server.stop()?;
    let acknowledged = writer.await?;
    let server = Server::start(directory.path(), &[])?;
    let mut client = server.connect().await?;
    for id in acknowledged {
        let route = format!("{ROWS}/{id}");
        let answer = call(&mut client, server.access(), "GET", &route, None).await?;
        answer.accepted(&format!("reading {id}"))?;
    }
    server.stop()
}

#[tokio::test]
async fn a_second_server_on_the_same_directory_is_refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = Server::start(directory.path(), &[])?;
    let second = std::process::Command::new(tests::binary()?)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(directory.path().join("data"))
        .output()?;
    let said = String::from_utf8_lossy(&second.stderr);
    ensure!(
        second.status.code() == Some(1),
        "status {:?}: {said}",
        second.status
    );
    ensure!(said.contains("holds the data directory"), "{said}");
    server.stop()
}
