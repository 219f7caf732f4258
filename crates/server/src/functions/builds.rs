//! Builds deployments, one at a time: an archive that was sent becomes one that runs.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::{ArchivePart, Build, Engine, EngineError, FunctionError, Specification};
use functions::archive::{ArchiveBounds, unpack};
use functions::build::{BuildLimits, BuildLog, BuildWork, Built, build};
use functions::outside::OutsideNetwork;
use functions::pack::pack;
use functions::{InstalledRuntime, InstalledRuntimes};
use model::Function;
use tokio::sync::Notify;

use super::counts::FunctionCounts;
use super::own_variables::own_variables;
use super::package_caches::{CacheBounds, CacheOwner, PackageCaches};
use super::removal::remove_folder;

/// What an archive may become (wire protocol, builds).
pub const ARCHIVE: ArchiveBounds = ArchiveBounds {
    bytes_max: 250_000_000,
    entries_max: 50_000,
    path_bytes_max: 1_024,
    ratio_max: 200,
};
/// What a build may use (wire protocol, builds).
const LIMITS: BuildLimits = BuildLimits {
    archive: ARCHIVE,
    time_max: Duration::from_mins(15),
    memory_mib: 1_024,
    disk_bytes_max: 500 << 20,
    disk_entries_max: 200_000,
};
/// Of what a build has made, packed (wire protocol, builds).
const OUTPUT_BYTES_MAX: u64 = 100_000_000;
/// What builds have fetched is kept so far.
const CACHES: CacheBounds = CacheBounds {
    project_bytes: 256 << 20,
    project_files: 20_000,
    bytes: 1 << 30,
    path_bytes: ARCHIVE.path_bytes_max,
};
/// Of what it says.
const LOG_LETTERS_MAX: usize = 1_000_000;
/// Bytes of its packed output that are in memory at once: a piece of the store's.
const CHUNK_BYTES: usize = 1 << 20;
/// How often it is looked whether a build was given up.
const LOOK: Duration = Duration::from_millis(300);
/// How often it is looked for deployments of which no request has told.
const ROUND: Duration = Duration::from_secs(10);
/// After a failure of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// Below the folder of all builds, where each has one of its own.
const PACKAGES: &str = "packages";

/// What builds need, and the one that is at work.
pub struct Builds {
    folder: PathBuf,
    /// Names the folders of builds. What a build that was given up still writes never meets
    /// another one.
    begun: AtomicU64,
    caches: Arc<PackageCaches>,
    launcher: PathBuf,
    outside: OutsideNetwork,
    /// Of the server's environment.
    variables: Vec<(String, String)>,
    expected: Notify,
    at_work: Mutex<Option<(i64, BuildLog)>>,
    counts: Arc<FunctionCounts>,
}

/// What became of a build, unless the store failed.
enum BuildEnd {
    Ready,
    /// Its log says why.
    Failed,
    /// It was cancelled or deleted meanwhile.
    GivenUp,
}

