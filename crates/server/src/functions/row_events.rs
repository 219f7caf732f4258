//! Executions that changes of rows ask for.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{EngineError, EventRequest, ExecutionTrigger, QueuedRequest};
use model::{Function, ProjectId};

use super::execution::own_headers;
use super::running::RunningFunctions;
use crate::http::state::generated_ids::unique_id;

/// How often it is looked for changes, unless the last look has left some: each look that finds any
/// is a commit.
const ROUND: Duration = Duration::from_millis(200);
/// After a failure of the store, and while the queue of a project is full.
const PAUSE: Duration = Duration::from_secs(1);

/// Projects whose events wait apart from those of the rest, each until when.
type Pauses = HashMap<ProjectId, Instant>;

impl RunningFunctions {
    /// Queues executions as rows change.
    pub async fn follow_rows(&self) -> Infallible {
        let mut pauses = Pauses::new();
        loop {
            match self.queue_next_events(&mut pauses).await {
                Ok(true) => {}
                Ok(false) => tokio::time::sleep(ROUND).await,
                Err(error) => {
                    tracing::warn!(%error, "events of rows wait");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// One slice of the projects that go together, and one of each that is apart. Whether there may
    /// be more.
    async fn queue_next_events(&self, pauses: &mut Pauses) -> Result<bool, EngineError> {
        let Some((apart, mut has_more)) = self.queue_slice(None).await? else {
            return Ok(false);
        };
        pauses.retain(|project, _| apart.contains(project));
        for project in apart {
            let is_new = match pauses.get(&project) {
                Some(until) if *until > Instant::now() => continue,
                pause => pause.is_none(),
            };
            match self.queue_slice(Some(&project)).await {
                Ok(slice) => has_more |= slice.is_some_and(|(_, has_more)| has_more),
                Err(error) => {
                    if is_new {
                        let project = project.as_str();
                        tracing::warn!(project, %error, "the events of a project wait");
                    }
                    pauses.insert(project, Instant::now() + PAUSE);
                }
            }
        }
        Ok(has_more)
    }

    /// The projects that are apart, and whether there may be more; `None` where there are no
    /// events.
    async fn queue_slice(
        &self,
        of: Option<&ProjectId>,
    ) -> Result<Option<(Vec<ProjectId>, bool)>, EngineError> {
        let Some(slice) = self.engine().next_events(of).await? else {
            return Ok(None);
        };
        let requests = slice.requests.iter().map(|event| self.request_of(event));
        let requests = requests.collect::<Vec<_>>();
        let (apart, has_more) = (slice.apart.clone(), slice.has_more);
        let is_any = !requests.is_empty();
        self.engine().queue_events(slice, requests).await?;
        if is_any {
            self.queue().expect();
        }
        Ok(Some((apart, has_more)))
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
