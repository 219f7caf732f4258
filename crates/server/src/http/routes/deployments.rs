//! Deployments of functions: upload in parts, list, get, download, cancel, activate, delete.

use std::ffi::OsStr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use engine::{
    ArchivePart, Deployment, DeploymentStatus, DeploymentUpload, FunctionError, UploadRange,
};
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE};
use model::DeploymentId;

use crate::http::head::headers::{X_APPWRITE_ID, header};
use crate::http::head::query_string;
use crate::http::input::context::RequestContext;
use crate::http::input::fields::read_flag;
use crate::http::limits::unsent::Sending;
use crate::http::reply::Reply;
use crate::http::reply::ndjson_body::{Lines, NextLines};
use crate::http::state::app::Shared;
use crate::http::state::generated_ids::UNIQUE;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// What a form holds beside its file, at most, in bytes: an announced body beyond this and the
/// largest archive is refused before it is read.
const FORM_BYTES_MAX: u64 = 256 << 10;

/// `GET /v1/functions/{function}/deployments`
pub async fn list(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (engine, function) = (&context.app.shared.engine, &context.ids.function);
    let mut listed = engine
        .list_deployments(&caller, function, context.containers()?)
        .await?;
    for deployment in &mut listed.items {
        if context
            .app
            .shared
            .functions
            .build_log(deployment.seq)
            .is_some()
        {
            not_ended(deployment);
        }
    }
    Ok(Reply::ok(wire::deployments(
        function,
        listed.total,
        &listed.items,
    )))
}

/// `POST /v1/functions/{function}/deployments`
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let shared = context.app.shared.clone();
    let function = context.ids.function.clone();
    let sent = sent_range(&context)?;
    let announced = sent.map_or_else(|| announced(&context), |sent| Some(sent.range.total));
    shared.engine.expect_upload(&caller, &function, announced)?;
    let mut form = context.form().await?;
    let activate = form.text("activate");
    let activate = activate.ok_or_else(|| ApiError::missing("activate"))?;
    let activate = read_flag(&activate)
        .ok_or_else(|| ApiError::invalid("activate", "Value must be a boolean."))?;
    let file = form.file()?;
    if Path::new(&file.name).extension() != Some(OsStr::new("gz")) {
        return Err(engine::EngineError::from(FunctionError::SourceNotGzip).into());
    }
    let length = file.bytes.len() as u64;
    let range = match sent {
        None => UploadRange {
            start: 0,
            total: length,
        },
        Some(sent) => sent.of(length)?,
    };
    let upload = DeploymentUpload {
        range,
        bytes: file.bytes.into(),
        activate,
        entrypoint: form.text("entrypoint"),
        commands: form.text("commands"),
    };
    let new = context.id("deploymentId", UNIQUE, DeploymentId::new)?;
    let of = header(&context.head.headers, &X_APPWRITE_ID);
    let made = shared
        .engine
        .upload_deployment(&caller, &function, (of, new), upload);
    let made = Box::pin(made).await?;
    if made.is_whole() {
        shared.functions.expect_build();
    }
    Ok(Reply::accepted(wire::deployment(&function, &made, "")))
}

/// What `Content-Range` says.
#[derive(Clone, Copy)]
struct SentRange {
    range: UploadRange,
    /// The last byte, or the one after it.
    end: u64,
}

impl SentRange {
    /// The range of a part of so many bytes.
    fn of(self, length: u64) -> Result<UploadRange, ApiError> {
        let UploadRange { start, total } = self.range;
        let is_last = self.end == total && self.end.checked_sub(start) == Some(length);
        let is_inside = self.end < total && self.end - start + 1 == length;
        if length == 0 || is_inside || is_last {
            return Ok(self.range);
        }
        Err(wrong_range("does not have as many bytes as the file"))
    }
}

fn wrong_range(why: &str) -> ApiError {
    engine::EngineError::from(FunctionError::RangeInvalid(why.to_owned())).into()
}

/// `bytes 0-5242879/6291456`
fn sent_range(context: &RequestContext<'_>) -> Result<Option<SentRange>, ApiError> {
    let Some(sent) = context.head.headers.get(CONTENT_RANGE) else {
        return Ok(None);
    };
    let read = || {
        let numbers = sent.to_str().ok()?.strip_prefix("bytes ")?;
        let (part, total) = numbers.split_once('/')?;
        let (start, end) = part.split_once('-')?;
        let range = UploadRange {
            start: start.parse().ok()?,
            total: total.parse().ok()?,
        };
        let end = end.parse().ok()?;
        let is_legal = range.start <= end && end <= range.total && range.start < range.total;
        is_legal.then_some(SentRange { range, end })
    };
    let refuse = || wrong_range("must be written like `bytes 0-5242879/6291456`");
    read().map(Some).ok_or_else(refuse)
}

