//! `tidemark key`: through the running server, or in the store itself.

use anyhow::{Result, anyhow};
use clap::Subcommand;
use model::{KeyId, Scope};

use super::project::{HowArgs, perform, read};
use super::{Outside, table};
use crate::admin::act::{Act, KeyRecord, WantedKey};
use crate::config::ProjectArgs;

/// Create, list and revoke API keys.
#[derive(Subcommand)]
pub enum KeyCommand {
    /// Create a key and show its secret, once
    #[command(after_help = "Examples:
  tidemark key create --name ci
  tidemark key create --name reader --scopes tables.read,rows.read --expire 2027-06-30")]
    Create {
        /// Whose key.
        #[command(flatten)]
        project: ProjectArgs,
        /// Display name
        #[arg(long, default_value = "key")]
        name: String,
        /// Scopes, such as rows.read,rows.write [default: all]
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
        scopes: Vec<String>,
        /// When the key expires, such as 2027-06-30 or 2027-06-30T12:00Z [default: never]
        #[arg(long, value_name = "INSTANT")]
        expire: Option<String>,
        /// Where, and how to answer.
        #[command(flatten)]
        how: HowArgs,
    },
    /// List the keys of a project; secrets are not stored and not shown
    #[command(after_help = "Example:\n  tidemark key list --project shop")]
    List {
        /// Whose key.
        #[command(flatten)]
        project: ProjectArgs,
        /// Where, and how to answer.
        #[command(flatten)]
        how: HowArgs,
    },
    /// Revoke a key: it fails from the next request on
    #[command(alias = "delete")]
    #[command(after_help = "Example:\n  tidemark key revoke 3f0c9a5e1b7d42868a10")]
    Revoke {
        /// The key's id, as `tidemark key list` shows it; not its secret
        id: String,
        /// Whose key.
        #[command(flatten)]
        project: ProjectArgs,
        /// Where, and how to answer.
        #[command(flatten)]
        how: HowArgs,
    },
}

/// # Errors
/// When the data directory cannot be reached, or the act is refused.
pub fn run(command: KeyCommand, outside: Outside) -> Result<()> {
    match command {
        KeyCommand::Create {
            project,
            name,
            scopes,
            expire,
            how,
        } => {
            let wanted = WantedKey {
                name,
                scopes,
                expire,
            };
            let act = Act::CreateKey {
                project: project.check()?,
                wanted,
            };
            let made = perform(&how, outside, act)?;
            how.answer(&made, |made| Ok(created(&read(made)?)))
        }
        KeyCommand::List { project, how } => {
            let found = perform(
                &how,
                outside,
                Act::ListKeys {
                    project: project.check()?,
                },
            )?;
            how.answer(&found, |found| Ok(listed(&read::<Vec<KeyRecord>>(found)?)))
        }
        KeyCommand::Revoke { id, project, how } => {
            let key = KeyId::new(&id).map_err(|error| {
                anyhow!("`{id}` is no key id ({error}); see `tidemark key list`")
            })?;
            let act = Act::RevokeKey {
                project: project.check()?,
                key,
            };
            let done = perform(&how, outside, act)?;
            how.answer(&done, |_| Ok(format!("Revoked key {id}.\n")))
        }
    }
}

fn created(key: &KeyRecord) -> String {
    let expire = if key.expire.is_empty() {
        "never"
    } else {
        &key.expire
    };
    format!(
        "Created key `{}` of project {}.\n\n  id       {}\n  secret   {}\n  scopes   {}\n  \
         expires  {}\n\nThe secret is shown this once; only its hash is kept.\n",
        key.name,
        key.project_id,
        key.id,
        key.secret.as_deref().unwrap_or("(the server did not say)"),
        scopes(key),
        expire,
    )
}

fn listed(keys: &[KeyRecord]) -> String {
    let row = |key: &KeyRecord| {
        let expire = if key.expire.is_empty() {
            "never"
        } else {
            &key.expire
        };
        vec![
            key.id.clone(),
            key.name.clone(),
            key.created_at.clone(),
            expire.to_owned(),
            scopes(key),
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    table::render(&["ID", "NAME", "CREATED", "EXPIRES", "SCOPES"], &rows)
}

fn scopes(key: &KeyRecord) -> String {
    if key.scopes.len() == Scope::ALL.len() {
        "all".to_owned()
    } else {
        key.scopes.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(scopes: &[&str]) -> KeyRecord {
        KeyRecord {
            id: "k1".to_owned(),
            project_id: "shop".to_owned(),
            name: "ci".to_owned(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            expire: String::new(),
            created_at: "2026-11-21T00:00:00.000+00:00".to_owned(),
            secret: Some("standard_s".to_owned()),
        }
    }

    #[test]
    fn a_new_key_is_shown_with_its_secret_and_a_listed_one_without() {
        let text = created(&key(&["rows.read"]));
        assert!(
            text.contains("\n  secret   standard_s\n  scopes   rows.read\n  expires  never\n"),
            "{text}"
        );
        let all: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        let text = listed(&[key(&all)]);
        assert!(!text.contains("standard_s"));
        assert!(
            text.ends_with("2026-11-21T00:00:00.000+00:00  never    all\n"),
            "{text}"
        );
    }
}
