//! Reads of every kind but those that need a query.

use model::history::{History, Piece};
use model::period::join;
use model::timeline::{Aggregate, Number, timeline};
use model::{Allen, Coordinates, Json, Mark, Period, PeriodPredicate, Timestamp};

use super::json::{int, list, need, object, sorted, text};
use super::world::{Doc, RowKey, World, instant};

pub fn answer(world: &World, asked: &Json, mark: i64) -> Json {
    let read = Read { world, asked, mark };
    match text(asked, "kind") {
        "get" => read.get(),
        "history" => read.history(),
        "period" => read.period_query(),
        "allen" => read.allen(),
        "join" => read.join(),
        "timeline" => read.timeline(),
        "diff" => read.diff(),
        "tx" => read.tx(),
        "stable_until" => read.stable_until(),
        other => panic!("{other} is not played here"),
    }
}

struct Read<'a> {
    world: &'a World,
    asked: &'a Json,
    mark: i64,
}

fn from(instant: Timestamp) -> Json {
    match instant {
        Timestamp::BOT => Json::Text("min".into()),
        Timestamp(from) => Json::Int(from),
    }
}

fn to(period: Period) -> Json {
    period.to().map_or(Json::Null, |to| Json::Int(to.0))
}

fn sys_to(mark: Option<Mark>) -> Json {
    mark.map_or(Json::Null, |mark| Json::Int(mark.0))
}

fn doc(doc: Option<&Doc>) -> Json {
    doc.cloned().unwrap_or(Json::Null)
}

impl<'a> Read<'a> {
    fn system(&self) -> Mark {
        Mark(self.mark)
    }

    fn coordinates(&self) -> Coordinates {
        let valid = self.asked.get("vt").map(instant);
        Coordinates {
            valid: valid.unwrap_or(Timestamp(self.mark)),
            system: self.system(),
        }
    }

    fn table(&self, key: &str) -> impl Iterator<Item = (&'a RowKey, History<'a, Doc>)> {
        let table = text(self.asked, key).to_owned();
        let rows = self.world.rows.iter();
        rows.filter(move |((of, _), _)| *of == table)
            .map(|(key, versions)| (key, History::new(versions)))
    }

