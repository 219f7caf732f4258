//! What tiers promise that list their entries.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tiers::policy::{GateSettings, LeaseRule};
use tiers::{
    AskAnswer, GuardedValue, LeaseAct, LeasingTier, ListingTier, Lookup, MissTicket, Stored,
    StoredInTiers, Tier, TierError, TierFault, TierStack, TokenGuard, TokenName,
};

mod support;

use support::read;
use support::redis_server::{RedisServer, tier as redis};

const GUARD: TokenName = *b"what guards all of one function.";

/// The key that the token of a name has.
fn key_of(name: &TokenName) -> Vec<u8> {
    [&b"token"[..], name].concat()
}

/// Runs a law on tiers that list, each of which can be opened several times.
fn on_each_tier(law: impl Fn(&(dyn Fn() -> Box<dyn ListingTier> + Sync))) {
    let folder = tempfile::tempdir().unwrap();
    law(&|| Box::new(support::tier(folder.path(), 8 << 20, 4)));
    let server = RedisServer::start(&[]);
    law(&|| Box::new(redis(&server.url())));
}

/// Again where another thread held a lock for too long: on a machine with much to do it may not
/// run.
fn insist<T>(act: impl Fn() -> Result<T, TierError>) -> T {
    loop {
        match act() {
            Ok(done) => return done,
            Err(error) => assert_eq!(error.fault, TierFault::Busy, "{error}"),
        }
    }
}

/// All entries, by their keys; how many slices there were.
fn listed(tier: &dyn ListingTier, start: &[u8], bytes: usize) -> (BTreeMap<Vec<u8>, Vec<u8>>, u32) {
    let (mut found, mut slices, mut cursor) = (BTreeMap::new(), 0, Some(0));
    while let Some(at) = cursor {
        let slice = insist(|| tier.list(start, bytes, at));
        let entries = slice.entries.into_iter();
        found.extend(entries.map(|entry| (entry.key, entry.value_start)));
        slices += 1;
        cursor = slice.next;
    }
    (found, slices)
}

fn ticket(tier: &dyn Tier, key: &[u8]) -> MissTicket {
    insist(|| tier.ticket(key))
}

/// The present token of the guard; one that is missing is made.
fn guard(tier: &dyn Tier, new: [u8; 16]) -> TokenGuard {
    let key = key_of(&GUARD);
    loop {
        if let Some(found) = insist(|| read(tier, &key)) {
            let token = found.try_into().unwrap();
            return TokenGuard { name: GUARD, token };
        }
        let ticket = ticket(tier, &key);
        insist(|| tier.set(&key, &new, None, Some(ticket)));
    }
}

fn guarded<'a>(
    key: &'a [u8],
    value: &'a [u8],
    ticket: MissTicket,
    guard: TokenGuard,
) -> GuardedValue<'a> {
    GuardedValue {
        key,
        value,
        lifetime_ms: None,
        ticket,
        known_ms: None,
        notice: b"",
        guard,
    }
}

#[test]
fn entries_are_listed_by_what_their_keys_begin_with() {
    on_each_tier(|open| {
        let tier = open();
        assert!(listed(&*tier, b"a:", 9).0.is_empty());
        let mut wanted = BTreeMap::new();
        for number in 0..3_000_u32 {
            let key = [b"a:", &number.to_be_bytes()[..], &[0, 255]].concat();
            let value = vec![number as u8; number as usize % 40];
            tier.set(&key, &value, None, None).unwrap();
            wanted.insert(key, value[..value.len().min(9)].to_vec());
        }
        for other in [&b"a"[..], b"b:", b"", b"xa:", &key_of(&GUARD)] {
            tier.set(other, b"of another", None, None).unwrap();
        }
        // A key without an entry, beside which there is a lease.
        let holder = [7; 16];
        let act = LeaseAct::Take { lifetime_ms: 9_000 };
        let leasing: &dyn LeasingTier = tier.leases().unwrap();
        assert!(matches!(tier.get(b"a:none").unwrap(), Lookup::Miss(_)));
        leasing.lease(b"a:none", &holder, act).unwrap();
        tier.set(b"a:over", b"v", Some(1), None).unwrap();
        while read(&*tier, b"a:over").unwrap().is_some() {}
        let gone = wanted.pop_first().unwrap().0;
        tier.delete(&gone).unwrap();

        let (found, slices) = listed(&*tier, b"a:", 9);
        assert!(found == wanted && slices > 1, "{} {slices}", found.len());
        let last = [wanted.last_key_value().unwrap().0.clone(), b"a:none".into()];
        tier.delete_all(&last).unwrap();
        wanted.pop_last();
        assert!(listed(&*tier, b"a:", 9).0 == wanted);
        let keys: Vec<_> = wanted.into_keys().collect();
        tier.delete_all(&keys).unwrap();
        assert!(listed(&*tier, b"a:", 9).0.is_empty());
        assert_eq!(read(&*tier, b"a").unwrap().unwrap(), b"of another");
    });
}

