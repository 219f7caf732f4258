//! What is stored: its format, whether it is whole, and whether the clock fits it.

use std::time::Duration;

use engine::{DAMAGED_ROWS_MAX, DRIFT_MAX_US, Inspection, Quotas, StoreError, StorePlace, inspect};
use indicatif::{ProgressBar, ProgressStyle};
use model::calendar::iso_ms;
use model::{Timestamp, counted};

use super::{Finding, Patient, database};
use crate::config::secret_key;

/// A clock so far behind the last commit runs wrong, in microseconds; marks go on from there.
const BEHIND_MAX_US: i64 = 1_000_000;

/// From so much of a quota on, the operator is warned.
const NEAR_PERCENT: u64 = 80;
/// Most rows that a finding names.
const ROWS_SHOWN: usize = 10;
/// Most projects that a finding names.
const PROJECTS_SHOWN: usize = 5;

/// The checks of the database.
pub fn examine(patient: &Patient<'_>, say: &mut impl FnMut(Finding)) {
    if let StorePlace::Database(url) = &patient.setup.engine.place {
        let password_file = patient.setup.password_file.as_deref();
        let files = (password_file, patient.directory);
        return database::examine(url, files, &*patient.clock, say);
    }
    let mut inspection = match inspect(&patient.setup.engine.place) {
        Ok(Some(inspection)) => inspection,
        Ok(None) => return say(Finding::good("format", "Nothing is stored yet.")),
        Err(error) => return say(unreadable(&error)),
    };
    say(format(&inspection));
    if patient.integrity {
        say(integrity(&mut inspection));
    } else {
        say(Finding::skipped("integrity", "Not asked for."));
    }
    say(commits(&inspection));
    say(key(&inspection));
    say(variables_key(&inspection, patient));
    say(encrypted(&inspection, patient.integrity));
    say(quotas(&inspection, patient.setup.engine.quotas));
    match inspection.mark() {
        Ok(mark) => {
            let rest_ms = mark.and_then(|mark| inspection.rest_ms(mark));
            let expected = Expected {
                rest_ms,
                downtime_max_us: patient.setup.engine.downtime_max_us,
            };
            let last = mark.map(model::Mark::timestamp);
            say(clock(patient.clock.now(), last, expected));
        }
        Err(error) => say(unreadable(&error)),
    }
}

fn commits(inspection: &Inspection) -> Finding {
    const CHECK: &str = "commits";
    match inspection.holds_all() {
        Ok(()) => Finding::good(
            CHECK,
            "The last commit is there, according to tidemark.marks.",
        ),
        Err(error @ StoreError::CommitsLost { .. }) => Finding::bad(
            CHECK,
            error.to_string(),
            "Keep a copy of the directory, and look for the cause: a disk that is failing, or a \
             copy of the database put back without its log",
        ),
        Err(error) => unreadable(&error),
    }
}

fn key(inspection: &Inspection) -> Finding {
    const CHECK: &str = "key";
    match inspection.key() {
        Ok(Some(())) => Finding::good(
            CHECK,
            "The key of the encrypted columns is there. Keep a copy of tidemark.key, and not \
             beside the copies of the data.",
        ),
        Ok(None) => Finding::good(CHECK, "Nothing is encrypted, so no key is needed."),
        Err(error @ (StoreError::KeyMissing { .. } | StoreError::KeyWrong { .. })) => Finding::bad(
            CHECK,
            error.to_string(),
            "No start goes on without it: what was encrypted could be neither read nor told \
                 from what another key wrote",
        ),
        Err(error) => unreadable(&error),
    }
}

fn variables_key(inspection: &Inspection, patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "variables";
    let named = patient.setup.variables_key.as_deref();
    if let Some(Err(why)) = named.map(secret_key::look) {
        let found = format!("secret-key-file: {why}.");
        return Finding::bad(CHECK, found, "A server does not start with such a file");
    }
    match inspection.variables_key(named) {
        Ok(Some(())) => Finding::good(
            CHECK,
            "The key of the variables of functions is there. Keep a copy of it, and not beside \
             the copies of the data.",
        ),
        Ok(None) => Finding::good(
            CHECK,
            "No function has variables, and none waits to be executed, so no key is needed.",
        ),
        Err(error @ (StoreError::KeyMissing { .. } | StoreError::KeyWrong { .. })) => {
            Finding::warning(
                CHECK,
                error.to_string(),
                "A server starts without it, refuses executions of functions with variables, and \
                 lets those wait that were accepted. Put the file back, or delete those variables \
                 and executions",
            )
        }
        Err(error) => unreadable(&error),
    }
}

