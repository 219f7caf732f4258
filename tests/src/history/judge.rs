//! The judgement: every read must be explained.

use std::collections::HashMap;
use std::fmt;

use super::{History, Instant, Name, Question, Read, Row, Rows, Shown, Write};

/// How far each writer was: how many of its writes were done.
type Progress = Vec<usize>;

/// Most combinations of progress that are tried for one read. A read during which each of four
/// writers had five writes under way has 1,296.
const TRIED_MAX: usize = 20_000;

/// A read that no order of events explains.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The read.
    pub read: Read,
    /// How far each writer was for certain when it was sent.
    pub known: Vec<usize>,
    /// How far each had gone at most when it was answered.
    pub begun: Vec<usize>,
    /// What is wrong.
    pub why: Why,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was right earlier, before what was known when it was sent.
    Stale,
    /// It was never right at any one instant up to its answer.
    NeverTrue,
    /// It shows one write and lacks another, and a read at the same time does the opposite.
    Crossed,
    /// Of an age that its caller accepts, it shows a row that the caller had lost.
    Lost,
    /// It was answered while its caller was not allowed to read the table.
    Barred,
    /// As of a mark it shows something else than what was written up to there, or than another
    /// answer as of the same mark.
    Rewritten,
    /// It says that rows were erased since its mark when none were, or does not say so of one that
    /// it may have shown before.
    Erasure,
}

/// The judgement of a history.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Reads without an explanation.
    pub faults: Vec<Fault>,
    /// Reads of now that have one.
    pub explained: usize,
    /// Reads as of a mark that have one.
    pub recalled: usize,
    /// Those of them that say that rows were erased since.
    pub erased: usize,
    /// Reads within an age that have one.
    pub aged: usize,
    /// Reads during which so much was written that not everything was tried.
    pub unjudged: usize,
}

impl Judged {
    /// Adds the judgement of another history.
    pub fn add(&mut self, other: Judged) {
        self.faults.extend(other.faults);
        self.explained += other.explained;
        self.recalled += other.recalled;
        self.erased += other.erased;
        self.aged += other.aged;
        self.unjudged += other.unjudged;
    }
}

/// Judges every read of a table.
pub fn judge(history: &History, questions: &[Question]) -> Judged {
    let mut court = Court {
        history,
        questions,
        tried: HashMap::new(),
        settled: HashMap::new(),
    };
    let mut judged = Judged::default();
    let mut order: Vec<&Read> = history.reads.iter().collect();
    order.sort_by_key(|read| read.sent);
    let mut seen = vec![0; history.writers.len()];
    let mut open: Vec<Explained<'_>> = Vec::new();
    for read in order {
        if history.is_barred(read) {
            judged.faults.push(court.fault(read, &seen, Why::Barred));
            continue;
        }
        if let Some(mark) = read.as_of {
            match court.recall(read, mark) {
                Recalled::Explained => {
                    judged.recalled += 1;
                    judged.erased += usize::from(read.says_erased);
                }
                Recalled::TooMany => judged.unjudged += 1,
                Recalled::Fault(why) => judged.faults.push(court.fault(read, &seen, why)),
            }
            continue;
        }
        if read.says_erased {
            judged.faults.push(court.fault(read, &seen, Why::Erasure));
            continue;
        }
        // What was answered before this one was sent, its caller may know.
        open.retain(|earlier| {
            let is_over = earlier.read.answered < read.sent;
            if is_over {
                raise(&mut seen, &earlier.least);
            }
            !is_over
        });
        if let Some(within) = read.within {
            match court.age(read, &seen, within) {
                None => judged.aged += 1,
                Some(why) => judged.faults.push(court.fault(read, &seen, why)),
            }
            continue;
        }
        match court.hear(read, &seen) {
            Heard::Explained { least, most } => {
                let explained = Explained { read, least, most };
                if open.iter().any(|other| other.crosses(&explained)) {
                    let fault = court.fault(read, &seen, Why::Crossed);
                    judged.faults.push(fault);
                    continue;
                }
                judged.explained += 1;
                open.push(explained);
            }
            Heard::TooMany => judged.unjudged += 1,
            Heard::Fault(why) => judged.faults.push(court.fault(read, &seen, why)),
        }
    }
    judged
}

