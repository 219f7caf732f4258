//! `tidemark top`: what a running server does, live.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, value_parser};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::Print;
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};

use super::{runtime, say};
use crate::admin::client::tell_top;
use crate::config::DirectoryArgs;
use crate::watch::told::Told;

mod frame;

use frame::Frame;

/// The options of `tidemark top`, as typed.
#[derive(Args)]
#[command(after_help = "Examples:
  tidemark top --data /srv/tidemark
  tidemark top --once --interval-ms 5000

Keys: q ends it, space holds the picture.")]
pub struct TopArgs {
    #[command(flatten)]
    data: DirectoryArgs,
    /// Print one frame and end; so does a standard output that is no terminal
    #[arg(long)]
    once: bool,
    /// Milliseconds between two looks. With --once, 0 shows what came since the server's start
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    #[arg(value_parser = value_parser!(u64).range(0..=3_600_000))]
    interval_ms: u64,
}

/// Least time between two pictures: what costs less than a hundredth of a core.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// # Errors
/// When no server runs on the directory, or the terminal cannot be used.
pub fn run(args: TopArgs) -> Result<()> {
    let looking = Looking {
        runtime: runtime()?,
        directory: args.data.data,
    };
    let interval = Duration::from_millis(args.interval_ms);
    if args.once || !io::stdout().is_terminal() {
        return once(&looking, interval);
    }
    live(&looking, interval.max(INTERVAL_MIN))
}

/// Asks the server, each time anew: it may have been started again.
struct Looking {
    runtime: tokio::runtime::Runtime,
    directory: PathBuf,
}

impl Looking {
    fn look(&self) -> Result<Told> {
        let told = self.runtime.block_on(tell_top(&self.directory))?;
        told.ok_or_else(|| {
            anyhow!(
                "no server runs on the data directory {}. Give its path with --data",
                self.directory.display()
            )
        })
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
    say(&frame.text())
}

fn live(looking: &Looking, interval: Duration) -> Result<()> {
    // The first picture shows what came since the server's start.
    let mut before = None;
    let mut now = looking.look()?;
    let screen = Screen::open()?;
    let mut is_held = false;
    loop {
        let frame = Frame {
            before: before.as_ref(),
            now: &now,
        };
        screen.show(&frame.text(), is_held)?;
        match wait(Instant::now() + interval)? {
            Some(Key::End) => return Ok(()),
            Some(Key::Hold) => is_held = !is_held,
            Some(Key::Other) => {}
            None if is_held => {}
            None => before = Some(std::mem::replace(&mut now, looking.look()?)),
        }
    }
}

enum Key {
    End,
    Hold,
    Other,
}

/// Waits for a key up to that instant.
fn wait(until: Instant) -> Result<Option<Key>> {
    let left = until.saturating_duration_since(Instant::now());
    if !event::poll(left)? {
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

    fn show(&self, text: &str, is_held: bool) -> Result<()> {
        let (columns, rows) = terminal::size()?;
        let mut out = self.out.lock();
        queue!(out, cursor::MoveTo(0, 0))?;
        let foot = if is_held {
            "held: space goes on"
        } else {
            "q ends"
        };
        let lines = text.lines().take(usize::from(rows).saturating_sub(1));
        for line in lines {
            let line: String = line.chars().take(usize::from(columns)).collect();
            queue!(
                out,
                Print(line),
                Clear(ClearType::UntilNewLine),
                Print("\r\n")
            )?;
        }
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
