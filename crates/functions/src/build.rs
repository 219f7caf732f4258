//! Builds a deployment: unpacks its archive, and runs its commands in a jail whose code can be
//! written.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StandardStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::archive::{ArchiveBounds, unpack};
use crate::build_folder::{FolderExcess, FolderSize, copy_linked, give_away, measure};
use crate::jail::{FOR_PROGRAM, JailLevel, JailSetup, NO_JAIL, next_user};
use crate::launch::kill_all;
use crate::log_tail::LogTail;
use crate::memory::MemoryLook;
use crate::outside::{OutsideNetwork, WaysOut};
use crate::runtime::InstalledRuntime;

/// Where the adapter of Python looks for packages, below the code.
const PACKAGES: &str = ".packages";
/// Compiling takes no longer; what is not compiled by then is compiled by each process.
const COMPILE_MAX: Duration = Duration::from_mins(1);
/// The exit code of compiling when some of the code is for another version of its language.
const COMPILED_IN_PART: i32 = 1;
/// The size of a build is looked at this often.
const LOOK: Duration = Duration::from_millis(200);
/// What is written before the end of a build is read for so long.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);
/// Of the commands' output.
const OUTPUT_BYTES_A_SECOND: usize = 4 * 1024 * 1024;

/// How much a build may use.
#[derive(Clone, Copy, Debug)]
pub struct BuildLimits {
    /// What the archive may become.
    pub archive: ArchiveBounds,
    /// Of the commands.
    pub time_max: Duration,
    /// Of all processes together.
    pub memory_mib: u32,
    /// Of the folder.
    pub disk_bytes_max: u64,
    /// Files, folders and links in it.
    pub disk_entries_max: usize,
}

/// One build.
#[derive(Clone, Debug)]
pub struct BuildWork {
    /// The archive, a tar file compressed by gzip.
    pub archive: Bytes,
    /// An empty folder, which becomes that of the deployment.
    pub folder: PathBuf,
    /// Where a copy of that folder is made to be compiled; nothing lies there yet.
    pub compiled: PathBuf,
    /// What its commands find in [`JailSetup::CACHE`] and may change: packages that builds before
    /// have fetched, or nothing yet.
    pub cache: Option<PathBuf>,
    /// Run by `/bin/sh -e` in the root of the code; nothing of the user's runs without them.
    pub commands: String,
    /// What the commands see of the function's variables.
    pub variables: Vec<(String, String)>,
    /// Whose interpreter stands first on the search path.
    pub runtime: InstalledRuntime,
    /// A program whose command `jail` calls [`crate::jail::enter`].
    pub launcher: PathBuf,
    /// What its commands reach besides public addresses.
    pub outside: OutsideNetwork,
    /// How much it may use.
    pub limits: BuildLimits,
}

/// What a build has made in [`BuildWork::folder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// Whether the same, compiled, lies in [`BuildWork::compiled`]. Else what lies there is of no
    /// use.
    pub is_compiled: bool,
}

/// What a build has written; can be read while it runs.
#[derive(Clone, Debug)]
pub struct BuildLog {
    tail: Arc<Mutex<LogTail>>,
    letters_max: usize,
}

impl BuildLog {
    /// An empty one, which keeps the last letters.
    pub fn new(letters_max: usize) -> BuildLog {
        BuildLog {
            tail: Arc::new(Mutex::new(LogTail::new(letters_max))),
            letters_max,
        }
    }

    /// Its last letters; blanks at the end are left out.
    pub fn text(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.last(self.letters_max).to_owned()
    }

    /// Adds a text.
    pub fn push(&self, text: &str) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.push(text);
    }
}

/// Builds; `None` when that failed. The log says why.
///
/// Commands run at level `full` alone: a jail without a root of its own has no folder to write.
/// Elsewhere the code is not compiled either.
pub async fn build(work: BuildWork, log: &BuildLog) -> Option<Built> {
    match attempt(work, log).await {
        Ok(built) => Some(built),
        Err(reason) => {
            log.push(&reason);
            log.push("\n");
            None
        }
    }
}

