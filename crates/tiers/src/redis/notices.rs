//! What other processes have invalidated, as the server passes it on to those that listen.
//!
//! A notice lets memory forget at once. One that is lost leaves an answer in memory for as long as
//! it may stay there anyway; that its number is missing ends what memory knows by the stream.

use std::io;
use std::time::{Duration, Instant};

use redis::{Msg, RedisResult, ScriptInvocation, Value};

use super::RedisTier;
use super::connection::ServerConnection;
use super::stream::{StreamFollower, StreamNotice, StreamStep};
use crate::tier::{ListenEvent, TierError, TierFault};

/// How often a listener is called while there is no notice.
const SLICE: Duration = Duration::from_millis(200);
/// Slices in which the server says nothing after which the connection is given up: its other end
/// may be gone.
const QUIET_MAX: u32 = 300;
/// Largest notice, in bytes.
pub const NOTICE_BYTES_MAX: usize = 4_096;
/// Bytes of what the server says at once. Larger than a notice, so that one of another program is
/// passed over and does not end the connection.
const SAID_BYTES_MAX: usize = 1 << 20;

impl RedisTier {
    fn channel(&self) -> String {
        format!("{}invalidated", self.channel_prefix)
    }

    /// Where it is said that a lease was given back.
    pub fn released_channel(&self) -> String {
        format!("{}released", self.channel_prefix)
    }

    /// Adds to a script that changes `key` what has the change numbered and announced.
    ///
    /// # Errors
    /// [`TierFault::TooLarge`] above [`NOTICE_BYTES_MAX`].
    pub fn announce_by(
        &self,
        call: &mut ScriptInvocation<'_>,
        notice: &[u8],
    ) -> Result<(), TierError> {
        if notice.len() > NOTICE_BYTES_MAX {
            let text = format!("{} bytes in a notice, not {NOTICE_BYTES_MAX}", notice.len());
            return Err(TierError::new(TierFault::TooLarge, text));
        }
        let epoch = self.epoch();
        call.key(self.stream_key()).arg(epoch.as_slice());
        call.arg(self.channel()).arg(notice);
        Ok(())
    }

    /// Calls `on_notice` with what is announced, on this thread, until it returns false or the
    /// server says nothing for a minute. It is called with [`ListenEvent::Began`] again where
    /// notices may have been missed. One thread of each process listens.
    ///
    /// # Errors
    /// When there is no connection, or it has ended.
    pub fn listen(
        &self,
        mut on_notice: impl FnMut(ListenEvent<'_>) -> bool,
    ) -> Result<(), TierError> {
        let failure = |error| self.failure(&error);
        let mut connection = self.connect().map_err(failure)?;
        let is_asked = connection.speak_resp3().map_err(failure)?;
        let mut subscribe = redis::cmd("SUBSCRIBE");
        let of_leases = self.released_channel();
        let subscribed = connection.open_channel(subscribe.arg(self.channel()).arg(&of_leases));
        subscribed.map_err(failure)?;
        let releases = self.releases.own();
        let _listener = releases.map(|releases| releases.listen());
        let state = self.stream.own().filter(|_| is_asked);
        let mut follower = state.map(|state| StreamFollower::new(state, self.host));
        let mut is_wanted = on_notice(ListenEvent::Began);
        let (mut quiet, mut last_quiet) = (0, Instant::now());
        while is_wanted && quiet < QUIET_MAX {
            if let Some(follower) = &mut follower {
                self.ask(&mut connection, follower).map_err(failure)?;
            }
            let said = next(&mut connection).map_err(failure)?;
            quiet = if said.is_none() { quiet + 1 } else { 0 };
            let event = match said {
                Some(ChannelSaid::Message(message)) if message.get_channel_name() == of_leases => {
                    if let Some(releases) = releases {
                        releases.release(message.get_payload_bytes());
                    }
                    None
                }
                Some(ChannelSaid::Message(message)) => {
                    is_wanted = pass_on(&message, follower.as_mut(), &mut on_notice);
                    continue;
                }
                Some(ChannelSaid::Answer(answer)) => {
                    let step = follower.as_mut().map(|all| all.take_answer(answer));
                    let step = step.transpose().map_err(failure)?;
                    (step == Some(StreamStep::Gap)).then_some(ListenEvent::Began)
                }
                None => Some(ListenEvent::Quiet),
            };
            // Others may come without a pause, and who listens has other work, too.
            if event.is_none() && last_quiet.elapsed() < SLICE {
                continue;
            }
            last_quiet = Instant::now();
            is_wanted = on_notice(event.unwrap_or(ListenEvent::Quiet));
        }
        Ok(())
    }

    /// Sends the question of the stream, if it is time.
    fn ask(
        &self,
        connection: &mut ServerConnection,
        follower: &mut StreamFollower<'_>,
    ) -> RedisResult<()> {
        if follower.is_lost() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        if follower.is_due() {
            follower.ask();
            connection.post(&self.stream_question().get_packed_pipeline())?;
        }
        Ok(())
    }
}

/// Passes a notice on to who listens; whether more is wanted.
fn pass_on(
    message: &Msg,
    follower: Option<&mut StreamFollower<'_>>,
    on_notice: &mut impl FnMut(ListenEvent<'_>) -> bool,
) -> bool {
    let bytes = message.get_payload_bytes();
    let found = StreamNotice::of(bytes).filter(|found| found.notice.len() <= NOTICE_BYTES_MAX);
    let Some(found) = found else {
        return true;
    };
    if !on_notice(ListenEvent::Notice(found.notice)) {
        return false;
    }
    // After it: memory has forgotten what has this number.
    match follower.map(|follower| follower.take_notice(&found)) {
        Some(StreamStep::Gap) => on_notice(ListenEvent::Began),
        _ => true,
    }
}

/// What has come on the connection.
enum ChannelSaid {
    Message(Msg),
    Answer(Value),
}

/// What comes next; none if there is nothing for a moment.
fn next(connection: &mut ServerConnection) -> RedisResult<Option<ChannelSaid>> {
    if !connection.is_said_within(SLICE)? {
        return Ok(None);
    }
    let said = connection.said(SAID_BYTES_MAX)?;
    // Before RESP3 there are no answers but to the subscription.
    let is_answer = !matches!(said, Value::Push { .. }) && connection.speaks_resp3();
    if is_answer {
        return Ok(Some(ChannelSaid::Answer(said)));
    }
    // Of other kinds is what says that a channel was subscribed to.
    Ok(Msg::from_owned_value(said.extract_error()?).map(ChannelSaid::Message))
}
