//! Which interpreters this host has, and how a process of each is started.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::probe::print_of;

/// A manifest and its adapter, as they stand in `runtimes/`.
const EMBEDDED: [(&str, &str); 2] = [
    (
        include_str!("../../../runtimes/node/manifest.toml"),
        include_str!("../../../runtimes/node/adapter.mjs"),
    ),
    (
        include_str!("../../../runtimes/python/manifest.toml"),
        include_str!("../../../runtimes/python/adapter.py"),
    ),
];

/// Why an interpreter is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeError {
    /// No folder of the search path has the program.
    NotFound {
        /// The name that was looked for.
        program: String,
    },
    /// The program does not start, or prints something else than its version.
    Unreadable {
        /// Where it is.
        program: PathBuf,
        /// What went wrong.
        detail: String,
    },
    /// The adapter needs a newer one.
    TooOld {
        /// Where it is.
        program: PathBuf,
        /// What it prints.
        version: String,
        /// What the adapter needs.
        oldest: String,
    },
    /// An id that no adapter of ours runs.
    Unknown {
        /// As it was given.
        id: String,
    },
    /// The interpreter has another version than the id says.
    Mismatch {
        /// As it was given.
        id: String,
        /// Where it is.
        program: PathBuf,
        /// What it prints.
        version: String,
    },
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuntimeError::NotFound { program } => {
                write!(formatter, "`{program}` is not on the search path")
            }
            RuntimeError::Unreadable { program, detail } => {
                write!(
                    formatter,
                    "{} does not say its version: {detail}",
                    program.display()
                )
            }
            RuntimeError::TooOld {
                program,
                version,
                oldest,
            } => write!(
                formatter,
                "{} is version {version}; functions need {oldest} or newer",
                program.display()
            ),
            RuntimeError::Unknown { id } => {
                write!(formatter, "no functions can be run in `{id}`")
            }
            RuntimeError::Mismatch {
                id,
                program,
                version,
            } => write!(
                formatter,
                "{} is version {version}, which is not `{id}`",
                program.display()
            ),
        }
    }
}

impl std::error::Error for RuntimeError {}

/// A language: what its manifest says.
#[derive(Clone, Debug)]
struct RuntimeManifest {
    name: String,
    adapter: String,
    adapter_text: &'static str,
    program: String,
    probe: Vec<String>,
    arguments: Vec<String>,
    compile: Vec<String>,
    compile_adapter: Vec<String>,
    compiled_adapter: String,
    oldest: (u32, u32),
    /// Whether the second number of a version counts, besides the first.
    counts_minor: bool,
    ids: Vec<String>,
    memory_words: Vec<String>,
}

