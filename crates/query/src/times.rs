//! The methods that look at other times than now.

use model::{Json, Mark, Period, Timestamp};

use crate::ast::{Ast, Call, Method};
use crate::error::QueryError;
use crate::instant::{instant, mark};

/// What the methods `asOf`, `validAt`, `validBetween`, `systemBetween` and `versions` ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedTimes {
    /// As known at this mark; `None` is now.
    pub system: Option<Mark>,
    /// Which valid time.
    pub valid: NamedValid,
    /// Whether every version counts that was known up to then, with the time it was known for.
    pub versions: bool,
    /// Whether those versions count alone that began or ceased to be known in this period.
    pub changed: Option<Period>,
}

impl NamedTimes {
    /// Whether versions are shown that are known no more.
    pub fn shows_versions(&self) -> bool {
        self.versions || self.changed.is_some()
    }
}

/// Which valid time a query looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedValid {
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
pub fn named_times(ast: &Ast) -> Result<Option<NamedTimes>, QueryError> {
    let mut named = None;
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
        let named = named.get_or_insert(NamedTimes {
            system: None,
            valid: NamedValid::Unsaid,
            versions: false,
            changed: None,
        });
        let is_again = match call.method {
            Method::AsOf => {
                let mark = one_value(call, mark)?;
                named.system.replace(mark).is_some()
            }
            Method::Versions => {
                no_values(call)?;
                std::mem::replace(&mut named.versions, true)
            }
            Method::ValidAt => {
                let valid = NamedValid::At(one_value(call, instant)?);
                std::mem::replace(&mut named.valid, valid) != NamedValid::Unsaid
            }
            Method::SystemBetween => {
                let end = |json: &Json| mark(json).map(Mark::timestamp);
                named.changed.replace(period(call, end)?).is_some()
            }
            _ => {
                let valid = NamedValid::Between(period(call, instant)?);
                std::mem::replace(&mut named.valid, valid) != NamedValid::Unsaid
            }
        };
        if is_again {
            let name = call.method.as_str();
            return Err(refuse(format!(
                "`{name}` meets another method that says the same time"
            )));
        }
    }
    Ok(named)
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

    fn named(texts: &[&str]) -> Result<Option<NamedTimes>, QueryError> {
        named_times(&parse(texts).unwrap())
    }

    #[test]
    fn a_query_may_say_each_time_once() {
        assert_eq!(named(&[r#"{"method":"limit","values":[1]}"#]), Ok(None));
        let times = |system: Option<i64>, valid, versions| {
            let system = system.map(Mark);
            Ok(Some(NamedTimes {
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
        assert_eq!(named(&[as_of]), times(Some(7), NamedValid::Unsaid, false));
        let at = NamedValid::At(Timestamp(9));
        assert_eq!(named(&[valid_at, as_of]), times(Some(7), at, false));
        let period = Period::new(Timestamp::BOT, Some(Timestamp(9))).unwrap();
        let period = NamedValid::Between(period);
        assert_eq!(named(&[between, versions]), times(None, period, true));
        let changes = r#"{"method":"systemBetween","values":[3,null]}"#;
        let since = Period::new(Timestamp(3), None).unwrap();
        let times_of = named(&[changes]).unwrap().unwrap();
        assert_eq!(times_of.changed, Some(since));
        assert!(!times_of.versions && times_of.valid == NamedValid::Unsaid);
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
            assert!(named(refused).is_err(), "{refused:?}");
        }
    }
}
