//! `tidemark doctor`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::command::serve_settings;
use super::{Outside, say, say_json};
use crate::config::DoctorArgs;
use crate::doctor::{Finding, Health, Patient, database, examine};

/// The exit code is 1 where something is bad.
///
/// # Errors
/// When the settings themselves cannot be understood.
pub fn run(args: &DoctorArgs, outside: Outside) -> Result<ExitCode> {
    let mut findings = Vec::new();
    let mut failed = None;
    let mut say = |finding: Finding| {
        if !args.json
            && let Err(error) = say(&line(&finding))
        {
            failed = Some(error);
        }
        findings.push(finding);
    };
    match args.database()? {
        Some((url, file)) => {
            if args.accept_restore {
                say(database::accept(&url, file)?);
            }
            let files = (file, args.data.data.as_path());
            database::examine(&url, files, &*outside.clock, say);
        }
        None if args.accept_restore => bail!("`--accept-restore` needs `--database`"),
        None => examine_directory(args, outside, say)?,
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let is_bad = findings.iter().any(|one| one.health == Health::Bad);
    if args.json {
        let findings: Vec<Value> = findings.iter().map(Finding::json).collect();
        say_json(&json!({ "healthy": !is_bad, "findings": findings }))?;
    }
    Ok(if is_bad {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn examine_directory(args: &DoctorArgs, outside: Outside, say: impl FnMut(Finding)) -> Result<()> {
    let (file, settings, serve) = serve_settings(&args.data, args.config.as_deref())?;
    let setup = serve.check(outside.clock.clone(), outside.rng)?;
    let patient = Patient {
        directory: &setup.data,
        setup: &setup,
        settings: &settings,
        file: &file,
        integrity: !args.no_check,
        clock: outside.clock,
    };
    examine(&patient, say);
    Ok(())
}

fn line(finding: &Finding) -> String {
    let (word, check) = (finding.health.word(), finding.check);
    let advice = match &finding.advice {
        Some(advice) => format!("{:21} → {advice}.\n", ""),
        None => String::new(),
    };
    format!("{word:8} {check:12} {}\n{advice}", finding.found)
}
