//! One thing that changes may alter: an entry, or a read that may become one.

use model::{Change, Image, RowId, Value};
use query::predicate::{compare_with, field_of};
use query::{OrderKey, Query};

use crate::buckets::Question;
use crate::entry::StaleFlag;
use crate::invalidated::Invalidated;
use crate::key::Key;
use crate::rank::Edge;
use crate::rules::{Rule, Rules};
use crate::weight;

/// An entry or an open read, as the registry knows it.
pub(crate) struct Watch {
    /// Where its page ends, as far as ranks can say: looked at for each row that matches.
    pub(crate) edge: Option<Edge>,
    /// No other watch ever has it.
    pub(crate) number: u64,
    pub(crate) stale: StaleFlag,
    pub(crate) is_exact: bool,
    /// The entry's name in the map; a read that is open has none yet.
    pub(crate) kept: Option<Key>,
    pub(crate) subject: WatchSubject,
}

/// What is watched.
pub(crate) enum WatchSubject {
    Rows(WatchedPage),
    Total(WatchedTotal),
}

/// The rows of a page.
pub(crate) struct WatchedPage {
    /// The row that a cursor names, whose place in the order bounds the page.
    cursor: Option<RowId>,
    /// The order in which rows are read.
    order: Vec<OrderKey>,
    /// What the last row of a full page has in each key of the order. Rows beyond it alter
    /// nothing. Unknown of a read that is open.
    last: Option<Vec<Value>>,
}

/// A total and how far the commit that is being asked moves it.
#[derive(Default)]
pub(crate) struct WatchedTotal {
    /// Unknown of a read that is open.
    pub(crate) count: Option<u64>,
    pub(crate) delta: i64,
}

/// Whether a row matches before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matches {
    pub(crate) before: bool,
    pub(crate) after: bool,
}

impl Matches {
    pub(crate) const NONE: Matches = Matches {
        before: false,
        after: false,
    };
}

impl Watch {
    /// A commit may alter it.
    pub(crate) fn invalidate(self, invalidated: &mut Invalidated, rules: &Rules) {
        invalidated.count += 1;
        if self.is_exact || rules.hold(Rule::StaleIsTold) {
            self.stale.set();
        }
        if self.is_exact
            && let Some(key) = self.kept
        {
            invalidated.gone.push((key, self.number));
        }
    }

    pub(crate) fn cursor(&self) -> Option<&RowId> {
        match &self.subject {
            WatchSubject::Rows(page) => page.cursor(),
            WatchSubject::Total(_) => None,
        }
    }

    /// Whether the change, of a row that matches on some side, may alter the rows.
    pub(crate) fn is_affected_by(&self, change: &Change, matches: Matches, rules: &Rules) -> bool {
        match &self.subject {
            WatchSubject::Rows(page) => page.is_affected_by(change, matches, rules),
            WatchSubject::Total(_) => false,
        }
    }

    /// Whether the row stands beyond the page on each side on which it matches, as its rank alone
    /// can say.
    pub(crate) fn is_out_of_reach(
        &self,
        question: &Question<'_>,
        matches: Matches,
        rules: &Rules,
    ) -> bool {
        self.edge.is_some_and(|edge| {
            (!matches.before || edge.is_before(question.before, rules))
                && (!matches.after || edge.is_before(question.after, rules))
        })
    }

