//! The connections of one origin.
//!
//! ```text
//!   lease ──▶ [ shared ] ── a stream of a connection that there is ──▶ Lease
//!                 │ none, or the origin speaks HTTP/1.1
//!                 └──────▶ [ pool ] ── a connection ── what does it speak? ──▶ Lease, and from HTTP/2 on for others too
//! ```

use super::{
    WebClientError, WebClientFigures,
    ask::Ask,
    given_up::{Holder, OrGivenUp},
    lease::Lease,
    shared::{Found, Opening, SharedConnections},
    speaks::Speaks,
};
use netwright_core::time;
use netwright_transport::{Pool, PoolError, Pooled};
use std::{sync::Arc, time::Duration};

/// How long a request may wait for a stream of a connection, as it may for a connection.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The connections of one origin.
pub(super) struct Site {
    pub(super) pool: Pool<Ask>,
    /// `None`: it speaks HTTP/1.1, as far as we are concerned.
    pub(super) shared: Option<Arc<SharedConnections>>,
}

impl Site {
    /// A connection for a request, or a stream of one.
    pub(super) async fn lease(&self) -> Result<Lease, WebClientError> {
        let Some(shared) = &self.shared else { return Ok(self.acquire().await?.into()) };
        let until = time::now() + WAIT_MAX;
        let mut waited = None;
        loop {
            match shared.find(waited) {
                Found::Stream(lease) => return Ok(lease),
                Found::Connect(opening) => return self.connect(shared, opening).await,
                Found::Wait(waiting) => match time::deadline(until, waiting.woken()).await {
                    Ok(woken) => waited = Some(woken?),
                    Err(_) => return Err(self.waited_in_vain(shared)),
                },
            }
        }
    }

    async fn acquire(&self) -> Result<Pooled<Ask>, WebClientError> {
        Ok(OrGivenUp(self.pool.acquire(), Holder::Nobody).await?)
    }

    async fn connect(
        &self,
        shared: &Arc<SharedConnections>,
        opening: Option<Opening>,
    ) -> Result<Lease, WebClientError> {
        let connected = async {
            let pooled = self.acquire().await?;
            match Speaks::of(&pooled).await {
                Ok(speaks) => Ok((pooled, speaks)),
                Err(error) => {
                    pooled.discard();
                    Err(error)
                }
            }
        };
        match connected.await {
            Ok((pooled, Speaks::Http1)) => {
                if let Some(opening) = opening {
                    opening.succeeded(true);
                }
                Ok(pooled.into())
            }
            Ok((pooled, Speaks::Http2(room))) => {
                let lease = shared.add(pooled, room);
                if let Some(opening) = opening {
                    opening.succeeded(false);
                }
                Ok(lease)
            }
            Err(error) => {
                if let Some(opening) = opening {
                    opening.failed(&error);
                }
                Err(error)
            }
        }
    }

    fn waited_in_vain(&self, shared: &SharedConnections) -> WebClientError {
        let figures = self.pool.figures();
        WebClientError::Pool(PoolError::TimedOut {
            waited: WAIT_MAX,
            max_connections: shared.connections_max(),
            in_use: figures.in_use,
            connecting: figures.connecting,
        })
    }

    /// Adds what there is to see.
    pub(super) fn count(&self, all: &mut WebClientFigures) {
        let figures = self.pool.figures();
        let shared = self.shared.as_ref().map(|shared| shared.figures()).unwrap_or_default();
        all.idle += figures.idle + shared.idle;
        all.in_use += figures.in_use.saturating_sub(shared.idle);
        all.connecting += figures.connecting;
        all.waiting += figures.waiting + shared.waiting;
        all.shared += shared.connections;
        all.streams += shared.streams;
    }
}
