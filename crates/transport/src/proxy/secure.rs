//! What makes the stage in front of a proxy that is spoken to in TLS. This crate knows no TLS: whoever sets up a client says who does it.

use super::Proxy;
use crate::bootstrap::ConnectError;
use bytes::BytesMut;
use netwright_core::{Context, Fault, Handler, Outgoing, WritePromise, internal::catch};
use std::sync::Arc;

/// Makes the stage for the proxy of this name, or says why the name is none.
pub(crate) type Secures<S> = Arc<dyn Fn(&str) -> Result<S, Fault> + Send + Sync>;

/// The stage for a proxy, or why there cannot be one.
pub(super) fn stage_for<S>(
    proxy: &Proxy,
    name: &str,
    secures: Option<&Secures<S>>,
) -> Result<S, ConnectError> {
    let failed = |why: String| ConnectError::Setup(format!("the proxy {proxy} is spoken to in TLS: {why}"));
    let Some(secures) = secures else {
        return Err(failed("say by whom, with `proxy_tls`".to_owned()));
    };
    if name.is_empty() {
        return Err(failed("its address has no name; say it with `Proxy::server_name`".to_owned()));
    }
    let stage = catch(|| secures(name)).map_err(ConnectError::Panicked)?;
    stage.map_err(|fault| failed(fault.to_string()))
}

/// Of a [`ClientBuilder`](crate::ClientBuilder): nobody was said to speak TLS to proxies. There is no value of this type.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Proxy};
///
/// let builder = Client::builder().through(Proxy::https("proxy.example:443"));
/// let error = builder.pipeline(|| pipeline().handle(|_, _| {})).unwrap_err();
/// assert!(error.to_string().contains("proxy_tls"), "{error}");
/// ```
#[derive(Debug)]
pub enum NoTls {}

impl Handler for NoTls {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, _: &mut Context<'_, Self>, _: BytesMut) {
        match *self {}
    }

    fn write(&mut self, _: &mut Context<'_, Self>, _: Outgoing, _: WritePromise) {
        match *self {}
    }
}
