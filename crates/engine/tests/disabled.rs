//! A table is disabled while a reader who may not see it any more is being answered.

mod fixture;

use std::sync::{Arc, Mutex};

use engine::{Clock, Engine, EngineError, ListRows, SchemaError, TableChange, View};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, furnish, guest, key, list_rows_of, row};
use futures_executor::block_on;
use model::Timestamp;

type Act = Box<dyn FnOnce() + Send>;

/// Lets something happen the next time that a caller asks it how late it is: every answer from
/// the cache does, before it looks.
struct ActingClock {
    ticking: Arc<TickingClock>,
    act: Mutex<Option<Act>>,
}

impl Clock for ActingClock {
    fn now(&self) -> Timestamp {
        self.ticking.now()
    }

    fn elapsed_ms(&self) -> u64 {
        let act = self.act.lock().unwrap().take();
        if let Some(act) = act {
            // On a thread of its own, as others are.
            std::thread::spawn(act).join().unwrap();
        }
        self.ticking.elapsed_ms()
    }
}

fn asked() -> ListRows<'static> {
    list_rows_of(&[])
}

fn switch(engine: &Engine, enabled: bool) {
    let change = TableChange {
        enabled: Some(enabled),
        permissions: Some(vec!["read(\"any\")".into()]),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, change)).unwrap();
}

fn add(engine: &Engine, id: &str) {
    block_on(engine.create_row(&key(), PLACE, row(id, &[("n", 1)]))).unwrap();
}

#[test]
fn a_guest_gets_nothing_that_was_written_after_the_table_was_disabled() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ActingClock {
        ticking: TickingClock::at(NEW_YEAR_US),
        act: Mutex::new(None),
    });
    let engine = fixture::start(fixture::config(directory.path()), clock.clone()).unwrap();
    furnish(&engine);
    switch(&engine, true);
    add(&engine, "a");
    for (turn, by_name) in [false, true].into_iter().enumerate() {
        switch(&engine, true);
        let before = block_on(engine.list_rows(&guest(), &asked(), View::CURRENT)).unwrap();
        assert_eq!(before.total, turn as u64 + 1);
        let prepared = engine.prepare(&guest(), &asked()).unwrap().unwrap();
        let (acting, id) = (engine.clone(), format!("secret{turn}"));
        let act = move || {
            switch(&acting, false);
            add(&acting, &id);
            block_on(acting.list_rows(&key(), &asked(), View::CURRENT)).unwrap();
        };
        *clock.act.lock().unwrap() = Some(Box::new(act));
        if by_name {
            assert!(engine.held(&prepared).is_none());
        } else {
            let answer = block_on(engine.list_rows(&guest(), &asked(), View::CURRENT));
            assert!(
                matches!(
                    answer,
                    Err(EngineError::Schema(SchemaError::TableNotFound(_)))
                ),
                "{answer:?}"
            );
        }
        assert!(clock.act.lock().unwrap().is_none(), "it was asked");
    }
    engine.close().unwrap();
}
