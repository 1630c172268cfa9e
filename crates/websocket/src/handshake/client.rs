//! Connections to servers, by address.
//!
//! ```text
//!   connect ─▶ way: in clear, or TLS to a name that was checked ─▶ connection ─▶ handshake ─▶ Socket, and the function runs
//!                 └ refused                                          └ failed       └ rejected: OpenError
//! ```

use super::{OpenError, Opened, Request, Socket};
use crate::{Message, WebSocket};
use http::HeaderMap;
use netwright_core::{
    Channel, CloseCause, EventLoopGroup, IntoPipeline, Outcome, Peer, Promise, PromiseError, Promised,
    SharedPromised, Switch, pipeline, promise,
};
use netwright_http::ReplyHead;
#[cfg(feature = "tls")]
use netwright_tls::{Connector, Destination, Tls};
use netwright_transport::{Client, ConnectError, Proxies, ProxyChain, Purpose, Resolver};
use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Opens WebSockets; each is served by an async function, on one of the group's loops.
///
/// ```no_run
/// use netwright_core::{CloseCause, Peer};
/// use netwright_websocket::{Message, Opened, WebSocketClient};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// async fn greet(mut peer: Peer<Message, Message>, opened: Opened) -> Result<(), CloseCause> {
///     peer.write(Message::from(format!("hello, in {:?}", opened.protocol))).await?;
///     println!("{:?}", peer.read().await?);
///     Ok(())
/// }
///
/// let client = WebSocketClient::new(netwright_transport::event_loops(1)?);
/// let socket = client.connect("ws://127.0.0.1:7010/", greet).wait()?; // or `.await`; the server has agreed
/// println!("{:?}", socket.opened());
/// println!("{}", socket.closed().wait()?); // `greet` has ended
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WebSocketClient {
    group: EventLoopGroup,
    resolver: Resolver,
    proxies: Proxies,
    #[cfg(feature = "tls")]
    connector: Option<Connector>,
    #[cfg(feature = "tls")]
    proxy_connector: Option<Connector>,
}

/// What the bytes of a connection go through. There is no third way: what is to be encrypted has somebody who does it.
enum Security {
    Plain,
    #[cfg(feature = "tls")]
    Tls(Destination),
}

impl WebSocketClient {
    /// Connections live on these loops.
    pub fn new(group: EventLoopGroup) -> Self {
        Self {
            group,
            resolver: Resolver::new(),
            proxies: Proxies::none(),
            #[cfg(feature = "tls")]
            connector: None,
            #[cfg(feature = "tls")]
            proxy_connector: None,
        }
    }

    /// `wss` addresses are connected to by this connector.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, connector: Connector) -> Self {
        self.connector = Some(connector);
        self
    }

    /// [Proxies](Self::through) of `https://` are spoken to by this connector, which offers them HTTP/1.1 alone, whatever it offers otherwise.
    /// Default: the one for [`wss`](Self::tls).
    #[cfg(feature = "tls")]
    pub fn proxy_tls(mut self, connector: Connector) -> Self {
        self.proxy_connector = Some(connector);
        self
    }

    /// Connects through proxies: a [`Proxy`](netwright_transport::Proxy), a chain of them, or [`Proxies::from_env`], which has those of `http` for
    /// `ws`, and those of `https` for `wss`. Each is asked for a tunnel, also one of HTTP. Default: none.
    ///
    /// ```
    /// use netwright_transport::Proxy;
    /// use netwright_websocket::WebSocketClient;
    ///
    /// let group = netwright_transport::event_loops(1)?;
    /// let client = WebSocketClient::new(group).through(Proxy::socks5("127.0.0.1:1080"));
    /// # drop(client);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn through(mut self, proxies: impl Into<Proxies>) -> Self {
        self.proxies = proxies.into();
        self
    }

    /// Connects, asks for a WebSocket, and has `serve` do the rest: it is given the peer, and what was agreed to.
    ///
    /// The future resolves when the server has agreed, which may take it as long as the
    /// [request](Request::deadline) says. If it did not, the error tells what it answered instead. Cancelling it gives the
    /// attempt up.
    pub fn connect<R, F, T>(&self, request: R, serve: F) -> Promised<Socket, OpenError>
    where
        R: TryInto<Request>,
        OpenError: From<R::Error>,
        F: FnOnce(Peer<Message, Message>, Opened) -> T + Send + 'static,
        T: Future<Output: Outcome> + 'static,
    {
        let request = request.try_into().map_err(OpenError::from);
        let begun = request.and_then(|request| {
            let way = self.way(&request)?;
            self.begin(request, way, serve)
        });
        begun.unwrap_or_else(|error| Promised::ready(Err(error)))
    }

    /// How to connect for this request. What is to be encrypted can be, or is refused here.
    fn way(&self, request: &Request) -> Result<Security, OpenError> {
        if !request.is_secure() {
            return Ok(Security::Plain);
        }
        #[cfg(feature = "tls")]
        if let Some(connector) = &self.connector {
            return Ok(Security::Tls(connector.to(request.host()).map_err(OpenError::Tls)?));
        }
        Err(OpenError::NoTls)
    }

    fn begin<F, T>(
        &self,
        request: Request,
        way: Security,
        serve: F,
    ) -> Result<Promised<Socket, OpenError>, OpenError>
    where
        F: FnOnce(Peer<Message, Message>, Opened) -> T + Send + 'static,
        T: Future<Output: Outcome> + 'static,
    {
        let (promise, promised) = promise();
        let task = Arc::new(Task { serve: Mutex::new(Some(serve)), answer: Mutex::new(Some(promise)) });
        let (target, told) = (request.address(), task.clone());
        let purpose = if request.is_secure() { Purpose::Https } else { Purpose::Http };
        let chain = self.proxies.find(purpose, &target).cloned();
        let client = match way {
            Security::Plain => self
                .client(chain, move || pipeline().joint(|switch| task.clone().open(request.clone(), switch))),
            #[cfg(feature = "tls")]
            Security::Tls(server) => self.client(chain, move || {
                let tls = pipeline().add(Tls::to(&server));
                tls.joint(|switch| task.clone().open(request.clone(), switch))
            }),
        };
        // Whatever a host is called, it is one.
        let connecting = client.map_err(OpenError::Connect)?.connect(format!("tcp:{target}"));
        watch(connecting, &promised, told);
        Ok(promised)
    }

    /// A client that goes through these proxies, if there are some.
    fn client<P, F>(&self, chain: Option<ProxyChain>, make: F) -> Result<Client<Infallible>, ConnectError>
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: IntoPipeline<Infallible>,
    {
        let builder = Client::builder().group(self.group.clone()).resolver(self.resolver.clone());
        let Some(chain) = chain else { return builder.pipeline(make) };
        let builder = builder.through(chain);
        #[cfg(feature = "tls")]
        if let Some(connector) = self.proxy_connector.as_ref().or(self.connector.as_ref()) {
            let connector = connector.offering(["http/1.1"]);
            return builder.proxy_tls(move |name| Tls::client(&connector, name)).pipeline(make);
        }
        builder.pipeline(make)
    }
}

