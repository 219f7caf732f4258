//! What is in a mapped file, for a person who asks. Reads everything and changes nothing.

use super::super::super::host::Host;
use super::super::super::tier::TierError;
use super::super::layout::{self, KeyPlace, RECORD_HEADER_BYTES, RecordPlace, UNIT};
use super::super::survey::FileSurvey;
use super::MappedFile;

impl MappedFile {
    pub fn survey(&self, host: &Host) -> Result<FileSurvey, TierError> {
        let mut survey = FileSurvey {
            file_bytes: self.opened.bytes(),
            ..FileSurvey::default()
        };
        let layout = &self.opened.layout;
        for stripe in 0..layout.stripes {
            for bucket in 0..layout.buckets {
                let place = KeyPlace {
                    stripe,
                    bucket,
                    tag: 0,
                };
                for record in self.bucket(place).bucket.records() {
                    self.count(&mut survey, stripe, record, self.now_ms(host))?;
                }
            }
        }
        Ok(survey)
    }

    fn count(
        &self,
        survey: &mut FileSurvey,
        stripe: u32,
        place: RecordPlace,
        now_ms: u64,
    ) -> Result<(), TierError> {
        let layout = &self.opened.layout;
        let length = usize::try_from(place.units * UNIT).unwrap_or(usize::MAX);
        let length = length.min(layout.record_bytes_max);
        let bytes = self.record_bytes(stripe, place.position, length).to_vec();
        let record = layout::read_record(&bytes, self.opened.seed);
        let record = record.filter(|(head, ..)| head.position == place.position);
        // After the bytes were read: a writer raises the head before it writes over them.
        let head = self.head(stripe)?;
        match record {
            Some((head, key, _))
                if now_ms >= head.until_ms
                    || !self.is_of_this_generation(&bytes[RECORD_HEADER_BYTES..][..key]) =>
            {
                survey.expired += 1;
            }
            Some(_) => {
                survey.entries += 1;
                survey.entry_bytes += place.units * UNIT;
            }
            None if layout.is_whole(head, place.position) => survey.damaged += 1,
            None => survey.overwritten += 1,
        }
        Ok(())
    }
}
