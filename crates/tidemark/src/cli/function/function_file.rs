//! `function.toml`: what a function is, beside its code.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use engine::Specification;
use model::FunctionId;
use model::function::SPECIFICATION_DEFAULT;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The name of the file.
pub const FILE: &str = "function.toml";
/// A file that is larger is none of ours.
const BYTES_MAX: u64 = 256 * 1024;

/// Which addresses its runs reach.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum FileNetwork {
    /// The API alone.
    None,
    /// Public addresses besides.
    Outside,
}

impl FileNetwork {
    /// As the options of a function name it.
    pub fn as_str(self) -> &'static str {
        match self {
            FileNetwork::None => "none",
            FileNetwork::Outside => "outside",
        }
    }
}

/// The file. What it leaves out stays as the server has it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FunctionFile {
    /// The function's id.
    pub id: String,
    /// Display name; the id where there is none.
    name: Option<String>,
    /// Such as `node-20.0`.
    pub runtime: String,
    /// The file with the handler, relative to the folder.
    pub entrypoint: String,
    /// What builds a deployment.
    pub commands: Option<String>,
    execute: Option<Vec<String>>,
    events: Option<Vec<String>>,
    schedule: Option<String>,
    /// Seconds.
    pub timeout: Option<u32>,
    enabled: Option<bool>,
    logging: Option<bool>,
    /// What its runs may do with the data.
    pub scopes: Option<Vec<String>>,
    specification: Option<String>,
    build_specification: Option<String>,
    deployment_retention: Option<u32>,
    /// What a server knows as an option of the function.
    pub network: Option<FileNetwork>,
}

impl FunctionFile {
    /// Reads the file of a folder.
    ///
    /// # Errors
    /// When it is not there or says what cannot be; the text names the line.
    pub fn read(folder: &Path) -> Result<FunctionFile> {
        let path = folder.join(FILE);
        let shown = || path.display().to_string();
        let status = fs::metadata(&path).map_err(|error| {
            anyhow!(
                "cannot read {} ({error}). `tidemark function init NAME` makes a folder that has \
                 one",
                path.display()
            )
        })?;
        ensure!(
            status.len() <= BYTES_MAX,
            "{} has more than {BYTES_MAX} bytes",
            path.display()
        );
        let text = fs::read_to_string(&path).with_context(shown)?;
        let file = FunctionFile::parse(&text).with_context(shown)?;
        ensure!(
            folder.join(&file.entrypoint).is_file(),
            "{}: `entrypoint` names `{}`, and the folder has no such file",
            path.display(),
            file.entrypoint
        );
        Ok(file)
    }

    fn parse(text: &str) -> Result<FunctionFile> {
        let file: FunctionFile = toml::from_str(text)?;
        FunctionId::new(&file.id).map_err(|error| anyhow!("`id`: {error}"))?;
        let place = Path::new(&file.entrypoint);
        let is_inside = place
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside || file.entrypoint.is_empty() {
            bail!("`entrypoint` must be the path of a file in the folder");
        }
        Ok(file)
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        self.name.as_ref().unwrap_or(&self.id)
    }

    /// Processors and memory of its processes.
    ///
    /// # Errors
    /// When the file names one of another form.
    pub fn specification(&self) -> Result<Specification> {
        let named = self.specification.as_deref();
        let named = named.unwrap_or(SPECIFICATION_DEFAULT);
        Specification::parse(named).ok_or_else(|| {
            anyhow!("`specification` is `{named}`, which is not of the form s-0.5vcpu-512mb")
        })
    }

    /// What the server is to have, by its names on the wire.
    pub fn settings(&self) -> Map<String, Value> {
        let mut settings = Map::new();
        settings.insert("name".into(), json!(self.name()));
        settings.insert("runtime".into(), json!(self.runtime));
        settings.insert("entrypoint".into(), json!(self.entrypoint));
        let given = [
            ("commands", self.commands.as_ref().map(|given| json!(given))),
            ("execute", self.execute.as_ref().map(|given| json!(given))),
            ("events", self.events.as_ref().map(|given| json!(given))),
            ("schedule", self.schedule.as_ref().map(|given| json!(given))),
            ("timeout", self.timeout.map(Value::from)),
            ("enabled", self.enabled.map(Value::from)),
            ("logging", self.logging.map(Value::from)),
            ("scopes", self.scopes.as_ref().map(|given| json!(given))),
            (
                "runtimeSpecification",
                self.specification.as_ref().map(|given| json!(given)),
            ),
            (
                "buildSpecification",
                self.build_specification.as_ref().map(|given| json!(given)),
            ),
            (
                "deploymentRetention",
                self.deployment_retention.map(Value::from),
            ),
        ];
        let given = given.into_iter();
        settings.extend(given.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        settings
    }
}

/// The id that was given, or that of the folder in which the command runs.
///
/// # Errors
/// When there is neither.
pub fn id_or_folder(given: Option<&String>) -> Result<String> {
    if let Some(id) = given {
        return Ok(id.clone());
    }
    let folder = PathBuf::from(".");
    ensure!(
        folder.join(FILE).exists(),
        "no function is named, and this folder has no {FILE}; `tidemark function list` shows the \
         functions of the project"
    );
    Ok(FunctionFile::read(&folder)?.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "id = \"a\"\nruntime = \"node-22\"\nentrypoint = \"lib/a.mjs\"\n";

    #[test]
    fn settings_are_those_that_the_file_names() {
        let file = FunctionFile::parse(LEAST).unwrap();
        let settings = Value::Object(file.settings());
        let least = json!({"name": "a", "runtime": "node-22", "entrypoint": "lib/a.mjs"});
        assert_eq!(settings, least);
        let more = "name = \"A\"\ncommands = \"x\"\nexecute = [\"any\"]\nevents = []\n\
            schedule = \"\"\ntimeout = 20\nenabled = false\nlogging = true\nscopes = []\n\
            specification = \"s-1vcpu-1gb\"\nbuild_specification = \"s-2vcpu-2gb\"\n\
            deployment_retention = 7\n";
        let file = FunctionFile::parse(&format!("{LEAST}{more}")).unwrap();
        let settings = file.settings();
        assert_eq!(settings.len(), 14);
        assert_eq!(settings["name"], "A");
        assert_eq!(settings["runtimeSpecification"], "s-1vcpu-1gb");
        assert_eq!(settings["deploymentRetention"], 7);
    }

    #[test]
    fn a_file_that_cannot_be_is_refused_with_its_field() {
        let check = |text: &str, part: &str| {
            let error = format!("{:#}", FunctionFile::parse(text).unwrap_err());
            assert!(error.contains(part), "`{part}` is not in: {error}");
        };
        check("", "missing field `id`");
        check(&format!("{LEAST}timeot = 1"), "unknown field `timeot`");
        check(&format!("{LEAST}timeout = \"1\""), "line 4");
        check(&format!("{LEAST}network = \"all\""), "`none` or `outside`");
        check(&format!("{LEAST}timeout = -1"), "line 4");
        check(&LEAST.replace("\"a\"", "\"_a b\""), "`id`");
        for place in ["", "/etc/passwd", "../a.mjs", "a/../../b", "./a.mjs"] {
            check(&LEAST.replace("lib/a.mjs", place), "`entrypoint` must be");
        }
    }
}
