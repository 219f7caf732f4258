//! Changes of all rows that match a filter: whether each took the rows that its mark says.

use std::collections::BTreeMap;

/// A change of every row that no change before it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The mark of its answer.
    pub mark: i64,
    /// How many rows its answer counts.
    pub total: usize,
    /// What it writes into the rows that it takes; `None` when it deletes them.
    pub number: Option<i64>,
}

/// Everything that happened to one table, which was empty before.
#[derive(Clone, Debug, Default)]
pub struct Taking {
    /// The mark at which each row was created.
    pub created: BTreeMap<String, i64>,
    /// The changes, in whatever order.
    pub changes: Vec<Change>,
    /// What stands in the rows that are left: the number of the change that took them, or 0.
    pub left: BTreeMap<String, i64>,
}

/// What a change did that its mark does not say, or the other way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistaken {
    /// It counted other rows than were there at its mark and taken by none before.
    Counted {
        /// Its mark.
        mark: i64,
        /// What its answer said.
        total: usize,
        /// What there was.
        due: usize,
    },
    /// A row is not as the first change after its creation left it.
    Row {
        /// Its id.
        id: String,
        /// The mark at which it was created.
        created: i64,
        /// What is to stand in it; `None` when it is to be gone.
        due: Option<i64>,
        /// What does.
        found: Option<i64>,
    },
}

/// Judges every change and every row.
pub fn judge_changes(taking: &Taking) -> Vec<Mistaken> {
    let mut changes = taking.changes.clone();
    // One that found nothing has the mark of the last commit it saw, which may be another change.
    changes.sort_by_key(|change| (change.mark, change.total == 0));
    let mut due = vec![0; changes.len()];
    let mut mistaken = Vec::new();
    for (id, created) in &taking.created {
        let taker = changes.partition_point(|change| change.mark < *created);
        let wanted = match changes.get(taker) {
            None => Some(0),
            Some(change) => {
                due[taker] += 1;
                change.number
            }
        };
        let found = taking.left.get(id).copied();
        if found != wanted {
            mistaken.push(Mistaken::Row {
                id: id.clone(),
                created: *created,
                due: wanted,
                found,
            });
        }
    }
    for (change, due) in changes.iter().zip(due) {
        let Change { mark, total, .. } = *change;
        if total != due {
            mistaken.push(Mistaken::Counted { mark, total, due });
        }
    }
    mistaken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(left: &[(&str, i64)], totals: [usize; 2]) -> Taking {
        let named = |rows: &[(&str, i64)]| {
            let rows = rows.iter().map(|(id, number)| ((*id).to_owned(), *number));
            rows.collect()
        };
        let change = |mark, total, number| Change {
            mark,
            total,
            number,
        };
        Taking {
            created: named(&[("a", 10), ("b", 19), ("c", 21), ("d", 31)]),
            changes: vec![change(30, totals[1], None), change(20, totals[0], Some(1))],
            left: named(left),
        }
    }

    #[test]
    fn each_row_is_taken_once_by_the_first_change_after_it() {
        let right = taking(&[("a", 1), ("b", 1), ("d", 0)], [2, 1]);
        assert_eq!(judge_changes(&right), []);
        let row = |id: &str, created, due, found| Mistaken::Row {
            id: id.to_owned(),
            created,
            due,
            found,
        };
        let counted = |mark, total, due| Mistaken::Counted { mark, total, due };
        // One passed over, and taken by the next, which deletes.
        let passed_over = taking(&[("a", 1), ("d", 0)], [1, 2]);
        assert_eq!(
            judge_changes(&passed_over),
            [
                row("b", 19, Some(1), None),
                counted(20, 1, 2),
                counted(30, 2, 1)
            ]
        );
        // One that came after it.
        let too_many = taking(&[("a", 1), ("b", 1), ("c", 1), ("d", 0)], [3, 0]);
        assert_eq!(
            judge_changes(&too_many),
            [
                row("c", 21, None, Some(1)),
                counted(20, 3, 2),
                counted(30, 0, 1)
            ]
        );
        // One that found nothing has seen the change whose mark it has.
        let mut beside = taking(&[("a", 1), ("b", 1), ("d", 0)], [2, 1]);
        let (mark, total, number) = (20, 0, Some(2));
        beside.changes.insert(
            0,
            Change {
                mark,
                total,
                number,
            },
        );
        assert_eq!(judge_changes(&beside), []);
        // One that nothing took may have been changed all the same.
        let late = taking(&[("a", 1), ("b", 1), ("d", 1)], [2, 1]);
        assert_eq!(judge_changes(&late), [row("d", 31, Some(0), Some(1))]);
    }
}
