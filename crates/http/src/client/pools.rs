//! The connections to each host, and how they are made.

use super::{Inner, WebClientBuilder, WebClientError, ask::Ask, exchange::Exchange, origin::Origin};
use crate::codec::HttpClient;
use http::HeaderValue;
use netwright_core::{IntoPipeline, pipeline};
#[cfg(feature = "tls")]
use netwright_tls::{Connector, Tls, TlsError};
use netwright_transport::{Client, ConnectError, Pool, Proxy, ProxyChain, Purpose};
use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
};

/// How a connection comes to whom a request is for.
struct Way {
    /// Through these.
    chain: Option<ProxyChain>,
    /// To there.
    address: String,
    /// This proxy is there, which is asked for whole URLs.
    proxy: Option<Proxy>,
    /// What that one is told of us.
    authorization: Option<HeaderValue>,
}

/// Hosts whose connections are kept. Beyond that, those without a connection are let go, and those that nobody uses.
const POOLS_MAX: usize = 1024;
/// So many of them stay then.
const POOLS_KEPT: usize = 768;

/// Takes out what nobody uses: all that is empty, and of the others as many as are too many.
fn trim(pools: &mut BTreeMap<Origin, Pool<Ask>>) -> Vec<Pool<Ask>> {
    let mut spare = pools.len().saturating_sub(POOLS_KEPT);
    let used = |pool: &Pool<Ask>| {
        let figures = pool.figures();
        (figures.in_use + figures.connecting + figures.waiting > 0, figures.idle > 0)
    };
    let mut unused = take_out(pools, usize::MAX, |pool| used(pool) == (false, false));
    spare = spare.saturating_sub(unused.len());
    unused.extend(take_out(pools, spare, |pool| !used(pool).0));
    unused
}

/// Up to so many of which that is true, in the order of their origins.
fn take_out(
    pools: &mut BTreeMap<Origin, Pool<Ask>>,
    max: usize,
    which: impl Fn(&Pool<Ask>) -> bool,
) -> Vec<Pool<Ask>> {
    let origins = pools.iter().filter(|(_, pool)| which(pool)).map(|(origin, _)| origin.clone());
    let origins: Vec<Origin> = origins.take(max).collect();
    origins.iter().filter_map(|origin| pools.remove(origin)).collect()
}

#[cfg(feature = "tls")]
fn tls_error(error: TlsError) -> WebClientError {
    WebClientError::Tls(error.to_string())
}