#[test]
fn value_is_stored_only_under_the_guard_that_was_read() {
    on_each_tier(|open| {
        let tier = open();
        let first = guard(&*tier, [1; 16]);
        let before = ticket(&*tier, b"k");
        let value = guarded(b"k", b"v", before, first);
        assert_eq!(tier.set_guarded(&value).unwrap(), Stored::Kept);
        assert_eq!(read(&*tier, b"k").unwrap().unwrap(), b"v");
        // Nothing has happened to this key.
        tier.delete(&key_of(&GUARD)).unwrap();
        let later = GuardedValue {
            value: b"late",
            ticket: ticket(&*tier, b"k"),
            ..value
        };
        assert_eq!(tier.set_guarded(&later).unwrap(), Stored::Overtaken);
        let second = guard(&*tier, [2; 16]);
        assert_eq!(tier.set_guarded(&later).unwrap(), Stored::Overtaken);
        assert_eq!(read(&*tier, b"k").unwrap().unwrap(), b"v");
        let new = GuardedValue {
            guard: second,
            ..later
        };
        assert_eq!(tier.set_guarded(&new).unwrap(), Stored::Kept);
        assert_eq!(read(&*tier, b"k").unwrap().unwrap(), b"late");
        // Nor if the key was deleted.
        tier.delete(b"k").unwrap();
        assert_eq!(tier.set_guarded(&new).unwrap(), Stored::Overtaken);
        assert_eq!(read(&*tier, b"k").unwrap(), None);
    });
}

#[test]
fn list_after_a_guard_was_deleted_has_every_value_that_was_stored_under_it() {
    on_each_tier(|open| {
        let is_over = AtomicBool::new(false);
        let keys: Vec<_> = (0..40_u8).map(|number| vec![b'a', number]).collect();
        let write = |number: u8| {
            let tier = open();
            let mut round = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                let key = &keys[round as usize * 7 % keys.len()];
                let mut new = [number; 16];
                new[..8].copy_from_slice(&round.to_le_bytes());
                let guard = guard(&*tier, new);
                let ticket = ticket(&*tier, key);
                thread::yield_now();
                insist(|| tier.set_guarded(&guarded(key, &guard.token, ticket, guard)));
            }
        };
        thread::scope(|scope| {
            for number in 1..=4 {
                scope.spawn(move || write(number));
            }
            let tier = open();
            let (mut found_old, mut missed) = (0, 0);
            for _ in 0..60 {
                let old = guard(&*tier, [9; 16]).token;
                insist(|| tier.delete(&key_of(&GUARD)));
                let found = listed(&*tier, b"a", 16).0;
                let is_old = |key: &Vec<u8>| found.get(key).is_some_and(|value| *value == old);
                for key in &keys {
                    // Read after the list: one that it has not is of a later guard.
                    let now = insist(|| read(&*tier, key));
                    missed += u32::from(now.is_some_and(|now| now == old) && !is_old(key));
                    found_old += u32::from(is_old(key));
                }
            }
            // Writers end first: a scope waits for them, also where something is wrong.
            is_over.store(true, Ordering::Relaxed);
            assert!(found_old > 0 && missed == 0, "{found_old} {missed}");
        });
    });
}

#[test]
fn run_that_began_before_its_guard_was_deleted_is_not_stored() {
    on_each_tier(|open| {
        let both = || -> Vec<std::sync::Arc<dyn ListingTier>> { vec![open().into()] };
        let tiers = both();
        let settings = GateSettings {
            breaker: None,
            pressure: None,
        };
        let plain = tiers.iter().map(|tier| tier.clone() as _).collect();
        let listing = tiers.iter().cloned().map(Some).collect();
        let stack = TierStack::new(plain, settings, support::host()).listed_by(listing);
        let name = *b"the name of the function itself.";
        let run = |is_overtaken: bool| {
            let mut call = stack.begin(b"a:call", vec![name], false, LeaseRule::Run);
            call.guard_by(GUARD);
            assert!(matches!(stack.ask(&mut call), AskAnswer::Run));
            if is_overtaken {
                assert!(stack.forget(&GUARD).failures.is_empty());
            }
            let stored = stack.store(&mut call, b"value", None);
            (stored, stack.list(0, b"a:", 3, 0).unwrap().entries.len())
        };
        assert_eq!(run(true), (StoredInTiers::Overtaken, 0));
        let (stored, _) = run(false);
        let (found, _) = listed(&*tiers[0], b"a:", 3);
        assert_eq!((stored, found.len()), (StoredInTiers::Kept, 1));
        assert!(found.values().all(|value| value == b"val"));
        let error = stack.list(1, b"a:", 3, 0).unwrap_err();
        assert_eq!(error.fault, TierFault::Off);
    });
}
