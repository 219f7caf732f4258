//! Starts processes and moves bytes to and from them; knows no frame's meaning.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StandardStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt, Interest};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{TcpListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

use crate::api_listener::{ApiConnection, accept_all, take_over};
use crate::cgroup::{GroupFolder, ProcessGroup};
use crate::frame::{FrameReader, PipeFrame};
use crate::jail::{self, JailLevel, JailSetup, SIGNAL_CODE, next_user, notification};
use crate::outgoing::Outgoing;
use crate::outside::{OutsideNetwork, WaysOut};
use crate::runtime::InstalledRuntime;
use crate::starts::Starts;
use crate::work::UnpackedDeployment;

/// What is kept of the output of a process, in each second; the rest is read and dropped.
const OUTPUT_BYTES_A_SECOND: usize = 1024 * 1024;
/// What is read in each second; above that a process waits. It is read by the thread that all
/// functions share.
const OUTPUT_READ_A_SECOND: usize = 16 * 1024 * 1024;
/// Descriptors of a process.
const FILES_MAX: u32 = 256;
/// Puts the socket, which arrives as standard input, where adapters expect it, and sets limits.
const SHELL: &str = "ulimit -c 0; ulimit -n $1; ulimit -d $2; shift 2; exec 3<&0 </dev/null \"$@\"";

/// What happened to a process.
#[derive(Debug)]
pub struct ProcessEvent {
    pub process: u64,
    pub what: Happening,
}

#[derive(Debug)]
pub enum Happening {
    /// It sent what is no frame.
    Broken(String),
    /// Its end of the socket is closed.
    Closed,
    /// It wrote to a standard descriptor: `true` for errors.
    Output(bool, Vec<u8>),
    Exited(ProcessExit),
    /// The kernel has ended it: its jail held more than it may.
    LackedMemory,
    /// It may not connect to this address.
    Refused(SocketAddr),
}

/// Takes the frames that a process sends, as they come.
pub type FrameSink = Arc<dyn Fn(u64, Vec<PipeFrame>) + Send + Sync>;

/// Where what comes of processes goes. Frames go a way of their own, without a queue: there are as
/// many of them as runs.
#[derive(Clone)]
pub struct ProcessNews {
    pub frames: FrameSink,
    pub events: mpsc::Sender<ProcessEvent>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for ProcessExit {
    fn from(status: ExitStatus) -> ProcessExit {
        match (status.signal(), status.code().unwrap_or_default()) {
            (Some(signal), _) => ProcessExit::Signal(signal),
            // As a jail and a shell report it.
            (None, code) if (SIGNAL_CODE + 1..SIGNAL_CODE + 65).contains(&code) => {
                ProcessExit::Signal(code - SIGNAL_CODE)
            }
            (None, code) => ProcessExit::Code(code),
        }
    }
}

/// What shuts processes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionIsolation {
    /// Limits alone: for code that is one's own, such as the tests of the executor.
    Limits,
    /// A jail.
    Jail {
        /// A program whose command `jail` calls [`crate::jail::enter`].
        launcher: PathBuf,
        /// How well.
        level: JailLevel,
    },
}

impl FunctionIsolation {
    /// Whether each process has a network of its own.
    pub fn has_networks(&self) -> bool {
        let full = JailLevel::Full;
        matches!(self, FunctionIsolation::Jail { level, .. } if *level == full)
    }
}

/// Where processes are started, and for whom what happens to them is meant.
#[derive(Clone)]
pub struct Launcher {
    /// Where the adapters lie.
    adapters: PathBuf,
    /// Those that are compiled, by their interpreter.
    compiled: HashMap<PathBuf, PathBuf>,
    isolation: FunctionIsolation,
    /// Where a group is made for each jail.
    groups: Option<GroupFolder>,
    /// Where connections to the API go, from jails that have a network of their own.
    api: Option<mpsc::Sender<ApiConnection>>,
    outside: Arc<OutsideNetwork>,
    news: ProcessNews,
}

