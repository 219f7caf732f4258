//! A store of whole records in memory, which several tiers share as processes would.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tiers::{RecordStore, TierError};

#[derive(Clone, Default)]
pub struct MemoryRecords {
    pub records: Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>,
}

impl RecordStore for MemoryRecords {
    fn check(&self) -> Result<(), TierError> {
        Ok(())
    }

    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TierError> {
        Ok(self.records.lock().unwrap().get(key).cloned())
    }

    fn write(&self, key: &[u8], record: &[u8], _: u64) -> Result<(), TierError> {
        let mut records = self.records.lock().unwrap();
        records.insert(key.to_vec(), record.to_vec());
        Ok(())
    }

    fn remove(&self, key: &[u8]) -> Result<bool, TierError> {
        Ok(self.records.lock().unwrap().remove(key).is_some())
    }
}
