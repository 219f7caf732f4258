//! What the system says of this process. Where it says nothing, nothing is reported.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// This process as it is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// Processor time of all its threads together, in seconds.
    pub cpu_s: f64,
    /// What only Linux tells without asking another program.
    pub memory: Option<Memory>,
    /// Open files, and sockets, which are files, too.
    pub open_files: Option<usize>,
    /// Most that it may open; `None` where there is no limit.
    pub open_files_max: Option<u64>,
}

/// Memory and threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in memory.
    pub resident_bytes: u64,
    /// Bytes of addresses in use.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
}

/// Looks.
pub fn look() -> Process {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let status = fs::read_to_string("/proc/self/status").ok();
    Process {
        cpu_s: used.tv_sec as f64 + used.tv_nsec as f64 / 1e9,
        memory: status.as_deref().and_then(memory),
        open_files: open_files(),
        open_files_max: getrlimit(Resource::Nofile).current,
    }
}

/// Linux tells the number as the size of the directory since 6.2 (`proc_pid_fd(5)`). Before, the
/// directory is counted, which takes some microseconds a file.
fn open_files() -> Option<usize> {
    const DIRECTORY: &str = "/proc/self/fd";
    let size = fs::metadata(DIRECTORY).ok()?.len() as usize;
    if size > 0 {
        return Some(size);
    }
    // Reading the directory opens one more.
    let files = fs::read_dir(DIRECTORY).ok()?;
    Some(files.count().saturating_sub(1))
}

/// Reads `/proc/self/status` (Linux, `proc_pid_status(5)`).
fn memory(status: &str) -> Option<Memory> {
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Memory {
        resident_bytes: field("VmRSS:")? * 1_024,
        virtual_bytes: field("VmSize:")? * 1_024,
        threads: field("Threads:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let status = "Name:\ttidemark\nVmSize:\t  2048 kB\nVmRSS:\t    1024 kB\nThreads:\t7\n";
        let wanted = Memory {
            resident_bytes: 1 << 20,
            virtual_bytes: 2 << 20,
            threads: 7,
        };
        assert_eq!(memory(status), Some(wanted));
        assert_eq!(memory("VmRSS:\t1 kB\n"), None);
        assert_eq!(memory(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn process_metrics_are_read() {
        let process = look();
        let memory = process.memory.unwrap();
        assert!(memory.resident_bytes > 1 << 20 && memory.threads > 1);
        assert!(process.open_files.unwrap() > 2 && process.cpu_s >= 0.0);
    }
}
