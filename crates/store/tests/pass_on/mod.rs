//! For stores that stand before another one, in their field `inner`, and change a few methods:
//! the others, which they pass on, need not be written each time.

/// Defines these methods of a part of [`store::Store`], or of a commit, as those of `inner`; or
/// whole parts.
macro_rules! pass_on {
    (impl $($part:ident),* for $store:ty) => {
        $(pass_on!(@ $part $store);)*
    };
    (@ reads $store:ty) => {
        impl store::StoreReads for $store {
            pass_on!(list, get, other_reads);
        }
    };
    (@ writes $store:ty) => {
        impl store::StoreWrites for $store {
            pass_on!(apply, bring_due, preview);
        }
    };
    (@ upkeep $store:ty) => {
        impl store::StoreUpkeep for $store {
            pass_on!(load, reserve, rewind, tend, close);
        }
    };
    (@ transactions $store:ty) => {
        impl store::StoreTransactions for $store {
            fn transactions<'a>(
                &'a self,
                project: &'a model::ProjectId,
            ) -> store::StoreFuture<'a, Vec<store::Transaction>> {
                self.inner.transactions(project)
            }
            fn transaction<'a>(
                &'a self,
                project: &'a model::ProjectId,
                id: &'a str,
                operations: store::OperationsOf<'a>,
            ) -> store::StoreFuture<'a, Option<store::Staged>> {
                self.inner.transaction(project, id, operations)
            }
            fn kept_request<'a>(
                &'a self,
                project: &'a model::ProjectId,
                key: &'a str,
            ) -> store::StoreFuture<'a, Option<store::KeptRequest>> {
                self.inner.kept_request(project, key)
            }
        }
    };
    // No test needs more of it than its defaults.
    (@ usage $store:ty) => {
        impl store::StoreUsage for $store {}
    };
    ($($method:ident),* $(,)?) => {
        $(pass_on!(@ $method);)*
    };
    (@ load) => {
        fn load(&self) -> store::StoreFuture<'_, store::Loaded> {
            self.inner.load()
        }
    };
    (@ list) => {
        fn list<'a>(
            &'a self,
            listing: store::Listing<'a>,
        ) -> store::StoreFuture<'a, store::Snapshot<store::Listed>> {
            self.inner.list(listing)
        }
    };
    (@ get) => {
        fn get<'a>(
            &'a self,
            point: store::Point<'a>,
        ) -> store::StoreFuture<'a, store::Snapshot<Option<model::Row>>> {
            self.inner.get(point)
        }
    };
    (@ apply) => {
        fn apply<'a>(
            &'a self,
            batches: &'a [store::WriteBatch],
            first: model::Mark,
        ) -> store::StoreFuture<'a, Box<dyn store::Pending>> {
            self.inner.apply(batches, first)
        }
    };
    (@ bring_due) => {
        fn bring_due(
            &self,
            instant: model::Timestamp,
        ) -> store::StoreFuture<'_, Box<dyn store::Pending>> {
            self.inner.bring_due(instant)
        }
    };
    (@ rewind) => {
        fn rewind(&self) -> store::StoreFuture<'_, ()> {
            self.inner.rewind()
        }
    };
    (@ preview) => {
        fn preview<'a>(
            &'a self,
            batches: &'a [store::WriteBatch],
            first: model::Mark,
            limit_ms: u64,
        ) -> store::StoreFuture<'a, Box<dyn store::Preview>> {
            self.inner.preview(batches, first, limit_ms)
        }
    };
    (@ reserve) => {
        fn reserve(&self, horizon: model::Mark) -> store::StoreFuture<'_, ()> {
            self.inner.reserve(horizon)
        }
    };
    (@ tend) => {
        fn tend(&self) -> store::StoreFuture<'_, bool> {
            self.inner.tend()
        }
    };
    (@ close) => {
        fn close(&self, horizon: model::Mark) -> store::StoreFuture<'_, ()> {
            self.inner.close(horizon)
        }
    };
    // What no test has changed so far.
    (@ other_reads) => {
        fn table_as_of<'a>(
            &'a self,
            today: &'a std::sync::Arc<model::Table>,
            mark: model::Mark,
        ) -> store::StoreFuture<'a, std::sync::Arc<model::Table>> {
            self.inner.table_as_of(today, mark)
        }
        fn next_boundary<'a>(
            &'a self,
            asked: store::BoundaryOf<'a>,
        ) -> store::StoreFuture<'a, Option<model::Timestamp>> {
            self.inner.next_boundary(asked)
        }
        fn recorded(
            &self,
            asked: store::RecordsOf,
        ) -> store::StoreFuture<'_, Vec<store::Recorded>> {
            self.inner.recorded(asked)
        }
    };
    // Of [`store::Pending`].
    (@ outcomes) => {
        fn outcomes(&self) -> &[store::Outcome] {
            self.inner.outcomes()
        }
    };
    (@ due) => {
        fn due(&self) -> &[store::Changes] {
            self.inner.due()
        }
    };
    (@ boundaries) => {
        fn boundaries(&self) -> store::Boundaries {
            self.inner.boundaries()
        }
    };
}
