//! Connections: to the first host that takes writes, with what each session of ours sets.

use std::future::poll_fn;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::{Host, SslMode as DriverMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Error, SimpleQueryMessage, SimpleQueryRow,
};

use super::address::{DatabaseHost, DatabaseUrl, SslMode, cause};
use super::fault::is_outage_code;
use super::password_file::password_for;
use super::tls::{self, Encryption};
use crate::StoreError;

/// What each session sets, so that none that is cut off holds up the others. Between two statements
/// of a snapshot a busy machine may take over a second, which ended sessions at a load of 40: the
/// limit is that of all snapshots (nodes-postgres.md, section 3).
pub(super) const SESSION: [(&str, &str); 4] = [
    ("lock_timeout", "1s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("client_connection_check_interval", "250ms"),
    ("TimeZone", "UTC"),
];
/// Limits that the role, the database or the server may set, and that would end what takes longer,
/// or a session that owns a store and has nothing to do, or leave out rows which an index of words
/// has. `transaction_timeout` came with version 17.
const UNLIMITED: &str = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN \
                         ('statement_timeout', 'idle_session_timeout', 'transaction_timeout', \
                         'gin_fuzzy_search_limit');";
/// After connecting, a host has so long to say that it takes writes, and how its store stands.
pub(super) const FIRST_ANSWER_MAX: Duration = Duration::from_secs(5);

/// An open connection.
pub(super) struct DatabaseConnection {
    pub(super) client: Client,
    pub(super) notices: DatabaseNotices,
    pub(super) host: DatabaseHost,
    pub(super) is_encrypted: bool,
    /// What another connection to the same host is encrypted by.
    pub(super) connector: Encryption,
}

/// What the server says of itself on a connection, beside answers.
#[derive(Clone, Default)]
pub(crate) struct DatabaseNotices(Arc<Mutex<Said>>);

#[derive(Default)]
struct Said {
    /// The last warning that came with an answer.
    warning: Option<String>,
    /// Why it ended the connection while nothing was asked: what is asked then learns no more than
    /// that it is closed.
    end: Option<String>,
}

impl DatabaseNotices {
    /// Runs a connection. A warning is there before the answer that it comes with.
    async fn follow<S, T>(self, mut connection: Connection<S, T>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
        T: AsyncRead + AsyncWrite + Unpin,
    {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notice(notice)) if *notice.code() == SqlState::WARNING => {
                    self.said().warning = Some(notice.message().to_owned());
                }
                Ok(_) => {}
                Err(error) => {
                    self.said().end = Some(cause(&error));
                    return;
                }
            }
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the warnings that came so far.
    pub(super) fn clear(&self) {
        self.said().warning = None;
    }

    /// The last warning since.
    pub(super) fn warning(&self) -> Option<String> {
        self.said().warning.clone()
    }

    /// An error of the connection; that it is closed, by why it was.
    pub(super) fn explain(&self, error: Error) -> StoreError {
        match self.said().end.clone() {
            Some(detail) if error.is_closed() => StoreError::Unreachable { detail },
            _ => error.into(),
        }
    }
}

/// Why no host could be connected to.
#[derive(Debug)]
pub(super) struct ConnectFault {
    /// What each host said, in the order of the URL; at least one.
    pub(super) tried: Vec<(String, HostFault)>,
}

impl ConnectFault {
    /// Whether a later try may find a host that takes writes, as after a restart or a promotion.
    pub(super) fn is_outage(&self) -> bool {
        self.tried.iter().any(|(_, fault)| match fault {
            // An operator may put the file back while the node runs.
            HostFault::ReadsOnly | HostFault::PasswordFile(_) => true,
            HostFault::Failed { code, .. } => code.as_ref().is_none_or(is_outage_code),
        })
    }

    /// Whether a server runs that has no room for another connection.
    pub(super) fn is_crowded(&self) -> bool {
        let crowded = Some(SqlState::TOO_MANY_CONNECTIONS);
        let mut tried = self.tried.iter();
        tried.any(|(_, fault)| matches!(fault, HostFault::Failed { code, .. } if *code == crowded))
    }
}

/// Why one host was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostFault {
    /// It is a standby.
    ReadsOnly,
    /// The file that was named for the password cannot be used: why.
    PasswordFile(String),
    /// It refused, or could not be reached.
    Failed {
        /// By its own code, if it said one.
        code: Option<SqlState>,
        /// What was said.
        said: String,
    },
}

impl HostFault {
    fn local(said: impl Into<String>) -> HostFault {
        HostFault::Failed {
            code: None,
            said: said.into(),
        }
    }
}

impl From<Error> for HostFault {
    fn from(error: Error) -> HostFault {
        let said = cause(&error);
        // The driver's own word, with no code, where the server wants a password and it has none.
        let is_missing = said.ends_with("password missing");
        let missing = is_missing.then_some(SqlState::INVALID_PASSWORD);
        HostFault::Failed {
            code: error.code().cloned().or(missing),
            said,
        }
    }
}

