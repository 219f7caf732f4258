//! How many files and connections the system lets this process hold open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside connections: the database with its log, for each thread that reads; sockets and
/// logs of our own.
const FILES_BESIDE: u64 = 512;

/// Raises the process's own limit as far as it may, up to what so many connections need. Systems
/// start programs with room for 1,024 files, and allow them far more.
pub fn make_room(connections_max: usize) {
    let needed = connections_max as u64 + FILES_BESIDE;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        Err(_) => current.unwrap_or(wanted),
    };
    if allowed < needed {
        tracing::warn!(
            allowed,
            needed,
            connections_max,
            "the system allows fewer open files than connections need: raise `ulimit -n`, or \
             lower --connections-max"
        );
    }
}
