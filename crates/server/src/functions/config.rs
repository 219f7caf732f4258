//! What executing functions needs to know.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use functions::FunctionIsolation;
use functions::outside::OutsideNetwork;

use super::records::RecordsDurability;

/// Where functions reach the API (wire protocol, handler contract).
pub const API: &str = "http://127.0.0.1:8280/v1";

/// How to execute functions. No limit has a default here: the caller decides.
#[derive(Clone, Debug)]
pub struct FunctionsConfig {
    /// A folder of its own, in which nothing is kept beyond the end of a server.
    pub folder: PathBuf,
    /// What shuts processes in.
    pub isolation: FunctionIsolation,
    /// A program whose command `jail` calls [`functions::jail::enter`], for builds.
    pub launcher: PathBuf,
    /// Where interpreters are looked for, as `PATH` holds it.
    pub search_path: OsString,
    /// Further ones: pairs of an id, such as `node-22`, and a program.
    pub runtimes: Vec<(String, PathBuf)>,
    /// Processes of one deployment.
    pub processes_max: usize,
    /// What the memory limits of all processes together may be.
    pub memory_max_mib: u64,
    /// A process without a request ends after this time.
    pub idle_max: Duration,
    /// A spare process ends this long after the last request; with zero none is kept.
    pub spare_idle_max: Duration,
    /// What functions and builds with a network reach besides public addresses.
    pub outside: OutsideNetwork,
    /// Variables that commands of builds find besides those of their function, which come first.
    pub build_variables: Vec<(String, String)>,
    /// When a caller learns of an execution.
    pub records: RecordsDurability,
}
