//! What shuts a process in: namespaces, a root of its own, limits, landlock, seccomp.
//!
//! The launcher is our own binary, started again as `tidemark jail SETUP`: it has one thread, so
//! that it may do between fork and exec what a server with many threads may not.

pub mod attempt;
mod fences;
pub(crate) mod notification;
mod process_limit;
mod raw;
mod session;
mod tree;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::iter;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use serde_json::{Value, json};

use self::session::SessionWeight;
use crate::{api_listener, cgroup, outside, starts};

/// Where adapters expect the socket.
const SOCKET: i32 = 3;
/// What the launcher exits with when there is no jail; its standard error says why.
pub const NO_JAIL: u8 = 125;
/// A process that ended by a signal is reported with this and the signal's number.
pub const SIGNAL_CODE: i32 = 128;

/// What the launcher is started with so that its allocator takes no huge pages: mimalloc, whose
/// `mi_option_allow_thp` it is, begins with 4 MiB of them, which stay as long as the jail does.
pub(crate) const NO_HUGE_PAGES: (&str, &str) = ("MIMALLOC_ALLOW_THP", "0");

/// What the name of a variable that users chose begins with in the launcher's environment, and not
/// in the program's: the launcher is not shut in yet, and `LD_PRELOAD` would run code there.
pub(crate) const FOR_PROGRAM: &str = "TIDEMARK_FOR_PROGRAM_";

/// Limits the memory of a program, in KiB, and becomes it.
const LIMITED: &str = "ulimit -d \"$1\"; shift; exec \"$@\"";

/// An environment: names and values.
pub type Environment = Vec<(OsString, OsString)>;

/// Users of jails that a launcher started as root makes; no system gives these numbers away.
const USERS_FIRST: u32 = 1_879_048_192;
const USERS_COUNT: u32 = 1 << 24;

/// A user for one jail. The limit of processes counts all that a user has on the host: two jails
/// with one user would take them from each other.
pub fn next_user() -> u32 {
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(drawn()));
    USERS_FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % USERS_COUNT
}

/// Where the users of a server begin. By chance: of the servers of a host nothing else is sure to
/// differ, as in containers they have the same process id.
fn drawn() -> u32 {
    RandomState::new().hash_one(()) as u32
}

/// How well a process is shut in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JailLevel {
    /// Namespaces, a root of its own, landlock, seccomp, limits.
    Full,
    /// Landlock, seccomp and limits, where there are no user namespaces.
    Reduced,
}

impl JailLevel {
    /// As settings and reports write it.
    pub fn as_str(self) -> &'static str {
        match self {
            JailLevel::Full => "full",
            JailLevel::Reduced => "reduced",
        }
    }

    /// What this level does not hold back.
    pub fn lacks(self) -> &'static [&'static str] {
        match self {
            JailLevel::Full => &[],
            JailLevel::Reduced => &[
                "names of files can be learned, though none of the files be read",
                "path sockets of the host can be reached",
                "before Linux 6.12 abstract sockets of the host can be reached as well, and \
                 without root the processes of the server's user be ended",
                "no folder can be written, the temporary one neither",
                "without control groups, processes that do not end by themselves outlive a server \
                 that was killed",
                "processes of all functions have one user",
                "without root, the room for a function's processes is fixed at its start, and what \
                 other processes of the user take later is gone from it: one function can starve \
                 another",
            ],
        }
    }
}

/// One process to be shut in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct JailSetup {
    /// How well.
    pub level: JailLevel,
    /// Its user, where the launcher is started as root.
    pub user: u32,
    /// Seen as [`JailSetup::CODE`] at level `full`.
    pub code: PathBuf,
    /// Whether the code may be written, as builds do.
    pub is_writable: bool,
    /// A folder that may be written, seen as [`JailSetup::CACHE`] at level `full`.
    pub cache: Option<PathBuf>,
    /// A file, seen below [`JailSetup::ADAPTER`] at level `full`.
    pub adapter: PathBuf,
    /// What may be read besides the folders of the system.
    pub folders: Vec<PathBuf>,
    /// The interpreter.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What one process may hold.
    pub memory_mib: u32,
    /// Whether the API is to be reached at [`crate::API_PORT`]; at level `full` alone.
    pub has_api: bool,
    /// Whether it has the network `outside`; at level `full` alone.
    pub reaches_outside: bool,
    /// Whether it says by a pipe which requests it starts.
    pub has_starts: bool,
    /// The control group that it enters, if there is one.
    pub group: Option<PathBuf>,
}

