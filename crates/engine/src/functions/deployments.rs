//! Deployments: archives of code, sent in pieces, and what becomes of them.

use std::sync::Arc;

use model::{DeploymentId, Function, Timestamp, Value};
use store::function_op::PIECE_BYTES_MAX;
use store::{ArchivePart, ArchivePiece, Deployment, DeploymentAct, DeploymentStatus, FunctionOp};

use super::variables::check_text;
use super::{FunctionShown, READ, WRITE, named};
use crate::Engine;
use crate::error::refused::shown;
use crate::error::{EngineError, FunctionError};
use crate::request::authorize;
use crate::request::inputs::{Caller, ListContainers, Listed};
use crate::schema::listing::{self, DEPLOYMENTS, Listable, no_such_attribute};

const DAY_US: i64 = 86_400_000_000;
/// What a gzip archive begins with (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Which bytes of an archive a request brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadRange {
    /// The first one.
    pub start: u64,
    /// Bytes of the whole archive.
    pub total: u64,
}

/// What a request says of a deployment, and a part of its archive.
#[derive(Debug)]
pub struct DeploymentUpload {
    /// Which bytes these are.
    pub range: UploadRange,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether it becomes the active one when it is built.
    pub activate: bool,
    /// The file whose handler is called; that of the function, where none is named.
    pub entrypoint: Option<String>,
    /// What builds it; that of the function, where none is named.
    pub commands: Option<String>,
}

impl DeploymentUpload {
    fn check(&self) -> Result<(), EngineError> {
        let UploadRange { start, total } = self.range;
        let length = self.bytes.len() as u64;
        if length == 0 {
            return Err(FunctionError::SourceEmpty.into());
        }
        if start.checked_add(length).is_none_or(|end| end > total) {
            return Err(invalid("ends beyond the archive"));
        }
        if start == 0 && !self.bytes.starts_with(&GZIP) {
            return Err(FunctionError::SourceNotGzip.into());
        }
        Ok(())
    }

    /// The bytes as they are stored, each piece with its place in the archive.
    fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = (self.range.start..).step_by(PIECE_BYTES_MAX);
        starts.zip(self.bytes.chunks(PIECE_BYTES_MAX))
    }
}

fn invalid(why: &str) -> EngineError {
    FunctionError::RangeInvalid(why.to_owned()).into()
}

impl Engine {
    /// Whether the caller may send an archive of so many bytes, as far as that is known before any
    /// of it is read.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::SourceTooLarge`].
    pub fn expect_upload(
        &self,
        caller: &Caller,
        function: &str,
        total: Option<u64>,
    ) -> Result<(), EngineError> {
        authorize::need_key(caller, WRITE)?;
        self.find_function(caller, function)?;
        let bytes_max = self.quotas.source_bytes;
        match total {
            Some(bytes) if bytes > bytes_max => {
                Err(FunctionError::SourceTooLarge { bytes, bytes_max }.into())
            }
            _ => Ok(()),
        }
    }

    /// Takes a part of an archive in: the first one of a new deployment, which is then called
    /// `new`, or a further one of the deployment `id`. Parts come in any order. One that is there
    /// already is answered as at first.
    ///
    /// # Errors
    /// As for [`Engine::expect_upload`]; [`FunctionError::DeploymentNotFound`];
    /// [`FunctionError::RangeInvalid`] for a part that meets others, when nothing is changed;
    /// [`FunctionError::SourceEmpty`], [`FunctionError::SourceNotGzip`],
    /// [`FunctionError::EntrypointMissing`]; [`EngineError::Argument`] for one deployment too many.
    pub async fn upload_deployment(
        &self,
        caller: &Caller,
        function: &str,
        (id, new): (Option<&str>, DeploymentId),
        upload: DeploymentUpload,
    ) -> Result<Deployment, EngineError> {
        self.expect_upload(caller, function, Some(upload.range.total))?;
        upload.check()?;
        let function = self.find_function(caller, function)?;
        let id = match id {
            Some(id) => self.expect_part(&function, id, &upload).await?,
            None => self.begin_upload(caller, &function, new, &upload).await?,
        };
        for (start, bytes) in upload.pieces() {
            let piece = ArchivePiece {
                part: ArchivePart::Source,
                start,
                bytes: bytes.into(),
            };
            let act = DeploymentAct::PutPiece(piece);
            self.act_on(Some(caller), &function, id.clone(), act)
                .await?;
        }
        self.find_deployment(&function, id.as_str()).await
    }

