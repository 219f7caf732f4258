//! Who asks, when proxies stand between.
//!
//! Any client can send `X-Forwarded-For`. Only what trusted proxies added to it counts: it is read
//! from its end, where the nearest proxy wrote, and not past the first address that is not known
//! to be a proxy.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{HeaderMap, HeaderName};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Most proxies in a row: more than any set-up has, and each costs a look.
const HOPS_MAX: usize = 32;

/// Which proxies are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrustedProxies {
    /// None: the client is the other end of the connection.
    #[default]
    None,
    /// So many, the one that connected included. Safe only where no client can connect past them.
    Hops(usize),
    /// Those with an address in one of these networks.
    Networks(Vec<Network>),
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: u128,
    bits: u32,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The address.
    pub address: IpAddr,
    /// Whether the client's own connection is a TLS one.
    pub is_secure: bool,
    /// The deployment, by [`engine::Deployment::seq`], from whose jail it has connected.
    pub deployment: Option<i64>,
}

impl Client {
    /// Code of a function. Its address is one that no host has, each deployment another (RFC 4193):
    /// functions share no bound by address with clients of this host.
    pub fn in_jail(deployment: i64) -> Client {
        let network = 0xfd00_u128 << 112 | u128::from(deployment as u64 & 0xffff_ffff_ffff) << 64;
        Client {
            address: IpAddr::V6(Ipv6Addr::from_bits(network | 1)),
            is_secure: false,
            deployment: Some(deployment),
        }
    }
}

impl Network {
    /// Reads `10.0.0.0/8`, `fd00::/8`, or one address.
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (bits_max, before) = match address {
            IpAddr::V4(_) => (32, 96),
            IpAddr::V6(_) => (128, 0),
        };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= bits_max)?,
            None => bits_max,
        } + before;
        let first = number(address) & mask(bits);
        Some(Network { first, bits })
    }

    fn holds(&self, address: IpAddr) -> bool {
        number(address) & mask(self.bits) == self.first
    }
}

/// An IPv4 address counts as the IPv6 one that stands for it.
fn number(address: IpAddr) -> u128 {
    let address: Ipv6Addr = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    address.to_bits()
}

fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

impl TrustedProxies {
    /// Reads how many proxies there are, or the networks they are in, separated by commas.
    ///
    /// # Errors
    /// What is needed instead.
    pub fn parse(text: &str) -> Result<TrustedProxies, String> {
        if text.is_empty() {
            return Ok(TrustedProxies::None);
        }
        match text.parse::<usize>() {
            Ok(0) => return Ok(TrustedProxies::None),
            Ok(hops) if hops <= HOPS_MAX => return Ok(TrustedProxies::Hops(hops)),
            Ok(_) => return Err(format!("at most {HOPS_MAX} proxies can stand in a row")),
            Err(_) => {}
        }
        let networks = text.split(',').map(|part| Network::parse(part.trim()));
        networks
            .collect::<Option<Vec<_>>>()
            .map(TrustedProxies::Networks)
            .ok_or_else(|| {
                "needed: a number of proxies, or networks such as 10.0.0.0/8,fd00::/8".to_owned()
            })
    }

    /// Who asks, where `peer` connected.
    pub fn client(&self, peer: Client, headers: &HeaderMap) -> Client {
        if *self == TrustedProxies::None || peer.deployment.is_some() {
            return peer;
        }
        let mut client = peer;
        let mut nearest = backwards(headers, X_FORWARDED_FOR);
        let mut schemes = backwards(headers, X_FORWARDED_PROTO);
        for hop in 0..HOPS_MAX {
            if !self.is_proxy(hop, client.address) {
                break;
            }
            // The last proxy that says something of the scheme speaks for those before it.
            if let Some(scheme) = schemes.next() {
                client.is_secure = scheme.eq_ignore_ascii_case("https");
            }
            let Some(address) = nearest.next().and_then(address) else {
                break;
            };
            client.address = address;
        }
        client
    }

    /// Whether the one with this address, so many hops away, is a trusted proxy.
    fn is_proxy(&self, hop: usize, address: IpAddr) -> bool {
        match self {
            TrustedProxies::None => false,
            TrustedProxies::Hops(hops) => hop < *hops,
            TrustedProxies::Networks(networks) => {
                networks.iter().any(|network| network.holds(address))
            }
        }
    }
}

