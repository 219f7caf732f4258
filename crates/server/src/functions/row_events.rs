//! Executions that changes of rows ask for.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{EngineError, EventRequest, ExecutionTrigger, QueuedRequest};
use model::{Function, Mark, ProjectId};

use super::execution::own_headers;
use super::running::RunningFunctions;
use crate::http::state::generated_ids::unique_id;

/// How often it is looked for changes, unless the last look has left some: each look that finds any
/// is a commit.
const ROUND: Duration = Duration::from_millis(200);
/// After a failure of the store, and while the queue of a project is full.
const PAUSE: Duration = Duration::from_secs(1);

/// Projects whose events wait apart from those of the rest.
type Pauses = HashMap<ProjectId, EventPause>;

/// The events of a project wait for a while.
struct EventPause {
    until: Instant,
    /// The first commit that waits.
    first: Option<Mark>,
}

/// What a look at the changes has come to.
struct EventLook {
    apart: Vec<ProjectId>,
    first: Option<Mark>,
    has_more: bool,
    queued: Result<(), EngineError>,
}

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
        let Some(look) = self.queue_slice(None).await? else {
            pauses.clear();
            self.counts().events_wait(0, Duration::ZERO);
            return Ok(false);
        };
        pauses.retain(|project, _| look.apart.contains(project));
        let waiting = look.apart.len();
        let (mut first, mut has_more) = (look.first, look.has_more);
        for project in look.apart {
            let pause = pauses.get(&project);
            if let Some(pause) = pause.filter(|pause| pause.until > Instant::now()) {
                first = earlier(first, pause.first);
                continue;
            }
            let is_new = pause.is_none();
            let (begun, error) = match self.queue_slice(Some(&project)).await {
                Ok(None) => continue,
                Ok(Some(look)) => {
                    has_more |= look.queued.is_ok() && look.has_more;
                    (look.first, look.queued.err())
                }
                Err(error) => (
                    pauses.get(&project).and_then(|pause| pause.first),
                    Some(error),
                ),
            };
            first = earlier(first, begun);
            let Some(error) = error else { continue };
            if is_new {
                let project = project.as_str();
                tracing::warn!(project, %error, "the events of a project wait");
            }
            let until = Instant::now() + PAUSE;
            pauses.insert(
                project,
                EventPause {
                    until,
                    first: begun,
                },
            );
        }
        let now = self.engine().now().0;
        let lag = first.map_or(0, |first| now.saturating_sub(first.0).max(0));
        let lag = Duration::from_micros(lag.cast_unsigned());
        self.counts().events_wait(waiting, lag);
        look.queued.map(|()| has_more)
    }

    /// Looks at the next changes and queues what they ask for; `None` where there are no events.
    ///
    /// # Errors
    /// When the changes cannot be looked at.
    async fn queue_slice(&self, of: Option<&ProjectId>) -> Result<Option<EventLook>, EngineError> {
        let Some(slice) = self.engine().next_events(of).await? else {
            return Ok(None);
        };
        let requests = slice.requests.iter().map(|event| self.request_of(event));
        let requests = requests.collect::<Vec<_>>();
        let is_any = !requests.is_empty();
        let (apart, first, has_more) = (slice.apart.clone(), slice.first, slice.has_more);
        let queued = self.engine().queue_events(slice, requests).await;
        if is_any && queued.is_ok() {
            self.queue().expect();
        }
        Ok(Some(EventLook {
            apart,
            first,
            has_more,
            queued,
        }))
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

fn earlier(one: Option<Mark>, other: Option<Mark>) -> Option<Mark> {
    one.into_iter().chain(other).min()
}
