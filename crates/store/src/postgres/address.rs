//! Where a database is, as a URL says it: the names and the meanings are those of libpq
//! (PostgreSQL manual, "Connection Strings"), `schema` apart.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 4_096;
/// Most hosts of one URL: they are tried one after the other.
const HOSTS_MAX: usize = 8;
/// Longest name that PostgreSQL keeps whole, in bytes (its manual, "Identifiers and Key Words").
const NAME_BYTES_MAX: usize = 63;
/// How long each host has to answer, unless the URL says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Where Debian's servers have their socket, for a URL without a host.
const SOCKET_FOLDER: &str = "/var/run/postgresql";
/// How long a host may leave what was sent to it without an answer of its system.
const SILENT_MAX: Duration = Duration::from_secs(10);
const PORT: u16 = 5_432;
const SCHEMA: &str = "tidemark";

/// What the driver takes as it stands.
const OF_DRIVER: [&str; 8] = [
    "hostaddr",
    "port",
    "user",
    "password",
    "dbname",
    "connect_timeout",
    "keepalives_idle",
    "tcp_user_timeout",
];

/// What is encrypted, and what is verified; as libpq's `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted where the server wants nothing else.
    Allow,
    /// Encrypted where the server can.
    Prefer,
    /// Encrypted; who answers is not verified, unless authorities are named.
    Require,
    /// By a server that an authority vouches for.
    VerifyCa,
    /// By the server that has this name.
    VerifyFull,
}

/// A database. Neither its `Debug` nor its `Display` form has the password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    /// All but hosts.
    config: Config,
    pub(crate) hosts: Vec<DatabaseHost>,
    pub(crate) ssl_mode: SslMode,
    /// The authorities to believe, in place of the system's.
    pub(crate) ssl_root: Option<PathBuf>,
    /// Where the tables are.
    pub(crate) schema: String,
}

/// One server of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseHost {
    pub(crate) host: Host,
    /// Where it is reached, without asking for its name.
    address: Option<IpAddr>,
    pub(crate) port: u16,
}

/// Why a URL is refused. No text of it has a value of the URL but its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlFault {
    /// It does not begin so.
    Scheme,
    /// It is longer than so many bytes.
    TooLong(usize),
    /// It has more hosts than so many.
    TooManyHosts(usize),
    /// Neither one port nor as many as hosts, or likewise of addresses.
    Counts(&'static str),
    /// No parameter is called so, if that can be said.
    UnknownParameter(Option<String>),
    /// The value of the parameter is none of these.
    Value(&'static str, &'static str),
    /// A part cannot be read; what the driver says of it.
    Unreadable(String),
}

impl DatabaseUrl {
    /// The same on each of its hosts alone, if it has several.
    pub(super) fn on_each_host(&self) -> Vec<DatabaseUrl> {
        let alone = |host: &DatabaseHost| DatabaseUrl {
            hosts: vec![host.clone()],
            ..self.clone()
        };
        let several = self.hosts.iter().filter(|_| self.hosts.len() > 1);
        several.map(alone).collect()
    }

    /// What the URL of a database begins with.
    pub const SCHEME: &'static str = "postgres://";

    /// Whether a text is meant to be one.
    pub fn is_meant_by(text: &str) -> bool {
        let schemes = [Self::SCHEME, "postgresql://"];
        schemes.iter().any(|scheme| text.starts_with(scheme))
    }

