//! What must be true of transactions once they have ended.

use engine::{EngineError, TransactionError};
use model::Timestamp;

use super::super::temporal_transaction::{Claim, Inside};
use super::check::show;
use super::{Found, World};

/// What the clock may have moved between the begin and the end of a commit, in microseconds.
const SLACK_US: i64 = 5_000_000;

impl World {
    pub(super) fn check_claim(&mut self, claim: &Claim, ended: &Result<(), EngineError>) -> Found {
        match claim {
            Claim::Inside(seen) => {
                let seen = seen.lock().unwrap().take();
                match (seen, ended) {
                    (Some(inside), Ok(())) => self.check_inside(&inside),
                    _ => Ok(()),
                }
            }
            Claim::InTime { begun, expires } => self.check_in_time(*begun, *expires, ended),
        }
    }

    /// What was seen inside is what stands now, if the commit alone came between.
    fn check_inside(&mut self, inside: &Inside) -> Found {
        let stands = self.judge.stands();
        let [asked, answered] = inside.stood;
        let is_alone = if inside.is_empty || !inside.is_committed {
            inside.is_empty && stands == asked
        } else {
            let made_by = self.judge.states[stands].transaction.as_deref();
            stands == asked + 1 && made_by == Some(&inside.transaction)
        };
        if !is_alone || asked != answered || self.judge.is_hidden() {
            return Ok(());
        }
        let Ok((rows, total)) = self.judge.evaluate(&inside.question, None) else {
            return Ok(());
        };
        self.tally.count("looks inside that were judged", true);
        let seen = (timeless(&inside.seen.rows), inside.seen.total);
        if seen == (timeless(&rows), total) {
            return Ok(());
        }
        Err(format!(
            "{:?}\n  was answered inside {}\n  {}\n  and its commit leaves\n  {}",
            inside.question,
            inside.transaction,
            show(&(asked, Ok((inside.seen.rows.to_vec(), inside.seen.total)))),
            show(&(stands, Ok((rows, total))))
        ))
    }

    fn check_in_time(
        &mut self,
        begun: Timestamp,
        expires: Timestamp,
        ended: &Result<(), EngineError>,
    ) -> Found {
        let is_late = matches!(
            ended,
            Err(EngineError::Transaction(TransactionError::Expired(_)))
        );
        self.tally.count("transactions that expired", is_late);
        self.tally.count("commits just in time", ended.is_ok());
        let now = self.clock.look();
        if ended.is_ok() && begun.0.min(now.0) > expires.0 + SLACK_US {
            return Err(format!("committed after {expires:?}, begun at {begun:?}"));
        }
        if is_late && begun.0.max(now.0) + SLACK_US < expires.0 {
            return Err(format!("expired before {expires:?}, it is {now:?}"));
        }
        Ok(())
    }
}

/// The rows without the times at which they were created and changed: a dry run has others.
fn timeless(page: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(page);
    let row = |line: &str| {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        match words[..] {
            [seq, id, _, _, rest] => format!("{seq} {id} {rest}"),
            _ => line.to_owned(),
        }
    };
    let (_, rows) = text.split_once(' ').unwrap_or_default();
    rows.lines().map(row).collect()
}
