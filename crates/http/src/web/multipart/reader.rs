//! Multipart bodies in straight-line code.

use super::{Multipart, MultipartError, MultipartEvent};
use crate::{Body, HttpError};
use bytes::BytesMut;
use http::StatusCode;
use std::{error::Error, fmt};

impl Multipart {
    /// Reads a body as it comes, for services.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_http::{Body, HttpServer, serve, web::{Multipart, MultipartEvent, Reply}};
    ///
    /// async fn upload(request: Request<Body>) -> Response<bytes::Bytes> {
    ///     let form = Multipart::of(request.headers()["content-type"].to_str().unwrap_or_default());
    ///     let Ok(form) = form else { return Reply::bad_request("no form") };
    ///     let mut form = form.reader(request.into_body());
    ///     let mut bytes = 0;
    ///     loop {
    ///         match form.next().await {
    ///             Ok(Some(MultipartEvent::Data(data))) => bytes += data.len(),
    ///             Ok(Some(_)) => {}
    ///             Ok(None) => return Reply::text(format!("{bytes} bytes")),
    ///             Err(error) => return Reply::bad_request(error),
    ///         }
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(upload)));
    /// let body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nhello\r\n--x--\r\n";
    /// let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\n";
    /// channel.write_inbound(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
    /// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\n5 bytes"));
    /// ```
    pub fn reader(self, body: Body) -> MultipartReader {
        MultipartReader { form: self, body, buffer: BytesMut::new(), over: false }
    }
}

/// A body that is read part by part. Made by [`Multipart::reader`].
///
/// ```
/// use netwright_http::{Body, web::{FormBodyError, Multipart, MultipartEvent}};
///
/// async fn bytes_of(form: Multipart, body: Body) -> Result<usize, FormBodyError> {
///     let (mut form, mut bytes) = (form.reader(body), 0);
///     while let Some(event) = form.next().await? {
///         if let MultipartEvent::Data(data) = event {
///             bytes += data.len();
///         }
///     }
///     Ok(bytes)
/// }
/// ```
#[derive(Debug)]
pub struct MultipartReader {
    form: Multipart,
    body: Body,
    /// What has come and is not understood yet.
    buffer: BytesMut,
    over: bool,
}

impl MultipartReader {
    /// The next event; `None` when form and body are both over.
    ///
    /// # Errors
    /// The form is wrong or too large, or the body broke off.
    pub async fn next(&mut self) -> Result<Option<MultipartEvent>, FormBodyError> {
        loop {
            if let Some(event) = self.form.next(&mut self.buffer).map_err(FormBodyError::Form)? {
                return Ok(Some(event));
            }
            if self.over {
                return Ok(None);
            }
            match self.body.read().await.map_err(FormBodyError::Body)? {
                Some(piece) if self.buffer.is_empty() => {
                    self.buffer = piece.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
                }
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => {
                    self.form.finish(&self.buffer).map_err(FormBodyError::Form)?;
                    self.over = true;
                    return Ok(None);
                }
            }
        }
    }
}

/// Why a form could not be read to its end.
///
/// ```
/// use netwright_http::web::{FormBodyError, MultipartError};
///
/// let error = FormBodyError::Form(MultipartError::TooManyParts { limit: 128 });
/// assert_eq!(error.status(), http::StatusCode::PAYLOAD_TOO_LARGE);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormBodyError {
    /// The form is wrong, or too large.
    Form(MultipartError),
    /// The body broke off.
    Body(HttpError),
}

impl FormBodyError {
    /// What to answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Form(error) => error.status(),
            Self::Body(error) => error.status(),
        }
    }
}

impl fmt::Display for FormBodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(error) => error.fmt(f),
            Self::Body(error) => error.fmt(f),
        }
    }
}

impl Error for FormBodyError {}
