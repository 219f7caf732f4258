//! `tidemark function dev`: the folder of a function, run as a server runs it, and again after each
//! save.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use client::Access;
use functions::jail::JailLevel;
use functions::jail::attempt::try_jail;
use functions::outside::OutsideNetwork;
use functions::outside::address_law::AddressRange;
use functions::{ApiConnection, Executor, ExecutorSettings, FunctionIsolation, InstalledRuntimes};
use hyper::header::HeaderValue;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::MissedTickBehavior;

use super::dev_api::relay;
use super::dev_folder::{DEPLOYMENT, DevFolder};
use super::dev_site::{BODY_BYTES_MAX, DevRun, DevSite};
use super::function_file::FILE;
use super::log_text::{GrowingLog, outside_runs};
use super::{Outside, runtime, say};
use crate::cli::connection::with_scoped_access;
use crate::config::{ConnectionArgs, search_path};

/// How often the folder is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Connections to the site, and of the function to the API, at once.
const CONNECTIONS_MAX: usize = 128;
/// Processes of the function.
const PROCESSES_MAX: usize = 2;
/// What the memory limits of both may be together: as much as they ask for.
const MEMORY_MAX_MIB: u64 = u64::MAX;
const IDLE_MAX: Duration = Duration::from_mins(1);
const START_MAX: Duration = Duration::from_secs(30);
const FULL: &str = "full";
const REDUCED: &str = "reduced";

/// The options of `tidemark function dev`.
#[derive(Args)]
pub struct FunctionDevArgs {
    /// The folder of the function
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// The port of this machine on which the function answers; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8290)]
    port: u16,
    /// What shuts the function in, where the kernel cannot make a full jail
    #[arg(long, value_parser = [FULL, REDUCED], default_value = FULL)]
    isolation: String,
    /// Addresses besides public ones that a function with the network `outside` reaches
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS_ALLOW",
        value_name = "NET,…",
        value_delimiter = ','
    )]
    functions_allow: Vec<AddressRange>,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// # Errors
/// When the folder cannot be read, no jail can be made, the port is taken, or the function is to
/// use data and no server can be reached.
pub fn run(args: &FunctionDevArgs, outside: &Outside) -> Result<()> {
    let folder = DevFolder::open(&args.folder)?;
    ensure!(
        !folder.reaches_outside() || args.isolation == FULL,
        "{FILE} says that `network` is `outside`, which takes --isolation {FULL}"
    );
    let isolation = isolation(&args.isolation)?;
    let runtimes = InstalledRuntimes::find(&search_path(), &[]);
    need_runtime(&runtimes, &folder.file.runtime)?;
    let dev = Dev {
        args,
        outside,
        isolation,
        runtimes,
    };
    let scopes = folder.file.scopes.clone().unwrap_or_default();
    if scopes.is_empty() {
        return dev.serve(folder, None);
    }
    let lender = ("tidemark function dev", &*outside.clock);
    with_scoped_access(&args.connection, lender, scopes, |access| {
        dev.serve(folder, Some(access))
    })
}

fn isolation(level: &str) -> Result<FunctionIsolation> {
    let launcher = std::env::current_exe().context("where is this program?")?;
    let level = if level == REDUCED {
        JailLevel::Reduced
    } else {
        JailLevel::Full
    };
    try_jail(&launcher, level).map_err(|why| {
        let other = match level {
            JailLevel::Full => ". --isolation reduced holds back less and needs less",
            JailLevel::Reduced => "",
        };
        anyhow!(
            "no jail of level `{}` can be made here: {}{other}. `tidemark doctor` says what the \
             kernel lacks",
            level.as_str(),
            why.trim_end().trim_end_matches('.')
        )
    })?;
    Ok(FunctionIsolation::Jail { launcher, level })
}

fn need_runtime(runtimes: &InstalledRuntimes, id: &str) -> Result<()> {
    if runtimes.by_id(id).is_some() {
        return Ok(());
    }
    let found = runtimes.found().iter();
    let found = found.map(|runtime| format!("{} {}", runtime.name, runtime.version));
    let missing = runtimes.missing().iter().map(ToString::to_string);
    let all: Vec<String> = found.chain(missing).collect();
    bail!(
        "no interpreter of this machine answers to `{id}`; it has: {}",
        all.join("; ")
    )
}

/// What stays while the folder changes.
struct Dev<'a> {
    args: &'a FunctionDevArgs,
    outside: &'a Outside,
    isolation: FunctionIsolation,
    runtimes: InstalledRuntimes,
}

