//! What is said on a connection before it is closed.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest time for saying it.
const SAYING: Duration = Duration::from_secs(1);
/// Most bytes of the client that are read meanwhile.
const UNREAD_BYTES_MAX: u64 = 64 << 10;

/// Says it and closes. Reads until the client ends: a close with unread bytes would take the words
/// back. It ends either way; how is the client's affair.
pub async fn say(stream: impl AsyncRead + AsyncWrite + Unpin, words: &[u8]) {
    let _ = tokio::time::timeout(SAYING, said(stream, words)).await;
}

async fn said(mut stream: impl AsyncRead + AsyncWrite + Unpin, words: &[u8]) -> io::Result<()> {
    stream.write_all(words).await?;
    stream.shutdown().await?;
    let mut stream = stream.take(UNREAD_BYTES_MAX);
    let mut unread = [0; 4_096];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