impl RuntimeManifest {
    fn all() -> Vec<RuntimeManifest> {
        let read =
            |(manifest, adapter): (&str, &'static str)| RuntimeManifest::parse(manifest, adapter);
        EMBEDDED.into_iter().map(read).collect()
    }

    /// The manifests are embedded: one that cannot be read is a mistake of ours.
    fn parse(manifest: &str, adapter_text: &'static str) -> RuntimeManifest {
        let table: toml::Table = manifest.parse().expect("a manifest is TOML");
        let text = |key: &str| table[key].as_str().expect("a text").to_owned();
        let texts = |key: &str| -> Vec<String> {
            let list = table[key].as_array().expect("a list");
            let texts = list
                .iter()
                .map(|text| text.as_str().expect("a text").to_owned());
            texts.collect()
        };
        RuntimeManifest {
            name: text("name"),
            adapter: text("adapter"),
            adapter_text,
            program: text("program"),
            probe: texts("probe"),
            arguments: texts("arguments"),
            compile: texts("compile"),
            compile_adapter: texts("compile_adapter"),
            compiled_adapter: text("compiled_adapter"),
            oldest: numbers(&text("oldest")).expect("a version"),
            counts_minor: text("matched") == "minor",
            ids: texts("ids"),
            memory_words: texts("memory_words"),
        }
    }

    /// Whether an interpreter of this version answers to the id, which ends in numbers.
    fn answers_to(&self, id: &str, version: (u32, u32)) -> bool {
        let Some((_, wanted)) = id.rsplit_once('-') else {
            return false;
        };
        let Some((major, minor)) = numbers(wanted) else {
            return false;
        };
        major == version.0 && (!self.counts_minor || minor == version.1)
    }

    /// Starts the interpreter to learn what it is.
    fn inspect(&self, program: &Path) -> Result<InstalledRuntime, RuntimeError> {
        let unreadable = |detail: String| RuntimeError::Unreadable {
            program: program.to_owned(),
            detail,
        };
        let printed = print_of(program, &self.probe).map_err(unreadable)?;
        let value: Value = serde_json::from_str(printed.trim())
            .map_err(|error| unreadable(format!("{error} in {printed:?}")))?;
        let version = value["version"].as_str().unwrap_or_default().to_owned();
        let counted = numbers(&version).ok_or_else(|| unreadable(printed.clone()))?;
        let real = value["program"].as_str().map(PathBuf::from);
        if counted < self.oldest {
            return Err(RuntimeError::TooOld {
                program: program.to_owned(),
                version,
                oldest: format!("{}.{}", self.oldest.0, self.oldest.1),
            });
        }
        let folders = value["folders"].as_array().into_iter().flatten();
        let folders = folders.filter_map(|folder| folder.as_str().map(PathBuf::from));
        let ids = self.ids.iter().filter(|id| self.answers_to(id, counted));
        Ok(InstalledRuntime {
            name: self.name.clone(),
            version,
            program: real.ok_or_else(|| unreadable(printed.clone()))?,
            folders: folders.collect(),
            ids: ids.cloned().collect(),
            adapter: self.adapter.clone(),
            adapter_text: self.adapter_text,
            arguments: self.arguments.clone(),
            compile: self.compile.clone(),
            compile_adapter: self.compile_adapter.clone(),
            compiled_adapter: self.compiled_adapter.clone(),
            memory_words: self.memory_words.clone(),
        })
    }
}

/// The first two numbers of a version; the second is 0 where there is one alone.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().map_or(Some(0), |minor| minor.parse().ok())?;
    Some((major, minor))
}

/// An interpreter of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledRuntime {
    /// `node` or `python`.
    pub name: String,
    /// As the interpreter says it.
    pub version: String,
    /// The interpreter itself.
    pub program: PathBuf,
    /// What it reads besides the folders of the system.
    pub folders: Vec<PathBuf>,
    /// The ids it answers to; none for a version without an id.
    pub ids: Vec<String>,
    pub(crate) adapter: String,
    pub(crate) adapter_text: &'static str,
    arguments: Vec<String>,
    /// What it is started with to compile the code in its folder; nothing where it does not.
    pub(crate) compile: Vec<String>,
    compile_adapter: Vec<String>,
    compiled_adapter: String,
    memory_words: Vec<String>,
}

impl InstalledRuntime {
    /// One that starts nothing.
    #[cfg(test)]
    pub(crate) fn pretended(id: &str) -> InstalledRuntime {
        InstalledRuntime {
            name: "pretended".to_owned(),
            version: "1".to_owned(),
            program: PathBuf::new(),
            folders: Vec::new(),
            ids: vec![id.to_owned()],
            adapter: String::new(),
            adapter_text: "",
            arguments: Vec::new(),
            compile: Vec::new(),
            compile_adapter: Vec::new(),
            compiled_adapter: String::new(),
            memory_words: Vec::new(),
        }
    }

    /// What the interpreter is started with.
    pub(crate) fn arguments(&self, adapter: &Path, memory_mib: u32) -> Vec<String> {
        let heap = (memory_mib / 4 * 3).max(16).to_string();
        let adapter = adapter.to_string_lossy();
        let fill = |argument: &String| {
            let filled = argument.replace("{heap_mib}", &heap);
            filled.replace("{adapter}", &adapter)
        };
        self.arguments.iter().map(fill).collect()
    }

    /// Whether what it loads can be compiled before.
    pub fn compiles(&self) -> bool {
        !self.compile.is_empty()
    }

