//! From the command line and the environment to one small checked struct per room.
//!
//! Two steps. What was typed stands in the `…Args` types, exactly as typed; `check` turns it into
//! what a room takes, with every default decided. Nothing else reads the environment.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Arg, Args, Command};
use client::{Access, Endpoint};
use engine::DatabaseUrl;
use hyper::header::HeaderValue;
use model::ProjectId;

pub mod file;
pub mod functions;
mod limits;
mod place;
mod port;
mod quotas;
pub mod secret_key;
mod serve;
mod size;
mod watch;

pub use place::{
    DatabaseArgs, NamedDatabase, NamedStoreArgs, PASSWORD_FILE, STORE_URL, StoreArgs, StoreSite,
};
pub use port::{ExportArgs, ExportSetup, ExportedRows, FormatArg, ImportArgs, ImportSetup, Source};
pub use serve::{Bootstrap, Log, LogFormat, ServeArgs, ServeSetup};
pub use watch::WatchSetup;

/// The project of a first start, when none is named.
const PROJECT_DEFAULT: &str = "default";

/// Where a server answers unless configured otherwise.
const ENDPOINT_DEFAULT: &str = "http://127.0.0.1:8280/v1";

/// Where programs of the host are looked for, as `PATH` holds it.
pub fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Those of these variables that are set, with their values; one that is no text is not taken.
fn set_variables(names: Vec<String>) -> Vec<(String, String)> {
    let value = |name: String| std::env::var(&name).ok().map(|value| (name, value));
    names.into_iter().filter_map(value).collect()
}

/// All variables that are set.
pub fn environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// The words of the command line.
pub fn words() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// Where the data directory is.
#[derive(Args, Clone, Debug)]
pub struct DirectoryArgs {
    /// The data directory; `serve` creates it if it does not exist
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

/// Variables as examples of the official SDKs, and libpq, name them. Each is read where the
/// variable of ours beside it is not set.
const ALIASES: [(&str, &str); 4] = [
    ("TIDEMARK_ENDPOINT", "APPWRITE_ENDPOINT"),
    ("TIDEMARK_PROJECT_ID", "APPWRITE_PROJECT_ID"),
    ("TIDEMARK_API_KEY", "APPWRITE_API_KEY"),
    ("TIDEMARK_PASSWORD_FILE", "PGPASSFILE"),
];

/// The command line with each variable of ours that is not set replaced by its alias, if that one
/// is.
pub fn with_aliases(command: Command) -> Command {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    aliased(command, &is_set)
}

fn aliased(command: Command, is_set: &dyn Fn(&str) -> bool) -> Command {
    let alias_of = |arg: &Arg| {
        let name = arg.get_env()?.to_str()?;
        let (_, alias) = ALIASES.iter().find(|(ours, _)| *ours == name)?;
        (!is_set(name) && is_set(alias)).then_some(*alias)
    };
    let command = command.mut_args(|arg| match alias_of(&arg) {
        Some(alias) => arg.env(alias),
        None => arg,
    });
    command.mut_subcommands(|subcommand| aliased(subcommand, is_set))
}

/// How to reach a server over the wire.
#[derive(Args, Clone)]
pub struct ConnectionArgs {
    /// Where the server answers [default: the server that runs on --data, or
    /// http://127.0.0.1:8280/v1]
    #[arg(long, env = "TIDEMARK_ENDPOINT", value_name = "URL")]
    endpoint: Option<String>,
    /// The project [default: the only one of the server that runs on --data, or `default`]
    #[arg(long, env = "TIDEMARK_PROJECT_ID", value_name = "ID")]
    project: Option<String>,
    /// The secret of an API key; the variable hides it from other users of the machine. Without
    /// one the server that runs on --data makes a key for the time of the command
    #[arg(
        long,
        env = "TIDEMARK_API_KEY",
        value_name = "SECRET",
        hide_env_values = true
    )]
    key: Option<String>,
    /// The data directory of a server on this machine
    #[arg(
        long,
        env = "TIDEMARK_DATA",
        value_name = "DIR",
        default_value = "tidemark-data"
    )]
    pub data: PathBuf,
}

/// The server that runs on a data directory of this machine.
pub struct LocalServer {
    /// Where it answers.
    pub endpoint: String,
    /// The ids of its projects.
    pub projects: Vec<String>,
}

impl ConnectionArgs {
    /// What was given, where that includes a key.
    ///
    /// # Errors
    /// When a part cannot stand where it must.
    pub fn check(&self) -> Result<Option<Access>> {
        let Some(key) = given(self.key.as_ref()) else {
            return Ok(None);
        };
        let project = given(self.project.as_ref()).unwrap_or(PROJECT_DEFAULT);
        access(self.endpoint(ENDPOINT_DEFAULT)?, project, key).map(Some)
    }

    /// The project to use of a server on this machine.
    ///
    /// # Errors
    /// When another server is meant, or it is not clear which project is.
    pub fn project_of(&self, server: &LocalServer) -> Result<ProjectId> {
        let (meant, local) = (self.endpoint(&server.endpoint)?, parsed(&server.endpoint)?);
        if meant.authority() != local.authority() {
            return Err(anyhow!(
                "no API key is given for {}. Set TIDEMARK_API_KEY, or use --key. Keys of the \
                 server on {} work at {} alone",
                meant.authority(),
                self.data.display(),
                server.endpoint
            ));
        }
        match (given(self.project.as_ref()), server.projects.as_slice()) {
            (Some(named), _) => checked_project(named),
            (None, [only]) => checked_project(only),
            (None, several) if several.iter().any(|id| id == PROJECT_DEFAULT) => {
                checked_project(PROJECT_DEFAULT)
            }
            (None, _) => Err(anyhow!(
                "the server on {} has several projects or none. Name one with --project; \
                 `tidemark project list` shows them",
                self.data.display()
            )),
        }
    }

