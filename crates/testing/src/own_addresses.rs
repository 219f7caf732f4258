//! Addresses of this host that are none of its loopback.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// The one by which it reaches others. Nothing is sent.
pub fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(address) if !address.is_loopback() => Some(address),
        _ => None,
    }
}

/// Any of version 6 that is not bound to one link.
pub fn own_ipv6_address() -> Option<Ipv6Addr> {
    // Address, number of the interface, bits of the network, scope (0 is global), …
    let listed = fs::read_to_string("/proc/net/if_inet6").ok()?;
    let mut addresses = listed.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let scope = words.get(3)?;
        let address = u128::from_str_radix(words.first()?, 16).ok()?;
        (*scope == "00").then_some(Ipv6Addr::from_bits(address))
    });
    addresses.find(|address| !address.is_loopback())
}