impl History {
    /// Whether a read was sent and answered while its caller was not allowed to read.
    fn is_barred(&self, read: &Read) -> bool {
        let holds = |(from, to): &(Instant, Instant)| *from < read.sent && read.answered < *to;
        read.is_guest && self.barred.iter().any(holds)
    }
}

/// A read, and between which progress it was true.
struct Explained<'a> {
    read: &'a Read,
    least: Progress,
    most: Progress,
}

impl Explained<'_> {
    /// Whether each shows what the other lacks.
    fn crosses(&self, other: &Explained<'_>) -> bool {
        let is_ahead = |of: &Explained<'_>, than: &Explained<'_>| {
            let mut pairs = of.least.iter().zip(&than.most);
            pairs.any(|(least, most)| least > most)
        };
        is_ahead(self, other) && is_ahead(other, self)
    }
}

enum Heard {
    Explained { least: Progress, most: Progress },
    TooMany,
    Fault(Why),
}

enum Recalled {
    Explained,
    TooMany,
    Fault(Why),
}

struct Court<'a> {
    history: &'a History,
    questions: &'a [Question],
    /// Right answers, by question, caller and progress: lists are asked for far more often than
    /// rows are written.
    tried: HashMap<(usize, bool, Progress), Shown>,
    /// The first answer to each question and caller as of each mark, and by how far each writer
    /// was when it erased last before.
    settled: HashMap<(usize, bool, i64, Progress), Shown>,
}

