//! One cluster: made, started, stopped and removed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::account::Account;
use crate::programs::Programs;
use crate::sql::psql;

/// A server answers within 2 s; a machine busy building may take thirty times as long.
const READY_MAX: Duration = Duration::from_mins(1);
/// One that stops ends every session and writes its last checkpoint. Then it is killed.
const STOP_MAX: Duration = Duration::from_secs(30);
/// How often a wait looks again.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How much of its log an error quotes.
const LOG_TAIL_LINES: usize = 20;
/// A socket's path has at most 107 bytes, so the folder lies as high as it can.
const FOLDERS: &str = "/tmp";
/// In the name of the socket where no port is asked for.
const PORT: u16 = 5_432;
/// The owner of the cluster, who may do everything in it.
const OWNER: &str = "tidemark";

/// How a cluster runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterSettings<'a> {
    /// Whether what is committed is synced. Tests of what is stored need none; benches, faults and
    /// tests of failing over do.
    pub syncs: bool,
    /// The port of this machine on which it listens beside its socket, whose name has it, too.
    pub port: Option<u16>,
    /// The folder below which its files are, on the disk that is measured; beside its socket where
    /// none is named. The user as whom the server runs must be able to enter it.
    pub data: Option<&'a Path>,
    /// Further settings, as `name=value`.
    pub further: &'a [&'a str],
}

/// How a cluster ends, so that it can be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterEnd {
    /// Every process of it is killed: none ends a session, or writes anything any more.
    Killed,
    /// It ends each session, and writes its last checkpoint.
    Fast,
    /// It ends each session, and its next start recovers what it has not written.
    Immediate,
}

