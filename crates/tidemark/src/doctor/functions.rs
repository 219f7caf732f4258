//! Functions: the jail that processes run in, its control group, and the interpreters.

use std::fs;
use std::path::Path;

use functions::cgroup::{CGROUPS, GroupFolder, OWN_CGROUP};
use functions::jail::JailLevel;
use functions::jail::attempt::{try_jail, try_outside};
use functions::{FunctionIsolation, InstalledRuntimes};
use server::functions::FunctionsConfig;

use super::Finding;

/// Makes a jail of the level that is set, or says what can be made instead.
pub fn jail(config: &FunctionsConfig) -> Finding {
    const CHECK: &str = "jail";
    let FunctionIsolation::Jail { launcher, level } = &config.isolation else {
        return Finding::skipped(CHECK, "Functions run without one.");
    };
    let shown = level.as_str();
    let lacks = |level: JailLevel| match level.lacks() {
        [] => String::new(),
        lacks => format!("; it lacks: {}", lacks.join("; ")),
    };
    let why = match try_jail(launcher, *level) {
        Ok(()) => {
            let found = format!("A jail of level `{shown}` can be made{}.", lacks(*level));
            return Finding::good(CHECK, found);
        }
        Err(why) => why,
    };
    let found = format!("No jail of level `{shown}` can be made: {why}.");
    if *level == JailLevel::Reduced {
        let advice = "Functions are refused; a kernel with landlock (5.13 or newer) is needed";
        return Finding::warning(CHECK, found, advice);
    }
    let advice = "Allow user namespaces to this user, or start the server as root; functions are \
                  refused otherwise, unless --functions-isolation=reduced is chosen";
    let reduced = match try_jail(launcher, JailLevel::Reduced) {
        Ok(()) => format!("`reduced` can be made{}", lacks(JailLevel::Reduced)),
        Err(why) => format!("none of level `reduced` either: {why}"),
    };
    Finding::warning(CHECK, format!("{found} {reduced}."), advice)
}

/// Whether connections can be made for the network `outside`.
pub fn network(config: &FunctionsConfig) -> Finding {
    const CHECK: &str = "network";
    let FunctionIsolation::Jail {
        launcher,
        level: JailLevel::Full,
    } = &config.isolation
    else {
        return Finding::skipped(CHECK, "Functions have none but in jails of level `full`.");
    };
    match try_outside(launcher) {
        Ok(()) => Finding::good(CHECK, "Connections from a jail can be looked at and made."),
        Err(why) => Finding::warning(
            CHECK,
            format!("Nothing in a jail can connect to public addresses: {why}."),
            "Linux 5.14 or newer is needed, and the right to look into processes of one's own \
             (`pidfd_getfd`, `/proc/PID/mem`), which containers may refuse: \
             `--cap-add=SYS_PTRACE`. Until then functions with the network `outside`, and \
             commands of builds, connect to nothing",
        ),
    }
}

/// Whether the kernel bounds what all processes of a jail hold together.
pub fn groups() -> Finding {
    const CHECK: &str = "control groups";
    let own = fs::read_to_string(OWN_CGROUP).unwrap_or_default();
    match GroupFolder::look(Path::new(CGROUPS), &own) {
        Ok(_) => Finding::good(
            CHECK,
            "They can be made here: the kernel bounds memory and processes of functions.",
        ),
        Err(why) => Finding::skipped(
            CHECK,
            format!(
                "None can be made here: {why}. The limits of each process hold, and memory is \
                 looked at every 100 ms. A unit of systemd gives them by `Delegate=yes`."
            ),
        ),
    }
}

/// Looks for the interpreters.
pub fn runtimes(config: &FunctionsConfig) -> Finding {
    const CHECK: &str = "runtimes";
    let runtimes = InstalledRuntimes::find(&config.search_path, &config.runtimes);
    let found = runtimes.found().iter().map(|runtime| {
        let ids = match runtime.ids.as_slice() {
            [] => "no known runtime".to_owned(),
            ids => ids.join(", "),
        };
        let (name, version) = (&runtime.name, &runtime.version);
        format!("{name} {version} ({ids}) at {}", runtime.program.display())
    });
    let missing = runtimes.missing().iter().map(ToString::to_string);
    let said: Vec<String> = found.chain(missing).collect();
    let said = format!("{}.", said.join("; "));
    if runtimes.found().is_empty() {
        return Finding::skipped(CHECK, format!("No functions can run here: {said}"));
    }
    Finding::good(CHECK, said)
}
