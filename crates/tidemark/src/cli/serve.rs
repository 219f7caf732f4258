//! `tidemark serve`: from a data directory to a server, and back in order.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use engine::{
    Compared, Difference, DirectoryBeside, Durability, Engine, EngineError, StoreError, StorePlace,
};
use server::rng::Rng;
use server::serve::{self, Drained, ServeConfig, ServeError};
use server::telemetry::listener::Listener;
use server::telemetry::trace::Traces;
use server::telemetry::{Telemetry, slow::tell_slow};
use tokio::sync::oneshot;

use super::bootstrap::{self, Prepared};
use super::signals::StopSignals;
use super::{Outside, log, runtime, say};
use crate::admin::socket::Socket;
use crate::config::{Bootstrap, ServeSetup, WatchSetup, reachable, secret_key};
use crate::doctor::{STOPPED, holder};

/// The exit code of an end that is not in order, after a second signal or when time is over: 128
/// + 2, as shells report an interrupted program.
const CUT_SHORT: u8 = 130;
/// A file of a data directory that was served by the clock of a machine. It is empty.
const SERVED: &str = "served";
/// Projects that a start names; more are only counted.
const PROJECTS_NAMED_MAX: usize = 10;

/// Serves until a signal asks to stop, then ends in order.
///
/// Serving has a thread of its own, so that this one hears the second signal whatever the first
/// one waits for, and ends the process by returning.
///
/// # Errors
/// When the server could not be started, or did not end in order.
pub fn run(mut setup: ServeSetup, outside: Outside) -> Result<ExitCode> {
    // Writes what waits when everything else has ended.
    let _log = log::start(&setup.log)?;
    setup.http.collect = outside.collect;
    // Only the started log can tell whether its filter lets these lines through.
    setup.http.access_log = tracing::enabled!(target: "access", tracing::Level::DEBUG);
    warn_of_trades(&setup);
    let limit = Duration::from_millis(setup.http.limits.drain_ms);
    if setup.accept_loss {
        tracing::warn!("whatever commits were lost before this start are not missed any more");
        let accepted = engine::accept_loss(&setup.engine.place);
        accepted.map_err(|error| explain_open(error.into(), &setup.data))?;
    }
    runtime()?.block_on(async {
        let mut signals = StopSignals::take()?;
        let (stop, stopped) = oneshot::channel();
        let (end, mut ended) = oneshot::channel();
        let (break_down, broken) = oneshot::channel();
        let serving = thread::Builder::new()
            .name("serve".to_owned())
            .spawn(move || {
                // A second signal has no listener, and needs none.
                drop(end.send(serve_until(setup, &outside, stopped, break_down)));
            });
        serving.context("cannot start a thread")?;
        let cut_off = tokio::select! {
            result = &mut ended => return outcome(result),
            Ok(()) = broken => ExitCode::FAILURE,
            signal = signals.next() => {
                tracing::info!(signal, "stopping; a second signal stops at once");
                // It may have ended by itself meanwhile.
                let _ = stop.send(());
                ExitCode::from(CUT_SHORT)
            }
        };
        tokio::select! {
            biased;
            result = &mut ended => outcome(result),
            signal = signals.next() => {
                tracing::warn!(signal, "stopped at once; requests in work got no answer");
                Ok(ExitCode::from(CUT_SHORT))
            }
            () = tokio::time::sleep(limit) => {
                tracing::warn!(
                    limit_ms = limit.as_millis() as u64,
                    "stopped at the limit; what still ran is cut off. What was acknowledged is \
                     kept, and the next start brings the files in order"
                );
                Ok(cut_off)
            }
        }
    })
}

fn outcome(ended: Result<Result<()>, oneshot::error::RecvError>) -> Result<ExitCode> {
    ended.map_err(|_| anyhow!("the serving thread broke down; its message stands above"))??;
    Ok(ExitCode::SUCCESS)
}

