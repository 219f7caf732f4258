//! Reading the rows that others are related to: one query for each relationship that is selected,
//! however many rows it is selected of.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use model::{
    Catalogue, Content, Coordinates, Direction, Field, Mark, Marked, Page, Related, Relation,
    RelationKind, Row, Selection, Table, Value,
};
use query::{Filter, Frame, Query, QueryError, Test};
use store::{Listed, Listing, Point, Preview, Snapshot, StoreError, TotalCap};

use crate::Engine;
use crate::error::{EngineError, ReadError, Unavailable};
use crate::read::related_plan::{RelatedPlan, Sight};
use crate::request::attempt::ATTEMPTS_MAX;
use crate::request::inputs::Caller;
use crate::request::turn::Turn;

/// Most related rows of one answer: as many as one commit may change.
pub(crate) const RELATED_ROWS_MAX: usize = store::batch::BATCH_ROWS_MAX;
/// Most values that one statement compares with: far below what SQLite takes (its manual,
/// "Implementation Limits"), and so few sizes of statements.
const VALUES_MAX: usize = 1_000;

/// What the parts of an answer are read from.
#[derive(Clone, Copy)]
pub(crate) enum Reads<'a> {
    /// What is committed.
    Store(&'a Engine),
    /// What a transaction would leave.
    Preview(&'a dyn Preview),
}

impl Reads<'_> {
    /// The mark of what is read, where nothing is.
    pub(crate) fn mark(self) -> Mark {
        match self {
            Reads::Store(engine) => engine.shared.marks.published(),
            Reads::Preview(preview) => preview.mark(),
        }
    }

    pub(crate) async fn list(self, listing: Listing<'_>) -> Result<Snapshot<Listed>, StoreError> {
        match self {
            Reads::Store(engine) => engine.read_list(listing).await,
            Reads::Preview(preview) => Ok(Snapshot {
                answer: preview.list(listing).await?,
                mark: preview.mark(),
            }),
        }
    }

    pub(crate) async fn get(self, point: Point<'_>) -> Result<Snapshot<Option<Row>>, StoreError> {
        match self {
            Reads::Store(engine) => engine.shared.store.get(point).await,
            Reads::Preview(preview) => Ok(Snapshot {
                answer: preview.get(point).await?,
                mark: preview.mark(),
            }),
        }
    }
}

/// One answer with related rows while it is put together.
pub(crate) struct Gathering<'a> {
    pub(crate) reads: Reads<'a>,
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) caller: &'a Caller,
    /// Where everything is read; `None` is now.
    pub(crate) at: Option<Coordinates>,
    rows_left: usize,
    bytes_max: usize,
    bytes_left: usize,
    /// The mark of the snapshot of the first read.
    mark: Option<Mark>,
    /// Whether another read saw another snapshot.
    is_torn: bool,
    /// How far it may go on on this thread, if that is bounded.
    turn: Option<&'a Turn<'a>>,
}

type Reading<'r, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + 'r>>;