impl JailSetup {
    /// The root of the code, as the process sees it.
    pub const CODE: &'static str = "/function";
    /// The folder of packages that builds have fetched, as the commands of a build see it.
    pub const CACHE: &'static str = "/cache";
    /// The folder of the adapter, as the process sees it.
    pub const ADAPTER: &'static str = "/adapter";

    /// As the launcher's one argument.
    pub fn to_argument(&self) -> String {
        let folders = self.folders.iter().map(|folder| folder.to_string_lossy());
        let folders: Vec<_> = folders.collect();
        let value = json!({
            "level": self.level.as_str(),
            "user": self.user,
            "code": self.code.to_string_lossy(),
            "is_writable": self.is_writable,
            "cache": self.cache.as_ref().map(|cache| cache.to_string_lossy()),
            "adapter": self.adapter.to_string_lossy(),
            "folders": folders,
            "program": self.program.to_string_lossy(),
            "arguments": self.arguments,
            "memory_mib": self.memory_mib,
            "has_api": self.has_api,
            "reaches_outside": self.reaches_outside,
            "has_starts": self.has_starts,
            "group": self.group.as_ref().map(|group| group.to_string_lossy()),
        });
        value.to_string()
    }

    /// # Errors
    /// When the text is not what [`JailSetup::to_argument`] makes.
    pub fn from_argument(text: &str) -> Result<JailSetup, JailError> {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let path = |key: &str| value[key].as_str().map(PathBuf::from);
        let list = |key: &str| value[key].as_array().cloned().unwrap_or_default();
        let number = |key: &str| {
            value[key]
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
        };
        let level = match value["level"].as_str() {
            Some("full") => Some(JailLevel::Full),
            Some("reduced") => Some(JailLevel::Reduced),
            _ => None,
        };
        let read = || {
            Some(JailSetup {
                level: level?,
                user: number("user")?,
                code: path("code")?,
                is_writable: value["is_writable"].as_bool()?,
                cache: path("cache"),
                adapter: path("adapter")?,
                folders: list("folders")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(PathBuf::from)
                    .collect(),
                program: path("program")?,
                arguments: list("arguments")
                    .iter()
                    .filter_map(|argument| argument.as_str().map(str::to_owned))
                    .collect(),
                memory_mib: number("memory_mib")?,
                has_api: value["has_api"].as_bool()?,
                reaches_outside: value["reaches_outside"].as_bool()?,
                has_starts: value["has_starts"].as_bool()?,
                group: path("group"),
            })
        };
        read().ok_or_else(|| JailError::new("reading its setup", "it is incomplete"))
    }
}

/// Why there is no jail: at which step, and what the system said.
#[derive(Debug)]
pub struct JailError {
    step: String,
    detail: String,
}

impl JailError {
    fn new(step: impl Into<String>, detail: impl fmt::Display) -> JailError {
        JailError {
            step: step.into(),
            detail: detail.to_string(),
        }
    }
}

impl fmt::Display for JailError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.step, self.detail)
    }
}

impl std::error::Error for JailError {}

/// Names the step that failed.
trait AtStep<T> {
    fn at(self, step: &str) -> Result<T, JailError>;
}

impl<T, E: fmt::Display> AtStep<T> for Result<T, E> {
    fn at(self, step: &str) -> Result<T, JailError> {
        self.map_err(|error| JailError::new(step, error))
    }
}

/// What the program gets, besides what its setup says.
struct HandedOn {
    socket: OwnedFd,
    /// The pipe of starts, if there is one.
    starts: Option<OwnedFd>,
    environment: Environment,
}

