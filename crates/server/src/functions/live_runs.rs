//! Executions in flight, and the key that each has for the API while it runs.
//!
//! A key is a payload with a code (HMAC) under a secret of this process, so nothing of it is
//! stored; the scopes it stands for are read from the catalogue whenever it is used. It counts on
//! connections from the jail of its own deployment alone, and until its execution has ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data_encoding::BASE64URL_NOPAD;
use engine::{AccessError, CallingFunction};
use model::{Function, ProjectId, Timestamp};
use ring::hmac::{self, HMAC_SHA256};

use crate::rng::Rng;

/// What such keys begin with (wire protocol, handler contract).
const PREFIX: &str = "ephemeral_";
/// Bytes of the secret, as many as the code has.
const SECRET_BYTES: usize = 32;
/// The run, its deployment and its end.
const PAYLOAD_BYTES: usize = 24;

/// All executions in flight.
pub struct LiveRuns {
    secret: hmac::Key,
    next: AtomicU64,
    /// By [`engine::Deployment::seq`], then by number.
    runs: Mutex<HashMap<i64, HashMap<u64, Arc<LiveRun>>>>,
}

/// An execution in flight.
#[derive(Debug)]
pub struct LiveRun {
    /// The project of the function.
    pub project: ProjectId,
    /// [`Function::seq`].
    pub function_seq: i64,
    /// The function, and how deep what this execution writes is.
    pub calling: Arc<CallingFunction>,
    has_ended: AtomicBool,
}

impl LiveRun {
    /// Whether it is over: what was begun by its key ends.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

/// The key of an execution, which ends when this is dropped.
pub struct RunKey {
    runs: Arc<LiveRuns>,
    deployment: i64,
    number: u64,
    text: String,
}

impl RunKey {
    /// For the execution alone.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl Drop for RunKey {
    fn drop(&mut self) {
        let mut runs = self.runs.lock();
        let Some(of_deployment) = runs.get_mut(&self.deployment) else {
            return;
        };
        if let Some(run) = of_deployment.remove(&self.number) {
            run.has_ended.store(true, Ordering::Release);
        }
        if of_deployment.is_empty() {
            runs.remove(&self.deployment);
        }
    }
}

impl LiveRuns {
    /// None is in flight; the secret is drawn.
    pub fn new(rng: Rng) -> Arc<LiveRuns> {
        let mut secret = [0; SECRET_BYTES];
        rng(&mut secret);
        Arc::new(LiveRuns {
            secret: hmac::Key::new(HMAC_SHA256, &secret),
            next: AtomicU64::new(1),
            runs: Mutex::default(),
        })
    }

    /// An execution of a deployment begins. `depth` is that of what has executed it: 0 for a person
    /// or the clock. Its key ends at `expires` at the latest.
    pub fn begin(
        self: &Arc<LiveRuns>,
        function: &Function,
        deployment: i64,
        depth: u8,
        expires: Timestamp,
    ) -> RunKey {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let run = Arc::new(LiveRun {
            project: function.project.clone(),
            function_seq: function.seq,
            calling: Arc::new(CallingFunction {
                id: function.id.clone(),
                depth: depth.saturating_add(1),
            }),
            has_ended: AtomicBool::new(false),
        });
        let mut runs = self.lock();
        runs.entry(deployment).or_default().insert(number, run);
        RunKey {
            runs: self.clone(),
            deployment,
            number,
            text: self.key(number, deployment, expires),
        }
    }

    fn key(&self, number: u64, deployment: i64, expires: Timestamp) -> String {
        let mut bytes = Vec::with_capacity(PAYLOAD_BYTES + SECRET_BYTES);
        bytes.extend(number.to_le_bytes());
        bytes.extend(deployment.to_le_bytes());
        bytes.extend(expires.0.to_le_bytes());
        let code = hmac::sign(&self.secret, &bytes);
        bytes.extend(code.as_ref());
        format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }

