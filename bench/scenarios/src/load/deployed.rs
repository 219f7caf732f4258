//! The functions of a run, on a data directory from which servers are copied, and the same handlers
//! in processes without a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use measure::connection::{Access, Connection};
use measure::cores::Cores;
use measure::live::LiveServer;
use measure::responder::Responder;
use serde_json::{Value, json};

use super::load_function::{CALL, FunctionLanguage, LoadFunction};
use crate::seed;
use crate::stage::Stage;

/// The data directory that holds catalog and functions.
pub const FUNCTIONS: &str = "functions";
/// How often a function is executed until it must have answered.
const FIRST_TRIES: u32 = 3;
/// Records that are kept, and bytes of them: the most that a server takes, so that none makes way.
const RECORDS_MAX: u64 = 10_000_000;
const RECORDS_BYTES_MAX: u64 = 1 << 40;
/// Records that a list looks at (docs/reference/functions.md).
const RECORDS_LISTED_MAX: u64 = 100_000;

/// Functions that a server of this machine executes.
pub struct DeployedFunctions<'a> {
    stage: &'a Stage,
    /// Below it lies each handler in a folder of its own, with what calls it without a server.
    code: PathBuf,
    /// Those that answer rightly.
    pub handlers: Vec<LoadFunction>,
    /// Those that do not, and why.
    pub missing: Vec<(LoadFunction, String)>,
}

/// Folders of packages with the official clients; without one, functions fetch rows by HTTP alone.
#[derive(Clone, Debug, Default)]
pub struct SdkFolders {
    /// A folder `node_modules`.
    pub node: Option<PathBuf>,
    /// What `pip install --target` fills.
    pub python: Option<PathBuf>,
}

impl SdkFolders {
    /// # Errors
    /// When a folder does not hold the official client.
    pub fn check(&self) -> Result<()> {
        let named = [
            ("--sdk", &self.node, "package.json"),
            ("--python-sdk", &self.python, "__init__.py"),
        ];
        let languages = [FunctionLanguage::Node, FunctionLanguage::Python];
        for ((flag, folder, file), language) in named.into_iter().zip(languages) {
            let Some(folder) = folder else { continue };
            let package = language.sdk();
            ensure!(
                folder.join(package).join(file).is_file(),
                "{flag} {}: it holds no package {package}; name the folder in which it lies",
                folder.display()
            );
        }
        Ok(())
    }

    /// The packages that a handler uses.
    pub fn of(&self, handler: LoadFunction) -> Option<&Path> {
        match handler {
            LoadFunction::RowsNode => self.node.as_deref(),
            LoadFunction::RowsPython => self.python.as_deref(),
            LoadFunction::JsonNode | LoadFunction::JsonPython => None,
        }
    }
}

