//! Questions about other times than now, and what was answered to those whose time is settled.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use engine::{Engine, EngineError, GrantsAsOf, ListAnswer, ReadError, View};
use model::{Mark, RowId};

use super::super::domain;
use super::super::fixture;
use super::super::gate::Stop;
use super::super::judge::{Grounds, Verdict};
use super::super::question::Question;
use super::super::times::Times;
use super::check::{agree, show};
use super::erased::AskedAt;
use super::{Found, READERS_MAX, World};

/// An answer that must come again for as long as its grounds stand.
pub(super) struct Given {
    question: Arc<Question>,
    answer: Verdict,
    grounds: Grounds,
}

impl World {
    /// From now on other times than now are read as well, and written; rows are erased;
    /// some writes are staged in transactions.
    pub fn travel_in_time(&mut self) {
        self.travels = true;
        self.judge.travels = true;
        self.stages = Some(0);
    }

    /// From now on lists look at where rows stand in time, and at what changed, as well.
    pub fn look_at_ends(&mut self) {
        self.ends = &domain::ENDS;
        for place in 0..self.pool.len() {
            self.pool[place] = self.draw_question();
        }
    }

    /// From now on reads may settle at marks that are pending, to show that it is noticed.
    pub fn ignore_pending_marks(&mut self) {
        self.engine.ignore_pending_marks();
    }

    /// A reader reads another time: mostly one that was read before.
    pub(super) fn travel(&mut self) -> Found {
        if self.readers.len() >= READERS_MAX {
            return self.go_on_reading();
        }
        let question = if self.settled.is_empty() || self.chance.one_in(3) {
            self.draw_travel()
        } else {
            self.chance.pick(&self.settled).clone()
        };
        let times = question.times.expect("it is about another time");
        if times.as_of.is_none() {
            return self.settle_time(&question);
        }
        if !self.judge.may_be_asked(&question) {
            return Ok(());
        }
        if !times.is_future(self.clock.look()) {
            let is_new = self.settled.iter().all(|one| one.number != question.number);
            self.settled.extend(is_new.then(|| question.clone()));
        }
        self.ask(question);
        self.go_on(self.readers.len() - 1)
    }

    /// A reader asks for one row of now.
    pub(super) fn ask_for_row(&mut self) -> Found {
        self.asked += 1;
        let id = *self.chance.pick(&domain::IDS);
        let question = Question::draw(&mut self.chance, self.judge.catalogue(), self.asked);
        let question = Arc::new(question.only_row(id));
        if !self.judge.may_be_asked(&question) {
            return Ok(());
        }
        self.tally.count("rows of now", true);
        self.ask(question);
        self.go_on(self.readers.len() - 1)
    }

    fn draw_travel(&mut self) -> Arc<Question> {
        self.asked += 1;
        let states = self.judge.states.iter().rev().take(MARKS);
        let marks: Vec<Mark> = states.map(|state| state.mark).collect();
        let now = self.clock.look();
        let mut times = Times::draw(&mut self.chance, &marks, now);
        if !self.ends.is_empty() {
            times = times.or_changes(&mut self.chance, &marks, now);
        }
        let is_of_row = !times.is_wide() && self.chance.one_in(4);
        let only = is_of_row.then(|| *self.chance.pick(&domain::IDS));
        let question = Question::draw_of(
            &mut self.chance,
            self.judge.catalogue(),
            self.asked,
            self.ends,
        );
        Arc::new(question.at(times, only))
    }

    /// Asks a question that leaves it to the engine as of when it is answered, from its begin to
    /// its end: which mark it is, only the answer says. From then on it is read as of that.
    fn settle_time(&mut self, question: &Arc<Question>) -> Found {
        if self.judge.is_hidden() {
            return Ok(());
        }
        self.gated.let_reads_pass(usize::MAX);
        self.gated.fail_reads(false);
        let mut answering = Box::pin(at_other_time(self.engine.clone(), question.clone()));
        let polled = answering
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        self.gated.take_lists();
        // It waits for marks to be reserved: that alone is the writer's.
        let Poll::Ready(answer) = polled else {
            return Ok(());
        };
        if self.is_left_open(&answer) {
            return Ok(());
        }
        let stands = self.judge.states[self.judge.stands()].mark;
        let published = self.published();
        let found = verdict_of(&answer);
        let says = |mark| self.judge.evaluate(question, Some(mark));
        let mut mark = answer.as_ref().map_or(stands, |list| list.mark);
        // A refusal does not say as of when it is: it may stay below what is pending, too.
        if answer.is_err() && !agree(question, &found, &says(stands)) {
            mark = published;
        }
        let said = says(mark);
        if mark < published || !agree(question, &found, &said) {
            return Err(format!(
                "{question:?}\n  was answered as of {mark:?} {}\n  and {published:?} is published:\n  {}",
                show(&(0, found)),
                show(&(0, said))
            ));
        }
        // Nothing else has moved meanwhile.
        let asked = AskedAt {
            floor: self.judge.readable(),
            table: self.judge.table_of(question),
        };
        self.check_erased(question, &answer, &asked)?;
        self.tally.count("times that were settled", answer.is_ok());
        if answer.is_ok() {
            self.asked += 1;
            let known = Arc::new(question.known_at(mark, self.asked));
            self.settled.push(known.clone());
            self.note_given(&known, &found)?;
        }
        Ok(())
    }

