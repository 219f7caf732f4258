//! Executions that the clock asks for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use engine::{ExecutionTrigger, QueuedRequest, Schedules};

use super::execution::own_headers;
use super::running::RunningFunctions;
use crate::http::state::generated_ids::unique_id;

/// How often the clock is looked at.
const ROUND: Duration = Duration::from_secs(1);

impl RunningFunctions {
    /// Queues executions as their minutes come.
    pub async fn keep_schedules(&self) -> Infallible {
        let mut schedules = Schedules::default();
        loop {
            match self.engine().due_minutes(&mut schedules).await {
                Ok(due) => {
                    for (function, minute) in due {
                        let request = self.request_of_clock();
                        let queued = self.engine().queue_minute(&function, minute, request);
                        if let Err(error) = queued.await {
                            let function = function.id.as_str();
                            tracing::warn!(%error, function, "a scheduled execution waits");
                        }
                        self.queue().expect();
                    }
                }
                Err(error) => tracing::warn!(%error, "schedules cannot be read"),
            }
            tokio::time::sleep(ROUND).await;
        }
    }

    fn request_of_clock(&self) -> QueuedRequest {
        let trigger = ExecutionTrigger::Schedule;
        let id = unique_id(self.engine().now(), self.rng());
        QueuedRequest {
            headers: own_headers(&id, trigger, ""),
            id,
            trigger,
            due: None,
            method: "POST".to_owned(),
            path: "/".to_owned(),
            body: Arc::default(),
            depth: 0,
        }
    }
}
