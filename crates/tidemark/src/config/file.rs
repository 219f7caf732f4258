//! The configuration file: every option of `tidemark serve`, under its own name.
//!
//! There is one table of settings, the options of `serve` as clap knows them. A value of the file
//! becomes the option's default, so a flag wins over a variable, a variable over the file, and
//! the file over what is built in, and all are checked by the same words.
//! `docs/reference/settings.md` is compared with the same table.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::OsStr;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Value;

use super::{PASSWORD_FILE, STORE_URL};

/// The subcommand whose options are the settings.
const SERVE: &str = "serve";
/// The file of a data directory.
const NAME: &str = "tidemark.toml";
/// Options of `serve` that no file can hold.
const NOT_IN_FILES: [&str; 3] = ["config", "help", "version"];

/// The settings of a file, each as an option would give it.
#[derive(Debug, Default)]
pub struct Settings {
    /// Where they stand.
    path: PathBuf,
    values: Vec<(String, Vec<String>)>,
}

/// Where a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Typed.
    Flag,
    /// A variable of the environment.
    Variable,
    /// The configuration file.
    File,
    /// Built in.
    Default,
}

/// One setting as it is in force.
#[derive(Clone, Debug)]
pub struct InForce {
    /// The option's name, without dashes.
    pub name: String,
    /// As text; secrets are not shown.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// The options of `serve` that are settings, in the order of its help.
pub fn options(command: &Command) -> Vec<&Arg> {
    let serve = command.find_subcommand(SERVE);
    let serve = serve.expect("the command line has this subcommand");
    let is_setting = |arg: &&Arg| {
        arg.get_long()
            .is_some_and(|long| !NOT_IN_FILES.contains(&long))
    };
    serve.get_arguments().filter(is_setting).collect()
}

/// The file that was named, or the data directory's own if it has one.
pub fn path(named: Option<&Path>, data: &Path) -> Option<PathBuf> {
    let own = || Some(data.join(NAME)).filter(|path| path.exists());
    named.map(Path::to_owned).or_else(own)
}

impl Settings {
    /// Reads a file. `is_own` says that it lies in the data directory.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, or holds a key or value that is not understood; the
    /// text names the file and the key.
    pub fn read(command: &Command, path: &Path, is_own: bool) -> Result<Settings> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!("there is no configuration file {shown}"),
            _ => anyhow!("cannot read the configuration file {shown}: {error}"),
        })?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().map_or(0, |span| span.start);
            let line = text[..before].matches('\n').count() + 1;
            anyhow!("{shown}, line {line}: {}", error.message())
        })?;
        let mut values = Vec::with_capacity(table.len());
        for (key, value) in &table {
            let value = read_value(command, key, value).with_context(|| shown.to_string())?;
            if is_own && key == "data" {
                bail!("{shown}: `data` cannot stand in the file of the data directory itself");
            }
            values.push((key.clone(), value));
        }
        Ok(Settings {
            path: path.to_owned(),
            values,
        })
    }

    /// The command line with these values as its defaults.
    pub fn apply(&self, command: Command) -> Command {
        let mut command = command;
        for (key, values) in &self.values {
            let id = options(&command)
                .into_iter()
                .find(|arg| arg.get_long() == Some(key))
                .map(|arg| arg.get_id().clone())
                .expect("keys were checked when the file was read");
            let values: Vec<OsStr> = values.iter().map(OsStr::from).collect();
            command = command.mut_subcommand(SERVE, |serve| {
                serve.mut_arg(id, |arg| arg.default_values(values))
            });
        }
        command
    }

    /// The command line on which every command that opens a store finds it where the file says it
    /// is.
    pub fn place(&self, command: Command) -> Command {
        let value = |key: &str| {
            let mut values = self.values.iter();
            let (_, texts) = values.find(|(known, _)| known == key)?;
            texts.first().cloned()
        };
        let defaults = [
            (STORE_URL, value("database")),
            (PASSWORD_FILE, value("password-file")),
        ];
        placed(command, &defaults)
    }

    /// Every setting with its value and where that comes from; former names only where used.
    pub fn in_force(&self, command: &Command, serve: &ArgMatches) -> Vec<InForce> {
        let options = options(command).into_iter();
        let shown = options.filter_map(|arg| {
            let setting = self.one_in_force(arg, serve);
            let is_shown = !arg.is_hide_set() || setting.origin != Origin::Default;
            is_shown.then_some(setting)
        });
        shown.collect()
    }

    fn one_in_force(&self, arg: &Arg, serve: &ArgMatches) -> InForce {
        let name = arg.get_long().expect("settings have a name").to_owned();
        let id = arg.get_id().as_str();
        let origin = match serve.value_source(id) {
            Some(ValueSource::CommandLine) => Origin::Flag,
            Some(ValueSource::EnvVariable) => Origin::Variable,
            _ if self.values.iter().any(|(key, _)| *key == name) => Origin::File,
            _ => Origin::Default,
        };
        let raw = serve.get_raw(id).into_iter().flatten();
        let shown: Vec<_> = raw.map(|value| value.to_string_lossy()).collect();
        let value = if arg.is_hide_env_values_set() && !shown.is_empty() {
            "(hidden)".to_owned()
        } else {
            shown.join(",")
        };
        InForce {
            name,
            value,
            origin,
        }
    }

    /// Whether a secret stands in the file.
    pub fn holds_secret(&self) -> bool {
        let is_secret = |key: &str| ["api-key", "database", "otlp-headers"].contains(&key);
        self.values.iter().any(|(key, _)| is_secret(key))
    }

    /// Where they stand; empty where there is no file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn placed(command: Command, defaults: &[(&str, Option<String>)]) -> Command {
    let command = command.mut_args(|arg| {
        let default = defaults.iter().find(|(id, _)| arg.get_id() == id);
        match default.and_then(|(_, text)| text.as_ref()) {
            Some(text) => arg.default_value(OsStr::from(text)),
            None => arg,
        }
    });
    command.mut_subcommands(|subcommand| match subcommand.get_name() {
        SERVE => subcommand,
        _ => placed(subcommand, defaults),
    })
}