    /// Writes the adapter, which lies in this folder, in the form that is loaded the fastest: its
    /// path. `nth` is a number that no other interpreter has. `None` where there is no such form,
    /// or it cannot be made: the adapter itself will do.
    pub(crate) fn compile_adapter(&self, folder: &Path, nth: usize) -> Option<PathBuf> {
        if self.compile_adapter.is_empty() {
            return None;
        }
        let compiled = folder.join(format!("{nth}-{}", self.compiled_adapter));
        let (from, to) = (folder.join(&self.adapter), compiled.to_string_lossy());
        let fill = |argument: &String| {
            let filled = argument.replace("{adapter}", &from.to_string_lossy());
            filled.replace("{compiled}", &to)
        };
        let arguments: Vec<String> = self.compile_adapter.iter().map(fill).collect();
        print_of(&self.program, &arguments).ok()?;
        compiled.is_file().then_some(compiled)
    }

    /// Whether these last words are of an interpreter that ran out of memory.
    pub(crate) fn lacked_memory(&self, last_words: &str) -> bool {
        let mut words = self.memory_words.iter();
        words.any(|word| last_words.contains(word.as_str()))
    }
}

/// The interpreters of this host, and those that were looked for in vain.
#[derive(Clone, Debug, Default)]
pub struct InstalledRuntimes {
    found: Vec<InstalledRuntime>,
    missing: Vec<RuntimeError>,
}

impl InstalledRuntimes {
    /// Looks for one interpreter of each language on the search path (as `PATH` holds it), and
    /// for those that are named: pairs of an id, such as `node-22`, and a program.
    pub fn find(search_path: &OsStr, named: &[(String, PathBuf)]) -> InstalledRuntimes {
        let mut runtimes = InstalledRuntimes::default();
        let manifests = RuntimeManifest::all();
        for (id, program) in named {
            let added = named_runtime(&manifests, id, program);
            runtimes.add(added);
        }
        for manifest in &manifests {
            let program = on_path(search_path, &manifest.program);
            let found = program.ok_or_else(|| RuntimeError::NotFound {
                program: manifest.program.clone(),
            });
            runtimes.add(found.and_then(|program| manifest.inspect(&program)));
        }
        runtimes
    }

    fn add(&mut self, runtime: Result<InstalledRuntime, RuntimeError>) {
        match runtime {
            Ok(runtime) => self.found.push(runtime),
            Err(error) => self.missing.push(error),
        }
    }

    /// The languages that functions can be written in, by name, and the ids of each.
    pub fn known() -> Vec<(String, Vec<String>)> {
        let known = RuntimeManifest::all().into_iter();
        known
            .map(|manifest| (manifest.name, manifest.ids))
            .collect()
    }

    /// The interpreters, those that were named first.
    pub fn found(&self) -> &[InstalledRuntime] {
        &self.found
    }

    /// What was looked for in vain, or cannot be used.
    pub fn missing(&self) -> &[RuntimeError] {
        &self.missing
    }

    /// The interpreter that answers to an id. `node-20` is read as `node-20.0`.
    pub fn by_id(&self, id: &str) -> Option<&InstalledRuntime> {
        let longer = format!("{id}.0");
        let answers = |known: &String| known == id || *known == longer;
        self.found
            .iter()
            .find(|runtime| runtime.ids.iter().any(answers))
    }
}

fn named_runtime(
    manifests: &[RuntimeManifest],
    id: &str,
    program: &Path,
) -> Result<InstalledRuntime, RuntimeError> {
    let longer = format!("{id}.0");
    let knows = |manifest: &&RuntimeManifest| {
        let mut ids = manifest.ids.iter();
        ids.any(|known| known == id || *known == longer)
    };
    let manifest = manifests
        .iter()
        .find(knows)
        .ok_or_else(|| RuntimeError::Unknown { id: id.to_owned() })?;
    let runtime = manifest.inspect(program)?;
    let is_meant = runtime
        .ids
        .iter()
        .any(|known| known == id || *known == longer);
    if !is_meant {
        return Err(RuntimeError::Mismatch {
            id: id.to_owned(),
            program: program.to_owned(),
            version: runtime.version,
        });
    }
    Ok(runtime)
}

