//! Each way out of the jail is shut, in both languages: as the user of the tests, and as another
//! one where that is root.
//!
//! Where the kernel has no namespaces for this user the tests say so and end; with
//! `TIDEMARK_JAIL=required` in the environment that counts as failed.

mod api;
mod beside_server;
mod builds;
mod groups;
mod left_behind;
mod memory;
mod neighbours;
mod outside;
mod process_limit;
mod registries;
mod sessions;
mod spare;

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use functions::jail::{JailLevel, JailSetup};
use functions::outside::OutsideNetwork;
use functions::{
    Executor, ExecutorSettings, FunctionIsolation, FunctionOutcome, FunctionWork,
    InstalledRuntimes, RunCause, UnpackedDeployment,
};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_tidemark");

/// Each language, and the ending of its files.
const LANGUAGES: [(&str, &str); 2] = [("node", "js"), ("python", "py")];

/// What a host has that a function must not reach.
struct Host {
    folder: tempfile::TempDir,
    listener: TcpListener,
    _path_socket: UnixListener,
    _abstract_socket: UnixListener,
    name: String,
}

impl Host {
    fn new() -> Host {
        let folder = tempfile::tempdir().unwrap();
        // What reaches the code by a path is open to others in `reduced` only because it must be.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(folder.path().join("own"), "").unwrap();
        let code = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/jail/code");
        fs::create_dir(folder.path().join("code")).unwrap();
        for file in fs::read_dir(code).unwrap() {
            let file = file.unwrap();
            fs::copy(
                file.path(),
                folder.path().join("code").join(file.file_name()),
            )
            .unwrap();
        }
        let name = format!("tidemark-{}", folder.path().display());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        Host {
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            _path_socket: UnixListener::bind(folder.path().join("path.sock")).unwrap(),
            _abstract_socket: UnixListener::bind_addr(&address).unwrap(),
            folder,
            name,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the hostile code is given to look for.
    fn targets(&self) -> Vec<u8> {
        let targets = json!({
            "secret": self.path("secret"), "port": self.listener.local_addr().unwrap().port(),
            "abstract": self.name, "path_socket": self.path("path.sock"),
        });
        targets.to_string().into_bytes()
    }

    fn settings(&self, level: JailLevel) -> ExecutorSettings {
        let settings = ExecutorSettings {
            folder: self.path("executor"),
            isolation: FunctionIsolation::Jail {
                launcher: BINARY.into(),
                level,
            },
            processes_max: 1,
            memory_max_mib: 16_384,
            idle_max: Duration::from_mins(1),
            spare_idle_max: Duration::ZERO,
            start_max: Duration::from_mins(1),
            body_bytes_max: 10_485_760,
            outside: OutsideNetwork::default(),
            groups: None,
        };
        fs::create_dir_all(&settings.folder).unwrap();
        settings
    }

    fn executor(&self, level: JailLevel) -> Executor {
        let mut search_path = std::env::var_os("PATH").unwrap_or_default();
        if level == JailLevel::Reduced {
            // What stands in a home may be closed to the user of a jail.
            let system = OsString::from("/usr/bin:");
            search_path = [system, search_path].into_iter().collect();
        }
        let runtimes = InstalledRuntimes::find(&search_path, &[]);
        Executor::new(self.settings(level), runtimes).unwrap()
    }

    fn work(&self, executor: &Executor, language: &str, file: &str, path: &str) -> FunctionWork {
        let mut runtimes = executor.runtimes().found().iter();
        let runtime = runtimes.find(|runtime| runtime.name == language).unwrap();
        FunctionWork {
            deployment: Arc::new(UnpackedDeployment {
                id: file.to_owned(),
                revision: 1,
                runtime: runtime.ids[0].clone(),
                folder: self.path("code"),
                entrypoint: file.to_owned(),
                variables: vec![("ONE".into(), "1".into())],
                memory_mib: 256,
                cpu_weight: 50,
                concurrency: 32,
                reaches_outside: false,
            }),
            method: "POST".into(),
            path: path.into(),
            headers: Vec::new(),
            body: self.targets().into(),
            timeout: Duration::from_mins(1),
            wait_max: Some(Duration::from_mins(5)),
        }
    }
}

/// Held by tests that take all processes they can, and by those of level `reduced`: of a user other
/// than root, all jails have one user, and the kernel counts them together.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(executor: &Executor, work: FunctionWork) -> FunctionOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(executor.run(work)).unwrap()
}

/// Runs `/bin/sh -c SCRIPT` in a jail, by `setpriv` where the user is another one.
fn shell(level: JailLevel, user: Option<u32>, script: &str) -> std::process::Output {
    shell_command(level, user, script).output().unwrap()
}

fn shell_command(level: JailLevel, user: Option<u32>, script: &str) -> Command {
    let setup = JailSetup {
        level,
        user: 1_900_000_000,
        code: "/usr".into(),
        is_writable: false,
        cache: None,
        adapter: "/bin/true".into(),
        folders: Vec::new(),
        program: fs::canonicalize("/bin/sh").unwrap(),
        arguments: vec!["-c".into(), script.into()],
        memory_mib: 256,
        has_api: false,
        reaches_outside: false,
        has_starts: false,
        group: None,
    };
    let mut command = match user {
        None => Command::new(BINARY),
        Some(user) => {
            let mut command = Command::new("setpriv");
            let user = user.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups", BINARY]);
            command
        }
    };
    command.arg("jail").arg(setup.to_argument());
    command.stdin(Stdio::null());
    command
}

/// Whether there can be a jail; says why not.
fn can(level: JailLevel, user: Option<u32>) -> bool {
    let output = shell(level, user, "true");
    if output.status.success() {
        return true;
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let is_required = std::env::var_os("TIDEMARK_JAIL").is_some_and(|word| word == "required");
    assert!(!is_required, "no jail `{}`: {why}", level.as_str());
    eprintln!("skipped: no jail `{}` here: {why}", level.as_str());
    false
}

/// The one value of each that is right at every level.
fn check_common(language: &str, found: &Value) {
    let expected: Value = serde_json::from_str(
        r#"{
        "own code removed": ["EROFS", "EACCES"], "own code": ["EROFS", "EACCES"],
        "adapter": ["EROFS", "EACCES", "ENOENT"], "root": ["EROFS", "EACCES"],
        "usr": ["EROFS", "EACCES"],
        "secret": ["ENOENT", "EACCES"], "secret through the first process": ["EACCES", "ENOENT"],
        "shadow": ["ENOENT", "EACCES"],
        "environment of the first process": ["EACCES"],
        "memory of the first process": ["EACCES"],
        "ptrace": ["EPERM"], "process_vm_readv": ["EPERM"], "mount": ["EPERM"],
        "mount by x32": ["EPERM", "ENOSYS"], "clone": ["EPERM"],
        "clone3": ["ENOSYS"], "setns": ["EPERM"], "chroot": ["EPERM"], "io_uring": ["EPERM"],
        "bpf": ["EPERM"], "perf": ["EPERM"], "keyring": ["EPERM"], "clock": ["EPERM"],
        "module": ["EPERM"], "memfd": ["EPERM"], "shared memory": ["EPERM"],
        "userfaultfd": ["EPERM"], "packet socket": ["EPERM"], "vsock": ["EPERM"],
        "raw socket": ["EPERM"],
        "host loopback": ["ENETUNREACH", "EACCES"],
        "host loopback by IPv6": ["ENETUNREACH", "EADDRNOTAVAIL", "EACCES"],
        "metadata": ["ENETUNREACH", "EACCES"], "metadata by UDP": ["ENETUNREACH", "EPERM"],
        "outside": ["ENETUNREACH", "EACCES"],
        "abstract socket": ["ECONNREFUSED", "EPERM"],
        "session": ["done"], "weight of the session": ["EACCES", "ENOENT"],
        "user": ["EPERM", "EINVAL"], "capabilities": ["0000000000000000"], "bounding": ["1"],
        "filter": ["2"], "set-user-id": [true], "limits": ["EPERM"], "badness": ["500"],
        "bounds": [[[0, 0], [67108864, 67108864], [256, 256]]],
        "files": [["EMFILE", true]]
    }"#,
    )
    .unwrap();
    for (attempt, result) in found.as_object().unwrap() {
        let Some(right) = expected.get(attempt) else {
            continue;
        };
        let is_right = right.as_array().unwrap().contains(result);
        assert!(
            is_right,
            "{language}: {attempt}: {result}, not one of {right}"
        );
    }
}

/// What comes of making namespaces, and processes: how many there were besides the first one.
fn check_forks(language: &str, found: &Value) -> u64 {
    let unshared = &found["unshare"];
    assert!(*unshared == "EPERM" || *unshared == true, "{language}");
    assert_eq!(found["forks"][0], "EAGAIN", "{language}: {found}");
    found["forks"][1].as_u64().unwrap()
}

#[test]
fn a_full_jail_has_no_way_out() {
    let _turn = turn();
    if !can(JailLevel::Full, None) {
        return;
    }
    let host = Host::new();
    // As the data directory: for its owner alone.
    fs::set_permissions(host.folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let executor = host.executor(JailLevel::Full);
    for (language, ending) in LANGUAGES {
        let file = format!("escape.{ending}");
        let work = host.work(&executor, language, &file, "/full");
        let outcome = run(&executor, work);
        assert_eq!(
            outcome.response.status, 200,
            "{language}: {}",
            outcome.errors
        );
        let found: Value = serde_json::from_slice(&outcome.response.body).unwrap();
        check_common(language, &found);
        assert_eq!(found["path socket"], "ENOENT", "{language}");
        assert_eq!(found["processes"], true, "{language}");
        // Sent, and ignored, as it is by any first process: the answer came after it.
        assert_eq!(found["signal to the first process"], "done", "{language}");
        assert_eq!(found["fill"], "ENOSPC", "{language}");
        let names = json!(["HOME", "LANG", "ONE", "PATH"]);
        assert_eq!(found["variables"], names, "{language}");
        assert!(check_forks(language, &found) <= 63, "{found}");
        if language == "python" {
            assert_eq!(found["entries"], json!(["ENOSPC", true]));
        }
    }
    let work = host.work(&executor, "python", "escape.py", "/shared");
    let outcome = run(&executor, work);
    assert_eq!(outcome.cause, RunCause::OutOfMemory, "{}", outcome.errors);
    let sentence = "The function ran out of memory (256 MiB).";
    assert!(outcome.errors.ends_with(sentence), "{}", outcome.errors);
    executor.shut_down(Duration::ZERO);
    // A child that left its group and its parent has ended with its jail.
    let left = fs::read_dir("/proc").unwrap().flatten().filter(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.windows(5).any(|word| word == b"54321")
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_reduced_jail_holds_back_what_it_promises() {
    let _turn = turn();
    if !can(JailLevel::Reduced, None) {
        return;
    }
    let host = Host::new();
    for (language, ending) in LANGUAGES {
        // Started by a user it has its room next to others of that user. When some of them end
        // after they were counted, there is more room in it.
        let attempts = if rustix::process::geteuid().is_root() {
            1
        } else {
            5
        };
        let has_its_room = (0..attempts).any(|_| {
            let executor = host.executor(JailLevel::Reduced);
            // The interpreter must be reachable for the jail's user.
            if !is_open(&executor, language) {
                eprintln!("skipped: {language} stands in a folder that others may not enter");
                return true;
            }
            let mut work = host.work(&executor, language, &format!("escape.{ending}"), "/reduced");
            work.timeout = Duration::from_secs(30);
            check_reduced(language, &run(&executor, work)) <= 63
        });
        assert!(has_its_room, "{language}: it had more children each time");
    }
}

/// How many children there could be.
fn check_reduced(language: &str, outcome: &FunctionOutcome) -> u64 {
    let status = outcome.response.status;
    assert_eq!(status, 200, "{language}: {}", outcome.errors);
    let mut found: Value = serde_json::from_slice(&outcome.response.body).unwrap();
    // Nothing of `/proc` can be read, what it says of the process itself neither.
    let found = found.as_object_mut().unwrap();
    for of_proc in ["processes", "capabilities", "bounding", "filter", "badness"] {
        let known = found.remove(of_proc);
        assert!(
            known.is_none_or(|known| known == "EACCES"),
            "{language}: {of_proc}"
        );
    }
    // There is no socket that could connect.
    for of_internet in [
        "host loopback",
        "host loopback by IPv6",
        "metadata",
        "metadata by UDP",
        "outside",
    ] {
        let known = found.remove(of_internet);
        assert!(
            known.is_none_or(|known| known == "EPERM"),
            "{language}: {of_internet}"
        );
    }
    let found = Value::Object(std::mem::take(found));
    check_common(language, &found);
    assert_eq!(found["signal to the first process"], "EPERM", "{language}");
    // The launcher is a process of the host.
    assert_eq!(found["mounts of its parent"], "EACCES", "{language}");
    if language == "python" {
        // It stays in the group that is killed at its end, which it cannot end before.
        let groups = json!([true, false, "EPERM", "EPERM"]);
        assert_eq!(found["groups"], groups);
    }
    check_forks(language, &found)
}

fn is_open(executor: &Executor, language: &str) -> bool {
    let mut runtimes = executor.runtimes().found().iter();
    let runtime = runtimes.find(|runtime| runtime.name == language).unwrap();
    let open = |folder: &Path| {
        let mode = folder.metadata().unwrap().permissions().mode();
        mode & 0o001 != 0
    };
    runtime.program.ancestors().all(open)
}

#[test]
fn a_jail_sees_little_of_its_host() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let names = "root home var opt srv mnt boot sys run media etc/shadow etc/hostname dev/kmsg";
    let script = format!("for name in {names}; do [ -e /$name ] && echo $name; done; hostname");
    let output = shell(JailLevel::Full, None, &script);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "function\n");
}

#[test]
fn a_jail_of_an_ordinary_user_is_the_same() {
    let is_root = rustix::process::geteuid().is_root();
    let other = is_root.then_some(65_534);
    if !can(JailLevel::Full, other) {
        return;
    }
    let script = "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status; \
                  cat /proc/1/environ; unshare -U true; mount -t tmpfs x /tmp; echo end";
    let output = shell(JailLevel::Full, other, script);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("1000\n"), "{text}");
    assert!(text.contains("CapEff:\t0000000000000000"), "{text}");
    assert!(text.ends_with("end\n"), "{text}");
    let errors = String::from_utf8(output.stderr).unwrap();
    for words in [
        "environ: Permission",
        "unshare failed: Operation",
        "/tmp: must be superuser",
    ] {
        assert!(errors.contains(words), "{words}: {errors}");
    }
}

#[test]
fn a_jail_ends_as_its_program_does() {
    let _turn = turn();
    for level in [JailLevel::Full, JailLevel::Reduced] {
        if can(level, None) {
            assert_eq!(shell(level, None, "exit 7").status.code(), Some(7));
            assert_eq!(shell(level, None, "kill -9 $$").status.code(), Some(137));
        }
    }
}

#[test]
fn a_jail_that_cannot_be_made_runs_nothing() {
    let output = Command::new(BINARY)
        .args(["jail", "{}"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "The jail could not be made: reading its setup: it is incomplete.\n"
    );
}
