//! The body of an answer that comes in lines.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::http::limits::unsent::Untaken;

/// Lines, counted until the client has taken them.
pub(in crate::http) type Answers = (Bytes, Option<Untaken>);

/// Makes the next lines, and what makes those after them; `None` at the end.
pub(in crate::http) struct NextLines(pub(in crate::http) LinesFuture);

/// The work that makes lines.
type LinesFuture = Pin<Box<dyn Future<Output = Option<(Answers, NextLines)>>>>;

/// The answers, as far as they are there.
pub struct Lines {
    next: Option<NextLines>,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lines")
    }
}

impl Lines {
    pub(in crate::http) fn new(next: NextLines) -> Lines {
        Lines { next: Some(next) }
    }

    /// The next lines; `None` at the end.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Answers>> {
        let Some(NextLines(next)) = &mut self.next else {
            return Poll::Ready(None);
        };
        let (lines, next) = ready!(next.as_mut().poll(context)).unzip();
        self.next = next;
        Poll::Ready(lines)
    }
}
