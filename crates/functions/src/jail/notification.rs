//! Calls that a filter of the kernel hands over to another process (`seccomp_unotify(2)`), and what
//! else of sockets the compiler cannot check.
#![allow(unsafe_code)]

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Of x86-64: the same calls under numbers of their own.
const X32: u32 = 0x4000_0000;

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct HandedCall {
    id: u64,
    /// The thread that calls, as this process names it.
    pub thread: u32,
    /// What it calls with.
    pub arguments: [u64; 6],
}

/// Hands over each `connect` of this process and of its children from now on. New rights must be
/// refused already.
pub fn hand_over_connects() -> io::Result<OwnedFd> {
    let step = |code: u32, (yes, no): (u8, u8), k: u32| libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    };
    let (load, equal) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
    );
    let (answer, connect) = (libc::BPF_RET | libc::BPF_K, libc::SYS_connect as u32);
    let mut steps = [
        // The number of the call stands first. The other filters refuse other architectures.
        step(load, (0, 0), 0),
        step(equal, (1, 0), connect),
        step(equal, (0, 1), connect | X32),
        step(answer, (0, 0), libc::SECCOMP_RET_USER_NOTIF),
        step(answer, (0, 0), libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: seccomp(2) reads a program of this form, which lives until it returns.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has returned a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

/// Takes a call over. Blocks where none waits.
pub fn receive(listener: BorrowedFd<'_>) -> io::Result<HandedCall> {
    // SAFETY: a structure of numbers, of which zeros are a value; the call wants them.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes a structure of this type, which lives until it returns.
    check(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut call,
        )
    })?;
    Ok(HandedCall {
        id: call.id,
        thread: call.pid,
        arguments: call.data.args,
    })
}

/// Whether the call still waits: only then its thread has been the same all the time.
pub fn stands(listener: BorrowedFd<'_>, call: &HandedCall) -> bool {
    // SAFETY: the call reads a number, which lives until it returns.
    let valid = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const call.id,
        )
    };
    valid == 0
}

/// Answers a call: with 0, or with an error of the system.
pub fn answer(listener: BorrowedFd<'_>, call: &HandedCall, error: i32) -> io::Result<()> {
    let answer = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error: -error,
        flags: 0,
    };
    // SAFETY: the call reads a structure of this type, which lives until it returns.
    check(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw const answer,
        )
    })
}

/// Puts a descriptor in the place of one that the caller has.
pub fn replace(
    listener: BorrowedFd<'_>,
    call: &HandedCall,
    (number, closes_on_exec): (u32, bool),
    by: BorrowedFd<'_>,
) -> io::Result<()> {
    let flags = if closes_on_exec { libc::O_CLOEXEC } else { 0 };
    let added = libc::seccomp_notif_addfd {
        id: call.id,
        flags: libc::SECCOMP_ADDFD_FLAG_SETFD as u32,
        srcfd: by.as_raw_fd().cast_unsigned(),
        newfd: number,
        newfd_flags: flags.cast_unsigned(),
    };
    // SAFETY: the call reads a structure of this type, which lives until it returns.
    check(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ADDFD,
            &raw const added,
        )
    })
}

/// Which network a socket is of: a number that no other network of this machine has had.
pub fn network_of(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut bytes = size_of::<u64>() as libc::socklen_t;
    // SAFETY: socket(7): the call writes a number of this size, and its size.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut bytes,
        )
    })?;
    Ok(cookie)
}

/// Linux, `asm-generic/socket.h`.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Gives the loopback of a network of its own one more address.
pub fn add_loopback_address(address: Ipv4Addr) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    for (call, address) in [
        (libc::SIOCSIFADDR, address),
        (libc::SIOCSIFNETMASK, Ipv4Addr::BROADCAST),
    ] {
        // SAFETY: a structure of numbers and arrays of them, of which zeros are a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, letter) in request.ifr_name.iter_mut().zip(b"lo:1") {
            *place = (*letter).cast_signed();
        }
        let mut bytes = [0; 14];
        bytes[2..6].copy_from_slice(&address.octets());
        request.ifr_ifru.ifru_addr = libc::sockaddr {
            sa_family: libc::AF_INET as libc::sa_family_t,
            sa_data: bytes.map(u8::cast_signed),
        };
        // SAFETY: netdevice(7): the call reads a name and an address from a structure of this
        // type, which lives until it returns.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), call, &raw const request) })?;
    }
    Ok(())
}

/// Lets a descriptor be waited for.
pub fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: it must stay open and the same while it is watched; who owns it does both.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    Ok(watched?)
}

fn check(returned: i32) -> io::Result<()> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