impl Builds {
    /// Builds in this folder, which is made.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(
        folder: PathBuf,
        (launcher, outside): (PathBuf, OutsideNetwork),
        variables: Vec<(String, String)>,
        counts: Arc<FunctionCounts>,
    ) -> std::io::Result<Builds> {
        fs::create_dir(&folder)?;
        let caches = PackageCaches::new(folder.join(PACKAGES), CACHES)?;
        Ok(Builds {
            caches: Arc::new(caches),
            folder,
            begun: AtomicU64::new(0),
            launcher,
            outside,
            variables,
            expected: Notify::new(),
            at_work: Mutex::default(),
            counts,
        })
    }

    /// Lets a deployment that was sent be built soon.
    pub fn expect(&self) {
        self.expected.notify_one();
    }

    /// What the build of this deployment has said so far; `None` when it is not at work.
    pub fn log(&self, deployment: i64) -> Option<String> {
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let (seq, log) = at_work.as_ref()?;
        (*seq == deployment).then(|| log.text())
    }

    fn set_at_work(&self, build: Option<(i64, BuildLog)>) {
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = build;
    }

    /// Builds whatever waits, first what was being built when the last server ended.
    pub async fn run(&self, engine: &Engine, runtimes: &InstalledRuntimes) -> Infallible {
        while let Err(error) = engine.restart_builds().await {
            tracing::warn!(%error, "builds cannot be begun again");
            tokio::time::sleep(PAUSE).await;
        }
        let mut last = None;
        loop {
            self.clear_folder(engine).await;
            match self.build_next(engine, runtimes, &mut last).await {
                Ok(true) => {}
                Ok(false) => {
                    // A round over time is enough where it is not told.
                    let _ = tokio::time::timeout(ROUND, self.expected.notified()).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "a deployment was not built");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Removes what builds have left behind that were given up, and what was fetched for projects
    /// that are gone. No build is at work.
    async fn clear_folder(&self, engine: &Engine) {
        let projects = engine.list_projects();
        let living = projects.iter().map(|project| CacheOwner::from(&**project));
        let living: HashSet<CacheOwner> = living.collect();
        let (caches, folder) = (self.caches.clone(), self.folder.clone());
        let cleared = move || {
            remove_left(&folder);
            caches.clear(&living);
        };
        let _ = tokio::task::spawn_blocking(cleared).await;
    }

    /// Builds the next one; false where none waits. `last` is the function of the one before.
    async fn build_next(
        &self,
        engine: &Engine,
        runtimes: &InstalledRuntimes,
        last: &mut Option<Arc<Function>>,
    ) -> Result<bool, EngineError> {
        let build = match engine.begin_build(last.as_deref()).await {
            Ok(Some(build)) => build,
            Ok(None) => return Ok(false),
            Err(error) if is_given_up(&error) => return Ok(true),
            Err(error) => return Err(error),
        };
        *last = Some(Arc::clone(&build.function));
        let log = BuildLog::new(LOG_LETTERS_MAX);
        self.set_at_work(Some((build.deployment.seq, log.clone())));
        let ended = self.build(engine, runtimes, &build, &log).await;
        self.set_at_work(None);
        match ended {
            Err(error) if is_given_up(&error) => Ok(true),
            Ok(()) => Ok(true),
            Err(error) => {
                // The store failed: it waits for its build again.
                engine.restart_builds().await?;
                Err(error)
            }
        }
    }

    async fn build(
        &self,
        engine: &Engine,
        runtimes: &InstalledRuntimes,
        build: &Build,
        log: &BuildLog,
    ) -> Result<(), EngineError> {
        let started = Instant::now();
        let nth = self.begun.fetch_add(1, Ordering::Relaxed);
        let place = BuildPlace(self.folder.join(nth.to_string()));
        let made = tokio::select! {
            made = self.make((engine, runtimes), build, &place, log) => made,
            () = given_up(engine, build) => Ok(BuildEnd::GivenUp),
        };
        let emptied = move || remove_folder(&place.0);
        let _ = tokio::task::spawn_blocking(emptied).await;
        let is_ready = match made? {
            BuildEnd::Ready => true,
            BuildEnd::Failed => false,
            BuildEnd::GivenUp => {
                self.counts.built("canceled", None);
                return Ok(());
            }
        };
        let text = log.text();
        engine
            .keep_of_build(build, ArchivePart::Log, 0, text.as_bytes())
            .await?;
        let took = started.elapsed();
        let build_ms = took.as_millis() as u64;
        engine.end_build(build, is_ready, build_ms).await?;
        let end = if is_ready { "ready" } else { "failed" };
        self.counts.built(end, Some(took));
        tracing::info!(
            function = build.function.id.as_str(),
            deployment = build.deployment.id.as_str(),
            is_ready,
            build_ms,
            "a deployment was built"
        );
        Ok(())
    }

    /// Builds, and stores what was built.
    async fn make(
        &self,
        (engine, runtimes): (&Engine, &InstalledRuntimes),
        build: &Build,
        place: &BuildPlace,
        log: &BuildLog,
    ) -> Result<BuildEnd, EngineError> {
        let archive = read_archive(engine, build.deployment.seq, ArchivePart::Source).await?;
        if let Err(error) = place.make() {
            log.push(&format!("The build has no folder: {error}.\n"));
            return Ok(BuildEnd::Failed);
        }
        let ran = self.run_commands((engine, runtimes), build, (place, archive), log);
        let Some((output, cache)) = ran.await else {
            return Ok(BuildEnd::Failed);
        };
        let packing = place.clone();
        let pack = move || packing.pack(output, OUTPUT_BYTES_MAX);
        let pack = tokio::task::spawn_blocking(pack).await;
        let packed = match pack.unwrap_or_else(|broken| Err(broken.to_string())) {
            Ok((packed, words)) => {
                log.push(&words);
                packed
            }
            Err(why) => {
                log.push(&format!("{why}.\n"));
                return Ok(BuildEnd::Failed);
            }
        };
        match store_output(engine, build, &packed).await {
            Ok(()) => {
                self.keep_fetched(engine, build, cache).await;
                Ok(BuildEnd::Ready)
            }
            // No room, or too large for the store: the same the next time.
            Err(error @ (EngineError::Write(_) | EngineError::Argument { .. })) => {
                log.push(&format!("What was built cannot be stored: {error}\n"));
                Ok(BuildEnd::Failed)
            }
            Err(error) => Err(error),
        }
    }

    /// Unpacks an archive and runs the commands of its deployment; what was built, and the folder
    /// with packages that was lent to it. `None` when that failed.
    async fn run_commands(
        &self,
        (engine, runtimes): (&Engine, &InstalledRuntimes),
        work: &Build,
        (place, archive): (&BuildPlace, Vec<u8>),
        log: &BuildLog,
    ) -> Option<(Built, Option<PathBuf>)> {
        let commands = &work.deployment.commands;
        let has_commands = !commands.trim().is_empty();
        let id = &work.function.definition.runtime;
        let runtime = runtimes.by_id(id);
        if !has_commands && !runtime.is_some_and(InstalledRuntime::compiles) {
            let code = place.code();
            let unpacked =
                move || unpack(&archive[..], &code, ARCHIVE).map_err(|why| why.to_string());
            let unpacked = tokio::task::spawn_blocking(unpacked).await;
            let unpacked = unpacked.unwrap_or_else(|broken| Err(broken.to_string()));
            let unpacked = unpacked.inspect_err(|why| log.push(&format!("{why}.\n")));
            let built = Built { is_compiled: false };
            return unpacked.ok().map(|_| (built, None));
        }
        let Some(runtime) = runtime else {
            log.push(&format!("The runtime `{id}` is not on this host.\n"));
            return None;
        };
        let (mut variables, mut cache) = (Vec::new(), None);
        if has_commands {
            let given = self.variables.iter().cloned();
            variables = match build_variables(engine, work).await {
                // Of equal names the last one counts.
                Ok(variables) => given.chain(variables).collect(),
                Err(error) => {
                    tracing::warn!(%error, "a build has no variables");
                    log.push("The function's variables cannot be opened.\n");
                    return None;
                }
            };
            cache = self.lend_fetched(engine, work, place).await;
        }
        let work = BuildWork {
            archive: Bytes::from(archive),
            folder: place.code(),
            compiled: place.compiled(),
            cache: cache.clone(),
            commands: commands.clone(),
            variables,
            runtime: runtime.clone(),
            launcher: self.launcher.clone(),
            outside: self.outside.clone(),
            limits: LIMITS,
        };
        build(work, log).await.map(|built| (built, cache))
    }

    /// A folder with what builds of this project have fetched; `None` where there cannot be one.
    async fn lend_fetched(
        &self,
        engine: &Engine,
        build: &Build,
        place: &BuildPlace,
    ) -> Option<PathBuf> {
        let owner = owner_of(engine, build)?;
        let (caches, to) = (self.caches.clone(), place.0.join("cache"));
        let lent = tokio::task::spawn_blocking(move || caches.lend(&owner, &to).map(|()| to));
        let lent = lent.await.map_err(io::Error::other).flatten();
        lent.inspect_err(|error| tracing::warn!(%error, "a build has no cache of packages"))
            .ok()
    }

    /// Keeps what a build has fetched, in the folder that was lent to it.
    async fn keep_fetched(&self, engine: &Engine, build: &Build, lent: Option<PathBuf>) {
        if let (Some(owner), Some(from)) = (owner_of(engine, build), lent) {
            let caches = self.caches.clone();
            let kept = move || caches.keep(&owner, &from);
            let _ = tokio::task::spawn_blocking(kept).await;
        }
    }
}

/// The folder of one build.
#[derive(Clone, Debug)]
struct BuildPlace(PathBuf);

impl BuildPlace {
    /// Blocks shortly.
    fn make(&self) -> io::Result<()> {
        fs::create_dir(&self.0)?;
        fs::create_dir(self.code())
    }

    fn code(&self) -> PathBuf {
        self.0.join("code")
    }

    fn compiled(&self) -> PathBuf {
        self.0.join("compiled")
    }

    /// Packs what was built: compiled, where that has no more than so many bytes, else as it is.
    /// Returns the file, and what the log is to say about it. Blocks.
    fn pack(&self, built: Built, bytes_max: u64) -> Result<(PathBuf, String), String> {
        let mut words = String::new();
        if built.is_compiled {
            let file = self.0.join("compiled-output");
            match pack_output(&self.compiled(), &file, bytes_max) {
                Ok(words) => return Ok((file, words)),
                Err(why) => words = format!("The code is not compiled: {why}.\n"),
            }
            remove_folder_or_file(&file);
        }
        let file = self.0.join("output");
        words += &pack_output(&self.code(), &file, bytes_max)?;
        Ok((file, words))
    }
}

/// Removes the folders of builds, which have ended. Blocks.
fn remove_left(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name() != PACKAGES {
            remove_folder_or_file(&entry.path());
        }
    }
}

/// The project of a build, if it is still there.
fn owner_of(engine: &Engine, build: &Build) -> Option<CacheOwner> {
    let projects = engine.list_projects();
    let mut projects = projects.iter();
    let project = projects.find(|project| project.id == build.function.project)?;
    Some(CacheOwner::from(&**project))
}

/// What commands see: nothing that is secret.
async fn build_variables(
    engine: &Engine,
    build: &Build,
) -> Result<Vec<(String, String)>, EngineError> {
    let definition = &build.function.definition;
    let specification = Specification::parse(&definition.build_specification);
    let specification = specification.expect("a function's specification was read when it was set");
    let shown = engine.build_variables(build).await?.into_iter();
    let shown = shown.map(|variable| (variable.key, variable.value));
    let own = own_variables(&build.function, build.deployment.id.as_str(), specification);
    Ok(shown.chain(own).collect())
}

/// Whether a build ended because its deployment was cancelled or deleted.
fn is_given_up(error: &EngineError) -> bool {
    use FunctionError as E;
    matches!(
        error,
        EngineError::Function(E::BuildMoved(_) | E::DeploymentNotFound(_) | E::NotFound(_))
    )
}

/// Waits until a build is given up.
async fn given_up(engine: &Engine, build: &Build) {
    loop {
        tokio::time::sleep(LOOK).await;
        // A store that fails is met where something is stored.
        if let Ok(false) = engine.is_building(build).await {
            return;
        }
    }
}

/// A whole archive: at most 100 MB, and one at a time.
pub async fn read_archive(
    engine: &Engine,
    deployment: i64,
    part: ArchivePart,
) -> Result<Vec<u8>, EngineError> {
    let (mut archive, mut from) = (Vec::new(), 0);
    while let Some(piece) = engine.piece(deployment, part, from).await? {
        from = piece.start + piece.bytes.len() as u64;
        archive.extend_from_slice(&piece.bytes);
    }
    Ok(archive)
}

/// Packs what was built. Says what the log is to say about it.
fn pack_output(code: &Path, file: &Path, bytes_max: u64) -> Result<String, String> {
    let out = fs::File::create_new(file).map_err(|error| error.to_string())?;
    let out = std::io::BufWriter::new(out);
    let packed = pack(code, out, ARCHIVE).map_err(|why| why.to_string())?;
    let status = fs::metadata(file).map_err(|error| error.to_string())?;
    if status.len() > bytes_max {
        return Err(format!(
            "What was built has {} bytes when it is packed; the limit is {bytes_max}",
            status.len()
        ));
    }
    Ok(match packed.left_out {
        0 => String::new(),
        count => {
            format!("{count} links that lead out of the code, sockets or devices were left out.\n")
        }
    })
}

async fn store_output(engine: &Engine, build: &Build, packed: &Path) -> Result<(), EngineError> {
    let mut start = 0;
    loop {
        let file = packed.to_owned();
        let read = tokio::task::spawn_blocking(move || read_chunk(&file, start)).await;
        let chunk = read
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(of_disk)?;
        if chunk.is_empty() {
            return Ok(());
        }
        let part = ArchivePart::Output;
        engine.keep_of_build(build, part, start, &chunk).await?;
        start += chunk.len() as u64;
    }
}

fn read_chunk(file: &Path, start: u64) -> std::io::Result<Vec<u8>> {
    let mut file = fs::File::open(file)?;
    file.seek(SeekFrom::Start(start))?;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    file.take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
    Ok(chunk)
}

fn of_disk(error: std::io::Error) -> EngineError {
    EngineError::Store(engine::StoreError::Io {
        detail: error.to_string(),
    })
}

fn remove_folder_or_file(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|status| status.is_dir()) {
        remove_folder(path);
    } else {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_gets_too_large_by_compiling_is_stored_as_it_is() {
        let data = tempfile::tempdir().unwrap();
        let place = BuildPlace(data.path().join("0"));
        place.make().unwrap();
        fs::write(place.code().join("main.py"), "WORD = 1").unwrap();
        fs::create_dir(place.compiled()).unwrap();
        fs::write(place.compiled().join("main.py"), "WORD = 1").unwrap();
        fs::write(place.compiled().join("main.pyc"), "").unwrap();
        let built = Built { is_compiled: true };
        let names = |built: Built, bytes_max| {
            let (file, words) = place.pack(built, bytes_max)?;
            let to = tempfile::tempdir().unwrap();
            unpack(fs::File::open(&file).unwrap(), to.path(), ARCHIVE).unwrap();
            fs::remove_file(file).unwrap();
            let names = fs::read_dir(to.path()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort_unstable();
            Ok::<_, String>((names.join(" "), words))
        };
        let (packed, words) = names(built, 1_000).unwrap();
        assert_eq!((packed.as_str(), words.as_str()), ("main.py main.pyc", ""));
        let mut noise = vec![0; 100_000];
        getrandom::fill(&mut noise).unwrap();
        fs::write(place.compiled().join("main.pyc"), noise).unwrap();
        let (packed, words) = names(built, 1_000).unwrap();
        assert_eq!(packed, "main.py");
        assert!(words.starts_with("The code is not compiled: "), "{words}");
        assert!(words.contains("the limit is 1000"), "{words}");
        assert!(names(built, 10).unwrap_err().contains("the limit is 10"));
    }

    #[test]
    fn leftovers_of_builds_are_removed_and_packages_are_not() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir_all(data.path().join("7/cache/npm")).unwrap();
        fs::create_dir_all(data.path().join("packages/1")).unwrap();
        fs::write(data.path().join("file"), "").unwrap();
        remove_left(data.path());
        let left = fs::read_dir(data.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [PACKAGES]);
        assert!(data.path().join("packages/1").is_dir());
    }
}
