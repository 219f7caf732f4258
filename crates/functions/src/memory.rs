//! What a process and its descendants hold.

use std::fs;

/// Processes of one tree that are looked at; a jail lets fewer be started.
const PROCESSES_MAX: usize = 256;

/// Resident bytes of a process and all that descend from it; what they share counts for each.
/// Zero for a process that has ended.
pub fn resident_bytes(pid: u32) -> u64 {
    let page = rustix::param::page_size() as u64;
    let mut waiting = vec![pid];
    let (mut pages, mut seen) = (0, 0);
    while let Some(pid) = waiting.pop() {
        seen += 1;
        if seen > PROCESSES_MAX {
            break;
        }
        // Second number of proc_pid_statm(5).
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let resident = statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok());
        pages += resident.unwrap_or_default();
        waiting.extend(children(pid));
    }
    pages * page
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

    #[test]
    fn resident_bytes_count_descendants() {
        let own = resident_bytes(std::process::id());
        assert!(own > 100_000, "{own}");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let alone = resident_bytes(child.id());
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alone > 0);
        assert_eq!(resident_bytes(child.id()), 0);
    }
}
