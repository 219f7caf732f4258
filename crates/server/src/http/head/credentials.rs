//! The caller of a request: found by its headers, and remembered by each thread.
//!
//! To find a key, its secret is hashed, which costs about as much as reading the rest of the
//! head. What is remembered holds until the catalogue changes, in which keys and projects stand:
//! a key that is revoked fails from the next request on.

use std::cell::RefCell;
use std::rc::Rc;

use engine::{Caller, Engine, EngineError, Identity};
use hyper::header::HeaderValue;
use model::catalogue::SecretHash;

use super::headers::KnownHeaders;
use crate::secret::{is_same, sha256};

/// Most callers one thread remembers.
const SEEN_MAX: usize = 16;
/// Longest secret that is remembered, in bytes; issued ones have 265.
const SEEN_BYTES_MAX: usize = 512;

/// The callers seen last by one thread.
#[derive(Debug, Default)]
pub struct Callers {
    /// The latest one first.
    seen: RefCell<Vec<Seen>>,
}

#[derive(Debug)]
struct Seen {
    project: Box<str>,
    secret: Option<Box<[u8]>>,
    hash: Option<SecretHash>,
    known: KnownCaller,
}

/// A caller that was identified by what a request says.
#[derive(Clone, Debug)]
pub struct KnownCaller {
    /// Who asks.
    pub caller: Rc<Caller>,
    identity: Rc<Identity>,
}

impl KnownCaller {
    fn new(identity: Identity) -> KnownCaller {
        KnownCaller {
            caller: Rc::new(identity.caller.clone()),
            identity: Rc::new(identity),
        }
    }

    /// Whether the same request would be taken for the same caller now.
    pub fn still_holds(&self, engine: &Engine) -> bool {
        engine.still_holds(&self.identity)
    }
}

impl Callers {
    /// The caller with these headers, if it is remembered and still valid.
    pub fn known(&self, engine: &Engine, heads: &KnownHeaders<'_>) -> Option<KnownCaller> {
        if heads.token.is_some() {
            return None;
        }
        let project = heads.project?.to_str().ok()?;
        let secret = secret_of(heads.key);
        let mut seen = self.seen.borrow_mut();
        let position = find(&seen, project, secret)?;
        let known = seen[position].known.clone();
        if !known.still_holds(engine) {
            return None;
        }
        seen[..=position].rotate_right(1);
        Some(known)
    }

    /// The caller of `project` with this secret.
    ///
    /// # Errors
    /// As [`Engine::caller`].
    pub fn find(
        &self,
        engine: &Engine,
        project: Option<&str>,
        secret: Option<&[u8]>,
    ) -> Result<Rc<Caller>, EngineError> {
        let mut seen = self.seen.borrow_mut();
        let known = find(&seen, project.unwrap_or_default(), secret);
        if let Some(position) = known
            && seen[position].known.still_holds(engine)
        {
            return Ok(seen[position].known.caller.clone());
        }
        let remembered = known.and_then(|position| seen[position].hash);
        let hash = remembered.or_else(|| secret.map(sha256));
        let identified = engine.identify(project, hash.as_ref());
        if let Some(position) = known {
            seen.remove(position);
        }
        let known = KnownCaller::new(identified?);
        let caller = known.caller.clone();
        if secret.is_none_or(|secret| secret.len() <= SEEN_BYTES_MAX) {
            seen.truncate(SEEN_MAX - 1);
            let new = Seen {
                project: project.unwrap_or_default().into(),
                secret: secret.map(Box::from),
                hash,
                known,
            };
            seen.insert(0, new);
        }
        Ok(caller)
    }
}

/// The secret that a header holds; an empty one is none.
pub fn secret_of(key: Option<&HeaderValue>) -> Option<&[u8]> {
    key.map(HeaderValue::as_bytes)
        .filter(|secret| !secret.is_empty())
}

/// Secrets are compared in a time that says nothing of where they differ: it would let an
/// attacker learn a remembered one byte by byte.
fn find(seen: &[Seen], project: &str, secret: Option<&[u8]>) -> Option<usize> {
    seen.iter().position(|seen| {
        let same_secret = match (&seen.secret, secret) {
            (Some(seen), Some(secret)) => is_same(seen, secret),
            (None, None) => true,
            _ => false,
        };
        same_secret && *seen.project == *project
    })
}

#[cfg(test)]
pub(in crate::http) mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use engine::NewKey;
    use model::{KeyId, ProjectId, Scope};
    use testing::TickingClock;
    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::offline::offline_engine;

    const NOW_US: i64 = 1_700_000_000_000_000;

    /// An engine with a project `p`, and what runs its writes.
    pub fn engine_with_project(folder: &Path) -> (Arc<Engine>, Runtime) {
        let config = offline_engine(folder.join("data").into());
        let engine = Engine::open(config, TickingClock::still_at(NOW_US)).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        let project = ProjectId::new("p").unwrap();
        let made = engine.create_project(project, "P".to_owned());
        runtime.block_on(made).unwrap();
        (engine, runtime)
    }

    #[test]
    fn unknown_secrets_do_not_displace_known_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (engine, runtime) = engine_with_project(folder.path());
        let key = NewKey {
            project: ProjectId::new("p").unwrap(),
            id: KeyId::new("k").unwrap(),
            name: "K".to_owned(),
            scopes: Scope::ALL.to_vec(),
            expires: None,
            secret_hash: sha256(b"secret"),
        };
        runtime.block_on(engine.create_key(key)).unwrap();
        let callers = Callers::default();
        let ask = |secret: Option<&[u8]>| callers.find(&engine, Some("p"), secret);
        let find = |secret: Option<&[u8]>| ask(secret).unwrap();
        let (known, guest) = (find(Some(b"secret")), find(None));
        for made_up in 0..=SEEN_MAX {
            let unknown = ask(Some(format!("made up {made_up}").as_bytes()));
            assert!(matches!(
                unknown,
                Err(EngineError::Access(engine::AccessError::KeyUnknown))
            ));
        }
        assert_eq!(callers.seen.borrow().len(), 2);
        assert!(Rc::ptr_eq(&known, &find(Some(b"secret"))));
        assert!(Rc::ptr_eq(&guest, &find(None)));
        engine.close().unwrap();
    }
}
