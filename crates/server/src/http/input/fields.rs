//! The members of a JSON body, taken out one by one with their types checked.

use engine::JsonBudget;
use model::Json;

use crate::http::wire::error::{ApiError, Kind};

/// Memory that the arrays and objects of JSON inside a text may take: those of a row with several
/// arrays of the greatest length.
const INSIDE_BYTES_MAX: usize = 4 << 20;

/// The content of a row, which may come as the JSON text of an object.
const DATA: &str = "data";

/// What has not been taken out yet of an object that a client sent. `null` means "not given".
#[derive(Debug, Default)]
pub struct Fields {
    members: Vec<(String, Json)>,
    /// The parameter that this object stands in, if it is not the body itself: refusals then
    /// name the parameter, and the member in their sentence.
    within: Option<&'static str>,
}

/// So many characters of an unknown name are shown and compared.
const NAME_CHARS_MAX: usize = 100;

/// The known name that is most like `unknown`, if one is like it at all: the same letters written
/// in another way, or a few that differ.
fn nearest<'k>(unknown: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |name: &str| name.replace(['$', '_', '-'], "").to_lowercase();
    let unknown = plain(unknown);
    let distances = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&unknown, &plain(name)), *name));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= unknown.len() / 3).then_some(nearest)
}

impl Fields {
    /// Reads a body. An empty one is an object without members, because clients leave it out
    /// where every parameter is optional.
    ///
    /// # Errors
    /// Bytes that are not JSON, or JSON that is not an object; one for which there is not enough
    /// `budget`.
    pub fn read(body: &[u8], budget: &JsonBudget) -> Result<Fields, ApiError> {
        if body.trim_ascii().is_empty() {
            return Ok(Fields::default());
        }
        let refuse = |message: String| ApiError::new(Kind::BadRequest, message);
        let read = |text: &[u8]| match engine::read_json_within(text, budget) {
            Err(why) if budget.is_exceeded() => Err(ApiError::new(
                Kind::PayloadTooLarge,
                format!("The body holds {why}."),
            )),
            read => Ok(read),
        };
        let mut members = match read(body)? {
            Ok(Json::Object(members)) => members,
            Ok(other) => {
                return Err(refuse(format!(
                    "The body must be a JSON object, got {}.",
                    other.kind()
                )));
            }
            Err(why) => return Err(refuse(format!("The body is not JSON: {why}."))),
        };
        // Read here, so that a long one does not hold up the thread that takes it out.
        for (name, value) in &mut members {
            if name == DATA
                && let Json::Text(text) = &*value
                && let Ok(object @ (Json::Object(_) | Json::List(_))) = read(text.as_bytes())?
            {
                *value = object;
            }
        }
        Ok(Fields {
            members,
            within: None,
        })
    }

    /// An object inside the parameter `name`.
    pub fn within(name: &'static str, json: Json) -> Result<Fields, ApiError> {
        match json {
            Json::Object(members) => Ok(Fields {
                members,
                within: Some(name),
            }),
            other => {
                let why = format!("Each element must be an object, got {}.", other.kind());
                Err(ApiError::invalid(name, why))
            }
        }
    }

    /// The member `name`; of equal names the last one counts.
    pub fn take(&mut self, name: &str) -> Option<Json> {
        let position = self.members.iter().rposition(|(known, _)| known == name)?;
        match self.members.remove(position) {
            (_, Json::Null) => None,
            (_, json) => Some(json),
        }
    }

    /// Whether there is a member `name` that has not been taken, be it `null`.
    pub fn holds(&self, name: &str) -> bool {
        self.members.iter().any(|(known, _)| known == name)
    }

    /// Refuses members that are none of `known`, and names the nearest known one.
    ///
    /// # Errors
    /// [`crate::http::wire::error::Kind::ArgumentInvalid`]
    pub fn need_known(&self, known: &[&str]) -> Result<(), ApiError> {
        let mut names = self.members.iter().map(|(name, _)| name.as_str());
        let Some(unknown) = names.find(|name| !known.contains(name)) else {
            return Ok(());
        };
        let shown: String = unknown.chars().take(NAME_CHARS_MAX).collect();
        let why = match nearest(&shown, known) {
            Some(nearest) => format!("There is no member `{shown}` here. Is `{nearest}` meant?"),
            None => format!(
                "There is no member `{shown}` here. There are `{}`.",
                known.join("`, `")
            ),
        };
        Err(ApiError::invalid(self.within.unwrap_or("body"), why))
    }

    /// What has not been taken, to look at.
    pub fn members(&self) -> &[(String, Json)] {
        &self.members
    }

    /// What has not been taken, in the order sent.
    pub fn rest(self) -> Vec<(String, Json)> {
        self.members
    }

