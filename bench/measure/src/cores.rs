//! Which cores a program may use.

use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores, by the kernel's numbers; never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// Those that this program may use.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn all() -> Result<Cores> {
        Cores::read(None)
    }

    /// Those that a process may use; without one, this program.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn read(process: Option<Pid>) -> Result<Cores> {
        let set = sched_getaffinity(process).context("which cores are there?")?;
        let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
        Ok(Cores(cores.collect()))
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The first `count` of them.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn first(&self, count: usize) -> Result<Cores> {
        ensure!(
            (1..=self.count()).contains(&count),
            "{count} cores are wanted, this program may use {}",
            self.count()
        );
        Ok(Cores(self.0[..count].to_vec()))
    }

    /// The last one alone.
    #[must_use]
    pub fn last(&self) -> Cores {
        Cores(self.0.last().copied().into_iter().collect())
    }

    /// These and the `others`.
    #[must_use]
    pub fn and(&self, others: &Cores) -> Cores {
        let mut both = [self.0.as_slice(), &others.0].concat();
        both.sort_unstable();
        both.dedup();
        Cores(both)
    }

    /// All but `others`; all when that leaves none.
    #[must_use]
    pub fn beside(&self, others: &Cores) -> Cores {
        let free = self.0.iter().filter(|core| !others.0.contains(core));
        let free: Vec<usize> = free.copied().collect();
        if free.is_empty() {
            self.clone()
        } else {
            Cores(free)
        }
    }

    /// As the kernel takes them.
    pub(crate) fn set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for core in &self.0 {
            set.set(*core);
        }
        set
    }

    /// Starts a program that may use these alone, with every thread it makes.
    ///
    /// # Errors
    /// When it does not start, or the kernel refuses.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        // A child begins with the cores of the thread that makes it, so that nothing of it ever
        // runs elsewhere. The thread ends, and its own cores with it.
        let spawned = std::thread::scope(|scope| {
            let thread = scope.spawn(|| -> Result<Child> {
                sched_setaffinity(None, &self.set()).context("the kernel refuses these cores")?;
                Ok(command.spawn()?)
            });
            thread.join()
        });
        let spawned = spawned.map_err(|_| anyhow::anyhow!("the thread has panicked"))?;
        spawned.with_context(|| format!("{program} does not start"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_child_runs_on_its_cores_and_this_program_on_all_as_before() {
        let all = Cores::all().unwrap();
        let one = all.first(1).unwrap();
        let mut command = Command::new("cat");
        command.arg("/proc/self/status").stdout(Stdio::piped());
        let child = one.spawn(&mut command).unwrap();
        let output = child.wait_with_output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list"));
        let wanted = format!("Cpus_allowed_list:\t{}", one.0[0]);
        assert_eq!(line, Some(wanted.as_str()));
        assert_eq!(Cores::all().unwrap(), all);
    }

    #[test]
    fn the_generator_gets_what_the_server_leaves_or_shares_all() {
        let all = Cores(vec![0, 1, 4]);
        assert_eq!(all.beside(&Cores(vec![0])), Cores(vec![1, 4]));
        assert_eq!(all.beside(&all), all);
        assert_eq!(all.first(2).unwrap(), Cores(vec![0, 1]));
        assert_eq!(all.last(), Cores(vec![4]));
        assert_eq!(all.last().and(&Cores(vec![0])), Cores(vec![0, 4]));
        for count in [0, 4] {
            let error = all.first(count).unwrap_err().to_string();
            assert!(error.contains("this program may use 3"), "{error}");
        }
    }
}
