//! `harness beside`: another product runs, filled, while a benchmark of the binary measures.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use measure::scratch::Scratch;

use crate::database::LentDatabase;
use crate::expect;
use crate::pocketbase::{self, Peer};

/// Run a benchmark of the binary with PocketBase beside it, where it can be had
///
/// Starts PocketBase on a new folder, fills it with the catalog, and runs the command with
/// `--beside PocketBase=URL` behind it, an address that answers 25 rows. PocketBase is fetched and
/// built by Go on the first run, into a folder `peers` beside the binary; where that fails, the
/// command runs without it and says so. With `--lend` a PostgreSQL server runs next to it as well.
#[derive(clap::Args)]
#[command(after_help = "Example:
  cargo run --release -p harness -- beside target/release/tidemark bench load --quick")]
pub struct Arguments {
    /// Start a PostgreSQL server, too, and run the command with `--database URL`, as `lend` does
    #[arg(long)]
    lend: bool,
    /// PocketBase, built already [default: Go builds it]
    #[arg(long, value_name = "FILE")]
    pocketbase: Option<PathBuf>,
    /// The binary, and what follows it
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// # Errors
/// When the command or PostgreSQL does not start.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (binary, words) = arguments.command.split_first().context("a command")?;
    let folder = Path::new(binary).parent().context("a file's folder")?;
    let scratch = Scratch::new(folder)?;
    let peer = started(arguments.pocketbase.as_deref(), folder, &scratch);
    let lent = arguments.lend.then(|| LentDatabase::temporary(&scratch));
    let lent = lent.transpose()?;
    let mut command = Command::new(binary);
    command.args(words);
    let urls = lent.iter().map(LentDatabase::url);
    command.args(urls.flat_map(|url| ["--database", url]));
    match &peer {
        Ok(peer) => {
            let url = format!("PocketBase {}={}", pocketbase::VERSION, peer.bunch().url());
            command.args(["--beside", &url]);
        }
        Err(error) => eprintln!("without PocketBase: {error:#}"),
    }
    let status = command.status().context("the command does not start")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn started(program: Option<&Path>, folder: &Path, scratch: &Scratch) -> Result<Peer> {
    let program = match program {
        Some(program) => program.to_owned(),
        None => pocketbase::build(&folder.join("peers"))?,
    };
    let peer = Peer::start(&program, &scratch.at("pocketbase"))?;
    eprintln!("loading {} rows into PocketBase …", expect::ROWS);
    peer.seed(expect::ROWS)?;
    let answer = pocketbase::ask(&peer.bunch())?;
    let rows = answer["items"].as_array().map_or(0, Vec::len);
    let total = answer["totalItems"].as_u64();
    ensure!(
        rows == pocketbase::PAGE && total == Some(u64::from(expect::ROWS)),
        "it lists {rows} rows of {total:?}"
    );
    Ok(peer)
}
