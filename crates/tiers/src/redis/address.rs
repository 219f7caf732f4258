//! Where a server is and how it is reached, and what may be said of it when that fails.

use std::sync::Arc;

use redis::{
    ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion, RedisError,
    RedisResult, ServerErrorKind,
};
use rustls::pki_types::ServerName;

use super::answer::is_too_large;
use crate::server::TierServer;
use crate::tier::{TierError, TierFault};
use crate::tls::{TlsPlace, tls_config};

/// Characters of what a server or the system says that an error repeats.
const TEXT_MAX: usize = 300;
/// More are not needed to find one that works.
const ADDRESSES_MAX: usize = 16;
/// For an address that the library refuses. What it says itself names no part of the address.
const FORM: &str = "it is redis://[user:password@]host[:port][/database], the port from 1 to \
                    65535, with % before codes of other letters in names and passwords";

fn off(text: impl Into<String>) -> TierError {
    TierError::new(TierFault::Off, text)
}

/// A server, and what a connection to it begins with.
#[derive(Clone)]
pub struct RedisPlace {
    pub info: ConnectionInfo,
    /// For a connection by TLS, with the name that its certificate must have.
    pub tls: Option<TlsPlace>,
}

impl RedisPlace {
    /// What errors call it.
    fn name(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => format!("{host}:{port}"),
            ConnectionAddr::TcpTls { host, port, .. } => format!("{host}:{port} by TLS"),
            ConnectionAddr::Unix(path) => path.display().to_string(),
            _ => String::new(),
        }
    }

    /// The same in another place, as Sentinel or a Cluster names it; without a host, on another
    /// port.
    ///
    /// # Errors
    /// When there can be no certificate for this name, and for a socket, which has no ports.
    pub fn moved_to(&self, host: Option<String>, port: u16) -> RedisResult<RedisPlace> {
        let host = match (host, self.info.addr()) {
            (Some(host), _) => host,
            (None, ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. }) => {
                host.clone()
            }
            (None, _) => {
                let text = "a port is named, and the server was reached by a socket";
                return Err((ErrorKind::InvalidClientConfig, text).into());
            }
        };
        let tls = match &self.tls {
            None => None,
            Some((config, _)) => {
                let name = ServerName::try_from(host.clone());
                let text = "another server is named that can have no certificate";
                let name = name.map_err(|_| (ErrorKind::InvalidClientConfig, text))?;
                Some((Arc::clone(config), name))
            }
        };
        // What encrypts is beside the address.
        let info = (self.info.clone()).set_addr(ConnectionAddr::Tcp(host, port));
        Ok(RedisPlace { info, tls })
    }
}

/// Where the server is, or those that know it.
pub enum RedisRoute {
    Server(RedisPlace),
    Sentinels {
        /// What they call the server.
        service: String,
        sentinels: Vec<RedisPlace>,
        /// The server, wherever it is: its address is nowhere yet.
        server: RedisPlace,
    },
    /// Servers of a Cluster, one of which may have what is stored here.
    Cluster(Vec<RedisPlace>),
}

/// Who says where a server is, other than its own address.
#[derive(Clone, Copy)]
pub enum RedisDiscovery<'a> {
    None,
    /// Addresses of Sentinels that know it.
    Sentinels(&'a [String]),
    /// Addresses of other servers of its Cluster.
    Cluster(&'a [String]),
}

impl RedisDiscovery<'_> {
    /// The addresses, and what they are called.
    fn named(&self) -> (&[String], &'static str) {
        match self {
            RedisDiscovery::None => (&[], ""),
            RedisDiscovery::Sentinels(urls) => (urls, "Sentinels"),
            RedisDiscovery::Cluster(urls) => (urls, "servers of the Cluster"),
        }
    }
}

/// Where the server is. Connects to nothing yet.
///
/// # Errors
/// [`TierFault::Off`], with a text that does not repeat an address: it may hold a password.
pub fn route(
    settings: &TierServer,
    discovery: RedisDiscovery<'_>,
) -> Result<RedisRoute, TierError> {
    let info = address(&settings.url, "the address of the Redis server")?;
    let (urls, kind) = discovery.named();
    if urls.len() > ADDRESSES_MAX {
        return Err(off(format!("{} {kind}, not {ADDRESSES_MAX}", urls.len())));
    }
    let others = urls.iter().enumerate().map(|(index, url)| {
        // By its place: the address itself may hold a password.
        address(url, &format!("address {} of the {kind}", index + 1))
    });
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let by_tls = |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    let tls = &settings.tls;
    let config = if by_tls(&info) || others.iter().any(by_tls) {
        Some(Arc::new(tls_config(tls)?))
    } else if tls.authorities.is_some() || tls.client.is_some() {
        return Err(off(
            "authorities and certificates need an address with rediss://",
        ));
    } else {
        None
    };
    let place = |info: ConnectionInfo| {
        let tls = match info.addr() {
            ConnectionAddr::TcpTls { host, .. } => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| off("a server by TLS needs a name that a certificate can have"))?;
                config.clone().map(|config| (config, name))
            }
            _ => None,
        };
        Ok(RedisPlace { info, tls })
    };
    if let RedisDiscovery::Cluster(_) = discovery {
        let all: Vec<_> = std::iter::once(info).chain(others).collect();
        if all.iter().any(|info| info.redis_settings().db() != 0) {
            return Err(off("a Redis Cluster has no database but 0"));
        }
        let places = all.into_iter().map(place).collect::<Result<_, _>>()?;
        return Ok(RedisRoute::Cluster(places));
    }
    if others.is_empty() {
        return place(info).map(RedisRoute::Server);
    }
    let (ConnectionAddr::Tcp(service, _) | ConnectionAddr::TcpTls { host: service, .. }) =
        info.addr()
    else {
        return Err(off(
            "Sentinel knows no sockets: the address has a service's name",
        ));
    };
    Ok(RedisRoute::Sentinels {
        service: service.clone(),
        sentinels: others.into_iter().map(place).collect::<Result<_, _>>()?,
        server: place(info)?,
    })
}

