//! Processor time of whatever works for an answer: the processes that are measured, and apart from
//! them those of a database's server.

use std::fs;
use std::path::Path;

use anyhow::Result;
use percent_encoding::percent_decode_str;

use crate::cores::Cores;
use crate::process::ProcessNumber;

/// What costs are notes of, in microseconds for each operation: of everything together, of the
/// measured processes, and of the database's.
pub const PROCESSOR: &str = "CPU µs";
/// Without the database's.
pub const NODE: &str = "node CPU µs";
/// The database's alone.
pub const BACKENDS: &str = "backends CPU µs";

/// All processes of a database's server on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Backends(ProcessNumber);

/// Those that may use some cores alone, until this is dropped.
pub struct BoundBackends {
    backends: Backends,
    before: Cores,
}

/// What is counted.
#[derive(Clone, Debug)]
pub struct Costs {
    processes: Vec<ProcessNumber>,
    backends: Option<Backends>,
}

/// Processor time, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Of the measured processes.
    pub node_us: f64,
    /// Of the database's, where they can be counted.
    pub backends_us: Option<f64>,
}

/// Counts from its beginning on.
pub struct CostMeter<'a> {
    costs: &'a Costs,
    before: Spent,
}

impl Backends {
    /// Those of the server whose Unix socket the URL names; `None` where it names none, or the
    /// server's number may not be read.
    pub fn of(url: &str) -> Option<Backends> {
        let (_, parameters) = url.split_once('?')?;
        let value = |name: &str| {
            let mut pairs = parameters
                .split('&')
                .filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(key, value)| (key == name).then(|| decoded(value)))
        };
        let (folder, port) = (value("host")?, value("port"));
        let port = port.as_deref().unwrap_or("5432");
        let lock = Path::new(&folder).join(format!(".s.PGSQL.{port}.lock"));
        // Its first line is the number of the process that all others descend from.
        let text = fs::read_to_string(lock).ok()?;
        let number = text.lines().next()?.trim().parse().ok()?;
        Some(Backends(ProcessNumber(number)))
    }

    /// Processor time that they have used so far, in microseconds.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn used_us(self) -> Result<f64> {
        self.0.tree_cpu_us()
    }

    /// Lets them use these cores alone, and every one that comes.
    ///
    /// # Errors
    /// When the kernel refuses, as it does for another user's processes.
    pub fn bind(self, cores: &Cores) -> Result<BoundBackends> {
        // Dropped where one refuses, and those before it have their cores again.
        let bound = BoundBackends {
            backends: self,
            before: self.0.cores()?,
        };
        self.allow(cores)?;
        Ok(bound)
    }

    fn allow(self, cores: &Cores) -> Result<()> {
        // Whatever the first one starts from here on begins with its cores.
        self.0.bind(cores)?;
        let mut all = self.0.tree()?.into_iter();
        all.try_for_each(|process| process.bind(cores))
    }
}

impl Drop for BoundBackends {
    fn drop(&mut self) {
        let Backends(first) = self.backends;
        // A process that has ended is bound to nothing.
        drop(first.bind(&self.before));
        for process in first.tree().into_iter().flatten() {
            drop(process.bind(&self.before));
        }
    }
}

impl Costs {
    /// Those of these processes alone.
    pub fn of(processes: Vec<ProcessNumber>) -> Costs {
        let backends = None;
        Costs {
            processes,
            backends,
        }
    }

    /// The same, and those of a database where they can be counted.
    #[must_use]
    pub fn beside(self, backends: Option<Backends>) -> Costs {
        Costs { backends, ..self }
    }

    /// Begins to count.
    ///
    /// # Errors
    /// When a process is gone.
    pub fn begin(&self) -> Result<CostMeter<'_>> {
        Ok(CostMeter {
            costs: self,
            before: self.used()?,
        })
    }

    fn used(&self) -> Result<Spent> {
        let own = self.processes.iter().map(|process| process.cpu_us());
        let backends = self.backends.map(Backends::used_us);
        Ok(Spent {
            node_us: own.sum::<Result<f64>>()?,
            backends_us: backends.transpose()?,
        })
    }
}

impl CostMeter<'_> {
    /// What has come together so far.
    ///
    /// # Errors
    /// When a process is gone.
    pub fn spent(&self) -> Result<Spent> {
        let (now, before) = (self.costs.used()?, self.before);
        let backends = now.backends_us.zip(before.backends_us);
        Ok(Spent {
            node_us: now.node_us - before.node_us,
            backends_us: backends.map(|(now, before)| now - before),
        })
    }

    /// The same for each of so many operations, as notes.
    ///
    /// # Errors
    /// When a process is gone.
    pub fn each(&self, operations: f64) -> Result<Vec<(&'static str, f64)>> {
        Ok(self.spent()?.each(operations))
    }
}

impl Spent {
    /// Both, one after the other.
    #[must_use]
    pub fn and(self, other: Spent) -> Spent {
        let both = self.backends_us.zip(other.backends_us);
        let either = self.backends_us.or(other.backends_us);
        Spent {
            node_us: self.node_us + other.node_us,
            backends_us: both.map(|(one, other)| one + other).or(either),
        }
    }

    /// For each of so many operations, as notes.
    pub fn each(self, operations: f64) -> Vec<(&'static str, f64)> {
        let node = self.node_us / operations;
        let Some(backends_us) = self.backends_us else {
            return vec![(PROCESSOR, node)];
        };
        let backends = backends_us / operations;
        vec![
            (PROCESSOR, node + backends),
            (NODE, node),
            (BACKENDS, backends),
        ]
    }
}

fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::process::ChildProgram;

    #[test]
    fn a_server_is_found_by_the_lock_of_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join(".s.PGSQL.5499.lock");
        fs::write(lock, "4711\n/data\n").unwrap();
        let host = folder.path().display().to_string().replace('/', "%2F");
        let url = format!("postgres://u@/d?host={host}&port=5499&schema=s");
        assert_eq!(Backends::of(&url).unwrap().0.0, 4711);
        for url in [
            format!("postgres://u@/d?host={host}"),
            "postgres://u@localhost/d".to_owned(),
        ] {
            assert!(Backends::of(&url).is_none(), "{url}");
        }
        assert_eq!(decoded("%2Ftmp%2fx%zz%"), "/tmp/x%zz%");
    }

    #[test]
    fn bound_backends_have_their_cores_back_in_the_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; true"]).stdin(Stdio::piped());
        let server = ChildProgram::spawn(&mut command, None).unwrap();
        let (first, all) = (server.process(), Cores::all().unwrap());
        while first.tree().unwrap().len() < 2 {
            std::thread::yield_now();
        }
        let tree = first.tree().unwrap();
        let are_all_on = |cores: &Cores| {
            let mut each = tree.iter().map(|process| process.cores().unwrap());
            each.all(|one| one == *cores)
        };
        let bound = Backends(first).bind(&all.last()).unwrap();
        assert!(are_all_on(&all.last()));
        drop(bound);
        assert!(are_all_on(&all));
    }

    #[test]
    fn costs_of_a_database_stand_beside_those_of_the_node() {
        let own = ProcessNumber(std::process::id());
        let alone = Costs::of(vec![own]);
        let names = |costs: &Costs| -> Vec<&str> {
            let notes = costs.begin().unwrap().each(1.0).unwrap();
            notes.iter().map(|(name, _)| *name).collect()
        };
        assert_eq!(names(&alone), [PROCESSOR]);
        let both = alone.beside(Some(Backends(own)));
        assert_eq!(names(&both), [PROCESSOR, NODE, BACKENDS]);
    }
}
