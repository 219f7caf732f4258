//! Relationships: a pair of columns in two tables, one of which holds the links.
//!
//! A link is the id of a row, and an ordinary value of the column that holds it: it has history,
//! permissions and indexes as any other value has. The other column of the pair holds nothing; what
//! it shows is found through the first.

use crate::id::{ColumnKey, ColumnNumber, TableId};

/// One of the two columns of a relationship.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// The table at the other end, in the same database; perhaps the same one.
    pub related: TableId,
    /// The column at the other end.
    pub partner: ColumnNumber,
    /// What the column at the other end is called.
    pub partner_key: ColumnKey,
    /// How many rows may be linked to how many, as seen from [`Side::Parent`].
    pub kind: RelationKind,
    /// Whether the column of [`Side::Child`] is one that users see.
    pub two_way: bool,
    /// What becomes of related rows when a row is deleted.
    pub on_delete: OnDelete,
    /// Which of the two columns this is.
    pub side: Side,
    /// Whether it is one of the past, which has ended since: its links are found in the versions
    /// of rows alone.
    pub has_ended: bool,
}

/// How many rows may be linked to how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// One to one.
    OneToOne,
    /// Many rows to the same one.
    ManyToOne,
    /// Many to many.
    ManyToMany,
    /// One row to many.
    OneToMany,
}

/// What becomes of related rows when a row is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDelete {
    /// They are deleted with it.
    Cascade,
    /// It cannot be deleted while there are any.
    Restrict,
    /// They lose the link.
    SetNull,
}

/// The end of a relationship.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The table on which it was created.
    Parent,
    /// The table it leads to.
    Child,
}

macro_rules! words {
    ($($kind:ident { $($name:ident $word:literal),* })*) => {$(
        impl $kind {
            /// Every word.
            pub const WORDS: &[&str] = &[$($word),*];

            /// The word on the wire. Written to disk, too: never to be changed.
            pub fn as_str(self) -> &'static str {
                match self { $($kind::$name => $word),* }
            }

            /// What is called `word`.
            pub fn parse(word: &str) -> Option<$kind> {
                match word {
                    $($word => Some($kind::$name),)*
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    RelationKind {
        OneToOne "oneToOne", ManyToOne "manyToOne", ManyToMany "manyToMany", OneToMany "oneToMany"
    }
    OnDelete { Cascade "cascade", Restrict "restrict", SetNull "setNull" }
    Side { Parent "parent", Child "child" }
}

impl Relation {
    /// Whether this column holds the links; otherwise the one at the other end does.
    pub fn holds_links(&self) -> bool {
        match self.side {
            Side::Parent => self.kind != RelationKind::OneToMany,
            Side::Child => self.kind == RelationKind::OneToMany,
        }
    }

    /// Whether one row may have several related ones through this column.
    pub fn is_list(&self) -> bool {
        match (self.kind, self.side) {
            (RelationKind::ManyToMany, _)
            | (RelationKind::OneToMany, Side::Parent)
            | (RelationKind::ManyToOne, Side::Child) => true,
            (RelationKind::OneToOne, _)
            | (RelationKind::ManyToOne, Side::Parent)
            | (RelationKind::OneToMany, Side::Child) => false,
        }
    }

    /// Whether no user sees this column: it is there because every relationship has two.
    pub fn is_hidden(&self) -> bool {
        self.side == Side::Child && !self.two_way
    }

    /// What the deletion of a row of this column's table does to the rows related through it:
    /// the row that others belong to decides over them, never they over it.
    pub fn deletion(&self) -> OnDelete {
        let decides = match (self.kind, self.side) {
            (RelationKind::ManyToOne, side) => side == Side::Child,
            (_, Side::Parent) => true,
            // Of a pair that knows each other neither is left alone, but either may go.
            (RelationKind::OneToOne, Side::Child) => {
                self.two_way && self.on_delete == OnDelete::Cascade
            }
            (RelationKind::OneToMany | RelationKind::ManyToMany, Side::Child) => false,
        };
        if decides {
            self.on_delete
        } else {
            OnDelete::SetNull
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(kind: RelationKind, side: Side, two_way: bool) -> Relation {
        Relation {
            related: TableId::new("t").unwrap(),
            partner: ColumnNumber(1),
            partner_key: ColumnKey::new("k").unwrap(),
            kind,
            two_way,
            on_delete: OnDelete::Cascade,
            side,
            has_ended: false,
        }
    }

    const KINDS: [RelationKind; 4] = [
        RelationKind::OneToOne,
        RelationKind::ManyToOne,
        RelationKind::ManyToMany,
        RelationKind::OneToMany,
    ];

    #[test]
    fn exactly_one_end_holds_the_links() {
        for kind in KINDS {
            let ends = [Side::Parent, Side::Child].map(|side| relation(kind, side, true));
            assert_ne!(ends[0].holds_links(), ends[1].holds_links(), "{kind:?}");
            assert_eq!(RelationKind::parse(kind.as_str()), Some(kind));
        }
    }

    #[test]
    fn a_holder_that_shows_several_is_of_many_to_many() {
        for kind in KINDS {
            for side in [Side::Parent, Side::Child] {
                let end = relation(kind, side, true);
                let is_both = end.holds_links() && end.is_list();
                let is_parent_of_many = kind == RelationKind::ManyToMany && side == Side::Parent;
                assert_eq!(is_both, is_parent_of_many, "{kind:?} {side:?}");
            }
        }
    }

    #[test]
    fn parent_of_many_decides_over_its_children() {
        use OnDelete::{Cascade, SetNull};
        let deletion = |kind, side, two_way| relation(kind, side, two_way).deletion();
        for (kind, side, two_way, expected) in [
            (RelationKind::ManyToOne, Side::Parent, true, SetNull),
            (RelationKind::ManyToOne, Side::Child, false, Cascade),
            (RelationKind::OneToMany, Side::Parent, false, Cascade),
            (RelationKind::OneToMany, Side::Child, true, SetNull),
            (RelationKind::ManyToMany, Side::Child, true, SetNull),
            (RelationKind::OneToOne, Side::Parent, false, Cascade),
            (RelationKind::OneToOne, Side::Child, false, SetNull),
            (RelationKind::OneToOne, Side::Child, true, Cascade),
        ] {
            assert_eq!(deletion(kind, side, two_way), expected, "{kind:?} {side:?}");
        }
    }
}
