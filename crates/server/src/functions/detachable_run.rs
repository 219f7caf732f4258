//! A run whose caller may go away.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A run on the thread of its caller. When the caller goes away before its end, it goes on
/// elsewhere: a task of its own from the beginning would cost each run two wake-ups.
pub struct DetachableRun<T: Send + 'static> {
    /// `None` once it has ended.
    run: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    elsewhere: Handle,
}

impl<T: Send + 'static> DetachableRun<T> {
    /// `elsewhere` finishes it if need be.
    pub fn new(run: impl Future<Output = T> + Send + 'static, elsewhere: Handle) -> Self {
        DetachableRun {
            run: Some(Box::pin(run)),
            elsewhere,
        }
    }
}

impl<T: Send + 'static> Future for DetachableRun<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out, so that one that panics is not polled again elsewhere.
        let mut run = self.run.take().expect("a run has one end");
        let polled = run.as_mut().poll(context);
        if polled.is_pending() {
            self.run = Some(run);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachableRun<T> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            drop(self.elsewhere.spawn(run));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn detachable_run_ends_with_its_caller_or_without() {
        for is_left in [false, true] {
            let (go_on, waits) = oneshot::channel::<()>();
            let (tell, ended) = oneshot::channel();
            let run = async move {
                waits.await.unwrap();
                tell.send(()).unwrap();
            };
            let mut run = DetachableRun::new(run, Handle::current());
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut run).poll(&mut context).is_pending());
            if is_left {
                drop(run);
                go_on.send(()).unwrap();
            } else {
                go_on.send(()).unwrap();
                run.await;
            }
            ended.await.unwrap();
        }
    }
}
