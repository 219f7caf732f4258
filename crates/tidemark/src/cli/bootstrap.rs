//! The first start: which project and key are there, and where they are printed.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use engine::{Engine, EngineError, NewKey, SchemaError};
use model::catalogue::SecretHash;
use model::{KeyId, ProjectId, Scope};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use server::rng::Rng;
use server::secret::{KeySecret, draw_id, hex};

use super::whole_file::write_whole;
use crate::config::Bootstrap;

/// The id of the key that the environment gives: one for each project, replaced when the
/// environment gives another secret.
const ENVIRONMENT_KEY: &str = "environment";
/// The name of the first start's key.
const FIRST_KEY_NAME: &str = "First start";
/// The name of keys made for a bootstrap file alone.
const FILE_KEY_NAME: &str = "bootstrap";

/// What stands in the data directory once a start is prepared.
pub struct Prepared {
    /// Every project, in order of creation.
    pub projects: Vec<ProjectId>,
    /// The key that was made by this start and is to be shown, this once.
    pub shown_once: Option<KeySecret>,
    /// The project and key for the bootstrap file.
    pub file: Option<(ProjectId, KeySecret)>,
}

/// What the bootstrap file holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connection {
    endpoint: String,
    project_id: String,
    api_key: String,
}

/// Makes what is absent: the project, the environment's key or a first one, and a key for the
/// bootstrap file.
///
/// # Errors
/// When the engine refuses, or the environment's key belongs to another project.
pub async fn prepare(engine: &Engine, rng: Rng, wanted: &Bootstrap) -> Result<Prepared> {
    let created = create_project(engine, wanted).await?;
    let first = match &wanted.key {
        Some(secret) => {
            keep_environment_key(engine, &wanted.project, secret).await?;
            None
        }
        None if created => Some(create_first_key(engine, rng, &wanted.project).await?),
        None => None,
    };
    let projects: Vec<ProjectId> = engine
        .list_projects()
        .iter()
        .map(|project| project.id.clone())
        .collect();
    let file = match (&wanted.file, &projects[..]) {
        (Some(path), [oldest, ..]) => {
            let project = if projects.contains(&wanted.project) {
                &wanted.project
            } else {
                oldest
            };
            let known = wanted.key.clone().or_else(|| first.clone());
            Some((
                project.clone(),
                key_for_file(engine, rng, project, path, known).await?,
            ))
        }
        _ => None,
    };
    Ok(Prepared {
        projects,
        shown_once: first,
        file,
    })
}

/// Makes the project when it is absent and was asked for: by name, by its key, or by a data
/// directory without any project. Says whether it did.
async fn create_project(engine: &Engine, wanted: &Bootstrap) -> Result<bool> {
    let projects = engine.list_projects();
    let asked_for = wanted.named || wanted.key.is_some() || projects.is_empty();
    if !asked_for || projects.iter().any(|project| project.id == wanted.project) {
        return Ok(false);
    }
    let made = engine
        .create_project(wanted.project.clone(), wanted.project.to_string())
        .await;
    made.with_context(|| format!("cannot create project {}", wanted.project))?;
    Ok(true)
}

async fn keep_environment_key(
    engine: &Engine,
    project: &ProjectId,
    secret: &KeySecret,
) -> Result<()> {
    let hash = secret.hash();
    let keys = engine.list_keys(project.as_str())?;
    if keys
        .iter()
        .any(|key| key.id.as_str() == ENVIRONMENT_KEY && key.secret_hash != hash)
    {
        engine.revoke_key(project.as_str(), ENVIRONMENT_KEY).await?;
        tracing::info!(%project, "the environment gives another API key; the former is revoked");
    }
    if keys.iter().any(|key| key.secret_hash == hash) {
        return Ok(());
    }
    match create_key(engine, project, ENVIRONMENT_KEY, "TIDEMARK_API_KEY", hash).await {
        Err(EngineError::Schema(SchemaError::KeyExists)) => Err(anyhow!(
            "TIDEMARK_API_KEY opens another project already; a secret opens one project only"
        )),
        made => Ok(made?),
    }
}

async fn create_first_key(engine: &Engine, rng: Rng, project: &ProjectId) -> Result<KeySecret> {
    let secret = KeySecret::draw(rng);
    create_key(
        engine,
        project,
        &draw_id(rng),
        FIRST_KEY_NAME,
        secret.hash(),
    )
    .await?;
    Ok(secret)
}

async fn create_key(
    engine: &Engine,
    project: &ProjectId,
    id: &str,
    name: &str,
    secret_hash: SecretHash,
) -> Result<(), EngineError> {
    let key = NewKey {
        project: project.clone(),
        id: KeyId::new(id).expect("ids made here follow the rule"),
        name: name.to_owned(),
        scopes: Scope::ALL.to_vec(),
        expires: None,
        secret_hash,
    };
    engine.create_key(key).await.map(|_| ())
}

/// The key known to this start; else the one in the file, while it opens the project; else a new
/// one in place of the one made for this path before.
async fn key_for_file(
    engine: &Engine,
    rng: Rng,
    project: &ProjectId,
    path: &Path,
    known: Option<KeySecret>,
) -> Result<KeySecret> {
    if let Some(known) = known {
        return Ok(known);
    }
    let keys = engine.list_keys(project.as_str())?;
    if let Some(secret) = read_key(path)
        && keys
            .iter()
            .any(|key| key.secret_hash == secret.hash() && key.expires.is_none())
    {
        return Ok(secret);
    }
    let id = file_key_id(path)?;
    if keys.iter().any(|key| key.id.as_str() == id) {
        engine.revoke_key(project.as_str(), &id).await?;
    }
    let secret = KeySecret::draw(rng);
    create_key(engine, project, &id, FILE_KEY_NAME, secret.hash()).await?;
    tracing::info!(%project, path = %path.display(), "made a new key for the bootstrap file");
    Ok(secret)
}

/// The same for the same path, so that a new key replaces the former one of that file.
fn file_key_id(path: &Path) -> io::Result<String> {
    let whole = std::path::absolute(path)?;
    let hash = digest(&SHA256, whole.as_os_str().as_encoded_bytes());
    Ok(format!("{FILE_KEY_NAME}-{}", hex(&hash.as_ref()[..8])))
}

fn read_key(path: &Path) -> Option<KeySecret> {
    let written: Connection = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    KeySecret::new(&written.api_key).ok()
}

impl Prepared {
    /// Writes the bootstrap file: whole or not at all, and never readable by others.
    ///
    /// # Errors
    /// When its folder cannot be written.
    pub fn write_file(&self, path: &Path, endpoint: &str) -> Result<()> {
        let Some((project, key)) = &self.file else {
            return Ok(());
        };
        let connection = Connection {
            endpoint: endpoint.to_owned(),
            project_id: project.to_string(),
            api_key: key.reveal().to_owned(),
        };
        let text = serde_json::to_string(&connection)?;
        write_whole(path, text.as_bytes(), 0o600)
            .with_context(|| format!("cannot write the bootstrap file {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_path_has_one_id() {
        let id = file_key_id(Path::new("a/b.json")).unwrap();
        assert_eq!(id, file_key_id(Path::new("./a/b.json")).unwrap());
        assert_ne!(id, file_key_id(Path::new("a/c.json")).unwrap());
        assert!(KeyId::new(&id).is_ok(), "{id}");
    }
}
