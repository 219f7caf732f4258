//! What other processes have invalidated, as the server passes it on to those that listen.
//!
//! A notice lets memory forget at once and promises nothing: one that is lost leaves an answer in
//! memory for as long as it may stay there anyway.

use std::time::{Duration, Instant};

use redis::{Msg, RedisResult};

use super::RedisTier;
use super::connection::ServerConnection;
use crate::tier::{ListenEvent, TierError, TierFault};

/// How often a listener is called while there is no notice.
const SLICE: Duration = Duration::from_millis(200);
/// Slices without a notice after which the connection is given up: its other end may be gone.
const QUIET_MAX: u32 = 300;
/// Largest notice, in bytes.
pub const NOTICE_BYTES_MAX: usize = 4_096;
/// Bytes of what the server says at once. Larger than a notice, so that one of another program is
/// passed over and does not end the connection.
const SAID_BYTES_MAX: usize = 1 << 20;

impl RedisTier {
    fn channel(&self) -> String {
        format!("{}invalidated", self.settings.prefix)
    }

    /// Where it is said that a lease was given back.
    pub fn released_channel(&self) -> String {
        format!("{}released", self.settings.prefix)
    }

    /// Passes a notice on to all that listen now.
    ///
    /// # Errors
    /// [`TierFault::TooLarge`] above [`NOTICE_BYTES_MAX`]; those of the connection.
    pub fn announce(&self, notice: &[u8]) -> Result<(), TierError> {
        if notice.len() > NOTICE_BYTES_MAX {
            let text = format!("{} bytes in a notice, not {NOTICE_BYTES_MAX}", notice.len());
            return Err(TierError::new(TierFault::TooLarge, text));
        }
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.channel()).arg(notice);
        self.with(|connection| publish.exec(connection))
    }

    /// Calls `on_notice` with what is announced, on this thread, until it returns false or there
    /// was nothing for a minute.
    ///
    /// # Errors
    /// When there is no connection, or it has ended.
    pub fn listen(
        &self,
        mut on_notice: impl FnMut(ListenEvent<'_>) -> bool,
    ) -> Result<(), TierError> {
        let failure = |error| self.failure(&error);
        let mut connection = self.connect().map_err(failure)?;
        let mut subscribe = redis::cmd("SUBSCRIBE");
        let of_leases = self.released_channel();
        let subscribed = connection.open_channel(subscribe.arg(self.channel()).arg(&of_leases));
        subscribed.map_err(failure)?;
        let releases = self.releases.own();
        let _listener = releases.map(|releases| releases.listen());
        let mut is_wanted = on_notice(ListenEvent::Began);
        let (mut quiet, mut last_quiet) = (0, Instant::now());
        while is_wanted && quiet < QUIET_MAX {
            is_wanted = if let Some(message) = next(&mut connection).map_err(failure)? {
                quiet = 0;
                if message.get_channel_name() == of_leases {
                    if let Some(releases) = releases {
                        releases.release(message.get_payload_bytes());
                    }
                    // Releases may come without a pause, and who listens has other work, too.
                    if last_quiet.elapsed() < SLICE {
                        continue;
                    }
                    last_quiet = Instant::now();
                    is_wanted = on_notice(ListenEvent::Quiet);
                    continue;
                }
                let notice = message.get_payload_bytes();
                notice.len() > NOTICE_BYTES_MAX || on_notice(ListenEvent::Notice(notice))
            } else {
                quiet += 1;
                on_notice(ListenEvent::Quiet)
            };
        }
        Ok(())
    }
}

/// The next message; none if there is none for a moment.
fn next(connection: &mut ServerConnection) -> RedisResult<Option<Msg>> {
    if !connection.is_said_within(SLICE)? {
        return Ok(None);
    }
    let said = connection.said(SAID_BYTES_MAX)?.extract_error()?;
    // Others are answers to commands that this connection does not send.
    Ok(Msg::from_owned_value(said))
}
