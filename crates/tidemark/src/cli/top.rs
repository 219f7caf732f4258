//! `tidemark top`: what a running server does, live.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, value_parser};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::Print;
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use server::telemetry::snapshot::TopSnapshot;
use tokio::sync::mpsc::UnboundedSender;

use super::connection::no_server;
use super::signals::StopSignals;
use super::{runtime, say};
use crate::admin::client::tell_top;
use crate::config::{StoreArgs, StoreSite};

mod frame;

use frame::{Frame, Size};

/// The options of `tidemark top`, as typed.
#[derive(Args)]
#[command(after_help = "Examples:
  tidemark top --data /srv/tidemark
  tidemark top --once --interval-ms 5000

Keys: q ends it, space holds the picture.")]
pub struct TopArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print one frame and end; so does a standard output that is no terminal
    #[arg(long)]
    once: bool,
    /// Milliseconds between two looks. With --once, 0 shows what came since the server's start
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    #[arg(allow_negative_numbers = true)]
    #[arg(value_parser = value_parser!(u64).range(0..=3_600_000))]
    interval_ms: u64,
}

/// Least time between two pictures: what costs less than a hundredth of a core.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest time that a server may take to tell; a look takes it a millisecond.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// How soon a key, a signal or an answer is seen.
const WAKING: Duration = Duration::from_millis(50);

/// # Errors
/// When no server runs on the directory, or the terminal cannot be used.
pub fn run(args: &TopArgs) -> Result<()> {
    let looking = Looking {
        runtime: runtime()?,
        site: args.store.check()?,
    };
    let interval = Duration::from_millis(args.interval_ms);
    if args.once || !io::stdout().is_terminal() {
        return once(&looking, interval);
    }
    live(looking, interval.max(INTERVAL_MIN))
}

/// Asks the server, each time over a new connection: it may have been started again.
struct Looking {
    runtime: tokio::runtime::Runtime,
    site: StoreSite,
}

impl Looking {
    fn look(&self) -> Result<TopSnapshot> {
        let directory = &self.site.directory;
        let snapshot = self.runtime.block_on(tell_top(directory, LOOK_MAX))?;
        snapshot.ok_or_else(|| no_server(&self.site))
    }
}

fn once(looking: &Looking, interval: Duration) -> Result<()> {
    let mut before = None;
    if !interval.is_zero() {
        before = Some(looking.look()?);
        std::thread::sleep(interval);
    }
    let now = looking.look()?;
    let frame = Frame {
        before: before.as_ref(),
        now: &now,
    };
    say(&frame.text(Size::ENDLESS))
}

fn live(looking: Looking, interval: Duration) -> Result<()> {
    // The first picture shows what came since the server's start.
    let mut picture = Picture {
        before: None,
        now: looking.look()?,
        is_held: false,
        silent: None,
    };
    let (request, events) = look_apart(looking)?;
    let screen = Screen::open()?;
    let (mut is_asked, mut next) = (false, Instant::now() + interval);
    let mut is_new = true;
    loop {
        if is_new || picture.silent.is_some() {
            screen.show(&picture)?;
            is_new = false;
        }
        if !picture.is_held && !is_asked && Instant::now() >= next {
            // The next one is due so long after this one began, whatever keys are pressed.
            next = Instant::now() + interval;
            is_asked = request.send(()).is_ok();
        }
        for events in events.try_iter() {
            let LookEvent::Snapshot(snapshot) = events else {
                return Ok(());
            };
            is_asked = false;
            is_new = true;
            picture.take(*snapshot);
        }
        let key = key(WAKING)?;
        is_new |= key.is_some();
        match key {
            Some(Key::End) => return Ok(()),
            Some(Key::Hold) => picture.is_held = !picture.is_held,
            Some(Key::Other) | None => {}
        }
    }
}

/// What the thread that looks has to say.
enum LookEvent {
    /// What the server answered, or why it did not.
    Snapshot(Box<Result<TopSnapshot>>),
    /// A signal asks to stop.
    Stop,
}

