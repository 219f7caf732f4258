//! Control groups of the kernel: what all processes of one jail hold together.
//!
//! Version 2 alone, and only where this user may make groups: as root outside of containers, or
//! where a service manager delegates its group (`Delegate=yes`). Elsewhere the limits of processes
//! hold.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};

/// Where the kernel's groups are mounted.
pub const CGROUPS: &str = "/sys/fs/cgroup";
/// Which group a process is in, of this process.
pub const OWN_CGROUP: &str = "/proc/self/cgroup";
/// Beside what a deployment may hold: its `/tmp`, and the processes that make its jail.
const MEMORY_BESIDE_MIB: u64 = 64 + 16;
/// Processes and threads of one jail: those of its user (64), and the two that make it. The limit
/// of a user's processes is reached first, whose error handlers know.
const TASKS_MAX: u64 = 64 + 8;
/// Of all functions together, where a group without one, such as that of the server, has 100:
/// about what the priority of their processes (nice 10) is worth, which counts for nothing between
/// groups.
const CPU_WEIGHT: &str = "10";
/// The group that this server moves itself to, as one with processes has no groups with limits.
const SERVER: &str = "tidemark-server";
/// How names of groups of processes begin; the server's process id follows.
const PROCESSES: &str = "tidemark-functions-";
/// How often, and after which pause, a group is removed whose processes are just ending.
const REMOVALS_MAX: usize = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// Where groups of processes are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFolder {
    folder: PathBuf,
}

impl GroupFolder {
    /// The group of this process, if groups can be made in it. `own` is the text of
    /// [`OWN_CGROUP`]. Changes nothing.
    ///
    /// # Errors
    /// Why they cannot, as a clause.
    pub fn look(mounted: &Path, own: &str) -> Result<GroupFolder, String> {
        let mut lines = own.lines();
        let own = lines.find_map(|line| line.strip_prefix("0::/"));
        let own = own.ok_or("this kernel has no control groups of version 2")?;
        let folder = mounted.join(own.trim_end_matches('/'));
        let controllers = fs::read_to_string(folder.join("cgroup.controllers"));
        let controllers = controllers.map_err(|_| {
            let mounted = mounted.display();
            format!("control groups of version 2 are not mounted at {mounted}")
        })?;
        let given: Vec<&str> = controllers.split_whitespace().collect();
        if let Some(missing) = ["memory", "pids"].iter().find(|name| !given.contains(name)) {
            return Err(format!(
                "{} has no controller `{missing}`",
                folder.display()
            ));
        }
        for needed in ["", "cgroup.procs", "cgroup.subtree_control"] {
            let path = folder.join(needed);
            if access(&path, Access::WRITE_OK).is_err() {
                return Err(format!("{} may not be written", path.display()));
            }
        }
        Ok(GroupFolder { folder })
    }

    /// Lets groups have limits, and removes what servers have left that are no more. This process
    /// moves to a group of its own if it must.
    ///
    /// # Errors
    /// Why there are none with limits, as a clause. This process may have a group of its own then.
    pub fn take(self) -> Result<GroupFolder, String> {
        self.clear();
        let enable = || fs::write(self.folder.join("cgroup.subtree_control"), "+memory +pids");
        if enable().is_err() {
            let server = self.folder.join(SERVER);
            let moved = make_folder(&server).and_then(|()| enter(&server));
            if let Err(error) = moved.and_then(|()| enable()) {
                let _ = enter(&self.folder);
                let _ = fs::remove_dir(&server);
                let folder = self.folder.display();
                return Err(format!(
                    "{folder} has other processes, or cannot have limits: {error}"
                ));
            }
        }
        let own = format!("{PROCESSES}{}", std::process::id());
        let folder = self.folder.join(own);
        let below = folder.join("cgroup.subtree_control");
        let made = make_folder(&folder).and_then(|()| fs::write(&below, "+memory +pids"));
        if let Err(error) = made {
            let _ = fs::remove_dir(&folder);
            return Err(format!("{}: {error}", folder.display()));
        }
        weigh(&self.folder, &folder);
        Ok(GroupFolder { folder })
    }

    /// Removes the groups of servers that have ended.
    fn clear(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let server = name.to_str().and_then(|name| name.strip_prefix(PROCESSES));
            let Some(server) = server else { continue };
            // One that had the number of this process has ended.
            let is_own = server == std::process::id().to_string();
            if !is_own && Path::new("/proc").join(server).exists() {
                continue;
            }
            let groups = fs::read_dir(entry.path()).into_iter().flatten().flatten();
            for group in groups.filter(|group| group.path().is_dir()) {
                ProcessGroup(group.path()).remove();
            }
            let _ = fs::remove_dir(entry.path());
        }
    }

    /// A group for one process and all that it starts.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(&self, process: u64, memory_mib: u32, cpu_weight: u32) -> io::Result<ProcessGroup> {
        let group = ProcessGroup(self.folder.join(process.to_string()));
        make_folder(&group.0)?;
        match group.limit(memory_mib) {
            Ok(()) => {
                // There is no such file where functions have no controller `cpu`.
                let _ = fs::write(group.0.join("cpu.weight"), cpu_weight.to_string());
                Ok(group)
            }
            Err(error) => {
                group.remove();
                Err(error)
            }
        }
    }
}

/// The group of one process and all that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessGroup(PathBuf);