/// Connects to the first host that takes writes.
///
/// # Errors
/// When none does; what each of them said.
pub(super) async fn connect(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
) -> Result<DatabaseConnection, ConnectFault> {
    let mut tried = Vec::new();
    for host in &url.hosts {
        match to_host(url, host, password_file).await {
            Ok(connection) => return Ok(connection),
            Err(fault) => tried.push((host.to_string(), fault)),
        }
    }
    Err(ConnectFault { tried })
}

async fn to_host(
    url: &DatabaseUrl,
    host: &DatabaseHost,
    password_file: Option<&Path>,
) -> Result<DatabaseConnection, HostFault> {
    let mut config = url.config_of(host);
    if !url.has_password()
        && let Some(path) = password_file
    {
        let found = password_for(path, url, host);
        let found = found.map_err(|error| {
            HostFault::PasswordFile(format!("the password file {}: {error}", path.display()))
        })?;
        if let Some(password) = found {
            config.password(password);
        }
    }
    let connection = by_mode(url, host, config).await?;
    let ready = tokio::time::timeout(FIRST_ANSWER_MAX, prepare(&connection.client, &url.schema));
    ready
        .await
        .map_err(|_| HostFault::local("it does not answer"))??;
    Ok(connection)
}

/// In the order of `sslmode`; a socket on this machine is never encrypted.
async fn by_mode(
    url: &DatabaseUrl,
    host: &DatabaseHost,
    config: Config,
) -> Result<DatabaseConnection, HostFault> {
    let mode = match host.host {
        Host::Unix(_) => SslMode::Disable,
        Host::Tcp(_) => url.ssl_mode,
    };
    let root = url.ssl_root.as_deref();
    let connector = tls::connector(mode, root);
    let connector = connector.map_err(|error| HostFault::local(error.to_string()))?;
    let driver_mode = match mode {
        SslMode::Disable | SslMode::Allow => DriverMode::Disable,
        SslMode::Prefer => DriverMode::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => DriverMode::Require,
    };
    let opened = open(host, config.clone(), driver_mode, connector.clone()).await;
    match opened {
        Err(HostFault::Failed {
            code: Some(code), ..
        }) if mode == SslMode::Allow && code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            open(host, config, DriverMode::Require, connector).await
        }
        opened => opened,
    }
}

async fn open(
    host: &DatabaseHost,
    mut config: Config,
    mode: DriverMode,
    connector: Encryption,
) -> Result<DatabaseConnection, HostFault> {
    config.ssl_mode(mode);
    let of_others = connector.clone();
    let timeout = config
        .get_connect_timeout()
        .copied()
        .unwrap_or(FIRST_ANSWER_MAX);
    // The driver's own limit ends with the handshake of TCP.
    let opened = tokio::time::timeout(timeout, config.connect(connector)).await;
    let (client, connection) = opened.map_err(|_| HostFault::local("it does not answer"))??;
    let notices = DatabaseNotices::default();
    // It ends with the client, or when the server closes it; then each call fails by itself.
    tokio::spawn(notices.clone().follow(connection));
    let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let encrypted = tokio::time::timeout(FIRST_ANSWER_MAX, row(&client, encrypted)).await;
    let encrypted = encrypted.map_err(|_| HostFault::local("it does not answer"))??;
    Ok(DatabaseConnection {
        is_encrypted: encrypted.is_some_and(|row| row.get(0) == Some("t")),
        host: host.clone(),
        client,
        connector: of_others,
        notices,
    })
}

/// What each session sets, on a host that takes writes.
async fn prepare(client: &Client, schema: &str) -> Result<(), HostFault> {
    let standby = row(client, "SELECT pg_is_in_recovery()").await?;
    if standby.is_none_or(|row| row.get(0) != Some("f")) {
        return Err(HostFault::ReadsOnly);
    }
    let sets = SESSION.map(|(name, value)| format!("SET {name} = '{value}';"));
    let path = format!("SET search_path = {};", identifier(schema));
    client
        .batch_execute(&format!("{UNLIMITED}{}{path}", sets.concat()))
        .await?;
    Ok(())
}

/// The first row of a statement, as text.
pub(super) async fn row(client: &Client, sql: &str) -> Result<Option<SimpleQueryRow>, Error> {
    Ok(rows(client, sql).await?.into_iter().next())
}

/// The rows of a statement, as text: this form of a query passes through every pooler.
pub(super) async fn rows(client: &Client, sql: &str) -> Result<Vec<SimpleQueryRow>, Error> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.collect())
}

/// A name as SQL writes it.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL writes it.
pub(super) fn literal(text: &str) -> String {
    // Whatever `standard_conforming_strings` says.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