    /// Whether it is of rows, and of no page that is known to end.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self.subject, WatchSubject::Rows(_)) && self.edge.is_none()
    }

    /// The read found these keys in its last row; `None`: the page is not full.
    pub(crate) fn set_last(&mut self, last: Option<Vec<Value>>) {
        if let WatchSubject::Rows(page) = &mut self.subject {
            let first = page.order.first().zip(last.as_ref());
            self.edge = first.map(|(key, last)| Edge::new(*key, &last[0]));
            page.last = last;
        }
    }

    pub(crate) fn is_cursor_affected_by(&self, change: &Change) -> bool {
        match &self.subject {
            WatchSubject::Rows(page) => {
                page.cursor() == Some(&change.id) && page.is_cursor_affected_by(change)
            }
            WatchSubject::Total(_) => false,
        }
    }

    /// Moves a total. Says whether it is one.
    pub(crate) fn tally(&mut self, delta: i64) -> bool {
        match &mut self.subject {
            WatchSubject::Rows(_) => false,
            WatchSubject::Total(tally) => {
                tally.delta += delta;
                true
            }
        }
    }

    pub(crate) fn is_moved(&self) -> bool {
        matches!(&self.subject, WatchSubject::Total(WatchedTotal { delta, .. }) if *delta != 0)
    }

    /// What becomes of a total that a commit moves. One that can be patched waits for the end of
    /// the commit where it is; one that is moved otherwise is left to be taken away.
    pub(crate) fn settle(
        &mut self,
        slot: u32,
        cap: Option<u64>,
        invalidated: &mut Invalidated,
        rules: &Rules,
    ) {
        let WatchSubject::Total(tally) = &mut self.subject else {
            return;
        };
        let (Some(count), true) = (tally.count, self.is_exact) else {
            return;
        };
        let is_at_cap = cap.is_some_and(|cap| count >= cap);
        if is_at_cap && tally.delta > 0 {
            // Still at the cap.
            tally.delta = 0;
        } else if tally.delta != 0
            && !(is_at_cap && rules.hold(Rule::TotalsAtCapAreDropped))
            && let Some(key) = self.kept.take()
        {
            let delta = std::mem::take(&mut tally.delta);
            invalidated.defer_total(key, slot, self.number, &self.stale, count, delta);
        }
    }

    /// A watch of the rows or the total that `query` asks for, open until it is kept.
    pub(crate) fn open(number: u64, query: &Query, of_rows: bool, is_exact: bool) -> Watch {
        Watch {
            edge: None,
            number,
            stale: StaleFlag::default(),
            is_exact,
            kept: None,
            subject: if of_rows {
                WatchSubject::Rows(WatchedPage::new(query))
            } else {
                WatchSubject::Total(WatchedTotal::default())
            },
        }
    }

    /// Bytes it takes, about.
    pub(crate) fn size_bytes(&self) -> usize {
        let page = match &self.subject {
            WatchSubject::Rows(page) => page.size_bytes(),
            WatchSubject::Total(_) => 0,
        };
        size_of::<Watch>() + weight::FLAG_BYTES + page
    }

    /// The read has become an entry of this name.
    pub(crate) fn keep(&mut self, key: Key, total: Option<u64>) {
        self.kept = Some(key);
        if let WatchSubject::Total(tally) = &mut self.subject {
            tally.count = total;
        }
    }
}

impl WatchedPage {
    pub(crate) fn new(query: &Query) -> WatchedPage {
        WatchedPage {
            cursor: query.cursor.as_ref().map(|cursor| cursor.row.clone()),
            order: query.read_order(),
            last: None,
        }
    }

    fn size_bytes(&self) -> usize {
        let last = self.last.as_deref().map_or(0, weight::values);
        let cursor = self.cursor.as_ref().map_or(0, |row| {
            // Its own, and the one by which the table finds its pages.
            2 * row.as_str().len() + weight::hashed::<(RowId, Vec<u32>)>() + 4 * size_of::<u32>()
        });
        size_of_val(&*self.order) + last + cursor
    }

    pub(crate) fn cursor(&self) -> Option<&RowId> {
        self.cursor.as_ref()
    }

    /// Whether a change of a row that matches on some side may alter the page.
    pub(crate) fn is_affected_by(&self, change: &Change, matches: Matches, rules: &Rules) -> bool {
        let Some(last) = &self.last else {
            return rules.hold(Rule::WindowOfFullPagesOnly);
        };
        let is_inside = |image: &Option<Image>| {
            let image = image.as_ref();
            image.is_some_and(|image| !self.is_beyond(change, image, last, rules))
        };
        let was = matches.before && is_inside(&change.before);
        let is = matches.after && is_inside(&change.after);
        (was && rules.hold(Rule::WindowSeesBefore)) || (is && rules.hold(Rule::WindowSeesAfter))
    }

    fn is_beyond(&self, change: &Change, image: &Image, last: &[Value], rules: &Rules) -> bool {
        let value_of = |position: usize| field_of(change, image, self.order[position].field);
        if rules.hold(Rule::WindowBreaksTies) {
            return compare_with(&self.order, value_of, last).is_gt();
        }
        let keys = self.order.len() - 1;
        compare_with(&self.order[..keys], value_of, last).is_ge()
    }

    /// Whether a change of the cursor's row may alter the page: if it came, went, moved, or others
    /// may see it.
    pub(crate) fn is_cursor_affected_by(&self, change: &Change) -> bool {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            return true;
        };
        before.permissions != after.permissions
            || self.order.iter().any(|key| {
                !field_of(change, before, key.field).is_same(field_of(change, after, key.field))
            })
    }
}
