//! Functions: users' code that runs beside the data, as far as the catalogue knows of it.

use crate::actor::Scope;
use crate::id::{DeploymentId, FunctionId, ProjectId};
use crate::permission::Role;
use crate::time::Timestamp;

/// Longest run of an execution in seconds (wire protocol, functions).
pub const FUNCTION_TIMEOUT_S_MAX: u32 = 900;
/// The same, where none is asked for.
pub const FUNCTION_TIMEOUT_S_DEFAULT: u32 = 15;
/// The specification of builds and runs where none is asked for.
pub const SPECIFICATION_DEFAULT: &str = "s-0.5vcpu-512mb";

/// Most executions that one process has in work at once.
pub const CONCURRENCY_MAX: u64 = 256;
/// Most records of executions that a function keeps.
pub const RECORDS_MAX: u64 = 10_000_000;
/// Most days for which it keeps them: ten years.
pub const RECORDS_DAYS_MAX: u64 = 3_650;
/// The least that their bytes can be bounded to: a mebibyte.
pub const RECORDS_BYTES_MIN: u64 = 1 << 20;
/// The most: a tebibyte.
pub const RECORDS_BYTES_MAX: u64 = 1 << 40;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The project it belongs to.
    pub project: ProjectId,
    /// The function's id.
    pub id: FunctionId,
    /// Position in the order of creation, over all projects. Never given twice: what belongs to the
    /// function is stored under it.
    pub seq: i64,
    /// When it was created.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// What its owner decides.
    pub definition: FunctionDefinition,
    /// The deployment that is executed, if any.
    pub active: Option<ActiveDeployment>,
}

/// The deployment of a function that is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveDeployment {
    /// Its id.
    pub id: DeploymentId,
    /// Position in the order of creation, over all functions.
    pub seq: i64,
    /// When it was created.
    pub created: Timestamp,
}

/// What the owner of a function decides about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDefinition {
    /// What people call it.
    pub name: String,
    /// The runtime's id, such as `node-20.0`.
    pub runtime: String,
    /// Who may execute it.
    pub execute: Vec<Role>,
    /// Patterns of the events that execute it.
    pub events: Vec<String>,
    /// When it is executed by the clock: a cron expression in UTC; empty for never.
    pub schedule: String,
    /// Longest run of an execution, in seconds.
    pub timeout_s: u32,
    /// Whether callers without a key see it.
    pub enabled: bool,
    /// Whether what it logs is kept.
    pub logging: bool,
    /// The file whose handler is called; empty where deployments name it.
    pub entrypoint: String,
    /// What builds a deployment; empty for nothing.
    pub commands: String,
    /// What its executions may call.
    pub scopes: Vec<Scope>,
    /// Processors and memory of a build.
    pub build_specification: String,
    /// Processors and memory of its processes.
    pub runtime_specification: String,
    /// After how many days deployments that are not active go; 0 keeps them.
    pub deployment_retention_days: u32,
    /// What the protocol has no word for.
    pub options: FunctionOptions,
}

/// What a function's owner decides beyond the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionOptions {
    /// Most executions that one process has in work at once.
    pub concurrency: u32,
    /// Which addresses its executions reach.
    pub network: FunctionNetwork,
    /// Most records of executions that are kept.
    pub records_max: u32,
    /// For how many days they are kept.
    pub records_days: u32,
    /// Most bytes of them.
    pub records_bytes_max: u64,
}

/// Which addresses the executions of a function reach, beside the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionNetwork {
    /// None.
    None,
    /// Public ones.
    Outside,
}

impl FunctionNetwork {
    /// The word on the wire and on the disk.
    pub fn as_str(self) -> &'static str {
        match self {
            FunctionNetwork::None => "none",
            FunctionNetwork::Outside => "outside",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<FunctionNetwork> {
        let all = [FunctionNetwork::None, FunctionNetwork::Outside];
        all.into_iter().find(|network| network.as_str() == text)
    }
}

impl Default for FunctionOptions {
    fn default() -> FunctionOptions {
        FunctionOptions {
            concurrency: 32,
            network: FunctionNetwork::None,
            records_max: 100_000,
            records_days: 14,
            records_bytes_max: 256 << 20,
        }
    }
}

impl FunctionDefinition {
    /// A function of which no more is said.
    pub fn new(name: String, runtime: String) -> FunctionDefinition {
        FunctionDefinition {
            name,
            runtime,
            execute: Vec::new(),
            events: Vec::new(),
            schedule: String::new(),
            timeout_s: FUNCTION_TIMEOUT_S_DEFAULT,
            enabled: true,
            logging: true,
            entrypoint: String::new(),
            commands: String::new(),
            scopes: Vec::new(),
            build_specification: SPECIFICATION_DEFAULT.to_owned(),
            runtime_specification: SPECIFICATION_DEFAULT.to_owned(),
            deployment_retention_days: 0,
            options: FunctionOptions::default(),
        }
    }
}

/// A change of a function; `None` keeps.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each field is named like the one it sets")]
pub struct FunctionChange {
    pub name: Option<String>,
    pub runtime: Option<String>,
    pub execute: Option<Vec<Role>>,
    pub events: Option<Vec<String>>,
    pub schedule: Option<String>,
    pub timeout_s: Option<u32>,
    pub enabled: Option<bool>,
    pub logging: Option<bool>,
    pub entrypoint: Option<String>,
    pub commands: Option<String>,
    pub scopes: Option<Vec<Scope>>,
    pub build_specification: Option<String>,
    pub runtime_specification: Option<String>,
    pub deployment_retention_days: Option<u32>,
    pub options: Option<FunctionOptionsChange>,
}

/// A change of what a function's owner decides beyond the protocol; `None` keeps.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "each field is named like the one it sets")]
pub struct FunctionOptionsChange {
    pub concurrency: Option<u32>,
    pub network: Option<FunctionNetwork>,
    pub records_max: Option<u32>,
    pub records_days: Option<u32>,
    pub records_bytes_max: Option<u64>,
}

/// Puts what is given in the place of what was.
fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

impl FunctionChange {
    /// Changes `definition` so.
    pub fn apply(self, definition: &mut FunctionDefinition) {
        set(&mut definition.name, self.name);
        set(&mut definition.runtime, self.runtime);
        set(&mut definition.execute, self.execute);
        set(&mut definition.events, self.events);
        set(&mut definition.schedule, self.schedule);
        set(&mut definition.timeout_s, self.timeout_s);
        set(&mut definition.enabled, self.enabled);
        set(&mut definition.logging, self.logging);
        set(&mut definition.entrypoint, self.entrypoint);
        set(&mut definition.commands, self.commands);
        set(&mut definition.scopes, self.scopes);
        set(
            &mut definition.build_specification,
            self.build_specification,
        );
        set(
            &mut definition.runtime_specification,
            self.runtime_specification,
        );
        set(
            &mut definition.deployment_retention_days,
            self.deployment_retention_days,
        );
        if let Some(change) = self.options {
            let options = &mut definition.options;
            set(&mut options.concurrency, change.concurrency);
            set(&mut options.network, change.network);
            set(&mut options.records_max, change.records_max);
            set(&mut options.records_days, change.records_days);
            set(&mut options.records_bytes_max, change.records_bytes_max);
        }
    }
}