impl ProcessGroup {
    fn limit(&self, memory_mib: u32) -> io::Result<()> {
        let memory_bytes = (u64::from(memory_mib) + MEMORY_BESIDE_MIB) * 1024 * 1024;
        fs::write(self.0.join("memory.max"), memory_bytes.to_string())?;
        fs::write(self.0.join("pids.max"), TASKS_MAX.to_string())?;
        // All of a jail or nothing; and the disk is no memory. Kernels without swap have no such
        // file.
        fs::write(self.0.join("memory.oom.group"), "1")?;
        let _ = fs::write(self.0.join("memory.swap.max"), "0");
        Ok(())
    }

    /// Its folder, for what is to enter it.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Whether the kernel has ended processes of it for lack of memory.
    pub fn lacked_memory(&self) -> bool {
        let events = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        let mut kills = events
            .lines()
            .filter_map(|line| line.strip_prefix("oom_kill "));
        kills.any(|count| count.trim() != "0")
    }

    /// Ends what is left in it, and removes it; false while something is ending.
    fn try_remove(&self) -> bool {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        match fs::remove_dir(&self.0) {
            Err(error) => error.kind() != io::ErrorKind::ResourceBusy,
            Ok(()) => true,
        }
    }

    /// Ends what is left in it, and removes it.
    pub async fn end(self) {
        for _ in 0..REMOVALS_MAX {
            if self.try_remove() {
                return;
            }
            tokio::time::sleep(REMOVAL_PAUSE).await;
        }
    }

    /// Removes it, as far as nothing is in it.
    pub fn remove(&self) {
        for _ in 0..REMOVALS_MAX {
            if self.try_remove() {
                return;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
    }
}

/// Has the functions in `functions` yield processors to what else is in `folder`, and each of their
/// processes have a weight. Without it their priority holds.
fn weigh(folder: &Path, functions: &Path) {
    let give = |group: &Path| fs::write(group.join("cgroup.subtree_control"), "+cpu");
    if give(folder).is_ok() {
        // Before there is a process that it could favour.
        let weighed = fs::write(functions.join("cpu.weight"), CPU_WEIGHT);
        if weighed.and_then(|()| give(functions)).is_err() {
            let _ = fs::write(folder.join("cgroup.subtree_control"), "-cpu");
        }
    }
}

/// Moves this process to a group.
///
/// # Errors
/// What the system says.
pub fn enter(group: &Path) -> io::Result<()> {
    // 0 is the process that writes it.
    fs::write(group.join("cgroup.procs"), "0")
}

fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a mounted one.
    fn mounted(controllers: &str) -> tempfile::TempDir {
        let mounted = tempfile::tempdir().unwrap();
        let own = mounted.path().join("a/b");
        fs::create_dir_all(&own).unwrap();
        for (name, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.procs", ""),
            ("cgroup.subtree_control", ""),
        ] {
            fs::write(own.join(name), text).unwrap();
        }
        mounted
    }

    #[test]
    fn group_folder_is_found_where_groups_can_be_made() {
        let good = mounted("cpuset cpu io memory pids");
        let found = GroupFolder::look(good.path(), "9:name=systemd:/\n0::/a/b\n").unwrap();
        assert_eq!(found.folder, good.path().join("a/b"));
        let bad = mounted("cpu memory pids-not");
        for (mounted, own, why) in [
            (
                good.path(),
                "4:memory:/x\n",
                "no control groups of version 2",
            ),
            (good.path(), "0::/\n", "are not mounted at"),
            (bad.path(), "0::/a/b\n", "no controller `pids`"),
        ] {
            let refused = GroupFolder::look(mounted, own).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn process_group_has_the_limits_of_its_deployment() {
        let mounted = mounted("cpu memory pids");
        let own = mounted.path().join("a/b");
        // Of a server that has ended: no process has this number.
        let left = own.join(format!("{PROCESSES}4194305"));
        fs::create_dir_all(left.join("7")).unwrap();
        let found = GroupFolder::look(mounted.path(), "0::/a/b").unwrap();
        let folder = found.take().unwrap();
        // A kernel takes a group away together with its files.
        assert_eq!(fs::read_to_string(left.join("7/cgroup.kill")).unwrap(), "1");
        let read = |path: &Path, name: &str| fs::read_to_string(path.join(name)).unwrap();
        // Each kernel adds to what was written before; a file here holds what came last.
        assert_eq!(read(&own, "cgroup.subtree_control"), "+cpu");
        assert_eq!(read(&folder.folder, "cgroup.subtree_control"), "+cpu");
        assert_eq!(read(&folder.folder, "cpu.weight"), "10");
        let group = folder.make(3, 512, 50).unwrap();
        assert_eq!(read(group.folder(), "cpu.weight"), "50");
        assert!(group.folder().starts_with(&own));
        assert_eq!(read(group.folder(), "memory.max"), "620756992");
        assert_eq!(read(group.folder(), "pids.max"), "72");
        assert_eq!(read(group.folder(), "memory.oom.group"), "1");
        enter(group.folder()).unwrap();
        assert_eq!(read(group.folder(), "cgroup.procs"), "0");
        assert!(!group.lacked_memory());
        let events = group.folder().join("memory.events");
        fs::write(&events, "low 0\noom 0\noom_kill 0\noom_group_kill 0\n").unwrap();
        assert!(!group.lacked_memory());
        fs::write(&events, "oom 2\noom_kill 1\n").unwrap();
        assert!(group.lacked_memory());
        group.remove();
        assert_eq!(read(group.folder(), "cgroup.kill"), "1");
    }
}