impl<'a> Gathering<'a> {
    pub(crate) fn new(
        reads: Reads<'a>,
        catalogue: &'a Catalogue,
        caller: &'a Caller,
        at: Option<Coordinates>,
        bytes_max: usize,
    ) -> Gathering<'a> {
        Gathering {
            reads,
            catalogue,
            caller,
            at,
            rows_left: RELATED_ROWS_MAX,
            bytes_max,
            bytes_left: bytes_max,
            mark: None,
            is_torn: false,
            turn: None,
        }
    }

    /// A list with related rows, and its total if that is asked for.
    pub(crate) async fn list(
        &mut self,
        query: &Query,
        plans: &[RelatedPlan],
        total: Option<TotalCap>,
    ) -> Result<(Page, u64), EngineError> {
        let query = Query {
            selection: with_links(&query.table, &query.selection, plans),
            at: self.at,
            ..query.clone()
        };
        let listing = Listing {
            total,
            ..self.listing(&query)
        };
        let listed = self.read_list(listing).await?;
        let page = Page {
            table: query.table,
            selection: query.selection,
            rows: listed.rows,
            related: Vec::new(),
        };
        let page = self.related_to(page, plans).await?;
        self.need_room_for(&page)?;
        Ok((page, listed.total))
    }

    /// A list that is a part of the answer.
    pub(crate) async fn read_list(&mut self, listing: Listing<'_>) -> Result<Listed, EngineError> {
        if let Some(turn) = self.turn {
            turn.goes_on()?;
        }
        let bytes_max = self.bytes_left;
        let read = self
            .reads
            .list(Listing {
                bytes_max,
                ..listing
            })
            .await;
        let read = read.map_err(|error| match error {
            StoreError::AnswerTooLarge { .. } => self.too_large(),
            error => error.into(),
        })?;
        self.saw(read.mark);
        for row in &read.answer.rows {
            self.take(row)?;
        }
        Ok(read.answer)
    }

    /// Makes room for a row in the answer.
    pub(crate) fn take(&mut self, row: &Row) -> Result<(), EngineError> {
        if let Some(turn) = self.turn {
            turn.count(Some(row));
        }
        let left = self.bytes_left.checked_sub(row.size_bytes());
        self.bytes_left = left.ok_or_else(|| self.too_large())?;
        Ok(())
    }

    /// A related row is held once, and written wherever it is shown.
    fn need_room_for(&self, page: &Page) -> Result<(), EngineError> {
        if !page.related.is_empty() && page.size_bytes() > self.bytes_max {
            return Err(self.too_large());
        }
        Ok(())
    }

    pub(crate) fn too_large(&self) -> EngineError {
        let bytes_max = self.bytes_max;
        EngineError::Read(ReadError::AnswerTooLarge { bytes_max })
    }

    /// One row with related rows; `None` when it is not there, or not visible.
    pub(crate) async fn get(
        &mut self,
        point: Point<'_>,
        plans: &[RelatedPlan],
    ) -> Result<Option<Page>, EngineError> {
        let selection = with_links(point.table, point.selection, plans);
        let point = Point {
            selection: &selection,
            at: self.at,
            ..point
        };
        let read = self.reads.get(point).await?;
        self.saw(read.mark);
        let Some(row) = read.answer else {
            return Ok(None);
        };
        self.take(&row)?;
        let page = Page {
            table: Arc::clone(point.table),
            rows: vec![row],
            related: Vec::new(),
            selection,
        };
        let page = self.related_to(page, plans).await?;
        self.need_room_for(&page)?;
        Ok(Some(page))
    }

    /// The mark that all of it is true for; `None` when the reads saw different ones.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.mark.filter(|_| !self.is_torn)
    }

    pub(crate) fn saw(&mut self, mark: Mark) {
        // At given coordinates the answer is the same on every snapshot.
        self.is_torn |= self.at.is_none() && self.mark.is_some_and(|first| first != mark);
        self.mark.get_or_insert(mark);
    }

    /// The page with the rows that its rows are related to.
    fn related_to<'r>(&'r mut self, mut page: Page, plans: &'r [RelatedPlan]) -> Reading<'r, Page> {
        Box::pin(async move {
            for plan in plans {
                let related = self.through(&page, plan).await?;
                page.related.push(related);
            }
            Ok(page)
        })
    }

    /// What the rows of `page` are related to through one column.
    async fn through(&mut self, page: &Page, plan: &RelatedPlan) -> Result<Related, EngineError> {
        let (column, relation) = (plan.column, &plan.relation);
        let mut selection = holding(&plan.table, &plan.selection, &plan.further);
        if !relation.holds_links() {
            select_column(&mut selection, plan.partner);
        }
        let rows = match &plan.sight {
            None => Vec::new(),
            Some(sight) => {
                let lead = lead(page, column, relation, plan.partner);
                self.read(plan, &selection, sight, lead).await?
            }
        };
        let links = if relation.holds_links() {
            held_links(page, column, &rows)
        } else {
            links_to(page, &rows, &selection, plan.partner)
        };
        let found = Page {
            table: Arc::clone(&plan.table),
            selection,
            rows,
            related: Vec::new(),
        };
        Ok(Related {
            column,
            page: self.related_to(found, &plan.further).await?,
            links,
        })
    }

    async fn read(
        &mut self,
        plan: &RelatedPlan,
        selection: &Selection,
        sight: &Sight,
        lead: Lead,
    ) -> Result<Vec<Row>, EngineError> {
        let mut rows: Vec<Row> = Vec::new();
        for values in lead.values.chunks(VALUES_MAX) {
            let values = values.to_vec();
            let test = if lead.is_list {
                Test::HasAny(values)
            } else {
                Test::In(values)
            };
            let query = Query {
                table: Arc::clone(&plan.table),
                filter: Filter::Field(lead.field, test),
                order: Vec::new(),
                tie: Direction::Asc,
                random: false,
                limit: self.rows_left as u32 + 1,
                offset: 0,
                cursor: None,
                selection: selection.clone(),
                visibility: sight.visibility.clone(),
                then: sight.then.clone(),
                at: self.at,
                frame: Frame::One,
                shows_span: plan.shows_span,
            };
            let found = self.read_list(self.listing(&query)).await?.rows;
            let count = found.len();
            self.rows_left = self.rows_left.checked_sub(count).ok_or_else(|| {
                QueryError::Invalid(format!(
                    "One request may select at most {RELATED_ROWS_MAX} related rows; set a limit"
                ))
            })?;
            rows.extend(found);
        }
        if lead.is_list {
            // A row with links to rows of two parts was found twice.
            let mut known = HashSet::new();
            rows.retain(|row| known.insert(row.seq));
        }
        Ok(rows)
    }

    /// The rows that a query finds.
    fn listing<'q>(&self, query: &'q Query) -> Listing<'q> {
        Listing {
            query,
            rows: true,
            total: None,
            place: false,
            bytes_max: self.bytes_left,
            catalogue_epoch: self.catalogue.epoch,
            of_guest: self.caller.is_guest(),
            shows_damaged: false,
        }
    }
}

