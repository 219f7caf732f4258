//! Writers that hand in one request after the other, and the one thread that commits what waits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Outcome;

/// The waiting rule of the engine: until as many wait as the last group answered plus those that
/// waited when it ended, at most this long.
const COMPANY_WAIT: Duration = Duration::from_micros(300);

/// A request, and whom to tell that it is on disk.
type WaitingRequest<R> = (R, SyncSender<()>);

/// Where writers queue.
struct WriterLine<R> {
    waiting: Mutex<VecDeque<WaitingRequest<R>>>,
    filled: Condvar,
    closed: AtomicBool,
}

/// Lets so many writers hand in what `next` gives for so long, and `commit` what waits. Each waits
/// for the commit of one request before it hands in the next.
pub fn drive<R: Send + 'static>(
    writers: usize,
    ms: u64,
    next: impl Fn() -> R + Send + Sync + 'static,
    mut commit: impl FnMut(&[R]) -> Outcome<()>,
) -> Outcome<Value> {
    let line = Arc::new(WriterLine {
        waiting: Mutex::default(),
        filled: Condvar::new(),
        closed: AtomicBool::new(false),
    });
    let next = Arc::new(next);
    let start = Instant::now();
    let until = start + Duration::from_millis(ms);
    let writers: Vec<_> = (0..writers)
        .map(|_| {
            let (line, next) = (line.clone(), next.clone());
            thread::spawn(move || write(&line, &*next, until))
        })
        .collect();
    let closing = line.clone();
    let ending = thread::spawn(move || {
        let samples = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap_or_default());
        let samples: Vec<u64> = samples.collect();
        closing.closed.store(true, Ordering::SeqCst);
        closing.filled.notify_all();
        (samples, start.elapsed())
    });
    // A failure here leaves the writers waiting; the process ends, and they with it.
    let commits = commit_all(&line, &mut commit)?;
    let (samples_ns, elapsed) = ending.join().map_err(|_| "a writer panicked")?;
    Ok(json!({
        "rows": samples_ns.len(),
        "commits": commits,
        "elapsed_ns": elapsed.as_nanos() as u64,
        "samples_ns": samples_ns,
    }))
}

/// Hands in one request after the other, and says how long each took.
fn write<R>(line: &WriterLine<R>, next: &dyn Fn() -> R, until: Instant) -> Vec<u64> {
    let mut samples = Vec::new();
    let (sender, receiver) = sync_channel(1);
    while Instant::now() < until {
        let request = next();
        let start = Instant::now();
        let mut waiting = line.waiting.lock().expect("nobody panics with the lock");
        waiting.push_back((request, sender.clone()));
        drop(waiting);
        line.filled.notify_one();
        if receiver.recv().is_err() {
            break;
        }
        samples.push(start.elapsed().as_nanos() as u64);
    }
    samples
}

/// Commits until the line is closed and empty; says how often.
fn commit_all<R>(
    line: &WriterLine<R>,
    commit: &mut impl FnMut(&[R]) -> Outcome<()>,
) -> Outcome<u64> {
    let (mut commits, mut company) = (0, 0);
    loop {
        let (group, senders): (Vec<R>, Vec<SyncSender<()>>) =
            take(line, company).into_iter().unzip();
        if group.is_empty() {
            return Ok(commits);
        }
        commit(&group)?;
        commits += 1;
        for sender in senders {
            // Each writer waits for this, so there is room and a reader there.
            let _ = sender.send(());
        }
        let waiting = line.waiting.lock().expect("nobody panics with the lock");
        company = group.len() + waiting.len();
    }
}

/// What waits, after the wait for company; empty when the line is closed.
fn take<R>(line: &WriterLine<R>, company: usize) -> Vec<WaitingRequest<R>> {
    let mut waiting = line.waiting.lock().expect("nobody panics with the lock");
    while waiting.is_empty() {
        if line.closed.load(Ordering::SeqCst) {
            return Vec::new();
        }
        // The timeout covers a line closed between the question and the wait.
        let pause = Duration::from_millis(20);
        let (back, _) = line
            .filled
            .wait_timeout(waiting, pause)
            .expect("nobody panics");
        waiting = back;
    }
    let (mut waiting, _) = line
        .filled
        .wait_timeout_while(waiting, COMPANY_WAIT, |waiting| waiting.len() < company)
        .expect("nobody panics with the lock");
    waiting.drain(..).collect()
}
