//! Clients through proxies: ours by hand, which understand every protocol, and those that people run.

mod clients;
mod peers;
mod servers;
mod toy;