/// A running cluster. Dropped, it is stopped and removed.
#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    data: Option<TempDir>,
    programs: Programs,
    account: Account,
    port: u16,
    /// Ends the server; dropped, it does so fast. The thread that started it ends then.
    end: Option<Sender<ClusterEnd>>,
    keeper: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Makes a cluster and waits until it answers.
    ///
    /// # Errors
    /// When the programs are not installed (the message names the package), or do not do it within
    /// a minute each; then the end of what they printed is quoted.
    pub fn start(settings: &ClusterSettings<'_>) -> Result<Cluster> {
        let mut cluster = Cluster::new(settings)?;
        cluster.make()?;
        cluster.run(settings)?;
        Ok(cluster)
    }

    /// Makes a standby that follows this one, and waits until it answers.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn standby(&self, settings: &ClusterSettings<'_>) -> Result<Cluster> {
        let mut standby = Cluster::new(settings)?;
        standby.copy(self)?;
        standby.run(settings)?;
        Ok(standby)
    }

    fn new(settings: &ClusterSettings<'_>) -> Result<Cluster> {
        let programs = Programs::find()?;
        let account = Account::choose()?;
        let own_folder = |parent: &Path| -> Result<TempDir> {
            let folder = tempfile::Builder::new()
                .prefix("tidemark-pg-")
                .tempdir_in(parent)?;
            account.own(folder.path())?;
            Ok(folder)
        };
        let folder = own_folder(Path::new(FOLDERS))?;
        let data = settings
            .data
            .map(|parent| own_folder(&parent.canonicalize()?));
        let data = data.transpose()?;
        Ok(Cluster {
            folder,
            data,
            programs,
            account,
            port: settings.port.unwrap_or(PORT),
            end: None,
            keeper: None,
        })
    }

    /// Lets a standby take writes, and waits until it does.
    ///
    /// # Errors
    /// What the server says, or that it does not.
    pub fn promote(&self) -> Result<()> {
        let promoted = self.run_sql("postgres", &["SELECT pg_promote()"])?;
        ensure!(promoted == "t\n", "the standby is not promoted");
        Ok(())
    }

    /// Ends the server, and waits for that.
    pub fn end(&mut self, how: ClusterEnd) {
        if let Some(end) = self.end.take() {
            // It has ended already where this is not taken.
            let _ = end.send(how);
        }
        self.wait();
    }

    /// Starts the server that was ended, and waits until it answers.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_again(&mut self, settings: &ClusterSettings<'_>) -> Result<()> {
        self.run(settings)
    }

    /// Has each commit wait for the standby with this `cluster_name`, once that follows.
    ///
    /// # Errors
    /// What the server says, or that the standby does not follow.
    pub fn wait_for(&self, standby: &str) -> Result<()> {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({standby})'");
        self.run_sql("postgres", &[&set, "SELECT pg_reload_conf()"])?;
        let follows = format!(
            "SELECT count(*) FROM pg_stat_replication \
             WHERE application_name = '{standby}' AND sync_state = 'quorum'"
        );
        let began = Instant::now();
        while self.run_sql("postgres", &[&follows])? != "1\n" {
            ensure!(began.elapsed() < READY_MAX, "{standby} does not follow");
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn wait(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // It has printed why, if it panicked.
            let _ = keeper.join();
        }
    }

    /// One that the tests of this process share, without syncs. It ends with the last holder.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn shared() -> Result<Arc<Cluster>> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = shared.upgrade() {
            return Ok(cluster);
        }
        let cluster = Arc::new(Cluster::start(&ClusterSettings::default())?);
        *shared = Arc::downgrade(&cluster);
        Ok(cluster)
    }

    /// The folder with the socket.
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a client finds a database of it, as its owner.
    pub fn url(&self, database: &str) -> String {
        Cluster::url_in(self.socket_folder(), self.port, database)
    }

    /// Where a client finds a database on the first of these clusters that takes writes.
    pub fn url_of(clusters: &[&Cluster], database: &str) -> String {
        let folder = |one: &&Cluster| escaped(one.socket_folder());
        let hosts: Vec<String> = clusters.iter().map(folder).collect();
        let ports: Vec<String> = clusters.iter().map(|one| one.port.to_string()).collect();
        let (hosts, ports) = (hosts.join(","), ports.join(","));
        format!("postgres://{OWNER}@/{database}?host={hosts}&port={ports}")
    }

    /// The same through a socket in another folder.
    pub(crate) fn url_in(folder: &Path, port: u16, database: &str) -> String {
        let host = escaped(folder);
        format!("postgres://{OWNER}@/{database}?host={host}&port={port}")
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket_folder().join(format!(".s.PGSQL.{}", self.port))
    }

    /// Runs statements in a database of it, one after the other and each by itself. What they
    /// return comes without headings, a line for each row.
    ///
    /// # Errors
    /// What the server says of the first one that fails.
    pub fn run_sql(&self, database: &str, statements: &[&str]) -> Result<String> {
        psql(&self.programs, (&self.url(database), None), statements)
    }

    fn make(&self) -> Result<()> {
        let mut initdb = self.account.command(&self.programs.path("initdb"), false);
        initdb.arg("--pgdata").arg(self.data());
        initdb.args(["--username", OWNER, "--auth=trust", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--no-sync", "--no-instructions"]);
        let mut child = self
            .logged(initdb)?
            .spawn()
            .context("setpriv does not start")?;
        self.done("initdb", ended(&mut child, READY_MAX)?)
    }

    /// Copies a cluster that runs.
    fn copy(&self, primary: &Cluster) -> Result<()> {
        let program = self.programs.path("pg_basebackup");
        let mut copy = self.account.command(&program, false);
        copy.arg("--pgdata").arg(self.data());
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        copy.arg("--host").arg(primary.socket_folder());
        copy.args(["--port", &primary.port.to_string(), "--username", OWNER]);
        let mut child = self
            .logged(copy)?
            .spawn()
            .context("setpriv does not start")?;
        self.done("pg_basebackup", ended(&mut child, READY_MAX)?)
    }

    fn done(&self, program: &str, ended: Option<bool>) -> Result<()> {
        match ended {
            Some(true) => Ok(()),
            Some(false) => Err(self.failed(&format!("{program} failed"))),
            None => Err(self.failed(&format!("{program} does not end"))),
        }
    }

    fn run(&mut self, settings: &ClusterSettings<'_>) -> Result<()> {
        let mut server = self.account.command(&self.programs.path("postgres"), true);
        server
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.socket_folder());
        let mut set = |setting: &str| {
            server.args(["-c", setting]);
        };
        let listens = settings.port.map_or("", |_| "127.0.0.1");
        set(&format!("listen_addresses={listens}"));
        set(&format!("port={}", self.port));
        for setting in ["timezone=UTC", "max_connections=300"] {
            set(setting);
        }
        for setting in ["shared_buffers=128MB", "max_wal_size=1GB"] {
            set(setting);
        }
        if !settings.syncs {
            set("fsync=off");
            set("full_page_writes=off");
        }
        settings.further.iter().copied().for_each(set);
        let server = self.logged(server)?;
        let (end, ends) = mpsc::channel();
        let (report, reports) = mpsc::channel();
        self.end = Some(end);
        // The signal at the end of the caller follows the thread that started the server, and one
        // of a test ends with the test.
        let keeper = std::thread::Builder::new().name("postgres".to_owned());
        self.keeper = Some(keeper.spawn(move || keep(server, &ends, &report))?);
        let began = Instant::now();
        loop {
            if reports.try_recv().is_ok() {
                return Err(self.failed("the server ended at its start"));
            }
            if self.is_ready() {
                return Ok(());
            }
            if began.elapsed() >= READY_MAX {
                return Err(self.failed("the server does not answer"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn is_ready(&self) -> bool {
        let mut look = Command::new(self.programs.path("pg_isready"));
        look.arg("--quiet").arg("--host").arg(self.socket_folder());
        look.args(["--port", &self.port.to_string()]);
        look.stdin(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    fn data(&self) -> PathBuf {
        let folder = self.data.as_ref().unwrap_or(&self.folder);
        folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.socket_folder().join("log")
    }

    /// The command, with what it prints going to the log.
    fn logged(&self, mut command: Command) -> Result<Command> {
        let log = File::options().create(true).append(true).open(self.log())?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }

    /// An error with the end of the log.
    fn failed(&self, what: &str) -> anyhow::Error {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n");
        anyhow::anyhow!("PostgreSQL {}: {what}\n{tail}", self.programs.version)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.end.take());
        self.wait();
    }
}

/// A folder as a part of a URL.
fn escaped(folder: &Path) -> String {
    folder.display().to_string().replace('/', "%2F")
}

/// Starts the server and keeps it until the other end of `ends` says how it is to end, or is
/// dropped; reports it if the server ends before.
fn keep(mut server: Command, ends: &Receiver<ClusterEnd>, report: &Sender<()>) {
    let Ok(mut child) = server.spawn() else {
        let _ = report.send(());
        return;
    };
    let how = loop {
        match ends.recv_timeout(LOOK_EVERY) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break ClusterEnd::Fast,
            Ok(how) => break how,
        }
        if !matches!(child.try_wait(), Ok(None)) {
            let _ = report.send(());
            return;
        }
    };
    match how {
        ClusterEnd::Killed => kill_all(&mut child),
        ClusterEnd::Fast => send_signal("INT", &[child.id()]),
        ClusterEnd::Immediate => send_signal("QUIT", &[child.id()]),
    }
    let _ = ended(&mut child, STOP_MAX);
}

/// Kills a server and all that it has started, which would else run until they find it gone.
fn kill_all(child: &mut Child) {
    let started = children_of(child.id());
    // It first: it would begin to recover as it loses one of them.
    let _ = child.kill();
    send_signal("KILL", &started);
    while started.iter().any(|process| runs(*process)) {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// One of them may have ended: that is no error.
fn send_signal(name: &str, processes: &[u32]) {
    let all: Vec<String> = processes.iter().map(u32::to_string).collect();
    // The shell's own `kill` is there on the barest machine.
    let script = format!("kill -{name} {}", all.join(" "));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stderr(Stdio::null());
    let _ = shell.status();
}

/// State and parent of a process (`proc_pid_stat(5)`).
fn stat_of(process: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut parts = rest.split(' ');
    Some((parts.next()?.chars().next()?, parts.next()?.parse().ok()?))
}

fn children_of(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |process: &u32| stat_of(*process).is_some_and(|(_, of)| of == parent);
    processes.filter(is_child).collect()
}

/// Whether it is more than an entry that no one has taken away.
fn runs(process: u32) -> bool {
    stat_of(process).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Waits for the end of a child: whether it succeeded. After `longest` it is killed, and `None`.
fn ended(child: &mut Child, longest: Duration) -> Result<Option<bool>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if began.elapsed() >= longest {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
