//! The option of clients for proxies.

use clap::Args;
use netwright::client::{Proxies, Proxy, ProxyChain};

#[derive(Debug, Args)]
pub(crate) struct ProxyArguments {
    /// Connect through this proxy: http://HOST:PORT (CONNECT), socks5://, socks4a:// or socks4://, with USER:PASSWORD@ in front of HOST if it
    /// asks for them. Repeated: through one after the other
    #[arg(long = "proxy", value_name = "URL")]
    hops: Vec<Proxy>,
}

impl ProxyArguments {
    /// Where connections go first.
    pub(crate) fn hops(&self) -> &[Proxy] {
        &self.hops
    }

    /// What clients are made with.
    pub(crate) fn proxies(&self) -> Proxies {
        let mut hops = self.hops.iter().cloned();
        let Some(first) = hops.next() else { return Proxies::none() };
        hops.fold(ProxyChain::from(first), ProxyChain::then).into()
    }
}
