//! A mapped file as a tier, so that the laws of tiers are tested on it, too.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tiers::{
    FileSettings, Host, Lookup, MappedEntry, MappedLookup, MappedStored, MappedTicket, MappedTier,
    MappedWhen, MissTicket, Stored, Tier, TierError, TierHit,
};

use super::settings;

const GROUP: &[u8] = b"group";

/// Tickets of the file by their place, which is what the ticket of a tier has room for.
#[derive(Default)]
struct Tickets(Vec<MappedTicket>);

pub struct MappedAsTier(Mutex<(MappedTier, Tickets)>);

impl MappedAsTier {
    pub fn new(settings: FileSettings, host: Host) -> MappedAsTier {
        let tier = MappedTier::new(settings, host);
        MappedAsTier(Mutex::new((tier, Tickets::default())))
    }

    pub fn of(folder: &Path, bytes: u64, stripes: u32) -> MappedAsTier {
        MappedAsTier::new(settings(folder, bytes, stripes), super::host())
    }

    fn alone(&self) -> MutexGuard<'_, (MappedTier, Tickets)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tickets {
    fn miss(&mut self, ticket: MappedTicket) -> MissTicket {
        let place = self.0.iter().rposition(|found| *found == ticket);
        let place = place.unwrap_or_else(|| {
            self.0.push(ticket);
            self.0.len() - 1
        });
        MissTicket::of(place as u128)
    }
}

impl Tier for MappedAsTier {
    fn check(&self) -> Result<(), TierError> {
        self.alone().0.check()
    }

    fn get(&self, key: &[u8]) -> Result<Lookup, TierError> {
        let (tier, tickets) = &mut *self.alone();
        Ok(match tier.get(GROUP, key)? {
            MappedLookup::Miss(ticket) => Lookup::Miss(tickets.miss(ticket)),
            MappedLookup::Hit(hit) => match hit.to_vec() {
                Some(bytes) => {
                    let all = 0..bytes.len();
                    Lookup::Hit(TierHit::new(bytes, all, hit.written_ms, hit.until_ms))
                }
                None => Lookup::Miss(tickets.miss(tier.ticket(GROUP, key)?)),
            },
        })
    }

    fn ticket(&self, key: &[u8]) -> Result<MissTicket, TierError> {
        let (tier, tickets) = &mut *self.alone();
        Ok(tickets.miss(tier.ticket(GROUP, key)?))
    }

    fn set(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError> {
        let (tier, tickets) = &mut *self.alone();
        let entry = MappedEntry {
            group: GROUP,
            key,
            value,
            lifetime_ms,
            ticket: ticket.map(|ticket| tickets.0[ticket.number() as usize]),
            when: MappedWhen::Always,
        };
        Ok(match tier.set(&entry)? {
            MappedStored::Kept => Stored::Kept,
            MappedStored::Overtaken => Stored::Overtaken,
            MappedStored::Refused => panic!("a set that depends on nothing was refused"),
        })
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TierError> {
        self.alone().0.delete(GROUP, key)
    }

    fn clear(&self) -> Result<(), TierError> {
        self.alone().0.flush()
    }
}