    /// The mark of the last commit that is published. One that is only visible may still be stayed
    /// below: its mark is pending.
    fn published(&self) -> Mark {
        let states = &self.judge.states;
        let last = states[self.judge.stands()].mark;
        let is_pending = match self.stop {
            Stop::InDoubt => self.hides_commit,
            stop => stop == Stop::Committed,
        };
        let mut marks = states.iter().rev().map(|state| state.mark);
        let published = marks.find(|mark| !is_pending || *mark < last);
        published.unwrap_or(last)
    }

    /// Keeps an answer about a settled time that is right now, and compares it with the one that
    /// was given before.
    pub(super) fn note_given(&mut self, question: &Arc<Question>, found: &Verdict) -> Found {
        let grounds = self.judge.grounds(question);
        let known = self
            .given
            .iter()
            .rfind(|given| given.question.number == question.number);
        if let Some(given) = known.filter(|given| given.grounds == grounds) {
            self.tally.count("answers that came again", true);
            if !agree(question, found, &given.answer) {
                return Err(format!(
                    "{question:?}\n  was answered {}\n  and before {}",
                    show(&(0, found.clone())),
                    show(&(0, given.answer.clone()))
                ));
            }
            return Ok(());
        }
        self.tally
            .count("answers whose grounds were moved", known.is_some());
        self.given.push(Given {
            question: question.clone(),
            answer: found.clone(),
            grounds,
        });
        Ok(())
    }

    /// Asks everything again that was ever answered about a settled time.
    pub(super) fn ask_again(&mut self) -> Found {
        for question in self.settled.clone() {
            self.ask(question);
            self.poll(self.readers.len() - 1, usize::MAX)?;
            self.wait_for_marks()?;
            if !self.readers.is_empty() {
                return Err("nothing is left to wait for".to_owned());
            }
        }
        Ok(())
    }

    /// Whether it was refused because its time has not come.
    pub(super) fn is_ahead(
        &self,
        question: &Question,
        answer: &Result<ListAnswer, EngineError>,
    ) -> bool {
        let Some(mark) = question.times.and_then(|times| times.as_of) else {
            return false;
        };
        let status = self.engine.status();
        let is_refused = matches!(answer, Err(EngineError::Read(ReadError::FutureMark { .. })));
        is_refused && mark.timestamp() > self.clock.look() && mark > status.horizon
    }
}

/// The marks of so many states are read.
const MARKS: usize = 40;

/// The list, or the one row, that is asked for.
pub(super) async fn at_other_time(
    engine: Arc<Engine>,
    asked: Arc<Question>,
) -> Result<ListAnswer, EngineError> {
    let Some(id) = asked.only else {
        let list = super::list_of(&asked, false);
        return engine.list_rows(&asked.caller, &list, View::CURRENT).await;
    };
    let id = RowId::new(id).expect("a legal id");
    if asked.times.is_none() {
        return row_of_now(&engine, &asked, &id).await;
    }
    let list = super::list_of(&asked, false);
    let got = engine.get_row(
        &asked.caller,
        &list,
        &id,
        View::Committed(GrantsAsOf::Today),
    );
    Ok(fixture::at_times(got.await?))
}

/// One row of now, as a list of one.
async fn row_of_now(
    engine: &Engine,
    asked: &Question,
    id: &RowId,
) -> Result<ListAnswer, EngineError> {
    let place = super::list_of(asked, false).place;
    let got = fixture::get_row(engine, &asked.caller, place, id, &[], View::CURRENT).await?;
    let rows = fixture::encode_page(&got.answer, asked.family);
    Ok(ListAnswer {
        tag: engine.fingerprint(&rows),
        rows: rows.into(),
        total: 0,
        cached: None,
        mark: got.mark,
        fixed: None,
        is_erased: false,
    })
}

/// What an answer says.
pub(super) fn verdict_of(answer: &Result<ListAnswer, EngineError>) -> Verdict {
    match answer {
        Ok(list) => Ok((list.rows.to_vec(), list.total)),
        // The judge says what is there, and not what was.
        Err(EngineError::Read(ReadError::RowNotFoundSinceErasure(id))) => {
            Err(ReadError::RowNotFound(id.clone()).into())
        }
        Err(error) => Err(error.clone()),
    }
}
