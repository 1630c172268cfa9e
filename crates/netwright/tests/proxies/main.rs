//! Clients through proxies: ours by hand, which understand every protocol, and those that people run.

mod clients;
mod in_tls;
mod peers;
mod servers;
mod toy;
