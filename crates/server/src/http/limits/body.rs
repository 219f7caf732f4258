//! Reading a request's body within its limits.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use tokio::time::Instant;

use super::body_budget::{Budget, Counted, FREE_BYTES, Share};
use crate::http::wire::error::{ApiError, Kind};
use crate::serve::Limits;

/// How many times the limit is read and dropped before a body that is too large is refused in
/// the middle. Most clients write their whole body before they look for an answer; cut off, they
/// would report a broken connection instead of the reason.
const DISCARD_TIMES: u64 = 4;

/// Of a block of a body beyond these: what one read of the connection brings at most, by default.
const BLOCK_BYTES: usize = 64 * 1_024;

/// A body of more bytes is put together on a thread that parses large ones.
const JOINED_HERE_MAX: u64 = 256 * 1_024;

/// A body may come in so many pieces, and in more as it grows.
const PIECES_FREE: u64 = 1_024;

/// One more piece for each so many bytes, of a body that is read as a whole. A piece takes half a
/// microsecond, as much as some 270 bytes do: a mebibyte takes 2 ms in large pieces, 11 in those of
/// 64 bytes, and 550 in those of one. Clients write bodies in pieces of kilobytes.
const WHOLE_PIECE_BYTES: u64 = 64;

/// The same of a body of lines: one line may be one piece, and has more bytes than this.
pub const LINE_PIECE_BYTES: u64 = 16;

/// A body in memory, which is counted in a budget until it is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    bytes: Bytes,
    counted: Counted<'a>,
}

impl Held<'_> {
    /// The body.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Counts what has been made of the body: its arrays and objects, which may take more memory
    /// than their text.
    ///
    /// # Errors
    /// More than the share bears; the refusal of `share`.
    pub fn count_parsed(
        &mut self,
        bytes: usize,
        share: impl Fn() -> Result<Share, ApiError>,
    ) -> Result<(), ApiError> {
        let more = bytes.saturating_sub(self.bytes.len());
        self.counted.add(more, share)
    }

    /// The body, which does not count any more once this value is dropped.
    pub fn shared(&self) -> Bytes {
        self.bytes.clone()
    }
}

/// Reads the whole body. `share` says in whose share of the budget it counts; it is called for
/// large bodies only, before anything of the budget is taken.
///
/// # Errors
/// A body that is too large or too slow, a broken one, one more than its share of the budget
/// bears, or the refusal of `share`.
pub async fn read<'a>(
    body: Incoming,
    limits: &Limits,
    budget: &'a Budget,
    share: impl Fn() -> Result<Share, ApiError>,
) -> Result<Held<'a>, ApiError> {
    let mut held = Held {
        bytes: Bytes::new(),
        counted: Counted::new(budget),
    };
    if body.is_end_stream() {
        return Ok(held);
    }
    let incoming = Paced::new(body, limits, WHOLE_PIECE_BYTES);
    collect(incoming, &mut held, share).await.map(|()| held)
}

/// A body that must come at a pace, and not in very many pieces.
pub struct Paced {
    body: Incoming,
    /// Since when it is waited for; each byte that comes moves this on, up to now. So a body
    /// that came quickly and then stands still has won no more time than one that comes slowly.
    since: Instant,
    read: u64,
    pieces: u64,
    /// One more piece for each so many bytes.
    piece_bytes: u64,
    limits: Limits,
}

impl Paced {
    /// A body of which nothing has been read.
    pub fn new(body: Incoming, limits: &Limits, piece_bytes: u64) -> Paced {
        Paced {
            body,
            since: Instant::now(),
            read: 0,
            pieces: 0,
            piece_bytes,
            limits: *limits,
        }
    }

    /// Counts the wait for more from now on.
    pub fn begin_again(&mut self) {
        self.since = Instant::now();
    }

    /// The next piece of data; `None` at the end.
    ///
    /// # Errors
    /// A body that is too slow, broken, or in too many pieces.
    pub async fn data(&mut self) -> Result<Option<Bytes>, ApiError> {
        let until = self.since + Duration::from_millis(self.limits.body_ms);
        let next = tokio::time::timeout_at(until, data(&mut self.body)).await;
        let Ok(next) = next else {
            let (body_ms, rate) = (self.limits.body_ms, self.limits.rate_bytes_min);
            let message = format!(
                "The body came too slowly, after {} bytes. It may stand still for {body_ms} ms, \
                 and {rate} bytes a second are needed to win more.",
                self.read
            );
            return Err(ApiError::new(Kind::RequestTimeout, message));
        };
        if let Ok(Some(data)) = &next {
            self.read += data.len() as u64;
            let won = self.limits.won(data.len() as u64);
            self.since = (self.since + won).min(Instant::now());
            self.pieces += 1;
            if self.pieces > PIECES_FREE + self.read / self.piece_bytes {
                return Err(self.too_many_pieces());
            }
        }
        next
    }

    fn too_many_pieces(&self) -> ApiError {
        let (read, piece_bytes) = (self.read, self.piece_bytes);
        let message = format!(
            "The body came in too many pieces, the last after {read} bytes: it may come in \
             {PIECES_FREE}, and in one more for each {piece_bytes} bytes. Send it in larger chunks."
        );
        ApiError::new(Kind::BadRequest, message)
    }
}