    /// # Errors
    /// When it is no URL of a database.
    pub fn parse(text: &str) -> Result<DatabaseUrl, UrlFault> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlFault::TooLong(URL_BYTES_MAX));
        }
        if !DatabaseUrl::is_meant_by(text) {
            return Err(UrlFault::Scheme);
        }
        let (place, parameters) = text.split_once('?').unwrap_or((text, ""));
        // A part of a password that was not escaped would be shown as a host, or as the database.
        if place.matches('@').count() > 1 {
            let expected = "the only @ before ?; in a user or a password it is %40";
            return Err(UrlFault::Value("@", expected));
        }
        let mut ours = Parameters::default();
        let kept = parameters
            .split('&')
            .filter(|parameter| !parameter.is_empty());
        let kept: Vec<&str> = kept
            .filter_map(|parameter| ours.take(parameter).transpose())
            .collect::<Result<_, _>>()
            .map_err(|fault| match fault {
                UrlFault::UnknownParameter(_) if parameters.contains('@') => {
                    UrlFault::UnknownParameter(None)
                }
                fault => fault,
            })?;
        let url = format!("{place}?{}", kept.join("&"));
        let parsed: Config = url
            .parse()
            .map_err(|error: tokio_postgres::Error| UrlFault::Unreadable(cause(&error)))?;
        let mut hosts = parsed.get_hosts().to_vec();
        if !hosts.is_empty() && !ours.hosts.is_empty() {
            return Err(UrlFault::Value(
                "host",
                "absent where hosts stand before the path",
            ));
        }
        hosts.append(&mut ours.hosts);
        if hosts.is_empty() && parsed.get_hostaddrs().is_empty() {
            hosts.push(Host::Unix(PathBuf::from(SOCKET_FOLDER)));
        }
        Ok(DatabaseUrl {
            hosts: paired(hosts, parsed.get_hostaddrs(), parsed.get_ports())?,
            config: without_hosts(&parsed),
            ssl_mode: ours.ssl_mode.unwrap_or(SslMode::Prefer),
            ssl_root: ours.ssl_root,
            schema: ours.schema.unwrap_or_else(|| SCHEMA.to_owned()),
        })
    }

    /// How one of its servers is connected to.
    pub(crate) fn config_of(&self, one: &DatabaseHost) -> Config {
        let mut config = self.config.clone();
        match &one.host {
            Host::Tcp(name) => config.host(name),
            Host::Unix(path) => config.host_path(path),
        };
        if let Some(address) = one.address {
            config.hostaddr(address);
        }
        config.port(one.port);
        // A host that is gone says nothing: without these a call waits for hours.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENT_MAX);
        }
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(SILENT_MAX / 2);
        }
        config.keepalives_interval(Duration::from_secs(1));
        config.keepalives_retries(3);
        config
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.config.get_user()
    }

    /// The database's name: the user's, where none is named.
    pub(crate) fn database(&self) -> Option<&str> {
        self.config.get_dbname().or_else(|| self.user())
    }

    pub(crate) fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        let database = self.database().unwrap_or("the user's");
        write!(f, "database {database} at {}", hosts.join(", "))?;
        if self.schema != SCHEMA {
            write!(f, ", schema {}", self.schema)?;
        }
        Ok(())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

impl fmt::Display for DatabaseHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(name) if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            Host::Tcp(name) => write!(f, "{name}:{}", self.port),
            Host::Unix(path) => write!(f, "{}/.s.PGSQL.{}", path.display(), self.port),
        }
    }
}

impl fmt::Display for UrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UrlFault::Scheme => {
                f.write_str("a URL such as postgres://user@host:5432/database is needed")
            }
            UrlFault::TooLong(most) => write!(f, "it has more than {most} bytes"),
            UrlFault::TooManyHosts(most) => write!(f, "it names more than {most} hosts"),
            UrlFault::Counts(what) => {
                write!(f, "it names neither one {what} nor one for each host")
            }
            UrlFault::UnknownParameter(name) => write_unknown(f, name.as_deref()),
            UrlFault::Value(name, expected) => write!(f, "`{name}` must be {expected}"),
            UrlFault::Unreadable(said) => f.write_str(said),
        }
    }
}

/// A password may have a `?` in it, behind which nothing is a parameter.
fn write_unknown(f: &mut fmt::Formatter<'_>, name: Option<&str>) -> fmt::Result {
    match name {
        Some(name) => write!(f, "it has no parameter `{name}`")?,
        None => f.write_str("it has an unknown parameter, or a password whose ? is not %3F")?,
    }
    let known = OF_DRIVER.join(", ");
    write!(f, "; there are host, sslmode, sslrootcert, schema, {known}")
}

impl std::error::Error for UrlFault {}

/// The parameters that the driver does not know, or knows less of than libpq.
#[derive(Default)]
struct Parameters {
    hosts: Vec<Host>,
    ssl_mode: Option<SslMode>,
    ssl_root: Option<PathBuf>,
    schema: Option<String>,
}

