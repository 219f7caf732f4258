//! What a statement reads from: the rows of now, or those that some coordinates show.
//!
//! A piece that the table of now shows exactly is its **twin**, and stands in no index of the
//! versions. So a read at coordinates has two sources: the rows of now that are twins, and the
//! versions that are not.

use model::{Action, Coordinates, Field, RoleSet, Selection, Table, Timestamp, Value};

use crate::names;
use crate::visibility::Visibility;

use super::writer::{Clause, Writer};

#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    table: &'a Table,
    rows: Rows,
}

/// Which rows of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    Now,
    /// Those of now that are exact copies of their pieces, as far as the coordinates show them.
    Twins(Coordinates),
    /// The pieces without such a copy, as far as the coordinates show them.
    Versions(Coordinates),
}

/// Actions as stored beside a role, and as a permission string says them.
const ACTIONS: [Action; 4] = [Action::Read, Action::Create, Action::Update, Action::Delete];

impl<'a> Source<'a> {
    /// The rows of now.
    pub(super) fn now(table: &'a Table) -> Source<'a> {
        let rows = Rows::Now;
        Source { table, rows }
    }

    /// What the coordinates show, in disjoint sources; without coordinates, the rows of now.
    pub(super) fn all(table: &'a Table, at: Option<Coordinates>) -> Vec<Source<'a>> {
        match at {
            None => vec![Source::now(table)],
            Some(at) => [Rows::Twins(at), Rows::Versions(at)]
                .map(|rows| Source { table, rows })
                .to_vec(),
        }
    }

    pub(super) fn table(&self) -> &'a Table {
        self.table
    }

    /// Whether it is read from the versions, which have indexes of their own.
    pub(super) fn is_of_versions(&self) -> bool {
        matches!(self.rows, Rows::Versions(_))
    }

    /// Writes the columns of the result. Of versions, the permissions are those of today.
    pub(super) fn write_columns(&self, out: &mut Writer, selection: &Selection) {
        out.push("t.seq, t.id, t.created, t.updated, ");
        match self.rows {
            Rows::Now | Rows::Twins(_) => out.push("t.perms"),
            Rows::Versions(_) => self.write_permissions(out),
        }
        if let (Rows::Now, Selection::All) = (self.rows, selection) {
            out.push(", CASE WHEN t.body_epoch = ");
            out.push_number(self.table.schema_epoch);
            out.push(" THEN t.body END");
        } else {
            self.write_user_columns(out, selection);
        }
    }

    fn write_user_columns(&self, out: &mut Writer, selection: &Selection) {
        let mut write = |position: usize| {
            out.push(", t.");
            out.push(&names::column(self.table.columns[position].number));
        };
        match selection {
            Selection::All => (0..self.table.columns.len()).for_each(&mut write),
            Selection::Some { columns, .. } => columns.iter().copied().for_each(&mut write),
        }
    }

    /// The permissions of the row of now, or, of a row that is not there now, its last grants.
    fn write_permissions(&self, out: &mut Writer) {
        out.push("coalesce((SELECT n.perms FROM ");
        out.push(&names::now(self.table.number));
        out.push(" AS n WHERE n.seq = t.seq), (SELECT ");
        let entry = "a.word || '(\"' || g.role || '\")'";
        out.push(&out.dialect.texts_to_array(entry, "g.role, a.bit"));
        out.push(" FROM ");
        out.push(&names::grants(self.table.number));
        out.push(" AS g JOIN (");
        let mut joint = "SELECT ";
        for action in ACTIONS {
            out.push(joint);
            out.push_number(action.bit());
            out.push(" AS bit, '");
            out.push(action.as_str());
            out.push("' AS word");
            joint = " UNION ALL SELECT ";
        }
        out.push(") AS a ON (g.actions & a.bit) <> 0 WHERE g.seq = t.seq AND g.st = ");
        out.push_number(Timestamp::END.0);
        out.push("))");
    }

    /// Writes the table read, which is to be walked along `$sequence` whatever indexes there are.
    pub(super) fn write_walked(&self, out: &mut Writer) {
        self.write_from(out, None);
        if out.dialect.names_index() {
            out.push(" NOT INDEXED");
        }
    }

    /// Writes the table read, with the index it is told to use.
    pub(super) fn write_from(&self, out: &mut Writer, index: Option<&str>) {
        out.push(&if self.is_of_versions() {
            names::versions(self.table.number)
        } else {
            names::now(self.table.number)
        });
        out.push(" AS t");
        if let Some(index) = index.filter(|_| out.dialect.names_index()) {
            out.push(" INDEXED BY ");
            out.push(index);
        }
    }

    /// Writes which rows the coordinates show; of the rows of now, all. A twin is neither cut nor
    /// gone.
    pub(super) fn write_period(&self, out: &mut Writer, clause: &mut Clause) {
        let (Rows::Twins(at) | Rows::Versions(at)) = self.rows else {
            return;
        };
        let system = out.parameter(Value::Int(at.system.0));
        let valid = out.parameter(Value::Instant(at.valid));
        clause.open(out);
        // The number stands in the text, because the indexes of versions hold nothing else.
        out.push(if self.is_of_versions() {
            "t.twin = 0 AND t.sf <= "
        } else {
            "t.twin = 1 AND t.sf <= "
        });
        out.push_parameter(system);
        if self.is_of_versions() {
            out.push(" AND t.st > ");
            out.push_parameter(system);
        }
        out.push(" AND t.vf <= ");
        out.push_parameter(valid);
        if self.is_of_versions() {
            out.push(" AND CASE WHEN t.cut_tt <= ");
            out.push_parameter(system);
            out.push(" THEN t.cut_vt ELSE t.vt END > ");
        } else {
            out.push(" AND t.vt > ");
        }
        out.push_parameter(valid);
    }

    /// Writes that the row has this id.
    pub(super) fn write_id(&self, out: &mut Writer, id: &str) {
        out.push_comparable(self.table, Field::Id);
        out.push(" = ");
        out.bind(Value::Text(id.to_owned()));
    }

    /// Writes FROM and WHERE of the row with this id, if it is visible. At most one row.
    pub(super) fn write_one(&self, out: &mut Writer, id: &str, visibility: &Visibility) {
        let index = self
            .is_of_versions()
            .then(|| names::system_index(self.table.number));
        self.write_from(out, index.as_deref());
        let mut clause = Clause::of_where();
        clause.open(out);
        self.write_id(out, id);
        self.write_period(out, &mut clause);
        self.write_visible(out, &mut clause, visibility);
        if self.is_of_versions() {
            // The coordinates show one version at most; the newest ones are asked first.
            out.push(" ORDER BY t.sf DESC LIMIT 1");
        }
    }

    /// Writes that the row itself grants `read`, if it must. Grants are judged as they are
    /// today, whatever the coordinates.
    pub(super) fn write_visible(
        &self,
        out: &mut Writer,
        clause: &mut Clause,
        visibility: &Visibility,
    ) {
        let Visibility::Granted(roles) = visibility else {
            return;
        };
        clause.open(out);
        out.push("EXISTS (SELECT 1 FROM ");
        out.push(&names::grants(self.table.number));
        out.push(" AS g");
        if out.dialect.names_index() {
            out.push(" INDEXED BY ");
            out.push(&names::grants_index(self.table.number));
        }
        out.push(" WHERE g.seq = t.seq AND g.st = ");
        out.push_number(Timestamp::END.0);
        out.push(" AND (g.actions & ");
        out.push_number(Action::Read.bit());
        out.push(") <> 0 AND ");
        write_one_of(out, roles);
        out.push(")");
    }
}

/// Writes that the grant is for one of the roles. Not as IN, for which SQLite makes a table of
/// its own in each run of the statement: that took longer than the whole of a point read.
fn write_one_of(out: &mut Writer, roles: &RoleSet) {
    if roles.iter().len() == 0 {
        return out.push("FALSE");
    }
    let mut joint = "(g.role = ";
    for role in roles.iter() {
        out.push(joint);
        out.bind(Value::Text(role.to_string()));
        joint = " OR g.role = ";
    }
    out.push(")");
    out.push(out.dialect.unplanned());
}
