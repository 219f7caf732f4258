//! Packages that builds have fetched, kept for the next builds of their project.
//!
//! A build works on a copy, which takes the place of what was kept once the build has succeeded. So
//! no build changes what another one finds, and no project ever sees what another has fetched. A
//! cache may lose any of its files: package managers fetch again what they do not find.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use model::{Project, ProjectId, Timestamp};

use super::removal::remove_folder;

/// Folders within each other: package managers have about eight.
const DEPTH_MAX: usize = 16;
/// Files of a build's copy that are looked at, for each that may be kept.
const LOOKED_AT: usize = 4;
/// What a file or a folder takes at least: most file systems give each a block.
const ENTRY_BYTES: u64 = 4_096;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct CacheBounds {
    /// Of one project: beyond, what was written the longest ago goes.
    pub project_bytes: u64,
    /// And as many folders.
    pub project_files: usize,
    /// Of all projects: beyond, the one goes that was built the longest ago.
    pub bytes: u64,
    /// Of the path of a folder inside.
    pub path_bytes: usize,
}

/// A project. One that is created later under the same id is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheOwner {
    id: ProjectId,
    created: Timestamp,
}

impl From<&Project> for CacheOwner {
    fn from(project: &Project) -> CacheOwner {
        CacheOwner {
            id: project.id.clone(),
            created: project.created,
        }
    }
}

/// The folder of all caches.
pub struct PackageCaches {
    root: PathBuf,
    bounds: CacheBounds,
    known: Mutex<KnownCaches>,
}

#[derive(Default)]
struct KnownCaches {
    places: HashMap<CacheOwner, CachePlace>,
    /// Counts builds that have left something: names folders, and orders them.
    builds: u64,
}

struct CachePlace {
    folder: PathBuf,
    bytes: u64,
    build: u64,
}

/// A file of a build's copy.
struct FetchedFile {
    written: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl PackageCaches {
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(root: PathBuf, bounds: CacheBounds) -> io::Result<PackageCaches> {
        fs::create_dir(&root)?;
        Ok(PackageCaches {
            root,
            bounds,
            known: Mutex::default(),
        })
    }

    /// Makes a folder with a copy of what is kept for a project. What cannot be copied is fetched
    /// again. Blocks.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn lend(&self, owner: &CacheOwner, to: &Path) -> io::Result<()> {
        fs::create_dir(to)?;
        let known = self.lock();
        let Some(place) = known.places.get(owner) else {
            return Ok(());
        };
        for file in files(&place.folder, (usize::MAX, self.bounds.path_bytes)) {
            if let Err(error) = copy(&place.folder.join(&file.path), &to.join(&file.path)) {
                tracing::warn!(%error, "packages of builds before cannot be read");
                break;
            }
        }
        Ok(())
    }

    /// Keeps what a build of a project has left in its copy, in place of what was kept before.
    /// Nothing may write there any more. Blocks.
    pub fn keep(&self, owner: &CacheOwner, from: &Path) {
        let mut known = self.lock();
        known.builds += 1;
        let build = known.builds;
        let folder = self.root.join(build.to_string());
        let bytes = self.take(from, &folder);
        let place = CachePlace {
            folder,
            bytes,
            build,
        };
        let before = known.places.insert(owner.clone(), place);
        let mut gone: Vec<CachePlace> = before.into_iter().collect();
        while known.bytes() > self.bounds.bytes {
            gone.extend(known.take_oldest());
        }
        drop(known);
        for place in &gone {
            remove_folder(&place.folder);
        }
    }

    /// Moves files, the newest first, up to the bounds of a project; their bytes, and those of
    /// their folders.
    fn take(&self, from: &Path, to: &Path) -> u64 {
        let bounds = &self.bounds;
        let most = bounds.project_files.saturating_mul(LOOKED_AT);
        let mut fetched = files(from, (most, bounds.path_bytes));
        fetched.sort_by(|a, b| (b.written, &a.path).cmp(&(a.written, &b.path)));
        let (mut bytes, mut count) = (0, 0);
        let mut made: HashSet<PathBuf> = HashSet::new();
        for file in fetched {
            let folders = file.path.ancestors().skip(1);
            let new: Vec<&Path> = folders.filter(|folder| !made.contains(*folder)).collect();
            let new_bytes = new.len() as u64 * ENTRY_BYTES;
            let fits = bytes + new_bytes + file.bytes <= bounds.project_bytes
                && made.len() + new.len() <= bounds.project_files
                && count < bounds.project_files;
            if !fits {
                continue;
            }
            // They stay where the file is not taken.
            bytes += new_bytes;
            made.extend(new.into_iter().map(Path::to_owned));
            if take_over(&from.join(&file.path), &to.join(&file.path)).is_ok() {
                (bytes, count) = (bytes + file.bytes, count + 1);
            }
        }
        bytes
    }