    fn row(&self) -> History<'a, Doc> {
        let table = text(self.asked, "table").to_owned();
        let key = (table, text(self.asked, "id").to_owned());
        History::new(self.world.versions(&key))
    }

    fn period(&self) -> Period {
        let [from, to] = list(self.asked, "period") else {
            panic!("a period has two ends");
        };
        let to = Some(instant(to));
        Period::new(instant(from), to).expect("the period of a read is not empty")
    }

    fn get(&self) -> Json {
        let piece = self.row().at(self.coordinates());
        let Some(piece) = piece else {
            return Json::Null;
        };
        if self.asked.get("full") != Some(&Json::Bool(true)) {
            return piece.value.clone();
        }
        object([
            ("doc", piece.value.clone()),
            ("valid_from", from(piece.valid.from())),
            ("valid_to", to(piece.valid)),
            ("sys_from", Json::Int(piece.sys_from.0)),
            ("origin", Json::Int(piece.origin.0)),
        ])
    }

    fn history(&self) -> Json {
        let row = self.row();
        let along = |valid: Period, value: &Doc| {
            object([
                ("valid_from", from(valid.from())),
                ("valid_to", to(valid)),
                ("doc", value.clone()),
            ])
        };
        let is_joined = self.asked.get("coalesce") == Some(&Json::Bool(true));
        Json::List(match text(self.asked, "axis") {
            "valid" if is_joined => {
                let stretches = row.along_valid_joined(self.system()).into_iter();
                stretches.map(|s| along(s.valid, s.value)).collect()
            }
            "valid" => {
                let pieces = row.along_valid(self.system()).into_iter();
                pieces.map(|p| along(p.valid, p.value)).collect()
            }
            "system" => self.along_system(row),
            "both" => self.rectangles(row),
            other => panic!("no axis {other}"),
        })
    }

    fn along_system(&self, row: History<'_, Doc>) -> Vec<Json> {
        let entries = row.along_system(self.coordinates()).into_iter();
        let shown = entries.map(|entry| {
            object([
                ("sys_from", Json::Int(entry.sys_from.0)),
                ("sys_to", sys_to(entry.sys_to)),
                ("origin", Json::Int(entry.origin.0)),
                ("doc", entry.value.clone()),
            ])
        });
        shown.collect()
    }

    fn rectangles(&self, row: History<'_, Doc>) -> Vec<Json> {
        let rectangles = row.rectangles(self.system()).into_iter();
        let shown = rectangles.map(|rectangle| {
            object([
                ("valid_from", from(rectangle.valid.from())),
                ("valid_to", to(rectangle.valid)),
                ("sys_from", Json::Int(rectangle.sys_from.0)),
                ("sys_to", sys_to(rectangle.sys_to)),
                ("origin", Json::Int(rectangle.origin.0)),
                ("doc", rectangle.value.clone()),
            ])
        });
        shown.collect()
    }

    fn period_query(&self) -> Json {
        let predicate = PeriodPredicate::named(text(self.asked, "relation"));
        let (predicate, period) = (predicate.expect("a relation of SQL"), self.period());
        let id = self.asked.get("id").map(|id| id.as_str().expect("an id"));
        let mut found = Vec::new();
        for ((_, row), history) in self.table("table") {
            if id.is_some_and(|id| id != row) {
                continue;
            }
            for piece in history.along_valid(self.system()) {
                if predicate.holds(&piece.valid, &period) {
                    found.push(object([
                        ("id", Json::Text(row.clone())),
                        ("valid_from", from(piece.valid.from())),
                        ("valid_to", to(piece.valid)),
                    ]));
                }
            }
        }
        Json::List(found)
    }

    fn allen(&self) -> Json {
        let period = self.period();
        let classified = |piece: Piece<'_, Doc>| {
            let relation = Allen::of(&piece.valid, &period).as_str();
            Json::List(vec![
                from(piece.valid.from()),
                to(piece.valid),
                Json::Text(relation.into()),
            ])
        };
        let pieces = self.row().along_valid(self.system()).into_iter();
        Json::List(pieces.map(classified).collect())
    }

    fn join(&self) -> Json {
        let mut pairs = Vec::new();
        for ((_, left), history) in self.table("left") {
            for piece in history.along_valid(self.system()) {
                pairs.extend(self.joined(left, piece));
            }
        }
        Json::List(pairs)
    }

    fn joined(&self, left: &str, piece: Piece<'_, Doc>) -> Vec<Json> {
        let holder = piece.value.get(text(self.asked, "on"));
        let Some(id) = holder.and_then(Json::as_str) else {
            return Vec::new();
        };
        let key = (text(self.asked, "right").to_owned(), id.to_owned());
        let right = History::new(self.world.versions(&key)).along_valid(self.system());
        let periods: Vec<Period> = right.iter().map(|piece| piece.valid).collect();
        let pairs = join(&[piece.valid], &periods).into_iter();
        let shown = pairs.map(|pair| {
            object([
                ("left", Json::Text(left.to_owned())),
                ("right", Json::Text(id.to_owned())),
                ("valid_from", from(pair.valid.from())),
                ("valid_to", to(pair.valid)),
                ("left_doc", piece.value.clone()),
                ("right_doc", right[pair.right].value.clone()),
            ])
        });
        shown.collect()
    }

    fn timeline(&self) -> Json {
        let aggregate = Aggregate::named(text(self.asked, "fn")).expect("an aggregate");
        let column = self.asked.get("column").and_then(Json::as_str);
        let value = |piece: &Piece<'_, Doc>| match column.map(|c| piece.value.get(c)) {
            // Without a column, rows are counted.
            None | Some(Some(Json::Int(_))) if aggregate == Aggregate::Count => {
                Some(Number::Int(1))
            }
            Some(Some(Json::Int(int))) => Some(Number::Int(*int)),
            Some(Some(Json::Float(float))) => Some(Number::Float(*float)),
            _ => None,
        };
        let rows = self.table("table");
        let pieces = rows.flat_map(|(_, history)| history.along_valid(self.system()));
        let values = pieces.filter_map(|piece| Some((piece.valid, value(&piece)?)));
        let steps = timeline(aggregate, &self.period(), values).into_iter();
        let shown = steps.map(|step| {
            object([
                ("from", from(step.valid.from())),
                ("to", to(step.valid)),
                (
                    "value",
                    match step.value {
                        None => Json::Null,
                        Some(Number::Int(int)) => Json::Int(int),
                        Some(Number::Float(float)) => Json::Float(float),
                    },
                ),
            ])
        });
        Json::List(shown.collect())
    }

    fn diff(&self) -> Json {
        let point = |key| {
            let point = need(self.asked, key);
            Coordinates {
                valid: instant(need(point, "vt")),
                system: Mark(int(need(point, "tt"))),
            }
        };
        let (before, after) = (point("from"), point("to"));
        let rows = self.table("table");
        let found = rows.filter_map(|((_, id), history)| {
            let difference = history.difference(before, after)?;
            Some(object([
                ("id", Json::Text(id.clone())),
                ("before", doc(difference.before)),
                ("after", doc(difference.after)),
            ]))
        });
        Json::List(found.collect())
    }

    fn tx(&self) -> Json {
        let Some(recorded) = self.world.transactions.get(&self.mark) else {
            return Json::Null;
        };
        let rows = self.world.rows.iter();
        let touched =
            rows.filter(|(_, versions)| History::new(versions).is_changed_at(self.system()));
        let names = touched.map(|((table, id), _)| {
            Json::List(vec![Json::Text(table.clone()), Json::Text(id.clone())])
        });
        let mut members = vec![
            ("tt".to_owned(), Json::Int(self.mark)),
            ("meta".to_owned(), recorded.meta.clone()),
            ("changes".to_owned(), Json::List(names.collect())),
        ];
        let erased = recorded.erased.map(Json::Int);
        members.extend(erased.map(|erased| ("erased".to_owned(), erased)));
        sorted(Json::Object(members))
    }

    fn stable_until(&self) -> Json {
        let at = self.coordinates();
        let boundary = if self.asked.get("id").is_some() {
            self.row().boundary_after(at)
        } else {
            let rows = self.table("table");
            rows.filter_map(|(_, history)| history.boundary_after(at))
                .min()
        };
        boundary.map_or(Json::Null, |at| Json::Int(at.0))
    }
}
