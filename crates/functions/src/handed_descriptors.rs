//! Descriptors that the launcher of a jail hands to the server before any code of a user's runs,
//! by the socket that frames will go by.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Room for as many as are handed over at once.
const ROOM_BYTES: usize = rustix::cmsg_space!(ScmRights(2));

/// What a byte before the first frame brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HandedKind {
    /// A listener at the port of the API.
    Api = 0xa1,
    /// A datagram socket and a listener at the port of names.
    Names = 0xa2,
    /// What hands connects over.
    Connects = 0xa3,
    /// Where the process says which requests it starts.
    Starts = 0xa4,
}

/// Hands descriptors to the server.
pub fn hand_over(
    socket: BorrowedFd<'_>,
    kind: HandedKind,
    handed: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); ROOM_BYTES];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(handed));
    let mark = [kind as u8];
    sendmsg(
        socket,
        &[IoSlice::new(&mark)],
        &mut rights,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Takes `COUNT` descriptors over; `None` when the process has ended before.
pub async fn take_over<const COUNT: usize>(
    socket: &UnixStream,
    kind: HandedKind,
) -> io::Result<Option<[OwnedFd; COUNT]>> {
    let taken = socket
        .async_io(Interest::READABLE, || {
            let mut mark = [0];
            let mut space = [MaybeUninit::uninit(); ROOM_BYTES];
            let mut rights = RecvAncillaryBuffer::new(&mut space);
            // One byte: what is behind it is not for here.
            let mut bytes = [IoSliceMut::new(&mut mark)];
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let received = recvmsg(socket, &mut bytes, &mut rights, flags)?;
            if received.bytes == 0 {
                return Ok(None);
            }
            let mut handed = Vec::new();
            for message in rights.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    handed.extend(descriptors);
                }
            }
            Ok(Some((mark[0], handed)))
        })
        .await?;
    let Some((mark, handed)) = taken else {
        return Ok(None);
    };
    match <[OwnedFd; COUNT]>::try_from(handed) {
        Ok(handed) if mark == kind as u8 => Ok(Some(handed)),
        _ => Err(io::Error::other(format!(
            "{kind:?} did not come from the launcher"
        ))),
    }
}