/// What leads to related rows.
struct Lead {
    /// A field of the related table.
    field: Field,
    /// Whether it holds lists.
    is_list: bool,
    /// The values in it.
    values: Vec<Value>,
}

/// What leads to the rows that those of `page` are related to.
fn lead(page: &Page, column: usize, relation: &Relation, partner: usize) -> Lead {
    if relation.holds_links() {
        let mut known = HashSet::new();
        let links = page.rows.iter().flat_map(|row| links_in(row, page, column));
        let links = links.filter(|id| known.insert(*id));
        return Lead {
            field: Field::Id,
            is_list: false,
            values: links.map(|id| Value::Text(id.to_owned())).collect(),
        };
    }
    let ids = page.rows.iter().map(|row| Value::Text(row.id.to_string()));
    Lead {
        field: Field::Column(partner),
        is_list: relation.kind == RelationKind::ManyToMany,
        values: ids.collect(),
    }
}

/// As [`holding`], where nothing related is selected, too: then whole rows stay whole.
fn with_links(table: &Table, selection: &Selection, plans: &[RelatedPlan]) -> Selection {
    if plans.is_empty() {
        selection.clone()
    } else {
        holding(table, selection, plans)
    }
}

/// The selection, with the columns in it that hold the links of `plans`; the encoder leaves out
/// what is in a relationship's column.
fn holding(table: &Table, selection: &Selection, plans: &[RelatedPlan]) -> Selection {
    let mut selection = match selection {
        Selection::All => Selection::Some {
            columns: (0..table.columns.len()).collect(),
            fields: vec![Field::Id, Field::Sequence, Field::Created, Field::Updated],
            permissions: true,
        },
        some @ Selection::Some { .. } => some.clone(),
    };
    for plan in plans {
        select_column(&mut selection, plan.column);
    }
    selection
}

fn select_column(selection: &mut Selection, column: usize) {
    if let Selection::Some { columns, .. } = selection
        && let Err(at) = columns.binary_search(&column)
    {
        columns.insert(at, column);
    }
}

/// The ids that a row's column holds.
fn links_in<'r>(row: &'r Row, page: &Page, column: usize) -> Vec<&'r str> {
    links_of(row, &page.selection, column)
}

fn links_of<'r>(row: &'r Row, selection: &Selection, column: usize) -> Vec<&'r str> {
    let (Content::Values(values), Selection::Some { columns, .. }) = (&row.content, selection)
    else {
        unreachable!("rows are read by a selection of some columns");
    };
    let at = columns
        .binary_search(&column)
        .expect("the column was selected");
    let text = |value: &'r Value| match value {
        Value::Text(id) => Some(id.as_str()),
        _ => None,
    };
    match &values[at] {
        Value::List(links) => links.iter().filter_map(text).collect(),
        single => text(single).into_iter().collect(),
    }
}