    /// The right to use a server on this machine by a key that it has made.
    ///
    /// # Errors
    /// When a part cannot stand where it must.
    pub fn access_to(
        &self,
        server: &LocalServer,
        project: &ProjectId,
        key: &str,
    ) -> Result<Access> {
        access(self.endpoint(&server.endpoint)?, project.as_str(), key)
    }

    fn endpoint(&self, default: &str) -> Result<Endpoint> {
        parsed(given(self.endpoint.as_ref()).unwrap_or(default))
    }
}

fn parsed(endpoint: &str) -> Result<Endpoint> {
    endpoint.parse().map_err(|why| anyhow!("--endpoint: {why}"))
}

/// # Errors
/// When a part cannot stand where it must.
fn access(endpoint: Endpoint, project: &str, key: &str) -> Result<Access> {
    let header = |name: &str, text: &str| {
        HeaderValue::from_str(text).map_err(|_| anyhow!("{name} holds what no header can"))
    };
    let mut key = header("the API key", key)?;
    key.set_sensitive(true);
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
  tidemark doctor --no-check --json
  tidemark doctor --database \"$DATABASE_URL\"")]
pub struct DoctorArgs {
    /// Where it is.
    #[command(flatten)]
    pub data: DirectoryArgs,
    /// The configuration file that the server is given
    #[arg(long, env = "TIDEMARK_CONFIG", value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Look at this database instead: whether a store can be in it, and would lose nothing there.
    /// The variable hides a password from other users of the machine
    #[arg(
        long,
        env = "TIDEMARK_DATABASE",
        value_name = "URL",
        hide_env_values = true
    )]
    database: Option<String>,
    /// A file with the password of the database, in the form of libpq's password files
    #[arg(long, env = "TIDEMARK_PASSWORD_FILE", value_name = "PATH")]
    password_file: Option<PathBuf>,
    /// First let the store in the database, which was restored, go on from what is there, as
    /// another history. No node may have it open
    #[arg(long)]
    pub accept_restore: bool,
    /// Do not read the whole database to see whether it is whole
    #[arg(long)]
    pub no_check: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

impl DoctorArgs {
    /// The database that is looked at, with the file of its password, if one is named.
    ///
    /// # Errors
    /// When it is no URL of a database. The text does not hold its password.
    pub fn database(&self) -> Result<Option<(DatabaseUrl, Option<&Path>)>> {
        let Some(text) = given(self.database.as_ref()) else {
            return Ok(None);
        };
        Ok(Some((
            database_url(text)?,
            file_given(self.password_file.as_deref()),
        )))
    }
}

/// # Errors
/// When it is no URL of a database. The text does not hold its password.
pub fn database_url(text: &str) -> Result<DatabaseUrl> {
    let url = DatabaseUrl::parse(text);
    url.map_err(|fault| anyhow!("the URL of the database cannot be used: {fault}"))
}

/// An empty variable counts as one that is not set.
pub fn file_given(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| !path.as_os_str().is_empty())
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
    fn an_alias_of_a_variable_is_read_where_ours_is_not_set() {
        let env_of = |set: &'static [&str]| {
            let key = Arg::new("key").long("key").env("TIDEMARK_API_KEY");
            let other = Arg::new("other").long("other").env("TIDEMARK_OTHER");
            let command = Command::new("t").subcommand(Command::new("s").args([key, other]));
            let command = aliased(command, &|name| set.contains(&name));
            let subcommand = command.find_subcommand("s").unwrap();
            let envs = subcommand.get_arguments().filter_map(Arg::get_env);
            envs.map(|name| name.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(env_of(&[]), ["TIDEMARK_API_KEY", "TIDEMARK_OTHER"]);
        assert_eq!(env_of(&["APPWRITE_API_KEY"])[0], "APPWRITE_API_KEY");
        let both = ["APPWRITE_API_KEY", "TIDEMARK_API_KEY"];
        assert_eq!(env_of(Box::leak(Box::new(both)))[0], "TIDEMARK_API_KEY");
    }

    #[test]
    fn a_key_of_this_machines_server_goes_to_no_other() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            connection: ConnectionArgs,
        }
        let parse = |words: &[&str]| {
            let words = ["t"].iter().chain(words);
            <Line as clap::Parser>::try_parse_from(words)
                .unwrap()
                .connection
        };
        let server = |projects: &[&str]| LocalServer {
            endpoint: "http://127.0.0.1:9000/v1".to_owned(),
            projects: projects.iter().map(|id| (*id).to_owned()).collect(),
        };
        let project = |words: &[&str], projects: &[&str]| {
            let found = parse(words).project_of(&server(projects));
            found
                .map(|id| id.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(project(&[], &["shop"]), Ok("shop".to_owned()));
        assert_eq!(project(&[], &["a", "default"]), Ok("default".to_owned()));
        assert_eq!(project(&["--project=b"], &["a", "b"]), Ok("b".to_owned()));
        assert!(project(&[], &["a", "b"]).unwrap_err().contains("--project"));
        let same = "--endpoint=http://127.0.0.1:9000/v1";
        assert_eq!(project(&[same], &["shop"]), Ok("shop".to_owned()));
        let other = project(&["--endpoint=http://example.org/v1"], &["shop"]);
        assert!(other.unwrap_err().contains("no API key is given"));
    }

    #[test]
    fn clients_are_told_an_address_they_can_use() {
        let shown = ["0.0.0.0:80", "[::]:80", "10.1.2.3:80"]
            .map(|text| reachable(text.parse().unwrap()).to_string());
        assert_eq!(shown, ["127.0.0.1:80", "[::1]:80", "10.1.2.3:80"]);
    }
}
