//! A network that stands in for the system's: servers, clients, datagrams and pools on loops that brought one along.

#[path = "../support/mod.rs"]
#[allow(unused)]
mod support;

mod clients;
mod datagrams;
mod names;
mod servers;
mod toy;
