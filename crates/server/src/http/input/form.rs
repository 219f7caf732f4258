//! Bodies that are forms with a file: `multipart/form-data` (RFC 7578).

use std::collections::BTreeMap;

use bytes::Bytes;
use multer::{Constraints, Multipart, SizeLimit};
use tokio::runtime::Handle;

use crate::http::wire::error::{ApiError, Kind};

/// Most parts of a form. Routes know four; further ones are ignored.
const PARTS_MAX: usize = 64;
/// Most bytes of a part that is text: those of the longest commands, whatever their letters.
const TEXT_BYTES_MAX: u64 = 64 << 10;
/// The part that holds the file.
const FILE: &str = "code";

/// What a form holds.
#[derive(Debug, Default)]
pub struct FileForm {
    texts: BTreeMap<String, String>,
    file: Option<SentFile>,
}

/// A file in a form.
#[derive(Debug)]
pub struct SentFile {
    /// What the client calls it.
    pub name: String,
    /// What it holds.
    pub bytes: Bytes,
}

impl FileForm {
    /// Reads a body of this `Content-Type`, on a thread that parses large ones.
    ///
    /// # Errors
    /// A body that is no such form; too many or too large parts.
    pub async fn read(body: Bytes, content_type: &str) -> Result<FileForm, ApiError> {
        let boundary = multer::parse_boundary(content_type).map_err(|why| refuse(&why))?;
        let runtime = Handle::current();
        let read = move || runtime.block_on(FileForm::parse(&body, boundary));
        let parsed = tokio::task::spawn_blocking(read).await;
        parsed.map_err(|broken| ApiError::internal(broken.to_string()))?
    }

    async fn parse(body: &Bytes, boundary: String) -> Result<FileForm, ApiError> {
        let whole = body.len() as u64;
        let sizes = SizeLimit::new()
            .per_field(TEXT_BYTES_MAX)
            .for_field(FILE, whole);
        let constraints = Constraints::new().size_limit(sizes);
        let mut parts = Multipart::with_reader_with_constraints(&body[..], boundary, constraints);
        let mut form = FileForm::default();
        let mut count = 0;
        while let Some(part) = parts.next_field().await.map_err(|why| refuse(&why))? {
            count += 1;
            if count > PARTS_MAX {
                let message = format!("The form has more than {PARTS_MAX} parts.");
                return Err(ApiError::new(Kind::BadRequest, message));
            }
            let name = part.name().unwrap_or_default().to_owned();
            if name == FILE {
                let sent_name = part.file_name().unwrap_or_default().to_owned();
                let bytes = part.bytes().await.map_err(|why| refuse(&why))?;
                form.file = Some(SentFile {
                    name: sent_name,
                    bytes,
                });
                continue;
            }
            let text = part.text().await.map_err(|why| refuse(&why))?;
            form.texts.insert(name, text);
        }
        Ok(form)
    }

    /// A part that is text.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.texts.remove(name)
    }

    /// The file, which must be there.
    pub fn file(&mut self) -> Result<SentFile, ApiError> {
        self.file.take().ok_or_else(|| ApiError::missing(FILE))
    }
}

fn refuse(why: &multer::Error) -> ApiError {
    let why: String = why.to_string().chars().take(200).collect();
    ApiError::new(
        Kind::BadRequest,
        format!("The body is no such form: {why}."),
    )
}