/// Bytes of an archive whose body is announced to be larger than any can be.
fn announced(context: &RequestContext<'_>) -> Option<u64> {
    let length = header(&context.head.headers, &CONTENT_LENGTH)?;
    length.parse::<u64>().ok()?.checked_sub(FORM_BYTES_MAX)
}

/// `GET /v1/functions/{function}/deployments/{deployment}`
pub async fn get(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (engine, ids) = (&context.app.shared.engine, &context.ids);
    let found = engine.get_deployment(&caller, &ids.function, &ids.of_function);
    let (mut found, mut log) = found.await?;
    if let Some(so_far) = context.app.shared.functions.build_log(found.seq) {
        log = so_far;
        not_ended(&mut found);
    }
    Ok(Reply::ok(wire::deployment(&ids.function, &found, &log)))
}

/// The end of a build is stored a moment before the function has its new deployment: until then it
/// is at work, so that one which is shown as ready can be executed.
fn not_ended(deployment: &mut Deployment) {
    if deployment.status == DeploymentStatus::Ready {
        deployment.status = DeploymentStatus::Building;
    }
}

/// `DELETE /v1/functions/{function}/deployments/{deployment}`
pub async fn delete(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (engine, ids) = (&context.app.shared.engine, &context.ids);
    engine
        .delete_deployment(&caller, &ids.function, &ids.of_function)
        .await?;
    Ok(Reply::empty())
}

/// `POST /v1/functions/{function}/deployments/duplicate`
pub async fn duplicate(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let of = fields.required_text("deploymentId")?;
    let new = context.id("deploymentId", UNIQUE, DeploymentId::new)?;
    let (engine, function) = (&context.app.shared.engine, &context.ids.function);
    let made = engine.duplicate_deployment(&caller, function, (&of, new));
    let made = made.await?;
    context.app.shared.functions.expect_build();
    Ok(Reply::accepted(wire::deployment(function, &made, "")))
}

/// `PATCH /v1/functions/{function}/deployments/{deployment}/status`
pub async fn cancel(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (engine, ids) = (&context.app.shared.engine, &context.ids);
    let ended = engine.cancel_deployment(&caller, &ids.function, &ids.of_function);
    let ended = ended.await?;
    Ok(Reply::ok(wire::deployment(&ids.function, &ended, "")))
}

/// `PATCH /v1/functions/{function}/deployment`
pub async fn activate(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let id = fields.required_text("deploymentId")?;
    let (engine, function) = (&context.app.shared.engine, &context.ids.function);
    let changed = engine.activate_deployment(&caller, function, &id);
    Ok(Reply::ok(wire::function(&changed.await?)))
}

/// `GET /v1/functions/{function}/deployments/{deployment}/download`
pub async fn download(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let (app, ids) = (context.app, &context.ids);
    let raw = context.head.uri.query().unwrap_or_default();
    let part = match query_string::parameter(raw, "type") {
        None | Some("source") => ArchivePart::Source,
        Some("output") => ArchivePart::Output,
        Some(_) => {
            let why = "Value must be `source` or `output`.";
            return Err(ApiError::invalid("type", why));
        }
    };
    let found = app
        .shared
        .engine
        .get_deployment(&caller, &ids.function, &ids.of_function);
    let (found, _) = found.await?;
    let (is_there, bytes) = match part {
        ArchivePart::Source => (found.is_whole(), found.source_bytes),
        _ => (found.output_bytes > 0, found.output_bytes),
    };
    if !is_there {
        let missing = FunctionError::BuildMoved(found.status.as_str());
        return Err(engine::EngineError::from(missing).into());
    }
    let archive = Archive {
        shared: app.shared.clone(),
        sending: app.sending.clone(),
        deployment: found.seq,
        part,
        from: 0,
    };
    Ok(Reply::archive(Lines::new(archive.next()), bytes))
}

/// An archive that is sent piece by piece, each read when the one before was taken.
struct Archive {
    shared: Arc<Shared>,
    sending: Rc<Sending>,
    deployment: i64,
    part: ArchivePart,
    from: u64,
}

impl Archive {
    fn next(mut self) -> NextLines {
        NextLines(Box::pin(async move {
            let piece = self
                .shared
                .engine
                .piece(self.deployment, self.part, self.from);
            // One that is gone, or cannot be read any more, ends the answer before its end.
            let piece = piece.await.ok().flatten()?;
            self.from = piece.start + piece.bytes.len() as u64;
            let bytes = Bytes::from_owner(piece.bytes);
            let pieces = [bytes.clone(), Bytes::new(), Bytes::new()];
            let untaken = self.sending.owe(&pieces, false);
            Some(((bytes, untaken), self.next()))
        }))
    }
}