impl Parameters {
    /// Takes one out, or gives it back for the driver.
    fn take<'p>(&mut self, parameter: &'p str) -> Result<Option<&'p str>, UrlFault> {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "sslmode" => self.ssl_mode = Some(ssl_mode(value)?),
            "sslrootcert" => {
                let path = decoded(value, "sslrootcert")?;
                // libpq's word for the authorities of the system, which are believed anyway.
                self.ssl_root = (path != "system").then(|| PathBuf::from(path));
            }
            // The driver would take several for one.
            "host" => {
                let hosts = decoded(value, "host")?;
                self.hosts.extend(hosts.split(',').map(host));
            }
            "schema" => self.schema = Some(schema(decoded(value, "schema")?)?),
            known if OF_DRIVER.contains(&known) => return Ok(Some(parameter)),
            other => {
                // Enough to find it, and no more than a name has.
                let shown = other.chars().take(NAME_BYTES_MAX).collect();
                return Err(UrlFault::UnknownParameter(Some(shown)));
            }
        }
        Ok(None)
    }
}

fn host(name: &str) -> Host {
    if name.starts_with('/') {
        return Host::Unix(PathBuf::from(name));
    }
    Host::Tcp(name.to_owned())
}

fn ssl_mode(value: &str) -> Result<SslMode, UrlFault> {
    Ok(match value {
        "disable" => SslMode::Disable,
        "allow" => SslMode::Allow,
        "prefer" => SslMode::Prefer,
        "require" => SslMode::Require,
        "verify-ca" => SslMode::VerifyCa,
        "verify-full" => SslMode::VerifyFull,
        _ => {
            let expected = "disable, allow, prefer, require, verify-ca or verify-full";
            return Err(UrlFault::Value("sslmode", expected));
        }
    })
}

fn schema(name: String) -> Result<String, UrlFault> {
    // An `@` may be that behind a password with a `?`, the rest of which would be shown.
    let is_whole = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(['\0', '@']);
    // A path of schemas takes `$user` for the user's name, quoted or not.
    if is_whole && !name.starts_with("pg_") && name != "$user" {
        return Ok(name);
    }
    let expected =
        "a name of 1 to 63 bytes without @ that does not begin with pg_ and is not $user";
    Err(UrlFault::Value("schema", expected))
}

/// A value with its `%`-escapes resolved.
fn decoded(value: &str, name: &'static str) -> Result<String, UrlFault> {
    let fault = || UrlFault::Value(name, "text whose %-escapes are of UTF-8");
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(fault());
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| fault())
}

/// Each host with its port and its address. There may be addresses alone.
fn paired(
    hosts: Vec<Host>,
    addresses: &[IpAddr],
    ports: &[u16],
) -> Result<Vec<DatabaseHost>, UrlFault> {
    let count = hosts.len().max(addresses.len());
    if count > HOSTS_MAX {
        return Err(UrlFault::TooManyHosts(HOSTS_MAX));
    }
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err(UrlFault::Counts("address"));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(UrlFault::Counts("port"));
    }
    let paired = (0..count).map(|nth| {
        let address = addresses.get(nth).copied();
        let named = hosts.get(nth).cloned();
        let port = ports.get(nth).or(ports.first());
        DatabaseHost {
            host: named.unwrap_or_else(|| {
                let address = address.expect("there are as many as hosts, or no hosts");
                Host::Tcp(address.to_string())
            }),
            address,
            port: port.copied().unwrap_or(PORT),
        }
    });
    Ok(paired.collect())
}

fn without_hosts(parsed: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = parsed.get_user() {
        config.user(user);
    }
    if let Some(password) = parsed.get_password() {
        config.password(password);
    }
    if let Some(database) = parsed.get_dbname() {
        config.dbname(database);
    }
    if let Some(timeout) = parsed.get_tcp_user_timeout() {
        config.tcp_user_timeout(*timeout);
    }
    config
        .application_name("tidemark")
        .keepalives_idle(parsed.get_keepalives_idle())
        .connect_timeout(*parsed.get_connect_timeout().unwrap_or(&CONNECT_TIMEOUT));
    config
}