    async fn begin_upload(
        &self,
        caller: &Caller,
        function: &Function,
        id: DeploymentId,
        upload: &DeploymentUpload,
    ) -> Result<DeploymentId, EngineError> {
        if upload.range.start > 0 {
            return Err(invalid(
                "is not the first one, and the header `X-Appwrite-ID` names no deployment",
            ));
        }
        let definition = &function.definition;
        let own = |given: &Option<String>, other: &str| {
            let given = given.as_deref().filter(|text| !text.is_empty());
            given.unwrap_or(other).to_owned()
        };
        let entrypoint = own(&upload.entrypoint, &definition.entrypoint);
        let commands = own(&upload.commands, &definition.commands);
        check_text(
            "entrypoint",
            &entrypoint,
            super::definition::ENTRYPOINT_CHARS_MAX,
        )?;
        check_text("commands", &commands, super::definition::COMMANDS_CHARS_MAX)?;
        if entrypoint.is_empty() {
            return Err(FunctionError::EntrypointMissing.into());
        }
        let op = FunctionOp::CreateDeployment {
            function: named(caller, function.id.clone()),
            id: id.clone(),
            source_bytes: upload.range.total,
            activate: upload.activate,
            entrypoint,
            commands,
        };
        self.change_function(Some(caller), op).await?;
        Ok(id)
    }

    /// Whether a further part fits to what is there, before any of it is stored.
    async fn expect_part(
        &self,
        function: &Function,
        id: &str,
        upload: &DeploymentUpload,
    ) -> Result<DeploymentId, EngineError> {
        let known = self.find_deployment(function, id).await?;
        if known.source_bytes != upload.range.total {
            return Err(invalid("names another size of the archive than before"));
        }
        let extents = self.shared.store.source_extents(known.seq).await?;
        let mut pieces = upload.pieces();
        let fits = pieces.all(|(start, bytes)| {
            let end = start + bytes.len() as u64;
            let meets = |(other, length): &&(u64, u64)| *other < end && other + length > start;
            let met = extents.iter().find(meets);
            // Whether its bytes are the same is looked at when it is stored.
            met.is_none_or(|met| *met == (start, bytes.len() as u64))
        });
        if !fits {
            return Err(invalid("meets bytes that were sent before"));
        }
        Ok(known.id)
    }

    /// A deployment of a function.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::DeploymentNotFound`].
    pub async fn get_deployment(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
    ) -> Result<(Deployment, String), EngineError> {
        authorize::need_key(caller, READ)?;
        let function = self.find_function(caller, function)?;
        let found = self.find_deployment(&function, id).await?;
        let log = self.build_log(found.seq).await?;
        Ok((found, log))
    }

    /// The deployments of a function in the order of their creation.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`]; [`crate::ReadError::Query`] for a query that is not understood
    /// here.
    pub async fn list_deployments(
        &self,
        caller: &Caller,
        function: &str,
        request: ListContainers<'_>,
    ) -> Result<Listed<Deployment>, EngineError> {
        authorize::need_key(caller, READ)?;
        let function = self.find_function(caller, function)?;
        let all = self.shared.store.deployments(function.seq).await?;
        listing::page(all, &DEPLOYMENTS, request, self.limits)
    }

