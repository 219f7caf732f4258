//! What a statement reads from: the rows of now, or those that some coordinates show.
//!
//! A piece that the table of now shows exactly is its **twin**, and stands in no index of the
//! versions. So a read at coordinates has two sources: the rows of now that are twins, and the
//! versions that are not. A read of every version has a third one: what is left of versions that
//! were cut stands in the same row as what was there before.

use model::{
    Action, Coordinates, Field, Mark, Period, RoleSet, Selection, SpanEnd, Table, Timestamp, Value,
};

use crate::field;
use crate::index_choice::is_of_one_row;
use crate::names;
use crate::query::{Frame, Query};
use crate::visibility::Visibility;

use super::writer::{Clause, Parameter, SqlWriter};

#[derive(Clone, Copy)]
pub(super) struct SelectSource<'a> {
    table: &'a Table,
    rows: RowSource,
    shows_span: bool,
    /// The mark whose grants are shown; `None` shows those of today.
    grants_at: Option<Mark>,
    /// The period in which versions began or ceased to be known, if only such ones are read.
    changed: Option<Period>,
}

/// Which rows of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowSource {
    Now,
    /// Those of now that are exact copies of their pieces, as far as the coordinates show them.
    Twins(Coordinates),
    /// The pieces without such a copy, as far as the coordinates show them.
    Versions(Coordinates, Believed),
    /// Those of now of which nothing is due at the instant.
    Settled(Timestamp),
    /// The pieces that will be shown of those of which something is.
    Due(Timestamp),
    /// The twins known at the mark that share an instant with the period.
    TwinPieces(Period, Mark),
    /// The same of pieces without a twin, as they were believed at the mark.
    Pieces(Period, Mark),
    /// Versions as they were written.
    Written(Period, Mark),
    /// What was left of them when they were cut.
    Left(Period, Mark),
}

/// Which of the pieces that were believed at a mark, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Believed {
    All,
    /// Those that are so now, cut perhaps: they stand in an index by when they begin to be valid.
    Still,
    /// Those that are gone since.
    NoMore,
}

/// Stands for the grants that are known now.
const LATEST: Mark = Mark(i64::MAX);

/// Actions as stored beside a role, and as a permission string says them.
const ACTIONS: [Action; 4] = [Action::Read, Action::Create, Action::Update, Action::Delete];

