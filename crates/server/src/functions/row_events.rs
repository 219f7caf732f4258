//! Executions that changes of rows ask for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use engine::{EngineError, EventRequest, ExecutionTrigger, QueuedRequest};
use model::Function;

use super::execution::own_headers;
use super::running::RunningFunctions;
use crate::http::state::generated_ids::unique_id;

/// How often it is looked for changes, unless the last look has left some: each look that finds any
/// is a commit.
const ROUND: Duration = Duration::from_millis(200);
/// After a failure of the store, and while the queue is full.
const PAUSE: Duration = Duration::from_secs(1);

impl RunningFunctions {
    /// Queues executions as rows change.
    pub async fn follow_rows(&self) -> Infallible {
        loop {
            match self.queue_next_events().await {
                Ok(true) => {}
                Ok(false) => tokio::time::sleep(ROUND).await,
                Err(error) => {
                    tracing::warn!(%error, "events of rows wait");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Whether there may be more.
    async fn queue_next_events(&self) -> Result<bool, EngineError> {
        let Some(slice) = self.engine().next_events().await? else {
            return Ok(false);
        };
        let requests = slice.requests.iter().map(|event| self.request_of(event));
        let requests = requests.collect::<Vec<_>>();
        let has_more = slice.has_more;
        self.engine().queue_events(slice, requests).await?;
        self.queue().expect();
        Ok(has_more)
    }

    fn request_of(&self, event: &EventRequest) -> (Arc<Function>, QueuedRequest) {
        let trigger = ExecutionTrigger::Event;
        let id = unique_id(self.engine().now(), self.rng());
        let mut headers = own_headers(&id, trigger, "");
        headers.push(("x-appwrite-event".to_owned(), event.event.clone()));
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        let request = QueuedRequest {
            id,
            trigger,
            due: None,
            method: "POST".to_owned(),
            path: "/".to_owned(),
            headers,
            body: event.row.clone(),
            depth: event.depth,
        };
        (event.function.clone(), request)
    }
}