async fn attempt(work: BuildWork, log: &BuildLog) -> Result<Built, String> {
    let work = Arc::new(work);
    let has_commands = !work.commands.trim().is_empty();
    let user = (has_commands || work.runtime.compiles()).then(next_user);
    let prepared = work.clone();
    let lent = apart(move || prepare(&prepared, user)).await??;
    let Some(user) = user else {
        return Ok(Built { is_compiled: false });
    };
    if has_commands {
        let code = run(&work, &BuildStep::commands(&work, lent), user, log).await?;
        if code != 0 {
            return Err(format!(
                "The commands ended with exit code {code}.{NETWORK}"
            ));
        }
    }
    let is_compiled = work.runtime.compiles() && compile(&work, user).await;
    Ok(Built { is_compiled })
}

/// Does what blocks elsewhere: this thread may be the only one of its runtime.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| error.to_string())
}

/// Unpacks the archive, and gives what the build may write to its user. Returns what was lent to
/// it. Blocks.
fn prepare(work: &BuildWork, user: Option<u32>) -> Result<FolderSize, String> {
    let unpacked = unpack(&work.archive[..], &work.folder, work.limits.archive);
    unpacked.map_err(|error| format!("{error}."))?;
    let path_bytes_max = work.limits.archive.path_bytes_max;
    if let Some(user) = user.filter(|_| is_root()) {
        let mut folders = iter::once(&work.folder).chain(&work.cache);
        let given = folders.try_for_each(|folder| give_away(folder, user, path_bytes_max));
        given.map_err(|error| format!("The build's folder cannot be given to it: {error}."))?;
    }
    let mut lent = FolderSize::default();
    if let Some(cache) = &work.cache {
        // Its owner bounds it.
        let measured = measure(cache, &mut lent, (FolderSize::MAX, path_bytes_max));
        measured.map_err(|error| format!("The build's cache cannot be read: {error}."))?;
    }
    Ok(lent)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Compiles a copy of the code as its runtime does, so that no process has to; false where there is
/// no such copy, or it may be broken. The code runs all the same.
async fn compile(work: &Arc<BuildWork>, user: u32) -> bool {
    let copied = work.clone();
    let copied = apart(move || copy_to_compile(&copied, user)).await;
    if !matches!(copied, Ok(Ok(()))) {
        return false;
    }
    let unread = BuildLog::new(0);
    let code = run(work, &BuildStep::compile(work), user, &unread).await;
    matches!(code, Ok(0 | COMPILED_IN_PART))
}

/// Blocks.
fn copy_to_compile(work: &BuildWork, user: u32) -> io::Result<()> {
    let bounds = work.limits.archive;
    // What is compiled may take as much again.
    let max = FolderSize {
        bytes: bounds.bytes_max / 2,
        entries: bounds.entries_max / 2,
    };
    let path_bytes_max = bounds.path_bytes_max;
    let size = &mut FolderSize::default();
    measure(&work.folder, size, (max, path_bytes_max))?;
    let copy = (work.folder.as_path(), work.compiled.as_path());
    copy_linked(copy, is_root().then_some(user), path_bytes_max)
}

/// What runs in a jail of the build.
#[derive(Clone, Debug)]
struct BuildStep {
    program: PathBuf,
    arguments: Vec<String>,
    is_commands: bool,
    folder: PathBuf,
    cache: Option<PathBuf>,
    time_max: Duration,
    limits: BuildLimits,
    /// What was lent to it does not count.
    lent: FolderSize,
}

impl BuildStep {
    fn commands(work: &BuildWork, lent: FolderSize) -> BuildStep {
        let shell = fs::canonicalize("/bin/sh").unwrap_or_else(|_| PathBuf::from("/bin/sh"));
        BuildStep {
            program: shell,
            arguments: vec!["-ec".into(), work.commands.clone()],
            is_commands: true,
            folder: work.folder.clone(),
            cache: work.cache.clone(),
            time_max: work.limits.time_max,
            limits: work.limits,
            lent,
        }
    }

    fn compile(work: &BuildWork) -> BuildStep {
        BuildStep {
            program: work.runtime.program.clone(),
            arguments: work.runtime.compile.clone(),
            is_commands: false,
            folder: work.compiled.clone(),
            cache: None,
            time_max: work.limits.time_max.min(COMPILE_MAX),
            limits: work.limits,
            lent: FolderSize::default(),
        }
    }
}

/// Runs a step to its end, or to a limit; its exit code.
async fn run(work: &BuildWork, step: &BuildStep, user: u32, log: &BuildLog) -> Result<i32, String> {
    let (ours, theirs) = StandardStream::pair().map_err(|error| error.to_string())?;
    let mut command = command(work, step, user);
    let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn();
    // Else the other end of the socket stays open here.
    drop(command);
    // Ends with the build.
    let mut reached = JoinSet::new();
    if step.is_commands {
        reached.spawn(reach_outside(ours, work.outside.clone(), log.clone()));
    }
    let mut child = child.map_err(|error| format!("The build cannot be started: {error}."))?;
    let streams = [
        child
            .stdout
            .take()
            .map(|pipe| tokio::spawn(drain(pipe, log.clone()))),
        child
            .stderr
            .take()
            .map(|pipe| tokio::spawn(drain(pipe, log.clone()))),
    ];
    let ended = watch(&mut child, step).await;
    for stream in streams.into_iter().flatten() {
        let _ = tokio::time::timeout(LAST_WORDS_MAX, stream).await;
    }
    ended
}

fn command(work: &BuildWork, step: &BuildStep, user: u32) -> Command {
    let setup = JailSetup {
        level: JailLevel::Full,
        user,
        code: step.folder.clone(),
        is_writable: true,
        cache: step.cache.clone(),
        adapter: step.program.clone(),
        folders: work.runtime.folders.clone(),
        program: step.program.clone(),
        arguments: step.arguments.clone(),
        memory_mib: work.limits.memory_mib,
        has_api: false,
        reaches_outside: step.is_commands,
        has_starts: false,
        group: None,
    };
    let mut command = Command::new(&work.launcher);
    command.arg("jail").arg(setup.to_argument()).env_clear();
    if step.is_commands {
        let mut give = |name: &str, value: &OsStr| {
            command.env(format!("{FOR_PROGRAM}{name}"), value);
        };
        let cache = Path::new(JailSetup::CACHE);
        // The interpreter's own folder is not for packages of one function.
        let packages = Path::new(JailSetup::CODE).join(PACKAGES);
        give("PIP_TARGET", packages.as_os_str());
        // All is compiled when the commands have ended.
        give("PIP_NO_COMPILE", OsStr::new("1"));
        if step.cache.is_some() {
            give("XDG_CACHE_HOME", cache.as_os_str());
            give("npm_config_cache", cache.join("npm").as_os_str());
        }
        for (name, value) in &work.variables {
            give(name, OsStr::new(value));
        }
    }
    let interpreters = work
        .runtime
        .program
        .parent()
        .unwrap_or(Path::new("/usr/bin"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", interpreters.display());
    command
        .env("PATH", path)
        .env("HOME", "/tmp")
        .env("LANG", "C.UTF-8");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

/// Waits for the end of a step, or brings it about at a limit.
async fn watch(child: &mut Child, step: &BuildStep) -> Result<i32, String> {
    let pid = child.id().unwrap_or_default();
    let started = Instant::now();
    loop {
        if let Ok(status) = tokio::time::timeout(LOOK, child.wait()).await {
            let status = status.map_err(|error| error.to_string())?;
            return match status.code() {
                Some(code) if code == i32::from(NO_JAIL) => {
                    Err("The commands were not run, or have said why they ended.".into())
                }
                Some(code) => Ok(code),
                None => Err("The commands were killed.".into()),
            };
        }
        let left = step.time_max.saturating_sub(started.elapsed());
        let reason = tokio::time::timeout(left, passed(pid, step)).await;
        if let Some(reason) = reason.unwrap_or_else(|_| Some("Build timed out.".into())) {
            kill_all(child);
            let _ = child.wait().await;
            return Err(reason);
        }
    }
}

const NETWORK: &str = " Where they cannot reach a registry, an archive brings its packages with \
                       it, such as a folder node_modules, or wheels for pip install --no-index.";

/// Lets the commands reach public addresses and names, and says in the log what they may not reach.
async fn reach_outside(socket: StandardStream, network: OutsideNetwork, log: BuildLog) {
    let (refused, mut refusals) = mpsc::channel::<SocketAddr>(1);
    let serve = async {
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        let ways = WaysOut::take_over(&socket, Arc::new(network), refused).await?;
        if let Some(ways) = ways {
            ways.serve().await;
        }
        io::Result::Ok(())
    };
    let tell = async {
        let mut count = 0;
        while let Some(address) = refusals.recv().await {
            count += 1;
            if count <= REFUSALS_TOLD_MAX {
                log.push(&format!("Builds may not connect to {address}.\n"));
            }
        }
    };
    let (served, ()) = tokio::join!(serve, tell);
    if let Err(error) = served {
        log.push(&format!("The commands have no network: {error}.\n"));
    }
}

/// Refused connections that stand in a log.
const REFUSALS_TOLD_MAX: usize = 20;

/// The limit that a step has passed, but that of time.
async fn passed(pid: u32, step: &BuildStep) -> Option<String> {
    let step = step.clone();
    let seen = apart(move || within_limits(pid, &step)).await;
    seen.flatten().err()
}

/// Blocks.
fn within_limits(pid: u32, step: &BuildStep) -> Result<(), String> {
    let limits = &step.limits;
    let memory = u64::from(limits.memory_mib) * 1024 * 1024;
    // Two launchers stand above the commands.
    if MemoryLook::default().held_bytes(pid, 2, memory / 2) > memory {
        let limit = limits.memory_mib;
        return Err(format!("The build ran out of memory ({limit} MiB)."));
    }
    let max = FolderSize {
        bytes: limits.disk_bytes_max.saturating_add(step.lent.bytes),
        entries: limits.disk_entries_max.saturating_add(step.lent.entries),
    };
    let mut size = FolderSize::default();
    let mut folders = iter::once(&step.folder).chain(&step.cache);
    let path_bytes_max = limits.archive.path_bytes_max;
    let measured = folders.try_for_each(|folder| measure(folder, &mut size, (max, path_bytes_max)));
    measured.map_err(|excess| match excess {
        FolderExcess::Bytes => {
            let limit = limits.disk_bytes_max;
            format!("The build wrote more than {limit} bytes.")
        }
        FolderExcess::Entries => {
            let limit = limits.disk_entries_max;
            format!("The build wrote more than {limit} files, folders and links.")
        }
        FolderExcess::Path => {
            format!("The build wrote a folder whose path has more than {path_bytes_max} bytes.")
        }
        FolderExcess::Unreadable(error) => {
            format!("The build wrote a folder that cannot be read: {error}.")
        }
    })
}

/// Reads what the commands write, no more in a second than is worth reading: they wait meanwhile.
async fn drain(mut pipe: impl AsyncRead + Unpin, log: BuildLog) {
    let mut buffer = vec![0; 16 * 1024];
    let (mut second, mut taken) = (Instant::now(), 0);
    loop {
        let count = pipe.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            return;
        }
        log.push(&String::from_utf8_lossy(&buffer[..count]));
        taken += count;
        if taken >= OUTPUT_BYTES_A_SECOND {
            tokio::time::sleep_until((second + Duration::from_secs(1)).into()).await;
            (second, taken) = (Instant::now(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn folders_are_measured_on_another_thread() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("file"), "").unwrap();
        let step = BuildStep {
            program: PathBuf::new(),
            arguments: Vec::new(),
            is_commands: true,
            folder: data.path().to_owned(),
            cache: None,
            time_max: Duration::MAX,
            limits: BuildLimits {
                archive: ArchiveBounds {
                    bytes_max: 0,
                    entries_max: 0,
                    path_bytes_max: 0,
                    ratio_max: 0,
                },
                time_max: Duration::MAX,
                memory_mib: 1,
                disk_bytes_max: u64::MAX,
                disk_entries_max: 0,
            },
            lent: FolderSize::default(),
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(1).build().unwrap();
        // The only thread that may block has something else to do.
        let (free, busy) = channel::<()>();
        runtime.spawn_blocking(move || busy.recv());
        let _entered = runtime.enter();
        let mut passed = pin!(passed(u32::MAX, &step));
        let mut context = Context::from_waker(Waker::noop());
        let early = passed.as_mut().poll(&mut context);
        assert_eq!(early, Poll::Pending);
        drop(free);
        let reason = runtime.block_on(passed);
        let words = "The build wrote more than 0 files, folders and links.";
        assert_eq!(reason.as_deref(), Some(words));
    }
}
