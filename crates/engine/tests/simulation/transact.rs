//! Writes that are staged in a transaction, looked at inside, and committed or rolled back.

use engine::{Act, Family, ListRows, Operation};
use model::{Json, RowId};

use super::chance::Chance;
use super::domain::{self, IDS};
use super::question::filter;
use super::write::{Site, Write, input, members, write};

/// One to four operations on one table, and what becomes of them.
pub fn transaction(chance: &mut Chance, site: Site, number: u64) -> Write {
    let count = 1 + chance.below(4);
    let acts: Vec<Act> = (0..count).map(|_| act(chance, &site)).collect();
    let is_committed = !chance.one_in(6);
    let looks = chance.one_in(2);
    let end = if is_committed { "Commit" } else { "RollBack" };
    let what = format!("{end} {}.{} {acts:?}", site.database, site.table);
    write(what, async move {
        let (engine, caller) = (&site.engine, &site.caller);
        let id = format!("t{number}");
        engine.create_transaction(caller, &id, 3_600).await?;
        for act in acts {
            let operation = Operation {
                database: site.database.to_owned(),
                table: site.table.to_owned(),
                act,
                unchanged_since: None,
            };
            // One whose row is not there is refused, and the others go on.
            let _ = engine.stage(caller, &id, vec![operation]).await;
        }
        if looks {
            let asked = ListRows {
                place: site.place(),
                texts: &[],
                total: true,
                ttl_s: 0,
                bypass: false,
                family: Family::Tables,
            };
            let _ = engine.list_rows_staged(caller, &id, &asked).await;
        }
        if is_committed {
            engine.commit_transaction(caller, &id).await.map(drop)
        } else {
            engine.roll_back_transaction(caller, &id).await.map(drop)
        }
    })
}

fn act(chance: &mut Chance, site: &Site) -> Act {
    let id = |chance: &mut Chance| {
        let id = chance.pick::<&str>(&IDS);
        RowId::new(id).expect("a legal id")
    };
    let row = id(chance);
    match chance.below(8) {
        0 => Act::Create(input(chance, site, row, false)),
        1 | 2 => Act::Update(input(chance, site, row, true)),
        3 => Act::Upsert(input(chance, site, row, true)),
        4 => Act::Delete(row),
        5 => Act::Increment {
            id: row,
            column: (*chance.pick(&["n", "m", "f"])).to_owned(),
            is_down: chance.one_in(2),
            by: Json::Int(1),
            bound: None,
        },
        6 => {
            let mut columns = site.columns.clone();
            columns.extend(&domain::SYSTEM);
            let texts = vec![filter(chance, &columns, 1)];
            if chance.one_in(3) {
                return Act::DeleteMany { texts };
            }
            let members = members(chance, &site.columns, true);
            Act::UpdateMany { texts, members }
        }
        _ => {
            let mut rows = vec![input(chance, site, row, false)];
            let second = id(chance);
            if second != rows[0].id {
                rows.push(input(chance, site, second, false));
            }
            for row in &mut rows {
                row.permissions = None;
            }
            Act::UpsertMany(rows)
        }
    }
}