impl Court<'_> {
    fn hear(&mut self, read: &Read, seen: &[usize]) -> Heard {
        let (known, begun) = self.bounds(read, seen);
        let writers = 0..known.len();
        let choices =
            writers.map(|writer| self.choices(read, writer, known[writer], begun[writer]));
        let choices: Vec<Vec<usize>> = choices.collect();
        let combinations = choices.iter().map(Vec::len).fold(1, usize::saturating_mul);
        if combinations > TRIED_MAX {
            return Heard::TooMany;
        }
        let (mut least, mut most) = (None::<Progress>, Progress::new());
        for combination in 0..combinations {
            let progress = choose(&choices, combination);
            if self.right(read, &progress) != read.shown {
                continue;
            }
            match &mut least {
                None => (least, most) = (Some(progress.clone()), progress),
                Some(least) => {
                    lower(least, &progress);
                    raise(&mut most, &progress);
                }
            }
        }
        match least {
            Some(least) => Heard::Explained { least, most },
            None => Heard::Fault(self.why(read, &known, &begun)),
        }
    }

    /// Whether a read as of a mark shows what was written up to there and not erased since, and what
    /// others showed; and whether it says what was erased.
    fn recall(&mut self, read: &Read, mark: i64) -> Recalled {
        let erasures = self.erasures(read);
        if let Some(erased) = only(&erasures) {
            let key = (read.question, read.sees_all, mark, erased);
            let first = self.settled.entry(key);
            if *first.or_insert_with(|| read.shown.clone()) != read.shown {
                return Recalled::Fault(Why::Rewritten);
            }
        }
        let choices = self.written_up_to(read, mark);
        let count = |choices: &[Vec<usize>]| {
            let counts = choices.iter().map(Vec::len);
            counts.fold(1, usize::saturating_mul)
        };
        let (written, erased) = (count(&choices), count(&erasures));
        if written.saturating_mul(erased) > TRIED_MAX {
            return Recalled::TooMany;
        }
        let mut is_shown = false;
        for number in 0..written * erased {
            let progress = choose(&choices, number % written);
            let erased = choose(&erasures, number / written);
            if self.left(read, &progress, &erased) != read.shown {
                continue;
            }
            if self.says_what_was_erased(read, mark, &erased) {
                return Recalled::Explained;
            }
            is_shown = true;
        }
        Recalled::Fault(if is_shown {
            Why::Erasure
        } else {
            Why::Rewritten
        })
    }

    /// How far each writer may have been as of a mark.
    fn written_up_to(&self, read: &Read, mark: i64) -> Vec<Vec<usize>> {
        let writers = self.history.writers.iter();
        let choices = writers.map(|writes| {
            let begun = writes.partition_point(|write| write.sent < read.answered);
            let known = |write: &Write, is_up_to: bool| {
                write.mark.is_some_and(|at| (at <= mark) == is_up_to)
            };
            let mut asked = writes[..begun].iter();
            let most = asked.clone().position(|write| known(write, false));
            let least = asked.rposition(|write| known(write, true));
            (least.map_or(0, |place| place + 1)..=most.unwrap_or(begun)).collect()
        });
        choices.collect()
    }

    /// How far each writer may have been, by its last erasure, when a read looked at its rows.
    fn erasures(&self, read: &Read) -> Vec<Vec<usize>> {
        let writers = self.history.writers.iter();
        let choices = writers.map(|writes| {
            let known = writes.partition_point(|write| write.answered < read.sent);
            let begun = writes.partition_point(|write| write.sent < read.answered);
            let erases = |place: &usize| writes[*place].erased.is_some();
            let done = (0..known).rev().find(erases).map_or(0, |place| place + 1);
            let under_way = (known..begun).filter(erases).map(|place| place + 1);
            std::iter::once(done).chain(under_way).collect()
        });
        choices.collect()
    }

    /// The right answer as of some progress, when the writers had come so far with erasures.
    fn left(&mut self, read: &Read, progress: &Progress, erased: &Progress) -> Shown {
        let is_gone = |name: &Name| {
            let writes = &self.history.writers[name.writer];
            let since = progress[name.writer]..erased[name.writer].max(progress[name.writer]);
            writes[since]
                .iter()
                .any(|write| write.erased == Some(name.slot))
        };
        let mut rows = self.rows_at(progress);
        let all = rows.len();
        rows.retain(|(name, _)| !is_gone(name));
        if rows.len() == all {
            return self.right(read, progress);
        }
        self.questions[read.question].answer(&rows, read.sees_all)
    }

    /// Whether the answer says of erasures what it must. They are looked up after the rows, so it
    /// may know of one that it was spared.
    fn says_what_was_erased(&self, read: &Read, mark: i64, erased: &Progress) -> bool {
        let is_since =
            |write: &Write| write.erased.is_some() && write.mark.is_none_or(|at| at > mark);
        let writers = || self.history.writers.iter();
        if read.says_erased {
            let begun = |write: &&Write| write.sent < read.answered;
            return writers().any(|writes| writes.iter().take_while(begun).any(is_since));
        }
        let mut done = writers().zip(erased);
        !done.any(|(writes, erased)| writes[..*erased].iter().any(is_since))
    }

    /// Why a read may not be as it is that may be so old; `None` if it may.
    fn age(&mut self, read: &Read, seen: &[usize], within: u64) -> Option<Why> {
        let (known, begun) = self.bounds(read, seen);
        if !self.was_right(read, &begun, read.sent.saturating_sub(within)) {
            return Some(self.why(read, &known, &begun));
        }
        let mut rows = read.shown.rows.iter();
        let keeps = |(name, version): &(Name, i64)| self.keeps(read, *name, *version, &known);
        (!rows.all(keeps)).then_some(Why::Lost)
    }

    /// Whether the rows of a read were right at one instant since `oldest`, and its total at one:
    /// the cache keeps them apart.
    fn was_right(&mut self, read: &Read, begun: &Progress, oldest: Instant) -> bool {
        let fits: Vec<Vec<bool>> = (0..begun.len())
            .map(|writer| {
                let mut fits = vec![false; begun[writer] + 1];
                for progress in self.choices(read, writer, 0, begun[writer]) {
                    fits[progress] = true;
                }
                fits
            })
            .collect();
        let all: Vec<Vec<bool>> = begun.iter().map(|begun| vec![true; begun + 1]).collect();
        let Shown { rows, total } = &read.shown;
        self.was(read, &fits, oldest, |right| right.rows == *rows)
            && (total.is_none() || self.was(read, &all, oldest, |right| right.total == *total))
    }

    /// Whether the right answer was such at an instant since `oldest`, each writer having come as
    /// far as may be. Between two events of the writers each of them has one write under way at
    /// most, so few answers can be right there.
    fn was(
        &mut self,
        read: &Read,
        may_be: &[Vec<bool>],
        oldest: Instant,
        is_such: impl Fn(&Shown) -> bool,
    ) -> bool {
        let all = self.history.writers.iter().flatten();
        let mut instants: Vec<Instant> = all
            .flat_map(|write| [write.sent, write.answered])
            .filter(|instant| (oldest..read.answered).contains(instant))
            .collect();
        instants.push(oldest);
        instants.sort_unstable_by(|one, other| other.cmp(one));
        instants.iter().any(|instant| {
            let writers = self.history.writers.iter().zip(may_be);
            let choices = writers.map(|(writes, may_be)| {
                let done = writes.partition_point(|write| write.answered <= *instant);
                let begun = writes.partition_point(|write| write.sent <= *instant);
                let progress = done..=begun.min(may_be.len() - 1);
                progress.filter(|progress| may_be[*progress]).collect()
            });
            let choices: Vec<Vec<usize>> = choices.collect();
            let combinations: usize = choices.iter().map(Vec::len).product();
            (0..combinations).any(|number| is_such(&self.right(read, &choose(&choices, number))))
        })
    }

    /// Whether who reads has seen the row at all times from when it was as it is shown to when he
    /// sent it. Given back after it was lost, it is shown as it was given back.
    fn keeps(&self, read: &Read, name: Name, version: i64, known: &Progress) -> bool {
        let row = |progress: usize| self.rows(name.writer, progress)?.get(&name.slot);
        let writes = self.history.writers[name.writer].len();
        let is_shown = |progress: &usize| row(*progress).is_some_and(|row| row.version == version);
        let sees = |progress| row(progress).is_some_and(|row| read.sees_all || row.is_open);
        let first = (1..=writes).find(is_shown);
        first.is_some_and(|first| (first..=known[name.writer].max(first)).all(sees))
    }

    /// How far each writer was for certain, and at most.
    fn bounds(&self, read: &Read, seen: &[usize]) -> (Progress, Progress) {
        let writers = self.history.writers.iter();
        let bounds = writers.zip(seen).map(|(writes, seen)| {
            let known = writes.partition_point(|write| write.answered < read.sent);
            let begun = writes.partition_point(|write| write.sent < read.answered);
            (known.max(*seen), begun)
        });
        bounds.unzip()
    }

    /// How far this writer may have been, by what the read shows of its rows.
    fn choices(&self, read: &Read, writer: usize, known: usize, begun: usize) -> Vec<usize> {
        let shown: Vec<(usize, i64)> = read
            .shown
            .rows
            .iter()
            .filter(|(name, _)| name.writer == writer)
            .map(|(name, version)| (name.slot, *version))
            .collect();
        let fits = |progress: &usize| {
            let rows = self.rows(writer, *progress);
            let has = |slot: &usize, version: &i64| {
                rows.is_some_and(|rows| rows.get(slot).is_some_and(|row| row.version == *version))
            };
            shown.iter().all(|(slot, version)| has(slot, version))
        };
        (known..=begun).filter(fits).collect()
    }

    fn rows(&self, writer: usize, progress: usize) -> Option<&Rows> {
        let last = progress.checked_sub(1)?;
        self.history.writers[writer]
            .get(last)
            .map(|write| &write.after)
    }

    fn right(&mut self, read: &Read, progress: &Progress) -> Shown {
        let key = (read.question, read.sees_all, progress.clone());
        if let Some(shown) = self.tried.get(&key) {
            return shown.clone();
        }
        let rows = self.rows_at(progress);
        let shown = self.questions[read.question].answer(&rows, read.sees_all);
        self.tried.insert(key, shown.clone());
        shown
    }

    fn rows_at(&self, progress: &Progress) -> Vec<(Name, &Row)> {
        let writers = progress.iter().enumerate();
        writers
            .filter_map(|(writer, progress)| Some((writer, self.rows(writer, *progress)?)))
            .flat_map(|(writer, rows)| {
                rows.iter().map(move |(slot, row)| {
                    let slot = *slot;
                    (Name { writer, slot }, row)
                })
            })
            .collect()
    }

    /// Stale is what a caller could have seen once, while what was known had not happened. Most
    /// stale answers were true when the writers were all at one instant: those are tried.
    fn why(&mut self, read: &Read, known: &Progress, begun: &Progress) -> Why {
        let mut instants: Vec<Instant> = self
            .history
            .writers
            .iter()
            .zip(begun)
            .flat_map(|(writes, begun)| writes[..*begun].iter().map(|write| write.answered))
            .collect();
        // Before all writes.
        instants.push(0);
        instants.sort_unstable();
        let was_right = instants.iter().any(|instant| {
            let writers = self.history.writers.iter().zip(known);
            let progress = writers.map(|(writes, known)| {
                writes
                    .partition_point(|write| write.answered <= *instant)
                    .min(*known)
            });
            let progress = progress.collect();
            progress != *known && self.right(read, &progress) == read.shown
        });
        if was_right {
            Why::Stale
        } else {
            Why::NeverTrue
        }
    }

    fn fault(&self, read: &Read, seen: &[usize], why: Why) -> Fault {
        let (known, begun) = self.bounds(read, seen);
        Fault {
            read: read.clone(),
            known,
            begun,
            why,
        }
    }
}

