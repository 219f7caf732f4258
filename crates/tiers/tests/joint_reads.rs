//! An entry that is read together with its tokens: what another process has forgotten is forgotten
//! for those as well that remember the tokens.

use std::sync::Arc;

use tiers::policy::{GateSettings, LeaseRule};
use tiers::{AskAnswer, FileTier, RedisTier, StoredInTiers, Tier, TierStack, TokenName};

mod support;

use support::redis_server::{RedisServer, settings as redis_settings};
use support::{host, settings};

const FUNCTION: TokenName = [1; 32];
const TAG: TokenName = [2; 32];

/// A process of its own, as far as a tier can tell.
struct Reader {
    tier: Arc<dyn Tier>,
    stack: TierStack,
}

impl Reader {
    fn of(tier: Arc<dyn Tier>) -> Reader {
        let gate = GateSettings {
            breaker: None,
            pressure: None,
        };
        let stack = TierStack::new(vec![tier.clone()], gate, host());
        Reader { tier, stack }
    }

    /// The answer to a call whose body gives `value`.
    fn call(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        let rule = LeaseRule::Run;
        let mut call = self.stack.begin(key, vec![FUNCTION, TAG], false, rule);
        match self.stack.ask(&mut call) {
            AskAnswer::Hit(hit) => {
                self.stack.accept(&mut call, &hit);
                hit.value().to_vec()
            }
            AskAnswer::Run => {
                let stored = self.stack.store(&mut call, value, None);
                assert_eq!(stored, StoredInTiers::Kept);
                value.to_vec()
            }
            AskAnswer::Wait(_) | AskAnswer::Leave => panic!("nothing waits here"),
        }
    }

    /// Whether it reads the entry at once.
    fn is_joint(&self) -> bool {
        let joint = self.tier.joint_reads().unwrap();
        joint.get_under(b"k", &[FUNCTION, TAG]).unwrap().is_some()
    }
}

fn forgets_what_others_forget(open: impl Fn() -> Arc<dyn Tier>) {
    let (one, other) = (Reader::of(open()), Reader::of(open()));
    assert!(!one.is_joint());
    assert_eq!(one.call(b"k", b"1"), b"1");
    assert_eq!(other.call(b"k", b"2"), b"1");
    assert_eq!(one.call(b"k", b"2"), b"1");
    assert!(one.is_joint() && other.is_joint());
    for (number, name) in [TAG, FUNCTION, TAG].iter().enumerate() {
        other.stack.forget(name);
        assert!(!one.is_joint());
        let value = [b'a' + number as u8];
        assert_eq!(one.call(b"k", &value), value);
        assert_eq!(other.call(b"k", b"2"), value);
        assert_eq!(one.call(b"k", b"2"), value);
        assert!(one.is_joint());
    }
    other.stack.delete(b"k", &[FUNCTION, TAG]);
    assert_eq!(one.call(b"k", b"x"), b"x");
    // Another key under the same names finds nothing of the first.
    assert_eq!(one.call(b"l", b"y"), b"y");
    other.tier.clear().unwrap();
    assert_eq!(one.call(b"k", b"z"), b"z");
}

#[test]
fn file_read_with_its_tokens_forgets_what_others_forget() {
    let folder = tempfile::tempdir().unwrap();
    forgets_what_others_forget(|| {
        Arc::new(FileTier::new(settings(folder.path(), 1 << 20, 2), host()))
    });
}

#[test]
fn redis_read_with_its_tokens_forgets_what_others_forget() {
    let server = RedisServer::start(&[]);
    forgets_what_others_forget(|| {
        Arc::new(RedisTier::new(redis_settings(&server.url()), host()).unwrap())
    });
}
