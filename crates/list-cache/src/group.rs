//! Watches that ask for the same rows of a table: asked about each change once.

use std::sync::Arc;

use model::{Change, Field, Image, Role};
use query::predicate::{field_of, satisfies};
use query::{Filter, Query, Visibility};

use crate::buckets::Placement;
use crate::rank::RankBounds;
use crate::rules::{Rule, Rules};
use crate::watch::{Matches, Watch};
use crate::weight;

/// The watches of one filter under one visibility.
pub(crate) struct WatchGroup {
    /// What names it in its table.
    pub(crate) form: Arc<[u8]>,
    filter: Filter,
    visibility: Visibility,
    /// What the filter looks at.
    fields: Vec<Field>,
    /// Where it stands in the index of its table.
    pub(crate) placement: Placement,
    pub(crate) watches: Vec<Watch>,
    /// The number of the change that it was asked about last.
    pub(crate) visits: u64,
}

impl WatchGroup {
    pub(crate) fn new(form: Arc<[u8]>, query: &Query, placement: Placement) -> WatchGroup {
        let mut fields = Vec::new();
        let mut filter = Filter::All(Vec::new());
        // What memory cannot decide is not asked.
        if !matches!(placement, Placement::Undecidable) {
            collect_fields(&query.filter, &mut fields);
            filter = query.filter.clone();
        }
        WatchGroup {
            form,
            filter,
            visibility: query.visibility.clone(),
            fields,
            placement,
            // Rows and total, mostly.
            watches: Vec::with_capacity(2),
            visits: 0,
        }
    }

    /// Bytes that are spent on one of its watches, about: the watch, and its share of what the
    /// group keeps once. Rows and total bear half of that each; of several pages with one filter
    /// each bears a half too, because the others may go first.
    pub(crate) fn watch_bytes(&self, number: u64) -> usize {
        let watch = self.watches.iter().find(|watch| watch.number == number);
        let own = watch.map_or(0, Watch::size_bytes);
        own + self.size_bytes() / self.watches.len().clamp(1, 2)
    }

    /// Bytes of what it keeps once, its places in the indexes of its table included.
    fn size_bytes(&self) -> usize {
        let roles = match &self.visibility {
            Visibility::Everything => 0,
            Visibility::Granted(roles) => {
                let texts = roles.iter().map(|role| weight::shared(role.as_str().len()));
                weight::shared(texts.sum::<usize>() + roles.iter().len() * size_of::<Role>())
            }
        };
        size_of::<(WatchGroup, RankBounds)>()
            + weight::shared(self.form.len())
            + weight::hashed::<(Arc<[u8]>, u32)>()
            + weight::filter(&self.filter)
            + weight::fields(&self.fields)
            + self.placement.size_bytes()
            + roles
    }

    /// What the filter looks at.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether memory can decide which rows are meant.
    pub(crate) fn is_decidable(&self) -> bool {
        !matches!(self.placement, Placement::Undecidable)
    }

    /// On which sides of the change the row is among those that are meant.
    pub(crate) fn matches(&self, change: &Change, rules: &Rules) -> Matches {
        let (before, after) = match (&change.before, &change.after) {
            (Some(before), Some(after)) => {
                let is_same = before.permissions == after.permissions
                    && self.fields.iter().all(|field| {
                        let was = field_of(change, before, *field);
                        was.is_same(field_of(change, after, *field))
                    });
                let matches_before = self.has(change, before, grants(before, after, rules));
                let matches_after = if is_same {
                    matches_before
                } else {
                    self.has(change, after, &after.permissions)
                };
                (matches_before, matches_after)
            }
            (Some(before), None) => (self.has(change, before, &before.permissions), false),
            (None, Some(after)) => (false, self.has(change, after, &after.permissions)),
            (None, None) => (false, false),
        };
        Matches { before, after }
    }

    fn has(&self, change: &Change, image: &Image, permissions: &str) -> bool {
        satisfies(&self.filter, &|field| field_of(change, image, field))
            && self.visibility.sees(permissions)
    }
}

/// The grants by which the row before the change is judged.
fn grants<'a>(before: &'a Image, after: &'a Image, rules: &Rules) -> &'a str {
    if rules.hold(Rule::VisibilityOfBefore) {
        &before.permissions
    } else {
        &after.permissions
    }
}

fn collect_fields(filter: &Filter, fields: &mut Vec<Field>) {
    match filter {
        Filter::All(branches) | Filter::Any(branches) => {
            for branch in branches {
                collect_fields(branch, fields);
            }
        }
        Filter::Field(field, _) if fields.contains(field) => {}
        Filter::Field(field, _) => fields.push(*field),
    }
}
