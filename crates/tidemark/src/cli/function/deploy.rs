//! `tidemark function deploy`: from a folder to a deployment that runs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use client::Access;
use functions::archive::ArchiveBounds;
use functions::source::{PackedSource, pack_source};
use model::counted;
use server::secret::draw_id;

use super::build_watch::built;
use super::definition::bring;
use super::function_file::FunctionFile;
use super::routes::{FunctionRoutes, text};
use super::upload::{Upload, upload};
use super::{Outside, runtime, say, with_server};
use crate::config::ConnectionArgs;
use crate::config::functions::ARCHIVE_BYTES_MAX;

/// What a server unpacks (wire protocol, builds).
pub const BOUNDS: ArchiveBounds = ArchiveBounds {
    bytes_max: 250_000_000,
    entries_max: 50_000,
    path_bytes_max: 1_024,
    ratio_max: 200,
};

/// The options of `tidemark function deploy`.
#[derive(Args)]
pub struct DeployArgs {
    /// The folder of the function
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Leave the active deployment as it is
    #[arg(long)]
    no_activate: bool,
    /// Do not wait for the build
    #[arg(long)]
    no_wait: bool,
    /// Longest wait for the build
    #[arg(long, value_name = "SECONDS", default_value_t = 1_200)]
    wait_max: u64,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// # Errors
/// When the folder cannot be packed, the server refuses, or the build does not succeed.
pub fn run(args: &DeployArgs, outside: &Outside) -> Result<()> {
    let file = FunctionFile::read(&args.folder)?;
    let packed = pack_source(&args.folder, BOUNDS, ARCHIVE_BYTES_MAX)?;
    need_entrypoint(args, &file)?;
    eprintln!(
        "Packed {}, {} bytes, into {} bytes.",
        counted(packed.files as u64, "file"),
        packed.bytes,
        packed.archive.len()
    );
    let boundary = format!("tidemark-{}", draw_id(outside.rng));
    let said = with_server(&args.connection, outside, |access| {
        runtime()?.block_on(async {
            tokio::select! {
                // Here and not by the signal, so that a key made for the command is revoked.
                stopped = tokio::signal::ctrl_c() => {
                    stopped?;
                    bail!(
                        "stopped. If all of the deployment was sent, the server builds it and \
                         makes it active"
                    )
                }
                done = deploy(access, args, &file, (packed, boundary)) => done,
            }
        })
    })?;
    say(&said)
}

/// A handler that is not sent would be found missing by the first run.
fn need_entrypoint(args: &DeployArgs, file: &FunctionFile) -> Result<()> {
    let entries = functions::source::list(&args.folder, BOUNDS)?;
    let is_sent = entries
        .iter()
        .any(|entry| entry.path.as_os_str() == file.entrypoint.as_str());
    ensure!(
        is_sent,
        "the entrypoint `{}` is left out by .gitignore or {}",
        file.entrypoint,
        functions::source::IGNORE_FILE
    );
    Ok(())
}

/// A server that has no interpreter for a deployment would leave the caller waiting.
async fn need_runtime(
    routes: &mut FunctionRoutes<'_>,
    file: &FunctionFile,
    deployment: &str,
) -> Result<()> {
    let listed = routes.read("/functions/runtimes", "listing runtimes");
    let listed = listed.await?;
    let ids = listed["runtimes"].as_array().into_iter().flatten();
    let ids: Vec<&str> = ids.map(|runtime| text(runtime, "$id")).collect();
    let longer = format!("{}.0", file.runtime);
    ensure!(
        ids.contains(&file.runtime.as_str()) || ids.contains(&longer.as_str()),
        "deployment {deployment} is sent and cannot be built: the server has no runtime `{}`, it \
         has {}. `tidemark doctor` on its machine says which interpreters it finds",
        file.runtime,
        if ids.is_empty() {
            "none".to_owned()
        } else {
            ids.join(", ")
        }
    );
    Ok(())
}

async fn deploy(
    access: &Access,
    args: &DeployArgs,
    file: &FunctionFile,
    (packed, boundary): (PackedSource, String),
) -> Result<String> {
    let mut routes = FunctionRoutes::connect(access).await?;
    bring(&mut routes, file).await?;
    let mut fields = vec![
        ("entrypoint", file.entrypoint.clone()),
        ("activate", (!args.no_activate).to_string()),
    ];
    fields.extend(file.commands.clone().map(|commands| ("commands", commands)));
    let sent = Upload {
        function: &file.id,
        archive: &packed.archive,
        fields,
        boundary,
    };
    let made = upload(&mut routes, &sent).await?;
    let deployment = text(&made, "$id").to_owned();
    if args.no_wait {
        return Ok(format!("Sent deployment {deployment} of `{}`.\n", file.id));
    }
    need_runtime(&mut routes, file, &deployment).await?;
    let wait_max = Duration::from_secs(args.wait_max);
    built(&mut routes, (&file.id, &deployment), wait_max).await?;
    let function = routes.existing(&file.id).await?;
    Ok(if text(&function, "deploymentId") == deployment {
        format!(
            "Deployment {deployment} of `{id}` is built and active. Run it:\n  \
             tidemark function run {id}\n",
            id = file.id
        )
    } else {
        format!(
            "Deployment {deployment} of `{}` is built. The active one is {}.\n",
            file.id,
            match text(&function, "deploymentId") {
                "" => "none",
                active => active,
            }
        )
    })
}
