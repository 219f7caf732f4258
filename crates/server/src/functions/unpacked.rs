//! The folder of unpacked deployments. It is made again from the store whatever is missing, and
//! bounded: what no run uses goes.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use functions::archive::{ArchiveBounds, unpack};
use tokio::runtime::Handle;

use super::removal::remove_folder;

/// Unpacked deployments that no run uses now are kept up to these bounds, for the next one.
const PLACES_MAX: usize = 256;
/// Of all of them together.
const BYTES_MAX: u64 = 2 << 30;
/// What the archive of a build may become. The archive is our own, and may be packed as well as
/// gzip can.
const BOUNDS: ArchiveBounds = ArchiveBounds {
    ratio_max: 2_000,
    ..super::builds::ARCHIVE
};

/// The folder.
pub struct UnpackedFolder {
    root: PathBuf,
    places: Mutex<HashMap<i64, UnpackedPlace>>,
    /// One archive at a time is held in memory.
    unpacking: tokio::sync::Mutex<()>,
    /// Whose threads read and write files.
    runtime: Handle,
}

/// A deployment's.
struct UnpackedPlace {
    users: usize,
    used: Instant,
    bytes: u64,
}

/// A deployment's folder, which stays as long as this is held.
pub struct HeldPlace {
    folder: Arc<UnpackedFolder>,
    deployment: i64,
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        if let Some(place) = self.folder.lock().get_mut(&self.deployment) {
            place.users -= 1;
            place.used = Instant::now();
        }
    }
}

impl UnpackedFolder {
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(root: PathBuf, runtime: Handle) -> io::Result<Arc<UnpackedFolder>> {
        fs::create_dir(&root)?;
        Ok(Arc::new(UnpackedFolder {
            root,
            places: Mutex::default(),
            unpacking: tokio::sync::Mutex::default(),
            runtime,
        }))
    }

    /// Where a deployment, by `engine::Deployment::seq`, lies when it is unpacked.
    pub fn path(&self, deployment: i64) -> PathBuf {
        self.root.join(deployment.to_string())
    }

    /// Holds a deployment's folder; one that is not there is made of the archive that `read` gives.
    ///
    /// # Errors
    /// What `read` says; what unpacking says.
    pub async fn hold<E: From<String>>(
        self: &Arc<UnpackedFolder>,
        deployment: i64,
        read: impl Future<Output = Result<Vec<u8>, E>>,
    ) -> Result<HeldPlace, E> {
        if let Some(held) = self.held(deployment) {
            return Ok(held);
        }
        let _one = self.unpacking.lock().await;
        if let Some(held) = self.held(deployment) {
            return Ok(held);
        }
        let archive = read.await?;
        let (made, place) = (self.root.join("new"), self.path(deployment));
        let made = move || make(&archive, &made, &place);
        let made = self.runtime.spawn_blocking(made).await;
        let bytes = made.map_err(|broken| broken.to_string())??;
        let place = UnpackedPlace {
            users: 1,
            used: Instant::now(),
            bytes,
        };
        self.lock().insert(deployment, place);
        Ok(self.holder(deployment))
    }

    fn held(self: &Arc<UnpackedFolder>, deployment: i64) -> Option<HeldPlace> {
        let mut places = self.lock();
        places.get_mut(&deployment)?.users += 1;
        Some(self.holder(deployment))
    }

    fn holder(self: &Arc<UnpackedFolder>, deployment: i64) -> HeldPlace {
        HeldPlace {
            folder: self.clone(),
            deployment,
        }
    }

    /// Removes what is not `active` any more, and of the rest what was used the longest ago, until
    /// the bounds are kept. What is held, or has a process in `busy`, stays. Blocks.
    pub fn clear(&self, active: &HashSet<i64>, busy: &HashSet<i64>) {
        for gone in self.take_out(active, busy) {
            remove_folder(&gone);
        }
    }

