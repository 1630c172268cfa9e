//! Connections to servers, by address.

use super::{BadRequest, Request};
use crate::Message;
use netwright_core::{CloseCause, EventLoopGroup, Outcome, Peer, Promised, pipeline};
#[cfg(feature = "tls")]
use netwright_tls::{Connector, Tls};
use netwright_transport::{Client, ConnectError};
use std::{
    convert::Infallible,
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// Opens WebSockets; each is served by an async function, on one of the group's loops.
///
/// ```no_run
/// use netwright_core::{CloseCause, EventLoopGroup, Peer};
/// use netwright_websocket::{Message, WebSocketClient};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// async fn greet(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
///     peer.write(Message::from("hello")).await?;
///     println!("{:?}", peer.read().await?);
///     Ok(())
/// }
///
/// let client = WebSocketClient::new(netwright_transport::event_loops(1)?);
/// let channel = client.connect("ws://127.0.0.1:7010/", greet)?.wait()?;
/// println!("{}", channel.closed().wait()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WebSocketClient {
    group: EventLoopGroup,
    #[cfg(feature = "tls")]
    connector: Option<Connector>,
}

/// Why no connection was tried.
///
/// ```
/// use netwright_websocket::ConnectRefused;
///
/// assert!(ConnectRefused::NoTls.to_string().contains("TLS"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectRefused {
    /// That cannot be asked for.
    Request(BadRequest),
    /// `wss` needs TLS: the feature `tls`, and a connector.
    NoTls,
    /// TLS or the transport cannot be set up so.
    Setup(String),
}

impl fmt::Display for ConnectRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::NoTls => f.write_str("a wss address needs TLS, and this client has none"),
            Self::Setup(why) => f.write_str(why),
        }
    }
}

impl Error for ConnectRefused {}

impl From<BadRequest> for ConnectRefused {
    fn from(error: BadRequest) -> Self {
        Self::Request(error)
    }
}

/// A connected WebSocket, as the outside has it: it can be closed and waited for.
///
/// ```
/// use netwright_websocket::Socket;
///
/// async fn end(socket: &Socket) {
///     socket.close();
///     println!("ended: {:?}", socket.closed().await);
/// }
/// ```
pub type Socket = netwright_core::Channel<Infallible>;

impl WebSocketClient {
    /// Connections live on these loops.
    pub fn new(group: EventLoopGroup) -> Self {
        Self {
            group,
            #[cfg(feature = "tls")]
            connector: None,
        }
    }

    /// `wss` addresses are connected to by this connector.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, connector: Connector) -> Self {
        self.connector = Some(connector);
        self
    }

    /// Connects, asks for a WebSocket and has `serve` do the rest. The future resolves when the connection is there; if
    /// the server then does not agree, the channel ends with a [`HandshakeError`](super::HandshakeError) as its cause.
    ///
    /// # Errors
    /// There cannot be such a connection.
    pub fn connect<R, F, T>(
        &self,
        request: R,
        serve: F,
    ) -> Result<Promised<Socket, ConnectError>, ConnectRefused>
    where
        R: TryInto<Request>,
        ConnectRefused: From<R::Error>,
        F: FnOnce(Peer<Message, Message>) -> T + Send + 'static,
        T: Future<Output: Outcome> + 'static,
    {
        let request: Request = request.try_into()?;
        let address = request.address();
        #[cfg(feature = "tls")]
        let tls = match (&self.connector, request.is_secure()) {
            (Some(connector), true) => Some((connector.clone(), request.host().to_owned())),
            (None, true) => return Err(ConnectRefused::NoTls),
            (_, false) => None,
        };
        #[cfg(not(feature = "tls"))]
        if request.is_secure() {
            return Err(ConnectRefused::NoTls);
        }
        let serve = Arc::new(Mutex::new(Some(serve)));
        let builder = Client::builder().group(self.group.clone());
        let made = builder.pipeline(move || {
            let serve = serve.clone();
            let open = move |socket, _: &_, _: &_| {
                let serve = serve.lock().unwrap_or_else(PoisonError::into_inner).take();
                pipeline().add(socket).serve(move |peer| async move {
                    match serve {
                        Some(serve) => serve(peer).await.into_result(),
                        None => Err(CloseCause::Requested), // one connection is made, so it is there
                    }
                })
            };
            #[cfg(feature = "tls")]
            let front =
                pipeline().add(tls.as_ref().and_then(|(connector, host)| Tls::client(connector, host).ok()));
            #[cfg(not(feature = "tls"))]
            let front = pipeline();
            let request = request.clone();
            front.joint(|switch| request.open(switch, open))
        });
        let client = made.map_err(|error| ConnectRefused::Setup(error.to_string()))?;
        Ok(client.connect(address))
    }
}

impl From<Infallible> for ConnectRefused {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl fmt::Debug for WebSocketClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketClient").finish_non_exhaustive()
    }
}
