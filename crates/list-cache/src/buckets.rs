//! Which groups a change may concern: by the equalities of their filters.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use model::{Change, Field, Image};
use query::predicate::{Look, Seen, field_of};
use query::{Equality, Filter, equalities};

use crate::rank::{FieldBits, Guards, Ranks};
use crate::rules::{Rule, Rules};
use crate::weight;

/// Most groups of one bucket, each of which is asked about a change of a row with its value.
pub(crate) const BUCKET_GROUPS_MAX: usize = 2_048;
/// Most groups without an equality, each of which is asked about every change.
pub(crate) const RESIDUAL_GROUPS_MAX: usize = 1_024;

/// Where a group stands in the index of its table.
pub(crate) enum Placement {
    /// In these buckets.
    Buckets(Vec<(Field, u64)>),
    /// Among those that are asked about every change.
    Residual,
    /// Among those that every change drops.
    Undecidable,
}

impl Placement {
    /// Bytes that it and the places it stands for take, about.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Placement::Buckets(places) => {
                places.len()
                    * (size_of::<(Field, u64)>()
                        + size_of::<Post>()
                        + weight::hashed::<(u64, Vec<Post>)>())
            }
            Placement::Residual => size_of::<Post>(),
            Placement::Undecidable => size_of::<u32>(),
        }
    }
}

/// A group where a change may find it.
#[derive(Clone, Copy)]
struct Post {
    group: u32,
    guards: Guards,
}

/// One change, as the index is asked about it.
pub(crate) struct Question<'a> {
    pub(crate) change: &'a Change,
    pub(crate) changed: FieldBits,
    pub(crate) before: &'a Ranks,
    pub(crate) after: &'a Ranks,
}

/// Hashes what is a hash already.
type AsItIs = BuildHasherDefault<Hashed>;

/// A hash, as it came.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The groups of one table by what they ask for.
#[derive(Default)]
pub(crate) struct Buckets {
    /// By the hash of field and value. Two values of one hash share a bucket, which costs a
    /// question too many and nothing else.
    posts: HashMap<u64, Vec<Post>, AsItIs>,
    /// The fields that buckets are of, each with the number of places taken in its buckets.
    fields: Vec<(Field, usize)>,
    residual: Vec<Post>,
    hasher: RandomState,
}

impl Buckets {
    /// Where a group with this filter may stand; `None` if there is no room for it.
    pub(crate) fn placement(&self, filter: &Filter, rules: &Rules) -> Option<Placement> {
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
            let crowds = set.iter().map(|(_, hash)| self.posts.get(hash));
            crowds
                .map(|groups| groups.map_or(1, |groups| groups.len() + 1))
                .sum()
        };
        let least = sets.into_iter().map(hashed).min_by_key(crowd);
        let Some(least) = least else {
            return (self.residual.len() < rules.bound(RESIDUAL_GROUPS_MAX))
                .then_some(Placement::Residual);
        };
        let is_full = |(_, hash): &(Field, u64)| {
            let groups = self.posts.get(hash);
            groups.is_some_and(|groups| groups.len() >= rules.bound(BUCKET_GROUPS_MAX))
        };
        (!least.iter().any(is_full)).then_some(Placement::Buckets(least))
    }

    /// Takes in a group with this filter.
    pub(crate) fn enter(&mut self, placement: &Placement, group: u32, filter: &Filter) {
        match placement {
            Placement::Undecidable => {}
            Placement::Residual => {
                let guards = Guards::of(filter, &[]);
                self.residual.push(Post { group, guards });
            }
            Placement::Buckets(places) => {
                // What all of its buckets are of needs no second look.
                let known: Vec<Field> = places.iter().map(|(field, _)| *field).collect();
                let guards = Guards::of(filter, if places.len() == 1 { &known } else { &[] });
                for (field, hash) in places {
                    let posts = self.posts.entry(*hash);
                    // Most values have one group.
                    let posts = posts.or_insert_with(|| Vec::with_capacity(1));
                    posts.push(Post { group, guards });
                    match self.fields.iter_mut().find(|(known, _)| known == field) {
                        Some((_, count)) => *count += 1,
                        None => self.fields.push((*field, 1)),
                    }
                }
            }
        }
    }

    pub(crate) fn leave(&mut self, placement: &Placement, group: u32) {
        match placement {
            Placement::Undecidable => {}
            Placement::Residual => remove(&mut self.residual, group),
            Placement::Buckets(places) => {
                for (field, hash) in places {
                    if let Some(posts) = self.posts.get_mut(hash) {
                        remove(posts, group);
                        if posts.is_empty() {
                            self.posts.remove(hash);
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
    pub(crate) fn concerned(&self, question: &Question<'_>, groups: &mut Vec<u32>, rules: &Rules) {
        let change = question.change;
        let concerns = |post: &&Post| {
            (post.guards.let_pass(question.before) && rules.hold(Rule::GuardsSeeBefore))
                || post.guards.let_pass(question.after)
        };
        let mut take = |posts: &[Post]| {
            groups.extend(posts.iter().filter(concerns).map(|post| post.group));
        };
        if rules.hold(Rule::ResidualsAreAsked) {
            take(&self.residual);
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
                if let Some(posts) = self.posts.get(&hash) {
                    take(posts);
                }
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

fn remove(posts: &mut Vec<Post>, group: u32) {
    if let Some(position) = posts.iter().position(|post| post.group == group) {
        posts.swap_remove(position);
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