impl<'a> DeployedFunctions<'a> {
    /// Deploys every handler on a copy of the catalog, and executes it once.
    ///
    /// # Errors
    /// When a server or a folder fails. A handler that cannot be executed is left out.
    pub fn deploy(
        stage: &'a Stage,
        all: &Cores,
        sdks: &SdkFolders,
    ) -> Result<DeployedFunctions<'a>> {
        let mut deployed = DeployedFunctions::none(stage);
        let server = stage.seeded(FUNCTIONS, all)?;
        let mut connection = Connection::open(server.access.address)?;
        for handler in LoadFunction::ALL {
            let done = deployed
                .write(handler, sdks.of(handler))
                .and_then(|folder| deployed.send(&server, &mut connection, (handler, &folder)))
                .and_then(|()| first_execution(&server.access, &mut connection, handler));
            match done {
                Ok(()) => deployed.handlers.push(handler),
                Err(error) => {
                    let why = format!("{error:#}");
                    eprintln!("left out, {}: {}", handler.title(), why.trim_end());
                    deployed.missing.push((handler, why));
                }
            }
        }
        server.stop()?;
        Ok(deployed)
    }

    /// No functions at all.
    pub fn none(stage: &'a Stage) -> DeployedFunctions<'a> {
        DeployedFunctions {
            stage,
            code: stage.folder().join("code"),
            handlers: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// The file that holds the call of every execution.
    pub fn calls(&self) -> PathBuf {
        self.code.join("call")
    }

    /// Writes code and settings of a handler, and what calls it without a server.
    fn write(&self, handler: LoadFunction, sdk: Option<&Path>) -> Result<PathBuf> {
        let folder = self.code.join(handler.id());
        let language = handler.language();
        let packages = folder.join(language.packages());
        fs::create_dir_all(&folder)?;
        if let Some(sdk) = sdk {
            let mut copy = Command::new("cp");
            copy.arg("-RL").arg(sdk).arg(&packages);
            let copied = copy.stdin(Stdio::null()).output().context("cp")?;
            let complaint = String::from_utf8_lossy(&copied.stderr);
            ensure!(copied.status.success(), "{complaint}");
        }
        let (bare, program) = language.bare();
        // A build has no network: packages go with the code, whatever git leaves out here.
        for (name, text) in [
            (language.entrypoint(), handler.code(sdk.is_some())),
            (".tidemarkignore", "!node_modules/\n!.packages/\n"),
        ] {
            fs::write(folder.join(name), text)?;
        }
        fs::write(self.code.join(bare), program)?;
        fs::write(self.calls(), CALL)?;
        Ok(folder)
    }

    /// Makes it a function of the server, with an active deployment.
    fn send(
        &self,
        server: &LiveServer,
        connection: &mut Connection,
        (handler, folder): (LoadFunction, &Path),
    ) -> Result<()> {
        let access = &server.access;
        let runtime = handler.language().runtime(access, connection)?;
        let settings = folder.join("function.toml");
        fs::write(&settings, handler.settings(&runtime))?;
        self.send_folder(server, folder)?;
        let route = format!("/tidemark/functions/{}/options", handler.id());
        let options = json!({
            "recordsMax": RECORDS_MAX,
            "recordsBytesMax": RECORDS_BYTES_MAX,
        });
        connection.call(access, "PATCH", &route, options)?;
        Ok(())
    }

    /// Where the code of a function lies.
    pub fn code_folder(&self, id: &str) -> PathBuf {
        self.code.join(id)
    }

    /// Deploys a folder with a `function.toml`, and waits until it is built.
    ///
    /// # Errors
    /// What the command says.
    pub fn send_folder(&self, server: &LiveServer, folder: &Path) -> Result<()> {
        let mut deploy = self.stage.command();
        deploy.args(["function", "deploy"]).arg(folder);
        server.command(deploy)
    }

    /// A server that has executed the function once.
    ///
    /// # Errors
    /// When it does not start, or the answer is wrong.
    pub fn serve(
        &self,
        handler: LoadFunction,
        cores: &Cores,
        settings: &[&str],
    ) -> Result<LiveServer> {
        let server = self
            .stage
            .copy_of(FUNCTIONS, "executing", cores, settings)?;
        let mut connection = Connection::open(server.access.address)?;
        first_execution(&server.access, &mut connection, handler)?;
        Ok(server)
    }

    /// One process of Node that answers with this handler by `node:http`. It reaches the API of
    /// `access`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn bare_node(
        &self,
        handler: LoadFunction,
        cores: &Cores,
        access: &Access,
    ) -> Result<Responder> {
        Responder::begin(self.bare(handler.in_node(), access), Some(cores))
    }

    /// The program that calls a handler without a server.
    pub fn bare(&self, handler: LoadFunction, access: &Access) -> Command {
        let language = handler.language();
        let mut command = self.stage.program(Path::new(language.program()));
        command.env("APPWRITE_FUNCTION_API_ENDPOINT", access.url(""));
        command.env("APPWRITE_FUNCTION_PROJECT_ID", &access.project);
        command.env("KEY", &access.key);
        let handler = self.code.join(handler.id()).join(language.entrypoint());
        command.arg(self.code.join(language.bare().0)).arg(handler);
        command
    }
}

/// The route that executes it.
pub fn route(handler: LoadFunction) -> String {
    format!("/functions/{}/executions", handler.id())
}

/// Executes it until that succeeds, a few times at most: processes of functions have a low
/// priority, and a busy machine may not let a new one answer in time.
///
/// # Errors
/// As [`execute`].
pub fn first_execution(
    access: &Access,
    connection: &mut Connection,
    handler: LoadFunction,
) -> Result<()> {
    let mut tried = execute(access, connection, handler);
    for _ in 1..FIRST_TRIES {
        tried = tried.or_else(|_| execute(access, connection, handler));
    }
    tried
}

/// Executes it once.
///
/// # Errors
/// When the server refuses, the execution failed, or its answer is wrong.
pub fn execute(access: &Access, connection: &mut Connection, handler: LoadFunction) -> Result<()> {
    let answer = connection.call(access, "POST", &route(handler), CALL)?;
    let execution: Value = serde_json::from_slice(answer.body)?;
    let member = |name: &str| execution[name].as_str().unwrap_or_default();
    // Node names an error at the beginning of its stack, Python at the end.
    let mut said = member("errors").trim().lines();
    let said = match handler.language() {
        FunctionLanguage::Node => said.next(),
        FunctionLanguage::Python => said.last(),
    };
    let (status, said) = (member("status"), said.unwrap_or_default());
    ensure!(status == "completed", "an execution is `{status}`: {said}");
    handler.check(member("responseBody"))
}

/// How many executions have a record, and how many of them failed.
///
/// # Errors
/// When the server refuses.
pub fn records(access: &Access, handler: LoadFunction) -> Result<[u64; 2]> {
    let mut connection = Connection::open(access.address)?;
    let mut total = |queries: &[Value]| -> Result<u64> {
        let list = seed::list_route_of(&route(handler), queries);
        let answer = connection.call(access, "GET", &list, "")?;
        let listed: Value = serde_json::from_slice(answer.body)?;
        listed["total"].as_u64().context("a list without a total")
    };
    let one = json!({ "method": "limit", "values": [1] });
    let failed = json!({ "method": "equal", "attribute": "status", "values": ["failed"] });
    let all = total(std::slice::from_ref(&one))?;
    Ok([all, total(&[failed, one])?])
}

/// Looks for the records of at least `answered` executions since `before`, none of them failed.
///
/// # Errors
/// When there are fewer, or one has failed.
pub fn check_records(
    access: &Access,
    handler: LoadFunction,
    answered: u64,
    before: [u64; 2],
) -> Result<()> {
    let [all, failed] = records(access, handler)?;
    let failed = failed - before[1];
    ensure!(failed == 0, "{failed} executions failed");
    ensure!(
        all >= (before[0] + answered).min(RECORDS_LISTED_MAX),
        "{answered} executions were answered, {} have a record",
        all - before[0]
    );
    Ok(())
}
