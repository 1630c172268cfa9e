//! Which proxy did not let us through, and why.

use super::{ANSWER_MAX, Proxy};
use netwright_core::{CloseCause, Fault};
use std::{error::Error, fmt, time::Duration};

/// Which proxy did not let us through, and why.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, ConnectError, Proxy, ProxyWhy, Server};
///
/// // Whatever it is asked for, it hangs up.
/// let deaf = Server::builder().pipeline(|_| pipeline().handle(|cx, _| cx.close())).bind("127.0.0.1:0").wait()?;
/// let client = Client::builder().through(Proxy::http(deaf.address())).pipeline(|| pipeline().handle(|_, _| {}))?;
/// match client.connect("example.org:80").wait() {
///     Err(ConnectError::Proxy(error)) => {
///         assert_eq!(error.hop, 1);
///         assert!(matches!(error.why, ProxyWhy::Ended(_)), "{error}");
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProxyError {
    /// Which one of the chain, from 1.
    pub hop: usize,
    /// The proxy as a URL, without its credentials.
    pub proxy: String,
    /// What it was asked to connect to.
    pub target: String,
    /// What went wrong.
    pub why: ProxyWhy,
}

impl ProxyError {
    pub(super) fn new(hop: usize, proxy: &Proxy, target: impl ToString, why: ProxyWhy) -> Self {
        Self { hop, proxy: proxy.to_string(), target: target.to_string(), why }
    }
}

/// Why a proxy did not let us through.
///
/// ```
/// use netwright_transport::ProxyWhy;
///
/// let text = ProxyWhy::Socks { code: 5 }.to_string();
/// assert_eq!(text, "it refused with code 5: the target refused the connection");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ProxyWhy {
    /// It answered `CONNECT` with this status of HTTP.
    Status(u16),
    /// It refused with this code of SOCKS: of version 4 from 91 on, of version 5 from 1 on.
    Socks {
        /// The code.
        code: u8,
    },
    /// It wants credentials, or other ones.
    Unauthorized {
        /// Whether it was given some.
        given: bool,
    },
    /// What it answered is nothing that its protocol knows.
    Malformed(&'static str),
    /// Its answer is longer than [`ANSWER_MAX`].
    TooLong,
    /// The connection ended before the proxy had agreed.
    Ended(CloseCause),
    /// It is spoken to in TLS, and hands could not be shaken.
    Tls(Fault),
    /// All proxies of the chain together did not agree within this time.
    TimedOut(Duration),
    /// Its protocol cannot be asked for this target.
    Target(&'static str),
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hop, proxy, target, why } = self;
        let target = target.escape_debug(); // it may come from somebody who would like to write lines into our log
        write!(f, "no connection to {target} through the proxy {proxy} (hop {hop}): {why}")
    }
}

impl fmt::Display for ProxyWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "it answered {status}"),
            Self::Socks { code } => write!(f, "it refused with code {code}: {}", meaning(*code)),
            Self::Unauthorized { given: false } => f.write_str("it wants credentials"),
            Self::Unauthorized { given: true } => f.write_str("it did not accept the credentials"),
            Self::Malformed(what) => write!(f, "its answer is malformed: {what}"),
            Self::TooLong => write!(f, "its answer is longer than the limit of {ANSWER_MAX} bytes"),
            Self::Ended(cause) => write!(f, "the connection ended before it had agreed: {cause}"),
            Self::Tls(fault) => write!(f, "there is no TLS with it: {fault}"),
            Self::TimedOut(limit) => write!(f, "it did not agree within {limit:?}"),
            Self::Target(why) => f.write_str(why),
        }
    }
}

/// What a code says. Those of version 4 begin at 91, those of version 5 at 1.
fn meaning(code: u8) -> &'static str {
    match code {
        1 => "a failure of the proxy",
        2 => "its rules do not allow it",
        3 => "the network cannot be reached",
        4 => "the target cannot be reached",
        5 => "the target refused the connection",
        6 => "the time to live has expired",
        7 => "it does not know the command",
        8 => "it does not know addresses of this kind",
        91 => "rejected or failed",
        92 => "it cannot reach the identd of this machine",
        93 => "the identd of this machine reports another user",
        _ => "an unknown code",
    }
}

impl Error for ProxyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

impl Error for ProxyWhy {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Ended(cause) => Some(cause),
            Self::Tls(fault) => Some(fault.as_error()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_writes_no_lines_into_a_log() {
        let error = |target: &str| {
            let why = ProxyWhy::Target("no name");
            ProxyError { hop: 1, proxy: "http://p:1".into(), target: target.into(), why }.to_string()
        };
        assert_eq!(
            error("a\r\nb\0:80"),
            r"no connection to a\r\nb\0:80 through the proxy http://p:1 (hop 1): no name"
        );
        assert!(error("[::1]:80").contains("to [::1]:80 through"));
        assert!(error("bücher.example:80").contains("to bücher.example:80 through"));
    }
}
