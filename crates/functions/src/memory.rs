//! What a process and its descendants hold.

use std::fs;
use std::time::{Duration, Instant};

/// Processes of one tree that are looked at; a jail lets fewer be started.
const PROCESSES_MAX: usize = 256;

/// To count each page once takes the kernel long, and a jail may have 64 processes, looked at ten
/// times a second (`docs/decisions/0043`). Where all hold little together, it is done this often.
const EXACT_AGAIN: Duration = Duration::from_millis(500);

/// What was seen of one tree of processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryLook {
    exact: Option<ExactLook>,
}

#[derive(Clone, Copy, Debug)]
struct ExactLook {
    resident: u64,
    bytes: u64,
    at: Instant,
}

impl MemoryLook {
    /// What all that descend from a process in this many generations or more hold; with 0, it
    /// counts itself. Zero for a process that has ended.
    ///
    /// Pages that several of them share count for each, which is quick to read. Where that is more
    /// than `exact_above` bytes, each page counts once.
    pub fn held_bytes(&mut self, pid: u32, depth: usize, exact_above: u64) -> u64 {
        let pids = descendants(pid, depth);
        let page = rustix::param::page_size() as u64;
        let resident = pids.iter().map(|pid| resident_pages(*pid)).sum::<u64>() * page;
        if resident <= exact_above {
            return resident;
        }
        let exact = |pid: &u32| {
            let resident = || resident_pages(*pid) * page;
            proportional_bytes(*pid).unwrap_or_else(resident)
        };
        let now = Instant::now();
        self.exact((resident, exact_above), now, || {
            pids.iter().map(exact).sum()
        })
    }

    /// What `look` says, or what it said last and the growth since, as long as that is little. Not
    /// for long: what is shared becomes each one's own without a growth of the sum.
    fn exact(
        &mut self,
        (resident, exact_above): (u64, u64),
        now: Instant,
        look: impl FnOnce() -> u64,
    ) -> u64 {
        if let Some(last) = self.exact {
            let grown = last.bytes + resident.saturating_sub(last.resident);
            let age = now.saturating_duration_since(last.at);
            if grown <= exact_above && age < EXACT_AGAIN {
                return grown;
            }
        }
        let (bytes, at) = (look(), now);
        self.exact = Some(ExactLook {
            resident,
            bytes,
            at,
        });
        bytes
    }
}

fn descendants(pid: u32, depth: usize) -> Vec<u32> {
    let mut waiting = vec![(pid, 0)];
    let (mut pids, mut seen) = (Vec::new(), 0);
    while let Some((pid, generation)) = waiting.pop() {
        seen += 1;
        if seen > PROCESSES_MAX {
            break;
        }
        if generation >= depth {
            pids.push(pid);
        }
        waiting.extend(
            children(pid)
                .into_iter()
                .map(|child| (child, generation + 1)),
        );
    }
    pids
}

/// Second number of proc_pid_statm(5).
fn resident_pages(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let resident = statm.split(' ').nth(1);
    let resident = resident.and_then(|pages| pages.parse().ok());
    resident.unwrap_or_default()
}

/// `Pss` of proc_pid_smaps(5); `None` where this user may not read it.
fn proportional_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Children are listed for the thread that started them.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists = threads.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = lists.flat_map(|list| {
        let words = list.split_whitespace().map(|word| word.parse().ok());
        words.collect::<Vec<Option<u32>>>()
    });
    numbers.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_bytes(pid: u32, depth: usize, exact_above: u64) -> u64 {
        MemoryLook::default().held_bytes(pid, depth, exact_above)
    }

    #[test]
    fn held_bytes_count_descendants() {
        let own = std::process::id();
        assert!(held_bytes(own, 0, u64::MAX) > 100_000);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(descendants(own, 1).contains(&child.id()));
        // In this order: a program that starts holds ever more.
        let exact = held_bytes(child.id(), 0, 0);
        let resident = held_bytes(child.id(), 0, u64::MAX);
        assert!(0 < exact && exact <= resident, "{exact} {resident}");
        assert_eq!(held_bytes(child.id(), 1, 0), 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(held_bytes(child.id(), 0, 0), 0);
    }

    #[test]
    fn pages_are_counted_once_again_where_that_says_more() {
        let (mut seen, mut now) = (MemoryLook::default(), Instant::now());
        let mut look = |resident, bytes, after_ms| {
            now += Duration::from_millis(after_ms);
            let mut was_looked = false;
            let held = seen.exact((resident, 500), now, || {
                was_looked = true;
                bytes
            });
            (held, was_looked)
        };
        assert_eq!(look(1_000, 100, 0), (100, true), "nothing is known");
        assert_eq!(look(1_000, 999, 100), (100, false), "as before");
        assert_eq!(
            look(1_300, 999, 100),
            (400, false),
            "no more than it has grown"
        );
        assert_eq!(look(1_401, 200, 100), (200, true), "it may be much");
        assert_eq!(
            look(1_401, 600, 500),
            (600, true),
            "pages may be shared no more"
        );
        assert_eq!(look(1_401, 610, 100), (610, true), "near its limit");
        assert_eq!(look(1_400, 300, 100), (300, true));
        assert_eq!(look(900, 999, 100), (300, false), "some have ended");
    }
}
