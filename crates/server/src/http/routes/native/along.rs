//! Reads along an axis of time: pieces and versions, pairs of them, and aggregates as steps.
//!
//! A page of pieces is found by going along the ids and valid time from where the one before it
//! ended, so it costs about what it shows. What is ordered by when it was known, or adds up rows,
//! is found whole and cut.

use engine::{Frame, Pieces, PiecesRead, ReadError};
use model::history::Version;
use model::{Allen, Coordinates, Json, Mark, Period, PeriodPredicate, RowId, Timestamp, Value};

use super::answer::{self, Histories, Key, SeenRow};
use super::json::period;
use super::page::PagePosition;
use super::read::{TimedReading, number};
use super::vocabulary::{RANGE, RIGHT_EQUAL, SHOWN_ROW};
use crate::http::wire::error::ApiError;
use crate::http::wire::{WrittenJson, written, written_array};

/// Most pieces that are read at once for a page that does not show all of them.
const STEP_MAX: usize = 1_000;

/// So many pieces that finding the other pieces of one costs, whatever is found.
const LOOKUP_COST: usize = 10;
/// After so many pieces others of the thread have their turn.
const PIECES_A_TURN: usize = 100;

/// Which pieces are looked at.
struct PieceSelection {
    table: String,
    /// Of this row alone.
    id: Option<RowId>,
    /// With these values.
    equal: Vec<(String, Json)>,
    /// That share an instant with this.
    range: Period,
    shows_damaged: bool,
}

impl PieceSelection {
    fn new(
        table: String,
        id: Option<RowId>,
        equal: Vec<(String, Json)>,
        range: Period,
    ) -> PieceSelection {
        PieceSelection {
            table,
            id,
            equal,
            range,
            shows_damaged: false,
        }
    }
}

/// Goes along the pieces of a table, or of one row, by ids and from when they are valid.
struct PieceWalk<'a> {
    selection: &'a PieceSelection,
    system: Mark,
    /// Where it goes on.
    place: WalkPlace,
    /// How many pieces the next step reads at most.
    step: usize,
    /// Whether it ended because the request may look at no more pieces.
    is_cut: bool,
}

enum WalkPlace {
    Start,
    /// In this row from this instant on, then behind it.
    Within(RowId, Timestamp),
    Behind(RowId),
    End,
}

impl<'a> PieceWalk<'a> {
    fn new(
        selection: &'a PieceSelection,
        system: Mark,
        start: Option<&PagePosition>,
        limit: usize,
    ) -> PieceWalk<'a> {
        let row = |start: &PagePosition| RowId::new(&start.id).ok();
        let place = match start.and_then(|start| Some((row(start)?, Timestamp(start.first)))) {
            Some((row, instant)) => WalkPlace::Within(row, instant),
            None => WalkPlace::Start,
        };
        PieceWalk {
            selection,
            system,
            place,
            // One more says whether there is a next page.
            step: limit + 1,
            is_cut: false,
        }
    }

    /// What is read next: the period, one row or those behind one.
    fn target(&mut self) -> Option<(Period, Option<RowId>, Option<RowId>)> {
        let range = self.selection.range;
        loop {
            match &self.place {
                WalkPlace::Start => return Some((range, self.selection.id.clone(), None)),
                WalkPlace::Behind(row) => return Some((range, None, Some(row.clone()))),
                WalkPlace::End => return None,
                WalkPlace::Within(row, instant) => {
                    let left = Period::spanning(*instant, Timestamp::END);
                    if let Some(left) = left.and_then(|left| left.intersect(&range)) {
                        return Some((left, Some(row.clone()), None));
                    }
                    self.place = self.behind(row.clone());
                }
            }
        }
    }

    fn behind(&self, row: RowId) -> WalkPlace {
        match self.selection.id {
            Some(_) => WalkPlace::End,
            None => WalkPlace::Behind(row),
        }
    }

    /// Takes note of what was read of a target.
    fn go_on(&mut self, read: &PiecesRead, was_of_row: Option<RowId>, wanted: usize) {
        let last = read.rows.last().filter(|_| read.rows.len() >= wanted);
        self.place = match (last, was_of_row) {
            (Some(row), _) => WalkPlace::Within(row.id.clone(), answer::span(row).valid.end()),
            (None, Some(row)) => self.behind(row),
            (None, None) => WalkPlace::End,
        };
        self.step = self.step.max((self.step * 2).min(STEP_MAX));
    }
}