/// A process that was started. Dropping it kills the process.
#[derive(Debug)]
pub struct Launched {
    pub pid: u32,
    /// Processes of ours above that of the user's code.
    pub depth: usize,
    pub outgoing: Arc<Outgoing>,
    pub starts: Arc<Starts>,
    kill: Option<oneshot::Sender<()>>,
}

impl Launched {
    /// A process that was never started.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn pretended() -> Launched {
        Launched {
            pid: 0,
            depth: 0,
            outgoing: Outgoing::nowhere(),
            starts: Arc::default(),
            kill: None,
        }
    }

    /// Kills the process and its group. Its exit is reported as an event.
    pub fn kill(&mut self) {
        self.kill.take();
    }
}

impl Launcher {
    /// # Errors
    /// When the adapters cannot be written.
    pub fn new(
        folder: &Path,
        runtimes: &[InstalledRuntime],
        (isolation, groups): (FunctionIsolation, Option<GroupFolder>),
        (api, outside): (Option<mpsc::Sender<ApiConnection>>, OutsideNetwork),
        news: ProcessNews,
    ) -> io::Result<Launcher> {
        let adapters = folder.join("adapters");
        std::fs::create_dir_all(&adapters)?;
        for runtime in runtimes {
            // Under another name first: a process may just be reading the old one.
            let written = adapters.join(format!("{}.new", runtime.adapter));
            std::fs::write(&written, runtime.adapter_text)?;
            std::fs::rename(&written, adapters.join(&runtime.adapter))?;
        }
        let compiled = runtimes.iter().enumerate().filter_map(|(nth, runtime)| {
            let compiled = runtime.compile_adapter(&adapters, nth)?;
            Some((runtime.program.clone(), compiled))
        });
        let mut launcher = Launcher {
            compiled: compiled.collect(),
            adapters,
            isolation,
            groups,
            api: None,
            outside: Arc::new(outside),
            news,
        };
        // Else a process would listen on the host.
        launcher.api = api.filter(|_| launcher.isolation.has_networks());
        Ok(launcher)
    }

    /// Starts a process. Variables are no part of its environment, which others may read: they
    /// follow by the socket.
    pub fn start(
        &self,
        process: u64,
        runtime: &InstalledRuntime,
        deployment: &UnpackedDeployment,
    ) -> io::Result<Launched> {
        let (ours, theirs) = StandardStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        let mut group = None;
        let mut command = match &self.isolation {
            FunctionIsolation::Limits => self.limited(runtime, deployment),
            FunctionIsolation::Jail { launcher, level } => {
                if let Some(groups) = &self.groups {
                    group =
                        Some(groups.make(process, deployment.memory_mib, deployment.cpu_weight)?);
                }
                let mut setup = self.setup(*level, runtime, deployment);
                setup.group = group.as_ref().map(|group| group.folder().to_owned());
                let mut command = Command::new(launcher);
                command.arg("jail").arg(setup.to_argument());
                command
            }
        };
        surround(&mut command, theirs);
        if let FunctionIsolation::Jail { .. } = &self.isolation {
            let (name, value) = jail::NO_HUGE_PAGES;
            command.env(name, value);
        }
        let started = command
            .spawn()
            .and_then(|child| Ok((end_of(&child)?, child)));
        let (ended, mut child) = started.inspect_err(|_| {
            if let Some(group) = &group {
                group.remove();
            }
        })?;
        // Else the other end of the socket stays open here.
        drop(command);
        let pid = child.id().unwrap_or_default();
        let (read, write) = ours.into_split();
        let outgoing = Outgoing::new(write);
        let (kill, killed) = oneshot::channel();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let events = &self.news.events;
        let starts = Arc::<Starts>::default();
        let handover = Handover {
            starts: self.has_starts().then(|| starts.clone()),
            deployment: deployment.id.as_str().into(),
            connections: self.api.clone(),
            outside: deployment.reaches_outside.then(|| self.outside.clone()),
        };
        let socket = (read, outgoing.clone());
        tokio::spawn(read_all(process, socket, handover, self.news.clone()));
        if let Some(stdout) = stdout {
            tokio::spawn(drain(process, false, stdout, events.clone()));
        }
        if let Some(stderr) = stderr {
            tokio::spawn(drain(process, true, stderr, events.clone()));
        }
        let watched = (ended, child, group);
        tokio::spawn(watch(process, watched, killed, events.clone()));
        Ok(Launched {
            pid,
            depth: self.depth(),
            outgoing,
            starts,
            kill: Some(kill),
        })
    }

