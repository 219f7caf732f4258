//! Which process holds a port or a lock, as far as Linux tells this user.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The state of a socket that listens, in `/proc/net/tcp` (Linux, `proc(5)`).
const LISTENING: &str = "0A";

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    id: u32,
    name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process {} ({})", self.id, self.name)
    }
}

impl Holder {
    fn new(id: u32) -> Holder {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        Holder {
            id,
            name: match name.trim() {
                "" => "unknown".to_owned(),
                name => name.to_owned(),
            },
        }
    }
}

/// Who listens on a port of this machine; `None` when no process does, or the system does not say.
pub fn of_port(port: u16) -> Option<Holder> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.into_iter()
        .find(|id| holds_one_of(*id, &sockets))
        .map(Holder::new)
}

/// The inodes of sockets that listen on `port`, from a table of `/proc/net`.
fn listening(table: &str, port: u16) -> Vec<String> {
    let local_end = format!(":{port:04X}");
    let rows = table.lines().skip(1).filter_map(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        (local.ends_with(&local_end) && *state == LISTENING).then(|| format!("socket:[{inode}]"))
    });
    rows.collect()
}

fn holds_one_of(id: u32, sockets: &[String]) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{id}/fd")) else {
        return false;
    };
    let mut targets = files
        .filter_map(Result::ok)
        .filter_map(|file| fs::read_link(file.path()).ok());
    targets.any(|target| {
        sockets
            .iter()
            .any(|socket| target.as_os_str() == socket.as_str())
    })
}

/// Who holds the lock of a file, or of a directory; `None` when no process does, or the system does
/// not say.
pub fn of_lock(file: &Path) -> Option<Holder> {
    let inode = fs::metadata(file).ok()?.ino();
    let table = fs::read_to_string("/proc/locks").ok()?;
    locking(&table, inode).map(Holder::new)
}

/// The process that holds a whole-file lock on the inode, from `/proc/locks`.
fn locking(table: &str, inode: u64) -> Option<u32> {
    let end = format!(":{inode}");
    table.lines().find_map(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let (kind, process, file) = (fields.get(1)?, fields.get(4)?, fields.get(5)?);
        (*kind == "FLOCK" && file.ends_with(&end)).then(|| process.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_kernel_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                     uid  timeout inode\n   0: 0100007F:2058 00000000:0000 0A 00000000:00000000 \
                     00:00000000 00000000  1000        0 4242 1\n   1: 0100007F:2058 0100007F:9999 \
                     01 00000000:00000000 00:00000000 00000000  1000        0 4243 1\n";
        assert_eq!(listening(table, 8_280), ["socket:[4242]"]);
        assert!(listening(table, 8_281).is_empty());
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 9 08:01:131 0 EOF\n";
        assert_eq!(locking(locks, 131), Some(9));
        assert_eq!(locking(locks, 31), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn own_process_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let holder = of_port(port).unwrap();
        assert_eq!(holder.id, std::process::id());
        drop(listener);
        assert_eq!(of_port(port), None);
    }
}