    /// A text.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.refuse(name, "a string", &other)),
        }
    }

    /// A text that must be given.
    pub fn required_text(&mut self, name: &'static str) -> Result<String, ApiError> {
        self.text(name)?.ok_or_else(|| match self.within {
            None => ApiError::missing(name),
            Some(parameter) => ApiError::invalid(parameter, format!("`{name}` is missing.")),
        })
    }

    /// A boolean, also in the spellings that query strings use.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, ApiError> {
        let Some(json) = self.take(name) else {
            return Ok(None);
        };
        let truth = match &json {
            Json::Bool(truth) => Some(*truth),
            Json::Int(0) => Some(false),
            Json::Int(1) => Some(true),
            Json::Text(text) => read_flag(text),
            _ => None,
        };
        truth
            .map(Some)
            .ok_or_else(|| self.refuse(name, "a boolean", &json))
    }

    /// A boolean that must be given.
    pub fn required_flag(&mut self, name: &'static str) -> Result<bool, ApiError> {
        self.flag(name)?.ok_or_else(|| ApiError::missing(name))
    }

    /// What stands at `name`, which must, and may be `null`.
    pub fn required_or_null(&mut self, name: &'static str) -> Result<Option<Json>, ApiError> {
        if self.holds(name) {
            Ok(self.take(name))
        } else {
            Err(ApiError::missing(name))
        }
    }

    /// An integer, also as a text, as query strings write it.
    pub fn integer(&mut self, name: &'static str) -> Result<Option<i64>, ApiError> {
        let Some(json) = self.take(name) else {
            return Ok(None);
        };
        let number = match &json {
            Json::Int(number) => Some(*number),
            Json::Text(text) => text.parse().ok(),
            _ => None,
        };
        number
            .map(Some)
            .ok_or_else(|| self.refuse(name, "a 64-bit integer", &json))
    }

    /// An array.
    pub fn list(&mut self, name: &'static str) -> Result<Option<Vec<Json>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::List(elements)) => Ok(Some(elements)),
            Some(other) => Err(self.refuse(name, "an array", &other)),
        }
    }

    /// An array of at most `count_max` objects.
    pub fn objects(
        &mut self,
        name: &'static str,
        count_max: usize,
    ) -> Result<Vec<Fields>, ApiError> {
        let elements = self.list(name)?.unwrap_or_default();
        if elements.len() > count_max {
            let why = format!("At most {count_max} elements are allowed.");
            return Err(ApiError::invalid(name, why));
        }
        elements
            .into_iter()
            .map(|json| Fields::within(name, json))
            .collect()
    }

    /// An array of texts.
    pub fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, ApiError> {
        let Some(elements) = self.list(name)? else {
            return Ok(None);
        };
        let text = |json| match json {
            Json::Text(text) => Ok(text),
            other => Err(self.refuse(name, "an array of strings", &other)),
        };
        elements
            .into_iter()
            .map(text)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The members of an object, which may also come as the JSON text of one.
    pub fn object(&mut self, name: &'static str) -> Result<Option<Vec<(String, Json)>>, ApiError> {
        let json = match self.take(name) {
            None => return Ok(None),
            Some(Json::Text(text)) => {
                let budget = JsonBudget::new(INSIDE_BYTES_MAX);
                engine::read_json_within(text.as_bytes(), &budget).ok()
            }
            Some(other) => Some(other),
        };
        match json {
            Some(Json::Object(members)) => Ok(Some(members)),
            // How PHP clients write an object without members.
            Some(Json::List(elements)) if elements.is_empty() => Ok(Some(Vec::new())),
            _ => Err(ApiError::invalid(
                name,
                "Value must be a valid JSON object.",
            )),
        }
    }

    /// The refusal of a member for a reason that is the rest of a sentence.
    pub fn wrong(&self, name: &'static str, why: &str) -> ApiError {
        match self.within {
            None => ApiError::invalid(name, format!("{why}.")),
            Some(parameter) => ApiError::invalid(parameter, format!("`{name}`: {why}.")),
        }
    }

    /// The refusal of a member that is not of the wanted type.
    pub fn refuse(&self, name: &'static str, wanted: &str, got: &Json) -> ApiError {
        let got = got.kind();
        match self.within {
            None => ApiError::invalid(name, format!("Value must be {wanted}, got {got}.")),
            Some(parameter) => {
                ApiError::invalid(parameter, format!("`{name}` must be {wanted}, got {got}."))
            }
        }
    }
}

