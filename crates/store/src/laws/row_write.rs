//! Operations on one row: what each asks of the row of now, and what it writes.
//!
//! Every operation here is valid from the batch's mark until further notice. In the everyday case
//! of the layout the row is there until further notice, too: the piece that is believed now ends
//! at the mark, the new one begins there, and the table of now takes the new values. A row that
//! ends by itself, begins at the very mark, or comes back later goes the longer way of
//! `version_write.rs`.
//!
//! A change of permissions alone takes a mark and makes no piece, since grants live on system
//! time only. It moves `$updatedAt` of the row of now. The piece keeps its own: it says when the
//! values last changed, and a read at past coordinates must not change its answer. From then on
//! the row is not the piece's twin.

use model::history::VersionNumber;
use model::{
    Content, Field, Image, Patch, Period, Permission, Row, RowId, Table, Timestamp, Value,
};

use super::damaged::Damaged;
use super::halt::Step;
use super::ledger::{
    CurrentRow, GrantsChange, NowWrite, RowChange, RowToShow, VersionEnding, VersionToAppend,
};
use super::permissions::{grants, permissions_text};
use super::run::{RowStore, Run};
use crate::error::corrupt;
use crate::refusal::Refusal;
use crate::row_op::{Guard, InsertedBody, RowAct, RowOp, Stamps};
use crate::written::WrittenRow;

/// A row that an operation is about.
pub(crate) struct Target<'a> {
    pub(crate) table: &'a Table,
    pub(crate) id: &'a RowId,
}

impl<'a> Target<'a> {
    pub(crate) fn new(table: &'a Table, id: &'a RowId) -> Target<'a> {
        Target { table, id }
    }
}

/// A row of now, as an operation finds it.
pub(crate) struct Current {
    pub(crate) seq: i64,
    /// The piece it shows.
    version: VersionNumber,
    /// Whether its piece was made by this very batch, so that no reader has ever seen it.
    pub(crate) is_own: bool,
    /// The mark from which its values are known.
    pub(crate) known_from: i64,
    /// What its piece is valid over.
    pub(crate) valid: Period,
    /// Whether its piece has no end, and begins where an everyday change can cut or drop it.
    is_everyday: bool,
    /// Encrypted values of it that cannot be opened, which are null in the image.
    damaged: Damaged,
    pub(crate) image: Image,
}

impl Current {
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.is_any()
    }

    /// # Errors
    /// What is wrong with an encrypted value of it.
    fn whole(self) -> Step<Current> {
        self.damaged.need_none()?;
        Ok(self)
    }

    /// The row to be changed so and shown then: each value of it that cannot be opened is replaced.
    ///
    /// # Errors
    /// What is wrong with an encrypted value that stays.
    pub(crate) fn mended_by(self, patch: &Patch) -> Step<Current> {
        self.damaged.left_by(patch)?.need_none()?;
        Ok(self)
    }
}

