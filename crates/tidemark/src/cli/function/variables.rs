//! `tidemark function variable`: what a function's environment holds.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use hyper::Method;
use model::counted;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use transfer::remote::segment;

use super::function_file::id_or_folder;
use super::log_text::harmless;
use super::routes::{FunctionRoutes, route_of, text};
use super::variables_file::{is_name, read};
use super::{Outside, need_consent, runtime, say, say_json, table, with_server};
use crate::config::ConnectionArgs;

/// Characters of a value (wire protocol, variables).
const VALUE_LETTERS_MAX: usize = 8_192;

/// Set, list and delete the variables of a function.
#[derive(Subcommand)]
pub enum VariableCommand {
    /// Set variables, from the next run on
    ///
    /// A variable that is not there is created. Its value is shown in lists unless --secret is
    /// given; a secret one stays secret. The value of `NAME` without `=` is read from standard
    /// input, at a terminal without showing it: so it stands neither in the history of the shell
    /// nor in the list of processes.
    #[command(after_help = "Examples:
  tidemark function variable set REGION=eu LEVEL=2 --function hello
  tidemark function variable set TOKEN --secret < token.txt
  tidemark function variable set --from-file .env --secret")]
    Set(VariableSetArgs),
    /// List variables; the value of a secret one is not shown
    #[command(after_help = "Example:\n  tidemark function variable list --function hello")]
    List {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
        /// Whose variables, and on which server.
        #[command(flatten)]
        place: VariablePlace,
    },
    /// Delete a variable
    ///
    /// Asks first; without a terminal nothing is deleted unless --yes is given.
    #[command(after_help = "Example:\n  tidemark function variable delete REGION --yes")]
    Delete {
        /// The variable's name
        name: String,
        /// Delete without asking
        #[arg(long)]
        yes: bool,
        /// Whose variables, and on which server.
        #[command(flatten)]
        place: VariablePlace,
    },
}

/// The options of `tidemark function variable set`.
#[derive(Args)]
pub struct VariableSetArgs {
    /// NAME=VALUE, or NAME for a value from standard input
    #[arg(value_name = "NAME=VALUE", required_unless_present = "from_file")]
    variables: Vec<String>,
    /// All variables of a file, one NAME=VALUE on each line
    #[arg(long, value_name = "PATH")]
    from_file: Option<PathBuf>,
    /// Never show the values again
    #[arg(long)]
    secret: bool,
    /// Whose variables, and on which server.
    #[command(flatten)]
    place: VariablePlace,
}

/// Whose variables, and on which server.
#[derive(Args)]
pub struct VariablePlace {
    /// The function's id [default: that of function.toml in this folder]
    #[arg(long, value_name = "ID")]
    function: Option<String>,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// # Errors
/// When a variable cannot be, the server cannot be reached, or it refuses.
pub fn run(command: VariableCommand, outside: &Outside) -> Result<()> {
    match command {
        VariableCommand::Set(args) => set(&args, outside),
        VariableCommand::List { json, place } => list(&place, json, outside),
        VariableCommand::Delete { name, yes, place } => delete(&place, (&name, yes), outside),
    }
}

impl VariablePlace {
    fn function(&self) -> Result<String> {
        id_or_folder(self.function.as_ref())
    }
}

/// Every variable of a function.
async fn every(routes: &mut FunctionRoutes<'_>, function: &str) -> Result<Vec<Value>> {
    routes.existing(function).await?;
    let route = route_of(function, "/variables");
    routes.every(&route, "variables").await
}

fn set(args: &VariableSetArgs, outside: &Outside) -> Result<()> {
    let function = args.place.function()?;
    let wanted = wanted(args)?;
    ensure!(!wanted.is_empty(), "there is no variable to set");
    let said = with_server(&args.place.connection, outside, |access| {
        runtime()?.block_on(async {
            let mut routes = FunctionRoutes::connect(access).await?;
            let known = every(&mut routes, &function).await?;
            let mut said = String::new();
            for (name, value) in &wanted {
                let known = known.iter().find(|known| text(known, "key") == name);
                let sent = Setting {
                    name,
                    value,
                    is_secret: args.secret,
                };
                said += &sent.send(&mut routes, &function, known).await?;
            }
            Ok(said)
        })
    })?;
    say(&said)
}

/// One variable to set.
struct Setting<'a> {
    name: &'a str,
    value: &'a str,
    is_secret: bool,
}

impl Setting<'_> {
    async fn send(
        &self,
        routes: &mut FunctionRoutes<'_>,
        function: &str,
        known: Option<&Value>,
    ) -> Result<String> {
        let Setting {
            name,
            value,
            is_secret,
        } = *self;
        let what = format!("setting `{name}`");
        let Some(known) = known else {
            let route = route_of(function, "/variables");
            let body = json!({"variableId": "unique()", "key": name, "value": value,
                "secret": is_secret});
            routes
                .send(Method::POST, &route, Some(&body))
                .await?
                .accepted(&what)?;
            return Ok(format!(
                "Created {}`{name}`.\n",
                if is_secret { "secret " } else { "" }
            ));
        };
        let mut body = json!({"key": name, "value": value});
        if is_secret {
            body["secret"] = json!(true);
        }
        let route = route_of(
            function,
            &format!("/variables/{}", segment(text(known, "$id"))),
        );
        routes
            .send(Method::PUT, &route, Some(&body))
            .await?
            .accepted(&what)?;
        let is_secret = is_secret || known["secret"] == true;
        Ok(format!(
            "Changed {}`{name}`.\n",
            if is_secret { "secret " } else { "" }
        ))
    }
}