/// A value as texts an option takes.
fn read_value(command: &Command, key: &str, value: &Value) -> Result<Vec<String>> {
    let options = options(command);
    let Some(option) = options.iter().find(|arg| arg.get_long() == Some(key)) else {
        let names = options.iter().filter_map(|arg| arg.get_long());
        let nearest = names.min_by_key(|name| distance(name, key));
        bail!(
            "there is no setting `{key}`. The nearest is `{}`; `tidemark serve --help` shows all",
            nearest.expect("there are settings")
        );
    };
    let texts = match value {
        Value::Array(elements) => elements.iter().map(|one| text(key, one)).collect(),
        one => text(key, one).map(|text| vec![text]),
    }?;
    let is_switch = matches!(option.get_action(), ArgAction::SetTrue);
    if is_switch {
        return match value {
            Value::Boolean(_) => Ok(texts),
            _ => Err(anyhow!("`{key}`: expected true or false")),
        };
    }
    let words = texts.iter().map(|text| format!("--{key}={text}"));
    let words = ["tidemark".to_owned(), SERVE.to_owned()]
        .into_iter()
        .chain(words);
    match command.clone().try_get_matches_from(words) {
        Ok(_) => Ok(texts),
        Err(error) => Err(anyhow!("`{key}`: {}", first_words(&error.to_string()))),
    }
}

fn text(key: &str, value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(truth) => Ok(truth.to_string()),
        other => Err(anyhow!(
            "`{key}`: a {} is nothing a setting can hold",
            other.type_str()
        )),
    }
}

