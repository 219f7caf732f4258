//! What may come back to a stranger: successes, 304, and refusals that name their type. All else
//! is a finding.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::shot::Manner;
use super::wire::Seen;

/// Findings of one kind of attack that keep their request; more are counted.
const KEPT_MAX: usize = 20;

/// Something that must not come back, and the request that brought it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The kind of attack.
    pub kind: &'static str,
    /// What came back.
    pub what: String,
    /// How often.
    pub count: u64,
    /// The bytes of one such request.
    pub request: Vec<u8>,
}

/// What came back, by status and type.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How often each came, such as `400 general_query_invalid`.
    pub answers: BTreeMap<String, u64>,
    /// The longest that an answer took.
    pub longest: Duration,
    /// Bytes of all bodies that came.
    pub bytes: u64,
    /// What must not come.
    pub findings: Vec<Finding>,
}

impl Tally {
    /// Counts what came back to one request.
    pub fn add(
        &mut self,
        kind: &'static str,
        manner: Manner,
        (seen, took): (&Seen, Duration),
        request: &[u8],
    ) {
        let (word, is_fine) = judged(manner, seen);
        if let Seen::Answer(reply) = seen {
            self.longest = self.longest.max(took);
            self.bytes += reply.bytes;
        }
        if !is_fine {
            self.find(kind, &word, request);
        }
        *self.answers.entry(word).or_default() += 1;
    }

    /// Notes what must not come.
    pub fn find(&mut self, kind: &'static str, what: &str, request: &[u8]) {
        self.merge_finding(Finding {
            kind,
            what: what.to_owned(),
            count: 1,
            request: request.to_vec(),
        });
    }

    /// Takes what another client saw.
    pub fn merge(&mut self, other: Tally) {
        for (word, count) in other.answers {
            *self.answers.entry(word).or_default() += count;
        }
        self.longest = self.longest.max(other.longest);
        self.bytes += other.bytes;
        for finding in other.findings {
            self.merge_finding(finding);
        }
    }

    fn merge_finding(&mut self, finding: Finding) {
        let same =
            |known: &&mut Finding| (known.kind, &known.what) == (finding.kind, &finding.what);
        if let Some(known) = self.findings.iter_mut().find(same) {
            known.count += finding.count;
        } else if self.findings.len() < KEPT_MAX {
            self.findings.push(finding);
        }
    }
}

/// What came back in few words, and whether it may.
fn judged(manner: Manner, seen: &Seen) -> (String, bool) {
    match seen {
        Seen::Answer(reply) => {
            let kind = kind_of(&reply.body);
            let word = match &kind {
                Some(kind) => format!("{} {kind}", reply.status),
                None if reply.status >= 400 => format!("{} without a type", reply.status),
                None => reply.status.to_string(),
            };
            let is_typed = kind.is_some() || manner == Manner::Broken;
            let is_fine = match reply.status {
                200..=299 | 304 => true,
                400..=499 | 503 | 507 => is_typed,
                // An HTTP version, or a way to send a body, that no client speaks.
                501 | 505 => manner == Manner::Broken,
                _ => false,
            };
            (word, is_fine)
        }
        // Bytes behind a request's end are another one; an end over these may cut an answer off.
        Seen::Closed { is_within: true } => (
            "closed within an answer".to_owned(),
            manner == Manner::Broken,
        ),
        Seen::Closed { .. } => (
            "closed without an answer".to_owned(),
            manner.may_be_closed(),
        ),
        Seen::Late => ("no answer in time".to_owned(), false),
        Seen::Garbled(why) => (format!("no HTTP: {why}"), false),
    }
}

/// The `type` of a refusal. Bodies are kept in part, so one that is long is no refusal of ours.
fn kind_of(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body["code"].as_u64()?;
    body["type"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::wire::Reply;

    fn answer(status: u16, body: &str) -> Seen {
        Seen::Answer(Reply {
            status,
            body: body.as_bytes().to_vec(),
            bytes: body.len() as u64,
        })
    }

    #[track_caller]
    fn check(manner: Manner, seen: &Seen, wanted: (&str, bool)) {
        let (word, is_fine) = judged(manner, seen);
        assert_eq!((word.as_str(), is_fine), wanted);
    }

    #[test]
    fn successes_and_typed_refusals_alone_may_come_back() {
        let typed = r#"{"message":"","code":0,"type":"general_query_invalid"}"#;
        check(Manner::Plain, &answer(200, "{}"), ("200", true));
        check(Manner::Plain, &answer(304, ""), ("304", true));
        for status in [400, 429, 503, 507] {
            let word = format!("{status} general_query_invalid");
            check(Manner::Plain, &answer(status, typed), (&word, true));
        }
        let word = "500 general_query_invalid";
        check(Manner::Plain, &answer(500, typed), (word, false));
        let bare = ("400 without a type", false);
        check(Manner::Plain, &answer(400, "Bad"), bare);
        check(
            Manner::Broken,
            &answer(400, ""),
            ("400 without a type", true),
        );
        check(Manner::Plain, &Seen::Late, ("no answer in time", false));
    }

    #[test]
    fn a_connection_may_be_closed_only_on_who_misused_it() {
        let closed = Seen::Closed { is_within: false };
        let word = "closed without an answer";
        check(Manner::Plain, &closed, (word, false));
        for manner in [Manner::Broken, Manner::Drip { at_once: 1 }, Manner::Idle] {
            check(manner, &closed, (word, true));
        }
        let cut = Seen::Closed { is_within: true };
        let word = "closed within an answer";
        check(Manner::Broken, &cut, (word, true));
        check(Manner::Plain, &cut, (word, false));
    }

    #[test]
    fn findings_are_counted_by_what_came_and_keep_one_request() {
        let mut all = Tally::default();
        for request in [b"a", b"b"] {
            let mut one = Tally::default();
            let seen = (&answer(500, ""), Duration::from_secs(1));
            one.add("regex", Manner::Plain, seen, request);
            all.merge(one);
        }
        assert_eq!(all.answers["500 without a type"], 2);
        let [only] = all.findings.as_slice() else {
            panic!("{:?}", all.findings)
        };
        assert_eq!((only.count, only.request.as_slice()), (2, &b"a"[..]));
        assert_eq!(all.longest, Duration::from_secs(1));
    }
}