/// What lies under an error of the driver, which alone says only at which step it came.
pub(crate) fn cause(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut under = std::error::Error::source(error);
    while let Some(source) = under {
        let said = source.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        under = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<String> {
        let url = DatabaseUrl::parse(text).unwrap();
        url.hosts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hosts_are_those_of_libpq() {
        let cases: [(&str, &[&str]); 9] = [
            ("postgres://", &["/var/run/postgresql/.s.PGSQL.5432"]),
            ("postgres://a/d", &["a:5432"]),
            ("postgresql://u:p@a:7/d", &["a:7"]),
            ("postgres://a,b:7/d", &["a:5432", "b:7"]),
            ("postgres://[::1]:7/d", &["[::1]:7"]),
            ("postgres://u@%2Ftmp%2Fx/d", &["/tmp/x/.s.PGSQL.5432"]),
            ("postgres://u@/d?host=/tmp/x&port=7", &["/tmp/x/.s.PGSQL.7"]),
            (
                "postgres://u@/d?host=a,%2Ftmp&port=7,8",
                &["a:7", "/tmp/.s.PGSQL.8"],
            ),
            ("postgres:///d?hostaddr=::1", &["[::1]:5432"]),
        ];
        for (text, expected) in cases {
            assert_eq!(hosts(text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_have_the_meaning_of_libpq() {
        let url = |more: &str| DatabaseUrl::parse(&format!("postgres://a/d{more}")).unwrap();
        assert_eq!(url("").ssl_mode, SslMode::Prefer);
        assert_eq!(url("").schema, "tidemark");
        assert_eq!(
            url("?sslmode=verify-full&schema=My%20app").ssl_mode,
            SslMode::VerifyFull
        );
        assert_eq!(url("?sslmode=allow&schema=My%20app").schema, "My app");
        assert_eq!(url("?sslrootcert=system").ssl_root, None);
        assert_eq!(
            url("?sslrootcert=%2Fca.pem").ssl_root,
            Some("/ca.pem".into())
        );
        let timeout = |more: &str| *url(more).config.get_connect_timeout().unwrap();
        assert_eq!(timeout(""), Duration::from_secs(5));
        assert_eq!(timeout("?connect_timeout=2"), Duration::from_secs(2));
    }

    #[test]
    fn urls_that_cannot_be_meant_are_refused_with_what_is_expected() {
        let long = format!("postgres://{}", "a".repeat(4_096));
        let many = format!("postgres://{}/d", ["a"; 9].join(","));
        let name = format!("postgres://a/d?schema={}", "s".repeat(64));
        let cases = [
            ("mysql://a/d", "postgres://user@host:5432/database"),
            ("", "postgres://user@host:5432/database"),
            (&*long, "more than 4096 bytes"),
            (&*many, "more than 8 hosts"),
            ("postgres://a:1,b:2,c/d?port=7,8", "one port"),
            ("postgres://a,b/d?hostaddr=::1", "one address"),
            (
                "postgres://a/d?sslmode=on",
                "`sslmode` must be disable, allow",
            ),
            (
                "postgres://a/d?options=-c%20fsync%3Doff",
                "no parameter `options`",
            ),
            (
                "postgres://a/d?schema=pg_catalog",
                "does not begin with pg_",
            ),
            ("postgres://a/d?host=b", "absent where hosts stand"),
            ("postgres://a/d?schema=", "1 to 63 bytes"),
            ("postgres://a/d?schema=$user", "is not $user"),
            ("postgres://u:1?schema=rest@h/d", "without @"),
            ("postgres://a/d?schema=%24user", "is not $user"),
            (&*name, "1 to 63 bytes"),
            ("postgres://a/d?schema=%00", "1 to 63 bytes"),
            ("postgres://a/d?schema=%FF", "%-escapes are of UTF-8"),
            ("postgres://a/d?schema=%4", "%-escapes are of UTF-8"),
            ("postgres://a:port/d", "port"),
            ("postgres://a/d?connect_timeout=soon", "connect_timeout"),
        ];
        for (text, expected) in cases {
            let said = DatabaseUrl::parse(text).unwrap_err().to_string();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = DatabaseUrl::parse("postgres://u:geheim@a/d?password=geheim").unwrap();
        assert!(url.has_password());
        assert!(!format!("{url} {url:?}").contains("geheim"));
        for text in [
            "postgres://u:geheim@a:port/d",
            "postgres://u:geheim@a/d?sslmode=x",
            "postgres://u:geheim@a/d?password=geheim&connect_timeout=x",
            "postgres://u:ge@geheim@a/d",
            "postgres://u:ge@h/geheim@a/d",
            "postgres://u:ge?geheim@a/d",
            "postgres://u:ge?geheim=1@a/d",
        ] {
            let fault = DatabaseUrl::parse(text).unwrap_err();
            assert!(!format!("{fault} {fault:?}").contains("geheim"), "{fault}");
        }
    }
}