    /// Where the process finds its code.
    pub fn code_folder(&self, deployment: &UnpackedDeployment) -> String {
        match &self.isolation {
            FunctionIsolation::Jail {
                level: JailLevel::Full,
                ..
            } => JailSetup::CODE.to_owned(),
            _ => deployment.folder.to_string_lossy().into_owned(),
        }
    }

    fn depth(&self) -> usize {
        match &self.isolation {
            FunctionIsolation::Limits => 0,
            FunctionIsolation::Jail { level, .. } => match level {
                JailLevel::Full => 2,
                JailLevel::Reduced => 1,
            },
        }
    }

    fn setup(
        &self,
        level: JailLevel,
        runtime: &InstalledRuntime,
        deployment: &UnpackedDeployment,
    ) -> JailSetup {
        let adapter = self.adapter(runtime);
        let seen = match level {
            JailLevel::Full => {
                Path::new(JailSetup::ADAPTER).join(adapter.file_name().unwrap_or_default())
            }
            JailLevel::Reduced => adapter.clone(),
        };
        JailSetup {
            level,
            user: next_user(),
            code: deployment.folder.clone(),
            is_writable: false,
            cache: None,
            adapter,
            folders: runtime.folders.clone(),
            program: runtime.program.clone(),
            arguments: runtime.arguments(&seen, deployment.memory_mib),
            memory_mib: deployment.memory_mib,
            has_api: self.api.is_some(),
            reaches_outside: deployment.reaches_outside,
            has_starts: self.has_starts(),
            group: None,
        }
    }

    fn adapter(&self, runtime: &InstalledRuntime) -> PathBuf {
        let compiled = self.compiled.get(&runtime.program);
        let text = || self.adapters.join(&runtime.adapter);
        compiled.cloned().unwrap_or_else(text)
    }

    /// Whether its processes say by a pipe which requests they start: where a launcher of ours
    /// makes it.
    pub fn has_starts(&self) -> bool {
        matches!(&self.isolation, FunctionIsolation::Jail { .. })
    }

    fn limited(&self, runtime: &InstalledRuntime, deployment: &UnpackedDeployment) -> Command {
        let adapter = self.adapter(runtime);
        let memory_kib = u64::from(deployment.memory_mib) * 1024;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SHELL, "sh", &FILES_MAX.to_string()]);
        command.arg(memory_kib.to_string());
        command.arg(&runtime.program);
        command.args(runtime.arguments(&adapter, deployment.memory_mib));
        command.current_dir(&deployment.folder).process_group(0);
        command
    }
}

