//! Proxies one behind the other, and a connection that is to be made through them.

use super::{
    Dialogue, HOPS_MAX, Proxy, ProxyError, dialogue::Asked, proxy::Protocol, secure, secure::Secures,
    target::Target,
};
use crate::{
    bootstrap::ConnectError,
    resolve::{FamilyPreference, Resolve, interleave, look_up},
};
use std::{fmt, net::IpAddr, sync::Arc};

/// Proxies one behind the other: the first one is connected to, and each is asked to connect to the next. Up to [`HOPS_MAX`].
///
/// ```
/// use netwright_transport::Proxy;
///
/// let chain = Proxy::http("gateway:3128").then(Proxy::socks5("far.example:1080"));
/// assert_eq!(chain.to_string(), "http://gateway:3128, socks5h://far.example:1080");
/// assert_eq!(chain.hops().len(), 2);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyChain {
    hops: Vec<Proxy>,
}

impl ProxyChain {
    /// Another proxy at the end.
    pub fn then(mut self, next: Proxy) -> Self {
        self.hops.push(next);
        self
    }

    /// The proxies, the one that is connected to first.
    pub fn hops(&self) -> &[Proxy] {
        &self.hops
    }

    /// The last proxy, and those before it, if there are any.
    pub fn split_last(&self) -> (&Proxy, Option<ProxyChain>) {
        let last = self.hops.last().expect("a chain has a proxy, by its constructor");
        let before = &self.hops[..self.hops.len() - 1];
        (last, (!before.is_empty()).then(|| ProxyChain { hops: before.to_vec() }))
    }

    /// Whether connections can be made through it at all.
    pub(super) fn check(&self) -> Result<(), ConnectError> {
        if self.hops.len() > HOPS_MAX {
            let hops = self.hops.len();
            return Err(ConnectError::Setup(format!("a chain of {hops} proxies: the limit is {HOPS_MAX}")));
        }
        self.hops.iter().try_for_each(Proxy::check)?;
        // Each but the first is what another one is asked for.
        for (index, proxy) in self.hops.iter().enumerate().skip(1) {
            let before = &self.hops[index - 1];
            Target::parse(&proxy.address).map_err(|error| match error {
                Ok(why) => ConnectError::Proxy(Box::new(ProxyError::new(index, before, &proxy.address, why))),
                Err(error) => ConnectError::Resolve(error),
            })?;
        }
        Ok(())
    }
}

impl ProxyChain {
    /// Whether somebody speaks TLS to those of them that are spoken to so.
    pub(super) fn check_tls<S>(&self, secures: Option<&Secures<S>>) -> Result<(), ConnectError> {
        let in_tls = self.hops.iter().filter_map(|proxy| Some((proxy, proxy.tls_name()?)));
        in_tls.into_iter().try_for_each(|(proxy, name)| secure::stage_for(proxy, name, secures).map(drop))
    }
}

impl From<Proxy> for ProxyChain {
    fn from(proxy: Proxy) -> Self {
        Self { hops: vec![proxy] }
    }
}

impl fmt::Display for ProxyChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, proxy) in self.hops.iter().enumerate() {
            let between = if index == 0 { "" } else { ", " };
            write!(f, "{between}{proxy}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ProxyChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.hops).finish()
    }
}

/// A connection that is to be made through a chain.
pub(crate) struct Route {
    chain: ProxyChain,
    target: String,
}

impl Route {
    pub(super) fn new(chain: ProxyChain, target: &str) -> Self {
        Self { chain, target: target.to_owned() }
    }

    /// Where to connect to.
    pub(crate) fn first(&self) -> &str {
        &self.chain.hops[0].address
    }

    /// What is to be said on that connection. Names that no proxy looks up are looked up now.
    pub(crate) async fn plan(self, resolver: Arc<dyn Resolve>) -> Result<Box<Dialogue>, ConnectError> {
        let hops = &self.chain.hops;
        let mut asked = Vec::with_capacity(hops.len());
        for (index, proxy) in hops.iter().enumerate() {
            let text = hops.get(index + 1).map_or(&*self.target, |next| &*next.address);
            let refused = |why| ConnectError::from(ProxyError::new(index + 1, proxy, text, why));
            let mut target = Target::parse(text).map_err(|error| match error {
                Ok(why) => refused(why),
                Err(error) => error.into(),
            })?;
            if proxy.local_names && target.is_name() {
                let found = look_up(&*resolver, &target.to_string()).await?;
                let v4_only = proxy.protocol == Protocol::Socks4;
                let order = interleave(&found, FamilyPreference::AsResolved);
                let mut usable = order.iter().map(|address| address.ip().to_canonical());
                let ip = usable.find(|ip| !v4_only || IpAddr::is_ipv4(ip));
                target = target.at(ip.ok_or_else(|| refused(NO_V4))?);
            }
            target.check_for(proxy.protocol).map_err(refused)?;
            asked.push(Asked { proxy: proxy.clone(), target });
        }
        Ok(Box::new(Dialogue::new(asked)))
    }
}

const NO_V4: super::ProxyWhy =
    super::ProxyWhy::Target("SOCKS 4 knows no IPv6, and the name has no other address");
