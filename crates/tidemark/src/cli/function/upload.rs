//! Sends an archive as a deployment, in parts as the official clients do.

use anyhow::Result;
use hyper::header::{CONTENT_RANGE, HeaderName, HeaderValue};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::routes::{FunctionRoutes, route_of, text};

/// Bytes of one part (wire protocol, deployments).
const PART_BYTES: usize = 5 << 20;
const DEPLOYMENT_HEADER: HeaderName = HeaderName::from_static("x-appwrite-id");

/// What a deployment is made of.
pub struct Upload<'a> {
    /// Of the function.
    pub function: &'a str,
    /// A tar file compressed by gzip.
    pub archive: &'a [u8],
    /// The texts of the form.
    pub fields: Vec<(&'static str, String)>,
    /// A text that the archive does not hold, by chance.
    pub boundary: String,
}

/// Uploads; the answer is the deployment.
///
/// # Errors
/// When the server refuses a part, or the connection breaks.
pub async fn upload(routes: &mut FunctionRoutes<'_>, upload: &Upload<'_>) -> Result<Value> {
    let style = "{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(style).expect("the template is constant");
    let total = upload.archive.len();
    let bar = ProgressBar::new(total as u64).with_style(style);
    let route = route_of(upload.function, "/deployments");
    let kind = format!("multipart/form-data; boundary={}", upload.boundary);
    let mut deployment = Value::Null;
    for (nth, part) in upload.archive.chunks(PART_BYTES).enumerate() {
        let mut headers = Vec::new();
        if total > PART_BYTES {
            let start = nth * PART_BYTES;
            let range = format!("bytes {start}-{}/{total}", start + part.len() - 1);
            headers.push((CONTENT_RANGE, HeaderValue::from_str(&range)?));
        }
        if nth > 0 {
            let id = HeaderValue::from_str(text(&deployment, "$id"))?;
            headers.push((DEPLOYMENT_HEADER, id));
        }
        let form = (kind.as_str(), upload.form(part));
        let answer = routes.send_form(&route, form, headers).await?;
        deployment = answer.accepted("uploading the deployment")?;
        bar.inc(part.len() as u64);
    }
    bar.finish_and_clear();
    Ok(deployment)
}

impl Upload<'_> {
    fn form(&self, part: &[u8]) -> Vec<u8> {
        let boundary = &self.boundary;
        let mut form = Vec::with_capacity(part.len() + 1_024);
        for (name, value) in &self.fields {
            let field = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            );
            form.extend_from_slice(field.as_bytes());
        }
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"code\"; \
             filename=\"code.tar.gz\"\r\nContent-Type: application/gzip\r\n\r\n"
        );
        form.extend_from_slice(head.as_bytes());
        form.extend_from_slice(part);
        form.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        form
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_holds_its_fields_and_the_part() {
        let upload = Upload {
            function: "f",
            archive: b"",
            fields: vec![("activate", "true".to_owned())],
            boundary: "b".to_owned(),
        };
        let wanted = "--b\r\nContent-Disposition: form-data; name=\"activate\"\r\n\r\ntrue\r\n\
            --b\r\nContent-Disposition: form-data; name=\"code\"; filename=\"code.tar.gz\"\r\n\
            Content-Type: application/gzip\r\n\r\npart\r\n--b--\r\n";
        assert_eq!(String::from_utf8(upload.form(b"part")).unwrap(), wanted);
    }
}