/// For each row of the page, where the rows are that it holds links to.
fn held_links(page: &Page, column: usize, rows: &[Row]) -> Vec<Vec<usize>> {
    let places: HashMap<&str, usize> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| (row.id.as_str(), at))
        .collect();
    let of_row = |row: &Row| {
        let links = links_in(row, page, column);
        links
            .iter()
            .filter_map(|id| places.get(id).copied())
            .collect()
    };
    page.rows.iter().map(of_row).collect()
}

/// For each row of the page, where the rows are that hold links to it.
fn links_to(page: &Page, rows: &[Row], selection: &Selection, partner: usize) -> Vec<Vec<usize>> {
    let mut by_target: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        for target in links_of(row, selection, partner) {
            by_target.entry(target).or_default().push(at);
        }
    }
    let of_row = |row: &Row| by_target.get(row.id.as_str()).cloned().unwrap_or_default();
    page.rows.iter().map(of_row).collect()
}

impl Engine {
    /// Reads by `read` on one snapshot, on which nothing is due. Where the parts of an answer were
    /// read on different ones, all of it is read again at fixed coordinates, where nothing moves.
    pub(crate) async fn on_one_snapshot<'e, T>(
        &'e self,
        turn: Option<&'e Turn<'e>>,
        catalogue: &'e Catalogue,
        caller: &'e Caller,
        mut read: impl AsyncFnMut(&mut Gathering<'e>) -> Result<T, EngineError>,
    ) -> Result<Marked<T>, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            self.wait_until_activated().await?;
            let before = self.shared.before(None);
            let bytes_max = self.answer_bytes_max;
            let store = Reads::Store(self);
            let mut now = Gathering::new(store, catalogue, caller, None, bytes_max);
            now.turn = turn;
            let answer = read(&mut now).await?;
            if let Some(mark) = now.mark()
                && !self.shared.has_passed(&before)
            {
                return Ok(Marked { answer, mark });
            }
            let at = self.coordinates_of_now(now.mark).await?;
            let mut fixed = Gathering::new(store, catalogue, caller, Some(at), bytes_max);
            fixed.turn = turn;
            match read(&mut fixed).await {
                // A commit came after the mark, and a table keeps no past.
                Err(EngineError::Read(ReadError::HistoryGone(_))) => {}
                answer => {
                    let (answer, mark) = (answer?, at.system);
                    return Ok(Marked { answer, mark });
                }
            }
        }
        Err(Unavailable::Overloaded.into())
    }

    /// Reads on one snapshot, or at coordinates that were asked for and are settled. There nothing
    /// moves, so it does not matter on how many snapshots; what is erased meanwhile may be shown,
    /// as if it was read before.
    pub(crate) async fn gather<'e, T>(
        &'e self,
        turn: &'e Turn<'e>,
        catalogue: &'e Catalogue,
        caller: &'e Caller,
        at: Option<Coordinates>,
        mut read: impl AsyncFnMut(&mut Gathering<'e>) -> Result<T, EngineError>,
    ) -> Result<Marked<T>, EngineError> {
        let Some(at) = at else {
            let read = self.on_one_snapshot(Some(turn), catalogue, caller, read);
            return read.await;
        };
        let (store, bytes_max) = (Reads::Store(self), self.answer_bytes_max);
        let mut there = Gathering::new(store, catalogue, caller, Some(at), bytes_max);
        there.turn = Some(turn);
        let (answer, mark) = (read(&mut there).await?, at.system);
        Ok(Marked { answer, mark })
    }

    /// Coordinates that show all that any caller could see by now, and what `seen` shows.
    async fn coordinates_of_now(&self, seen: Option<Mark>) -> Result<Coordinates, EngineError> {
        // Of what has begun or ended some may have been shown, though a commit is pending.
        let valid = self.shared.instant();
        let fixed = self.fix().await?;
        let system = match seen.filter(|seen| *seen > fixed) {
            // It could be seen before it was published.
            Some(seen) => self.settled(seen).await?,
            None => fixed,
        };
        Ok(Coordinates {
            valid: valid.max(system.timestamp()),
            system,
        })
    }
}