/// What a refusal of the command line says, without its advice for people who type.
fn first_words(refusal: &str) -> String {
    let said = refusal.split("\n\n").next().unwrap_or_default();
    let said = said.trim_start_matches("error: ");
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How many characters must be put in, taken out or changed to come from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (nth, here) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], nth + 1);
        for (place, there) in other.iter().enumerate() {
            let changed = diagonal + usize::from(here != *there);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

/// `command` with the settings of the file that goes with it, and these settings.
///
/// `words` begin with the program's name, `named` and `data` are what they say.
///
/// # Errors
/// When the file cannot be understood, or with it the command line cannot.
pub fn with_file(
    command: Command,
    words: Vec<OsString>,
    named: Option<&Path>,
    data: &Path,
) -> Result<(ArgMatches, Settings)> {
    let settings = match path(named, data) {
        Some(path) => Settings::read(&command, &path, named.is_none())?,
        None => Settings::default(),
    };
    let matches = settings.apply(command).try_get_matches_from(words)?;
    Ok((matches, settings))
}

#[cfg(test)]
mod tests {

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::command::Cli;

    const PAGE: &str = include_str!("../../../../docs/reference/settings.md");

    fn read(text: &str) -> Result<Settings> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        fs::write(&path, text).unwrap();
        Settings::read(&Cli::command(), &path, true)
    }

    fn in_force(file: &str, flags: &[&str]) -> Vec<InForce> {
        let settings = read(file).unwrap();
        let words = ["tidemark", "serve"].iter().chain(flags);
        let matches = settings.apply(Cli::command()).get_matches_from(words);
        settings.in_force(&Cli::command(), matches.subcommand_matches(SERVE).unwrap())
    }

    #[track_caller]
    fn check(settings: &[InForce], name: &str, value: &str, origin: Origin) {
        let found = settings.iter().find(|one| one.name == name).unwrap();
        assert_eq!(
            (found.value.as_str(), found.origin),
            (value, origin),
            "{name}"
        );
    }

    #[test]
    fn the_page_lists_every_setting_as_it_is() {
        let command = Cli::command();
        let mut wanted = Vec::new();
        for arg in options(&command)
            .into_iter()
            .filter(|arg| !arg.is_hide_set())
        {
            let name = arg.get_long().unwrap();
            let variable = format!("TIDEMARK_{}", name.to_ascii_uppercase().replace('-', "_"));
            let given = arg.get_env().and_then(std::ffi::OsStr::to_str);
            assert_eq!(given, Some(variable.as_str()), "--{name}");
            let default: Vec<_> = match arg.get_action() {
                ArgAction::SetTrue => vec!["false".into()],
                _ => arg
                    .get_default_values()
                    .iter()
                    .map(|v| v.to_string_lossy())
                    .collect(),
            };
            let default = match default.join(",").as_str() {
                "" => "–".to_owned(),
                default => format!("`{default}`"),
            };
            let help = arg.get_help().expect("every option says what it is for");
            let help = help.to_string().replace('|', "\\|");
            wanted.push(format!("| `{name}` | `{variable}` | {default} | {help} |"));
        }
        let rows = PAGE.lines().filter(|line| line.contains("| `TIDEMARK_"));
        let rows: Vec<&str> = rows.collect();
        testing::assert_rows("docs/reference/settings.md", &rows, &wanted);
    }

    #[test]
    fn the_file_stands_between_flags_and_what_is_built_in() {
        let file = "listen = \"127.0.0.1:1\"\nthreads = 3\naccept-clock = true\n\
                    cors-origin = [\"a.example\", \"b.example\"]\n";
        let settings = in_force(file, &["--threads=4"]);
        check(&settings, "listen", "127.0.0.1:1", Origin::File);
        check(&settings, "threads", "4", Origin::Flag);
        check(&settings, "accept-clock", "true", Origin::File);
        check(
            &settings,
            "cors-origin",
            "a.example,b.example",
            Origin::File,
        );
        check(&settings, "durability", "full", Origin::Default);
    }

    #[test]
    fn a_secret_is_not_shown() {
        let settings = in_force("api-key = \"0123456789abcdef\"", &[]);
        check(&settings, "api-key", "(hidden)", Origin::File);
    }

    #[test]
    fn settings_that_the_file_may_not_hold_are_refused_by_name() {
        let refuse = |text: &str, part: &str| {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(NAME) && error.contains(part), "{error}");
        };
        refuse(
            "lsten = \"x\"",
            "there is no setting `lsten`. The nearest is `listen`",
        );
        refuse("page_rows_max = 5", "The nearest is `page-rows-max`");
        refuse("listen = 8280", "`listen`: invalid value '8280'");
        refuse("threads = 0", "`threads`: invalid value '0'");
        refuse("durability = \"some\"", "possible values: full, normal");
        refuse("accept-clock = 1", "`accept-clock`: expected true or false");
        refuse(
            "total-cap = 2026-01-01",
            "a datetime is nothing a setting can hold",
        );
        refuse("[limits]\na = 1", "there is no setting `limits`");
        refuse("listen = \"a\nthreads = 1", "line 1: ");
        refuse("threads = 1\nthreads = 2", "line 2: ");
        refuse("data = \"x\"", "`data` cannot stand");
        refuse("config = \"x\"", "there is no setting `config`");
    }

    #[test]
    fn names_are_compared_by_their_letters() {
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("listen", "lsten"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
