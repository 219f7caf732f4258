//! Functions: the jail that processes run in, and the interpreters.

use std::ffi::OsStr;

use functions::InstalledRuntimes;
use functions::jail::JailLevel;
use functions::jail::attempt::try_jail;

use super::Finding;

/// Makes a jail of each level until there is one.
pub fn jail() -> Finding {
    const CHECK: &str = "jail";
    let Ok(launcher) = std::env::current_exe() else {
        return Finding::skipped(CHECK, "Where this binary is cannot be learned.");
    };
    let full = match try_jail(&launcher, JailLevel::Full) {
        Ok(()) => return Finding::good(CHECK, "A jail of level `full` can be made."),
        Err(why) => why,
    };
    let advice = "Allow user namespaces to this user, or start the server as root; functions can \
                  run without it at level `reduced` only, if that is chosen";
    let reduced = match try_jail(&launcher, JailLevel::Reduced) {
        Ok(()) => format!(
            "`reduced` can be made; it lacks: {}",
            JailLevel::Reduced.lacks().join("; ")
        ),
        Err(why) => format!("none of level `reduced` either: {why}"),
    };
    let found = format!("No jail of level `full` can be made: {full}. {reduced}.");
    Finding::warning(CHECK, found, advice)
}

/// Looks for the interpreters on the search path.
pub fn runtimes(search_path: &OsStr) -> Finding {
    const CHECK: &str = "runtimes";
    let runtimes = InstalledRuntimes::find(search_path, &[]);
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
