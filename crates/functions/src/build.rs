//! Builds a deployment: unpacks its archive, and runs its commands in a jail whose code can be
//! written.

use std::fs;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, lchown};
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
use crate::jail::{JailLevel, JailSetup, NO_JAIL, next_user};
use crate::launch::kill_all;
use crate::log_tail::LogTail;
use crate::memory::held_bytes;
use crate::outside::{OutsideNetwork, WaysOut};
use crate::runtime::InstalledRuntime;

/// Where the adapter of Python looks for packages, below the code.
const PACKAGES: &str = ".packages";
/// Compiling takes no longer; what is not compiled by then is compiled by each process.
const COMPILE_MAX: Duration = Duration::from_mins(1);
/// What a file takes at least.
const ENTRY_BYTES: u64 = 512;
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
}

/// One build.
#[derive(Clone, Debug)]
pub struct BuildWork {
    /// The archive, a tar file compressed by gzip.
    pub archive: Bytes,
    /// An empty folder, which becomes that of the deployment.
    pub folder: PathBuf,
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

/// Builds; true when the folder is ready to run. The log says why it is not.
///
/// Commands run at level `full` alone: a jail without a root of its own has no folder to write.
/// Elsewhere the code is not compiled either.
pub async fn build(work: BuildWork, log: &BuildLog) -> bool {
    match attempt(work, log).await {
        Ok(()) => true,
        Err(reason) => {
            log.push(&reason);
            log.push("\n");
            false
        }
    }
}

async fn attempt(work: BuildWork, log: &BuildLog) -> Result<(), String> {
    let (archive, folder, bounds) = (
        work.archive.clone(),
        work.folder.clone(),
        work.limits.archive,
    );
    let unpacked = tokio::task::spawn_blocking(move || unpack(&archive[..], &folder, bounds));
    let unpacked = unpacked.await.map_err(|error| error.to_string())?;
    unpacked.map_err(|error| format!("{error}."))?;
    let has_commands = !work.commands.trim().is_empty();
    if !has_commands && !work.runtime.compiles() {
        return Ok(());
    }
    let user = next_user();
    if rustix::process::geteuid().is_root() {
        let mut folders = iter::once(&work.folder).chain(&work.cache);
        let given = folders.try_for_each(|folder| give_away(folder, user));
        given.map_err(|error| format!("The build's folder cannot be given to it: {error}."))?;
    }
    let mut lent = FolderRoom::default();
    if let Some(cache) = &work.cache {
        // Its owner bounds it.
        fits(cache, &mut lent);
    }
    let bytes_max = work.limits.disk_bytes_max + (u64::MAX - lent.bytes);
    if has_commands {
        let step = BuildStep::commands(&work, bytes_max);
        run(&work, &step, user, log).await?;
    }
    compile(&work, bytes_max, user).await;
    Ok(())
}

/// Compiles the code as its runtime does, so that no process has to. Where that fails the code runs
/// all the same: some of it may be for another version of its language.
async fn compile(work: &BuildWork, bytes_max: u64, user: u32) {
    let bounds = work.limits.archive;
    // What is compiled may take as much again.
    let mut room = FolderRoom {
        bytes: bounds.bytes_max / 2,
        entries: bounds.entries_max / 2,
    };
    if work.runtime.compiles() && fits(&work.folder, &mut room) {
        let unread = BuildLog::new(0);
        let _ = run(work, &BuildStep::compile(work, bytes_max), user, &unread).await;
    }
}

/// What runs in a jail of the build.
struct BuildStep {
    program: PathBuf,
    arguments: Vec<String>,
    is_commands: bool,
    time_max: Duration,
    /// Of the folders that it may write.
    bytes_max: u64,
}

impl BuildStep {
    fn commands(work: &BuildWork, bytes_max: u64) -> BuildStep {
        let shell = fs::canonicalize("/bin/sh").unwrap_or_else(|_| PathBuf::from("/bin/sh"));
        BuildStep {
            program: shell,
            arguments: vec!["-ec".into(), work.commands.clone()],
            is_commands: true,
            time_max: work.limits.time_max,
            bytes_max,
        }
    }

