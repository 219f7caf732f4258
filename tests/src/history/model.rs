//! Rows and the lists over them, computed plainly.

use std::collections::BTreeMap;

/// A row's writer, and its place among that writer's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// From 0.
    pub writer: usize,
    /// From 0.
    pub slot: usize,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Column `g`.
    pub group: i64,
    /// Column `n`.
    pub number: i64,
    /// Column `v`: no two writes of a writer set the same.
    pub version: i64,
    /// `$sequence`
    pub sequence: i64,
    /// Whether a guest may read it where rows have permissions.
    pub is_open: bool,
}

/// The rows of one writer, by slot.
pub type Rows = BTreeMap<usize, Row>;

/// Which rows match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All.
    All,
    /// Those whose `g` is one of these.
    Groups(Vec<i64>),
    /// Those whose `n` is greater.
    Above(i64),
    /// Those whose `g` is the first, or whose `n` is less than the second.
    GroupOrBelow(i64, i64),
    /// One row.
    Only(Name),
}

/// How they are sorted; `$sequence` decides between equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By `$sequence` alone.
    Sequence,
    /// By `n`, the least first.
    Ascending,
    /// By `n`, the greatest first.
    Descending,
}

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which rows match.
    pub filter: Filter,
    /// How they are sorted.
    pub order: Order,
    /// Most rows of the answer.
    pub limit: usize,
    /// Rows before its first.
    pub offset: usize,
    /// Only rows after this one, which is always there.
    pub after: Option<Name>,
    /// Whether all matches are counted.
    pub total: bool,
}

/// What an answer showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Rows in order, each with its version.
    pub rows: Vec<(Name, i64)>,
    /// Where it was asked for.
    pub total: Option<u64>,
}

impl Name {
    /// Its `$id`.
    pub fn id(self) -> String {
        format!("w{}-s{}", self.writer, self.slot)
    }

    /// The row of this `$id`.
    pub fn parse(id: &str) -> Option<Name> {
        let (writer, slot) = id.strip_prefix('w')?.split_once("-s")?;
        Some(Name {
            writer: writer.parse().ok()?,
            slot: slot.parse().ok()?,
        })
    }
}

impl Question {
    /// The right answer over these rows, of which hidden ones are not seen.
    pub fn answer(&self, rows: &[(Name, &Row)], sees_all: bool) -> Shown {
        let key = |row: &Row| match self.order {
            Order::Sequence => (0, row.sequence),
            Order::Ascending => (row.number, row.sequence),
            Order::Descending => (-row.number, row.sequence),
        };
        let mut found: Vec<(Name, &Row)> = rows
            .iter()
            .filter(|(name, row)| (sees_all || row.is_open) && self.filter.matches(*name, row))
            .copied()
            .collect();
        let total = found.len() as u64;
        if let Some(after) = self.after {
            let start = rows.iter().find(|(name, _)| *name == after);
            let start = start.map(|(_, row)| key(row));
            found.retain(|(_, row)| Some(key(row)) > start);
        }
        found.sort_by_key(|(_, row)| key(row));
        let page = found.iter().skip(self.offset).take(self.limit);
        Shown {
            rows: page.map(|(name, row)| (*name, row.version)).collect(),
            total: self.total.then_some(total),
        }
    }
}

impl Filter {
    fn matches(&self, name: Name, row: &Row) -> bool {
        match self {
            Filter::All => true,
            Filter::Groups(groups) => groups.contains(&row.group),
            Filter::Above(number) => row.number > *number,
            Filter::GroupOrBelow(group, number) => row.group == *group || row.number < *number,
            Filter::Only(only) => name == *only,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(slot: usize) -> Name {
        Name { writer: 1, slot }
    }

    fn row(group: i64, number: i64, sequence: i64) -> Row {
        Row {
            group,
            number,
            version: 10 * sequence,
            sequence,
            is_open: sequence != 3,
        }
    }

    fn check(question: &Question, sees_all: bool, wanted: &[usize], total: Option<u64>) {
        let rows = [row(0, 5, 4), row(1, 5, 2), row(0, 9, 3), row(1, 1, 1)];
        let rows: Vec<(Name, &Row)> = rows
            .iter()
            .enumerate()
            .map(|(at, r)| (name(at), r))
            .collect();
        let shown = question.answer(&rows, sees_all);
        let slots: Vec<usize> = shown.rows.iter().map(|(name, _)| name.slot).collect();
        assert_eq!(
            (slots.as_slice(), shown.total),
            (wanted, total),
            "{question:?}"
        );
    }

    #[test]
    fn lists_are_filtered_sorted_and_cut() {
        let all = Question {
            filter: Filter::All,
            order: Order::Descending,
            limit: 9,
            offset: 0,
            after: None,
            total: true,
        };
        // Rows 0 and 1 have the same number; row 1 was there before.
        check(&all, true, &[2, 1, 0, 3], Some(4));
        check(&all, false, &[1, 0, 3], Some(3));
        let with = |change: &dyn Fn(&mut Question)| {
            let mut question = all.clone();
            change(&mut question);
            question
        };
        let ascending = with(&|q| q.order = Order::Ascending);
        check(&ascending, true, &[3, 1, 0, 2], Some(4));
        let sequence = with(&|q| (q.order, q.total) = (Order::Sequence, false));
        check(&sequence, true, &[3, 1, 2, 0], None);
        let page = with(&|q| (q.limit, q.offset) = (2, 1));
        check(&page, true, &[1, 0], Some(4));
        // A cursor that the caller may not see is still where it is.
        let after = with(&|q| q.after = Some(name(2)));
        check(&after, false, &[1, 0, 3], Some(3));
        let after = with(&|q| q.after = Some(name(1)));
        check(&after, true, &[0, 3], Some(4));
        for (filter, wanted) in [
            (Filter::Groups(vec![1, 7]), &[1, 3][..]),
            (Filter::Above(5), &[2]),
            (Filter::GroupOrBelow(0, 5), &[2, 0, 3]),
            (Filter::Only(name(0)), &[0]),
        ] {
            let question = with(&|q| q.filter = filter.clone());
            check(&question, true, wanted, Some(wanted.len() as u64));
        }
    }

    #[test]
    fn a_name_is_read_from_its_id() {
        let name = Name {
            writer: 12,
            slot: 3,
        };
        assert_eq!(Name::parse(&name.id()), Some(name));
        assert_eq!([Name::parse("w1"), Name::parse("x-s1")], [None, None]);
    }
}
