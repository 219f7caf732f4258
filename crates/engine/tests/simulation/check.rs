//! What must hold of each answer: is it one that an observer could see who looked at the store?

use engine::{EngineError, ListAnswer};

use super::super::domain;
use super::super::gated;
use super::super::judge::Verdict;
use super::super::question::{Question, RANDOM_ROWS_MAX};
use super::erased::AskedAt;
use super::travel::verdict_of;
use super::{Found, Reader, World};

impl World {
    pub(super) fn check(
        &mut self,
        reader: &Reader,
        answer: Result<ListAnswer, EngineError>,
    ) -> Found {
        let question = &reader.question;
        let found = verdict_of(&answer);
        self.tally.answered(question, reader.lists, answer.as_ref());
        if self.has_no_verdict(reader, &answer) {
            return Ok(());
        }
        self.check_erased(question, &answer, &AskedAt::of(reader))?;
        if answer.is_err() {
            self.tire_of(question.number);
        }
        let stands = self.judge.stands();
        let fresh = self.judge.verdict(question);
        let fits = |verdict: &Verdict| agree(question, &found, verdict);
        let mut passed = reader.verdicts.iter().rev();
        let as_of = if fits(&fresh) {
            Some(stands)
        } else {
            let fitting = passed.find(|(_, verdict)| fits(verdict));
            fitting.map(|(state, _)| *state)
        };
        self.tally.count(
            "answers of a state that has passed",
            as_of.is_some_and(|at| at < stands),
        );
        self.tally.count(
            "hits of whole tables that outlived a commit",
            self.outlived(question, &answer),
        );
        let number = question.number;
        let how = answer
            .as_ref()
            .map(|list| (list.cached, list.mark, list.total));
        self.note(|| format!("question {number} answered {how:?} as of {as_of:?}"));
        if let Ok(list) = &answer {
            self.check_marks(reader, list)?;
            // Within a `ttl` an answer may be older, unless it says that it is not.
            let may_be_old = list
                .cached
                .is_some_and(|cached| cached.is_stale == Some(true));
            if may_be_old && as_of.is_none() {
                self.check_rights(reader, list)?;
                return self.check_age(reader, list);
            }
        }
        if question.times.is_some() && as_of == Some(stands) && found.is_ok() {
            return self.note_given(question, &found);
        }
        if as_of.is_some() {
            return Ok(());
        }
        let known: Vec<String> = reader.verdicts.iter().map(show).collect();
        Err(format!(
            "{question:?}\n  was answered {}\n  since it came, states {} to {stands} would have \
             said:\n  {}\n  {}",
            show(&(0, found)),
            reader.floor,
            known.join("\n  "),
            show(&(stands, fresh))
        ))
    }

    /// Whether it is refused for what no state says.
    fn has_no_verdict(
        &mut self,
        reader: &Reader,
        answer: &Result<ListAnswer, EngineError>,
    ) -> bool {
        let has_failed =
            reader.has_failed && matches!(answer, Err(error) if *error == gated::broken().into());
        self.tally.count("reads that failed", has_failed);
        if has_failed || self.is_left_open(answer) {
            return true;
        }
        let is_ahead = self.is_ahead(&reader.question, answer);
        self.tally.count("times that have not come", is_ahead);
        is_ahead
    }

    /// Whether it waits no longer for a commit in doubt.
    pub(super) fn is_left_open(&mut self, answer: &Result<ListAnswer, EngineError>) -> bool {
        let is_left = matches!(answer, Err(EngineError::Unavailable(_)));
        let is_left = is_left && self.engine.awaits_commit();
        self.tally
            .count("reads that left a commit in doubt", is_left);
        is_left
    }

    /// Whether a commit changed rows that all are meant, and left the page alone.
    fn outlived(&self, question: &Question, answer: &Result<ListAnswer, EngineError>) -> bool {
        let Ok(list) = answer else { return false };
        if question.times.is_some() {
            return false;
        }
        let is_exact_hit = list
            .cached
            .is_some_and(|it| it.is_hit && it.is_stale.is_none());
        is_exact_hit && question.means_all() && list.mark < self.judge.touched(question)
    }

