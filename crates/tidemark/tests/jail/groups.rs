//! Control groups of the kernel around jails; folders stand for them, as few hosts of tests have any.

use std::fs;
use std::path::{Path, PathBuf};

use functions::cgroup::{CGROUPS, GroupFolder, OWN_CGROUP};
use functions::jail::JailLevel;
use functions::{Executor, InstalledRuntimes, RunCause};

use super::{Host, can, run};

/// What looks like the group of this process.
fn group_folder(mounted: &Path) -> GroupFolder {
    for (name, text) in [
        ("cgroup.controllers", "cpu memory pids"),
        ("cgroup.procs", ""),
        ("cgroup.subtree_control", ""),
    ] {
        fs::write(mounted.join(name), text).unwrap();
    }
    GroupFolder::look(mounted, "0::/\n")
        .unwrap()
        .take()
        .unwrap()
}

fn executor(host: &Host, level: JailLevel, groups: GroupFolder) -> Executor {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let mut settings = host.settings(level);
    settings.groups = Some(groups);
    Executor::new(settings, InstalledRuntimes::find(&search_path, &[])).unwrap()
}

/// The group of the first process.
fn first_group(mounted: &Path) -> PathBuf {
    let own = format!("tidemark-functions-{}", std::process::id());
    mounted.join(own).join("1")
}

#[test]
fn group_of_a_jail_holds_its_process_and_tells_what_it_lacked() {
    for level in [JailLevel::Full, JailLevel::Reduced] {
        if !can(level, None) {
            continue;
        }
        let host = Host::new();
        let mounted = tempfile::tempdir().unwrap();
        let executor = executor(&host, level, group_folder(mounted.path()));
        let code = "module.exports = ({ req, res }) => \
                    req.path === '/end' ? process.exit(9) : res.empty()";
        fs::write(host.path("code/ending.js"), code).unwrap();
        let work = |path| host.work(&executor, "node", "ending.js", path);
        assert_eq!(run(&executor, work("/")).response.status, 204);
        let group = first_group(mounted.path());
        let read = |name: &str| fs::read_to_string(group.join(name)).unwrap();
        // Of the launcher, and so of all that it starts.
        assert_eq!(read("cgroup.procs"), "0");
        let memory = (256 + 64 + 16) * 1024 * 1024;
        assert_eq!(read("memory.max"), memory.to_string());
        assert_eq!(read("cpu.weight"), "50");
        // As the kernel says it of processes that it has ended.
        fs::write(group.join("memory.events"), "oom 1\noom_kill 1\n").unwrap();
        let outcome = run(&executor, work("/end"));
        assert_eq!(outcome.cause, RunCause::OutOfMemory, "{}", outcome.errors);
        let said = &outcome.errors;
        assert!(
            said.ends_with("The function ran out of memory (256 MiB)."),
            "{said}"
        );
    }
}

#[test]
fn group_of_a_host_that_has_them_bounds_memory() {
    let own = fs::read_to_string(OWN_CGROUP).unwrap_or_default();
    let found = GroupFolder::look(Path::new(CGROUPS), &own).and_then(GroupFolder::take);
    let groups = match found {
        Ok(groups) if can(JailLevel::Full, None) => groups,
        found => {
            eprintln!("not tried: {found:?}");
            return;
        }
    };
    let host = Host::new();
    let executor = executor(&host, JailLevel::Full, groups);
    // Shared pages are no data of a process: its own limits let them pass.
    fs::write(
        host.path("code/shared.py"),
        "import mmap\n\ndef main(context):\n    kept = mmap.mmap(-1, 400 << 20)\n    \
         for at in range(0, 400 << 20, 4096):\n        kept[at] = 1\n    \
         return context.res.empty()\n",
    )
    .unwrap();
    let outcome = run(&executor, host.work(&executor, "python", "shared.py", "/"));
    assert_eq!(outcome.cause, RunCause::OutOfMemory, "{}", outcome.errors);
}
