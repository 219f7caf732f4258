//! What is in a file, for a person who asks. Reads everything and changes nothing.

use std::os::unix::fs::FileExt;

use super::super::host::Host;
use super::super::tier::TierError;
use super::FileSettings;
use super::failed::io;
use super::layout::{self, BUCKET_BYTES, Bucket, RecordPlace, UNIT};
use super::opened::OpenedFile;

/// Counts of the records that the slots of a file name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSurvey {
    /// Size of the whole file.
    pub file_bytes: u64,
    /// Those that answer.
    pub entries: u64,
    /// Bytes of the ring that these take.
    pub entry_bytes: u64,
    /// Those whose lifetime is over, and in a mapped file those that were flushed.
    pub expired: u64,
    /// Those over which others have been written.
    pub overwritten: u64,
    /// Those that should be whole and are not.
    pub damaged: u64,
}

impl FileSurvey {
    /// Looks through the file while others use it. `None` if there is none, or if a process that
    /// opens it would replace it.
    ///
    /// # Errors
    /// When the file may not be used, or its head is damaged.
    pub fn of(settings: &FileSettings, host: &Host) -> Result<Option<FileSurvey>, TierError> {
        let Some(opened) = OpenedFile::existing(settings, host)? else {
            return Ok(None);
        };
        let mut survey = FileSurvey {
            file_bytes: opened.file.metadata().map_err(io)?.len(),
            ..FileSurvey::default()
        };
        for stripe in 0..opened.layout.stripes {
            for bucket in 0..opened.layout.buckets {
                let at = opened.layout.bucket_at(stripe, bucket);
                let mut bytes = [0; BUCKET_BYTES];
                opened.file.read_exact_at(&mut bytes, at).map_err(io)?;
                for place in Bucket::new(bytes, at, opened.seed).records() {
                    survey.count(&opened, place, (host.now_ms)())?;
                }
            }
        }
        Ok(Some(survey))
    }

    fn count(
        &mut self,
        opened: &OpenedFile,
        place: RecordPlace,
        now_ms: u64,
    ) -> Result<(), TierError> {
        let length = (place.units * UNIT) as usize;
        let mut bytes = vec![0; length.min(opened.layout.record_bytes_max)];
        let (ring, in_ring) = opened.layout.ring_of(place.position);
        let at = opened.layout.record_at(ring, in_ring);
        opened.file.read_exact_at(&mut bytes, at).map_err(io)?;
        let record = layout::read_record(&bytes, opened.seed);
        let record = record.filter(|(head, ..)| head.position == place.position);
        // Asked after the bytes were read: a writer raises the head before it writes over them.
        let head = opened.head(ring)?;
        match record {
            Some((head, ..)) if now_ms >= head.until_ms => self.expired += 1,
            Some(_) => {
                self.entries += 1;
                self.entry_bytes += place.units * UNIT;
            }
            None if opened.layout.is_whole(head, in_ring) => self.damaged += 1,
            None => self.overwritten += 1,
        }
        Ok(())
    }
}
