//! The machine: its port, its limits, its kernel.

use std::fs;
use std::net::TcpListener;

use engine::Inspection;
use model::counted;
use rustix::process::{Resource, getrlimit};
use server::http::wire::WIRE_VERSION;

use super::holder;
use super::{Finding, Patient};

/// Files that a server holds open beside its connections: the database and its log once for
/// each thread that reads, sockets, the log; with room.
const FILES_BESIDE: u64 = 256;

/// The port a server would listen on.
pub fn port(patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "port";
    let listen = patient.setup.http.listen;
    match TcpListener::bind(listen) {
        Ok(_) => Finding::good(CHECK, format!("{listen} is free.")),
        Err(error) => {
            let server = holder::of_lock(patient.directory);
            let holder = holder::of_port(listen.port());
            if holder.is_some() && holder == server {
                return Finding::good(CHECK, format!("{listen} is held by this server."));
            }
            let who = holder.map_or(String::new(), |who| format!(" {who} listens there."));
            Finding::bad(
                CHECK,
                format!("{listen} cannot be listened on: {error}.{who}"),
                "Stop that program, or choose another address with --listen",
            )
        }
    }
}

/// The limit of open files against the limit of connections.
pub fn open_files(connections_max: usize) -> Finding {
    judge_files(getrlimit(Resource::Nofile).current, connections_max as u64)
}

fn judge_files(files: Option<u64>, connections_max: u64) -> Finding {
    const CHECK: &str = "open files";
    let wanted = connections_max + FILES_BESIDE;
    match files {
        Some(files) if files < wanted => Finding::warning(
            CHECK,
            format!(
                "This shell allows {}; {} and the database need {wanted}.",
                counted(files, "open file"),
                counted(connections_max, "connection")
            ),
            format!(
                "Raise it for the server: `ulimit -n {wanted}`, or LimitNOFILE={wanted} in its \
                 unit. Until then connections beyond it wait"
            ),
        ),
        Some(files) => Finding::good(
            CHECK,
            format!(
                "{files} are allowed, enough for {}.",
                counted(connections_max, "connection")
            ),
        ),
        None => Finding::good(CHECK, "There is no limit."),
    }
}

/// What the kernel offers to isolate functions.
pub fn kernel() -> Finding {
    let known = rustix::system::uname();
    let name = known.sysname().to_string_lossy().into_owned();
    let release = known.release().to_string_lossy().into_owned();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let has = |truth: bool| if truth { "yes" } else { "no" };
    // Containers and small systems do not mount it: then the finding on jails is what counts.
    let landlock = match fs::read_to_string("/sys/kernel/security/lsm") {
        Ok(modules) => has(modules.contains("landlock")),
        Err(_) => "not shown here",
    };
    let seccomp = read("/proc/self/status").contains("\nSeccomp:");
    let namespaces = read("/proc/sys/user/max_user_namespaces");
    let namespaces = namespaces.trim().parse::<u64>().is_ok_and(|max| max > 0);
    Finding::good(
        "kernel",
        format!(
            "{name} {release}; landlock {}, seccomp {}, user namespaces {}.",
            landlock,
            has(seccomp),
            has(namespaces)
        ),
    )
}

/// What this binary is made of.
pub fn versions() -> Finding {
    Finding::good(
        "versions",
        format!(
            "Tidemark {}, protocol {WIRE_VERSION}, {}.",
            env!("CARGO_PKG_VERSION"),
            Inspection::database()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Health;

    #[test]
    fn open_files_are_held_against_connections() {
        let health = |files| judge_files(files, 10_000).health;
        assert_eq!(health(Some(1_024)), Health::Warning);
        assert_eq!(health(Some(10_255)), Health::Warning);
        assert_eq!(health(Some(10_256)), Health::Good);
        assert_eq!(health(None), Health::Good);
        let advice = judge_files(Some(1_024), 10_000).advice.unwrap();
        assert!(advice.contains("ulimit -n 10256"), "{advice}");
    }
}