    fn compile(work: &BuildWork, bytes_max: u64) -> BuildStep {
        BuildStep {
            program: work.runtime.program.clone(),
            arguments: work.runtime.compile.clone(),
            is_commands: false,
            time_max: work.limits.time_max.min(COMPILE_MAX),
            bytes_max,
        }
    }
}

/// Runs a step to its end, or to a limit.
async fn run(work: &BuildWork, step: &BuildStep, user: u32, log: &BuildLog) -> Result<(), String> {
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
    let ended = watch(&mut child, work, step).await;
    for stream in streams.into_iter().flatten() {
        let _ = tokio::time::timeout(LAST_WORDS_MAX, stream).await;
    }
    ended
}

fn command(work: &BuildWork, step: &BuildStep, user: u32) -> Command {
    let setup = JailSetup {
        level: JailLevel::Full,
        user,
        code: work.folder.clone(),
        is_writable: true,
        cache: work.cache.clone().filter(|_| step.is_commands),
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
        let cache = Path::new(JailSetup::CACHE);
        // The interpreter's own folder is not for packages of one function.
        command.env("PIP_TARGET", Path::new(JailSetup::CODE).join(PACKAGES));
        // All is compiled when the commands have ended.
        command.env("PIP_NO_COMPILE", "1");
        if work.cache.is_some() {
            command.env("XDG_CACHE_HOME", cache);
            command.env("npm_config_cache", cache.join("npm"));
        }
        command.envs(work.variables.iter().map(|(name, value)| (name, value)));
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
async fn watch(child: &mut Child, work: &BuildWork, step: &BuildStep) -> Result<(), String> {
    let pid = child.id().unwrap_or_default();
    let started = Instant::now();
    loop {
        if let Ok(status) = tokio::time::timeout(LOOK, child.wait()).await {
            let status = status.map_err(|error| error.to_string())?;
            return match status.code() {
                Some(0) => Ok(()),
                Some(code) if code == i32::from(NO_JAIL) => {
                    Err("The commands were not run, or have said why they ended.".into())
                }
                Some(code) => Err(format!(
                    "The commands ended with exit code {code}.{NETWORK}"
                )),
                None => Err("The commands were killed.".into()),
            };
        }
        if let Some(reason) = passed(pid, started, work, step) {
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

/// The limit that a build has passed.
fn passed(pid: u32, started: Instant, work: &BuildWork, step: &BuildStep) -> Option<String> {
    let limits = &work.limits;
    let memory = u64::from(limits.memory_mib) * 1024 * 1024;
    if started.elapsed() >= step.time_max {
        return Some("Build timed out.".into());
    }
    // Two launchers stand above the commands.
    if held_bytes(pid, 2, memory / 2) > memory {
        let limit = limits.memory_mib;
        return Some(format!("The build ran out of memory ({limit} MiB)."));
    }
    let mut room = FolderRoom {
        bytes: step.bytes_max,
        ..FolderRoom::default()
    };
    let mut folders = iter::once(&work.folder).chain(&work.cache);
    if !folders.all(|folder| fits(folder, &mut room)) {
        let limit = limits.disk_bytes_max;
        return Some(format!("The build wrote more than {limit} bytes."));
    }
    None
}

/// What is left of the bounds of a folder.
struct FolderRoom {
    bytes: u64,
    entries: usize,
}

impl Default for FolderRoom {
    /// Without bounds.
    fn default() -> FolderRoom {
        FolderRoom {
            bytes: u64::MAX,
            entries: usize::MAX,
        }
    }
}

/// Whether what lies in a folder takes no more than is left of `room`, and lessens that. What ends
/// meanwhile counts nothing. Some file systems give a file its blocks late, so its length counts,
/// too; and one that is empty still takes a place of the disk's.
fn fits(folder: &Path, room: &mut FolderRoom) -> bool {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(status) = entry.metadata() else {
            continue;
        };
        let bytes = status.len().max(status.blocks() * 512).max(ENTRY_BYTES);
        let left = room.bytes.checked_sub(bytes);
        let (Some(bytes), Some(entries)) = (left, room.entries.checked_sub(1)) else {
            return false;
        };
        *room = FolderRoom { bytes, entries };
        if status.is_dir() && !fits(&entry.path(), room) {
            return false;
        }
    }
    true
}

/// Everything becomes the build's own; links are not followed.
fn give_away(folder: &Path, user: u32) -> io::Result<()> {
    lchown(folder, Some(user), Some(user))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give_away(&entry.path(), user)?;
        } else {
            lchown(entry.path(), Some(user), Some(user))?;
        }
    }
    Ok(())
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