    /// The execution whose key came on a connection from the jail of `deployment`.
    ///
    /// # Errors
    /// [`AccessError::KeyUnknown`] for one that was not made here, or not for this deployment;
    /// [`AccessError::KeyExpired`] for one whose execution has ended.
    pub fn of_key(
        &self,
        deployment: i64,
        secret: &[u8],
        now: Timestamp,
    ) -> Result<Arc<LiveRun>, AccessError> {
        let payload = self.opened(secret).ok_or(AccessError::KeyUnknown)?;
        let number_at = |at: usize| {
            let bytes = payload[at..at + 8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes were taken"))
        };
        let (number, of, expires) = (number_at(0), number_at(8) as i64, number_at(16) as i64);
        if of != deployment {
            return Err(AccessError::KeyUnknown);
        }
        if expires <= now.0 {
            return Err(AccessError::KeyExpired);
        }
        let runs = self.lock();
        let run = runs.get(&deployment).and_then(|runs| runs.get(&number));
        run.cloned().ok_or(AccessError::KeyExpired)
    }

    /// The payload of a key that was made here.
    fn opened(&self, secret: &[u8]) -> Option<[u8; PAYLOAD_BYTES]> {
        let text = secret.strip_prefix(PREFIX.as_bytes())?;
        let mut bytes = [0; PAYLOAD_BYTES + SECRET_BYTES];
        if BASE64URL_NOPAD.decode_len(text.len()).ok()? != bytes.len() {
            return None;
        }
        BASE64URL_NOPAD.decode_mut(text, &mut bytes).ok()?;
        let (payload, code) = bytes.split_at(PAYLOAD_BYTES);
        hmac::verify(&self.secret, payload, code).ok()?;
        payload.try_into().ok()
    }

    /// Of the executions of a deployment the one that is the deepest; `None` where none is in
    /// flight. What comes from a jail by another key, or by none, may be of any of them.
    pub fn deepest(&self, deployment: i64) -> Option<Arc<LiveRun>> {
        let runs = self.lock();
        let runs = runs.get(&deployment)?.values();
        runs.max_by_key(|run| run.calling.depth).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, HashMap<u64, Arc<LiveRun>>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a secret claims to be the key of an execution.
pub fn is_of_run(secret: &[u8]) -> bool {
    secret.starts_with(PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use model::{FunctionDefinition, FunctionId};

    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
    const END: Timestamp = Timestamp(NOW.0 + 1_000_000);

    fn runs(secret: u8) -> Arc<LiveRuns> {
        match secret {
            1 => LiveRuns::new(|bytes| bytes.fill(1)),
            _ => LiveRuns::new(|bytes| bytes.fill(2)),
        }
    }

    fn function() -> Function {
        Function {
            project: ProjectId::new("p").unwrap(),
            id: FunctionId::new("f").unwrap(),
            seq: 7,
            created: NOW,
            updated: NOW,
            definition: FunctionDefinition::new("F".to_owned(), "node-20.0".to_owned()),
            active: None,
        }
    }

    /// What a key comes to: the depth of what it writes.
    fn depth(
        runs: &LiveRuns,
        deployment: i64,
        key: &[u8],
        now: Timestamp,
    ) -> Result<u8, AccessError> {
        let run = runs.of_key(deployment, key, now)?;
        Ok(run.calling.depth)
    }

    #[test]
    fn key_of_an_execution_counts_there_and_while_it_runs() {
        let runs = runs(1);
        let run = runs.begin(&function(), 3, 0, END);
        let key = run.reveal().to_owned();
        assert!(is_of_run(key.as_bytes()));
        assert_eq!(depth(&runs, 3, key.as_bytes(), NOW), Ok(1));
        let live = runs.of_key(3, key.as_bytes(), NOW).unwrap();
        assert_eq!((live.function_seq, live.has_ended()), (7, false));
        let elsewhere = depth(&runs, 4, key.as_bytes(), NOW);
        assert_eq!(elsewhere, Err(AccessError::KeyUnknown));
        let late = depth(&runs, 3, key.as_bytes(), END);
        assert_eq!(late, Err(AccessError::KeyExpired));
        drop(run);
        assert!(live.has_ended());
        let ended = depth(&runs, 3, key.as_bytes(), NOW);
        assert_eq!(ended, Err(AccessError::KeyExpired));
    }

    #[test]
    fn key_that_was_forged_is_unknown() {
        let runs = runs(1);
        let run = runs.begin(&function(), 3, 0, END);
        let key = run.reveal();
        // Any letter that is another one, a part of it, more than it, and one of another secret.
        let mut forged: Vec<Vec<u8>> = (0..key.len())
            .map(|at| {
                let mut bytes = key.as_bytes().to_vec();
                bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
                bytes
            })
            .collect();
        forged.extend((0..key.len()).map(|len| key.as_bytes()[..len].to_vec()));
        forged.push([key, "A"].concat().into_bytes());
        forged.push([key, key].concat().into_bytes());
        forged.push(vec![0xff; key.len()]);
        let other = self::runs(2);
        forged.push(other.begin(&function(), 3, 0, END).reveal().into());
        for secret in forged {
            let refused = depth(&runs, 3, &secret, NOW);
            let shown = String::from_utf8_lossy(&secret).into_owned();
            assert_eq!(refused, Err(AccessError::KeyUnknown), "{shown}");
        }
    }

    #[test]
    fn deepest_execution_of_a_deployment_counts_for_other_keys() {
        let runs = runs(1);
        assert!(runs.deepest(3).is_none());
        let kept: Vec<RunKey> = [0, 4, 2]
            .map(|depth| runs.begin(&function(), 3, depth, END))
            .into();
        let _other = runs.begin(&function(), 5, 9, END);
        assert_eq!(runs.deepest(3).unwrap().calling.depth, 5);
        drop(kept);
        assert!(runs.deepest(3).is_none());
        let last = runs.begin(&function(), 3, u8::MAX, END);
        assert_eq!(runs.deepest(3).unwrap().calling.depth, u8::MAX);
        drop(last);
    }
}
