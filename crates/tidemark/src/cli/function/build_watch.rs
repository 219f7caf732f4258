//! Waits for the end of a build, and shows its log while it grows.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use super::log_text::{GrowingLog, harmless};
use super::routes::{FunctionRoutes, route_of, text};

/// How often a build is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The deployment when it is ready.
///
/// # Errors
/// When its build failed or was cancelled, or takes longer than `wait_max`.
pub async fn built(
    routes: &mut FunctionRoutes<'_>,
    (function, deployment): (&str, &str),
    wait_max: Duration,
) -> Result<Value> {
    let route = route_of(function, &format!("/deployments/{deployment}"));
    let began = Instant::now();
    let mut log = GrowingLog::default();
    let mut status = String::new();
    loop {
        let found = routes.read(&route, "reading the deployment").await?;
        let news = log.news(text(&found, "buildLogs"));
        if !news.is_empty() {
            eprint!("{}", harmless(&news));
            if !news.ends_with('\n') {
                eprintln!();
            }
        }
        let now = text(&found, "status");
        match now {
            "ready" => return Ok(found),
            "failed" => {
                bail!("the build of deployment {deployment} failed; its log is printed above")
            }
            "canceled" => bail!("the build of deployment {deployment} was cancelled"),
            _ if now != status => {
                eprintln!("Deployment {deployment}: {}", phase(now));
                now.clone_into(&mut status);
            }
            _ => {}
        }
        if began.elapsed() >= wait_max {
            bail!(
                "deployment {deployment} is not built after {} s, its status is `{status}`. The \
                 build goes on: the server makes the deployment active when it is ready",
                wait_max.as_secs()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn phase(status: &str) -> &str {
    match status {
        "waiting" => "waiting for its build",
        "processing" => "in the queue of builds",
        "building" => "being built",
        other => other,
    }
}
