//! From the command line and the environment to one small checked struct per room.
//!
//! Two steps. What was typed stands in the `…Args` types, exactly as typed; `check` turns it into
//! what a room takes, with every default decided. Nothing else reads the environment.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use client::{Access, Endpoint};
use hyper::header::HeaderValue;
use model::ProjectId;

pub mod file;
mod limits;
mod port;
mod quotas;
mod serve;
mod size;
mod watch;

pub use port::{ExportArgs, ExportSetup, FormatArg, ImportArgs, ImportSetup, Source};
pub use serve::{Bootstrap, Log, LogFormat, ServeArgs, ServeSetup};
pub use watch::WatchSetup;

/// The project of a first start, when none is named.
const PROJECT_DEFAULT: &str = "default";

/// The words of the command line.
pub fn words() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// Where the data directory is.
#[derive(Args, Clone, Debug)]
pub struct DirectoryArgs {
    /// The data directory; made if absent
    #[arg(
        long,
        env = "TIDEMARK_DATA",
        value_name = "DIR",
        default_value = "tidemark-data"
    )]
    pub data: PathBuf,
}

/// Which project a command is about.
#[derive(Args, Clone, Debug)]
pub struct ProjectArgs {
    /// The project
    #[arg(long, env = "TIDEMARK_PROJECT_ID", value_name = "ID")]
    #[arg(default_value = PROJECT_DEFAULT)]
    project: String,
}

impl ProjectArgs {
    /// # Errors
    /// When it is no project id.
    pub fn check(&self) -> Result<ProjectId> {
        checked_project(given(Some(&self.project)).unwrap_or(PROJECT_DEFAULT))
    }
}

/// How to reach a server over the wire.
#[derive(Args, Clone)]
pub struct ConnectionArgs {
    /// Where the server answers
    #[arg(long, env = "APPWRITE_ENDPOINT", value_name = "URL")]
    #[arg(default_value = "http://127.0.0.1:8280/v1")]
    endpoint: String,
    /// The project
    #[arg(long, env = "APPWRITE_PROJECT_ID", value_name = "ID", default_value = PROJECT_DEFAULT)]
    project: String,
    /// The secret of an API key; the variable hides it from other users of the machine
    #[arg(
        long,
        env = "APPWRITE_API_KEY",
        value_name = "SECRET",
        hide_env_values = true
    )]
    key: Option<String>,
}

impl ConnectionArgs {
    /// # Errors
    /// When a part is missing, or cannot stand where it must.
    pub fn check(&self) -> Result<Access> {
        let endpoint: Endpoint = self
            .endpoint
            .parse()
            .map_err(|why| anyhow!("--endpoint: {why}"))?;
        access(endpoint, &self.project, self.key.as_ref())
    }
}

/// # Errors
/// When a part is missing, or cannot stand where it must.
fn access(endpoint: Endpoint, project: &str, key: Option<&String>) -> Result<Access> {
    let key = given(key).ok_or_else(|| {
        anyhow!(
            "no API key is given. Set APPWRITE_API_KEY, or use --key; `tidemark key create` \
             makes one"
        )
    })?;
    let header = |name: &str, text: &str| {
        HeaderValue::from_str(text).map_err(|_| anyhow!("{name} holds what no header can"))
    };
    let mut key = header("the API key", key)?;
    key.set_sensitive(true);
    let project = match project {
        "" => PROJECT_DEFAULT,
        project => project,
    };
    Ok(Access {
        endpoint,
        project: header("--project", checked_project(project)?.as_str())?,
        key,
    })
}

/// An empty variable counts as one that is not set: that is how composed environments say it.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn checked_project(id: &str) -> Result<ProjectId> {
    ProjectId::new(id).map_err(|error| anyhow!("the project id `{id}` cannot be used: {error}"))
}

/// The options of `tidemark doctor`, as typed.
#[derive(Args)]
#[command(after_help = "Example:
  tidemark doctor --data /srv/tidemark
  tidemark doctor --no-check --json")]
pub struct DoctorArgs {
    /// Where it is.
    #[command(flatten)]
    pub data: DirectoryArgs,
    /// The configuration file that the server is given
    #[arg(long, env = "TIDEMARK_CONFIG", value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Do not read the whole database to see whether it is whole
    #[arg(long)]
    pub no_check: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// `127.0.0.1:8280`, `[::1]:8280` or `localhost:8280`.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    numeric.parse().map_err(|_| {
        "an address and a port are needed, such as 127.0.0.1:8280 or [::1]:8280".to_owned()
    })
}

/// The address to tell clients for one that was bound: an address that means "all" is none a
/// client could use.
pub fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => [127, 0, 0, 1].into(),
        IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_an_address_they_can_use() {
        let told = ["0.0.0.0:80", "[::]:80", "10.1.2.3:80"]
            .map(|text| reachable(text.parse().unwrap()).to_string());
        assert_eq!(told, ["127.0.0.1:80", "[::1]:80", "10.1.2.3:80"]);
    }
}