impl<'a> SelectSource<'a> {
    /// The rows of now.
    pub(super) fn now(table: &'a Table) -> SelectSource<'a> {
        SelectSource {
            table,
            rows: RowSource::Now,
            shows_span: false,
            grants_at: None,
            changed: None,
        }
    }

    /// What a query reads, in disjoint sources.
    pub(super) fn of(query: &'a Query) -> Vec<SelectSource<'a>> {
        let system = query.at.map_or(Mark(i64::MAX - 1), |at| at.system);
        let grants_at = query.then.as_ref().map(|then| then.mark);
        let changed = match query.frame {
            Frame::Changes(_, system) => Some(system),
            _ => None,
        };
        let rows = match query.frame {
            Frame::One if is_of_one_row(query) => return SelectSource::of_cursor(query),
            Frame::One => {
                return SelectSource::for_query(SelectSource::all(&query.table, query.at), query);
            }
            Frame::Due(now) => vec![RowSource::Settled(now), RowSource::Due(now)],
            Frame::Pieces(period) => {
                vec![
                    RowSource::TwinPieces(period, system),
                    RowSource::Pieces(period, system),
                ]
            }
            Frame::Versions(period) | Frame::Changes(period, _) => vec![
                RowSource::TwinPieces(period, system),
                RowSource::Written(period, system),
                RowSource::Left(period, system),
            ],
        };
        let source = |rows| SelectSource {
            table: &query.table,
            rows,
            shows_span: query.shows_span,
            grants_at,
            changed,
        };
        rows.into_iter().map(source).collect()
    }

    /// Where the query finds one row by its id, as it looks at the table.
    pub(super) fn of_cursor(query: &'a Query) -> Vec<SelectSource<'a>> {
        SelectSource::for_query(SelectSource::of_row(&query.table, query.at), query)
    }

    fn for_query(mut sources: Vec<SelectSource<'a>>, query: &Query) -> Vec<SelectSource<'a>> {
        for source in &mut sources {
            source.shows_span = query.shows_span;
            source.grants_at = query.then.as_ref().map(|then| then.mark);
        }
        sources
    }

    /// What the coordinates show, in disjoint sources; without coordinates, the rows of now.
    fn all(table: &'a Table, at: Option<Coordinates>) -> Vec<SelectSource<'a>> {
        let rows = match at {
            None => vec![RowSource::Now],
            Some(at) => vec![RowSource::Twins(at), RowSource::Versions(at, Believed::All)],
        };
        SelectSource::each(table, &rows)
    }

    /// The same for the one row that is asked for, so that its version is found without looking at
    /// the others. What was valid at the mark, or is to be, was mostly learned last before it. Of
    /// an earlier time more has been learned since, so that is found by when the piece begins to
    /// be valid, unless it was corrected later.
    pub(super) fn of_row(table: &'a Table, at: Option<Coordinates>) -> Vec<SelectSource<'a>> {
        match at {
            Some(at) if at.valid < at.system.timestamp() => {
                let versions = [Believed::Still, Believed::NoMore];
                let [still, no_more] = versions.map(|believed| RowSource::Versions(at, believed));
                SelectSource::each(table, &[RowSource::Twins(at), still, no_more])
            }
            at => SelectSource::all(table, at),
        }
    }

    fn each(table: &'a Table, rows: &[RowSource]) -> Vec<SelectSource<'a>> {
        let source = |rows: &RowSource| SelectSource {
            table,
            rows: *rows,
            shows_span: false,
            grants_at: None,
            changed: None,
        };
        rows.iter().map(source).collect()
    }

    /// The same, with where each row stands in time.
    pub(super) fn with_span(self, shows_span: bool) -> SelectSource<'a> {
        SelectSource { shows_span, ..self }
    }

    pub(super) fn table(&self) -> &'a Table {
        self.table
    }

    /// Whether it is read from the versions, which have indexes of their own.
    pub(super) fn is_of_versions(&self) -> bool {
        matches!(
            self.rows,
            RowSource::Versions(..)
                | RowSource::Due(_)
                | RowSource::Pieces(..)
                | RowSource::Written(..)
                | RowSource::Left(..)
        )
    }

    /// Whether an index may be named for it. What is due is found by the schedule.
    pub(super) fn takes_hint(&self) -> bool {
        !matches!(self.rows, RowSource::Due(_))
    }

    /// Writes the columns of the result. Of versions, the permissions are those of today.
    pub(super) fn write_columns(&self, out: &mut SqlWriter, selection: &Selection) {
        out.push("t.seq, t.id, t.created, t.updated, ");
        match (self.rows, self.grants_at) {
            (_, Some(mark)) => self.write_grants(out, mark),
            (
                RowSource::Now
                | RowSource::Settled(_)
                | RowSource::Twins(_)
                | RowSource::TwinPieces(..),
                None,
            ) => {
                out.push("t.perms");
            }
            _ => self.write_permissions(out),
        }
        if let (RowSource::Now, Selection::All, false) = (self.rows, selection, self.shows_span) {
            out.push(", CASE WHEN t.body_epoch = ");
            out.push_number(self.table.schema_epoch);
            out.push(" THEN t.body END");
        } else {
            self.write_user_columns(out, selection);
        }
    }

    /// Writes where each row stands in time, if that is shown: valid from and to, known from and
    /// to, origin.
    pub(super) fn write_span(&self, out: &mut SqlWriter) {
        if !self.shows_span {
            return;
        }
        out.push(", t.vf, ");
        self.write_end(out);
        out.push(", ");
        self.write_system_from(out);
        out.push(", ");
        self.write_system_to(out);
        out.push(", t.origin");
    }

    /// Writes a field of the row.
    pub(super) fn write_field(&self, out: &mut SqlWriter, field: Field) {
        match field {
            Field::Id => out.push("t.id"),
            Field::Sequence => out.push("t.seq"),
            Field::Created => out.push("t.created"),
            Field::Updated => out.push("t.updated"),
            Field::Span(SpanEnd::ValidFrom) => out.push("t.vf"),
            Field::Span(SpanEnd::ValidTo) => self.write_end(out),
            Field::Span(SpanEnd::SystemFrom) => self.write_system_from(out),
            Field::Column(position) => {
                out.push("t.");
                out.push(&names::column(self.table.columns[position].number));
            }
        }
    }

    /// Writes a field so that it compares by bytes.
    pub(super) fn write_comparable(&self, out: &mut SqlWriter, field: Field) {
        self.write_field(out, field);
        let collation = out.dialect.collation(field::storage(self.table, field));
        out.push(collation);
    }

    /// Writes to when the row was believed to be valid.
    fn write_end(&self, out: &mut SqlWriter) {
        match self.rows {
            RowSource::Versions(Coordinates { system, .. }, _) | RowSource::Pieces(_, system) => {
                out.push("CASE WHEN t.cut_tt <= ");
                out.bind(Value::Int(system.0));
                out.push(" THEN t.cut_vt ELSE t.vt END");
            }
            RowSource::Due(_) => {
                out.push("CASE WHEN t.cut_tt < ");
                out.push_number(Timestamp::END.0);
                out.push(" THEN t.cut_vt ELSE t.vt END");
            }
            RowSource::Left(..) => out.push("t.cut_vt"),
            _ => out.push("t.vt"),
        }
    }

    /// Writes from when it was known as exactly this.
    pub(super) fn write_system_from(&self, out: &mut SqlWriter) {
        match self.rows {
            RowSource::Versions(Coordinates { system, .. }, _) | RowSource::Pieces(_, system) => {
                out.push("CASE WHEN t.cut_tt <= ");
                out.bind(Value::Int(system.0));
                out.push(" THEN t.cut_tt ELSE t.sf END");
            }
            RowSource::Due(_) => {
                out.push("CASE WHEN t.cut_tt < ");
                out.push_number(Timestamp::END.0);
                out.push(" THEN t.cut_tt ELSE t.sf END");
            }
            RowSource::Left(..) => out.push("t.cut_tt"),
            _ => out.push("t.sf"),
        }
    }

    /// Writes until when, as far as that was over; the end of time otherwise. Only what shows
    /// every version says it: elsewhere it would leak the mark's own future.
    fn write_system_to(&self, out: &mut SqlWriter) {
        let Some((column, system)) = self.known_until() else {
            return out.push_number(Timestamp::END.0);
        };
        out.push("CASE WHEN ");
        out.push(column);
        out.push(" <= ");
        out.bind(Value::Int(system.0));
        out.push(" THEN ");
        out.push(column);
        out.push(" ELSE ");
        out.push_number(Timestamp::END.0);
        out.push(" END");
    }

    /// What says until when the version was known, and the mark at which it is asked; `None` where
    /// nothing that is read has ceased to be known.
    fn known_until(&self) -> Option<(&'static str, Mark)> {
        match self.rows {
            RowSource::Written(_, system) => Some((
                "CASE WHEN t.cut_tt < t.st THEN t.cut_tt ELSE t.st END",
                system,
            )),
            RowSource::Left(_, system) => Some(("t.st", system)),
            _ => None,
        }
    }

    /// Writes that the version began or ceased to be known in the period.
    fn write_changed(&self, out: &mut SqlWriter, clause: &mut Clause, period: Period) {
        clause.open(out);
        let from = out.parameter(Value::Instant(period.from()));
        let to = period.to().map(|to| out.parameter(Value::Instant(to)));
        let write_within = |out: &mut SqlWriter, column: &str| {
            out.push(column);
            out.push(" >= ");
            out.push_parameter(from);
            if let Some(to) = to {
                out.push(" AND ");
                out.push(column);
                out.push(" < ");
                out.push_parameter(to);
            }
        };
        let begun = match self.rows {
            RowSource::Left(..) => "t.cut_tt",
            _ => "t.sf",
        };
        let Some((ended, system)) = self.known_until() else {
            return write_within(out, begun);
        };
        out.push("(");
        write_within(out, begun);
        out.push(" OR ");
        write_within(out, ended);
        // What ceased after the mark is open as known then.
        out.push(" AND ");
        out.push(ended);
        out.push(" <= ");
        out.bind(Value::Int(system.0));
        out.push(")");
        out.push(out.dialect.unplanned());
    }

    fn write_user_columns(&self, out: &mut SqlWriter, selection: &Selection) {
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
    fn write_permissions(&self, out: &mut SqlWriter) {
        out.push("coalesce((SELECT n.perms FROM ");
        out.push(&names::now(self.table.number));
        out.push(" AS n WHERE n.seq = t.seq), ");
        self.write_grants(out, LATEST);
        out.push(")");
    }

    /// The grants of the row that were known at the mark, as a list.
    fn write_grants(&self, out: &mut SqlWriter, mark: Mark) {
        out.push("(SELECT ");
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
        out.push(") AS a ON (g.actions & a.bit) <> 0 WHERE g.seq = t.seq");
        write_known_grant(out, mark);
        out.push(")");
    }

    /// Writes the table read, which is to be walked along `$sequence` whatever indexes there are.
    pub(super) fn write_walked(&self, out: &mut SqlWriter) {
        self.write_from(out, None);
        if out.dialect.names_index() {
            out.push(" NOT INDEXED");
        }
    }

    /// Writes the table read, with the index it must use.
    pub(super) fn write_from(&self, out: &mut SqlWriter, index: Option<&str>) {
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
    pub(super) fn write_period(&self, out: &mut SqlWriter, clause: &mut Clause) {
        let at = match self.rows {
            RowSource::Now => return,
            RowSource::Twins(at) | RowSource::Versions(at, _) => at,
            RowSource::Settled(now) | RowSource::Due(now) => {
                return self.write_due(out, clause, now);
            }
            RowSource::TwinPieces(period, system)
            | RowSource::Pieces(period, system)
            | RowSource::Written(period, system)
            | RowSource::Left(period, system) => {
                self.write_within(out, clause, period, system);
                if let Some(changed) = self.changed {
                    self.write_changed(out, clause, changed);
                }
                return;
            }
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
        if let RowSource::Versions(_, believed) = self.rows {
            write_believed(out, believed, system);
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

    /// Writes that nothing of the row is due, or for a piece that it will be shown of one of which
    /// something is.
    fn write_due(&self, out: &mut SqlWriter, clause: &mut Clause, now: Timestamp) {
        let schedule = names::schedule(self.table.number);
        clause.open(out);
        if let RowSource::Settled(_) = self.rows {
            out.push("NOT EXISTS (SELECT 1 FROM ");
            out.push(&schedule);
            out.push(" AS s WHERE s.id = t.id AND s.at <= ");
            out.bind(Value::Instant(now));
            return out.push(")");
        }
        out.push("t.twin = 0 AND t.st = ");
        out.push_number(Timestamp::END.0);
        out.push(" AND t.vf <= ");
        out.bind(Value::Instant(now));
        out.push(" AND ");
        self.write_end(out);
        out.push(" > ");
        out.bind(Value::Instant(now));
        out.push(" AND t.id IN (SELECT s.id FROM ");
        out.push(&schedule);
        out.push(" AS s WHERE s.at <= ");
        out.bind(Value::Instant(now));
        out.push(")");
    }

    /// Writes that the rectangle was known at the mark, and shares an instant with the period.
    fn write_within(&self, out: &mut SqlWriter, clause: &mut Clause, period: Period, system: Mark) {
        clause.open(out);
        out.push(if self.is_of_versions() {
            "t.twin = 0 AND "
        } else {
            "t.twin = 1 AND "
        });
        match self.rows {
            RowSource::Left(..) => {
                out.push("t.cut_tt < ");
                out.push_number(Timestamp::END.0);
                out.push(" AND t.cut_tt <= ");
            }
            _ => out.push("t.sf <= "),
        }
        out.bind(Value::Int(system.0));
        if let RowSource::Pieces(..) = self.rows {
            out.push(" AND t.st > ");
            out.bind(Value::Int(system.0));
        }
        let line = self.table.options.kept_from;
        if let (RowSource::Written(..) | RowSource::Left(..), true) =
            (self.rows, line > Timestamp::BOT)
        {
            // Some of those may be gone already.
            out.push(" AND t.st > ");
            out.bind(Value::Instant(line));
            if let RowSource::Written(..) = self.rows {
                out.push(" AND t.cut_tt > ");
                out.bind(Value::Instant(line));
            }
        }
        if period.from() > Timestamp::BOT {
            out.push(" AND ");
            self.write_end(out);
            out.push(" > ");
            out.bind(Value::Instant(period.from()));
        }
        if period.to().is_some() {
            out.push(" AND t.vf < ");
            out.bind(Value::Instant(period.end()));
        }
    }

    /// Writes that the row has this id.
    pub(super) fn write_id(&self, out: &mut SqlWriter, id: &str) {
        self.write_comparable(out, Field::Id);
        out.push(" = ");
        out.bind(Value::Text(id.to_owned()));
    }

    /// The index on the versions that leads to one row, the version last that is likely to be it.
    pub(super) fn row_index(&self) -> Option<String> {
        match self.rows {
            RowSource::Versions(_, Believed::Still) => Some(names::known_index(self.table.number)),
            RowSource::Versions(..) => Some(names::system_index(self.table.number)),
            _ => None,
        }
    }

    /// Writes that the first version found of one row is all there is of it: the coordinates show
    /// one at most. The ones likely to be it are asked first.
    pub(super) fn write_first(&self, out: &mut SqlWriter) {
        match self.rows {
            RowSource::Versions(_, Believed::Still) => out.push(" ORDER BY t.vf DESC LIMIT 1"),
            RowSource::Versions(..) => out.push(" ORDER BY t.sf DESC LIMIT 1"),
            _ => {}
        }
    }

    /// Writes FROM and WHERE of the row with this id, if it is visible. At most one row.
    pub(super) fn write_one(&self, out: &mut SqlWriter, id: &str, visibility: &Visibility) {
        self.write_from(out, self.row_index().as_deref());
        let mut clause = Clause::of_where();
        clause.open(out);
        self.write_id(out, id);
        self.write_period(out, &mut clause);
        self.write_visible(out, &mut clause, visibility);
    }

    /// Writes that the row is there now, and has not been created again since the version was
    /// asserted.
    fn write_there_now(&self, out: &mut SqlWriter, clause: &mut Clause) {
        if !self.is_of_versions() {
            return;
        }
        clause.open(out);
        out.push("EXISTS (SELECT 1 FROM ");
        out.push(&names::now(self.table.number));
        out.push(" AS n WHERE n.seq = t.seq) AND NOT EXISTS (SELECT 1 FROM ");
        out.push(&names::grants(self.table.number));
        out.push(" AS l WHERE l.seq = t.seq AND l.st > t.origin AND l.st < ");
        out.push_number(Timestamp::END.0);
        out.push(" AND l.role = '");
        out.push(names::LIFE);
        out.push("')");
    }

    /// Writes that the query may see the row: judged by the grants of today, and where it says so
    /// also by those of an earlier mark.
    pub(super) fn write_seen(&self, out: &mut SqlWriter, clause: &mut Clause, query: &Query) {
        self.write_visible(out, clause, &query.visibility);
        if let Some(then) = &query.then {
            self.write_granted(out, clause, &then.visibility, then.mark);
            if then.is_there_now {
                self.write_there_now(out, clause);
            }
        }
    }

    /// Writes that the row itself grants `read`, if it must. Grants are judged as they are
    /// today, whatever the coordinates.
    pub(super) fn write_visible(
        &self,
        out: &mut SqlWriter,
        clause: &mut Clause,
        visibility: &Visibility,
    ) {
        self.write_granted(out, clause, visibility, LATEST);
    }

    /// Writes that the row granted it by what was known at the mark.
    fn write_granted(
        &self,
        out: &mut SqlWriter,
        clause: &mut Clause,
        visibility: &Visibility,
        mark: Mark,
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
        out.push(" WHERE g.seq = t.seq");
        if mark == LATEST {
            self.write_life(out);
        } else {
            write_known_grant(out, mark);
        }
        out.push(" AND (g.actions & ");
        out.push_number(Action::Read.bit());
        out.push(") <> 0 AND ");
        write_one_of(out, roles);
        out.push(")");
    }

    /// Writes that the grant judges the version: it is one of today, unless the row has been
    /// created again since the version was asserted; then it is one of the last before that.
    fn write_life(&self, out: &mut SqlWriter) {
        if !self.is_of_versions() {
            return write_known_grant(out, LATEST);
        }
        out.push(" AND g.st = coalesce((SELECT min(l.st) FROM ");
        out.push(&names::grants(self.table.number));
        out.push(" AS l WHERE l.seq = t.seq AND l.st > t.origin AND l.role = '");
        out.push(names::LIFE);
        out.push("'), ");
        out.push_number(Timestamp::END.0);
        out.push(")");
    }
}

/// Writes that a piece was believed at the mark, and what became of it.
fn write_believed(out: &mut SqlWriter, believed: Believed, system: Parameter) {
    if believed == Believed::Still {
        out.push(" AND t.st = ");
        return out.push_number(Timestamp::END.0);
    }
    out.push(" AND t.st > ");
    out.push_parameter(system);
    if believed == Believed::NoMore {
        out.push(" AND t.st < ");
        out.push_number(Timestamp::END.0);
    }
}

/// Writes that the grant was known at the mark; of the latest ones, that they are so still.
fn write_known_grant(out: &mut SqlWriter, mark: Mark) {
    if mark == LATEST {
        out.push(" AND g.st = ");
        return out.push_number(Timestamp::END.0);
    }
    let mark = out.parameter(Value::Int(mark.0));
    out.push(" AND g.sf <= ");
    out.push_parameter(mark);
    out.push(" AND g.st > ");
    out.push_parameter(mark);
}

/// Writes that the grant is for one of the roles. Not as IN, for which SQLite makes a table of
/// its own in each run of the statement: that took longer than the whole of a point read.
fn write_one_of(out: &mut SqlWriter, roles: &RoleSet) {
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
