//! How much of a commit is compared with cached lists row by row.

use list_cache::Batch;
use model::{Change, TableNumber};

/// Most rows of a group that the lists are asked about one by one, under the one lock of their
/// registry. One row passes over a thousand ranges in a few microseconds, so this many hold up
/// those who miss for some tens of milliseconds at the worst. A full group of requests for single
/// rows has 1,024.
const ROWS_MAX: usize = 4_096;
/// Most bytes of their images, as of one request.
const BYTES_MAX: usize = store::batch::IMAGE_BYTES_MAX;

/// Of a group with too many images, the requests with the most of them name their tables instead,
/// whose lists are all dropped.
pub(crate) fn bounded(batch: &mut Batch) {
    let mut sizes: Vec<ChangeSize> = batch
        .images
        .iter()
        .map(|images| ChangeSize::of(images))
        .collect();
    let mut rows: usize = sizes.iter().map(|size| size.rows).sum();
    let mut bytes: usize = sizes.iter().map(|size| size.bytes).sum();
    if rows <= ROWS_MAX && bytes <= BYTES_MAX {
        return;
    }
    let mut images = std::mem::take(&mut batch.images);
    while rows > ROWS_MAX || bytes > BYTES_MAX {
        let shares = sizes.iter().map(ChangeSize::share).enumerate();
        let Some((place, _)) = shares.max_by_key(|(_, share)| *share) else {
            break;
        };
        let largest = images.swap_remove(place);
        sizes.swap_remove(place);
        batch.unseen.extend(tables_of(&largest));
        // Changes of these tables by others add nothing.
        let mut place = 0;
        rows = 0;
        bytes = 0;
        while place < images.len() {
            if tables_of(&images[place]).all(|table| batch.unseen.contains(&table)) {
                images.swap_remove(place);
                sizes.swap_remove(place);
            } else {
                rows += sizes[place].rows;
                bytes += sizes[place].bytes;
                place += 1;
            }
        }
    }
    batch.images = images;
}

/// How much one request tells.
struct ChangeSize {
    rows: usize,
    bytes: usize,
}

impl ChangeSize {
    fn of(images: &[Change]) -> ChangeSize {
        let sides = images.iter().flat_map(|one| [&one.before, &one.after]);
        ChangeSize {
            rows: images.len(),
            bytes: sides.flatten().map(model::Image::size_bytes).sum(),
        }
    }

    /// What it takes of both bounds, in bytes.
    fn share(&self) -> usize {
        self.bytes + self.rows * (BYTES_MAX / ROWS_MAX)
    }
}

/// The tables of a request's changes, each once if they come one after the other.
fn tables_of(images: &[Change]) -> impl Iterator<Item = TableNumber> {
    let runs = images.chunk_by(|one, next| one.table == next.table);
    runs.map(|run| run[0].table)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Image, Mark, Period, RowId, Timestamp, Value};

    use super::*;

    /// The images of a request that inserts rows with texts of so many bytes.
    fn request(table: i64, rows: usize, text_bytes: usize) -> Arc<Vec<Change>> {
        let change = |row: usize| Change {
            table: TableNumber(table),
            id: RowId::new(&format!("r{row}")).unwrap(),
            seq: row as i64,
            before: None,
            after: Some(Image {
                created: Timestamp(0),
                updated: Timestamp(0),
                valid: Period::ALWAYS,
                system_from: Mark(1),
                permissions: "[]".into(),
                values: vec![Value::Text("x".repeat(text_bytes))],
            }),
        };
        Arc::new((0..rows).map(change).collect())
    }

    fn reported(images: Vec<Arc<Vec<Change>>>) -> (Vec<i64>, usize) {
        let mut batch = Batch {
            images,
            ..Batch::default()
        };
        bounded(&mut batch);
        let rows = batch.images.iter().map(|images| images.len()).sum();
        (batch.unseen.iter().map(|table| table.0).collect(), rows)
    }

    #[test]
    fn a_full_group_of_single_rows_is_told_row_by_row() {
        let requests = (0..1_024).map(|_| request(1, 1, 500)).collect();
        assert_eq!(reported(requests), (vec![], 1_024));
        assert_eq!(reported(vec![request(1, ROWS_MAX, 10)]), (vec![], ROWS_MAX));
    }

    #[test]
    fn the_largest_requests_of_too_large_a_group_name_their_tables() {
        let mut requests: Vec<_> = (0..10).map(|_| request(1, 1_000, 10)).collect();
        requests.extend((0..20).map(|_| request(2, 3, 10)));
        requests.push(request(3, 900, 10));
        assert_eq!(reported(requests), (vec![1], 960));
    }

    #[test]
    fn large_rows_count_as_well() {
        let mut requests = vec![request(2, 5, 10)];
        requests.extend((0..20).map(|_| request(1, 10, BYTES_MAX / 150)));
        assert_eq!(reported(requests), (vec![1], 5));
    }
}
