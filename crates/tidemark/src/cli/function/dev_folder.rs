//! The folder of a function that is being written: what it says now, and whether that has changed.

use std::path::{Path, PathBuf};

use anyhow::Result;
use functions::UnpackedDeployment;
use functions::source::{SourceEntry, VARIABLES_FILE, watch_list};
use model::function::FUNCTION_TIMEOUT_S_DEFAULT;
use server::functions::OwnVariables;

use super::deploy::BOUNDS;
use super::function_file::{FileNetwork, FunctionFile};
use super::variables_file;

/// What a process is called that runs the folder.
pub const DEPLOYMENT: &str = "dev";
/// Executions that one process has in work at once, as on a server (wire protocol, functions).
const CONCURRENCY: usize = 32;

/// The folder, as it was read last.
pub struct DevFolder {
    folder: PathBuf,
    seen: Vec<SourceEntry>,
    revision: u64,
    /// What the file of the function says.
    pub file: FunctionFile,
    /// What `.env` says.
    variables: Vec<(String, String)>,
}

impl DevFolder {
    /// # Errors
    /// When a file of the folder cannot be read, or says what cannot be.
    pub fn open(folder: &Path) -> Result<DevFolder> {
        // Before they are read: what is saved meanwhile is seen by the next look.
        let seen = watch_list(folder, BOUNDS.entries_max)?;
        let (file, variables) = read(folder)?;
        Ok(DevFolder {
            folder: std::path::absolute(folder)?,
            seen,
            revision: 1,
            file,
            variables,
        })
    }

    /// The first path that has changed since the last look, if any has; all is read again then.
    ///
    /// # Errors
    /// As [`DevFolder::open`], once for each change: what was read before stays.
    pub fn look(&mut self) -> Result<Option<String>> {
        let now = watch_list(&self.folder, BOUNDS.entries_max)?;
        let Some(changed) = changed(&self.seen, &now) else {
            return Ok(None);
        };
        let changed = changed.display().to_string();
        self.seen = now;
        (self.file, self.variables) = read(&self.folder)?;
        self.revision += 1;
        Ok(Some(changed))
    }

    /// Seconds that a run may take.
    pub fn timeout_s(&self) -> u32 {
        self.file.timeout.unwrap_or(FUNCTION_TIMEOUT_S_DEFAULT)
    }

    /// Whether it has the network `outside`.
    pub fn reaches_outside(&self) -> bool {
        self.file.network == Some(FileNetwork::Outside)
    }

    /// The folder as the executor takes it. `own` are the variables that every function finds.
    ///
    /// # Errors
    /// When the specification cannot be read.
    pub fn deployment(&self, project: &str) -> Result<UnpackedDeployment> {
        let specification = self.file.specification()?;
        let own = OwnVariables {
            project,
            id: &self.file.id,
            name: self.file.name(),
            runtime: &self.file.runtime,
            deployment: DEPLOYMENT,
            specification,
        };
        Ok(UnpackedDeployment {
            id: DEPLOYMENT.to_owned(),
            revision: self.revision,
            runtime: self.file.runtime.clone(),
            folder: self.folder.clone(),
            entrypoint: self.file.entrypoint.clone(),
            // Of equal names the last one counts.
            variables: self.variables.iter().cloned().chain(own.list()).collect(),
            memory_mib: specification.memory_mb,
            cpu_weight: specification.cpu_weight(),
            concurrency: CONCURRENCY,
            reaches_outside: self.reaches_outside(),
        })
    }
}

fn read(folder: &Path) -> Result<(FunctionFile, Vec<(String, String)>)> {
    let file = FunctionFile::read(folder)?;
    file.specification()?;
    let variables = folder.join(VARIABLES_FILE);
    let variables = if variables.exists() {
        variables_file::read(&variables)?
    } else {
        Vec::new()
    };
    Ok((file, variables))
}

/// Both lists are in the order of their paths.
fn changed<'a>(before: &'a [SourceEntry], now: &'a [SourceEntry]) -> Option<&'a Path> {
    let differs = before.iter().zip(now).find(|(before, now)| before != now);
    let (longer, shorter) = if before.len() > now.len() {
        (before, now)
    } else {
        (now, before)
    };
    let further = longer.get(shorter.len());
    let first = differs.map(|(before, now)| if before.path < now.path { before } else { now });
    first.or(further).map(|entry| entry.path.as_path())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &Path, name: &str, content: &str) {
        fs::write(folder.join(name), content).unwrap();
    }

    #[test]
    fn folder_is_read_again_when_a_file_of_it_changes() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        write(place, "a.mjs", "");
        let text = "id = \"a\"\nruntime = \"node-22\"\nentrypoint = \"a.mjs\"\n";
        write(place, "function.toml", text);
        let mut folder = DevFolder::open(place).unwrap();
        assert_eq!(folder.look().unwrap(), None);
        let first = folder.deployment("shop").unwrap();
        assert_eq!((first.revision, first.memory_mib), (1, 512));

        write(place, ".env", "A=1\nAPPWRITE_FUNCTION_ID=x\n");
        assert_eq!(folder.look().unwrap().as_deref(), Some(".env"));
        let second = folder.deployment("shop").unwrap();
        assert_eq!(second.revision, 2);
        assert!(second.variables.contains(&("A".into(), "1".into())));
        let id = ("APPWRITE_FUNCTION_ID".into(), "a".into());
        assert!(second.variables.iter().rfind(|(name, _)| *name == id.0) == Some(&id));

        fs::create_dir(place.join("node_modules")).unwrap();
        assert_eq!(folder.look().unwrap(), None);
        write(place, "b.mjs", "");
        assert_eq!(folder.look().unwrap().as_deref(), Some("b.mjs"));
        fs::remove_file(place.join("b.mjs")).unwrap();
        assert_eq!(folder.look().unwrap().as_deref(), Some("b.mjs"));

        write(place, "function.toml", &format!("{text}timeot = 1\n"));
        assert!(folder.look().is_err());
        assert_eq!(folder.look().unwrap(), None);
        assert_eq!(folder.timeout_s(), 15);
        assert!(!folder.deployment("shop").unwrap().reaches_outside);
        let more = "timeout = 7\nnetwork = \"outside\"\n";
        write(place, "function.toml", &format!("{text}{more}"));
        assert_eq!(folder.look().unwrap().as_deref(), Some("function.toml"));
        assert_eq!((folder.timeout_s(), folder.revision), (7, 5));
        assert!(folder.deployment("shop").unwrap().reaches_outside);
        write(
            place,
            "function.toml",
            &format!("{text}specification = \"big\"\n"),
        );
        assert!(
            folder
                .look()
                .unwrap_err()
                .to_string()
                .contains("`specification`")
        );
    }
}