impl<D: RowStore> Run<'_, D> {
    /// Runs one operation; the row as it became, `None` after a delete.
    pub(crate) fn row_op(&mut self, op: &RowOp) -> Step<WrittenRow> {
        let target = Target::new(&op.table, &op.id);
        match &op.act {
            RowAct::Insert {
                values,
                permissions,
                stamps,
                // No grant of a row that is there makes room for another of its id.
                guard: _,
            } => {
                let body = op.body.as_ref();
                self.insert(&target, values, permissions, *stamps, body)
                    .map(Some)
            }
            RowAct::Update {
                patch,
                permissions,
                stamps,
                guard,
            } => {
                let row = self
                    .current_found(&target)?
                    .ok_or(Refusal::RowNotFound(op.id.clone()))?;
                self.judge(&target, &row, guard)?;
                self.update(
                    &target,
                    row.mended_by(patch)?,
                    patch,
                    permissions.as_deref(),
                    *stamps,
                )
                .map(Some)
            }
            RowAct::Put { .. } => self.put(&target, &op.act).map(Some),
            RowAct::Replace { .. } | RowAct::Resize { .. } | RowAct::Erase | RowAct::Assert(_) => {
                let done = self.timed_op(op)?;
                self.catch_up()?;
                Ok(done.row)
            }
            RowAct::Delete { guard } => {
                let row = match self.current_to_go(&target)? {
                    Some(row) => row,
                    None if self.is_scheduled(&target)? => {
                        return self.delete_scheduled(&target, op, guard).map(|()| None);
                    }
                    None => return Err(Refusal::RowNotFound(op.id.clone()).into()),
                };
                self.judge(&target, &row, guard)?;
                if op.table.relations().next().is_some() {
                    self.delete_with_ties(&op.table, &op.id)?;
                } else {
                    self.delete(&target, row)?;
                }
                Ok(None)
            }
        }
    }

    /// Deletes a row that is not there yet.
    fn delete_scheduled(&mut self, target: &Target<'_>, op: &RowOp, guard: &Guard) -> Step<()> {
        if op.table.relations().next().is_none() {
            let guard = guard.clone();
            return self.detour(target, RowAct::Delete { guard }).map(drop);
        }
        if let Some(seq) = self.known_seq(target)? {
            if !self.permits_seq(target, seq, guard)? {
                return Err(Refusal::RowForbidden(target.id.clone()).into());
            }
            self.need_unmoved(target, seq)?;
        }
        self.delete_with_ties(&op.table, &op.id)
    }

    fn put(&mut self, target: &Target<'_>, act: &RowAct) -> Step<Row> {
        let RowAct::Put {
            patch,
            insert,
            permissions,
            insert_permissions,
            stamps,
            guard,
        } = act
        else {
            unreachable!("the caller matched a put");
        };
        match self.current_found(target)? {
            Some(row) => {
                self.judge(target, &row, guard)?;
                let row = row.mended_by(patch)?;
                if row.is_everyday {
                    return self.update(target, row, patch, permissions.as_deref(), *stamps);
                }
                // What it leaves open later is to be filled, too.
                let row = self.detour(target, act.clone())?;
                let row = row.ok_or_else(|| corrupt("a row that was put is not there"))?;
                Ok(self::row(target.id, row.seq, &row.image, None))
            }
            None if self.is_scheduled(target)? => {
                let row = self.detour(target, act.clone())?;
                let row = row.ok_or_else(|| corrupt("a row that was put is not there"))?;
                let row = row.whole()?;
                Ok(self::row(target.id, row.seq, &row.image, None))
            }
            None => match insert {
                Ok(values) => {
                    self.need_absent_unmoved(target)?;
                    let now = self.mark.timestamp();
                    let values = patch
                        .operate(target.table, values.clone(), now)
                        .map_err(Refusal::Invalid)?;
                    self.insert(target, &values, insert_permissions, *stamps, None)
                }
                Err(refusal) => Err(Refusal::clone(refusal).into()),
            },
        }
    }

    /// Judged here, inside the transaction: what was read earlier might have changed since.
    pub(crate) fn judge_age(&self, target: &Target<'_>, row: &Current) -> Step<()> {
        let updated = self.updated_before(target, row)?;
        match self.unchanged_since {
            Some(since) if updated > since.cut_to_ms() => {
                Err(Refusal::RowMoved(target.id.clone()).into())
            }
            _ => Ok(()),
        }
    }

    /// Judged here, inside the transaction: grants read earlier might have been taken away.
    fn judge(&self, target: &Target<'_>, row: &Current, guard: &Guard) -> Step<()> {
        if self.permits(target, row, guard)? {
            self.judge_age(target, row)
        } else {
            Err(Refusal::RowForbidden(target.id.clone()).into())
        }
    }

    pub(crate) fn permits(&self, target: &Target<'_>, row: &Current, guard: &Guard) -> Step<bool> {
        self.permits_seq(target, row.seq, guard)
    }

    pub(crate) fn permits_seq(&self, target: &Target<'_>, seq: i64, guard: &Guard) -> Step<bool> {
        Ok(match guard {
            Guard::Open => true,
            Guard::Closed => false,
            Guard::Granted { roles, actions } => {
                let mut granted = 0;
                self.rows()
                    .open_grants(target.table, seq, &mut |role, bits| {
                        if roles.iter().any(|held| held.as_str() == role) {
                            granted |= bits;
                        }
                    })?;
                actions.iter().all(|action| granted & action.bit() != 0)
            }
        })
    }

    pub(crate) fn current(&self, target: &Target<'_>) -> Step<Option<Current>> {
        let row = self.current_found(target)?;
        row.map(Current::whole).transpose()
    }

    /// The row of now to be taken away, whatever became of its encrypted values: those that cannot
    /// be opened are null, and no image of the batch is kept.
    pub(crate) fn current_to_go(&mut self, target: &Target<'_>) -> Step<Option<Current>> {
        let row = self.current_found(target)?;
        if row.as_ref().is_some_and(Current::is_damaged) {
            self.touched.drop_images();
        }
        Ok(row)
    }

    /// The row of now, to be asked about what is not encrypted.
    pub(crate) fn current_found(&self, target: &Target<'_>) -> Step<Option<Current>> {
        let found = self.rows().current(target.table, target.id.as_str())?;
        let Some(CurrentRow {
            seq,
            version,
            mut image,
            damaged,
        }) = found
        else {
            return Ok(None);
        };
        let values = &mut image.values;
        self.parked.complete(target.table.number, seq, values);
        let is_own = image.system_from == self.mark;
        let begins_now = image.valid.from() == self.mark.timestamp();
        Ok(Some(Current {
            seq,
            version,
            is_own,
            known_from: image.system_from.0,
            valid: image.valid,
            is_everyday: image.valid.end() == Timestamp::END && is_own == begins_now,
            damaged,
            image,
        }))
    }

    /// What an everyday write is valid over.
    fn everyday_period(&self) -> Period {
        Period::spanning(self.mark.timestamp(), Timestamp::END).expect("a mark is before the end")
    }

    fn insert(
        &mut self,
        target: &Target<'_>,
        values: &[Value],
        permissions: &[Permission],
        stamps: Stamps,
        encoded: Option<&InsertedBody>,
    ) -> Step<Row> {
        let seq = self.new_seq(target)?;
        let now = self.mark.timestamp();
        let image = Image {
            created: stamps.created.unwrap_or(now).cut_to_ms(),
            updated: stamps.updated.unwrap_or(now).cut_to_ms(),
            valid: self.everyday_period(),
            system_from: self.mark,
            permissions: permissions_text(permissions).into(),
            values: values.to_vec(),
        };
        let whole = Damaged::default();
        let version = self.append_piece(target, seq, (&image, &whole))?;
        let body = match encoded {
            Some(InsertedBody(body)) => body.clone(),
            None => self.body(target.table, &image.values),
        };
        self.write_now(
            target,
            RowToShow {
                seq,
                version,
                image: &image,
                values: &image.values,
                stored: None,
                left: &whole,
                body: body.as_deref(),
                how: NowWrite::New,
            },
        )?;
        self.add_grants(target, seq, permissions)?;
        let row = row(target.id, seq, &image, body);
        self.touched
            .record(target.table, target.id, seq, None, Some(image));
        Ok(row)
    }

    /// The `$sequence` of a row that is about to be inserted: its own if the id was ever known,
    /// together with the end of the grants it had then; otherwise the next free one.
    fn new_seq(&self, target: &Target<'_>) -> Step<i64> {
        let identity = self.rows().identity(target.table, target.id.as_str())?;
        if identity.is_there || self.is_scheduled(target)? {
            return Err(Refusal::RowExists(target.id.clone()).into());
        }
        match identity.known {
            Some(seq) => {
                self.close_grants(target, seq)?;
                self.end_life(target, seq)?;
                Ok(seq)
            }
            None => Ok(identity.highest + 1),
        }
    }

    /// Encrypted values that cannot be opened and are not replaced stay as they are sealed; the
    /// row that is returned lacks them.
    pub(crate) fn update(
        &mut self,
        target: &Target<'_>,
        row: Current,
        patch: &Patch,
        permissions: Option<&[Permission]>,
        stamps: Stamps,
    ) -> Step<Row> {
        if !row.is_everyday {
            return self.update_elsewhere(target, patch, permissions, stamps);
        }
        let left = row.damaged.left_by(patch)?;
        let before = &row.image;
        let permissions = permissions
            .map(|list| (list, permissions_text(list)))
            .filter(|(_, text)| **text != *before.permissions);
        let values = patch
            .apply(target.table, &before.values, self.mark.timestamp())
            .map_err(Refusal::Invalid)?;
        let makes_piece = values != before.values
            || left != row.damaged
            || stamps.differ_from(before.created, before.updated);
        let (valid, system_from) = if makes_piece {
            (self.everyday_period(), self.mark)
        } else {
            (before.valid, before.system_from)
        };
        let after = Image {
            created: stamps.created.unwrap_or(before.created).cut_to_ms(),
            updated: stamps.updated.unwrap_or(self.mark.timestamp()).cut_to_ms(),
            valid,
            system_from,
            permissions: match &permissions {
                Some((_, text)) => text.as_str().into(),
                None => before.permissions.clone(),
            },
            values,
        };
        let body = if makes_piece {
            self.replace_piece(target, &row, (&after, &left))?
        } else if permissions.is_some() {
            self.show_permissions(target, row.seq, &after)?;
            let parted = RowChange::PartVersion(row.version);
            self.rows().change(target.table, parted)?;
            None
        } else {
            return Ok(self::row(target.id, row.seq, before, None));
        };
        if let Some((list, _)) = permissions {
            self.close_grants(target, row.seq)?;
            self.add_grants(target, row.seq, list)?;
        }
        let written = self::row(target.id, row.seq, &after, body);
        if row.is_damaged() {
            self.touched.drop_images();
        }
        self.touched.record(
            target.table,
            target.id,
            row.seq,
            Some(row.image),
            Some(after),
        );
        self.need_room()?;
        Ok(written)
    }

    /// Ends the piece believed now, and shows the next one in its place.
    fn replace_piece(
        &mut self,
        target: &Target<'_>,
        row: &Current,
        (after, left): (&Image, &Damaged),
    ) -> Step<Option<Box<[u8]>>> {
        self.end_piece(target, row)?;
        let version = self.append_piece(target, row.seq, (after, left))?;
        let body = self.body(target.table, &after.values);
        let is_known = !row.is_damaged() && !self.parked.holds(target.table.number, row.seq);
        self.write_now(
            target,
            RowToShow {
                seq: row.seq,
                version,
                image: after,
                values: &after.values,
                stored: is_known.then_some(&*row.image.values),
                left,
                body: body.as_deref(),
                how: NowWrite::Again,
            },
        )?;
        Ok(body)
    }

    /// The same, of a row of which more is known than that it is there until further notice.
    fn update_elsewhere(
        &mut self,
        target: &Target<'_>,
        patch: &Patch,
        permissions: Option<&[Permission]>,
        stamps: Stamps,
    ) -> Step<Row> {
        let act = RowAct::Update {
            patch: patch.clone(),
            permissions: permissions.map(<[Permission]>::to_vec),
            stamps,
            guard: Guard::Open,
        };
        let row = self.detour(target, act)?;
        let row = row.ok_or_else(|| corrupt("a row that was updated is not there"))?;
        Ok(self::row(target.id, row.seq, &row.image, None))
    }

    /// The last set of grants stays open: it goes on judging reads at past coordinates.
    pub(crate) fn delete(&mut self, target: &Target<'_>, row: Current) -> Step<()> {
        if !row.is_everyday {
            let guard = Guard::Open;
            return self.detour(target, RowAct::Delete { guard }).map(drop);
        }
        self.end_piece(target, &row)?;
        self.withdraw_now(target, row.seq)?;
        if self.touched.was_there(target.table, target.id) == Some(false) {
            // The batch itself had inserted the row.
            self.take_grants_back(target, row.seq)?;
        }
        self.touched
            .record(target.table, target.id, row.seq, Some(row.image), None);
        self.need_room()?;
        Ok(())
    }

    /// Shows the row no more.
    pub(crate) fn withdraw_now(&mut self, target: &Target<'_>, seq: i64) -> Step<()> {
        let withdrawn = RowChange::Withdraw { seq };
        self.rows().change(target.table, withdrawn)?;
        self.parked.forget(target.table.number, seq);
        Ok(())
    }

    /// Ends the piece believed now. One made by this batch was never known and is not kept.
    fn end_piece(&self, target: &Target<'_>, row: &Current) -> Step<()> {
        let ending = if row.is_own {
            VersionEnding::Never
        } else {
            VersionEnding::Now
        };
        if self.end(target, row.version, ending)? {
            return Ok(());
        }
        let (id, number) = (target.id, target.table.number.0);
        let what = format!("row `{id}` of table {number} has no piece, but is valid now");
        Err(corrupt(what).into())
    }

    /// Ends a version; whether it was there to be ended so.
    pub(crate) fn end(
        &self,
        target: &Target<'_>,
        version: VersionNumber,
        ending: VersionEnding,
    ) -> Step<bool> {
        let table = target.table;
        let ended = self.rows().end(table, version, self.mark, ending)?;
        if let Some(bytes) = ended {
            self.state.growth.removed(table.number, version.0, bytes);
        }
        Ok(ended.is_some())
    }

    /// Writes a version.
    pub(crate) fn append(
        &self,
        target: &Target<'_>,
        version: &VersionToAppend<'_>,
    ) -> Step<VersionNumber> {
        let (table, id) = (target.table, target.id.as_str());
        let appended = self.rows().append(table, id, version)?;
        let (number, bytes) = (appended.number, appended.bytes);
        self.state.growth.written(table.number, number.0, bytes);
        Ok(number)
    }

    fn append_piece(
        &self,
        target: &Target<'_>,
        seq: i64,
        (image, left): (&Image, &Damaged),
    ) -> Step<VersionNumber> {
        let version = VersionToAppend {
            seq,
            valid: self.everyday_period(),
            mark: self.mark,
            origin: self.mark,
            created: image.created,
            updated: image.updated,
            values: &image.values,
            left,
            is_twin: true,
        };
        self.append(target, &version)
    }

    /// Writes the row of now; for the time being without the values in unique indexes that another
    /// row has.
    fn write_now(&mut self, target: &Target<'_>, row: RowToShow<'_>) -> Step<()> {
        let (table, id) = (target.table, target.id.as_str());
        let (number, seq) = (table.number, row.seq);
        if self.rows().show(table, id, &row)? {
            self.parked.forget(number, seq);
            return Ok(());
        }
        let valid = Period::new(self.mark.timestamp(), None).map_err(Refusal::Invalid)?;
        let whole = (row.image, valid);
        let (parked, values) = self.parked(target, seq, whole)?;
        let shown = RowToShow {
            values: &values,
            stored: None,
            ..row
        };
        if !self.rows().show(table, id, &shown)? {
            let refusal = self.unique_refusal(target, seq, whole)?;
            return Err(refusal.into());
        }
        self.part_twin(target)?;
        self.parked.park(number, seq, parked);
        Ok(())
    }

    pub(crate) fn add_grants(
        &self,
        target: &Target<'_>,
        seq: i64,
        permissions: &[Permission],
    ) -> Step<()> {
        let mark = self.mark;
        for (role, actions) in grants(permissions) {
            let grant = RowChange::Grant {
                seq,
                role,
                actions,
                mark,
            };
            self.rows().change(target.table, grant)?;
        }
        Ok(())
    }

    /// Says in the row of now what it grants.
    pub(crate) fn show_permissions(
        &self,
        target: &Target<'_>,
        seq: i64,
        after: &Image,
    ) -> Step<()> {
        let shown = RowChange::Permissions {
            seq,
            permissions: &after.permissions,
            updated: after.updated,
        };
        Ok(self.rows().change(target.table, shown)?)
    }

    /// Changes all grants of a row at the mark.
    pub(crate) fn change_grants(
        &self,
        target: &Target<'_>,
        seq: i64,
        change: GrantsChange,
    ) -> Step<()> {
        let mark = self.mark;
        let change = RowChange::Grants { seq, mark, change };
        Ok(self.rows().change(target.table, change)?)
    }

    /// The batch leaves nothing of the row: the grants it gave were never known, and those of an
    /// earlier life are the last ones again.
    pub(crate) fn take_grants_back(&self, target: &Target<'_>, seq: i64) -> Step<()> {
        self.change_grants(target, seq, GrantsChange::Drop)?;
        self.change_grants(target, seq, GrantsChange::Reopen)?;
        self.change_grants(target, seq, GrantsChange::ResumeLife)
    }

    /// Ends the open grants. Those this batch gave were never known and are not kept.
    fn close_grants(&self, target: &Target<'_>, seq: i64) -> Step<()> {
        // They judge what the row was before, too.
        self.past_changed.add(target.table.number);
        if self.touched.was_there(target.table, target.id).is_some() {
            self.change_grants(target, seq, GrantsChange::Drop)?;
        }
        self.change_grants(target, seq, GrantsChange::Close)
    }

    /// What was known of the row so far goes on being judged by the grants that it had: a caller
    /// that creates it again is not asked whom they concern.
    pub(crate) fn end_life(&self, target: &Target<'_>, seq: i64) -> Step<()> {
        self.change_grants(target, seq, GrantsChange::EndLife)
    }
}

pub(crate) fn field_value(target: &Target<'_>, seq: i64, image: &Image, field: Field) -> Value {
    match field {
        Field::Id => Value::Text(target.id.to_string()),
        Field::Sequence => Value::Int(seq),
        Field::Created => Value::Instant(image.created),
        Field::Updated => Value::Instant(image.updated),
        Field::Span(end) => Value::Instant(image.span_end(end)),
        Field::Column(position) => image.values[position].clone(),
    }
}

/// The row as the reply shows it.
pub(crate) fn row(id: &RowId, seq: i64, image: &Image, body: Option<Box<[u8]>>) -> Row {
    Row {
        seq,
        id: id.clone(),
        created: image.created,
        updated: image.updated,
        permissions: image.permissions.clone(),
        content: match body {
            Some(body) => Content::Body(body),
            None => Content::Values(image.values.clone()),
        },
        span: None,
    }
}