/// A boolean as query strings spell it.
pub fn read_flag(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use engine::Family;

    use super::*;

    fn fields(body: &str) -> Fields {
        Fields::read(body.as_bytes(), &JsonBudget::new(1_000)).unwrap()
    }

    fn message<T: std::fmt::Debug>(outcome: Result<T, ApiError>) -> String {
        outcome.unwrap_err().message(Family::Tables)
    }

    #[test]
    fn a_body_is_an_object_or_nothing() {
        for body in ["", " \n", "{}"] {
            assert_eq!(fields(body).rest(), []);
        }
        for body in ["[1]", "5", "\"a\"", "{", "\u{0}", "{\"a\":}"] {
            let error = Fields::read(body.as_bytes(), &JsonBudget::new(1_000)).unwrap_err();
            assert_eq!(error.kind, Kind::BadRequest, "{body}");
        }
    }

    #[test]
    fn absent_and_null_are_the_same() {
        let mut fields = fields(r#"{"a":null}"#);
        assert_eq!(fields.text("a").unwrap(), None);
        assert_eq!(fields.flag("b").unwrap(), None);
        assert_eq!(
            message(fields.required_text("a")),
            "Param \"a\" is not optional."
        );
    }

    #[test]
    fn of_equal_names_the_last_counts() {
        assert_eq!(
            fields(r#"{"a":"1","a":"2"}"#).text("a").unwrap().unwrap(),
            "2"
        );
    }

    #[test]
    fn flags_and_integers_may_be_spelled_as_in_a_query_string() {
        for (body, truth) in [
            ("true", true),
            ("\"1\"", true),
            ("0", false),
            ("\"false\"", false),
        ] {
            let body = format!(r#"{{"a":{body}}}"#);
            assert_eq!(fields(&body).flag("a").unwrap(), Some(truth), "{body}");
        }
        assert_eq!(fields(r#"{"a":"-5"}"#).integer("a").unwrap(), Some(-5));
        assert_eq!(fields(r#"{"a":5}"#).integer("a").unwrap(), Some(5));
    }

    #[test]
    fn a_wrong_type_names_parameter_and_type() {
        for (body, outcome) in [
            (
                r#"{"a":5}"#,
                Fields::text as fn(&mut Fields, &'static str) -> _,
            ),
            (r#"{"a":[5]}"#, Fields::text),
        ] {
            let said = message(outcome(&mut fields(body), "a"));
            assert!(
                said.starts_with("Invalid `a` param: Value must be a string, got "),
                "{said}"
            );
        }
        let said = message(fields(r#"{"a":2}"#).flag("a"));
        assert_eq!(
            said,
            "Invalid `a` param: Value must be a boolean, got integer."
        );
        for body in [
            r#"{"a":18446744073709551615}"#,
            r#"{"a":1.5}"#,
            r#"{"a":"x"}"#,
        ] {
            let said = message(fields(body).integer("a"));
            assert!(
                said.starts_with("Invalid `a` param: Value must be a 64-bit integer"),
                "{said}"
            );
        }
        let said = message(fields(r#"{"a":["x",1]}"#).texts("a"));
        assert_eq!(
            said,
            "Invalid `a` param: Value must be an array of strings, got integer."
        );
    }

    #[test]
    fn an_object_may_come_as_its_text() {
        let wanted = vec![("x".to_owned(), Json::Int(1))];
        assert_eq!(
            fields(r#"{"a":{"x":1}}"#).object("a").unwrap(),
            Some(wanted.clone())
        );
        assert_eq!(
            fields(r#"{"a":"{\"x\":1}"}"#).object("a").unwrap(),
            Some(wanted.clone())
        );
        let mut early = fields(r#"{"data":"{\"x\":1}"}"#);
        assert_eq!(early.object("data").unwrap(), Some(wanted));
        for text in ["null", "5", "{"] {
            let mut early = fields(&format!(r#"{{"data":"{text}"}}"#));
            assert!(early.object("data").is_err(), "{text}");
        }
        for body in [r#"{"a":[1]}"#, r#"{"a":5}"#, r#"{"a":"{"}"#, r#"{"a":"5"}"#] {
            let said = message(fields(body).object("a"));
            assert_eq!(
                said, "Invalid `a` param: Value must be a valid JSON object.",
                "{body}"
            );
        }
    }

    #[test]
    fn an_inner_object_names_the_parameter_it_stands_in() {
        let mut inner = fields(r#"{"columns":[{"size":"x"}]}"#)
            .objects("columns", 1)
            .unwrap();
        let said = message(inner[0].required_text("key"));
        assert_eq!(said, "Invalid `columns` param: `key` is missing.");
        let said = message(inner[0].integer("size"));
        assert_eq!(
            said,
            "Invalid `columns` param: `size` must be a 64-bit integer, got string."
        );
        let said = message(fields(r#"{"a":[{},{}]}"#).objects("a", 1));
        assert_eq!(said, "Invalid `a` param: At most 1 elements are allowed.");
        let said = message(fields(r#"{"a":[5]}"#).objects("a", 1));
        assert_eq!(
            said,
            "Invalid `a` param: Each element must be an object, got integer."
        );
    }
}
