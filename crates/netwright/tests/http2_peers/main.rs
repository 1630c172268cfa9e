//! HTTP/2 with other people's programs: curl, nghttp and h2load, Python's `httpx` and `h2`, Node's `http2` and `undici`, Chromium; and
//! haproxy, nghttpx and nginx, which stand in front of us.
//!
//! Packages of Python and Node are installed below the target folder, once. Programs of the system are used if they are there
//! (`scripts/peers` installs them). What cannot be had skips its test with a line that says so; `NETWRIGHT_PEERS=required` makes that a failure.

mod browser;
mod curl;
mod fronts;
mod libraries;
mod load;
mod servers;
mod shutdown;
mod site;
mod support;
