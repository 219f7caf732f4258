//! The right to use a server: what the command line gives, or a key that the server of this
//! machine makes for as long as a command runs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use client::Access;
use engine::{Clock, database_holder};
use model::calendar::iso_ms;
use model::{KeyId, ProjectId, Timestamp};

use super::runtime;
use crate::admin::act::{Act, KeyRecord, ProjectRecord, WantedKey};
use crate::admin::client::{Administration, endpoint_of};
use crate::config::{ConnectionArgs, DatabaseArgs, DirectoryArgs, LocalServer, StoreSite};

/// How long the running server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// After so many microseconds a key ends that could not be revoked: after every command that uses
/// one.
const KEY_LIFE_US: i64 = 2 * 24 * 3_600 * 1_000_000;

/// A key that was made for a command.
struct TemporaryKey {
    project: ProjectId,
    id: KeyId,
    access: Access,
}

/// Does `work` with the right to use a server. `name` is what the temporary key is called, where
/// one is made.
///
/// # Errors
/// When no key was given and no server of this machine can make one; those of `work`.
pub fn with_access<T>(
    connection: &ConnectionArgs,
    (name, clock): (&str, &dyn Clock),
    work: impl FnOnce(&Access) -> Result<T>,
) -> Result<T> {
    with_scoped_access(connection, (name, clock), Vec::new(), work)
}

/// As [`with_access`]; a temporary key has these scopes alone, or all without any.
///
/// # Errors
/// As [`with_access`].
pub fn with_scoped_access<T>(
    connection: &ConnectionArgs,
    (name, clock): (&str, &dyn Clock),
    scopes: Vec<String>,
    work: impl FnOnce(&Access) -> Result<T>,
) -> Result<T> {
    if let Some(access) = connection.check()? {
        return work(&access);
    }
    let key = runtime()?.block_on(TemporaryKey::make(connection, (name, scopes), clock.now()))?;
    let done = work(&key.access);
    let id = key.id.clone();
    if let Err(error) = runtime()?.block_on(key.revoke(&connection.data)) {
        eprintln!(
            "warning: the temporary API key {id} could not be revoked ({error:#}). It expires \
             within two days"
        );
    }
    done
}

impl TemporaryKey {
    async fn make(
        connection: &ConnectionArgs,
        (name, scopes): (&str, Vec<String>),
        now: Timestamp,
    ) -> Result<TemporaryKey> {
        let directory = connection.data.as_path();
        let found = Administration::of_running(directory).await?;
        let mut administration = found.ok_or_else(|| no_key(directory))?;
        let projects = administration.perform(Act::ListProjects).await?;
        let projects: Vec<ProjectRecord> = serde_json::from_value(projects)?;
        let server = LocalServer {
            endpoint: endpoint_of(directory, ANSWER_MAX).await?,
            projects: projects.into_iter().map(|project| project.id).collect(),
        };
        let project = connection.project_of(&server)?;
        let wanted = WantedKey {
            name: name.to_owned(),
            scopes,
            expire: Some(iso_ms(Timestamp(now.0 + KEY_LIFE_US))),
        };
        let create = Act::CreateKey {
            project: project.clone(),
            wanted,
        };
        let made = administration.perform(create).await?;
        let made: KeyRecord = serde_json::from_value(made)?;
        let id = KeyId::new(&made.id).map_err(|error| anyhow!("{error}"))?;
        let secret = made
            .secret
            .context("the running server made a key and kept it secret")?;
        let access = connection.access_to(&server, &project, &secret)?;
        Ok(TemporaryKey {
            project,
            id,
            access,
        })
    }

    /// Over a new connection: the command may have taken hours.
    async fn revoke(self, directory: &Path) -> Result<()> {
        let running = Administration::of_running(directory).await?;
        let mut administration = running.context("the server has stopped")?;
        let revoke = Act::RevokeKey {
            project: self.project,
            key: self.id,
        };
        administration.perform(revoke).await.map(drop)
    }
}

/// Where a database is named, a server must run on the data directory, or a key be given: only a
/// server answers.
///
/// # Errors
/// When none does; the text says who has the store of that database.
pub fn need_server(connection: &ConnectionArgs, database: &DatabaseArgs) -> Result<()> {
    let data = connection.data.clone();
    let site = database.check(&DirectoryArgs { data })?;
    if site.database.is_none() || connection.check()?.is_some() {
        return Ok(());
    }
    let running = runtime()?.block_on(Administration::of_running(&site.directory))?;
    running.map_or_else(|| Err(no_server(&site)), |_| Ok(()))
}

/// No server runs on the data directory. Who has the store, where that is in a database. Blocks.
pub fn no_server(site: &StoreSite) -> anyhow::Error {
    let directory = site.directory.display();
    let Some(database) = &site.database else {
        return anyhow!(
            "no server runs on the data directory {directory}. Give its path with --data"
        );
    };
    let url = &database.url;
    match database_holder(url, database.password_file.as_deref()) {
        Ok(Some(holder)) => anyhow!(
            "no server runs on the data directory {directory}. The store in the {url} is held by \
             {holder}: use this command where that server runs, with its --data"
        ),
        Ok(None) => anyhow!(
            "no server has the store in the {url}. Start `tidemark serve` with it, and give the \
             same --data here"
        ),
        Err(error) => error.into(),
    }
}

fn no_key(directory: &Path) -> anyhow::Error {
    anyhow!(
        "no API key is given, and no server runs on the data directory {}. Start `tidemark serve`, \
         name the directory of a running server with --data, or give a key with TIDEMARK_API_KEY \
         or --key; `tidemark key create` makes one",
        directory.display()
    )
}