fn encrypted(inspection: &Inspection, is_wanted: bool) -> Finding {
    const CHECK: &str = "encrypted";
    if !is_wanted {
        return Finding::skipped(CHECK, "Not asked for.");
    }
    if !matches!(inspection.key(), Ok(Some(()))) {
        return Finding::skipped(CHECK, "There is no key to open anything with.");
    }
    let bar = spinner("{spinner} opening encrypted values, {elapsed}");
    let damage = inspection.damaged(|| bar.tick());
    bar.finish_and_clear();
    let damage = match damage {
        Ok(damage) if damage.rows.is_empty() => {
            return Finding::good(CHECK, "Every encrypted value was opened.");
        }
        Ok(damage) => damage,
        Err(error) => return unreadable(&error),
    };
    let (rows, few) = (damage.rows.len(), damage.rows.iter().take(ROWS_SHOWN));
    let few: Vec<String> = few
        .map(|(table, id)| format!("`{id}` of {table}"))
        .collect();
    let (values, rows, few) = (
        counted(damage.values, "encrypted value"),
        match rows {
            DAMAGED_ROWS_MAX => format!("{rows} rows or more"),
            rows => counted(rows as u64, "row"),
        },
        few.join(", "),
    );
    Finding::bad(
        CHECK,
        format!("{values} of {rows} cannot be opened, now or in the past: {few}."),
        "Keep a copy of the directory, and look for the cause (disk, memory, a file put back in \
         part). Restore a copy, or write those rows again; `tidemark history` shows what is left",
    )
}

fn quotas(inspection: &Inspection, quotas: Quotas) -> Finding {
    let read = || -> Result<_, StoreError> {
        let stored = (quotas.data_bytes > 0).then(|| inspection.data_bytes());
        let rows = (quotas.project_rows > 0).then(|| inspection.rows());
        let bytes = (quotas.project_bytes > 0).then(|| inspection.project_bytes());
        let of_projects = [
            OfProjects {
                what: "rows",
                setting: "--project-rows",
                held: rows.transpose()?,
                max: quotas.project_rows,
            },
            OfProjects {
                what: "bytes",
                setting: "--project-bytes",
                held: bytes.transpose()?,
                max: quotas.project_bytes,
            },
        ];
        Ok((stored.transpose()?, of_projects))
    };
    match read() {
        Ok((stored, of_projects)) => taken(stored, &of_projects, quotas),
        Err(error) => unreadable(&error),
    }
}

/// What each project has of something.
struct OfProjects {
    what: &'static str,
    /// By which it is bounded.
    setting: &'static str,
    /// Those with the most first; `None` without a bound.
    held: Option<Vec<(String, u64)>>,
    max: u64,
}

impl OfProjects {
    /// Says which projects are near the bound; whether any is.
    fn say(&self, found: &mut Vec<String>) -> bool {
        let (what, max) = (self.what, self.max);
        let Some(held) = &self.held else {
            return false;
        };
        let near: Vec<_> = held.iter().filter(|(_, held)| nears(*held, max)).collect();
        for (project, held) in near.iter().take(PROJECTS_SHOWN) {
            found.push(format!("Project `{project}` has {held} of {max} {what}."));
        }
        if near.len() > PROJECTS_SHOWN {
            let more = near.len() - PROJECTS_SHOWN;
            found.push(format!("So it is with {more} more."));
        }
        if near.is_empty() {
            let share = format!("No project has {NEAR_PERCENT} % of its {max} {what}.");
            found.push(share);
        }
        !near.is_empty()
    }
}