/// Sets what a process finds around it; its socket is its standard input at first.
fn surround(command: &mut Command, socket: StandardStream) {
    command.env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("HOME", "/tmp").env("LANG", "C.UTF-8");
    command.stdin(Stdio::from(OwnedFd::from(socket)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
}

/// What the launcher hands over, and who takes it.
struct Handover {
    deployment: Arc<str>,
    /// Where the pipe of starts goes, if there is one.
    starts: Option<Arc<Starts>>,
    /// Where what connects to the API goes, if there is one.
    connections: Option<mpsc::Sender<ApiConnection>>,
    /// What it reaches outside, if it does.
    outside: Option<Arc<OutsideNetwork>>,
}

/// Addresses that were refused and are not yet counted.
const REFUSED_WAITING_MAX: usize = 16;

impl Handover {
    /// Takes all over; `None` where the process has ended before.
    async fn take(
        self,
        socket: &UnixStream,
        refused: mpsc::Sender<SocketAddr>,
    ) -> io::Result<Option<TakenOver>> {
        let mut taken = TakenOver::default();
        if let Some(starts) = self.starts
            && !starts.take_over(socket).await?
        {
            return Ok(None);
        }
        if let Some(connections) = self.connections {
            let Some(listener) = take_over(socket).await? else {
                return Ok(None);
            };
            taken.api = Some((listener, self.deployment, connections));
        }
        if let Some(network) = self.outside {
            taken.outside = WaysOut::take_over(socket, network, refused).await?;
            if taken.outside.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(taken))
    }
}

/// What the launcher has handed over.
#[derive(Default)]
struct TakenOver {
    api: Option<(TcpListener, Arc<str>, mpsc::Sender<ApiConnection>)>,
    outside: Option<WaysOut>,
}

impl TakenOver {
    /// Never ends by itself: frames are to be read to their end.
    async fn serve(self) -> Infallible {
        let api = async {
            if let Some((listener, deployment, connections)) = self.api {
                accept_all(listener, deployment, connections).await;
            }
        };
        let outside = async {
            if let Some(outside) = self.outside {
                outside.serve().await;
            }
        };
        tokio::join!(api, outside);
        std::future::pending().await
    }
}

/// Reads frames, and serves meanwhile what the launcher has handed over, and what is to be sent.
async fn read_all(
    process: u64,
    (socket, outgoing): (OwnedReadHalf, Arc<Outgoing>),
    handover: Handover,
    news: ProcessNews,
) {
    let (refused, refusals) = mpsc::channel(REFUSED_WAITING_MAX);
    let events = news.events.clone();
    let read = async move {
        match handover.take(socket.as_ref(), refused).await {
            Ok(None) => read_frames(process, socket, news).await,
            Ok(Some(taken)) => tokio::select! {
                () = read_frames(process, socket, news.clone()) => {}
                never = taken.serve() => match never {},
                never = tell_refusals(process, refusals, news.events) => match never {},
            },
            Err(error) => {
                let what = Happening::Broken(error.to_string());
                let _ = events.send(ProcessEvent { process, what }).await;
            }
        }
    };
    tokio::select! {
        () = read => {}
        never = outgoing.flush_when_writable() => match never {},
    }
}

async fn tell_refusals(
    process: u64,
    mut refusals: mpsc::Receiver<SocketAddr>,
    events: mpsc::Sender<ProcessEvent>,
) -> Infallible {
    while let Some(address) = refusals.recv().await {
        let what = Happening::Refused(address);
        let _ = events.send(ProcessEvent { process, what }).await;
    }
    std::future::pending().await
}

async fn read_frames(process: u64, mut socket: OwnedReadHalf, news: ProcessNews) {
    let mut reader = FrameReader::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = socket.read(&mut buffer).await.unwrap_or(0);
        let (frames, broken) = reader.feed(&buffer[..count]);
        // What came before a broken frame counts: a request may have been started.
        if !frames.is_empty() {
            (news.frames)(process, frames);
        }
        let end = match broken {
            Some(error) => Happening::Broken(error.to_string()),
            None if count == 0 => Happening::Closed,
            None => continue,
        };
        let what = end;
        let _ = news.events.send(ProcessEvent { process, what }).await;
        return;
    }
}

/// Reads what a process writes, and passes on as much of it as may be kept.
async fn drain(
    process: u64,
    is_error: bool,
    mut pipe: impl AsyncRead + Unpin,
    events: mpsc::Sender<ProcessEvent>,
) {
    let mut buffer = vec![0; 16 * 1024];
    let (mut second, mut taken, mut kept) = (Instant::now(), 0, 0);
    loop {
        let count = pipe.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            return;
        }
        if second.elapsed() >= Duration::from_secs(1) {
            (second, taken, kept) = (Instant::now(), 0, 0);
        }
        taken += count;
        if taken >= OUTPUT_READ_A_SECOND {
            tokio::time::sleep_until((second + Duration::from_secs(1)).into()).await;
        }
        let room = count.min(OUTPUT_BYTES_A_SECOND - kept);
        kept += room;
        if room > 0 {
            let what = Happening::Output(is_error, buffer[..room].to_vec());
            if events.send(ProcessEvent { process, what }).await.is_err() {
                return;
            }
        }
    }
}

