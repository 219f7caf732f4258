//! Instants as routes of our own write them: as texts, or as integers where a client asks for it.

use model::Timestamp;
use model::calendar::{DATETIME_MAX, DATETIME_MIN, iso_us};

use super::object::Object;
use super::{WrittenJson, json};

/// How a client wants instants written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstantForm {
    /// ISO 8601 with microseconds.
    Iso,
    /// Microseconds since 1970.
    Integer,
}

impl InstantForm {
    /// Appends an instant, as it can be given back; `null` where there is none, such as the end of
    /// a period that has no end. The beginning of time is `min` in both forms; a mark beyond the
    /// years that texts can say is a number in both.
    fn append(self, at: Option<Timestamp>, out: &mut Vec<u8>) {
        match at {
            None => json(out, &()),
            Some(Timestamp::BOT) => json(out, "min"),
            Some(at) if self.is_text(at) => json(out, &iso_us(at)),
            Some(at) => json(out, &at.0),
        }
    }

    fn is_text(self, at: Timestamp) -> bool {
        self == InstantForm::Iso && (DATETIME_MIN..=DATETIME_MAX).contains(&at)
    }

    /// An instant by itself.
    pub fn written(self, at: impl Into<Option<Timestamp>>) -> WrittenJson {
        let mut out = Vec::new();
        self.append(at.into(), &mut out);
        out
    }

    /// Writes an instant as a member.
    pub(super) fn write(self, object: &mut Object<'_>, key: &str, at: Option<Timestamp>) {
        object.with(key, |out| self.append(at, out));
    }
}

#[cfg(test)]
mod tests {
    use model::Mark;

    use super::*;

    #[test]
    fn an_instant_is_written_as_it_can_be_read() {
        let both = |us| {
            [InstantForm::Iso, InstantForm::Integer].map(|form| {
                let written = form.written(Timestamp(us));
                let read = engine::read_json(&written).unwrap();
                assert_eq!(engine::mark(&read), Ok(Mark(us)), "{us}");
                String::from_utf8(written).unwrap()
            })
        };
        assert_eq!(both(7), [r#""1970-01-01T00:00:00.000007+00:00""#, "7"]);
        assert_eq!(both(-1), [r#""1969-12-31T23:59:59.999999+00:00""#, "-1"]);
        assert_eq!(both(i64::MIN), [r#""min""#; 2]);
        let beyond = DATETIME_MAX.0 + 1;
        assert_eq!(both(beyond), [beyond.to_string(), beyond.to_string()]);
        assert_eq!(InstantForm::Iso.written(None::<Timestamp>), b"null");
    }
}