    /// Creates a deployment with the archive of another one.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::DeploymentNotFound`];
    /// [`FunctionError::BuildMoved`] while the archive is not all there; [`EngineError::Argument`]
    /// for one deployment too many.
    pub async fn duplicate_deployment(
        &self,
        caller: &Caller,
        function: &str,
        (of, new): (&str, DeploymentId),
    ) -> Result<Deployment, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let function = self.find_function(caller, function)?;
        let known = self.find_deployment(&function, of).await?;
        if !known.is_whole() {
            return Err(FunctionError::BuildMoved("not all there yet").into());
        }
        let op = FunctionOp::CreateDeployment {
            function: named(caller, function.id.clone()),
            id: new.clone(),
            source_bytes: known.source_bytes,
            activate: true,
            entrypoint: known.entrypoint,
            commands: known.commands,
        };
        self.change_function(Some(caller), op).await?;
        let mut from = 0;
        while let Some(piece) = self.piece(known.seq, ArchivePart::Source, from).await? {
            from = piece.start + piece.bytes.len() as u64;
            let act = DeploymentAct::PutPiece(piece);
            self.act_on(Some(caller), &function, new.clone(), act)
                .await?;
        }
        self.find_deployment(&function, new.as_str()).await
    }

    /// Gives a deployment up whose build has not ended.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::DeploymentNotFound`],
    /// [`FunctionError::BuildMoved`].
    pub async fn cancel_deployment(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
    ) -> Result<Deployment, EngineError> {
        let function = self.change_deployment(caller, function, id, DeploymentAct::Cancel);
        let function = function.await?;
        self.find_deployment(&function, id).await
    }

    /// Makes a deployment the active one of its function.
    ///
    /// # Errors
    /// As for [`Engine::cancel_deployment`].
    pub async fn activate_deployment(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
    ) -> Result<FunctionShown, EngineError> {
        self.change_deployment(caller, function, id, DeploymentAct::Activate)
            .await?;
        self.show_function(caller, function).await
    }

    /// Deletes a deployment. A function whose active one it was has none any more.
    ///
    /// # Errors
    /// [`FunctionError::NotFound`], [`FunctionError::DeploymentNotFound`].
    pub async fn delete_deployment(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
    ) -> Result<(), EngineError> {
        self.change_deployment(caller, function, id, DeploymentAct::Delete)
            .await
            .map(drop)
    }

    /// Deletes deployments that are older than their function keeps those that are not active; how
    /// many. There is no caller: the server does it by itself.
    ///
    /// # Errors
    /// What the store says.
    pub async fn expire_deployments(&self) -> Result<usize, EngineError> {
        let catalogue = self.catalogue();
        let functions = catalogue
            .projects()
            .flat_map(|project| project.functions.values());
        let mut expired = 0;
        for function in functions {
            let days = i64::from(function.definition.deployment_retention_days);
            if days == 0 {
                continue;
            }
            let kept_from = Timestamp(self.now().0.saturating_sub(days * DAY_US));
            let active = function.active.as_ref().map(|active| active.seq);
            for one in self.shared.store.deployments(function.seq).await? {
                // One that is being built may become the active one.
                let is_built = !matches!(
                    one.status,
                    DeploymentStatus::Waiting | DeploymentStatus::Building
                );
                if Some(one.seq) != active && is_built && one.created < kept_from {
                    let act = DeploymentAct::Expire;
                    match self.act_on(None, function, one.id, act).await {
                        Err(EngineError::Function(_)) => {}
                        other => {
                            other?;
                            expired += 1;
                        }
                    }
                }
            }
        }
        Ok(expired)
    }

    async fn change_deployment(
        &self,
        caller: &Caller,
        function: &str,
        id: &str,
        act: DeploymentAct,
    ) -> Result<Arc<Function>, EngineError> {
        authorize::need_key(caller, WRITE)?;
        let function = self.find_function(caller, function)?;
        let missing = || EngineError::from(FunctionError::DeploymentNotFound(shown(id)));
        let id = DeploymentId::new(id).map_err(|_| missing())?;
        self.act_on(Some(caller), &function, id, act).await?;
        Ok(function)
    }

    pub(super) async fn act_on(
        &self,
        caller: Option<&Caller>,
        function: &Function,
        id: DeploymentId,
        act: DeploymentAct,
    ) -> Result<(), EngineError> {
        let function = store::FunctionName {
            project: function.project.clone(),
            id: function.id.clone(),
        };
        let op = FunctionOp::Deployment { function, id, act };
        self.change_function(caller, op).await
    }

    pub(super) async fn find_deployment(
        &self,
        function: &Function,
        id: &str,
    ) -> Result<Deployment, EngineError> {
        let all = self.shared.store.deployments(function.seq).await?;
        let found = all.into_iter().find(|one| one.id.as_str() == id);
        found.ok_or_else(|| FunctionError::DeploymentNotFound(shown(id)).into())
    }

    /// The piece of a deployment, by [`Deployment::seq`], that begins at `from`; `None` behind the
    /// last one, and where it is gone.
    ///
    /// # Errors
    /// What the store says.
    pub async fn piece(
        &self,
        deployment: i64,
        part: ArchivePart,
        from: u64,
    ) -> Result<Option<ArchivePiece>, EngineError> {
        Ok(self.shared.store.piece(deployment, part, from).await?)
    }

    async fn build_log(&self, deployment: i64) -> Result<String, EngineError> {
        let (mut log, mut from) = (Vec::new(), 0);
        while let Some(piece) = self.piece(deployment, ArchivePart::Log, from).await? {
            from = piece.start + piece.bytes.len() as u64;
            log.extend_from_slice(&piece.bytes);
        }
        Ok(String::from_utf8_lossy(&log).into_owned())
    }
}

impl Listable for Deployment {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn name(&self) -> &str {
        self.id.as_str()
    }

    fn sequence(&self) -> i64 {
        self.seq
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.created, self.updated)
    }

    fn attribute(&self, position: usize) -> Value {
        let number = |bytes: u64| Value::Int(bytes.cast_signed());
        match position {
            0 => number(self.output_bytes),
            1 => number(self.source_bytes),
            2 => number(self.source_bytes + self.output_bytes),
            3 => number(self.build_ms / 1_000),
            4 => Value::Text(self.status.as_str().to_owned()),
            5 => Value::Bool(self.activate),
            6 => Value::Text("manual".to_owned()),
            other => no_such_attribute(other),
        }
    }
}