fn warn_of_trades(setup: &ServeSetup) {
    if setup.engine.durability == Durability::Normal {
        tracing::warn!(
            "durability is normal: a power cut may take the last milliseconds of acknowledged \
             writes. What is left is consistent; the end of the process alone takes nothing"
        );
    }
    if !setup.http.listen.ip().is_loopback() && setup.http.tls.is_none() {
        tracing::warn!(
            listen = %setup.http.listen,
            "listening beyond this machine without TLS: API keys travel readable by everybody on \
             the way. Give --tls-cert and --tls-key, or put a proxy with TLS in front"
        );
    }
}

fn serve_until(
    setup: ServeSetup,
    outside: &Outside,
    stopped: oneshot::Receiver<()>,
    break_down: oneshot::Sender<()>,
) -> Result<()> {
    let ServeSetup {
        data: directory,
        password_file,
        engine: config,
        variables_key,
        audit_hits,
        watch: watching,
        mut http,
        bootstrap,
        ..
    } = setup;
    let list_cache_bytes = config.list_cache_bytes;
    let traces = begin_tracing(&mut http, &watching);
    let place = config.place.clone();
    let files = (password_file, variables_key);
    let (engine, beside) = open_engine(config, files, &directory, (&http, outside))?;
    compare_hits(&engine, audit_hits)?;
    if let Some(threshold) = watching.slow_query {
        engine.tell_slow(threshold, tell_slow);
    }
    let (counts, clock) = (http.counts.clone(), outside.clock.clone());
    let watch = Telemetry::new(engine.clone(), counts, list_cache_bytes, clock);
    let opening = Opening {
        engine: &engine,
        watch: Arc::new(watch),
        metrics_listen: watching.metrics_listen,
        rng: outside.rng,
        directory: &directory,
        place: &place,
        scheme: if http.tls.is_some() { "https" } else { "http" },
    };
    let mut metrics = None;
    let served = serve::run(
        http,
        engine.clone(),
        |address| {
            let announced = opening.announce(address, &bootstrap);
            metrics = announced.map_err(|error| explain_announce(&error))?;
            Ok(())
        },
        stop_asked(&engine, stopped, break_down),
    );
    let broken = engine.stop_reason();
    drop(metrics);
    end_tracing(traces);
    // Also after a failure: what the start has written is kept in order.
    let closed = engine.close();
    let closed = closed.with_context(|| format!("cannot close the {place} in order"));
    drop(beside);
    if let Some(compared) = engine.compared() {
        tell_compared(compared);
    }
    let Drained { unfinished } = served.map_err(|error| explain_serve(&error))?;
    if unfinished > 0 {
        tracing::warn!(unfinished, "requests ran longer than stopping may take");
    }
    closed?;
    if let Some(reason) = broken {
        return Err(tell_stopped(&directory, reason));
    }
    drop(std::fs::remove_file(directory.join(STOPPED)));
    tracing::info!("stopped");
    Ok(())
}

/// Waits until a signal asks to stop, or nothing can be written any more; that is passed on.
async fn stop_asked(
    engine: &Engine,
    stopped: oneshot::Receiver<()>,
    break_down: oneshot::Sender<()>,
) {
    tokio::select! {
        // A sender that is gone asks to stop, too.
        _ = stopped => {}
        reason = engine.stopped() => {
            tracing::error!(reason, "nothing is written any more; the server ends");
            // It may have ended meanwhile.
            let _ = break_down.send(());
        }
    }
}

/// Leaves word of why the server ends, for `tidemark doctor`.
fn tell_stopped(directory: &Path, reason: &str) -> anyhow::Error {
    // What keeps the server from writing may keep this out as well; the log has it.
    drop(std::fs::write(directory.join(STOPPED), reason));
    anyhow!("nothing could be written any more: {reason}")
}

