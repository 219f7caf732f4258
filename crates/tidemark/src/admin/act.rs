//! What an administrator can do, how it travels, and how it is done.

use engine::{Engine, EngineError, NewKey, SchemaError, Taken};
use hyper::{Method, StatusCode};
use model::calendar::{iso_ms, parse_iso};
use model::{ApiKey, KeyId, Project, ProjectId, Scope, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::rng::Rng;
use server::secret::{KeySecret, draw_id};
use transfer::refusal::Refusal;

/// Longest name of a project or key, in characters; as for databases (wire protocol 2.1).
const NAME_CHARS_MAX: usize = 128;
/// The reference keeps this id for its own console (wire protocol 6.7).
const RESERVED_PROJECT: &str = "console";

/// What an administrator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Every project, in order of creation.
    ListProjects,
    /// A new project; ids are drawn when none is given, names repeat the id.
    CreateProject {
        /// Its id.
        id: Option<ProjectId>,
        /// What people call it.
        name: Option<String>,
    },
    /// Deletes a project with its keys, databases and rows.
    DeleteProject {
        /// Its id.
        id: ProjectId,
    },
    /// The keys of a project, without their secrets, which are not stored.
    ListKeys {
        /// The project's id.
        project: ProjectId,
    },
    /// A new key; the answer is the only place where its secret ever stands.
    CreateKey {
        /// The project it opens.
        project: ProjectId,
        /// What it is called and may call.
        wanted: WantedKey,
    },
    /// Revokes a key: it fails from the next request on.
    RevokeKey {
        /// The project's id.
        project: ProjectId,
        /// The key's id.
        key: KeyId,
    },
}

/// A key to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedKey {
    /// What people call it, at most 128 characters.
    pub name: String,
    /// What it may call; none given means everything.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// ISO 8601 instant from which on it is refused.
    #[serde(default)]
    pub expire: Option<String>,
}

/// A project, as shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectRecord {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// How many databases it holds.
    pub databases: usize,
    /// How many rows it has, where that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// How many it may have, where that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_max: Option<u64>,
    /// How many bytes its rows hold, present and past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How many they may hold, where that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    /// ISO 8601.
    pub created_at: String,
}

/// A key, as shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// Its id, which is not its secret.
    pub id: String,
    /// The project it opens.
    pub project_id: String,
    /// What people call it.
    pub name: String,
    /// What it may call.
    pub scopes: Vec<String>,
    /// ISO 8601, or empty: never.
    pub expire: String,
    /// ISO 8601.
    pub created_at: String,
    /// Its secret, when it was created just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

fn no_route() -> Refusal {
    Refusal {
        status: StatusCode::NOT_FOUND,
        message: "No such route.".to_owned(),
    }
}

