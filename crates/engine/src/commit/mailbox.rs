//! Answers of the writer on their way to the threads that wait for them.
//!
//! To wake a thread takes a call of the system. Eight clients of one thread would take eight for
//! one commit, so a thread that answers many requests has a mailbox: the writer puts all answers of
//! a group in, and wakes it once. Other threads, which may be blocked until their answer comes, get
//! it at once.

use std::cell::RefCell;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures_channel::oneshot;
use store::Outcome;

use crate::error::EngineError;

pub(crate) type Answer = Result<Outcome, EngineError>;

thread_local! {
    /// That of this thread, while it takes answers.
    static OWN: RefCell<Option<Arc<Mailbox>>> = const { RefCell::new(None) };
}

/// Answers that a thread has not taken yet.
#[derive(Default)]
pub(crate) struct Mailbox(Mutex<MailboxContent>);

#[derive(Default)]
struct MailboxContent {
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    /// Of the task that takes them.
    waker: Option<Waker>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, MailboxContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let waker = self.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Takes answers for the requests of this thread, to the end. Until it is polled none of them is
/// answered that was asked since, so nothing on this thread may block until one is.
pub fn take_answers() -> impl Future<Output = ()> {
    let mailbox = Arc::<Mailbox>::default();
    OWN.set(Some(Arc::clone(&mailbox)));
    let taking = Taking(mailbox, PhantomData);
    poll_fn(move |cx| {
        let mut content = taking.0.lock();
        if !content
            .waker
            .as_ref()
            .is_some_and(|known| known.will_wake(cx.waker()))
        {
            content.waker = Some(cx.waker().clone());
        }
        let answers = std::mem::take(&mut content.answers);
        drop(content);
        for (reply, answer) in answers {
            // A caller that went away needs no answer.
            let _ = reply.send(answer);
        }
        Poll::Pending
    })
}

/// Ends with who takes the answers. What is asked on its thread later is answered without it.
/// It stays on its thread.
struct Taking(Arc<Mailbox>, PhantomData<Rc<()>>);

impl Drop for Taking {
    fn drop(&mut self) {
        OWN.set(None);
        self.0.lock().answers.clear();
    }
}

/// Who waits for an answer, and where.
pub(crate) struct Recipient {
    reply: oneshot::Sender<Answer>,
    mailbox: Option<Arc<Mailbox>>,
}

impl Recipient {
    /// One that asks on this thread, and its end of the answer.
    pub(crate) fn here() -> (Recipient, oneshot::Receiver<Answer>) {
        let (reply, answer) = oneshot::channel();
        let mailbox = OWN.with_borrow(Clone::clone);
        (Recipient { reply, mailbox }, answer)
    }

    /// Answers at once. A caller that went away needs no answer.
    pub(crate) fn send(self, answer: Answer) {
        let _ = self.reply.send(answer);
    }
}

/// The answers to a group, which are there for each thread when this is dropped.
#[derive(Default)]
pub(crate) struct GroupAnswers {
    filled: Vec<Arc<Mailbox>>,
}

impl GroupAnswers {
    pub(crate) fn add(&mut self, recipient: Recipient, answer: Answer) {
        let Some(mailbox) = recipient.mailbox else {
            let _ = recipient.reply.send(answer);
            return;
        };
        mailbox.lock().answers.push((recipient.reply, answer));
        if !self
            .filled
            .iter()
            .any(|filled| Arc::ptr_eq(filled, &mailbox))
        {
            self.filled.push(mailbox);
        }
    }
}

impl Drop for GroupAnswers {
    fn drop(&mut self) {
        for mailbox in &self.filled {
            mailbox.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use store::StoreError;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn answer() -> Answer {
        Err(EngineError::Store(StoreError::Full))
    }

    /// Whether the answer has come; `None` where it never will.
    fn has_come(waiting: &mut oneshot::Receiver<Answer>) -> Option<bool> {
        waiting.try_recv().ok().map(|answer| answer.is_some())
    }

    #[test]
    fn a_thread_is_woken_once_for_all_of_its_answers() {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut taking = pin!(take_answers());
        assert!(taking.as_mut().poll(&mut cx).is_pending());
        let (recipients, mut waiting): (Vec<_>, Vec<_>) = (0..8).map(|_| Recipient::here()).unzip();
        let sending = std::thread::spawn(|| {
            let mut answers = GroupAnswers::default();
            for recipient in recipients {
                answers.add(recipient, answer());
            }
        });
        sending.join().unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert_eq!(has_come(&mut waiting[0]), Some(false), "it is not taken");
        assert!(taking.as_mut().poll(&mut cx).is_pending());
        for answered in &mut waiting {
            assert_eq!(has_come(answered), Some(true));
        }
    }

    #[test]
    fn a_thread_that_takes_no_answers_gets_each_at_once() {
        let send = |recipient| GroupAnswers::default().add(recipient, answer());
        let (before, mut first) = Recipient::here();
        send(before);
        assert_eq!(has_come(&mut first), Some(true));
        let taking = take_answers();
        let (left, mut dropped) = Recipient::here();
        send(left);
        drop(taking);
        assert_eq!(has_come(&mut dropped), None);
        let (after, mut last) = Recipient::here();
        send(after);
        assert_eq!(has_come(&mut last), Some(true));
    }
}
