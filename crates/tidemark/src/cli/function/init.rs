//! `tidemark function init`: a first function in a folder of its own.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use functions::InstalledRuntimes;
use functions::source::IGNORE_FILE;
use model::FunctionId;

use super::function_file::FILE;
use super::say;
use crate::config::search_path;

/// The options of `tidemark function init`.
#[derive(Args)]
pub struct InitArgs {
    /// The function's id, which is also the name of the new folder
    name: String,
    /// A runtime such as node-20.0, node-22 or python-3.11 [default: the first of this machine]
    #[arg(long, value_name = "ID")]
    runtime: Option<String>,
    /// The folder [default: one of the function's name]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// What a language begins with.
struct FirstFiles {
    language: &'static str,
    entrypoint: &'static str,
    code: &'static str,
    /// What git is not to keep.
    left_out: &'static str,
    /// What is sent all the same.
    sent: Option<&'static str>,
}

const LANGUAGES: [FirstFiles; 2] = [
    FirstFiles {
        language: "node",
        entrypoint: "index.mjs",
        code: include_str!("templates/index.mjs"),
        left_out: ".env\nnode_modules/\n",
        sent: Some("# Packages that are sent with the code need no registry.\n!node_modules/\n"),
    },
    FirstFiles {
        language: "python",
        entrypoint: "main.py",
        code: include_str!("templates/main.py"),
        left_out: ".env\n.venv/\n__pycache__/\n",
        sent: None,
    },
];

/// # Errors
/// When the name or the runtime cannot be, or a file is there already.
pub fn run(args: &InitArgs) -> Result<()> {
    FunctionId::new(&args.name)
        .map_err(|error| anyhow!("a function cannot be called `{}`: {error}", args.name))?;
    let runtime = match &args.runtime {
        Some(runtime) => runtime.clone(),
        None => first_runtime()?,
    };
    let language = language_of(&runtime)?;
    let folder = args.folder.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from(&args.name));
    let definition = include_str!("templates/function.toml")
        .replace("{id}", &args.name)
        .replace("{runtime}", &runtime)
        .replace("{entrypoint}", language.entrypoint);
    let mut files = vec![
        (FILE, definition.as_str()),
        (language.entrypoint, language.code),
        (".gitignore", language.left_out),
    ];
    files.extend(language.sent.map(|sent| (IGNORE_FILE, sent)));
    write_new(&folder, &files)?;
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    say(&format!(
        "Made function `{}` for {runtime} in {}: {}.\n{}",
        args.name,
        folder.display(),
        names.join(", "),
        next_steps(&folder)
    ))
}

fn next_steps(folder: &Path) -> String {
    format!(
        "\nNext:\n  cd {}\n  tidemark function dev\n  tidemark function deploy\n  \
         tidemark function run --body '{{\"n\":1}}'\n\n\
         `dev` serves it on a port of this machine. `deploy` and `run` use the server that --data, \
         or TIDEMARK_ENDPOINT and TIDEMARK_API_KEY, name.\n",
        folder.display()
    )
}

/// All or none: what is there is looked for before anything is written.
fn write_new(folder: &Path, files: &[(&str, &str)]) -> Result<()> {
    for (name, _) in files {
        let path = folder.join(name);
        // A link to nothing counts, too.
        ensure!(
            path.symlink_metadata().is_err(),
            "{} is there already, and nothing was written",
            path.display()
        );
    }
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, content) in files {
        let path = folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(content.as_bytes()));
        match written {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{} is there already", path.display())
            }
            written => written.with_context(|| format!("cannot write {}", path.display()))?,
        }
    }
    Ok(())
}

/// # Errors
/// When no language of ours has this id.
fn language_of(runtime: &str) -> Result<&'static FirstFiles> {
    let known = InstalledRuntimes::known();
    let longer = format!("{runtime}.0");
    let found = known
        .iter()
        .find(|(_, ids)| ids.iter().any(|id| id == runtime || *id == longer));
    let found = found.and_then(|(name, _)| LANGUAGES.iter().find(|one| one.language == name));
    found.ok_or_else(|| {
        let ids: Vec<&str> = known
            .iter()
            .flat_map(|(_, ids)| ids.iter().map(String::as_str))
            .collect();
        anyhow!(
            "functions cannot be written for `{runtime}`; the runtimes are {}",
            ids.join(", ")
        )
    })
}

fn first_runtime() -> Result<String> {
    let installed = InstalledRuntimes::find(&search_path(), &[]);
    let mut ids = installed.found().iter().flat_map(|runtime| &runtime.ids);
    ids.next().cloned().ok_or_else(|| {
        let missing: Vec<String> = installed
            .missing()
            .iter()
            .map(ToString::to_string)
            .collect();
        anyhow!(
            "this machine has no interpreter for functions ({}). Name a runtime of the server with \
             --runtime, such as node-20.0 or python-3.11",
            missing.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_has_first_files_or_is_refused_with_those_that_have() {
        for (runtime, entrypoint) in [
            ("node-20.0", "index.mjs"),
            ("node-20", "index.mjs"),
            ("node-22", "index.mjs"),
            ("python-3.11", "main.py"),
        ] {
            assert_eq!(language_of(runtime).unwrap().entrypoint, entrypoint);
        }
        for runtime in ["", "node", "node-20.1", "ruby-3.3", "python-3"] {
            let error = language_of(runtime).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("node-20.0"), "{error}");
        }
    }

    #[test]
    fn first_files_are_written_where_none_of_them_is() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new");
        write_new(&place, &[("a", "1"), ("b", "2")]).unwrap();
        let error = write_new(&place, &[("c", "3"), ("b", "4")]).unwrap_err();
        assert!(error.to_string().contains("b is there already"), "{error}");
        assert_eq!(fs::read_to_string(place.join("b")).unwrap(), "2");
        assert!(!place.join("c").exists());
        std::os::unix::fs::symlink("nowhere", place.join("d")).unwrap();
        assert!(write_new(&place, &[("d", "5")]).is_err());
    }
}
