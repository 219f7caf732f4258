//! Functions that the clock executes: which minutes of their schedules are due.
//!
//! A minute of a function is queued once: the last one that was stands beside the queue, and moves
//! in the commit that queues the next. Of the minutes that pass while nothing runs, only the last
//! one is due.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use croner::errors::CronError;
use croner::{CivilDateTime, Cron, CronDateTime, Resolution, Weekday};
use model::calendar::{civil_from_days, days_from_civil};
use model::{Function, Timestamp};
use store::{FunctionOp, QUEUED_BYTES_MAX, QUEUED_MAX, QueueBounds, QueueOp};

use super::definition::cron_parser;
use super::queue::{QueuedRequest, new_execution};
use crate::Engine;
use crate::error::EngineError;

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;

/// What is known of schedules, so that most looks at the clock read nothing.
#[derive(Debug, Default)]
pub struct Schedules {
    /// By [`Function::seq`].
    known: HashMap<i64, KnownSchedule>,
}

#[derive(Debug)]
struct KnownSchedule {
    /// As of the look; another one may have another schedule.
    function: Arc<Function>,
    /// When it was first looked at.
    since: Timestamp,
    /// No minute before it is due; `None` where none will ever be.
    next: Option<Timestamp>,
}

impl Engine {
    /// The minutes that are due now, each with its function, until [`Engine::queue_minute`] has
    /// queued them.
    ///
    /// # Errors
    /// What the store says.
    pub async fn due_minutes(
        &self,
        schedules: &mut Schedules,
    ) -> Result<Vec<(Arc<Function>, Timestamp)>, EngineError> {
        let now = self.now();
        let functions = self.functions_by_seq();
        schedules.known.retain(|seq, known| {
            let found = functions.get(seq);
            found.is_some_and(|found| Arc::ptr_eq(found, &known.function))
        });
        let mut due = Vec::new();
        for (seq, function) in functions {
            let schedule = &function.definition.schedule;
            let is_early = |known: &KnownSchedule| known.next.is_none_or(|next| next > now);
            if schedule.is_empty()
                || function.active.is_none()
                || schedules.known.get(&seq).is_some_and(is_early)
            {
                continue;
            }
            let Ok(cron) = cron_parser().parse(schedule) else {
                continue;
            };
            // Without a minute in the store, the schedule is older than schedules were executed.
            let since = schedules.known.get(&seq).map_or(now, |known| known.since);
            let done = self.shared.store.schedule_minute(seq).await?;
            let done = done.unwrap_or(since);
            let last = minute(&cron, now, true).filter(|last| *last > done);
            let next = match last {
                Some(last) => Some(last),
                None => minute(&cron, now, false),
            };
            due.extend(last.map(|last| (function.clone(), last)));
            let known = KnownSchedule {
                function,
                since,
                next,
            };
            schedules.known.insert(seq, known);
        }
        Ok(due)
    }

    /// Queues the execution of a minute that is due, unless that minute, or a later one, was.
    ///
    /// # Errors
    /// [`crate::FunctionError::QueueFull`]: the minute stays due.
    pub async fn queue_minute(
        &self,
        function: &Function,
        minute: Timestamp,
        request: QueuedRequest,
    ) -> Result<(), EngineError> {
        let bounds = QueueBounds {
            count_max: QUEUED_MAX,
            bytes_max: QUEUED_BYTES_MAX,
        };
        let new = new_execution(function, request, self.now())?;
        let op = QueueOp::PutMinute(Box::new(new), minute, bounds);
        self.change_function(None, FunctionOp::Queue(op)).await
    }
}

/// The last minute of a schedule up to an instant, or the first one after it.
fn minute(cron: &Cron, instant: Timestamp, is_past: bool) -> Option<Timestamp> {
    let from = CronInstant(instant.0.div_euclid(SECOND_US));
    let found = if is_past {
        cron.find_previous_occurrence(&from, true)
    } else {
        cron.find_next_occurrence(&from, false)
    };
    found.ok().map(|found| Timestamp(found.0 * SECOND_US))
}

/// Seconds since 1970, in UTC.
#[derive(Clone, Copy, Debug)]
struct CronInstant(i64);

impl CronDateTime for CronInstant {
    fn to_civil(&self) -> CivilDateTime {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY_S));
        let second = self.0.rem_euclid(DAY_S) as u32;
        let civil = CivilDateTime::from_ymd_hms_opt(
            year as i32,
            month as u32,
            day as u32,
            second / 3_600,
            second / 60 % 60,
            second % 60,
        );
        civil.expect("the calendar gives days that exist")
    }

    fn civil_weekday(&self) -> Weekday {
        // 1970-01-01 was a Thursday.
        let weekday = (self.0.div_euclid(DAY_S) + 4).rem_euclid(7);
        Weekday::from_days_from_sunday(weekday as u32)
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let (year, month) = (i64::from(civil.year()), i64::from(civil.month()));
        let days = days_from_civil(year, month, i64::from(civil.day()));
        let second = civil.hour() * 3_600 + civil.minute() * 60 + civil.second();
        let instant = CronInstant(days * DAY_S + i64::from(second));
        Ok(Resolution::Single(instant))
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(seconds).map(CronInstant)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use model::calendar::{iso_ms, parse_iso};

    use super::*;

    /// The last minute up to an instant and the next one after it.
    fn around(schedule: &str, instant: &str) -> [String; 2] {
        let cron = cron_parser().parse(schedule).unwrap();
        let instant = parse_iso(instant).unwrap();
        [true, false].map(|is_past| {
            let found = minute(&cron, instant, is_past);
            found.map_or(String::new(), |found| iso_ms(found)[..16].to_owned())
        })
    }

    #[test]
    fn minutes_of_schedules_are_those_of_utc() {
        let at = "2026-03-01T12:07:30Z";
        for (schedule, last, next) in [
            ("* * * * *", "2026-03-01T12:07", "2026-03-01T12:08"),
            ("*/5 * * * *", "2026-03-01T12:05", "2026-03-01T12:10"),
            ("0 0 * * *", "2026-03-01T00:00", "2026-03-02T00:00"),
            ("30 23 * * 1-5", "2026-02-27T23:30", "2026-03-02T23:30"),
            ("0 6 * * SUN", "2026-03-01T06:00", "2026-03-08T06:00"),
            ("0 0 29 2 *", "2024-02-29T00:00", "2028-02-29T00:00"),
            ("59 23 31 12 *", "2025-12-31T23:59", "2026-12-31T23:59"),
            ("0 0 30 2 *", "", ""),
        ] {
            assert_eq!(around(schedule, at), [last, next], "{schedule}");
        }
        // The minute itself is due, to its first second.
        let exact = around("7 12 * * *", "2026-03-01T12:07:00Z");
        assert_eq!(exact, ["2026-03-01T12:07", "2026-03-02T12:07"]);
        let before = around("7 12 * * *", "2026-03-01T12:06:59.999999Z");
        assert_eq!(before, ["2026-02-28T12:07", "2026-03-01T12:07"]);
    }
}
