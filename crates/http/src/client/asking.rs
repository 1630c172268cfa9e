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

/// A request that is under way: a future of its reply. It goes on if this is dropped.
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
