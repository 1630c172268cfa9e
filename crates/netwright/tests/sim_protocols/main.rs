//! Protocols and their clients in a simulated network: links, buffers, timing and faults are drawn by a seed, and what has to hold in any case is looked at.
//!
//! ```text
//!   seed ──▶ hosts, links, buffers, faults, work ──▶ programs that know nothing of it ──▶ ledger ──▶ what must hold
//! ```
//! Each test says how many seeds it takes: so many that it is done in less than 15 s in a debug build on two cores. `NETWRIGHT_SIM_SEEDS=100000` takes
//! more, `NETWRIGHT_SIM_SEED=17` takes one.

mod chat;
mod common;
mod datagrams;
mod eyeballs;
mod files;
mod found;
mod http;
mod http2;
mod idle;
mod load;
mod pipelining;
mod pool;
mod proxy;
mod shutdown;
mod tls;
