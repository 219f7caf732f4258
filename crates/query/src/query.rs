//! A query after names became columns, values became column types and the order became total.

use std::sync::Arc;

use model::{
    Coordinates, Direction, Field, Mark, Period, RowId, Selection, Table, Timestamp, Value,
};

use crate::field;
use crate::pattern::Pattern;
use crate::search::Search;
use crate::visibility::Visibility;

/// A resolved list query.
#[derive(Clone, Debug)]
pub struct Query {
    /// The schema it was resolved against.
    pub table: Arc<Table>,
    /// Which rows match; `Filter::All(vec![])` matches every row.
    pub filter: Filter,
    /// The order asked for, without the tie-break.
    pub order: Vec<OrderKey>,
    /// The direction of the tie-break on `$sequence` that makes the order total.
    pub tie: Direction,
    /// Whether rows come in random order; `order` and `cursor` are then empty.
    pub random: bool,
    /// Most rows of the page, at least 1.
    pub limit: u32,
    /// Rows to leave out at the front.
    pub offset: u64,
    /// The row the page starts after, or ends before.
    pub cursor: Option<Cursor>,
    /// What is shown of each row.
    pub selection: Selection,
    /// Which rows the actor may see.
    pub visibility: Visibility,
    /// Which rows the actor might see at an earlier time, where that is to be judged as well;
    /// `$permissions` are those of then.
    pub then: Option<Then>,
    /// The coordinates the read looks through; `None` is now, as known now.
    pub at: Option<Coordinates>,
    /// How much of each row it shows.
    pub frame: Frame,
    /// Whether it shows where each row stands in time. Always, where more than one version of a
    /// row may be shown.
    pub shows_span: bool,
}

/// Which rows an actor might see by the grants that were known at a mark.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Then {
    /// What he might see.
    pub visibility: Visibility,
    /// When.
    pub mark: Mark,
    /// Whether the row must also be there now, in the life that it had then. An answer that asks
    /// for it is not the same for ever.
    pub is_there_now: bool,
}

/// How much of each row a query shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Frame {
    /// What is valid at the instant of the coordinates; without them, the rows of now.
    #[default]
    One,
    /// What the rows of now will be once all that is due at this instant has been activated; or
    /// at a later one, if something that was due then has come in already.
    Due(Timestamp),
    /// Every piece, as known at the mark of the coordinates, that shares an instant with this.
    Pieces(Period),
    /// Every version that was known at that mark or before it, and shares an instant with this.
    Versions(Period),
    /// Those of these versions that began or ceased to be known in the second period.
    Changes(Period, Period),
}

impl Frame {
    /// Whether it may show more than one version of a row.
    pub fn is_wide(self) -> bool {
        self.valid_range().is_some()
    }

    /// The valid time that what it shows shares an instant with, where that is a period.
    pub fn valid_range(self) -> Option<Period> {
        match self {
            Frame::One | Frame::Due(_) => None,
            Frame::Pieces(valid) | Frame::Versions(valid) | Frame::Changes(valid, _) => Some(valid),
        }
    }

    /// Whether it shows until when something was known.
    pub fn shows_end(self) -> bool {
        matches!(self, Frame::Versions(_) | Frame::Changes(..))
    }
}

impl Query {
    /// Whether the filter looks at a relationship.
    pub fn filters_relationships(&self) -> bool {
        fn looks(table: &Table, filter: &Filter) -> bool {
            match filter {
                Filter::All(branches) | Filter::Any(branches) => {
                    branches.iter().any(|branch| looks(table, branch))
                }
                Filter::Field(field, _) => field::relation(table, *field).is_some(),
            }
        }
        looks(&self.table, &self.filter)
    }

    /// Whether the filter matches texts against regular expressions.
    pub fn has_patterns(&self) -> bool {
        fn has(filter: &Filter) -> bool {
            match filter {
                Filter::All(branches) | Filter::Any(branches) => branches.iter().any(has),
                Filter::Field(_, test) => matches!(test, Test::Matches(_)),
            }
        }
        has(&self.filter)
    }

    /// Whether the filter looks for words.
    pub fn has_searches(&self) -> bool {
        fn has(filter: &Filter) -> bool {
            match filter {
                Filter::All(branches) | Filter::Any(branches) => branches.iter().any(has),
                Filter::Field(_, test) => matches!(test, Test::Finds(_) | Test::FindsNot(_)),
            }
        }
        has(&self.filter)
    }

