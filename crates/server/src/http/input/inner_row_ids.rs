//! Ids for rows inside rows, where the server is to choose them.

use model::{Json, Timestamp};

use crate::http::state::generated_ids::{UNIQUE, unique_id};
use crate::rng::Rng;

/// Rows inside rows are looked at so deep for ids that the server is to choose. Deeper ones are
/// refused by the engine.
const DEPTH_MAX: usize = 4;

/// Gives every row inside a row's content an id, if it has none or asks for one. Only
/// relationships take objects, so that nothing else is changed that could be stored.
pub fn name_inner_rows(members: &mut [(String, Json)], now: Timestamp, rng: Rng) {
    let mut now = now;
    let mut next = || {
        // Another instant for each, so that chance need not tell thousands of them apart.
        now = Timestamp(now.0 + 1);
        unique_id(now, rng)
    };
    for (_, json) in members {
        name_rows(json, DEPTH_MAX, &mut next);
    }
}

fn name_rows(json: &mut Json, depth: usize, next: &mut impl FnMut() -> String) {
    match json {
        Json::List(elements) => {
            for element in elements {
                if let Json::Object(_) = element {
                    name_rows(element, depth, next);
                }
            }
        }
        Json::Object(members) if depth > 0 => {
            match members.iter_mut().rev().find(|(key, _)| key == "$id") {
                Some((_, Json::Text(id))) if id == UNIQUE => *id = next(),
                Some(_) => {}
                None => members.push(("$id".to_owned(), Json::Text(next()))),
            }
            for (_, json) in members {
                name_rows(json, depth - 1, next);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(bytes: &mut [u8]) {
        bytes.fill(0x11);
    }

    fn named(text: &str) -> Json {
        let Json::Object(mut members) = engine::read_json(text.as_bytes()).unwrap() else {
            panic!("{text}");
        };
        name_inner_rows(&mut members, Timestamp(0), ones);
        Json::Object(members)
    }

    fn read(text: &str) -> Json {
        engine::read_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn rows_inside_rows_get_ids_where_they_have_none() {
        let [first, second] = [1, 2].map(|at| unique_id(Timestamp(at), ones));
        let sent = r#"{"a":"x","b":[1,"y",{"n":1}],"c":{"$id":"unique()","d":{"$id":"own"}}}"#;
        let expected = format!(
            r#"{{"a":"x","b":[1,"y",{{"n":1,"$id":"{first}"}}],
                "c":{{"$id":"{second}","d":{{"$id":"own"}}}}}}"#
        );
        assert_eq!(named(sent), read(&expected));
    }

    #[test]
    fn content_without_rows_stays_as_it_was_sent() {
        let sent = r#"{"a":"{\"method\":\"toggle\"}","b":[[{"n":1}]],"c":null}"#;
        assert_eq!(named(sent), read(sent));
    }
}
