//! The three calls of a jail that the compiler cannot check. All other `unsafe` of this crate is in
//! `notification.rs`.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, getegid, geteuid};
use rustix::thread::UnshareFlags;

/// As whom the first process begins.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    /// It was started as root, and has its rights until it gives them up.
    pub was_root: bool,
    /// What its user is called inside.
    pub user: u32,
}

/// The user of functions, inside the user namespace of a launcher that was not started as root.
const USER_INSIDE: u32 = 1_000;

/// Leaves every namespace. The process id namespace begins with the next child.
///
/// As root there is no user namespace: the jail's own user takes its place, because a user mapped
/// into it could be written by root alone.
pub fn unshare_all(user: u32) -> io::Result<Inside> {
    let was_root = geteuid().is_root();
    let (outer_user, outer_group) = (geteuid().as_raw(), getegid().as_raw());
    let mut flags = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    if !was_root {
        flags |= UnshareFlags::NEWUSER;
    }
    // SAFETY: the call is unsafe for programs that share descriptors or a working directory
    // between threads (`FILES`, `FS`); neither flag is given, and there is one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    if was_root {
        return Ok(Inside { was_root, user });
    }
    // user_namespaces(7): groups must be given up before a group is mapped.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write(
        "/proc/self/uid_map",
        format!("{USER_INSIDE} {outer_user} 1"),
    )?;
    fs::write(
        "/proc/self/gid_map",
        format!("{USER_INSIDE} {outer_group} 1"),
    )?;
    Ok(Inside {
        was_root,
        user: USER_INSIDE,
    })
}

/// Brings up the loopback of a network of its own.
pub fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: a structure of numbers and arrays of them, of which zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, letter) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = (*letter).cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: netdevice(7): the call reads a name and flags from a structure of this type, which
    // lives until it returns.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// `Some` in the parent, `None` in the child.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the launcher has one thread, so that no lock is held by another one and the child
    // may call anything.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Pid::from_raw(pid))
}
