//! The connections to each host, and how they are made.

#[cfg(feature = "tls")]
use super::builder::Versions;
use super::{
    Inner, WebClientBuilder, WebClientError, WebClientFigures, ask::Ask, exchange::Exchange, lease::Lease,
    origin::Origin, room::Room, shared::SharedConnections, site::Site, speaks,
};
use crate::codec::HttpClient;
use http::HeaderValue;
use netwright_core::{IntoPipeline, pipeline, time};
#[cfg(feature = "tls")]
use netwright_tls::{Connector, Tls, TlsError};
use netwright_transport::{Client, ConnectError, Pool, Proxy, ProxyChain, Purpose};
use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError, Weak},
    time::Instant,
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
fn trim(sites: &mut BTreeMap<Origin, Arc<Site>>) -> Vec<Arc<Site>> {
    let mut spare = sites.len().saturating_sub(POOLS_KEPT);
    let used = |site: &Site| {
        let mut figures = WebClientFigures::default();
        site.count(&mut figures);
        (figures.in_use + figures.connecting + figures.waiting > 0, figures.idle > 0)
    };
    let mut unused = take_out(sites, usize::MAX, |site| used(site) == (false, false));
    spare = spare.saturating_sub(unused.len());
    unused.extend(take_out(sites, spare, |site| !used(site).0));
    unused
}

/// Up to so many of which that is true, in the order of their origins.
fn take_out(
    sites: &mut BTreeMap<Origin, Arc<Site>>,
    max: usize,
    which: impl Fn(&Site) -> bool,
) -> Vec<Arc<Site>> {
    let origins = sites.iter().filter(|(_, site)| which(site)).map(|(origin, _)| origin.clone());
    let origins: Vec<Origin> = origins.take(max).collect();
    origins.iter().filter_map(|origin| sites.remove(origin)).collect()
}

#[cfg(feature = "tls")]
fn tls_error(error: TlsError) -> WebClientError {
    WebClientError::Tls(error.to_string())
}

impl Inner {
    pub(super) fn sites(&self) -> MutexGuard<'_, BTreeMap<Origin, Arc<Site>>> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn site(&self, origin: &Origin) -> Result<Arc<Site>, WebClientError> {
        let mut sites = self.sites();
        if let Some(site) = sites.get(origin) {
            return Ok(site.clone());
        }
        let unused = if sites.len() >= POOLS_MAX { trim(&mut sites) } else { Vec::new() };
        let site = Arc::new(self.new_site(origin)?);
        sites.insert(origin.clone(), site.clone());
        drop(sites);
        drop(unused); // closes what waits there
        Ok(site)
    }

    /// A connection for a request, or a stream of one, within the time of the whole request.
    pub(super) async fn lease(&self, origin: &Origin, begun: Instant) -> Result<Lease, WebClientError> {
        let leasing = self.site(origin)?;
        let limit = self.settings.times.total;
        if limit.is_zero() {
            return leasing.lease().await;
        }
        let left = limit.saturating_sub(time::now().saturating_duration_since(begun));
        let leased = time::timeout(left, leasing.lease()).await;
        leased.unwrap_or(Err(WebClientError::TimedOut { what: "a connection for the request", limit }))
    }

    fn new_site(&self, origin: &Origin) -> Result<Site, WebClientError> {
        let WebClientBuilder { connections, idle, versions, .. } = self.settings;
        let way = self.way(origin)?;
        let in_the_clear = versions.prior_knowledge;
        let shares = if origin.tls { versions.http2 } else { in_the_clear };
        let shared = shares.then(|| SharedConnections::new(connections, self.group.next()));
        let owner = shared.as_ref().map(Arc::downgrade).unwrap_or_default();
        let client = if origin.tls {
            self.tls_client(origin, way.chain, owner)?
        } else if in_the_clear {
            self.prior_knowledge_client(way.chain, owner)?
        } else {
            self.plain_client(&way)?
        };
        let pool = Pool::to(&client, way.address).max_connections(connections).idle_timeout(idle).build();
        let pool = pool.map_err(|error| WebClientError::Connect(ConnectError::Setup(error.to_string())))?;
        Ok(Site { pool, shared })
    }

    fn way(&self, origin: &Origin) -> Result<Way, WebClientError> {
        let target = origin.address();
        // Whatever a host is called, it is one: a URL, or a redirect, does not lead into this machine.
        let address = format!("tcp:{target}");
        let purpose = if origin.tls { Purpose::Https } else { Purpose::Http };
        let chain = self.settings.proxies.find(purpose, &target).cloned();
        // A proxy that is asked for whole URLs is asked by HTTP/1.1.
        if let (false, Some(chain)) = (origin.tls || self.settings.versions.prior_knowledge, &chain)
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

    /// One for servers that are known to speak HTTP/2.
    fn prior_knowledge_client(
        &self,
        chain: Option<ProxyChain>,
        owner: Weak<SharedConnections>,
    ) -> Result<Client<Ask>, WebClientError> {
        let limits = self.limits.clone();
        self.client(chain, move || {
            let room = Arc::new(Room::new(owner.clone()));
            pipeline().last(speaks::http2(limits.clone(), false, room))
        })
    }

    #[cfg(feature = "tls")]
    fn tls_client(
        &self,
        origin: &Origin,
        chain: Option<ProxyChain>,
        owner: Weak<SharedConnections>,
    ) -> Result<Client<Ask>, WebClientError> {
        let connector = self.connector()?;
        let versions = self.settings.versions;
        let connector = match versions {
            // Whoever has said what to offer knows why.
            Versions { http1: true, http2: true, .. } if !connector.config().alpn_protocols.is_empty() => {
                connector
            }
            Versions { http1: true, http2: true, .. } => connector.offering(["h2", "http/1.1"]),
            Versions { http2: true, .. } => connector.offering(["h2"]),
            Versions { .. } => connector.offering(["http/1.1"]),
        };
        let name = origin.host.trim_start_matches('[').trim_end_matches(']');
        let limits = self.limits.clone();
        // A name that is none is found here, and not on the loop.
        let server = connector.to(name).map_err(tls_error)?;
        if !versions.http2 {
            return self.client(chain, move || {
                let codec = HttpClient::with(limits.clone());
                pipeline().add(Tls::to(&server)).add(codec).last(Exchange::default())
            });
        }
        self.client(chain, move || {
            let (limits, owner) = (limits.clone(), owner.clone());
            pipeline()
                .add(Tls::to(&server))
                .joint(move |switch| pipeline().last(speaks::ByAlpn::new(switch, limits, versions, owner)))
        })
    }

    #[cfg(not(feature = "tls"))]
    fn tls_client(
        &self,
        origin: &Origin,
        _: Option<ProxyChain>,
        _: Weak<SharedConnections>,
    ) -> Result<Client<Ask>, WebClientError> {
        let url = format!("https://{}", origin.address());
        let why = "https needs the feature `https` of netwright, or `tls` of netwright-http";
        Err(WebClientError::Url { url, why })
    }
}
