//! Which versions of HTTP a server speaks, as its command line says.
//!
//! | | in the clear | behind `--tls` |
//! | --- | --- | --- |
//! | [`Versions::Both`] | the first bytes decide; `Upgrade: h2c` | ALPN: `h2`, `http/1.1` |
//! | [`Versions::Http1`] | HTTP/1.1 | ALPN: `http/1.1` |
//! | [`Versions::Http2`] | HTTP/2; who begins otherwise is refused | does not go together |

use netwright::http::HttpVersions;

/// Which versions of HTTP a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Versions {
    #[default]
    Both,
    Http1,
    Http2,
}

/// Who says that it speaks only 1.0 is not to be refused for that.
const OLD: &str = "http/1.0";

impl Versions {
    /// What TLS offers, the best first.
    pub(crate) fn alpn(self) -> &'static [&'static str] {
        const H2: &str = HttpVersions::ALPN[0];
        const HTTP1: &str = HttpVersions::ALPN[1];
        match self {
            Self::Both => &[H2, HTTP1, OLD],
            Self::Http1 => &[HTTP1, OLD],
            Self::Http2 => &[H2],
        }
    }

    /// Has a server speak these and no others.
    pub(crate) fn of<F>(self, server: HttpVersions<F>) -> HttpVersions<F> {
        match self {
            Self::Both => server,
            Self::Http1 => server.http1_only(),
            Self::Http2 => server.http2_only(),
        }
    }
}
