//! What a thread remembers of a request target: what it means, and what preceded its rows.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use engine::{Engine, Family, ListAnswer, PreparedList, PreparedPast, PreparedTable};
use hyper::header::{HeaderMap, HeaderValue};
use model::{Mark, Marked, RowId};

use crate::http::head::cors::Origin;
use crate::http::reply::fixed_head::FixedHead;
use crate::http::reply::{Reply, shared_bytes};
use crate::http::wire::{self, Words};

/// How the answer to a target is found.
pub enum CachedPlan {
    /// A list.
    List(Box<ListPlan>),
    /// A row, whose id follows.
    Row(RowPlan),
    /// A row at a time that is over, whose id stands before the queries.
    PastRow(Box<PastRowPlan>),
    /// What only dispatch can answer.
    Dispatch,
}

/// A list and what went before its rows the last time.
pub struct ListPlan {
    pub(in crate::http) prepared: PreparedList,
    pub(in crate::http) family: Family,
    pub(in crate::http) words: &'static Words,
    head: RefCell<Option<Head>>,
    /// Answers since they were last reported.
    answers: Cell<u64>,
}

/// A table whose rows are read.
pub struct RowPlan {
    pub(in crate::http) table: PreparedTable,
    pub(in crate::http) family: Family,
    pub(in crate::http) head: Rc<FixedHead>,
}

/// A table whose rows are read at a time that is over.
pub struct PastRowPlan {
    pub(in crate::http) table: PreparedPast,
    pub(in crate::http) words: &'static Words,
}

/// What went before the rows the last time.
struct Head {
    /// The answer it was written for, without its rows.
    answer: ListAnswer,
    fixed: Rc<FixedHead>,
    open: Bytes,
    close: Bytes,
}

/// A target without the id of the row that it names, and that id.
pub fn around_row(target: &str) -> Option<(Cow<'_, str>, &str)> {
    let (path, queries) = target.split_at(target.find('?').unwrap_or(target.len()));
    let (before, id) = path.split_at(path.rfind('/')? + 1);
    let around = match queries {
        "" => before.into(),
        queries => [before, queries].concat().into(),
    };
    Some((around, id))
}

impl PastRowPlan {
    /// The rows of a table at a time, in the words of this family.
    pub fn new(table: PreparedPast, family: Family) -> PastRowPlan {
        let words = wire::words(family);
        PastRowPlan { table, words }
    }
}

impl ListPlan {
    /// A list whose answers are written in the words of this family.
    pub fn new(list: PreparedList, family: Family) -> ListPlan {
        ListPlan {
            prepared: list,
            family,
            words: wire::words(family),
            head: RefCell::default(),
            answers: Cell::new(0),
        }
    }

    pub(super) fn report(&self, engine: &Engine) {
        let answers = self.answers.take();
        if answers > 0 {
            engine.count_held(&self.prepared, answers);
        }
    }

    /// The head and the pieces of `answer`.
    pub(in crate::http) fn write(&self, answer: ListAnswer) -> (Rc<FixedHead>, [Bytes; 3]) {
        let mut remembered = self.head.borrow_mut();
        let head = match &mut *remembered {
            Some(head) if head.fits(&answer) => head,
            other => other.insert(Head::of(&answer, self.words)),
        };
        let pieces = [
            head.open.clone(),
            shared_bytes(answer.rows),
            head.close.clone(),
        ];
        (head.fixed.clone(), pieces)
    }

    /// Counts an answer, until the next report.
    pub(in crate::http) fn count(&self) {
        self.answers.set(self.answers.get() + 1);
    }
}

impl RowPlan {
    /// The rows of a table, in the words of this family.
    pub fn new(table: PreparedTable, family: Family) -> RowPlan {
        let reply = Reply::ok(Vec::new()).at(Mark(0));
        let reply = reply.unless_held(&HeaderMap::new(), |_| 0);
        RowPlan {
            table,
            family,
            head: Rc::new(FixedHead::new(headers_of(reply), true)),
        }
    }

    /// The row with this id, as the body of an answer.
    pub(in crate::http) fn read(&self, engine: &Engine, id: &RowId) -> Option<Marked<Vec<u8>>> {
        engine.row_at_once(&self.table, id, |table, row| {
            wire::encode_shown_row(table, row, self.family)
        })
    }
}

/// The headers of a reply, with a place for the name of each request, so that it is put there
/// without moving the others.
fn headers_of(reply: Reply) -> HeaderMap {
    let no_id = HeaderValue::from_static("");
    let response = reply.into_response(no_id, &Origin::None);
    response.into_parts().0.headers
}

impl Head {
    fn of(answer: &ListAnswer, words: &'static Words) -> Head {
        let answer = ListAnswer {
            rows: [].into(),
            ..answer.clone()
        };
        let (open, close) = wire::list_envelope(words.rows, answer.total);
        let headers = headers_of(Reply::list(answer.clone(), words));
        Head {
            fixed: Rc::new(FixedHead::new(headers, false)),
            answer,
            open: Bytes::from(open),
            close: Bytes::from_static(close),
        }
    }

    /// Whether `answer` has the same head. Its rows are the same if their tag is.
    fn fits(&self, answer: &ListAnswer) -> bool {
        let of_head = |answer: &ListAnswer| (answer.tag, answer.total, answer.cached, answer.mark);
        of_head(&self.answer) == of_head(answer)
    }
}