    /// Removes what is kept for projects that are not there any more. Blocks.
    pub fn clear(&self, living: &HashSet<CacheOwner>) {
        let mut known = self.lock();
        let gone = known.places.extract_if(|owner, _| !living.contains(owner));
        let gone: Vec<CachePlace> = gone.map(|(_, place)| place).collect();
        drop(known);
        for place in &gone {
            remove_folder(&place.folder);
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownCaches> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownCaches {
    fn bytes(&self) -> u64 {
        self.places.values().map(|place| place.bytes).sum()
    }

    fn take_oldest(&mut self) -> Option<CachePlace> {
        let oldest = self.places.iter().min_by_key(|(_, place)| place.build);
        let owner = oldest.map(|(owner, _)| owner.clone())?;
        self.places.remove(&owner)
    }
}

/// The files of a folder, by their paths in it; at most so many entries are looked at. Links are
/// not followed, and nothing but files is taken: a build was written to it.
fn files(folder: &Path, (most, path_bytes_max): (usize, usize)) -> Vec<FetchedFile> {
    let (mut found, mut waiting) = (Vec::new(), vec![(PathBuf::new(), 0)]);
    let mut looked_at = 0;
    while let Some((inside, depth)) = waiting.pop() {
        let entries = fs::read_dir(folder.join(&inside));
        for entry in entries.into_iter().flatten().flatten() {
            if looked_at >= most {
                return found;
            }
            looked_at += 1;
            let Ok(status) = entry.metadata() else {
                continue;
            };
            let path = inside.join(entry.file_name());
            // A build is not begun with a folder whose path is longer.
            let is_short = path.as_os_str().len() <= path_bytes_max;
            if status.is_dir() && depth < DEPTH_MAX && is_short {
                waiting.push((path, depth + 1));
            } else if status.is_file() {
                found.push(FetchedFile {
                    written: status.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    bytes: status.len().max(status.blocks() * 512).max(ENTRY_BYTES),
                    path,
                });
            }
        }
    }
    found
}

/// A copy that was written as long ago.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to)?;
    let written = fs::metadata(from)?.modified()?;
    File::options().write(true).open(to)?.set_modified(written)
}

/// Moves a file that a build has made, and makes it this process's own.
fn take_over(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::rename(from, to)?;
    if rustix::process::geteuid().is_root() {
        lchown(to, Some(0), Some(0))?;
    }
    fs::set_permissions(to, Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;

    const BOUNDS: CacheBounds = CacheBounds {
        project_bytes: 24_000,
        project_files: 4,
        bytes: 34_000,
        path_bytes: 1_024,
    };

    /// A folder with caches, in which builds leave files.
    struct Builds {
        data: tempfile::TempDir,
        caches: PackageCaches,
    }

    fn owner(id: &str, created: i64) -> CacheOwner {
        CacheOwner {
            id: ProjectId::new(id).unwrap(),
            created: Timestamp(created),
        }
    }

    impl Builds {
        fn new() -> Builds {
            let data = tempfile::tempdir().unwrap();
            let caches = PackageCaches::new(data.path().join("packages"), BOUNDS).unwrap();
            Builds { data, caches }
        }

        /// A build that finds what was kept; its folder, and the names in it.
        fn begin(&self, owner: &CacheOwner) -> (PathBuf, Vec<String>) {
            let copy = self.data.path().join("copy");
            remove_folder(&copy);
            self.caches.lend(owner, &copy).unwrap();
            let found = files(&copy, (usize::MAX, usize::MAX)).into_iter();
            let mut names: Vec<_> = found.map(|file| file.path.display().to_string()).collect();
            names.sort_unstable();
            (copy, names)
        }

        fn found(&self, owner: &CacheOwner) -> Vec<String> {
            self.begin(owner).1
        }

        /// A build that succeeds, and has written this file so many seconds after the epoch.
        fn leave(&self, owner: &CacheOwner, name: &str, (bytes, second): (usize, u64)) {
            let copy = self.begin(owner).0;
            write(&copy.join(name), (bytes, second));
            self.caches.keep(owner, &copy);
        }

        fn kept_count(&self) -> usize {
            fs::read_dir(self.data.path().join("packages"))
                .unwrap()
                .count()
        }
    }

    fn write(path: &Path, (bytes, second): (usize, u64)) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![b'x'; bytes]).unwrap();
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(written).unwrap();
    }

    #[test]
    fn packages_are_kept_for_their_own_project_when_a_build_succeeds() {
        let builds = Builds::new();
        let (own, other) = (owner("own", 1), owner("other", 1));
        builds.leave(&own, "npm/a/b", (10, 1));
        assert_eq!(builds.found(&own), ["npm/a/b"]);
        // A build that fails changes its copy alone.
        let (copy, _) = builds.begin(&own);
        fs::write(copy.join("npm/a/b"), "changed").unwrap();
        fs::write(copy.join("more"), "").unwrap();
        let (copy, names) = builds.begin(&own);
        assert_eq!(names, ["npm/a/b"]);
        assert_eq!(fs::read(copy.join("npm/a/b")).unwrap(), b"xxxxxxxxxx");
        let again = owner("own", 2);
        assert!(builds.found(&other).is_empty() && builds.found(&again).is_empty());
        // One that has emptied it leaves nothing.
        let (copy, _) = builds.begin(&own);
        fs::remove_dir_all(copy.join("npm")).unwrap();
        builds.caches.keep(&own, &copy);
        assert!(builds.found(&own).is_empty());
    }

    #[test]
    fn packages_are_plain_files_and_nothing_else() {
        let builds = Builds::new();
        let own = owner("own", 1);
        let secret = builds.data.path().join("secret");
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("key"), "s3cret").unwrap();
        let (copy, _) = builds.begin(&own);
        symlink(secret.join("key"), copy.join("file")).unwrap();
        symlink(&secret, copy.join("folder")).unwrap();
        let _socket = UnixListener::bind(copy.join("socket")).unwrap();
        let mut deep = copy.clone();
        deep.extend(["d"; DEPTH_MAX + 1]);
        write(&deep.join("deep"), (1, 1));
        let mut long = copy.clone();
        long.extend(["l".repeat(200).as_str(); 6]);
        write(&long.join("long"), (1, 1));
        write(&copy.join("kept"), (1, 1));
        fs::set_permissions(copy.join("kept"), Permissions::from_mode(0o6777)).unwrap();
        builds.caches.keep(&own, &copy);
        let (copy, names) = builds.begin(&own);
        assert_eq!(names, ["kept"]);
        let mode = fs::metadata(copy.join("kept")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert!(secret.join("key").exists());
    }

    #[test]
    fn packages_of_a_project_are_bounded_and_the_oldest_go() {
        let builds = Builds::new();
        let own = owner("own", 1);
        for (nth, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            builds.leave(&own, name, (4_096, nth as u64));
        }
        assert_eq!(builds.found(&own), ["b", "c", "d", "e"], "four files");
        builds.leave(&own, "f", (12_288, 9));
        assert_eq!(builds.found(&own), ["e", "f"], "24,000 bytes");
        builds.leave(&own, "g", (40_960, 10));
        assert_eq!(
            builds.found(&own),
            ["e", "f"],
            "what is too large is not kept"
        );
    }

    #[test]
    fn packages_that_are_empty_files_in_many_folders_are_bounded() {
        let builds = Builds::new();
        let own = owner("own", 1);
        let (copy, _) = builds.begin(&own);
        for (second, name) in ["e/e", "d/d", "c/c", "b/b", "a/a"].into_iter().enumerate() {
            write(&copy.join(name), (0, second as u64));
        }
        builds.caches.keep(&own, &copy);
        // Each takes a block, as do the folder of all and those inside.
        assert_eq!(builds.found(&own), ["a/a", "b/b"], "24,000 bytes");
        assert_eq!(builds.caches.lock().bytes(), 5 * ENTRY_BYTES);
        let other = owner("other", 1);
        builds.leave(&other, "x/x/x", (0, 1));
        assert_eq!(builds.found(&other), ["x/x/x"]);
        assert!(builds.found(&own).is_empty(), "34,000 bytes");
        let (copy, _) = builds.begin(&own);
        write(&copy.join("a/b/c/d/e"), (0, 2));
        write(&copy.join("f"), (0, 1));
        let roomy = CacheBounds {
            project_bytes: u64::MAX,
            ..BOUNDS
        };
        let roomy = PackageCaches::new(builds.data.path().join("roomy"), roomy).unwrap();
        roomy.keep(&own, &copy);
        let (found, place) = (builds.data.path().join("found"), &roomy);
        place.lend(&own, &found).unwrap();
        let found: Vec<PathBuf> = files(&found, (10, BOUNDS.path_bytes))
            .into_iter()
            .map(|file| file.path)
            .collect();
        assert_eq!(found, [Path::new("f")], "four folders");
    }

    #[test]
    fn packages_are_looked_for_in_a_bounded_number_of_folders() {
        let data = tempfile::tempdir().unwrap();
        for nth in 0..20 {
            fs::create_dir(data.path().join(nth.to_string())).unwrap();
        }
        for nth in 0..20 {
            fs::write(data.path().join(nth.to_string()).join("file"), "").unwrap();
        }
        assert_eq!(files(data.path(), (30, BOUNDS.path_bytes)).len(), 10);
    }

    #[test]
    fn packages_of_all_projects_are_bounded_and_go_with_their_project() {
        let builds = Builds::new();
        let owners = [1, 2, 3].map(|nth| owner(&format!("p{nth}"), nth));
        for owner in &owners {
            builds.leave(owner, "a", (12_288, 1));
        }
        assert!(builds.found(&owners[0]).is_empty(), "34,000 bytes");
        assert_eq!(
            (builds.found(&owners[1]).len(), builds.kept_count()),
            (1, 2)
        );
        builds.caches.clear(&HashSet::from([owners[2].clone()]));
        assert!(builds.found(&owners[1]).is_empty());
        assert_eq!(
            (builds.found(&owners[2]).len(), builds.kept_count()),
            (1, 1)
        );
    }
}