async fn collect(
    mut incoming: Paced,
    held: &mut Held<'_>,
    share: impl Fn() -> Result<Share, ApiError>,
) -> Result<(), ApiError> {
    let bytes_max = incoming.limits.body_bytes_max;
    let declared = incoming.body.size_hint().lower();
    if declared > bytes_max as u64 {
        return Err(discard(incoming).await);
    }
    if declared > FREE_BYTES as u64
        && let Err(refusal) = held.counted.belongs_to(&share)
    {
        return Err(discard_apart(incoming, refusal));
    }
    let mut blocks = Blocks::new(declared);
    while let Some(next) = incoming.data().await? {
        if incoming.read > bytes_max as u64 {
            drop(blocks);
            return Err(discard(incoming).await);
        }
        if let Err(refusal) = held.counted.add(next.len(), &share) {
            return Err(discard_apart(incoming, refusal));
        }
        if blocks.is_empty() && incoming.body.is_end_stream() {
            // The usual body comes in one piece and is not copied.
            held.bytes = next;
            return Ok(());
        }
        blocks.append(&next);
    }
    held.bytes = if incoming.read > JOINED_HERE_MAX {
        // It is copied as a whole, which takes a millisecond for each few megabytes.
        let joined = tokio::task::spawn_blocking(|| blocks.join()).await;
        joined.map_err(|broken| ApiError::internal(broken.to_string()))?
    } else {
        blocks.join()
    };
    Ok(())
}

/// Refuses a body at once, and reads on apart: a client that writes its whole body before it
/// looks would find a broken connection instead of the reason.
fn discard_apart(incoming: Paced, refusal: ApiError) -> ApiError {
    tokio::task::spawn_local(discard(incoming));
    refusal
}

/// The beginning of a body, in blocks that stay where they are. One buffer that grows by being
/// moved leaves behind all the buffers it grew out of; with many slow bodies, memory held was
/// twice to four times what was counted.
struct Blocks {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
    /// Of the next block.
    block_bytes: usize,
}

impl Blocks {
    /// None yet, of a body of at least `declared` bytes; 0 when its length was not announced.
    fn new(declared: u64) -> Blocks {
        let declared = usize::try_from(declared).unwrap_or(usize::MAX);
        Blocks {
            full: Vec::new(),
            last: Vec::new(),
            block_bytes: match declared {
                0 => FREE_BYTES,
                declared => FREE_BYTES.min(declared),
            },
        }
    }

    fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.last.len() == self.last.capacity() {
                let next = Vec::with_capacity(self.block_bytes);
                let last = std::mem::replace(&mut self.last, next);
                self.full.push(last);
                self.block_bytes = BLOCK_BYTES;
            }
            let room = self.last.capacity() - self.last.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.last.extend_from_slice(now);
            bytes = later;
        }
    }

    /// All of them as one. A body of one block is not copied.
    fn join(mut self) -> Bytes {
        self.full.retain(|block| !block.is_empty());
        if self.full.is_empty() {
            return self.last.into();
        }
        self.full.push(self.last);
        self.full.concat().into()
    }
}

async fn data(body: &mut Incoming) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => return Ok(Some(data)),
            // Trailers, which nothing here reads.
            Ok(Err(_)) => {}
            Err(_) => return Err(ApiError::new(Kind::BadRequest, "The body broke off.")),
        }
    }
    Ok(None)
}

/// Reads on and keeps nothing, so that the client comes to look for its answer.
async fn discard(mut incoming: Paced) -> ApiError {
    let bytes_max = incoming.limits.body_bytes_max;
    let rest = incoming.body.size_hint().lower();
    let patience = DISCARD_TIMES * bytes_max as u64;
    while incoming.read.saturating_add(rest) <= patience && incoming.read <= patience {
        match incoming.data().await {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    let message = format!("A body may have at most {bytes_max} bytes.");
    ApiError::new(Kind::PayloadTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends `count` bytes in pieces of `piece` bytes; the blocks it takes, and whether the same
    /// bytes come back.
    fn gather(declared: u64, count: usize, piece: usize) -> (usize, bool) {
        let sent: Vec<u8> = (0..count).map(|at| (at % 251) as u8).collect();
        let mut blocks = Blocks::new(declared);
        for piece in sent.chunks(piece) {
            blocks.append(piece);
        }
        let taken = blocks.full.iter().filter(|block| !block.is_empty()).count();
        let taken = taken + usize::from(!blocks.last.is_empty());
        (taken, blocks.join() == sent)
    }

    #[test]
    fn a_body_comes_back_from_its_blocks_however_it_came() {
        for (declared, count, piece, wanted) in [
            (0, 0, 1, 0),
            (5, 5, 2, 1),
            (0, 16_384, 1_000, 1),
            (16_385, 16_385, 16_384, 2),
            (1_000_000, 81_920, 81_920, 2),
            (1_000_000, 81_921, 3, 3),
            (u64::MAX, 300_000, 65_536, 6),
        ] {
            let gathered = gather(declared, count, piece);
            assert_eq!(
                gathered,
                (wanted, true),
                "{count} bytes in pieces of {piece}"
            );
        }
    }

    #[test]
    fn a_block_takes_no_more_than_was_announced_or_its_own_size() {
        let held = |declared, count| {
            let mut blocks = Blocks::new(declared);
            blocks.append(&vec![0; count]);
            let blocks = blocks.full.iter().chain([&blocks.last]);
            blocks.map(Vec::capacity).sum::<usize>()
        };
        assert_eq!(held(100, 3), 100);
        assert_eq!(held(1_000_000, 3), FREE_BYTES);
        assert_eq!(held(1_000_000, 524_288), FREE_BYTES + 8 * BLOCK_BYTES);
    }
}
