//! What the environment says of proxies. Nobody asks it unless told to.

use super::{BadProxy, Proxies, Proxy, ProxyChain, bypass::Bypass};
use std::env;

impl Proxies {
    /// What the environment says, for those who want that: `http_proxy`, `https_proxy`, `all_proxy` for the others, and `no_proxy`, each also in
    /// capitals. The variable in small letters is looked at first, and an empty one is like none.
    ///
    /// In a CGI program, which has `REQUEST_METHOD`, `HTTP_PROXY` is ignored: there it is a header of whoever sent the request, who
    /// could choose our proxy that way.
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_transport::{Client, Proxies};
    ///
    /// let client = Client::builder().through(Proxies::from_env()?).pipeline(|| pipeline().handle(|_, _| {}))?;
    /// # drop(client);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A variable holds no proxy, or `no_proxy` an entry that means nothing. The error names the variable and not what is in it, which may be a
    /// password.
    pub fn from_env() -> Result<Self, BadProxy> {
        Self::from_vars(|name| env::var_os(name)?.into_string().ok())
    }

    /// The same of other variables than those of the process.
    ///
    /// # Errors
    /// As for [`from_env`](Self::from_env).
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, BadProxy> {
        let set =
            |name: &str| var(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let in_cgi = var("REQUEST_METHOD").is_some();
        // Where names of variables have no case, the small one is the same variable.
        let is_header =
            |name: &str| in_cgi && (name == "HTTP_PROXY" || cfg!(windows) && name == "http_proxy");
        let either = |small: &str, capital: &str| {
            let names = [small, capital].into_iter().filter(|name| !is_header(name));
            names.map(|name| (name.to_owned(), set(name))).find_map(|(name, value)| Some((name, value?)))
        };
        let proxy = |small: &str, capital: &str| {
            let Some((name, url)) = either(small, capital) else { return Ok(None) };
            let proxy = Proxy::parse(&url).map_err(|error| error.in_variable(&name))?;
            Ok::<_, BadProxy>(Some(ProxyChain::from(proxy)))
        };
        let any = proxy("all_proxy", "ALL_PROXY")?;
        let bypass = match either("no_proxy", "NO_PROXY") {
            Some((name, entries)) => Bypass::parse(&entries).map_err(|error| error.in_variable(&name))?,
            None => Bypass::default(),
        };
        Ok(Self {
            http: proxy("http_proxy", "HTTP_PROXY")?.or_else(|| any.clone()),
            https: proxy("https_proxy", "HTTPS_PROXY")?.or_else(|| any.clone()),
            any,
            bypass,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Purpose::{self, Any, Http, Https};

    fn of(vars: &[(&str, &str)]) -> Result<Proxies, BadProxy> {
        Proxies::from_vars(|name| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn found(proxies: &Proxies, purpose: Purpose) -> Option<String> {
        proxies.find(purpose, "example.org:80").map(ToString::to_string)
    }

    #[test]
    fn each_purpose_has_its_variable_and_all_proxy_is_for_the_others() {
        let proxies =
            of(&[("http_proxy", "a:1"), ("HTTPS_PROXY", "socks5h://b:2"), ("ALL_PROXY", "socks4a://c:3")])
                .unwrap();
        let [http, https, any] = [Http, Https, Any].map(|purpose| found(&proxies, purpose));
        assert_eq!(http.as_deref(), Some("http://a:1"));
        assert_eq!(https.as_deref(), Some("socks5h://b:2"));
        assert_eq!(any.as_deref(), Some("socks4a://c:3"));
        let proxies = of(&[("all_proxy", "c:3")]).unwrap();
        assert!([Http, Https, Any].iter().all(|purpose| found(&proxies, *purpose).is_some()));
        let proxies = of(&[("http_proxy", "c:3"), ("https_proxy", "c:3")]).unwrap();
        assert_eq!(found(&proxies, Any), None, "these are for HTTP");
        assert_eq!(of(&[]).unwrap(), Proxies::none());
    }

    #[test]
    fn small_letters_go_before_capitals_and_empty_is_like_none() {
        let proxies = of(&[("http_proxy", "a:1"), ("HTTP_PROXY", "b:1")]).unwrap();
        assert_eq!(found(&proxies, Http).as_deref(), Some("http://a:1"));
        let proxies = of(&[("http_proxy", " "), ("HTTP_PROXY", "b:1")]).unwrap();
        assert_eq!(found(&proxies, Http).as_deref(), Some("http://b:1"));
    }

    #[test]
    fn a_header_of_a_request_does_not_choose_the_proxy_of_a_cgi_program() {
        let proxies = of(&[("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "evil:1")]).unwrap();
        assert_eq!(found(&proxies, Http), None);
        let proxies =
            of(&[("REQUEST_METHOD", ""), ("HTTP_PROXY", "evil:1"), ("HTTPS_PROXY", "b:1")]).unwrap();
        assert_eq!((found(&proxies, Http), found(&proxies, Https).as_deref()), (None, Some("http://b:1")));
    }

    #[test]
    fn no_proxy_is_for_all_of_them() {
        let proxies = of(&[("all_proxy", "a:1"), ("NO_PROXY", "example.org,10.0.0.0/8")]).unwrap();
        assert_eq!(found(&proxies, Http), None);
        assert!(proxies.find(Any, "example.net:1").is_some());
        assert!(proxies.find(Any, "10.2.3.4:1").is_none());
    }

    #[test]
    fn a_variable_that_holds_no_proxy_is_named_and_not_shown() {
        let error = of(&[("HTTP_PROXY", "http://ada:hunter2/")]).unwrap_err();
        assert!(error.to_string().contains("HTTP_PROXY"), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        let error = of(&[("no_proxy", "a b c/9")]).unwrap_err();
        assert!(error.to_string().contains("no_proxy"), "{error}");
    }
}