impl Inner {
    pub(super) fn pools(&self) -> MutexGuard<'_, BTreeMap<Origin, Pool<Ask>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pool(&self, origin: &Origin) -> Result<Pool<Ask>, WebClientError> {
        let mut pools = self.pools();
        if let Some(pool) = pools.get(origin) {
            return Ok(pool.clone());
        }
        let unused = if pools.len() >= POOLS_MAX { trim(&mut pools) } else { Vec::new() };
        let pool = self.new_pool(origin)?;
        pools.insert(origin.clone(), pool.clone());
        drop(pools);
        drop(unused); // closes what waits there
        Ok(pool)
    }

    fn new_pool(&self, origin: &Origin) -> Result<Pool<Ask>, WebClientError> {
        let way = self.way(origin)?;
        let client = if origin.tls { self.tls_client(origin, way.chain)? } else { self.plain_client(&way)? };
        let WebClientBuilder { connections, idle, .. } = self.settings;
        let pool = Pool::to(&client, way.address).max_connections(connections).idle_timeout(idle).build();
        pool.map_err(|error| WebClientError::Connect(ConnectError::Setup(error.to_string())))
    }

    fn way(&self, origin: &Origin) -> Result<Way, WebClientError> {
        let target = origin.address();
        // Whatever a host is called, it is one: a URL, or a redirect, does not lead into this machine.
        let address = format!("tcp:{target}");
        let purpose = if origin.tls { Purpose::Https } else { Purpose::Http };
        let chain = self.settings.proxies.find(purpose, &target).cloned();
        if let (false, Some(chain)) = (origin.tls, &chain)
            && let (last, before) = chain.split_last()
            && last.is_http()
        {
            let secret = last.authorization().map(HeaderValue::try_from).transpose();
            let mut authorization = secret.map_err(|_| {
                let why = format!("the credentials for {last} are no value of a header");
                WebClientError::Connect(ConnectError::Setup(why))
            })?;
            authorization.iter_mut().for_each(|value| value.set_sensitive(true));
            return Ok(Way {
                chain: before,
                address: last.address().to_owned(),
                proxy: Some(last.clone()),
                authorization,
            });
        }
        Ok(Way { chain, address, proxy: None, authorization: None })
    }

    /// A client that goes through these proxies.
    fn client<P, F>(&self, chain: Option<ProxyChain>, make: F) -> Result<Client<Ask>, WebClientError>
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: IntoPipeline<Ask>,
    {
        let time = self.settings.connect_timeout;
        let builder = Client::builder().group(self.group.clone()).connect_timeout(time);
        let Some(chain) = chain else { return builder.pipeline(make).map_err(WebClientError::from) };
        let builder = builder.through(&chain).proxy_timeout(time);
        #[cfg(feature = "tls")]
        if chain.hops().iter().any(|proxy| proxy.tls_name().is_some()) {
            let connector = self.proxy_connector()?;
            let builder = builder.proxy_tls(move |name| Tls::client(&connector, name));
            return builder.pipeline(make).map_err(WebClientError::from);
        }
        builder.pipeline(make).map_err(WebClientError::from)
    }

    fn plain_client(&self, way: &Way) -> Result<Client<Ask>, WebClientError> {
        let limits = self.limits.clone();
        let (proxied, authorization) = (way.proxy.is_some(), way.authorization.clone());
        let codec = move || HttpClient::with(limits.clone()).absolute_targets(proxied);
        let exchange = move || Exchange::default().authorized(authorization.clone());
        #[cfg(feature = "tls")]
        if let Some(name) = way.proxy.as_ref().and_then(Proxy::tls_name) {
            let proxy = self.proxy_connector()?.to(name).map_err(tls_error)?;
            return self.client(way.chain.clone(), move || {
                pipeline().add(Tls::to(&proxy)).add(codec()).last(exchange())
            });
        }
        self.client(way.chain.clone(), move || pipeline().add(codec()).last(exchange()))
    }

    #[cfg(feature = "tls")]
    fn connector(&self) -> Result<Connector, WebClientError> {
        let set = self.settings.connector.clone();
        set.map_or_else(|| Connector::system().map_err(tls_error), Ok)
    }

    /// How TLS is done with proxies: they are asked in HTTP/1.1, whatever servers are offered.
    #[cfg(feature = "tls")]
    fn proxy_connector(&self) -> Result<Connector, WebClientError> {
        let set = self.settings.proxy_connector.clone();
        Ok(set.map_or_else(|| self.connector(), Ok)?.offering(["http/1.1"]))
    }

    #[cfg(feature = "tls")]
    fn tls_client(&self, origin: &Origin, chain: Option<ProxyChain>) -> Result<Client<Ask>, WebClientError> {
        let connector = self.connector()?;
        let name = origin.host.trim_start_matches('[').trim_end_matches(']');
        let limits = self.limits.clone();
        // A name that is none is found here, and not on the loop.
        let server = connector.to(name).map_err(tls_error)?;
        self.client(chain, move || {
            pipeline().add(Tls::to(&server)).add(HttpClient::with(limits.clone())).last(Exchange::default())
        })
    }

    #[cfg(not(feature = "tls"))]
    fn tls_client(&self, origin: &Origin, _: Option<ProxyChain>) -> Result<Client<Ask>, WebClientError> {
        let url = format!("https://{}", origin.address());
        let why = "https needs the feature `https` of netwright, or `tls` of netwright-http";
        Err(WebClientError::Url { url, why })
    }
}
