//! Which groups a change may concern: by the equalities of their filters.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use model::{Change, Field, Image};
use query::predicate::{Look, Seen, field_of};
use query::{Equality, Filter, equalities};

use crate::rules::{Rule, Rules};

/// Most groups of one bucket, each of which is asked about a change of a row with its value.
pub(crate) const BUCKET_GROUPS_MAX: usize = 2_048;
/// Most groups without an equality, each of which is asked about every change.
pub(crate) const RESIDUAL_GROUPS_MAX: usize = 256;

/// Where a group stands in the index of its table.
pub(crate) enum Home {
    /// In these buckets.
    Buckets(Vec<(Field, u64)>),
    /// Among those that are asked about every change.
    Residual,
    /// Among those that every change drops.
    Undecidable,
}

/// The groups of one table by what they ask for.
#[derive(Default)]
pub(crate) struct Buckets {
    /// By the hash of field and value. Two values of one hash share a bucket, which costs a
    /// question too many and nothing else.
    groups: HashMap<u64, Vec<u32>>,
    /// The fields that buckets are of, each with the number of places taken in its buckets.
    fields: Vec<(Field, usize)>,
    residual: Vec<u32>,
    hasher: RandomState,
}

impl Buckets {
    /// Where a group with this filter may stand; `None` if there is no room for it.
    pub(crate) fn home(&self, filter: &Filter, rules: &Rules) -> Option<Home> {
        let mut sets = equalities(filter);
        if sets.is_empty() && !rules.hold(Rule::EachAlternativeHasAnEquality) {
            sets = loose_equalities(filter);
        }
        let hashed = |set: Vec<Equality<'_>>| -> Vec<(Field, u64)> {
            let pairs = set.into_iter();
            pairs
                .map(|(field, value)| (field, self.hash(field, value.look())))
                .collect()
        };
        let crowd = |set: &Vec<(Field, u64)>| -> usize {
            let crowds = set.iter().map(|(_, hash)| self.groups.get(hash));
            crowds
                .map(|groups| groups.map_or(1, |groups| groups.len() + 1))
                .sum()
        };
        let least = sets.into_iter().map(hashed).min_by_key(crowd);
        let Some(least) = least else {
            return (self.residual.len() < rules.bound(RESIDUAL_GROUPS_MAX))
                .then_some(Home::Residual);
        };
        let is_full = |(_, hash): &(Field, u64)| {
            let groups = self.groups.get(hash);
            groups.is_some_and(|groups| groups.len() >= rules.bound(BUCKET_GROUPS_MAX))
        };
        (!least.iter().any(is_full)).then_some(Home::Buckets(least))
    }

    pub(crate) fn enter(&mut self, home: &Home, group: u32) {
        match home {
            Home::Undecidable => {}
            Home::Residual => self.residual.push(group),
            Home::Buckets(places) => {
                for (field, hash) in places {
                    self.groups.entry(*hash).or_default().push(group);
                    match self.fields.iter_mut().find(|(known, _)| known == field) {
                        Some((_, count)) => *count += 1,
                        None => self.fields.push((*field, 1)),
                    }
                }
            }
        }
    }

    pub(crate) fn leave(&mut self, home: &Home, group: u32) {
        match home {
            Home::Undecidable => {}
            Home::Residual => remove(&mut self.residual, group),
            Home::Buckets(places) => {
                for (field, hash) in places {
                    if let Some(groups) = self.groups.get_mut(hash) {
                        remove(groups, group);
                        if groups.is_empty() {
                            self.groups.remove(hash);
                        }
                    }
                    for (_, count) in self.fields.iter_mut().filter(|(known, _)| known == field) {
                        *count -= 1;
                    }
                }
                self.fields.retain(|(_, count)| *count > 0);
            }
        }
    }

    /// Appends the groups that the change may concern, some of them perhaps twice.
    pub(crate) fn concerned(&self, change: &Change, groups: &mut Vec<u32>, rules: &Rules) {
        if rules.hold(Rule::ResidualsAreAsked) {
            groups.extend(&self.residual);
        }
        let before = change.before.as_ref();
        let after = change.after.as_ref();
        let before = before.filter(|_| rules.hold(Rule::BucketsSeeBefore));
        let after = after.filter(|_| rules.hold(Rule::BucketsSeeAfter));
        for (field, _) in &self.fields {
            let value_of = |image: &'_ Image| self.hash(*field, field_of(change, image, *field));
            let was = before.map(value_of);
            let is = after.map(value_of).filter(|is| Some(*is) != was);
            for hash in was.into_iter().chain(is) {
                groups.extend(self.groups.get(&hash).into_iter().flatten());
            }
        }
    }

    fn hash(&self, field: Field, value: Seen<'_>) -> u64 {
        let mut state = self.hasher.build_hasher();
        field.hash(&mut state);
        match value {
            Seen::Null => state.write_u8(0),
            Seen::Bool(truth) => truth.hash(&mut state),
            Seen::Int(number) => number.hash(&mut state),
            Seen::Float(number) => number.to_bits().hash(&mut state),
            Seen::Text(text) => text.hash(&mut state),
            Seen::Instant(instant) => instant.hash(&mut state),
            // No equality is of a list.
            Seen::List(_) => state.write_u8(1),
        }
        state.finish()
    }
}

fn remove(groups: &mut Vec<u32>, group: u32) {
    if let Some(position) = groups.iter().position(|known| *known == group) {
        groups.swap_remove(position);
    }
}

/// What [`equalities`] would say if alternatives without one counted for nothing: wrong, and only
/// asked with the rule switched off.
fn loose_equalities(filter: &Filter) -> Vec<Vec<Equality<'_>>> {
    match filter {
        Filter::All(branches) => branches.iter().flat_map(loose_equalities).collect(),
        Filter::Any(branches) => {
            let all: Vec<_> = branches.iter().flat_map(equalities).flatten().collect();
            if all.is_empty() { vec![] } else { vec![all] }
        }
        Filter::Field(..) => equalities(filter),
    }
}