    /// Whether filter or order look at where rows stand in time. Such a query shows it, too.
    pub fn names_span(&self) -> bool {
        fn names(filter: &Filter) -> bool {
            match filter {
                Filter::All(branches) | Filter::Any(branches) => branches.iter().any(names),
                Filter::Field(field, _) => matches!(field, Field::Span(_)),
            }
        }
        let in_order = |key: &OrderKey| matches!(key.field, Field::Span(_));
        names(&self.filter) || self.order.iter().any(in_order)
    }

    /// Whether it reads rows of now whole, as they are kept encoded.
    pub fn reads_bodies(&self) -> bool {
        self.at.is_none() && self.frame == Frame::One && !self.shows_span
    }

    /// The order with its tie-break: no two rows are equal in it. Without meaning when
    /// [`Query::random`] is set.
    pub fn total_order(&self) -> Vec<OrderKey> {
        let mut keys = self.order.clone();
        if keys.last().is_none_or(|key| !field::is_distinct(key.field)) {
            keys.push(OrderKey {
                field: Field::Sequence,
                direction: self.tie,
            });
        }
        keys
    }

    /// The keys in the order in which rows are read: turned around before a cursor, so that the
    /// row next to it comes first.
    pub fn read_order(&self) -> Vec<OrderKey> {
        let mut keys = self.total_order();
        let is_backwards = self
            .cursor
            .as_ref()
            .is_some_and(|place| place.side == Side::Before);
        if is_backwards {
            for key in &mut keys {
                key.direction = key.direction.reversed();
            }
        }
        keys
    }
}

/// A condition on one row. Null never satisfies a test, except [`Test::IsNull`].
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Every branch holds.
    All(Vec<Filter>),
    /// At least one branch holds.
    Any(Vec<Filter>),
    /// One field of the row passes a test.
    Field(Field, Test),
}

/// A test of one field. Values have the field's storage type.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Equal to one of 1 to 500 values.
    In(Vec<Value>),
    /// Has a value, and another one than this.
    NotEqual(Value),
    /// Less than this.
    Less(Value),
    /// Less than or equal to this.
    LessEqual(Value),
    /// Greater than this.
    Greater(Value),
    /// Greater than or equal to this.
    GreaterEqual(Value),
    /// From the first to the second value, both included.
    Between(Value, Value),
    /// Below the first or above the second value.
    NotBetween(Value, Value),
    /// Has no value.
    IsNull,
    /// Has a value.
    IsNotNull,
    /// Text that starts so; case counts.
    StartsWith(String),
    /// Text that does not start so.
    NotStartsWith(String),
    /// Text that ends so; case counts.
    EndsWith(String),
    /// Text that does not end so.
    NotEndsWith(String),
    /// Text that has one of these as a part; case counts.
    HasPart(Vec<String>),
    /// Text that has none of these as a part.
    HasNoPart(Vec<String>),
    /// Text that has what is searched for; its column stands alone in a full-text index.
    Finds(Search),
    /// Text that has not.
    FindsNot(Search),
    /// Text of which some part matches.
    Matches(Pattern),
    /// An array with one of these as an element.
    HasAny(Vec<Value>),
    /// An array with each of these as an element.
    HasAll(Vec<Value>),
    /// An array with none of these as an element.
    HasNone(Vec<Value>),
    /// Text of more characters than this, or an array with such a text. No client asks for it.
    Longer(u32),
}

/// One key of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OrderKey {
    /// What is ordered by; never an array column.
    pub field: Field,
    /// In which direction; ascending puts nulls first, descending last.
    pub direction: Direction,
}

/// A place in the order, named by a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The row. To whom may not see it, it is not there.
    pub row: RowId,
    /// Which version of it, where the query may show more than one.
    pub version: Option<VersionName>,
    /// On which side of it the page lies.
    pub side: Side,
}

/// What tells versions of one row apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionName {
    /// Valid from.
    pub valid_from: Timestamp,
    /// Known as exactly this since.
    pub system_from: Mark,
}

/// A side of the cursor's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The rows right after it.
    After,
    /// The rows right before it, still in the order asked for.
    Before,
}