/// `stored` are the bytes of all projects, as far as they are bounded.
fn taken(stored: Option<u64>, of_projects: &[OfProjects], quotas: Quotas) -> Finding {
    const CHECK: &str = "quotas";
    let mut found = Vec::new();
    let mut settings = Vec::new();
    if let Some(bytes) = stored {
        found.push(format!(
            "{bytes} of {} bytes are stored.",
            quotas.data_bytes
        ));
        if nears(bytes, quotas.data_bytes) {
            settings.push("--data-max");
        }
    }
    let near = of_projects.iter().filter(|quota| quota.say(&mut found));
    settings.extend(near.map(|quota| quota.setting));
    if found.is_empty() {
        found.push("Neither bytes nor rows are bounded.".to_owned());
    }
    let found = found.join(" ");
    if settings.is_empty() {
        return Finding::good(CHECK, found);
    }
    let settings = settings.join(" and ");
    Finding::warning(
        CHECK,
        found,
        format!("Delete what is not needed, or raise {settings}: at the bound writes are 507"),
    )
}

fn nears(held: u64, max: u64) -> bool {
    u128::from(held) * 100 >= u128::from(max) * u128::from(NEAR_PERCENT)
}

fn unreadable(error: &StoreError) -> Finding {
    let advice = match error {
        StoreError::Format { .. } => "Use the Tidemark that wrote it, or a newer one",
        StoreError::Corrupt { .. } => {
            "If another program's file lies there, give another directory with --data. Otherwise \
             restore the last copy of the whole directory"
        }
        StoreError::DatabaseMissing { .. } => "Look for it before anything is started here",
        _ => "Look at the findings about the directory; run as the user that runs the server",
    };
    Finding::bad("format", error.to_string(), advice)
}

fn format(inspection: &Inspection) -> Finding {
    const CHECK: &str = "format";
    match inspection.formats() {
        Ok((found, newest)) if found == newest => {
            Finding::good(CHECK, format!("The format is {found}, today's."))
        }
        Ok((found, newest)) => Finding::warning(
            CHECK,
            format!("The format is {found}; the next start makes it {newest}."),
            "Copy the directory before that start: an older Tidemark cannot read it afterwards",
        ),
        Err(error) => unreadable(&error),
    }
}

fn spinner(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is constant");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn integrity(inspection: &mut Inspection) -> Finding {
    const CHECK: &str = "integrity";
    let bar = spinner("{spinner} reading the whole database, {elapsed}");
    let sign = bar.clone();
    let said = inspection.check(move || sign.tick());
    bar.finish_and_clear();
    match said {
        Ok(said) if said.is_empty() => Finding::good(CHECK, "Every page was read and is whole."),
        Ok(said) => Finding::bad(
            CHECK,
            format!(
                "The database is damaged: {}.",
                said[0].trim_end_matches('.')
            ),
            "Stop the server, keep a copy of the directory, and look for the cause (disk, memory). \
             `tidemark export` saves the tables that can still be read",
        ),
        Err(error) => Finding::bad(
            CHECK,
            format!("The database cannot be read to its end: {error}"),
            "Stop the server, keep a copy of the directory, and look for the cause (disk, memory)",
        ),
    }
}

/// How far ahead of the last commit the clock may be.
#[derive(Clone, Copy)]
struct Expected {
    /// How long there was no commit, where that is known.
    rest_ms: Option<u64>,
    /// How long that may be otherwise.
    downtime_max_us: i64,
}

impl Expected {
    fn ahead_max_us(self) -> i64 {
        let rest_us = |ms: u64| i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
        self.rest_ms.map_or(self.downtime_max_us, |ms| {
            rest_us(ms).saturating_add(DRIFT_MAX_US)
        })
    }
}

