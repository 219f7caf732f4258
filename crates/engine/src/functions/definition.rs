//! What a caller says of a function, checked.

use croner::parser::{CronParser, Seconds, Year};
use model::function::{
    CONCURRENCY_MAX, FUNCTION_TIMEOUT_S_MAX, RECORDS_BYTES_MAX, RECORDS_BYTES_MIN,
    RECORDS_DAYS_MAX, RECORDS_MAX,
};
use model::{FunctionChange, FunctionNetwork, FunctionOptionsChange, Role, Scope};

use super::runtimes::runtime;
use super::specification::Specification;
use super::variables::check_text;
use crate::error::EngineError;
use crate::schema::containers::check_name;

/// Most roles, events or scopes of a function (wire protocol, functions).
pub const LIST_MAX: usize = 100;
/// Longest entrypoint, and pattern of events, in characters.
pub const ENTRYPOINT_CHARS_MAX: usize = 1_028;
/// Longest commands.
pub const COMMANDS_CHARS_MAX: usize = 8_192;
/// Longest schedule.
pub const SCHEDULE_CHARS_MAX: usize = 128;
/// Longest time that deployments are kept: a hundred years.
pub const RETENTION_DAYS_MAX: u64 = 36_500;
/// What a caller says of a function; `None` where nothing.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each field is named like the one it sets")]
pub struct FunctionInput {
    pub name: Option<String>,
    pub runtime: Option<String>,
    pub execute: Option<Vec<String>>,
    pub events: Option<Vec<String>>,
    pub schedule: Option<String>,
    pub timeout_s: Option<i64>,
    pub enabled: Option<bool>,
    pub logging: Option<bool>,
    pub entrypoint: Option<String>,
    pub commands: Option<String>,
    pub scopes: Option<Vec<String>>,
    pub build_specification: Option<String>,
    pub runtime_specification: Option<String>,
    pub deployment_retention_days: Option<i64>,
}

/// What a caller says of a function's options; `None` where nothing.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each field is named like the one it sets")]
pub struct FunctionOptionsInput {
    pub concurrency: Option<i64>,
    pub network: Option<String>,
    pub records_max: Option<i64>,
    pub records_days: Option<i64>,
    pub records_bytes_max: Option<i64>,
}

type Checked<T> = Result<Option<T>, EngineError>;

impl FunctionInput {
    pub(super) fn checked(self) -> Result<FunctionChange, EngineError> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        let texts = [
            ("entrypoint", &self.entrypoint, ENTRYPOINT_CHARS_MAX),
            ("commands", &self.commands, COMMANDS_CHARS_MAX),
            ("schedule", &self.schedule, SCHEDULE_CHARS_MAX),
        ];
        for (name, text, chars_max) in texts {
            if let Some(text) = text {
                check_text(name, text, chars_max)?;
            }
        }
        Ok(FunctionChange {
            runtime: given(self.runtime, |text| check_runtime(&text))?,
            execute: given(self.execute, |texts| each("execute", &texts, role))?,
            events: given(self.events, |texts| each("events", &texts, event))?,
            schedule: given(self.schedule, check_schedule)?,
            timeout_s: given(self.timeout_s, |timeout_s| {
                bounded("timeout", timeout_s, 1, u64::from(FUNCTION_TIMEOUT_S_MAX))
            })?,
            scopes: given(self.scopes, |texts| each("scopes", &texts, scope))?,
            build_specification: given(self.build_specification, |text| {
                check_specification("buildSpecification", text)
            })?,
            runtime_specification: given(self.runtime_specification, |text| {
                check_specification("runtimeSpecification", text)
            })?,
            deployment_retention_days: given(self.deployment_retention_days, |days| {
                bounded("deploymentRetention", days, 0, RETENTION_DAYS_MAX)
            })?,
            name: self.name,
            enabled: self.enabled,
            logging: self.logging,
            entrypoint: self.entrypoint,
            commands: self.commands,
            options: None,
        })
    }
}

impl FunctionOptionsInput {
    pub(super) fn checked(&self) -> Result<FunctionChange, EngineError> {
        let records_bytes_max = given(self.records_bytes_max, |bytes| {
            within(
                "recordsBytesMax",
                bytes,
                RECORDS_BYTES_MIN,
                RECORDS_BYTES_MAX,
            )
        })?;
        let options = FunctionOptionsChange {
            concurrency: given(self.concurrency, |count| {
                bounded("concurrency", count, 1, CONCURRENCY_MAX)
            })?,
            network: given(self.network.as_deref(), check_network)?,
            records_max: given(self.records_max, |count| {
                bounded("recordsMax", count, 1, RECORDS_MAX)
            })?,
            records_days: given(self.records_days, |days| {
                bounded("recordsDays", days, 1, RECORDS_DAYS_MAX)
            })?,
            records_bytes_max,
        };
        Ok(FunctionChange {
            options: Some(options),
            ..FunctionChange::default()
        })
    }
}

fn given<T, U>(input: Option<T>, check: impl FnOnce(T) -> Result<U, EngineError>) -> Checked<U> {
    input.map(check).transpose()
}

fn argument(name: &'static str, why: impl Into<String>) -> EngineError {
    EngineError::Argument {
        name,
        why: why.into(),
    }
}

fn within(name: &'static str, value: i64, min: u64, max: u64) -> Result<u64, EngineError> {
    let value = u64::try_from(value).ok();
    let legal = value.filter(|value| (min..=max).contains(value));
    let why = || format!("Value must be an integer from {min} to {max}.");
    legal.ok_or_else(|| argument(name, why()))
}

fn bounded(name: &'static str, value: i64, min: u64, max: u64) -> Result<u32, EngineError> {
    let value = within(name, value, min, max)?;
    Ok(u32::try_from(value).expect("the limits are those of smaller numbers"))
}

