//! Which addresses a function with a network may connect to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Where a connection leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectDestination {
    /// The network of the jail, which holds the API and names alone.
    Jail,
    /// A public address, or one that the operator has listed.
    Outside,
    /// What is the operator's own, or no address of a host at all.
    Refused,
}

/// Addresses with the same beginning, as `10.0.0.0/8` or `fd00::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    prefix: u8,
}

impl AddressRange {
    fn contains(&self, address: IpAddr) -> bool {
        let ((first, bits), (other, bits_too)) = (number(self.first), number(address));
        bits == bits_too && (first ^ other) & !host_mask(bits - self.prefix) == 0
    }
}

/// An address as a number, and its bits.
fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

/// The last bits of an address.
fn host_mask(bits: u8) -> u128 {
    1u128
        .checked_shl(bits.into())
        .map_or(u128::MAX, |bit| bit - 1)
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<AddressRange, String> {
        let wrong = || "needed: addresses such as 10.0.0.0/8, 192.168.1.7 or fd00::/8".to_owned();
        let (first, prefix) = text
            .split_once('/')
            .map_or((text, None), |(first, prefix)| (first, Some(prefix)));
        let first: IpAddr = first.parse().map_err(|_| wrong())?;
        let (number, bits) = number(first);
        let prefix: u8 = prefix.map_or(Ok(bits), str::parse).map_err(|_| wrong())?;
        if prefix > bits {
            return Err(format!("the length behind `/` is at most {bits}"));
        }
        if number & host_mask(bits - prefix) != 0 {
            return Err(format!("the address has bits behind its first {prefix}"));
        }
        Ok(AddressRange { first, prefix })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.prefix)
    }
}

/// What the loopback of a jail has besides its own address: resolvers look for names of IPv4 where
/// a host has an address of IPv4 that is none of a loopback (RFC 3493, `AI_ADDRCONFIG`).
pub const JAIL_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Where a connection to this address leads. Whether it is one of the host's own stands elsewhere.
pub fn judge(address: IpAddr, allowed: &[AddressRange]) -> ConnectDestination {
    let address = carried(address);
    if address.is_loopback() || address.is_unspecified() || address == JAIL_ADDRESS {
        return ConnectDestination::Jail;
    }
    let is_allowed = allowed.iter().any(|range| range.contains(address));
    let is_public = match address {
        IpAddr::V4(address) => is_public(address),
        IpAddr::V6(address) => is_public_6(address),
    };
    if is_allowed || is_public {
        ConnectDestination::Outside
    } else {
        ConnectDestination::Refused
    }
}

/// Whether the operator has listed this address.
pub fn is_listed(address: IpAddr, allowed: &[AddressRange]) -> bool {
    let address = carried(address);
    allowed.iter().any(|range| range.contains(address))
}

/// The address of IPv4 that one of IPv6 leads to, else itself.
fn carried(address: IpAddr) -> IpAddr {
    let IpAddr::V6(address) = address else {
        return address;
    };
    let bytes = address.octets();
    let last = || Ipv4Addr::from([bytes[12], bytes[13], bytes[14], bytes[15]]);
    match address.segments() {
        // Its own: unspecified, and loopback.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address.into(),
        // Compatible and mapped (RFC 4291, 2.5.5), translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0 | 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..] => last().into(),
        // 6to4 (RFC 3056).
        [0x2002, ..] => Ipv4Addr::from([bytes[2], bytes[3], bytes[4], bytes[5]]).into(),
        _ => address.into(),
    }
}

/// By the registries of special addresses (RFC 6890 and its updates).
fn is_public(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127 | 224..=255, ..]
            | [100, 64..=127, ..]
            // The machines of one provider reach its own services at it.
            | [168, 63, 129, 16]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

/// Global unicast, without protocols (Teredo among them) and documentation.
fn is_public_6(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(allowed: &[&str], addresses: &[&str], wanted: ConnectDestination) {
        let allowed: Vec<AddressRange> = allowed.iter().map(|text| text.parse().unwrap()).collect();
        for address in addresses {
            let found = judge(address.parse().unwrap(), &allowed);
            assert_eq!(found, wanted, "{address}");
        }
    }

    const PUBLIC: &str = "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.0.1 \
        172.32.0.1 192.0.1.1 192.167.0.1 198.17.0.1 198.20.0.1 223.255.255.255 2606:4700::1111 \
        2a00::1 2001:200::1 2001:4860:4860::8888 ::ffff:1.1.1.1 64:ff9b::1.1.1.1 2002:101:101::";
    const OF_JAILS: &str = "127.0.0.1 127.8.8.8 0.0.0.0 :: ::1 ::ffff:127.0.0.1 192.0.2.1 \
        64:ff9b::127.0.0.1 2002:7f00:1::1";
    const REFUSED: &str = "10.0.0.1 100.64.0.1 100.100.100.200 168.63.129.16 169.254.169.254 \
        172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.2 192.88.99.1 192.168.0.1 198.18.0.1 \
        198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 0.0.0.1 \
        ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::10.0.0.1 ::ffff:0:10.0.0.1 64:ff9b::10.0.0.1 \
        64:ff9b:1::1 2002:a00:1::1 2002:a9fe:a9fe:: 2001::1 2001:db8::1 3fff::1 fc00::1 \
        fd00:ec2::254 fe80::1 fec0::1 ff02::1 100::1 4000::1";

    #[test]
    fn addresses_lead_outside_only_where_they_are_public() {
        let list = |text: &'static str| text.split(' ').collect::<Vec<_>>();
        check(&[], &list(PUBLIC), ConnectDestination::Outside);
        check(
            &["0.0.0.0/0", "::/0"],
            &list(OF_JAILS),
            ConnectDestination::Jail,
        );
        check(&[], &list(REFUSED), ConnectDestination::Refused);
    }

    #[test]
    fn addresses_that_are_listed_lead_outside() {
        let listed = ["10.1.0.0/16", "fd00::/8", "192.168.1.7"];
        let inside = [
            "10.1.2.3",
            "::ffff:10.1.2.3",
            "2002:a01:203::1",
            "fd12::1",
            "192.168.1.7",
        ];
        check(&listed, &inside, ConnectDestination::Outside);
        check(
            &listed,
            &["10.2.0.1", "192.168.1.8", "fe80::1"],
            ConnectDestination::Refused,
        );
    }

    #[test]
    fn ranges_of_addresses_are_read_whole() {
        for (text, words) in [
            ("", "such as"),
            ("10.0.0.0/", "such as"),
            ("10.0.0.0/-1", "such as"),
            ("10.0.0/8", "such as"),
            ("host", "such as"),
            ("10.0.0.0/33", "at most 32"),
            ("fd00::/129", "at most 128"),
            ("10.0.0.1/8", "behind its first 8"),
            ("fd00::1/8", "behind its first 8"),
            ("10.0.0.0/999", "such as"),
        ] {
            let said = text.parse::<AddressRange>().unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
        let all: AddressRange = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()));
        assert_eq!(all.to_string(), "0.0.0.0/0");
        let all: AddressRange = "::/0".parse().unwrap();
        assert!(all.contains("fe80::1".parse().unwrap()));
    }
}