    /// Takes out of the way what is to be removed.
    fn take_out(&self, active: &HashSet<i64>, busy: &HashSet<i64>) -> Vec<PathBuf> {
        let mut places = self.lock();
        let mut idle: Vec<(bool, Instant, i64)> = places
            .iter()
            .filter(|(deployment, place)| place.users == 0 && !busy.contains(deployment))
            .map(|(deployment, place)| (active.contains(deployment), place.used, *deployment))
            .collect();
        idle.sort_unstable();
        let mut bytes: u64 = places.values().map(|place| place.bytes).sum();
        let mut gone = Vec::new();
        for (is_active, _, deployment) in idle {
            if is_active && places.len() <= PLACES_MAX && bytes <= BYTES_MAX {
                break;
            }
            // Under another name, so that it can be unpacked again meanwhile.
            let out = self.root.join(format!("gone-{deployment}"));
            if fs::rename(self.path(deployment), &out).is_ok() {
                gone.push(out);
            }
            bytes -= places.remove(&deployment).map_or(0, |place| place.bytes);
        }
        gone
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, UnpackedPlace>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unpacks into `made`, which then becomes `place`: one that is there is whole. Says how many bytes
/// its files have.
fn make(archive: &[u8], made: &Path, place: &Path) -> Result<u64, String> {
    remove_folder(made);
    let written = fs::create_dir(made).map_err(|error| error.to_string());
    let unpacked = written.and_then(|()| {
        let unpacked = unpack(archive, made, BOUNDS).map_err(|error| error.to_string())?;
        // Left over where it was taken out and could not be moved.
        remove_folder(place);
        fs::rename(made, place).map_err(|error| error.to_string())?;
        Ok(unpacked.bytes)
    });
    unpacked.map_err(|why| {
        remove_folder(made);
        format!("a deployment cannot be unpacked: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn hold(folder: &Arc<UnpackedFolder>, deployment: i64) -> Result<HeldPlace, String> {
        let code = tempfile::tempdir().unwrap();
        fs::write(code.path().join("main.js"), deployment.to_string()).unwrap();
        let mut archive = Vec::new();
        functions::pack::pack(code.path(), &mut archive, BOUNDS).unwrap();
        folder.hold(deployment, async { Ok(archive) }).await
    }

    fn set(numbers: &[i64]) -> HashSet<i64> {
        numbers.iter().copied().collect()
    }

    #[tokio::test]
    async fn unpacked_deployments_stay_while_they_are_held_busy_or_active() {
        let data = tempfile::tempdir().unwrap();
        let folder = UnpackedFolder::new(data.path().join("code"), Handle::current()).unwrap();
        let held = hold(&folder, 1).await.unwrap();
        for deployment in [2, 3, 4] {
            hold(&folder, deployment).await.unwrap();
        }
        folder.clear(&set(&[3]), &set(&[2]));
        let is_there = |deployment| folder.path(deployment).join("main.js").exists();
        assert_eq!([1, 2, 3, 4].map(is_there), [true, true, true, false]);
        drop(held);
        folder.clear(&set(&[]), &set(&[]));
        assert_eq!([1, 2, 3, 4].map(is_there), [false; 4]);
        assert_eq!(fs::read_dir(data.path().join("code")).unwrap().count(), 0);
        // And is made again.
        let again = hold(&folder, 2).await.unwrap();
        assert!(is_there(2));
        drop(again);
    }

    #[tokio::test]
    async fn unpacked_deployments_are_bounded() {
        let data = tempfile::tempdir().unwrap();
        let folder = UnpackedFolder::new(data.path().join("code"), Handle::current()).unwrap();
        let count = PLACES_MAX as i64 + 3;
        let active: HashSet<i64> = (0..count).collect();
        for deployment in 0..count {
            hold(&folder, deployment).await.unwrap();
        }
        drop(hold(&folder, 0).await.unwrap());
        folder.clear(&active, &set(&[]));
        let there = (0..count).filter(|one| folder.path(*one).exists());
        // Those used the longest ago are gone; the first one was used again.
        let expected = std::iter::once(0).chain(4..count);
        assert_eq!(there.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn an_archive_that_is_none_leaves_nothing() {
        let data = tempfile::tempdir().unwrap();
        let folder = UnpackedFolder::new(data.path().join("code"), Handle::current()).unwrap();
        let held = folder.hold(1, async { Ok::<_, String>(vec![1, 2, 3]) });
        let refused = held.await.map(drop).unwrap_err();
        assert!(refused.contains("cannot be unpacked"), "{refused}");
        assert_eq!(fs::read_dir(data.path().join("code")).unwrap().count(), 0);
    }
}