/// What an address says; errors call it `whose`.
fn address(url: &str, whose: &str) -> Result<ConnectionInfo, TierError> {
    let info = url.into_connection_info();
    let info = info.map_err(|_| off(format!("{whose} cannot be read; {FORM}")))?;
    let is_socket = matches!(info.addr(), ConnectionAddr::Unix(_));
    if !is_socket && url.contains('?') {
        // The library passes over those it does not know, such as one meant to name an authority.
        return Err(off(format!(
            "{whose} may have no parameters (`?…`); files for TLS and limits are arguments of \
             their own"
        )));
    }
    if info.redis_settings().protocol() != ProtocolVersion::RESP2 {
        return Err(off(format!("{whose} cannot choose the protocol")));
    }
    if let ConnectionAddr::TcpTls { insecure: true, .. } = info.addr() {
        return Err(off(format!(
            "the certificate is always checked, whatever {whose} says"
        )));
    }
    Ok(info)
}

impl RedisRoute {
    /// What errors call it.
    fn name(&self) -> String {
        match self {
            RedisRoute::Server(place) => place.name(),
            RedisRoute::Sentinels { service, .. } => format!("{service} by Sentinel"),
            RedisRoute::Cluster(places) => {
                let first = places.first().map(RedisPlace::name);
                format!("{} and its Cluster", first.unwrap_or_default())
            }
        }
    }

    /// The number of the database that the entries are in.
    pub fn database(&self) -> i64 {
        match self {
            RedisRoute::Server(server) | RedisRoute::Sentinels { server, .. } => {
                server.info.redis_settings().db()
            }
            RedisRoute::Cluster(_) => 0,
        }
    }

    fn places(&self) -> impl Iterator<Item = &RedisPlace> {
        let (first, others) = match self {
            RedisRoute::Server(place) => (Some(place), [].as_slice()),
            RedisRoute::Sentinels {
                server, sentinels, ..
            } => (Some(server), sentinels.as_slice()),
            RedisRoute::Cluster(places) => (None, places.as_slice()),
        };
        first.into_iter().chain(others)
    }

    /// An error of this server as one of a tier: without a password, should the server repeat it,
    /// and no longer than a line of a log may be.
    pub fn failure(&self, error: &RedisError) -> TierError {
        let (fault, why) = match error.kind() {
            ErrorKind::AuthenticationFailed
            | ErrorKind::InvalidClientConfig
            | ErrorKind::Server(ServerErrorKind::NoPerm) => (TierFault::Off, ""),
            ErrorKind::Server(
                ServerErrorKind::Moved | ServerErrorKind::CrossSlot | ServerErrorKind::ClusterDown,
            ) if !matches!(self, RedisRoute::Cluster(_)) => {
                let why = "it is one of a Redis Cluster, and was not named as such: ";
                (TierFault::Off, why)
            }
            _ if is_too_large(error) => (TierFault::TooLarge, ""),
            _ => (TierFault::Io, ""),
        };
        let mut said = error.to_string();
        for place in self.places() {
            let password = place.info.redis_settings().password();
            if let Some(password) = password.filter(|password| !password.is_empty()) {
                said = said.replace(password, "***");
            }
        }
        let said: String = said.chars().take(TEXT_MAX).collect();
        TierError::new(fault, format!("Redis at {}: {why}{said}", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_masks_the_password_that_a_server_repeats_and_is_no_longer_than_a_line() {
        let info = "redis://user:secret@host:1/2".into_connection_info();
        let route = RedisRoute::Server(RedisPlace {
            info: info.unwrap(),
            tls: None,
        });
        // As servers answer to a command that they do not know.
        let said = "unknown command 'AUTH', with args beginning with: 'user' 'secret' ";
        let said = format!("{said}{}", "x".repeat(100_000));
        let error = RedisError::from((ErrorKind::Client, "ERR", said));
        let text = route.failure(&error).text;
        assert!(text.starts_with("Redis at host:1: "), "{text}");
        assert!(
            text.contains("'user' '***'") && !text.contains("secret"),
            "{text}"
        );
        assert!(text.len() < 400, "{}", text.len());
    }
}