/// The engine, and the directory next to its store where that is in a database.
///
/// # Errors
/// When it cannot be opened, was served by another kind of clock, or the file with the key of
/// variables is none.
fn open_engine(
    config: engine::Config,
    (password_file, variables_key): (Option<PathBuf>, Option<PathBuf>),
    directory: &Path,
    (http, outside): (&ServeConfig, &Outside),
) -> Result<(Arc<Engine>, Option<DirectoryBeside>)> {
    if let Some(file) = &variables_key {
        secret_key::look(file).map_err(|why| anyhow!("secret-key-file: {why}"))?;
    }
    let explain = |error| explain_open(error, directory);
    let mut beside = None;
    let engine = if let StorePlace::Database(_) = &config.place {
        let taken = DirectoryBeside::take(directory, &config.place);
        let taken = taken.map_err(|error| explain(error.into()))?;
        let files = (password_file.as_deref(), directory);
        let opened = Engine::open_database(&config, files, outside.clock.clone());
        let opened = opened.map_err(|error| explain_database(error, &config.place))?;
        let named = taken.name_place(&config.place);
        named.map_err(|error| explain(error.into()))?;
        beside = Some(taken);
        opened
    } else if let Some(clock) = &http.test_clock {
        refuse_real_data(directory)?;
        tracing::warn!("requests set the clock: this server is for tests alone");
        Engine::open(config, clock.clone()).map_err(explain)?
    } else {
        let engine = Engine::open(config, outside.clock.clone()).map_err(explain)?;
        mark_real_data(directory)?;
        engine
    };
    if let Some(file) = variables_key {
        engine.name_variables_key(file);
    }
    Ok((engine, beside))
}

/// # Errors
/// When the directory was served by the clock of a machine: a request could make a year of it
/// unreadable.
fn refuse_real_data(directory: &Path) -> Result<()> {
    if directory.join(SERVED).exists() {
        let directory = directory.display();
        return Err(anyhow!(
            "the data directory {directory} was served without --test-clock; take another one"
        ));
    }
    Ok(())
}

pub(super) fn mark_real_data(directory: &Path) -> Result<()> {
    let path = directory.join(SERVED);
    if path.exists() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(&path);
    made.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

fn end_tracing(traces: Option<Arc<Traces>>) {
    if let Some(traces) = traces {
        traces.close();
    }
}

/// Starts what sends traces, if they are wanted.
fn begin_tracing(http: &mut ServeConfig, watching: &WatchSetup) -> Option<Arc<Traces>> {
    let traces = watching.traces.as_ref().map(Traces::start).map(Arc::new);
    if traces.is_some() {
        http.counts.begin_timing();
        http.traces.clone_from(&traces);
    }
    traces
}

/// Compares one of so many cached lists with a fresh read; none of 0.
fn compare_hits(engine: &Engine, one_of: u32) -> Result<()> {
    if one_of == 0 {
        return Ok(());
    }
    let compares = engine.compare_hits(u64::from(one_of), tell_difference);
    compares.context("cannot start a thread")?;
    tracing::info!(one_of, "comparing cached lists with fresh reads");
    Ok(())
}

fn tell_difference(difference: &Difference) {
    tracing::error!("{difference}; please report it. --list-cache=off is exact meanwhile");
}

/// What was compared, in a line that programs can read as well.
fn tell_compared(compared: Compared) {
    let Compared {
        same,
        different,
        overtaken,
        dropped,
        has_failed,
    } = compared;
    if has_failed {
        tracing::error!("comparing cached lists ended by a fault; please report it");
    }
    tracing::info!(
        same,
        different,
        overtaken,
        dropped,
        "compared cached lists with fresh reads"
    );
}

/// What the moment between binding the port and the first request needs.
struct Opening<'a> {
    engine: &'a Arc<Engine>,
    watch: Arc<Telemetry>,
    metrics_listen: Option<SocketAddr>,
    rng: Rng,
    directory: &'a Path,
    place: &'a StorePlace,
    scheme: &'static str,
}

impl Opening<'_> {
    /// Opens the admin socket, makes project and key, and tells people and files of them. The
    /// port is bound, so no key is made by a server that cannot run; the first request waits
    /// until this is done.
    ///
    /// Gives what answers for metrics, until that is dropped.
    fn announce(&self, bound: SocketAddr, wanted: &Bootstrap) -> Result<Option<Listener>> {
        let endpoint = format!("{}://{}/v1", self.scheme, reachable(bound));
        match Socket::bind(self.directory, self.rng) {
            Ok(socket) => {
                let (engine, watch) = (self.engine.clone(), self.watch.clone());
                tokio::task::spawn_local(socket.serve(engine, watch, endpoint.clone(), self.rng));
            }
            Err(error) => tracing::warn!(
                %error,
                "no admin.sock: projects and keys can be changed only while no server runs"
            ),
        }
        let metrics = self
            .metrics_listen
            .map(|address| self.show_metrics(address));
        let metrics = metrics.transpose()?;
        let prepared = wait_apart(bootstrap::prepare(self.engine, self.rng, wanted))??;
        let at = metrics.as_ref().map(Listener::address);
        let places = (self.place, self.directory);
        say(&banner(places, &endpoint, at, &prepared))?;
        if let Some(path) = &wanted.file {
            prepared.write_file(path, &endpoint)?;
        }
        Ok(metrics)
    }
}

