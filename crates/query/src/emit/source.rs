//! What a statement reads from: the rows of now, or the versions that some coordinates show.

use model::{Action, Coordinates, Field, RoleSet, Selection, Table, Timestamp, Value};

use crate::names;
use crate::visibility::Visibility;

use super::writer::{Clause, Writer};

pub(super) struct Source<'a> {
    table: &'a Table,
    at: Option<Coordinates>,
}

/// Actions as stored beside a role, and as a permission string says them.
const ACTIONS: [Action; 4] = [Action::Read, Action::Create, Action::Update, Action::Delete];

impl<'a> Source<'a> {
    pub(super) fn new(table: &'a Table, at: Option<Coordinates>) -> Source<'a> {
        Source { table, at }
    }

    /// Writes the columns of the result. Of versions, the permissions are those of today.
    pub(super) fn write_columns(&self, out: &mut Writer, selection: &Selection) {
        out.push("t.seq, t.id, t.created, t.updated, ");
        match self.at {
            None => out.push("t.perms"),
            Some(_) => self.write_permissions(out),
        }
        if let (None, Selection::All) = (self.at, selection) {
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

    /// Writes the table read, with the index it is told to use.
    pub(super) fn write_from(&self, out: &mut Writer, index: Option<&str>) {
        out.push(&match self.at {
            None => names::now(self.table.number),
            Some(_) => names::versions(self.table.number),
        });
        out.push(" AS t");
        if let Some(index) = index.filter(|_| out.dialect.names_index()) {
            out.push(" INDEXED BY ");
            out.push(index);
        }
    }

    /// Writes which versions the coordinates show; of the rows of now, all.
    pub(super) fn write_period(&self, out: &mut Writer, clause: &mut Clause) {
        let Some(at) = self.at else {
            return;
        };
        let system = out.parameter(Value::Int(at.system.0));
        let valid = out.parameter(Value::Instant(at.valid));
        clause.open(out);
        out.push("t.sf <= ");
        out.push_parameter(system);
        out.push(" AND t.st > ");
        out.push_parameter(system);
        out.push(" AND t.vf <= ");
        out.push_parameter(valid);
        out.push(" AND CASE WHEN t.cut_tt <= ");
        out.push_parameter(system);
        out.push(" THEN t.cut_vt ELSE t.vt END > ");
        out.push_parameter(valid);
    }

    /// Writes FROM and WHERE of the row with this id.
    pub(super) fn write_one(&self, out: &mut Writer, id: &str) {
        self.write_one_visible(out, id, &Visibility::Everything);
    }

    /// Writes that the row has this id.
    pub(super) fn write_id(&self, out: &mut Writer, id: &str) {
        out.push_comparable(self.table, Field::Id);
        out.push(" = ");
        out.bind(Value::Text(id.to_owned()));
    }

    /// Writes FROM and WHERE of the row with this id, if it is visible.
    pub(super) fn write_one_visible(&self, out: &mut Writer, id: &str, visibility: &Visibility) {
        let index = self.at.map(|_| names::system_index(self.table.number));
        self.write_from(out, index.as_deref());
        let mut clause = Clause::of_where();
        clause.open(out);
        self.write_id(out, id);
        self.write_period(out, &mut clause);
        self.write_visible(out, &mut clause, visibility);
        if self.at.is_some() {
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