/// Where a shell would find the program.
fn on_path(search_path: &OsStr, program: &str) -> Option<PathBuf> {
    let folders = std::env::split_paths(search_path);
    let mut places = folders.map(|folder| folder.join(program));
    places.find(|place| {
        place.is_absolute()
            && place.is_file()
            && rustix::fs::access(place, rustix::fs::Access::EXEC_OK).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str) -> RuntimeManifest {
        let mut all = RuntimeManifest::all().into_iter();
        all.find(|manifest| manifest.name == name).unwrap()
    }

    #[test]
    fn an_id_is_matched_by_the_numbers_that_count() {
        let node = manifest("node");
        assert!(node.answers_to("node-20.0", (20, 20)));
        assert!(node.answers_to("node-22", (22, 1)));
        assert!(!node.answers_to("node-20.0", (22, 0)));
        let python = manifest("python");
        assert!(python.answers_to("python-3.11", (3, 11)));
        assert!(!python.answers_to("python-3.1", (3, 11)));
        assert!(!python.answers_to("python-3.12", (3, 11)));
    }

    #[test]
    fn a_runtime_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let runtimes = InstalledRuntimes::find(
            path.as_os_str(),
            &[
                ("ruby-3.3".to_owned(), path.join("ruby")),
                ("node-22".to_owned(), path.join("node")),
                ("node-22".to_owned(), PathBuf::from("/bin/echo")),
            ],
        );
        assert!(runtimes.found().is_empty());
        let missing: Vec<String> = runtimes.missing().iter().map(ToString::to_string).collect();
        assert_eq!(missing[0], "no functions can be run in `ruby-3.3`");
        assert!(
            missing[1].contains("does not say its version: No such file"),
            "{missing:?}"
        );
        assert!(
            missing[2].contains("does not say its version"),
            "{missing:?}"
        );
        assert_eq!(missing[3], "`node` is not on the search path");
        assert_eq!(missing[4], "`python3` is not on the search path");
    }

    /// An interpreter that says to have this version. Written by another process: a file that this
    /// one writes cannot be started while another thread of it starts something.
    fn pretended(folder: &Path, version: &str) -> PathBuf {
        const WRITE: &str = r##"printf "#!/bin/sh\necho '%s'\n" "$2" > "$1" && chmod +x "$1""##;
        let program = folder.join(version);
        let said = format!(r#"{{"version":"{version}","program":"/bin/true","folders":[]}}"#);
        let mut shell = std::process::Command::new("sh");
        let written = shell
            .args(["-c", WRITE, "sh"])
            .arg(&program)
            .arg(said)
            .status();
        assert!(written.unwrap().success());
        program
    }

    #[test]
    fn a_runtime_that_is_named_stands_in_for_the_id_of_its_version_alone() {
        let folder = tempfile::tempdir().unwrap();
        let node = pretended(folder.path(), "22.5.1");
        let runtimes = InstalledRuntimes::find(
            folder.path().as_os_str(),
            &[
                ("node-22".to_owned(), node.clone()),
                ("node-20".to_owned(), pretended(folder.path(), "20.1.0")),
                ("node-20.0".to_owned(), node),
                ("python-3.8".to_owned(), pretended(folder.path(), "3.8.1")),
            ],
        );
        let version = |id: &str| runtimes.by_id(id).map(|runtime| runtime.version.as_str());
        assert_eq!(version("node-22"), Some("22.5.1"));
        assert_eq!(version("node-20.0"), Some("20.1.0"));
        assert_eq!(version("node-20"), Some("20.1.0"));
        assert_eq!(version("node-18.0"), None);
        let missing: Vec<String> = runtimes.missing().iter().map(ToString::to_string).collect();
        assert!(
            missing[0].ends_with("is version 22.5.1, which is not `node-20.0`"),
            "{missing:?}"
        );
        assert!(
            missing[1].ends_with("is version 3.8.1; functions need 3.9 or newer"),
            "{missing:?}"
        );
    }

    #[test]
    fn a_runtime_keeps_a_quarter_of_its_memory_beside_the_heap() {
        let arguments = manifest("node").arguments;
        assert_eq!(arguments, ["--max-old-space-size={heap_mib}", "{adapter}"]);
    }
}