fn clock(now: Timestamp, last: Option<Timestamp>, expected: Expected) -> Finding {
    const CHECK: &str = "clock";
    let shown = iso_ms(now);
    let Some(last) = last else {
        return Finding::good(CHECK, format!("It is {shown}; nothing was committed yet."));
    };
    let ahead_us = now.0 - last.0;
    let found = format!("It is {shown}; the last commit was at {}.", iso_ms(last));
    if ahead_us < -BEHIND_MAX_US {
        return Finding::warning(
            CHECK,
            found,
            "The clock is behind the last commit. Set it right: until it has caught up, times of \
             commits go on from the last one by single microseconds",
        );
    }
    if ahead_us > expected.ahead_max_us() {
        return Finding::bad(
            CHECK,
            found,
            "The clock is further ahead than the time that passed, so a wrong one must be feared, \
             and writes are refused. Set it right; if it is right, start once with --accept-clock",
        );
    }
    Finding::good(CHECK, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Health;

    #[test]
    fn the_clock_is_held_against_the_last_commit() {
        let day = 86_400_000_000;
        let held = |now: i64, last: Option<i64>, rest_ms: Option<u64>, health: Health| {
            let expected = Expected {
                rest_ms,
                downtime_max_us: 90 * day,
            };
            let finding = clock(Timestamp(now), last.map(Timestamp), expected);
            assert_eq!(finding.health, health, "{now} {last:?}: {}", finding.found);
        };
        let check = |now, last, health| held(now, last, None, health);
        check(day, None, Health::Good);
        check(day, Some(day), Health::Good);
        check(day, Some(day + BEHIND_MAX_US), Health::Good);
        check(day, Some(day + BEHIND_MAX_US + 1), Health::Warning);
        check(100 * day, Some(10 * day), Health::Good);
        check(100 * day + 1, Some(10 * day), Health::Bad);
        // The machine has run all the while, for a second.
        let (rest_ms, most) = (Some(1_000), 3_601_000_000);
        held(day + most, Some(day), rest_ms, Health::Good);
        held(day + most + 1, Some(day), rest_ms, Health::Bad);
    }

    #[test]
    fn a_quota_is_warned_of_from_four_fifths_on() {
        let quotas = Quotas {
            project_rows: 100,
            project_bytes: 10_000,
            data_bytes: 1_000,
            ..Quotas::NONE
        };
        let rows = |counts: &[u64]| -> Vec<(String, u64)> {
            let named = counts.iter().enumerate();
            named
                .map(|(nth, rows)| (format!("p{nth}"), *rows))
                .collect()
        };
        let of = |what, setting, max, counts: &[u64]| OfProjects {
            what,
            setting,
            held: Some(rows(counts)),
            max,
        };
        let judge = |bytes, counts: &[u64]| {
            let of_rows = of("rows", "--project-rows", 100, counts);
            let of_bytes = of("bytes", "--project-bytes", 10_000, &[7_999]);
            taken(Some(bytes), &[of_rows, of_bytes], quotas)
        };
        assert_eq!(judge(799, &[79, 3]).health, Health::Good);
        let near = judge(800, &[79]);
        assert_eq!(near.health, Health::Warning);
        assert!(near.found.contains("800 of 1000 bytes"), "{}", near.found);
        assert!(!near.advice.unwrap().contains("--project-rows"));
        let near = judge(0, &[99, 98, 97, 96, 95, 94, 80, 79]);
        assert_eq!(near.health, Health::Warning);
        assert!(
            near.found.contains("`p4` has 95 of 100 rows"),
            "{}",
            near.found
        );
        assert!(near.found.contains("2 more"), "{}", near.found);
        let near = taken(
            Some(0),
            &[of("bytes", "--project-bytes", 10_000, &[8_000, 2])],
            quotas,
        );
        assert_eq!(near.health, Health::Warning);
        let named = "`p0` has 8000 of 10000 bytes";
        assert!(near.found.contains(named), "{}", near.found);
        assert!(near.advice.unwrap().contains("--project-bytes"));
        let none = taken(None, &[], Quotas::NONE);
        assert_eq!(none.health, Health::Good);
    }

    #[test]
    fn a_newer_format_says_what_to_use() {
        let newer = StoreError::Format {
            found: 9,
            newest: 1,
        };
        let finding = unreadable(&newer);
        assert_eq!(finding.health, Health::Bad);
        assert!(finding.found.contains("format 9"), "{}", finding.found);
        assert!(finding.advice.unwrap().contains("newer"));
    }
}
