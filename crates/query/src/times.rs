//! The methods that look at other times than now.

use model::{Json, Mark, Period, Timestamp};

use crate::ast::{Ast, Call, Method};
use crate::error::QueryError;
use crate::instant::{instant, mark};

/// What the methods `asOf`, `validAt`, `validBetween`, `systemBetween` and `versions` ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedTimes {
    /// As known at this mark; `None` is now.
    pub system: Option<Mark>,
    /// Which valid time.
    pub valid: AskedValid,
    /// Whether every version counts that was known up to then, with the time it was known for.
    pub versions: bool,
    /// Whether those versions count alone that began or ceased to be known in this period.
    pub changed: Option<Period>,
}

impl AskedTimes {
    /// Whether versions are shown that are known no more.
    pub fn shows_versions(&self) -> bool {
        self.versions || self.changed.is_some()
    }
}

/// Which valid time a query looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedValid {
    /// That of the mark; for `versions`, all of it.
    Unsaid,
    /// One instant.
    At(Timestamp),
    /// A period: whatever shares an instant with it.
    Between(Period),
}

/// What the queries say of time; `None` where they say nothing.
///
/// # Errors
/// [`QueryError::Invalid`] for a value that is no time, a period that holds no instant, and
/// methods that contradict each other.
pub fn asked_times(ast: &Ast) -> Result<Option<AskedTimes>, QueryError> {
    let mut asked = None;
    for call in &ast.calls {
        let says_time = matches!(
            call.method,
            Method::AsOf
                | Method::ValidAt
                | Method::ValidBetween
                | Method::SystemBetween
                | Method::Versions
        );
        if !says_time {
            continue;
        }
        let asked = asked.get_or_insert(AskedTimes {
            system: None,
            valid: AskedValid::Unsaid,
            versions: false,
            changed: None,
        });
        let is_again = match call.method {
            Method::AsOf => {
                let mark = one_value(call, mark)?;
                asked.system.replace(mark).is_some()
            }
            Method::Versions => {
                no_values(call)?;
                std::mem::replace(&mut asked.versions, true)
            }
            Method::ValidAt => {
                let valid = AskedValid::At(one_value(call, instant)?);
                std::mem::replace(&mut asked.valid, valid) != AskedValid::Unsaid
            }
            Method::SystemBetween => {
                let end = |json: &Json| mark(json).map(Mark::timestamp);
                asked.changed.replace(period(call, end)?).is_some()
            }
            _ => {
                let valid = AskedValid::Between(period(call, instant)?);
                std::mem::replace(&mut asked.valid, valid) != AskedValid::Unsaid
            }
        };
        if is_again {
            let name = call.method.as_str();
            return Err(refuse(format!(
                "`{name}` meets another method that says the same time"
            )));
        }
    }
    Ok(asked)
}

fn one_value<T>(call: &Call, read: impl Fn(&Json) -> Result<T, String>) -> Result<T, QueryError> {
    let name = call.method.as_str();
    match call.values.as_slice() {
        [value] => read(value).map_err(|why| refuse(format!("`{name}`: {why}"))),
        values => Err(refuse(format!(
            "`{name}` needs one date and time, or microseconds since 1970, got {} values",
            values.len()
        ))),
    }
}

fn period(
    call: &Call,
    read: impl Fn(&Json) -> Result<Timestamp, String>,
) -> Result<Period, QueryError> {
    let name = call.method.as_str();
    let [from, to] = call.values.as_slice() else {
        return Err(refuse(format!(
            "`{name}` needs two dates and times, the second of which may be null, got {} values",
            call.values.len()
        )));
    };
    let end = |json: &Json| read(json).map_err(|why| refuse(format!("`{name}`: {why}")));
    let to = match to {
        Json::Null => None,
        to => Some(end(to)?),
    };
    Period::new(end(from)?, to)
        .map_err(|_| refuse(format!("`{name}` needs a second time after the first")))
}

fn no_values(call: &Call) -> Result<(), QueryError> {
    if call.values.is_empty() {
        return Ok(());
    }
    Err(refuse("`versions` takes no values"))
}

fn refuse(why: impl Into<String>) -> QueryError {
    QueryError::Invalid(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn asked(texts: &[&str]) -> Result<Option<AskedTimes>, QueryError> {
        asked_times(&parse(texts).unwrap())
    }

    #[test]
    fn a_query_may_say_each_time_once() {
        assert_eq!(asked(&[r#"{"method":"limit","values":[1]}"#]), Ok(None));
        let times = |system: Option<i64>, valid, versions| {
            let system = system.map(Mark);
            Ok(Some(AskedTimes {
                system,
                valid,
                versions,
                changed: None,
            }))
        };
        let as_of = r#"{"method":"asOf","values":[7]}"#;
        let valid_at = r#"{"method":"validAt","values":["1970-01-01T00:00:00.000009Z"]}"#;
        let between = r#"{"method":"validBetween","values":["min",9]}"#;
        let versions = r#"{"method":"versions"}"#;
        assert_eq!(asked(&[as_of]), times(Some(7), AskedValid::Unsaid, false));
        let at = AskedValid::At(Timestamp(9));
        assert_eq!(asked(&[valid_at, as_of]), times(Some(7), at, false));
        let period = Period::new(Timestamp::BOT, Some(Timestamp(9))).unwrap();
        let period = AskedValid::Between(period);
        assert_eq!(asked(&[between, versions]), times(None, period, true));
        let changes = r#"{"method":"systemBetween","values":[3,null]}"#;
        let since = Period::new(Timestamp(3), None).unwrap();
        let times_of = asked(&[changes]).unwrap().unwrap();
        assert_eq!(times_of.changed, Some(since));
        assert!(!times_of.versions && times_of.valid == AskedValid::Unsaid);
        for refused in [
            &[changes, changes] as &[&str],
            &[r#"{"method":"systemBetween","values":[7,7]}"#],
            &[r#"{"method":"systemBetween","values":[null,7]}"#],
            &[r#"{"method":"systemBetween","values":["2026",null]}"#],
            &[as_of, as_of],
            &[valid_at, between],
            &[versions, versions],
            &[r#"{"method":"asOf"}"#],
            &[r#"{"method":"validAt","values":["soon"]}"#],
            &[r#"{"method":"validBetween","values":[5,5]}"#],
            &[r#"{"method":"versions","values":[1]}"#],
        ] {
            assert!(asked(refused).is_err(), "{refused:?}");
        }
    }
}