impl Opening<'_> {
    /// Opens the address where metrics are read.
    fn show_metrics(&self, address: SocketAddr) -> Result<Listener> {
        let listener = Listener::start(address, self.watch.clone()).with_context(|| {
            format!(
                "cannot show metrics at {address}. Choose another address with --metrics-listen"
            )
        })?;
        let bound = listener.address();
        if !bound.ip().is_loopback() {
            tracing::warn!(
                listen = %bound,
                "metrics can be read from other machines, by every client that can connect"
            );
        }
        Ok(listener)
    }
}

/// Waits for a future while this thread's runtime stands still.
fn wait_apart<T: Send>(work: impl Future<Output = T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let apart = scope.spawn(|| Ok(runtime()?.block_on(work)));
        apart
            .join()
            .map_err(|_| anyhow!("preparing the start broke down"))?
    })
}

fn banner(
    (place, directory): (&StorePlace, &Path),
    endpoint: &str,
    metrics: Option<SocketAddr>,
    prepared: &Prepared,
) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let directory = directory.display().to_string();
    let served = match place {
        StorePlace::Directory(_) => directory.clone(),
        StorePlace::Database(url) => format!("the {url}"),
    };
    let mut text = format!("Tidemark {version} serves {served}\n\n  endpoint    {endpoint}\n");
    if let Some(metrics) = metrics {
        let metrics = reachable(metrics);
        writeln!(text, "  metrics     http://{metrics}/metrics")
            .expect("writing to a string cannot fail");
    }
    for project in prepared.projects.iter().take(PROJECTS_NAMED_MAX) {
        writeln!(text, "  project id  {project}").expect("writing to a string cannot fail");
    }
    if let Some(more) = prepared.projects.len().checked_sub(PROJECTS_NAMED_MAX + 1) {
        let more = more + 1;
        writeln!(
            text,
            "              and {more} more; see `tidemark project list`"
        )
        .expect("writing to a string cannot fail");
    }
    if let Some(key) = &prepared.shown_once {
        let key = key.reveal();
        write!(
            text,
            "  API key     {key}\n\nThe key has every scope of its project. It is shown this once; \
             only its hash is kept.\n`tidemark key create` makes more, `tidemark key revoke` ends \
             one.\n"
        )
        .expect("writing to a string cannot fail");
        text += &next_steps(directory.as_str());
    }
    text + "\n"
}

/// As a shell takes it for one word.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// What a person may do next, after a first start.
fn next_steps(directory: &str) -> String {
    let data = match directory {
        "tidemark-data" => String::new(),
        other => format!(" --data {}", shell_word(other)),
    };
    format!(
        "\nNext, in another terminal:\n  \
         tidemark seed catalog{data}     a table with 10,000 products\n  \
         tidemark top{data}              what the server does\n"
    )
}

fn explain_open(error: EngineError, path: &Path) -> anyhow::Error {
    let directory = path.display();
    match error {
        // These say what to do already.
        EngineError::Store(
            StoreError::Format { .. }
            | StoreError::DatabaseMissing { .. }
            | StoreError::StoredElsewhere { .. }
            | StoreError::StoredHere { .. }
            | StoreError::ImportUnfinished { .. }
            | StoreError::MoveUnfinished { .. }
            | StoreError::CommitsLost { .. }
            | StoreError::KeyMissing { .. }
            | StoreError::KeyWrong { .. },
        ) => error.into(),
        EngineError::Store(StoreError::Locked { .. }) => match holder::of_lock(path) {
            Some(who) => anyhow!("{error} It is {who}"),
            None => error.into(),
        },
        error => anyhow!(
            "cannot open the data directory {directory}: {error} It must be a directory this user \
             may write, or a path where one can be made (--data). `tidemark doctor` looks closer"
        ),
    }
}