    /// What every answer must keep, the ones that may be old among them.
    fn check_marks(&self, reader: &Reader, list: &ListAnswer) -> Found {
        let question = &reader.question;
        let stands = self.judge.states[self.judge.stands()].mark;
        let settled = question.times.and_then(|times| times.as_of);
        if settled.map_or(list.mark > stands, |mark| list.mark != mark) {
            return Err(format!(
                "{question:?} carries {:?} and {stands:?} stands",
                list.mark
            ));
        }
        let now = self.clock.look();
        if question.times.is_some_and(|times| times.is_future(now)) {
            return Err(format!("{question:?} is answered before its time"));
        }
        if question.is_random && list.cached.is_some() {
            return Err(format!(
                "{question:?} is drawn anew each time, never cached"
            ));
        }
        if list.tag != self.engine.fingerprint(&list.rows) {
            return Err(format!("{question:?} carries a foreign tag"));
        }
        if settled.is_none() && list.cached.is_some() && list.mark < reader.purge_mark {
            return Err(format!(
                "{question:?} was purged and is answered as of {:?}",
                list.mark
            ));
        }
        Ok(())
    }

    /// An answer may be older than the request; what the caller might read is not.
    fn check_rights(&mut self, reader: &Reader, list: &ListAnswer) -> Found {
        let Some(seen) = &reader.seen else {
            return Ok(());
        };
        let question = &reader.question;
        let now = self.judge.readable_rows(question);
        let text = String::from_utf8_lossy(&list.rows);
        let (_, lines) = text.split_once(' ').expect("the family comes first");
        let shown = lines.lines().filter_map(|line| line.split(' ').nth(1));
        // Of the many rows of large tables no book is kept.
        let known = shown.filter(|id| domain::IDS.contains(id));
        let mut hidden = known.filter(|id| !seen.contains(id) && !now.contains(id));
        let found = match hidden.next() {
            None => Ok(()),
            Some(id) => Err(format!(
                "{question:?} shows row {id}, which its caller may not read any more: {text}"
            )),
        };
        self.tally
            .count("older answers whose rows were judged", true);
        found
    }

    /// An answer that is older than the request was true for a while within its `ttl`.
    fn check_age(&self, reader: &Reader, list: &ListAnswer) -> Found {
        let question = &reader.question;
        let oldest_ms = reader
            .arrived_ms
            .saturating_sub(u64::from(question.ttl_s) * 1_000);
        match self.judge.ended_ms(list.mark) {
            Some(ended_ms) if ended_ms < oldest_ms => {
                let mark = list.mark;
                Err(format!(
                    "{question:?} is answered as of {mark:?}, past its ttl"
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the answer is what the verdict says. Rows in random order are compared as a set.
pub(super) fn agree(question: &Question, answer: &Verdict, verdict: &Verdict) -> bool {
    match (answer, verdict) {
        (Ok((rows, total)), Ok((others, other_total))) if question.is_random => {
            let sorted = |rows: &[u8]| {
                let text = String::from_utf8_lossy(rows).into_owned();
                let (_, text) = text.split_once(' ').expect("the family comes first");
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            let (rows, others) = (sorted(rows), sorted(others));
            // Of more rows than a page has, each time others come.
            let is_full = rows.len() == RANDOM_ROWS_MAX;
            total == other_total && rows.len() == others.len() && (is_full || rows == others)
        }
        _ => answer == verdict,
    }
}

pub(super) fn show((state, verdict): &(usize, Verdict)) -> String {
    match verdict {
        Ok((rows, total)) => {
            let rows = String::from_utf8_lossy(rows);
            format!("[{state}] {total}: {rows}")
        }
        Err(error) => format!("[{state}] {error:?}"),
    }
}