/// Is readable once the process has ended, which is not reaped by that.
fn end_of(child: &Child) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    notification::watch(pidfd_open(pid, PidfdFlags::empty())?, Interest::READABLE)
}

/// Kills a process and its group. A launcher makes its group itself: the process first, so that
/// none comes into being between the two.
pub fn kill_all(child: &mut Child) {
    // Not waited for yet, so the number is still its own and its group's.
    let pid = child.id().and_then(|pid| Pid::from_raw(pid as i32));
    let _ = child.start_kill();
    if let Some(pid) = pid {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Waits for the end of a process, and brings it about when the other end of `killed` is dropped.
/// What it leaves behind is killed before it is reaped: then its number may become another's. The
/// kernel lets none that is forked meanwhile escape a signal to its group.
async fn watch(
    process: u64,
    (ended, mut child, group): (AsyncFd<OwnedFd>, Child, Option<ProcessGroup>),
    killed: oneshot::Receiver<()>,
    events: mpsc::Sender<ProcessEvent>,
) {
    tokio::select! {
        _ = ended.readable() => {}
        _ = killed => {}
    }
    kill_all(&mut child);
    let exit = child.wait().await;
    let exit = exit.map_or(ProcessExit::Code(-1), ProcessExit::from);
    let lacked_memory = group.as_ref().is_some_and(ProcessGroup::lacked_memory);
    let lacked_memory = lacked_memory.then_some(Happening::LackedMemory);
    for what in lacked_memory.into_iter().chain([Happening::Exited(exit)]) {
        let _ = events.send(ProcessEvent { process, what }).await;
    }
    if let Some(group) = group {
        group.end().await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tokio::io::ReadBuf;

    use super::*;

    /// Output without an end.
    struct Flood(usize);

    impl AsyncRead for Flood {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.0 += buffer.remaining();
            let count = buffer.remaining();
            buffer.initialize_unfilled();
            buffer.advance(count);
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn flood_of_output_is_read_no_faster_than_it_may_be() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        let _inside = runtime.enter();
        let (events, mut kept) = mpsc::channel(1_024);
        let mut flood = Flood(0);
        let begun = Instant::now();
        {
            let mut drained = pin!(drain(1, false, &mut flood, events));
            let mut context = Context::from_waker(Waker::noop());
            // Until it waits for the next second.
            assert!(drained.as_mut().poll(&mut context).is_pending());
        }
        let seconds = begun.elapsed().as_secs() as usize + 1;
        assert!(flood.0 <= seconds * (17 << 20), "{} bytes", flood.0);
        let mut bytes = 0;
        while let Ok(event) = kept.try_recv() {
            if let Happening::Output(_, output) = event.what {
                bytes += output.len();
            }
        }
        assert!(bytes <= seconds * OUTPUT_BYTES_A_SECOND, "{bytes}");
    }

    #[test]
    fn process_that_ends_takes_all_in_its_group_with_it() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 600 & exit 3"]).process_group(0);
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let (events, mut happened) = mpsc::channel(8);
            let (_kill, killed) = oneshot::channel();
            let watched = (end_of(&child).unwrap(), child, None);
            watch(1, watched, killed, events).await;
            let event = happened.recv().await.unwrap();
            let is_told = matches!(event.what, Happening::Exited(ProcessExit::Code(3)));
            assert!(is_told, "{event:?}");
            // Both have closed it.
            assert_eq!(stdout.read(&mut [0]).await.unwrap(), 0);
        });
    }
}
