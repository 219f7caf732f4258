//! The methods that look at other times than now.

use model::{Json, Mark, Period, Timestamp};

use crate::ast::{Ast, Call, Method};
use crate::error::QueryError;
use crate::instant::{instant, mark};

/// What the methods `asOf`, `validAt`, `validBetween` and `versions` ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedTimes {
    /// As known at this mark; `None` is now.
    pub system: Option<Mark>,
    /// Which valid time.
    pub valid: AskedValid,
    /// Whether every version counts that was known up to then, with the time it was known for.
    pub versions: bool,
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
            Method::AsOf | Method::ValidAt | Method::ValidBetween | Method::Versions
        );
        if !says_time {
            continue;
        }
        let asked = asked.get_or_insert(AskedTimes {
            system: None,
            valid: AskedValid::Unsaid,
            versions: false,
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
            _ => {
                let valid = AskedValid::Between(period(call)?);
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

fn period(call: &Call) -> Result<Period, QueryError> {
    let [from, to] = call.values.as_slice() else {
        let why = "`validBetween` needs two dates and times, the second of which may be null";
        return Err(refuse(why));
    };
    let end = |json: &Json| instant(json).map_err(|why| refuse(format!("`validBetween`: {why}")));
    let to = match to {
        Json::Null => None,
        to => Some(end(to)?),
    };
    Period::new(end(from)?, to)
        .map_err(|_| refuse("`validBetween` needs a second time after the first"))
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
        for refused in [
            &[as_of, as_of] as &[&str],
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