/// Makes a jail of this process, runs the program in it, and waits for its end. Standard input is
/// the socket, `environment` that of this process. Returns the exit code.
///
/// Call it from a process with one thread.
///
/// # Errors
/// When the jail cannot be made; then nothing was run.
pub fn enter(setup: &JailSetup, environment: Environment) -> Result<u8, JailError> {
    if let Some(group) = &setup.group {
        // Before anything is started: children are where their parent is.
        cgroup::enter(group).at("entering its control group")?;
    }
    let socket = move_socket()?;
    let make_starts = || starts::hand_over(socket.as_fd()).at("making the pipe of starts");
    let starts = setup.has_starts.then(make_starts).transpose()?;
    let held = HandedOn {
        socket,
        starts,
        environment,
    };
    let socket = &held.socket;
    // After these have their numbers: it may keep a descriptor.
    let weight = session::begin()?;
    std::fs::write("/proc/self/oom_score_adj", "500").at("setting its badness for the kernel")?;
    match setup.level {
        JailLevel::Reduced => {
            let as_root = rustix::process::geteuid().is_root();
            std::env::set_current_dir(&setup.code).at("entering the code's folder")?;
            let processes_max = if as_root {
                fences::become_user(setup.user)?;
                process_limit::PROCESSES_MAX
            } else {
                process_limit::beside_others().at("counting the processes of its user")?
            };
            live(setup, held, weight, processes_max)
        }
        JailLevel::Full => {
            let inside = raw::unshare_all(setup.user).at("making namespaces")?;
            if setup.has_api || setup.reaches_outside {
                raw::raise_loopback().at("raising its loopback")?;
            }
            if setup.has_api {
                api_listener::hand_over(socket.as_fd()).at("listening for the API")?;
            }
            if setup.reaches_outside {
                outside::hand_over_ways(socket.as_fd()).at("listening for names")?;
            }
            let first = process_limit::start_patiently(raw::fork);
            if let Some(first) = first.at("starting the first process")? {
                drop(held);
                if let Some(weight) = weight {
                    weight.set_beside(first);
                }
                return Ok(exit_code(
                    wait_for(first).at("waiting for the first process")?,
                ));
            }
            // Set by the launcher, which outlives all in its jail.
            drop(weight);
            tree::enter(setup, inside)?;
            if inside.was_root {
                fences::become_user(setup.user)?;
            }
            // Where it was not root, the user of its namespace is its own.
            live(setup, held, None, process_limit::PROCESSES_MAX)
        }
    }
}

/// Drops what is left of its rights, starts the program, and reaps what ends until that does.
fn live(
    setup: &JailSetup,
    handed: HandedOn,
    weight: Option<SessionWeight>,
    processes_max: u64,
) -> Result<u8, JailError> {
    let HandedOn {
        socket,
        starts,
        environment,
    } = handed;
    fences::put_up(setup, processes_max)?;
    if setup.level == JailLevel::Full && setup.reaches_outside {
        outside::hand_over_connects(socket.as_fd()).at("handing connects over")?;
    }
    let mut command = program_of(setup);
    command.env_clear().envs(of_program(environment));
    // The allocator has set it for all that is started here. A kernel that does not know it has set
    // nothing.
    let _ = rustix::thread::disable_transparent_huge_pages(false);
    command.stdin(Stdio::null());
    for handed in iter::once(&socket).chain(&starts) {
        fcntl_setfd(handed, FdFlags::empty()).at("handing on its descriptors")?;
    }
    let child = process_limit::start_patiently(|| command.spawn());
    let child = child.at("starting the program")?;
    // The process alone holds the socket, so that its end is seen.
    drop((socket, starts));
    let program = Pid::from_child(&child);
    if setup.level == JailLevel::Full {
        fences::limit_memory(program, setup.memory_mib)?;
    }
    if let Some(weight) = weight {
        weight.set_beside(program);
    }
    loop {
        // Orphans become children of the first process.
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => return Ok(exit_code(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(JailError::new("waiting for the program", error)),
        }
    }
}

/// What is started. At level `reduced` it limits its memory itself, by a shell.
fn program_of(setup: &JailSetup) -> Command {
    let mut command = match setup.level {
        JailLevel::Full => Command::new(&setup.program),
        JailLevel::Reduced => {
            let memory_kib = u64::from(setup.memory_mib) * 1024;
            let mut command = Command::new("/bin/sh");
            command.args(["-ec", LIMITED, "sh", &memory_kib.to_string()]);
            command.arg(&setup.program);
            command
        }
    };
    command.args(&setup.arguments);
    command
}

/// The environment of the program, of that of its launcher. What the server has set counts more
/// than what users have.
fn of_program(of_launcher: Environment) -> impl Iterator<Item = (OsString, OsString)> {
    let chosen = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(FOR_PROGRAM.as_bytes());
        rest.map(|rest| OsStr::from_bytes(rest).to_owned())
    };
    let (by_users, own): (Environment, Environment) = of_launcher
        .into_iter()
        .partition(|(name, _)| chosen(name).is_some());
    let by_users = by_users
        .into_iter()
        .filter_map(move |(name, value)| Some((chosen(&name)?, value)));
    by_users.chain(own.into_iter().filter(|(name, _)| name != NO_HUGE_PAGES.0))
}

