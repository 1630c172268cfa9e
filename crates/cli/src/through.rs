//! The options of clients for proxies.

use crate::failure::Failure;
use clap::Args;
use netwright::{
    client::{ClientBuilder, Proxies, Proxy, ProxyChain, ThroughProxies},
    tls::{Connector, Roots, Tls, TlsError},
};

#[derive(Debug, Args)]
pub(crate) struct ProxyArguments {
    /// Connect through this proxy: http://HOST:PORT (CONNECT), https:// (the same in TLS), socks5://, socks4a:// or socks4://, with
    /// USER:PASSWORD@ in front of HOST if it asks for them. Repeated: through one after the other
    #[arg(long = "proxy", value_name = "URL")]
    hops: Vec<Proxy>,

    /// Take any certificate from proxies (https://)
    ///
    /// Without this option the certificate has to be signed by somebody whom this machine trusts.
    #[arg(long, requires = "hops")]
    proxy_insecure: bool,
}

/// A client that speaks TLS to proxies that want it.
pub(crate) type Builder = ClientBuilder<ThroughProxies<Tls>>;

/// Where connections go through.
#[derive(Clone)]
pub(crate) struct Through {
    proxies: Proxies,
    /// If one of them is spoken to in TLS.
    connector: Option<Connector>,
}

impl ProxyArguments {
    /// Where connections go first.
    pub(crate) fn hops(&self) -> &[Proxy] {
        &self.hops
    }

    /// What clients are made with.
    pub(crate) fn through(&self) -> Result<Through, Failure> {
        let mut hops = self.hops.iter().cloned();
        let proxies = match hops.next() {
            None => Proxies::none(),
            Some(first) => hops.fold(ProxyChain::from(first), ProxyChain::then).into(),
        };
        let connector = match proxies.in_tls().next() {
            None if self.proxy_insecure => {
                return Err(Failure::usage("--proxy-insecure is for proxies of https:// only"));
            }
            None => None,
            Some(_) => Some(connector(HTTP1, self.proxy_insecure)?),
        };
        Ok(Through { proxies, connector })
    }
}

impl Through {
    pub(crate) fn client(&self, builder: ClientBuilder) -> Builder {
        let connector = self.connector.clone();
        builder.through(self.proxies.clone()).proxy_tls(move |name| match &connector {
            Some(connector) => Tls::client(connector, name),
            None => Err(TlsError::ServerName(name.to_owned())),
        })
    }
}

/// What TLS calls HTTP/1.1.
pub(crate) const HTTP1: &str = "http/1.1";

/// How TLS is done, to speak this.
pub(crate) fn connector(protocol: &str, insecure: bool) -> Result<Connector, Failure> {
    let builder = Connector::builder().alpn([protocol]);
    let builder = match insecure {
        true => builder.dangerously_accept_any_certificate(),
        false => builder.roots(Roots::system()?),
    };
    Ok(builder.build()?)
}
