//! Trees of queries: every method anywhere inside `or` and `and`, with values of any kind.
//!
//! Texts that chance mutates are mostly no queries. Here bytes choose methods, attributes and
//! values, so that each input is read and the law is about what becomes of it then.

use query::ast::Method;
use serde_json::{Value, json};

use crate::query_text;

const CALLS_MAX: usize = 6;
const DEPTH_MAX: usize = 3;
const ATTRIBUTES: [&str; 16] = [
    "n",
    "i",
    "f",
    "b",
    "s",
    "at",
    "mail",
    "e",
    "tags",
    "ns",
    "long",
    "$id",
    "$sequence",
    "$createdAt",
    "nobody",
    "",
];

/// Bytes that decide, one after the other; zeros at the end.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % bound
    }

    fn tree(&mut self, depth: usize) -> Value {
        let method = Method::ALL[self.below(Method::ALL.len())];
        // Reads of other times are another law's: what a guest may see of them differs.
        let method = if depth == 0 && is_of_times(method) {
            Method::Or
        } else {
            method
        };
        let is_branch = matches!(method, Method::Or | Method::And);
        let values: Vec<Value> = if is_branch && depth < DEPTH_MAX {
            (0..=self.below(3)).map(|_| self.tree(depth + 1)).collect()
        } else {
            (0..self.below(4)).map(|_| self.value()).collect()
        };
        let attribute = ATTRIBUTES[self.below(ATTRIBUTES.len())];
        match (is_branch, attribute) {
            (true, _) | (_, "") => json!({"method": method.as_str(), "values": values}),
            (false, attribute) => {
                json!({"method": method.as_str(), "attribute": attribute, "values": values})
            }
        }
    }

    fn value(&mut self) -> Value {
        match self.below(12) {
            0 => json!(null),
            1 => json!(true),
            2 => json!(0),
            3 => json!(7),
            4 => json!(-1.5),
            5 => json!(9_223_372_036_854_775_808_u64),
            6 => json!("a"),
            7 => json!("2026-01-05T00:00:00Z"),
            8 => json!("(a|B)+$"),
            9 => json!("r3"),
            10 => json!("n"),
            _ => json!(["a", {}]),
        }
    }
}

fn is_of_times(method: Method) -> bool {
    matches!(
        method,
        Method::AsOf
            | Method::ValidAt
            | Method::ValidBetween
            | Method::SystemBetween
            | Method::Versions
    )
}

/// What holds for any texts holds for these.
pub fn check(bytes: &[u8]) {
    let mut choices = Choices(bytes.iter());
    let count = 1 + choices.below(CALLS_MAX);
    let texts: Vec<String> = (0..count).map(|_| choices.tree(0).to_string()).collect();
    query_text::check(texts.join("\n").as_bytes());
}
