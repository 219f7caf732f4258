//! How functions are executed, as typed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use functions::FunctionIsolation;
use functions::jail::JailLevel;
use functions::outside::OutsideNetwork;
use functions::outside::address_law::AddressRange;
use server::functions::{FunctionsConfig, RecordsDurability};
use server::serve::cores;

use super::limits::within;
use super::{search_path, set_variables};

/// The folder of the data directory in which functions run.
const FOLDER: &str = "functions";
/// Fewest processes that a function may have, on a machine with one core too.
const PROCESSES_MIN: usize = 2;
const MIB: u64 = 1 << 20;
/// The most that an archive may be set to: what one unpacks to (wire protocol, builds).
pub const ARCHIVE_BYTES_MAX: usize = 250_000_000;

/// Functions; without a usable jail or interpreter they are refused, and all else is served.
#[derive(Args)]
#[command(next_help_heading = "Functions")]
pub struct FunctionArgs {
    /// Whether deployments are built and functions executed
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS",
        value_enum,
        value_name = "on|off",
        default_value = "on"
    )]
    functions: SwitchArg,
    /// What shuts functions in: full, or reduced on a machine without user namespaces
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS_ISOLATION",
        value_enum,
        value_name = "LEVEL",
        default_value = "full"
    )]
    functions_isolation: IsolationArg,
    /// Interpreters besides `node` and `python3` on the search path, as node-22=/path/to/node
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS_RUNTIMES",
        value_name = "ID=PATH,…",
        value_delimiter = ','
    )]
    #[arg(value_parser = named_runtime)]
    functions_runtimes: Vec<NamedRuntime>,
    /// Most processes of one function [default: one for each core, at least 2]
    #[arg(long, env = "TIDEMARK_FUNCTIONS_PROCESSES_MAX", value_name = "N")]
    #[arg(value_parser = value_parser!(u16).range(1..=1_024))]
    functions_processes_max: Option<u16>,
    /// What the memory limits of all processes together may be [default: half of the machine's]
    #[arg(long, env = "TIDEMARK_FUNCTIONS_MEMORY", value_name = "SIZE")]
    #[arg(value_parser = |text: &str| within(text, 64 * MIB, 1 << 50))]
    functions_memory: Option<usize>,
    /// Seconds without a request after which a process ends
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS_IDLE_S",
        value_name = "S",
        default_value_t = 60
    )]
    #[arg(value_parser = value_parser!(u64).range(1..=86_400))]
    functions_idle_s: u64,
    /// Seconds without a request after which the spare process of a slow function ends; 0 keeps
    /// none
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS_SPARE_S",
        value_name = "S",
        default_value_t = 600
    )]
    #[arg(value_parser = value_parser!(u64).range(0..=86_400))]
    functions_spare_s: u64,
    /// Most bytes of the archive of a deployment, 1KiB to 250 MB; 400 beyond
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS_SOURCE_MAX",
        value_name = "SIZE",
        default_value = "30000000"
    )]
    #[arg(value_parser = |text: &str| within(text, 1 << 10, ARCHIVE_BYTES_MAX as u64))]
    pub(super) functions_source_max: usize,
    /// Addresses besides public ones that functions and builds with a network reach, as 10.0.0.0/8
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS_ALLOW",
        value_name = "NET,…",
        value_delimiter = ','
    )]
    functions_allow: Vec<AddressRange>,
    /// Variables of this environment that commands of builds find, such as PIP_NO_INDEX
    #[arg(
        long,
        env = "TIDEMARK_FUNCTIONS_BUILD_ENV",
        value_name = "NAME,…",
        value_delimiter = ','
    )]
    #[arg(value_parser = build_variable)]
    functions_build_env: Vec<String>,
    /// The file with the key that seals variables of functions [default: secret.key in the data
    /// directory]
    #[arg(long, env = "TIDEMARK_SECRET_KEY_FILE", value_name = "PATH")]
    pub(super) secret_key_file: Option<PathBuf>,
    /// When a caller learns of an execution: behind, up to 50 ms before its record is kept, or
    /// durable
    #[arg(
        long,
        env = "TIDEMARK_EXECUTION_RECORDS",
        value_enum,
        value_name = "WHEN",
        default_value = "behind"
    )]
    execution_records: RecordsArg,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RecordsArg {
    /// At once: a crash may take the records of the last 50 ms
    Behind,
    /// When its record is durable
    Durable,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SwitchArg {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IsolationArg {
    /// Namespaces, a root of its own, landlock, seccomp, limits
    Full,
    /// Landlock, seccomp and limits; builds run no commands
    Reduced,
}

/// A runtime and the program that runs it.
#[derive(Clone, Debug)]
struct NamedRuntime {
    id: String,
    program: PathBuf,
}

fn named_runtime(text: &str) -> Result<NamedRuntime, String> {
    let named = text.split_once('=').filter(|(id, program)| {
        let is_legal = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        !id.is_empty() && id.chars().all(is_legal) && Path::new(program).is_absolute()
    });
    let (id, program) =
        named.ok_or("needed: an id and a path, such as node-22=/opt/node/bin/node")?;
    Ok(NamedRuntime {
        id: id.to_owned(),
        program: program.into(),
    })
}

/// The name of a variable that builds may see.
fn build_variable(text: &str) -> Result<String, String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if text.is_empty() || !text.chars().all(is_part) || text.starts_with(|c: char| c.is_numeric()) {
        return Err("needed: names of variables, of letters, digits and `_`".to_owned());
    }
    if text.starts_with("TIDEMARK_") {
        return Err("settings of this server, among them its keys, are not for builds".to_owned());
    }
    Ok(text.to_owned())
}

impl FunctionArgs {
    /// How functions are executed with this data directory, or why they are not.
    pub fn check(self, data: &Path, test_clock: bool) -> Result<FunctionsConfig, String> {
        if self.functions == SwitchArg::Off {
            return Err("functions are switched off by the setting `functions`".to_owned());
        }
        if test_clock {
            return Err("no functions are executed where requests set the clock".to_owned());
        }
        let launcher = std::env::current_exe();
        let launcher = launcher.map_err(|error| format!("this program is not found: {error}"))?;
        let memory_max = self.functions_memory.map(|bytes| bytes as u64);
        let runtimes = self.functions_runtimes.into_iter();
        Ok(FunctionsConfig {
            folder: absolute(data)?.join(FOLDER),
            isolation: FunctionIsolation::Jail {
                launcher: launcher.clone(),
                level: match self.functions_isolation {
                    IsolationArg::Full => JailLevel::Full,
                    IsolationArg::Reduced => JailLevel::Reduced,
                },
            },
            launcher,
            search_path: search_path(),
            runtimes: runtimes.map(|named| (named.id, named.program)).collect(),
            processes_max: self
                .functions_processes_max
                .map_or_else(|| cores().max(PROCESSES_MIN), usize::from),
            memory_max_mib: memory_max.unwrap_or_else(half_of_memory) / MIB,
            idle_max: Duration::from_secs(self.functions_idle_s),
            spare_idle_max: Duration::from_secs(self.functions_spare_s),
            outside: OutsideNetwork {
                allow: self.functions_allow,
                nameservers: Vec::new(),
            },
            build_variables: set_variables(self.functions_build_env),
            records: match self.execution_records {
                RecordsArg::Behind => RecordsDurability::Behind,
                RecordsArg::Durable => RecordsDurability::Durable,
            },
        })
    }
}

/// A launcher has another working directory.
fn absolute(data: &Path) -> Result<PathBuf, String> {
    std::path::absolute(data).map_err(|error| format!("the data directory has no path: {error}"))
}

fn half_of_memory() -> u64 {
    let about = rustix::system::sysinfo();
    about.totalram * u64::from(about.mem_unit) / 2
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        functions: FunctionArgs,
    }

    #[test]
    fn settings_of_functions_are_refused_by_name_kind_and_limit() {
        for (flag, value, words) in [
            ("functions", "maybe", "[possible values: on, off]"),
            ("functions-isolation", "none", "full, reduced"),
            ("functions-runtimes", "node-22", "an id and a path"),
            ("functions-runtimes", "node-22=bin/node", "an id and a path"),
            ("functions-processes-max", "0", "1..=1024"),
            ("functions-processes-max", "1025", "1..=1024"),
            ("functions-processes-max", "many", "invalid digit"),
            ("functions-memory", "1MiB", "from 67108864 to"),
            ("functions-memory", "a lot", "a size such as"),
            ("functions-idle-s", "0", "1..=86400"),
            ("functions-idle-s", "86401", "1..=86400"),
            ("functions-spare-s", "86401", "0..=86400"),
            ("functions-source-max", "1023", "from 1024 to 250000000"),
            ("functions-source-max", "250000001", "to 250000000 bytes"),
            ("functions-source-max", "-1", "a size such as"),
            ("functions-allow", "host", "addresses such as"),
            ("functions-allow", "10.0.0.0/33", "at most 32"),
            ("functions-allow", "10.0.0.1/8", "behind its first 8"),
            ("functions-build-env", "A B", "names of variables"),
            ("functions-build-env", "TIDEMARK_API_KEY", "not for builds"),
            ("execution-records", "later", "behind, durable"),
        ] {
            let typed = format!("--{flag}={value}");
            let refused = Only::try_parse_from(["serve", &typed]);
            let said = refused.err().map(|error| error.to_string());
            let said = said.unwrap_or_else(|| panic!("{typed} was taken"));
            let named = said.contains(&format!("--{flag}")) && said.contains(value);
            assert!(named && said.contains(words), "{typed}: {said}");
        }
        let none = Only::try_parse_from(["serve"]).map(|only| only.functions);
        assert_eq!(none.unwrap().functions_source_max, 30_000_000);
    }
}