/// The elements of a list header from the end, over all its lines.
fn backwards(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).iter().rev();
    lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(',').map(str::trim))
}

/// An address, also with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = || text.parse().map(|socket: std::net::SocketAddr| socket.ip());
    let address: IpAddr = bare.parse().or_else(|_| with_port()).ok()?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str, is_secure: bool) -> Client {
        Client {
            address: address.parse().unwrap(),
            is_secure,
            deployment: None,
        }
    }

    /// `lines` are headers; the peer is 10.0.0.1, without TLS.
    #[track_caller]
    fn check(trusted: &str, lines: &[(&'static str, &str)], expected: (&str, bool)) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let trusted = TrustedProxies::parse(trusted).unwrap();
        let found = trusted.client(client("10.0.0.1", false), &headers);
        assert_eq!(
            found,
            client(expected.0, expected.1),
            "{trusted:?} {lines:?}"
        );
    }

    const FOR: &str = "x-forwarded-for";
    const PROTO: &str = "x-forwarded-proto";

    #[test]
    fn forwarded_headers_count_from_trusted_proxies_only() {
        let lines = [(FOR, "1.1.1.1"), (PROTO, "https")];
        check("", &lines, ("10.0.0.1", false));
        check("0", &lines, ("10.0.0.1", false));
        check("192.168.0.0/16", &lines, ("10.0.0.1", false));
    }

    #[test]
    fn each_hop_counts_one_address_from_the_end() {
        let lines = [(FOR, "6.6.6.6, 1.1.1.1, 10.0.0.2")];
        check("1", &lines, ("10.0.0.2", false));
        check("2", &lines, ("1.1.1.1", false));
        check("3", &lines, ("6.6.6.6", false));
        check("9", &lines, ("6.6.6.6", false));
        let split = [(FOR, "6.6.6.6"), (FOR, "1.1.1.1"), (FOR, "10.0.0.2")];
        check("2", &split, ("1.1.1.1", false));
    }

    #[test]
    fn networks_are_left_at_the_first_stranger_whatever_he_claims() {
        let lines = [(FOR, "10.0.0.9, 1.1.1.1, 10.0.0.2"), (PROTO, "https")];
        check("10.0.0.0/8", &lines, ("1.1.1.1", true));
        check("10.0.0.1", &lines, ("10.0.0.2", true));
        check("10.0.0.1/32, 10.0.0.2", &lines, ("1.1.1.1", true));
        check("::ffff:10.0.0.0/104", &lines, ("1.1.1.1", true));
        check("0.0.0.0/0", &lines, ("10.0.0.9", true));
    }

    #[test]
    fn nonsense_ends_the_search() {
        for nonsense in ["", "unknown", "1.1.1", "1.1.1.1, ,", "1.1.1.1, _hidden"] {
            check("2", &[(FOR, nonsense)], ("10.0.0.1", false));
        }
        check("2", &[(FOR, "unknown, 1.1.1.1")], ("1.1.1.1", false));
    }

    #[test]
    fn addresses_may_have_ports_and_brackets() {
        for (text, expected) in [
            ("1.1.1.1:99", "1.1.1.1"),
            ("[2001:db8::1]:99", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:1.1.1.1", "1.1.1.1"),
        ] {
            check("1", &[(FOR, text)], (expected, false));
        }
    }

    #[test]
    fn the_scheme_is_the_one_the_client_used() {
        check("1", &[(PROTO, "HTTPS")], ("10.0.0.1", true));
        check("1", &[(PROTO, "http")], ("10.0.0.1", false));
        check(
            "1",
            &[(PROTO, "https, http"), (FOR, "1.1.1.1")],
            ("1.1.1.1", false),
        );
        let two = [(PROTO, "https, http"), (FOR, "1.1.1.1, 10.0.0.2")];
        check("2", &two, ("1.1.1.1", true));
        let one = [(PROTO, "https"), (FOR, "1.1.1.1, 10.0.0.2")];
        check("2", &one, ("1.1.1.1", true));
    }

    #[test]
    fn proxies_are_refused_unless_numbers_or_networks() {
        for text in [
            "-1",
            "33",
            "10.0.0.0/33",
            "::/129",
            "localhost",
            "10.0.0.0/8,",
            "a/b",
        ] {
            assert!(TrustedProxies::parse(text).is_err(), "{text}");
        }
    }
}
