//! The connections to each host, and how they are made.

#[cfg(feature = "tls")]
use super::tunnel;
use super::{Inner, WebClientError, ask::Ask, exchange::Exchange, origin::Origin};
use crate::codec::HttpClient;
use netwright_core::pipeline;
use netwright_transport::{self as transport, ConnectError, Pool};
use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
};

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
        let builder = || {
            transport::Client::builder()
                .group(self.group.clone())
                .connect_timeout(self.settings.connect_timeout)
        };
        let limits = self.limits.clone();
        let proxy = self.settings.proxy.as_ref();
        // Whatever a host is called, it is one: a URL, or a redirect, does not lead into this machine.
        let address = format!("tcp:{}", proxy.cloned().unwrap_or_else(|| origin.address()));
        let pool = if origin.tls {
            self.tls_pool(origin, builder(), address)?
        } else {
            let (proxied, idle) = (proxy.is_some(), self.settings.idle);
            let client = builder().pipeline(move || {
                let codec = HttpClient::with(limits.clone()).absolute_targets(proxied);
                pipeline().add(codec).last(Exchange::new(idle))
            });
            Pool::to(&client.map_err(WebClientError::Connect)?, address)
        };
        let pool = pool.max_connections(self.settings.connections).build();
        pool.map_err(|error| WebClientError::Connect(ConnectError::Setup(error.to_string())))
    }

    #[cfg(feature = "tls")]
    fn tls_pool(
        &self,
        origin: &Origin,
        builder: transport::ClientBuilder,
        address: String,
    ) -> Result<transport::PoolBuilder<Ask>, WebClientError> {
        use netwright_tls::{Connector, Tls};
        let tls_error = |error: netwright_tls::TlsError| WebClientError::Tls(error.to_string());
        let connector = match &self.settings.connector {
            Some(connector) => connector.clone(),
            None => Connector::system().map_err(tls_error)?,
        };
        let name = origin.host.trim_start_matches('[').trim_end_matches(']');
        let (limits, idle) = (self.limits.clone(), self.settings.idle);
        // A name that is none is found here, and not on the loop.
        let server = connector.to(name).map_err(tls_error)?;
        if self.settings.proxy.is_some() {
            let (target, time) = (origin.address(), self.settings.connect_timeout);
            let way = tunnel::Route { target, server, limits, time, idle };
            let client = builder.pipeline(move || tunnel::through(way.clone()));
            return Ok(Pool::to(&client.map_err(WebClientError::Connect)?, address));
        }
        let client = builder.pipeline(move || {
            pipeline().add(Tls::to(&server)).add(HttpClient::with(limits.clone())).last(Exchange::new(idle))
        });
        Ok(Pool::to(&client.map_err(WebClientError::Connect)?, address))
    }

    #[cfg(not(feature = "tls"))]
    fn tls_pool(
        &self,
        origin: &Origin,
        _: transport::ClientBuilder,
        _: String,
    ) -> Result<transport::PoolBuilder<Ask>, WebClientError> {
        let url = format!("https://{}", origin.address());
        let why = "https needs the feature `https` of netwright, or `tls` of netwright-http";
        Err(WebClientError::Url { url, why })
    }
}
