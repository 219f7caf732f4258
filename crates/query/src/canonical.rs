//! The canonical form of a filter, on which the names of queries and their shapes are built.

use model::Field;

use crate::query::{Filter, Test};

/// A filter whose branches stand in ascending order of their keys, each once.
pub(crate) enum Canonical<'f, K> {
    Condition(Field, &'f Test),
    /// All must hold. Filters of the same kind below it have become part of it.
    All(Vec<K>),
    /// Any one will do; the same of filters below it.
    Any(Vec<K>),
    /// One branch was left, which stands for the whole.
    Single(K),
}

/// The canonical form of `filter`; `key` is asked for each branch.
pub(crate) fn canonical<K: Ord>(
    filter: &Filter,
    mut key: impl FnMut(&Filter) -> K,
) -> Canonical<'_, K> {
    let is_all = match filter {
        Filter::Field(field, test) => return Canonical::Condition(*field, test),
        Filter::All(_) => true,
        Filter::Any(_) => false,
    };
    let mut keys = Vec::new();
    visit(filter, is_all, &mut |branch| keys.push(key(branch)));
    keys.sort_unstable();
    keys.dedup();
    if keys.len() == 1 {
        return Canonical::Single(keys.remove(0));
    }
    if is_all {
        Canonical::All(keys)
    } else {
        Canonical::Any(keys)
    }
}

fn visit(filter: &Filter, is_all: bool, visitor: &mut impl FnMut(&Filter)) {
    let branches = match filter {
        Filter::All(branches) if is_all => branches,
        Filter::Any(branches) if !is_all => branches,
        branch => return visitor(branch),
    };
    for branch in branches {
        visit(branch, is_all, visitor);
    }
}