/// Names and values; of a name that stands twice the last one, and the file stands first.
fn wanted(args: &VariableSetArgs) -> Result<Vec<(String, String)>> {
    let mut wanted = args.from_file.as_deref().map_or(Ok(Vec::new()), read)?;
    let unnamed = args.variables.iter().filter(|given| !given.contains('='));
    ensure!(
        unnamed.count() <= 1,
        "standard input holds the value of one variable only"
    );
    for given in &args.variables {
        let (name, value) = match given.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (given.as_str(), value_from_input(given)?),
        };
        ensure!(
            is_name(name),
            "`{}` cannot be the name of a variable: letters of ASCII, digits and `_`, and no digit \
             first",
            harmless(name)
        );
        wanted.retain(|(known, _)| known != name);
        wanted.push((name.to_owned(), value));
    }
    for (name, value) in &wanted {
        let count = value.chars().count();
        ensure!(
            count <= VALUE_LETTERS_MAX,
            "the value of `{name}` has {count} characters; the most are {VALUE_LETTERS_MAX}"
        );
    }
    Ok(wanted)
}

/// What standard input holds, without the line break at its end.
fn value_from_input(name: &str) -> Result<String> {
    let input = io::stdin();
    let mut value = String::new();
    if input.is_terminal() {
        eprint!("Value of {name}: ");
        let silence = Silence::over(&input)?;
        input.read_line(&mut value)?;
        drop(silence);
        eprintln!();
    } else {
        let bytes_max = 4 * VALUE_LETTERS_MAX as u64 + 2;
        let read = input.lock().take(bytes_max).read_to_string(&mut value);
        read.map_err(|error| anyhow!("cannot read the value of `{name}`: {error}"))?;
    }
    let value = value.strip_suffix('\n').unwrap_or(&value);
    Ok(value.strip_suffix('\r').unwrap_or(value).to_owned())
}

/// A terminal that does not show what is typed, for as long as this is held.
struct Silence<'a> {
    input: &'a io::Stdin,
    before: rustix::termios::Termios,
}

impl Silence<'_> {
    fn over(input: &io::Stdin) -> Result<Silence<'_>> {
        let before = tcgetattr(input).context("cannot ask the terminal")?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(input, OptionalActions::Now, &silent).context("cannot silence the terminal")?;
        Ok(Silence { input, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no voice.
        let _ = tcsetattr(self.input, OptionalActions::Now, &self.before);
    }
}

fn list(place: &VariablePlace, is_json: bool, outside: &Outside) -> Result<()> {
    let function = place.function()?;
    let found = with_server(&place.connection, outside, |access| {
        runtime()?.block_on(async {
            let mut routes = FunctionRoutes::connect(access).await?;
            every(&mut routes, &function).await
        })
    })?;
    if is_json {
        return say_json(&Value::Array(found));
    }
    if found.is_empty() {
        eprintln!("Function `{function}` has no variable.");
        return Ok(());
    }
    let row = |variable: &Value| {
        let value = if variable["secret"] == true {
            "(secret)".to_owned()
        } else {
            harmless(text(variable, "value")).replace('\n', "\\n")
        };
        let name = harmless(text(variable, "key")).replace('\n', "\\n");
        vec![name, value]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    say(&table::render(&["NAME", "VALUE"], &rows))
}

fn delete(place: &VariablePlace, (name, yes): (&str, bool), outside: &Outside) -> Result<()> {
    let function = place.function()?;
    with_server(&place.connection, outside, |access| {
        let runtime = runtime()?;
        let mut routes = runtime.block_on(FunctionRoutes::connect(access))?;
        let known = runtime.block_on(every(&mut routes, &function))?;
        let Some(found) = known.iter().find(|known| text(known, "key") == name) else {
            bail!(
                "function `{function}` has no variable `{name}`; it has {}",
                counted(known.len() as u64, "variable")
            );
        };
        let question = format!("Delete variable `{name}` of function `{function}`?");
        need_consent(yes, &question, &format!("variable `{name}`"))?;
        // The server may have let go of a connection that waited for a person.
        let mut routes = runtime.block_on(FunctionRoutes::connect(access))?;
        let route = route_of(
            &function,
            &format!("/variables/{}", segment(text(found, "$id"))),
        );
        let answer = runtime.block_on(routes.send(Method::DELETE, &route, None))?;
        answer.accepted(&format!("deleting variable `{name}`"))
    })?;
    say(&format!(
        "Deleted variable `{name}` of function `{function}`.\n"
    ))
}
