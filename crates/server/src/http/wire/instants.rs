//! Instants as routes of our own write them: as texts, or as integers where a client asks for it.

use model::calendar::{DATETIME_MAX, DATETIME_MIN, iso_us};
use model::{Mark, Timestamp};
use serde_json::{Value, json};

use super::object::Object;

/// How a client wants instants written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstantForm {
    /// ISO 8601 with microseconds.
    Iso,
    /// Microseconds since 1970.
    Integer,
}

impl InstantForm {
    /// The instant, as it can be given back. The beginning of time is `min` in both forms; a mark
    /// beyond the years that texts can say is a number in both.
    pub fn at(self, at: Timestamp) -> Value {
        match at {
            Timestamp::BOT => json!("min"),
            at if self.is_text(at) => json!(iso_us(at)),
            at => json!(at.0),
        }
    }

    fn is_text(self, at: Timestamp) -> bool {
        self == InstantForm::Iso && (DATETIME_MIN..=DATETIME_MAX).contains(&at)
    }

    /// The same; `null` where there is none, such as the end of a period that has no end.
    pub fn at_or_null(self, at: Option<Timestamp>) -> Value {
        at.map_or(Value::Null, |at| self.at(at))
    }

    /// The instant of a mark.
    pub fn mark(self, mark: Mark) -> Value {
        self.at(mark.timestamp())
    }

    /// Writes an instant as a member.
    pub(super) fn write(self, object: &mut Object<'_>, key: &str, at: Option<Timestamp>) {
        // As `at_or_null`, without a value in between: lists write several for each row.
        match at {
            None => object.raw(key, b"null"),
            Some(Timestamp::BOT) => object.plain(key, "min"),
            Some(at) if self.is_text(at) => object.plain(key, &iso_us(at)),
            Some(at) => object.number(key, at.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_as_it_can_be_read() {
        let both = |us| {
            let written =
                [InstantForm::Iso, InstantForm::Integer].map(|form| form.at(Timestamp(us)));
            for json in &written {
                let read = engine::read_json(json.to_string().as_bytes()).unwrap();
                assert_eq!(engine::mark(&read), Ok(Mark(us)), "{json}");
            }
            let as_member = [InstantForm::Iso, InstantForm::Integer].map(|form| {
                let mut out = Vec::new();
                let mut object = Object::open(&mut out);
                form.write(&mut object, "at", Some(Timestamp(us)));
                object.close();
                let read: Value = serde_json::from_slice(&out).unwrap();
                read["at"].clone()
            });
            assert_eq!(as_member, written);
            written
        };
        assert_eq!(
            both(7),
            [json!("1970-01-01T00:00:00.000007+00:00"), json!(7)]
        );
        assert_eq!(
            both(-1),
            [json!("1969-12-31T23:59:59.999999+00:00"), json!(-1)]
        );
        assert_eq!(both(i64::MIN), [json!("min"), json!("min")]);
        let beyond = DATETIME_MAX.0 + 1;
        assert_eq!(both(beyond), [json!(beyond), json!(beyond)]);
        assert_eq!(InstantForm::Iso.at_or_null(None), Value::Null);
    }
}