fn refusal(error: EngineError) -> Refusal {
    let status = match &error {
        EngineError::Schema(SchemaError::ProjectNotFound(_) | SchemaError::KeyNotFound(_)) => {
            StatusCode::NOT_FOUND
        }
        EngineError::Schema(SchemaError::ProjectExists | SchemaError::KeyExists) => {
            StatusCode::CONFLICT
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal {
        status,
        message: match &error {
            EngineError::Schema(SchemaError::ProjectNotFound(_)) => format!(
                "{error} `tidemark project list` shows those there are; name one with \
                 --project."
            ),
            _ => error.to_string(),
        },
    }
}

/// Does it, and says what became of it as JSON: a record, a list of records, or nothing.
///
/// # Errors
/// When it makes no sense, or the engine refuses.
pub async fn perform(engine: &Engine, rng: Rng, act: Act) -> Result<Value, Refusal> {
    match act {
        Act::ListProjects => {
            let (projects, taken) = (engine.list_projects(), engine.taken());
            Ok(projects
                .iter()
                .map(|project| json!(project_record(&taken, project)))
                .collect())
        }
        Act::CreateProject { id, name } => {
            let id = match id {
                Some(id) => id,
                None => ProjectId::new(&draw_id(rng)).expect("hexadecimal digits make an id"),
            };
            if id.as_str() == RESERVED_PROJECT {
                return Err(Refusal::bad(format!(
                    "The id `{RESERVED_PROJECT}` is reserved."
                )));
            }
            let name = checked_name(name.unwrap_or_else(|| id.to_string()))?;
            let project = engine.create_project(id, name).await.map_err(refusal)?;
            Ok(json!(project_record(&engine.taken(), &project)))
        }
        Act::DeleteProject { id } => {
            engine.delete_project(id.as_str()).await.map_err(refusal)?;
            Ok(Value::Null)
        }
        Act::ListKeys { project } => {
            let keys = engine.list_keys(project.as_str()).map_err(refusal)?;
            Ok(keys
                .iter()
                .map(|key| json!(key_record(key, None)))
                .collect())
        }
        Act::CreateKey { project, wanted } => {
            let secret = KeySecret::draw(rng);
            let key = engine
                .create_key(new_key(project, wanted, rng, &secret)?)
                .await
                .map_err(refusal)?;
            Ok(json!(key_record(&key, Some(&secret))))
        }
        Act::RevokeKey { project, key } => {
            engine
                .revoke_key(project.as_str(), key.as_str())
                .await
                .map_err(refusal)?;
            Ok(Value::Null)
        }
    }
}

fn new_key(
    project: ProjectId,
    wanted: WantedKey,
    rng: Rng,
    secret: &KeySecret,
) -> Result<NewKey, Refusal> {
    let id = KeyId::new(&draw_id(rng)).expect("hexadecimal digits make an id");
    Ok(NewKey {
        project,
        id,
        name: checked_name(wanted.name)?,
        scopes: scopes(&wanted.scopes)?,
        expires: wanted.expire.as_deref().map(instant).transpose()?,
        secret_hash: secret.hash(),
    })
}

fn checked_name(name: String) -> Result<String, Refusal> {
    match name.chars().count() {
        1..=NAME_CHARS_MAX => Ok(name),
        count => Err(Refusal::bad(format!(
            "A name has 1 to {NAME_CHARS_MAX} characters, not {count}."
        ))),
    }
}

fn scopes(names: &[String]) -> Result<Vec<Scope>, Refusal> {
    if names.is_empty() {
        return Ok(Scope::ALL.to_vec());
    }
    let parse = |name: &String| {
        Scope::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
            Refusal::bad(format!(
                "No scope `{name}`. There are: {}.",
                known.join(", ")
            ))
        })
    };
    names.iter().map(parse).collect()
}

fn instant(text: &str) -> Result<Timestamp, Refusal> {
    let why = || format!("`{text}` is not an ISO 8601 date or instant such as 2027-01-31.");
    parse_iso(text).ok_or_else(|| Refusal::bad(why()))
}

fn project_record(taken: &Taken, project: &Project) -> ProjectRecord {
    let bound = |max: u64| (max > 0).then_some(max);
    let of = |all: &[(ProjectId, u64)]| {
        let its = all.iter().find(|(id, _)| *id == project.id);
        its.map_or(0, |(_, count)| *count)
    };
    let rows_max = bound(taken.rows_max);
    ProjectRecord {
        rows: rows_max.map(|_| of(&taken.rows)),
        rows_max,
        bytes: Some(of(&taken.project_bytes)),
        bytes_max: bound(taken.project_bytes_max),
        id: project.id.to_string(),
        name: project.name.clone(),
        databases: project.databases.len(),
        created_at: iso_ms(project.created),
    }
}

fn key_record(key: &ApiKey, secret: Option<&KeySecret>) -> KeyRecord {
    KeyRecord {
        id: key.id.to_string(),
        project_id: key.project.to_string(),
        name: key.name.clone(),
        scopes: key
            .scopes
            .iter()
            .map(|scope| scope.as_str().to_owned())
            .collect(),
        expire: key.expires.map_or(String::new(), iso_ms),
        created_at: iso_ms(key.created),
        secret: secret.map(|secret| secret.reveal().to_owned()),
    }
}

/// The body of a new project.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedProject {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

/// Method, route and body of an act.
pub fn to_request(act: &Act) -> (Method, String, Option<Value>) {
    match act {
        Act::ListProjects => (Method::GET, "/projects".to_owned(), None),
        Act::CreateProject { id, name } => {
            let id = id.as_ref().map(ToString::to_string);
            let body = json!(WantedProject {
                id,
                name: name.clone()
            });
            (Method::POST, "/projects".to_owned(), Some(body))
        }
        Act::DeleteProject { id } => (Method::DELETE, format!("/projects/{id}"), None),
        Act::ListKeys { project } => (Method::GET, format!("/projects/{project}/keys"), None),
        Act::CreateKey { project, wanted } => (
            Method::POST,
            format!("/projects/{project}/keys"),
            Some(json!(wanted)),
        ),
        Act::RevokeKey { project, key } => (
            Method::DELETE,
            format!("/projects/{project}/keys/{key}"),
            None,
        ),
    }
}