fn explain_database(error: EngineError, place: &StorePlace) -> anyhow::Error {
    match error {
        // These say what to do already.
        EngineError::Store(
            StoreError::Format { .. } | StoreError::Locked { .. } | StoreError::DatabaseUnfit(_),
        ) => error.into(),
        error => anyhow!(
            "cannot open the store in the {place}: {error} `tidemark doctor --database` looks \
             closer"
        ),
    }
}

fn explain_serve(error: &ServeError) -> anyhow::Error {
    use io::ErrorKind as Kind;
    let ServeError::Bind {
        listen,
        error: cause,
    } = error
    else {
        return anyhow!("{error}");
    };
    if cause.kind() == Kind::AddrInUse {
        let who = holder::of_port(listen.port());
        let who = who.map_or("Another program".to_owned(), |who| who.to_string());
        return anyhow!(
            "cannot listen on {listen}: {cause}. {who} listens there. Stop it, or choose another \
             port with --listen"
        );
    }
    let advice = match cause.kind() {
        Kind::AddrNotAvailable => "This machine has no such address. Choose another with --listen",
        Kind::PermissionDenied => {
            "Ports below 1024 need a privilege. Choose another with --listen, such as 8280"
        }
        _ => "Choose another address with --listen",
    };
    anyhow!("cannot listen on {listen}: {cause}. {advice}")
}

/// Keeps the whole chain, because [`io::Error`] shows one text.
fn explain_announce(error: &anyhow::Error) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ProjectId;
    use server::secret::KeySecret;

    fn prepared(projects: usize, key: Option<KeySecret>) -> Prepared {
        let ids = (0..projects).map(|number| ProjectId::new(&format!("p{number}")).unwrap());
        Prepared {
            projects: ids.collect(),
            shown_once: key,
            file: None,
        }
    }

    /// A directory, which is a place.
    fn served() -> (&'static StorePlace, &'static Path) {
        let place = Box::new(StorePlace::from(Path::new("d")));
        (Box::leak(place), Path::new("d"))
    }

    #[test]
    fn a_database_is_named_without_its_password() {
        let url = format!("{}u:secret@db.example/app", engine::DatabaseUrl::SCHEME);
        let place = StorePlace::from(engine::DatabaseUrl::parse(&url).unwrap());
        let text = banner((&place, Path::new("d")), "e", None, &prepared(1, None));
        let first = text.lines().next().unwrap();
        assert!(
            first.ends_with(" serves the database app at db.example:5432"),
            "{first}"
        );
    }

    #[test]
    fn the_key_is_shown_at_the_first_start_only() {
        let key = KeySecret::new("standard_0123456789").unwrap();
        let first = banner(served(), "http://h:1/v1", None, &prepared(1, Some(key)));
        assert!(
            first.contains(
                "  endpoint    http://h:1/v1\n  project id  p0\n  API key     standard_0"
            )
        );
        let later = banner(served(), "http://h:1/v1", None, &prepared(1, None));
        assert!(!later.contains("API key"), "{later}");
    }

    #[test]
    fn many_projects_are_counted() {
        let text = banner(served(), "e", None, &prepared(10, None));
        assert!(!text.contains("more"), "{text}");
        let text = banner(served(), "e", None, &prepared(12, None));
        assert!(text.contains("p9\n              and 2 more"), "{text}");
    }

    #[test]
    fn a_taken_port_is_explained() {
        let listen = ([127, 0, 0, 1], 8_280).into();
        let taken = ServeError::Bind {
            listen,
            error: io::ErrorKind::AddrInUse.into(),
        };
        let text = explain_serve(&taken).to_string();
        assert!(
            text.starts_with("cannot listen on 127.0.0.1:8280: "),
            "{text}"
        );
        assert!(text.contains("--listen"), "{text}");
    }
}