/// Moves standard input to where adapters expect it.
fn move_socket() -> Result<OwnedFd, JailError> {
    let step = "taking its socket";
    let socket = fcntl_dupfd_cloexec(io::stdin(), SOCKET).at(step)?;
    if socket.as_raw_fd() != SOCKET {
        return Err(JailError::new(step, "descriptor 3 is taken"));
    }
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    rustix::stdio::dup2_stdin(nothing.at(step)?).at(step)?;
    Ok(socket)
}

fn wait_for(pid: Pid) -> rustix::io::Result<WaitStatus> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn exit_code(status: WaitStatus) -> u8 {
    let by_signal = status
        .terminating_signal()
        .map(|signal| SIGNAL_CODE + signal);
    let code = by_signal
        .or(status.exit_status())
        .unwrap_or(SIGNAL_CODE + Signal::KILL.as_raw());
    code as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_finds_what_users_chose_and_the_server_has_the_last_word() {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let given = vec![
            pair("PATH", "/usr/bin"),
            pair("TIDEMARK_FOR_PROGRAM_PATH", "/tmp"),
            pair("TIDEMARK_FOR_PROGRAM_LD_PRELOAD", "/function/a.so"),
            pair(NO_HUGE_PAGES.0, NO_HUGE_PAGES.1),
        ];
        let found: Environment = of_program(given).collect();
        let expected = [
            pair("PATH", "/tmp"),
            pair("LD_PRELOAD", "/function/a.so"),
            pair("PATH", "/usr/bin"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_user_is_of_one_jail() {
        let (first, second) = (next_user(), next_user());
        assert_ne!(first, second);
        let range = USERS_FIRST..USERS_FIRST + USERS_COUNT;
        assert!(
            range.contains(&first) && range.contains(&second),
            "{first} {second}"
        );
    }

    #[test]
    fn users_of_servers_begin_apart() {
        let first = drawn() % USERS_COUNT;
        // One in 16,777,216 meets it.
        assert!((0..4).any(|_| drawn() % USERS_COUNT != first));
    }

    #[test]
    fn a_setup_survives_its_argument() {
        let setup = JailSetup {
            level: JailLevel::Full,
            user: 7,
            code: "/a b".into(),
            is_writable: true,
            cache: Some("/cache of/a project".into()),
            adapter: "/c/d.mjs".into(),
            folders: vec!["/e".into()],
            program: "/usr/bin/node".into(),
            arguments: vec!["--x=\"1\"".into()],
            memory_mib: 512,
            has_api: true,
            reaches_outside: true,
            has_starts: true,
            group: Some("/sys/fs/cgroup/a b".into()),
        };
        assert_eq!(
            JailSetup::from_argument(&setup.to_argument()).unwrap(),
            setup
        );
        for text in ["", "{}", "[]", r#"{"level":"none"}"#] {
            assert!(JailSetup::from_argument(text).is_err(), "{text}");
        }
    }
}