/// The rows of a page, as they are found.
struct RowsFilling {
    rows: Vec<WrittenJson>,
    limit: usize,
    /// Behind what was looked at so far.
    end: Option<PagePosition>,
}

impl RowsFilling {
    fn new(limit: usize) -> RowsFilling {
        RowsFilling {
            rows: Vec::new(),
            limit,
            end: None,
        }
    }

    /// Whether there is room for another row.
    fn has_room(&self) -> bool {
        self.rows.len() < self.limit
    }
}

/// A page of pairs, as they are found.
struct Pairs {
    right: PieceSelection,
    system: Mark,
    filling: RowsFilling,
    bytes_left: usize,
}

/// Why a page ends before the answer does.
#[derive(Clone, Copy, PartialEq)]
enum PairsEnd {
    /// It has all the rows, or all the bytes, that it may have.
    Full,
    /// The request may look at no more pieces.
    NoRoom,
}

fn place_in(id: &str, instant: Timestamp) -> PagePosition {
    PagePosition {
        id: id.to_owned(),
        first: instant.0,
        second: 0,
    }
}

impl TimedReading<'_> {
    /// The next pieces of a walk, or none of a row; `None` at its end.
    async fn next_of(&self, walk: &mut PieceWalk<'_>) -> Result<Option<PiecesRead>, ApiError> {
        let Some((range, id, beyond)) = walk.target() else {
            return Ok(None);
        };
        let wanted = walk.step.min(self.room.get());
        if wanted == 0 {
            walk.is_cut = true;
            return Ok(None);
        }
        let at = Coordinates {
            valid: walk.system.timestamp(),
            system: walk.system,
        };
        let read = self.read(Pieces {
            id: id.as_ref(),
            beyond: beyond.as_ref(),
            limit: Some(wanted as u32),
            ..self.selection(walk.selection, at, Frame::Pieces(range))
        });
        let read = read.await?;
        walk.go_on(&read, id, wanted);
        Ok(Some(read))
    }

    /// The pieces, whole.
    async fn pieces_of(
        &self,
        selection: &PieceSelection,
        system: Mark,
    ) -> Result<Histories, ApiError> {
        let valid = system.timestamp();
        let at = Coordinates { valid, system };
        self.framed(selection, at, Frame::Pieces(selection.range))
            .await
    }

    async fn framed(
        &self,
        selection: &PieceSelection,
        at: Coordinates,
        frame: Frame,
    ) -> Result<Histories, ApiError> {
        let read = self.read(self.selection(selection, at, frame)).await?;
        Ok(Histories::new(&read, self.words))
    }

    fn selection<'p>(
        &'p self,
        selection: &'p PieceSelection,
        at: Coordinates,
        frame: Frame,
    ) -> Pieces<'p> {
        Pieces {
            id: selection.id.as_ref(),
            equal: selection.equal.clone(),
            shows_damaged: selection.shows_damaged,
            ..self.rows(&selection.table, at, frame)
        }
    }

    /// What pieces are shown as, all of them or a page.
    async fn shown(
        &mut self,
        selection: &PieceSelection,
        system: Mark,
        show: impl Fn(&str, &Version<SeenRow>) -> Option<WrittenJson>,
    ) -> Result<WrittenJson, ApiError> {
        let Some(page) = &self.page else {
            return Ok(self.pieces_of(selection, system).await?.shown(show));
        };
        let mut filling = RowsFilling::new(page.limit);
        let mut walk = PieceWalk::new(selection, system, page.start.as_ref(), page.limit);
        let mut has_more = false;
        'walk: while let Some(read) = self.next_of(&mut walk).await? {
            for (id, piece) in Histories::new(&read, self.words).versions() {
                if let Some(shown) = show(id, piece) {
                    if !filling.has_room() {
                        has_more = true;
                        break 'walk;
                    }
                    filling.rows.push(shown);
                }
                filling.end = Some(place_in(id, piece.valid.end()));
            }
        }
        self.end_page(filling, has_more, walk.is_cut)
    }

    /// The rows of a page; where it ends is kept for its cursor, if there may be more.
    fn end_page(
        &mut self,
        filling: RowsFilling,
        has_more: bool,
        is_cut: bool,
    ) -> Result<WrittenJson, ApiError> {
        if has_more || is_cut {
            if filling.end.is_none() {
                return Err(engine::EngineError::Read(ReadError::TooManyPieces).into());
            }
            self.next = filling.end;
        }
        Ok(written_array(filling.rows))
    }

    /// The rows behind the start of the page, in an order by keys.
    fn cut(&mut self, rows: Vec<(Key, WrittenJson)>) -> WrittenJson {
        let Some(page) = &self.page else {
            return written_array(rows.into_iter().map(|(_, row)| row));
        };
        let start = page.start.as_ref();
        let start = start.map(|start| (Mark(start.first), Timestamp(start.second)));
        let begins = start.map_or(0, |start| rows.partition_point(|(key, _)| *key <= start));
        let ends = (begins + page.limit).min(rows.len());
        if ends < rows.len() {
            let (known, valid) = rows[ends - 1].0;
            self.next = Some(PagePosition {
                id: String::new(),
                first: known.0,
                second: valid.0,
            });
        }
        let rows = rows.into_iter().skip(begins).take(ends - begins);
        written_array(rows.map(|(_, row)| row))
    }

    pub(super) async fn history(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let (table, id) = (self.table()?, self.required_id()?);
        let equal = self.equalities("where")?;
        let axis = self.fields.required_text("axis")?;
        let joins = self.fields.flag("coalesce")?.unwrap_or(false);
        let range = match axis.as_str() {
            // Of all that was ever known, only what was known of this instant is shown.
            "system" if self.fields.holds(RANGE.sent(&self.fields)?) => {
                let why = "A history along system time is of the instant `validAt` or `vt`; leave \
                           the period out.";
                return Err(ApiError::invalid(RANGE.sent(&self.fields)?, why));
            }
            "system" => {
                let next = Timestamp(at.valid.0.saturating_add(1));
                Period::new(at.valid, Some(next))?
            }
            _ => self.valid_range()?,
        };
        let selection = PieceSelection {
            // All that is known of a row: one damaged version hides none of the others.
            shows_damaged: true,
            ..PieceSelection::new(table, Some(id), equal, range)
        };
        match axis.as_str() {
            "valid" if joins => self.stretches(&selection, at.system).await,
            "valid" => {
                let words = self.words;
                let show = |_: &str, piece: &Version<SeenRow>| {
                    Some(piece.value.piece(&piece.valid, words).written())
                };
                self.shown(&selection, at.system, show).await
            }
            "system" | "both" => {
                let found = self.framed(&selection, at, Frame::Versions(range)).await?;
                self.looks_back_to(found.kept_from());
                let rows = match axis.as_str() {
                    "system" => found.along_system(at),
                    _ => found.rectangles(at.system),
                };
                Ok(self.cut(rows))
            }
            _ => {
                let why = "Value must be valid, system or both.";
                Err(ApiError::invalid("axis", why))
            }
        }
    }

    /// The pieces of a row, those joined that touch and are equal.
    async fn stretches(
        &mut self,
        selection: &PieceSelection,
        system: Mark,
    ) -> Result<WrittenJson, ApiError> {
        let Some(page) = &self.page else {
            return Ok(self.pieces_of(selection, system).await?.stretches(system));
        };
        let mut filling = RowsFilling::new(page.limit);
        let mut walk = PieceWalk::new(selection, system, page.start.as_ref(), page.limit);
        let mut open: Option<(String, Period, SeenRow)> = None;
        'walk: while let Some(read) = self.next_of(&mut walk).await? {
            for (id, piece) in Histories::new(&read, self.words).versions() {
                if let Some((_, valid, seen)) = &mut open
                    && *seen == piece.value
                    && let Some(whole) = valid.extend(&piece.valid)
                {
                    *valid = whole;
                    continue;
                }
                let next = (id.clone(), piece.valid, piece.value.clone());
                if let Some((_, valid, seen)) = open.replace(next) {
                    filling.rows.push(seen.piece(&valid, self.words).written());
                    filling.end = Some(place_in(id, piece.valid.from()));
                    if !filling.has_room() {
                        break 'walk;
                    }
                }
            }
        }
        let has_more = !filling.has_room();
        if let Some((_, valid, seen)) = open
            && !has_more
            && !walk.is_cut
        {
            filling.rows.push(seen.piece(&valid, self.words).written());
        }
        self.end_page(filling, has_more, walk.is_cut)
    }

    pub(super) async fn period(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let (table, id) = (self.table()?, self.id()?);
        let equal = self.equalities("where")?;
        let relation = self.fields.required_text("relation")?;
        let context = period(&mut self.fields, "period")?;
        let predicate = PeriodPredicate::named(&relation).ok_or_else(|| {
            let names = PeriodPredicate::ALL.map(PeriodPredicate::as_str).join(", ");
            ApiError::invalid("relation", format!("Value must be one of {names}."))
        })?;
        let selection = PieceSelection::new(table, id, equal, self.valid_range()?);
        let words = self.words;
        let show = |id: &str, piece: &Version<SeenRow>| {
            let valid = &piece.valid;
            let shown = || {
                let mut shown = words.over(valid);
                shown.set(words.name(SHOWN_ROW), written(id));
                shown.written()
            };
            predicate.holds(valid, &context).then(shown)
        };
        self.shown(&selection, at.system, show).await
    }

    pub(super) async fn allen(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let (table, id) = (self.table()?, self.required_id()?);
        let equal = self.equalities("where")?;
        let context = period(&mut self.fields, "period")?;
        let selection = PieceSelection::new(table, Some(id), equal, self.valid_range()?);
        let words = self.words;
        let show = |_: &str, piece: &Version<SeenRow>| {
            let valid = &piece.valid;
            let relation = Allen::of(valid, &context).as_str();
            if !words.is_own() {
                let (from, to) = (words.at(valid.from()), words.at(valid.to()));
                return Some(written_array([from, to, written(relation)]));
            }
            let mut shown = words.over(valid);
            shown.set("relation", written(relation));
            Some(shown.written())
        };
        self.shown(&selection, at.system, show).await
    }

    pub(super) async fn join(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let table = self.fields.required_text("left")?;
        let right = self.fields.required_text("right")?;
        let (id, equal) = (self.id()?, self.equalities("where")?);
        let right_equal = self.equalities(RIGHT_EQUAL.sent(&self.fields)?)?;
        let on = self.fields.required_text("on")?;
        let range = self.valid_range()?;
        let left = PieceSelection::new(table, id, equal, range);
        let right = PieceSelection::new(right, None, right_equal, range);
        if self.page.is_some() {
            return self.pairs_page(&left, right, &on, at.system).await;
        }
        let left = self.pieces_of(&left, at.system).await?;
        let right = self.pieces_of(&right, at.system).await?;
        let room = (self.room.get(), self.bytes_max);
        left.joined(&right, &on, &range, room)
    }

    /// A page of pairs: for each piece of the left rows those of its right row that meet it.
    async fn pairs_page(
        &mut self,
        left: &PieceSelection,
        right: PieceSelection,
        on: &str,
        system: Mark,
    ) -> Result<WrittenJson, ApiError> {
        let page = self.page.as_ref().expect("the caller has looked");
        let mut walk = PieceWalk::new(left, system, page.start.as_ref(), page.limit);
        let mut pairs = Pairs {
            right,
            system,
            filling: RowsFilling::new(page.limit),
            bytes_left: self.bytes_max,
        };
        // Whether there is such a table, with such columns, does not depend on what is found.
        self.next_of(&mut PieceWalk::new(&pairs.right, system, None, 0))
            .await?;
        let (mut begun, mut ended, mut count) = (page.start.clone(), None, 0);
        'walk: while let Some(read) = self.next_of(&mut walk).await? {
            let lefts = Histories::new(&read, self.words);
            let position = lefts.plain(on)?;
            for (id, piece) in lefts.versions() {
                count += 1;
                if count % PIECES_A_TURN == 0 {
                    tokio::task::yield_now().await;
                }
                let from = begun.take_if(|begun| begun.id == *id);
                let from = from.map_or(Timestamp::BOT, |begun| Timestamp(begun.first));
                let rest = Period::spanning(from, Timestamp::END);
                let within =
                    rest.and_then(|rest| rest.intersect(&left.range)?.intersect(&piece.valid));
                if let (Value::Text(link), Some(within)) = (&piece.value.values[position], within) {
                    ended = self.pairs_of(&mut pairs, (id, piece), link, within).await?;
                }
                if ended.is_some() {
                    break 'walk;
                }
                pairs.filling.end = Some(place_in(id, piece.valid.end()));
            }
        }
        let is_cut = walk.is_cut || ended == Some(PairsEnd::NoRoom);
        self.end_page(pairs.filling, ended == Some(PairsEnd::Full), is_cut)
    }

    /// Takes in the pairs of one left piece with the row of this id, as far as they share an
    /// instant with a period.
    async fn pairs_of(
        &self,
        pairs: &mut Pairs,
        (id, piece): (&str, &Version<SeenRow>),
        link: &str,
        within: Period,
    ) -> Result<Option<PairsEnd>, ApiError> {
        let Ok(row) = RowId::new(link) else {
            return Ok(None);
        };
        let Some(left) = self.room.get().checked_sub(LOOKUP_COST) else {
            return Ok(Some(PairsEnd::NoRoom));
        };
        self.room.set(left);
        (pairs.right.id, pairs.right.range) = (Some(row), within);
        let left_bytes = piece.value.doc.len();
        let filling = &mut pairs.filling;
        let mut walk = PieceWalk::new(&pairs.right, pairs.system, None, filling.limit);
        while let Some(read) = self.next_of(&mut walk).await? {
            for (link, other) in Histories::new(&read, self.words).versions() {
                let Some(valid) = piece.valid.intersect(&other.valid) else {
                    continue;
                };
                let bytes = left_bytes + other.value.doc.len();
                let is_too_much = bytes > pairs.bytes_left && !filling.rows.is_empty();
                if !filling.has_room() || is_too_much {
                    return Ok(Some(PairsEnd::Full));
                }
                pairs.bytes_left = pairs.bytes_left.saturating_sub(bytes);
                let pair = answer::pair(self.words, &valid, (id, piece), (link, other));
                filling.rows.push(pair);
                filling.end = Some(place_in(id, valid.end()));
            }
        }
        Ok(walk.is_cut.then_some(PairsEnd::NoRoom))
    }

    pub(super) async fn timeline(&mut self, at: Coordinates) -> Result<WrittenJson, ApiError> {
        let (table, id) = (self.table()?, self.id()?);
        let equal = self.equalities("where")?;
        let (aggregate, column) = self.function()?;
        let context = period(&mut self.fields, "period")?;
        let begun = self.page.as_ref().and_then(|page| page.start.as_ref());
        let begun = begun.map_or(context.from(), |begun| Timestamp(begun.first));
        // A cursor leads to an instant inside the period.
        let range = Period::spanning(begun, context.end()).unwrap_or(context);
        let selection = PieceSelection::new(table, id, equal, range);
        let found = self.pieces_of(&selection, at.system).await?;
        let position = found.gathered(column.as_deref(), aggregate)?;
        let value = |value: &[Value]| number(value, position);
        let steps = found.timeline(aggregate, &range, value);
        let limit = self.page.as_ref().map_or(steps.len(), |page| page.limit);
        self.next = steps.get(limit).map(|next| PagePosition {
            first: next.valid.from().0,
            ..PagePosition::default()
        });
        let shown = steps.iter().take(limit);
        let shown = shown.map(|step| answer::step(step, self.words));
        Ok(written_array(shown))
    }
}