impl Dev<'_> {
    fn serve(self, folder: DevFolder, access: Option<&Access>) -> Result<()> {
        let own = tempfile::tempdir().context("cannot make a folder for adapters")?;
        // In a jail of level `reduced` another user reads the adapter in it.
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(own.path(), mode)?;
        let (connections, wanted) = mpsc::channel(CONNECTIONS_MAX);
        let executor = Arc::new(self.executor(own.path(), access.map(|_| connections))?);
        let runtime = runtime()?;
        let served =
            runtime.block_on(self.serve_until_stopped(folder, executor.clone(), (access, wanted)));
        // No process is left when this returns.
        executor.shut_down(Duration::ZERO);
        served
    }

    fn executor(
        &self,
        folder: &Path,
        api: Option<mpsc::Sender<ApiConnection>>,
    ) -> Result<Executor> {
        let settings = ExecutorSettings {
            folder: folder.to_owned(),
            isolation: self.isolation.clone(),
            processes_max: PROCESSES_MAX,
            memory_max_mib: MEMORY_MAX_MIB,
            idle_max: IDLE_MAX,
            // The next save would end it.
            spare_idle_max: Duration::ZERO,
            start_max: START_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            outside: OutsideNetwork {
                allow: self.args.functions_allow.clone(),
                nameservers: Vec::new(),
            },
            // One person's own code, whose memory is looked at all the same.
            groups: None,
        };
        let executor = Executor::with_api(settings, self.runtimes.clone(), api);
        executor.context("cannot start what runs functions")
    }

    async fn serve_until_stopped(
        &self,
        mut folder: DevFolder,
        executor: Arc<Executor>,
        (access, mut wanted): (Option<&Access>, mpsc::Receiver<ApiConnection>),
    ) -> Result<()> {
        let listener = self.listen().await?;
        let text_of = |header: &HeaderValue| header.to_str().unwrap_or_default().to_owned();
        let [project, key] = access.map_or_else(Default::default, |access| {
            [&access.project, &access.key].map(text_of)
        });
        let mut written = GrowingLog::default();
        let site = DevSite::new(
            executor.clone(),
            self.outside.rng,
            key,
            current(&folder, &project)?,
        );
        let site = Arc::new(site);
        let access = access.cloned().map(Arc::new);
        self.announce(&folder, &listener, access.as_deref())?;
        let [callers, relayed] = [(); 2].map(|()| Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        let mut stop = StopOfDev::take()?;
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.wait() => return Ok(()),
                accepted = listener.accept() => {
                    // One that broke is no failure.
                    if let Ok((stream, _)) = accepted {
                        spawn_within(&callers, site.clone().serve(stream));
                    }
                }
                Some(connection) = wanted.recv() => {
                    if let Some(access) = access.clone() {
                        spawn_within(&relayed, relay(connection, access));
                    }
                }
                _ = looks.tick() => {
                    folder = look(folder, &project, &site).await?;
                    eprint!("{}", outside_runs(&written.news(&executor.output(DEPLOYMENT))));
                }
            }
        }
    }

    async fn listen(&self) -> Result<TcpListener> {
        let port = self.args.port;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        listener.map_err(|error| {
            anyhow!("cannot listen on 127.0.0.1:{port}: {error}. Choose another --port")
        })
    }

    fn announce(
        &self,
        folder: &DevFolder,
        listener: &TcpListener,
        access: Option<&Access>,
    ) -> Result<()> {
        let is_reduced = self.args.isolation == REDUCED;
        let data = match access {
            Some(_) if is_reduced => {
                "no data: a jail of level `reduced` has no way to the API".into()
            }
            Some(access) => format!("data of {}", access.endpoint),
            None => "no data: function.toml names no `scopes`".to_owned(),
        };
        let network = if folder.reaches_outside() {
            ", network `outside`"
        } else {
            ""
        };
        say(&format!(
            "Serving `{}` at http://{}, {}, {data}{network}. Each save is taken up; Ctrl-C stops.\n",
            folder.file.id,
            listener.local_addr()?,
            folder.file.runtime
        ))
    }
}

/// Looks for changes, and lets the site answer by them.
async fn look(mut folder: DevFolder, project: &str, site: &DevSite) -> Result<DevFolder> {
    let looked = tokio::task::spawn_blocking(move || {
        let looked = folder.look();
        (folder, looked)
    });
    let (folder, looked) = looked.await.context("a look at the folder failed")?;
    match looked.and_then(|changed| Ok((changed, current(&folder, project)?))) {
        Ok((Some(changed), current)) => {
            site.replace(current);
            eprintln!("{changed} changed: the next run takes it.");
        }
        Ok((None, _)) => {}
        Err(error) => {
            // Some have lines of their own, and end with one.
            let why = format!("{error:#}");
            eprintln!("What ran before still runs: {}.", why.trim_end());
        }
    }
    Ok(folder)
}

/// Does the work unless the bound is reached: then its connection is closed.
fn spawn_within(bound: &Arc<Semaphore>, work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(held) = bound.clone().try_acquire_owned() {
        tokio::spawn(async move {
            work.await;
            drop(held);
        });
    }
}

fn current(folder: &DevFolder, project: &str) -> Result<DevRun> {
    Ok(DevRun {
        deployment: Arc::new(folder.deployment(project)?),
        timeout: Duration::from_secs(u64::from(folder.timeout_s())),
    })
}

/// Signals that end `dev` in order; that of a terminal that closes is one of them.
struct StopOfDev([tokio::signal::unix::Signal; 3]);

impl StopOfDev {
    fn take() -> Result<StopOfDev> {
        let take = |kind| signal(kind).context("cannot take over the signals that stop this");
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        let [interrupt, terminate, hangup] = kinds.map(take);
        Ok(StopOfDev([interrupt?, terminate?, hangup?]))
    }

    async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
