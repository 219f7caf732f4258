//! What `tidemark doctor` looks at: each check is one finding that says what to do about it.
//!
//! Looks only, and beside a running server: the database is opened for reading, and the one file
//! that is written, to measure a sync, is a new one that is removed again.

use std::path::Path;
use std::sync::Arc;

use engine::{Clock, StorePlace};
use serde_json::{Value, json};

use crate::config::ServeSetup;
use crate::config::file::{InForce, Origin, Settings};

pub mod database;
mod functions;
pub mod holder;
mod machine;
mod place;
mod stored;

/// A file of a data directory whose last server ended because nothing could be written any more:
/// why.
pub const STOPPED: &str = "stopped";

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// As it should be.
    Good,
    /// Works, and may not as expected.
    Warning,
    /// A server cannot run so, or what is stored is damaged.
    Bad,
    /// Not looked at.
    Skipped,
}

/// What one check found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How it ended.
    pub health: Health,
    /// What was found, as a sentence.
    pub found: String,
    /// What to do, if anything.
    pub advice: Option<String>,
}

impl Finding {
    fn good(check: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            check,
            health: Health::Good,
            found: found.into(),
            advice: None,
        }
    }

    fn skipped(check: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            health: Health::Skipped,
            ..Finding::good(check, found)
        }
    }

    fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding {
            health: Health::Warning,
            advice: Some(advice.into()),
            ..Finding::good(check, found)
        }
    }

    fn bad(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding {
            health: Health::Bad,
            ..Finding::warning(check, found, advice)
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "check": self.check,
            "health": self.health.word(),
            "found": self.found,
            "advice": self.advice,
        })
    }
}

impl Health {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            Health::Good => "ok",
            Health::Warning => "warning",
            Health::Bad => "bad",
            Health::Skipped => "skipped",
        }
    }
}

/// What is looked at.
pub struct Patient<'a> {
    /// The data directory.
    pub directory: &'a Path,
    /// What a server would be given.
    pub setup: &'a ServeSetup,
    /// The settings and where they come from.
    pub settings: &'a [InForce],
    /// The configuration file.
    pub file: &'a Settings,
    /// Whether the whole database is read.
    pub integrity: bool,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Makes every check, and hands each finding over as it is made.
pub fn examine(patient: &Patient<'_>, mut say: impl FnMut(Finding)) {
    say(settings(patient));
    let is_there = patient.directory.is_dir();
    place::directory(patient.directory)
        .into_iter()
        .for_each(&mut say);
    if is_there {
        say(place::permissions(patient.directory));
        say(place::owner(patient.directory));
        place::last_end(patient.directory)
            .into_iter()
            .for_each(&mut say);
    }
    stored::examine(patient, &mut say);
    if let StorePlace::Directory(directory) = &patient.setup.engine.place {
        say(place::durability(
            directory,
            patient.setup.engine.durability,
        ));
    }
    say(machine::port(patient));
    say(machine::open_files(
        patient.setup.http.limits.connections_max,
    ));
    say(machine::kernel());
    match &patient.setup.http.functions {
        Ok(config) => {
            say(self::functions::jail(config));
            say(self::functions::network(config));
            say(self::functions::groups());
            say(self::functions::runtimes(config));
        }
        Err(why) => say(Finding::skipped("jail", format!("Not looked for: {why}."))),
    }
    say(machine::versions());
}

fn settings(patient: &Patient<'_>) -> Finding {
    let given = patient
        .settings
        .iter()
        .filter(|one| one.origin != Origin::Default);
    let given: Vec<String> = given
        .map(|one| {
            let origin = match one.origin {
                Origin::Flag => "flag",
                Origin::Variable => "variable",
                Origin::File => "file",
                Origin::Default => "default",
            };
            format!("{}={} ({origin})", one.name, one.value)
        })
        .collect();
    let found = match given.as_slice() {
        [] => "All settings have their defaults.".to_owned(),
        given => format!("{}.", given.join(", ")),
    };
    let path = patient.file.path();
    if patient.file.holds_secret() && place::is_open_to_others(path) {
        let path = path.display();
        return Finding::warning(
            "settings",
            format!("{found} {path} holds the API key, and others may read it."),
            format!("chmod 600 {path}"),
        );
    }
    Finding::good("settings", found)
}