/// The combination of this number: one choice of each writer.
fn choose(choices: &[Vec<usize>], mut number: usize) -> Progress {
    let choice = |of: &Vec<usize>| {
        let chosen = of[number % of.len()];
        number /= of.len();
        chosen
    };
    choices.iter().map(choice).collect()
}

/// The only combination, if there is no other.
fn only(choices: &[Vec<usize>]) -> Option<Progress> {
    let only = |of: &Vec<usize>| match of[..] {
        [one] => Some(one),
        _ => None,
    };
    choices.iter().map(only).collect()
}

fn raise(progress: &mut [usize], other: &[usize]) {
    for (one, other) in progress.iter_mut().zip(other) {
        *one = (*one).max(*other);
    }
}

fn lower(progress: &mut [usize], other: &[usize]) {
    for (one, other) in progress.iter_mut().zip(other) {
        *one = (*one).min(*other);
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.why {
            Why::Stale => "is older than what was known when it was asked",
            Why::NeverTrue => "was never true at one instant",
            Why::Lost => "shows a row that its caller had lost",
            Why::Barred => "went to a caller who was not allowed to read the table",
            Why::Rewritten => "is not what was known at its mark, or not what was answered before",
            Why::Crossed => "and another at the same time each lack what the other shows",
            Why::Erasure => "says of erasures since its mark what is not so",
        };
        let Fault {
            read, known, begun, ..
        } = self;
        write!(
            f,
            "the answer {what}: question {} (sees all: {}, as of {:?}), sent at {} ns, answered at {} ns, \
             showed {:?} (says erased: {}); writes known then: {known:?}, begun by its end: {begun:?}",
            read.question,
            read.sees_all,
            read.as_of,
            read.sent,
            read.answered,
            read.shown,
            read.says_erased
        )
    }
}

#[cfg(test)]
mod tests;
