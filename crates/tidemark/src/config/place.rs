//! Where a store is, for the commands that open one or look for its server.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use engine::DatabaseUrl;

use super::{DirectoryArgs, database_url, file_given, given};

/// The id of the option that names a database, in every command that has one: what the
/// configuration file says is its default (`config/file.rs`).
pub const STORE_URL: &str = "store_url";
/// The same of the option that names the file with its password.
pub const PASSWORD_FILE: &str = "password_file";

/// A database that may hold the store.
#[derive(Args, Clone)]
pub struct DatabaseArgs {
    /// The store is in this PostgreSQL database, and the data directory is what is kept next to it
    /// [default: what tidemark.toml in the data directory says]. Use the variable, or a password
    /// file, to hide a password from other users of the machine
    #[arg(
        long = "database",
        env = "TIDEMARK_DATABASE",
        value_name = "URL",
        hide_env_values = true
    )]
    store_url: Option<String>,
    /// A file with the password of the database, in the form of libpq's password files
    #[arg(long, env = "TIDEMARK_PASSWORD_FILE", value_name = "PATH")]
    password_file: Option<PathBuf>,
}

/// The same where `--database` names something else.
#[derive(Args, Clone)]
pub struct NamedStoreArgs {
    /// The store is in this PostgreSQL database, and the data directory is what is kept next to it.
    /// Other commands call this --database, which is the id of a database here [default: what
    /// tidemark.toml in the data directory says]
    #[arg(
        long = "store",
        env = "TIDEMARK_DATABASE",
        value_name = "URL",
        hide_env_values = true
    )]
    store_url: Option<String>,
    /// A file with the password of that database, in the form of libpq's password files
    #[arg(long, env = "TIDEMARK_PASSWORD_FILE", value_name = "PATH")]
    password_file: Option<PathBuf>,
}

/// Where the store is.
#[derive(Args, Clone)]
pub struct StoreArgs {
    #[command(flatten)]
    data: DirectoryArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A database, and where its password is looked for if the URL has none.
#[derive(Clone, Debug)]
pub struct NamedDatabase {
    /// Which.
    pub url: DatabaseUrl,
    /// The file.
    pub password_file: Option<PathBuf>,
}

/// Where a store is.
#[derive(Clone, Debug)]
pub struct StoreSite {
    /// The data directory: of the store, or beside it.
    pub directory: PathBuf,
    /// The database that has the store, if one has.
    pub database: Option<NamedDatabase>,
}

impl StoreArgs {
    /// # Errors
    /// When it is no URL of a database.
    pub fn check(&self) -> Result<StoreSite> {
        self.database.check(&self.data)
    }
}

impl DatabaseArgs {
    /// The same beside this directory.
    ///
    /// # Errors
    /// When it is no URL of a database.
    pub fn check(&self, data: &DirectoryArgs) -> Result<StoreSite> {
        site(data, self.store_url.as_ref(), self.password_file.as_ref())
    }
}

impl NamedStoreArgs {
    /// # Errors
    /// When it is no URL of a database.
    pub fn check(&self, data: &DirectoryArgs) -> Result<StoreSite> {
        site(data, self.store_url.as_ref(), self.password_file.as_ref())
    }
}

fn site(
    data: &DirectoryArgs,
    text: Option<&String>,
    password_file: Option<&PathBuf>,
) -> Result<StoreSite> {
    let named = |text: &str| {
        anyhow::Ok(NamedDatabase {
            url: database_url(text)?,
            password_file: file_given(password_file.map(PathBuf::as_path)).map(Into::into),
        })
    };
    Ok(StoreSite {
        directory: data.data.clone(),
        database: given(text).map(named).transpose()?,
    })
}