/// Tells of a connection that there is none, and gives it up if nobody wants it any more.
fn watch<F: Send + 'static>(
    connecting: Promised<Channel<Infallible>, ConnectError>,
    promised: &Promised<Socket, OpenError>,
    task: Arc<Task<F>>,
) {
    let channel = Arc::new(OnceLock::new());
    let connected = channel.clone();
    connecting.listen(move |result| match result {
        Ok(channel) => drop(connected.set(channel.clone())),
        Err(error) => task.fail(OpenError::Connect(error.clone())),
    });
    promised.listen(move |result| {
        if matches!(result, Err(OpenError::Connect(ConnectError::Cancelled)))
            && !connecting.cancel()
            && let Some(channel) = channel.get()
        {
            drop(channel.close());
        }
    });
}

/// What is to be done with one connection: who serves it, and who waits for it. Each is taken once.
struct Task<F> {
    serve: Mutex<Option<F>>,
    answer: Mutex<Option<Promise<Socket, OpenError>>>,
}

fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl<F> Task<F> {
    fn fail(&self, error: OpenError) {
        if let Some(answer) = take(&self.answer) {
            answer.fail(error);
        }
    }
}

impl<F, T> Task<F>
where
    F: FnOnce(Peer<Message, Message>, Opened) -> T + Send + 'static,
    T: Future<Output: Outcome> + 'static,
{
    /// The handshake, and behind it the function.
    fn open(self: Arc<Self>, request: Request, switch: Switch<Infallible>) -> impl IntoPipeline<Infallible> {
        let unopened = self.clone();
        let make = move |mut stage: WebSocket, reply: &ReplyHead, opened: &Opened| {
            let (headers, opened, over) = (reply.headers.clone(), opened.clone(), stage.over());
            let (serve, answer) = (take(&self.serve), take(&self.answer));
            pipeline().add(stage).serve(move |peer| run(serve, answer, peer, opened, headers, over))
        };
        request.open_or(switch, make, Some(Box::new(move |cause| unopened.fail(cause.into()))))
    }
}

/// Hands the socket to whoever waits for it, and serves it, if somebody does.
async fn run<F, T>(
    serve: Option<F>,
    answer: Option<Promise<Socket, OpenError>>,
    peer: Peer<Message, Message>,
    opened: Opened,
    headers: HeaderMap,
    over: SharedPromised<CloseCause, PromiseError>,
) -> Result<(), CloseCause>
where
    F: FnOnce(Peer<Message, Message>, Opened) -> T,
    T: Future<Output: Outcome>,
{
    let (Some(serve), Some(mut answer)) = (serve, answer) else { return Ok(()) };
    if !answer.claim() {
        return Ok(()); // cancelled at the last moment
    }
    answer.succeed(Socket { channel: peer.channel(), opened: opened.clone(), headers, over });
    serve(peer, opened).await.into_result()
}

impl fmt::Debug for WebSocketClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketClient").finish_non_exhaustive()
    }
}