fn each<T>(
    name: &'static str,
    texts: &[String],
    read: fn(&str) -> Result<T, EngineError>,
) -> Result<Vec<T>, EngineError> {
    if texts.len() > LIST_MAX {
        return Err(argument(
            name,
            format!("At most {LIST_MAX} elements are allowed."),
        ));
    }
    texts.iter().map(|text| read(text)).collect()
}

/// As it is shown in a refusal.
fn cut(text: &str) -> String {
    text.chars().take(100).collect()
}

fn check_runtime(text: &str) -> Result<String, EngineError> {
    let known = runtime(text).map(str::to_owned);
    known.ok_or_else(|| argument("runtime", format!("There is no runtime `{}`.", cut(text))))
}

fn role(text: &str) -> Result<Role, EngineError> {
    Role::parse(text).map_err(|why| argument("execute", format!("{}.", cut(&why))))
}

fn scope(text: &str) -> Result<Scope, EngineError> {
    let unknown = || format!("There is no scope `{}` on this server.", cut(text));
    Scope::parse(text).ok_or_else(|| argument("scopes", unknown()))
}

fn check_network(text: &str) -> Result<FunctionNetwork, EngineError> {
    let known = FunctionNetwork::parse(text);
    known.ok_or_else(|| argument("network", "Value must be `none` or `outside`."))
}

fn check_specification(name: &'static str, text: String) -> Result<String, EngineError> {
    if Specification::parse(&text).is_some() {
        return Ok(text);
    }
    let why = "Value must be like `s-0.5vcpu-512mb`: processors, at most 64, and memory from \
               64mb to 64gb.";
    Err(argument(name, why))
}

/// Minute, hour, day, month, day of the week; no seconds, no years, no words for whole schedules.
fn check_schedule(text: String) -> Result<String, EngineError> {
    if text.is_empty() {
        return Ok(text);
    }
    let rule = "Value must be a cron expression of five fields, in UTC";
    if text.split_ascii_whitespace().count() != 5 {
        return Err(argument("schedule", format!("{rule}.")));
    }
    match cron_parser().parse(&text) {
        Ok(_) => Ok(text),
        Err(why) => {
            let why = why.to_string();
            let why = why.trim_end_matches('.');
            Err(argument("schedule", format!("{rule}: {why}.")))
        }
    }
}

/// Reads schedules: five fields.
pub(super) fn cron_parser() -> CronParser {
    let parser = CronParser::builder().seconds(Seconds::Disallowed);
    parser.year(Year::Disallowed).build()
}

/// A pattern of events is taken where it can match one of a row: with the action, without it, or of
/// what the row is in.
fn event(text: &str) -> Result<String, EngineError> {
    if text.len() <= ENTRYPOINT_CHARS_MAX && is_of_rows(text) {
        return Ok(text.to_owned());
    }
    let what = format!(
        "The event pattern `{}`, which matches no event of rows,",
        cut(text)
    );
    Err(EngineError::Unsupported(what))
}

fn is_of_rows(text: &str) -> bool {
    const FAMILIES: [[&str; 3]; 3] = [
        ["databases", "tables", "rows"],
        ["tablesdb", "tables", "rows"],
        ["databases", "collections", "documents"],
    ];
    let parts: Vec<&str> = text.split('.').collect();
    let (parts, action) = match parts.split_at_checked(6) {
        Some((parts, [action])) => (parts, Some(*action)),
        Some((_, [_, _, ..])) => return false,
        _ => (&*parts, None),
    };
    let is_whole = matches!(parts.len(), 2 | 4 | 6);
    let is_known = action.is_none_or(|action| matches!(action, "create" | "update" | "delete"));
    let is_id = |id: &str| id == "*" || model::id::is_valid_id(id);
    let fits = |family: &[&str; 3]| {
        let mut pairs = parts.chunks(2).zip(family);
        pairs.all(|(pair, word)| pair[0] == *word && is_id(pair[1]))
    };
    is_whole && is_known && FAMILIES.iter().any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_rows_are_taken_and_no_others() {
        for good in [
            "databases.*.tables.*.rows.*.create",
            "tablesdb.d.tables.t.rows.r.update",
            "databases.d.collections.t.documents.*.delete",
            "databases.d.tables.t.rows.*",
            "databases.*.tables.t",
            "databases.d",
        ] {
            assert_eq!(event(good).unwrap(), good);
        }
        for bad in [
            "",
            ".",
            "databases",
            "databases.d.tables",
            "databases.d.tables.t.rows",
            "databases.d.tables.t.documents.r",
            "tablesdb.d.collections.t.documents.r.create",
            "databases.d.tables.t.rows.r.upsert",
            "databases.d.tables.t.rows.r.create.x",
            "databases.d.create",
            "users.*.create",
            "databases.**",
            "databases..tables.t",
        ] {
            let refused = event(bad).unwrap_err();
            assert!(matches!(refused, EngineError::Unsupported(_)), "{bad}");
        }
    }

    #[test]
    fn schedules_have_five_fields() {
        for good in [
            "",
            "* * * * *",
            "*/5 0-6 1,15 JAN-MAR MON-FRI",
            "0 0 29 2 *",
        ] {
            assert!(check_schedule(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            " ",
            "*",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "@daily",
            "a b c d e",
            "*/0 * * * *",
        ] {
            let refused = check_schedule(bad.to_owned()).unwrap_err().to_string();
            let rule = "`schedule` param: Value must be a cron expression of five fields, in UTC";
            assert!(refused.contains(rule), "{refused}");
            assert!(!refused.ends_with(".."), "{refused}");
        }
    }
}
