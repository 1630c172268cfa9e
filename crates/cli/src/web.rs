//! The options of `netwright serve` that only servers on HTTP have.

use crate::{
    failure::Failure,
    servers::{front, versions::Versions},
};
use clap::Args;
use netwright::{handler::Capture, http::web::Files, tls::Acceptor};
use std::path::PathBuf;

/// What they are listed under.
const HEADING: &str = "Options of http, hello and ws-echo";

#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct WebArguments {
    /// The directory whose files `serve http` serves; nothing outside of it is ever opened
    #[arg(long, value_name = "PATH", required_if_eq("protocol", "http"))]
    dir: Option<PathBuf>,

    /// Show directories without an index.html as lists of their files (http)
    #[arg(long, requires = "dir")]
    listing: bool,

    /// Speak TLS, with a self-signed certificate unless one is given
    #[arg(long)]
    tls: bool,

    /// The certificate and those that sign it, as a PEM file
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    cert: Option<PathBuf>,

    /// The certificate's key, as a PEM file
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"])]
    key: Option<PathBuf>,

    /// Speak only HTTP/1.1. Without this option HTTP/2 is spoken too: behind --tls to who asks for it by ALPN, in the
    /// clear to who begins with it (curl --http2-prior-knowledge, nghttp) or asks by Upgrade: h2c (curl --http2). WebSocket is
    /// spoken over it as well (RFC 8441)
    #[arg(long)]
    http1_only: bool,

    /// Speak only HTTP/2, in the clear: for peers that know it beforehand, as proxies do to their backends. Who begins
    /// with HTTP/1.1, to upgrade or to stay, is refused
    #[arg(long, conflicts_with_all = ["tls", "http1_only"])]
    h2c: bool,
}

impl WebArguments {
    /// Refuses what the named protocol has no use for.
    pub(crate) fn check(&self, protocol: &str) -> Result<(), Failure> {
        let unused = |option: &str, whose: &str| {
            Err(Failure::usage(format!("{option} is for serve {whose} only, not for {protocol}")))
        };
        if self.tls && !["http", "hello", "ws-echo"].contains(&protocol) {
            return unused("--tls", "http, hello and ws-echo");
        }
        for (option, given) in [("--http1-only", self.http1_only), ("--h2c", self.h2c)] {
            if given && !["http", "hello", "ws-echo"].contains(&protocol) {
                return unused(option, "http, hello and ws-echo");
            }
        }
        if self.dir.is_some() && protocol != "http" {
            return unused("--dir", "http");
        }
        Ok(())
    }

    pub(crate) fn acceptor(
        &self,
        versions: Versions,
        capture: Option<&Capture>,
    ) -> Result<Option<Acceptor>, Failure> {
        if !self.tls {
            return Ok(None);
        }
        let files = self.cert.as_deref().zip(self.key.as_deref());
        front::acceptor(files, versions, capture).map(Some)
    }

    pub(crate) fn versions(&self) -> Versions {
        match (self.http1_only, self.h2c) {
            (true, _) => Versions::Http1,
            (_, true) => Versions::Http2,
            _ => Versions::Both,
        }
    }

    pub(crate) fn files(&self) -> Result<Files, Failure> {
        let Some(dir) = &self.dir else { return Err(Failure::usage("serve http needs --dir PATH")) };
        let files = Files::below(dir)
            .map_err(|error| Failure::Failed(format!("cannot serve {}: {error}", dir.display())))?;
        Ok(files.listing(self.listing))
    }

    /// What a URL of such a server begins with.
    pub(crate) fn scheme(&self, protocol: &str) -> Option<&'static str> {
        match (protocol, self.tls) {
            ("http" | "hello", false) => Some("http"),
            ("http" | "hello", true) => Some("https"),
            ("ws-echo", false) => Some("ws"),
            ("ws-echo", true) => Some("wss"),
            _ => None,
        }
    }

    /// What to say about the certificate.
    pub(crate) fn certificate(&self) -> Option<String> {
        let file = |cert: &PathBuf| format!("certificate: from {}", cert.display());
        let own = || "certificate: self-signed, so clients have to be told to trust it (curl -k)".to_owned();
        self.tls.then(|| self.cert.as_ref().map_or_else(own, file))
    }
}