/// Looks whenever it is asked to, on a thread of its own: a server that has stopped must not keep
/// the keyboard from being heard. Listens to signals, too, so that the terminal is given back.
fn look_apart(looking: Looking) -> Result<(UnboundedSender<()>, Receiver<LookEvent>)> {
    let (request, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let (say, events) = channel();
    let Looking { runtime, site } = looking;
    let mut signals = runtime.block_on(async { StopSignals::take() })?;
    let looks = async move {
        loop {
            let next = tokio::select! {
                _ = signals.next() => LookEvent::Stop,
                requests = requests.recv() => {
                    if requests.is_none() {
                        return;
                    }
                    tokio::select! {
                        _ = signals.next() => LookEvent::Stop,
                        snapshot = tell_top(&site.directory, LOOK_MAX) => {
                            let stopped = || anyhow!("no server runs");
                            let snapshot = snapshot.and_then(|found| found.ok_or_else(stopped));
                            LookEvent::Snapshot(Box::new(snapshot))
                        }
                    }
                }
            };
            if say.send(next).is_err() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("look".to_owned());
    thread
        .spawn(move || runtime.block_on(looks))
        .context("cannot start a thread")?;
    Ok((request, events))
}

/// What is on the screen.
struct Picture {
    before: Option<TopSnapshot>,
    now: TopSnapshot,
    is_held: bool,
    /// Since when the server does not answer, and why.
    silent: Option<(Instant, String)>,
}

impl Picture {
    /// A server that does not answer leaves the picture as it is: it may be starting again.
    fn take(&mut self, snapshot: Result<TopSnapshot>) {
        match snapshot {
            Ok(snapshot) => {
                self.before = Some(std::mem::replace(&mut self.now, snapshot));
                self.silent = None;
            }
            Err(error) => {
                let since = self
                    .silent
                    .take()
                    .map_or_else(Instant::now, |(since, _)| since);
                self.silent = Some((since, error.to_string()));
            }
        }
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            before: self.before.as_ref(),
            now: &self.now,
        }
    }

    fn foot(&self) -> String {
        match &self.silent {
            Some((since, why)) => {
                format!("not answering for {} s: {why}", since.elapsed().as_secs())
            }
            None if self.is_held => "held: space goes on".to_owned(),
            None => "q ends".to_owned(),
        }
    }
}

enum Key {
    End,
    Hold,
    Other,
}

/// Waits so long for a key.
fn key(wait: Duration) -> Result<Option<Key>> {
    if !event::poll(wait)? {
        return Ok(None);
    }
    let Event::Key(key) = event::read()? else {
        return Ok(Some(Key::Other));
    };
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(Some(match key.code {
        _ if key.kind != KeyEventKind::Press => Key::Other,
        KeyCode::Char('q') | KeyCode::Esc => Key::End,
        KeyCode::Char('c') if is_control => Key::End,
        KeyCode::Char(' ') => Key::Hold,
        _ => Key::Other,
    }))
}

/// The terminal while it shows pictures. Given back as it was, also after a failure.
struct Screen {
    out: io::Stdout,
}

impl Screen {
    fn open() -> Result<Screen> {
        terminal::enable_raw_mode().context("the terminal cannot be used; try --once")?;
        let mut screen = Screen { out: io::stdout() };
        execute!(screen.out, EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    fn show(&self, picture: &Picture) -> Result<()> {
        let (columns, rows) = terminal::size()?;
        let (columns, rows) = (usize::from(columns), usize::from(rows).saturating_sub(1));
        let text = picture.frame().text(Size { columns, rows });
        let mut out = self.out.lock();
        queue!(out, cursor::MoveTo(0, 0))?;
        let cut = |line: &str| line.chars().take(columns).collect::<String>();
        for line in text.lines().take(rows) {
            queue!(
                out,
                Print(cut(line)),
                Clear(ClearType::UntilNewLine),
                Print("\r\n")
            )?;
        }
        let foot = cut(&picture.foot());
        queue!(out, Clear(ClearType::FromCursorDown), Print(foot))?;
        Ok(out.flush()?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where that fails there is no terminal any more.
        drop(execute!(self.out, cursor::Show, LeaveAlternateScreen));
        drop(terminal::disable_raw_mode());
    }
}
