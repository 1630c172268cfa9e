//! A request that is under way.

use super::WebClientError;
use crate::Body;
use http::Response;
use netwright_core::{JoinHandle, TaskError};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A request that is under way: a future of its reply. It goes on if this is dropped; [`cancel`](Self::cancel) gives it up.
///
/// ```
/// use netwright_http::client::{Asking, WebClientError};
///
/// async fn status(asking: Asking) -> Result<u16, WebClientError> {
///     Ok(asking.await?.status().as_u16())
/// }
/// ```
#[must_use = "the reply is here"]
pub struct Asking {
    pub(super) state: Result<JoinHandle<Result<Response<Body>, WebClientError>>, Option<WebClientError>>,
}

impl Asking {
    pub(super) fn failed(error: WebClientError) -> Self {
        Self { state: Err(Some(error)) }
    }

    /// Gives the request up: whoever waits for it hears [`WebClientError::Cancelled`]. If it was written, its connection is closed, because the reply would be taken
    /// for that of the next request; the server may have acted on it. False: there was an outcome already. A reply whose head has come is given up by
    /// the drop of its body.
    ///
    /// ```
    /// use netwright_http::client::{WebClient, WebClientError};
    ///
    /// # let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let client = WebClient::builder().build()?;
    /// let asking = client.get(format!("http://{}/", silent.local_addr()?)); // which never answers
    /// assert!(asking.cancel());
    /// assert!(matches!(asking.wait(), Err(WebClientError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.state.as_ref().is_ok_and(JoinHandle::abort)
    }

    /// Waits for the reply, where no async code runs.
    ///
    /// # Errors
    /// There is no reply.
    pub fn wait(mut self) -> Result<Response<Body>, WebClientError> {
        match &mut self.state {
            Ok(handle) => handle.wait().map_err(lost)?,
            Err(error) => Err(error.take().unwrap_or(WebClientError::LoopEnded)),
        }
    }
}

fn lost(error: TaskError) -> WebClientError {
    match error {
        TaskError::WouldBlockLoop => WebClientError::WouldBlockLoop,
        TaskError::Panicked(panic) => WebClientError::Panicked(panic),
        TaskError::Cancelled => WebClientError::Cancelled,
        _ => WebClientError::LoopEnded,
    }
}

impl Future for Asking {
    type Output = Result<Response<Body>, WebClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match &mut self.state {
            Ok(handle) => ready!(Pin::new(handle).poll(cx)).unwrap_or_else(|error| Err(lost(error))),
            Err(error) => Err(error.take().unwrap_or(WebClientError::LoopEnded)),
        })
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}