/// The act that method, route and body stand for.
///
/// # Errors
/// 404 for another route, 400 for a body or id that cannot be read.
pub fn from_request(method: &Method, route: &str, body: &[u8]) -> Result<Act, Refusal> {
    let steps: Vec<&str> = route.trim_start_matches('/').split('/').collect();
    match (method.as_str(), steps.as_slice()) {
        ("GET", ["projects"]) => Ok(Act::ListProjects),
        ("POST", ["projects"]) => {
            let WantedProject { id, name } = read(body)?;
            Ok(Act::CreateProject {
                id: id.as_deref().map(project).transpose()?,
                name,
            })
        }
        ("DELETE", ["projects", id]) => Ok(Act::DeleteProject { id: project(id)? }),
        ("GET", ["projects", id, "keys"]) => Ok(Act::ListKeys {
            project: project(id)?,
        }),
        ("POST", ["projects", id, "keys"]) => Ok(Act::CreateKey {
            project: project(id)?,
            wanted: read(body)?,
        }),
        ("DELETE", ["projects", id, "keys", key]) => {
            let key = KeyId::new(key).map_err(|error| Refusal::bad(error.to_string()))?;
            Ok(Act::RevokeKey {
                project: project(id)?,
                key,
            })
        }
        _ => Err(no_route()),
    }
}

fn project(id: &str) -> Result<ProjectId, Refusal> {
    ProjectId::new(id).map_err(|error| Refusal::bad(error.to_string()))
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::bad(format!("Unreadable body: {error}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_travels_unchanged() {
        let project = ProjectId::new("shop").unwrap();
        let wanted = WantedKey {
            name: "ci".to_owned(),
            scopes: vec!["rows.read".to_owned()],
            expire: Some("2027-01-31".to_owned()),
        };
        for act in [
            Act::ListProjects,
            Act::CreateProject {
                id: None,
                name: None,
            },
            Act::CreateProject {
                id: Some(project.clone()),
                name: Some("Shop".to_owned()),
            },
            Act::DeleteProject {
                id: project.clone(),
            },
            Act::ListKeys {
                project: project.clone(),
            },
            Act::CreateKey {
                project: project.clone(),
                wanted,
            },
            Act::CreateKey {
                project: project.clone(),
                wanted: WantedKey::default(),
            },
            Act::RevokeKey {
                project,
                key: KeyId::new("k1").unwrap(),
            },
        ] {
            let (method, route, body) = to_request(&act);
            let body = body.map(|body| body.to_string()).unwrap_or_default();
            assert_eq!(from_request(&method, &route, body.as_bytes()), Ok(act));
        }
    }

    #[test]
    fn other_routes_ids_and_bodies_are_refused() {
        let check = |method: Method, route: &str, body: &str, status: u16| {
            let refusal = from_request(&method, route, body.as_bytes()).unwrap_err();
            assert_eq!(refusal.status.as_u16(), status, "{method} {route} {body}");
        };
        check(Method::GET, "/", "", 404);
        check(Method::PUT, "/projects", "", 404);
        check(Method::GET, "/projects/a/keys/b", "", 404);
        check(Method::DELETE, "/projects/_a", "", 400);
        check(Method::DELETE, "/projects/a/keys/", "", 400);
        check(Method::POST, "/projects", "{", 400);
        check(Method::POST, "/projects", r#"{"naem":"x"}"#, 400);
        check(Method::POST, "/projects/a/keys", r#"{"scopes":[]}"#, 400);
    }

    #[test]
    fn scopes_names_and_instants_are_held_to_their_limits() {
        let names = |list: &[&str]| {
            list.iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(scopes(&[]), Ok(Scope::ALL.to_vec()));
        assert_eq!(
            scopes(&names(&["documents.read"])),
            Ok(vec![Scope::RowsRead])
        );
        let refusal = scopes(&names(&["rows"])).unwrap_err();
        assert!(
            refusal
                .message
                .starts_with("No scope `rows`. There are: databases.read, ")
        );
        assert!(checked_name("é".repeat(128)).is_ok());
        assert!(checked_name("é".repeat(129)).is_err());
        assert!(checked_name(String::new()).is_err());
        assert!(instant("2027-01-31").is_ok());
        assert!(instant("tomorrow").is_err());
    }
}
