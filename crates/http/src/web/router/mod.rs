//! Which handler a request is for: methods times paths.
//!
//! ```text
//!   GET /users/7 ──▶ [ tree of paths ] ──▶ methods of /users/{id} ──▶ handler, and id = "7"
//!                        │ none               │ none for this one
//!                        ▼                    ▼
//!                     Miss::Path          Miss::Method (405, Allow)   or, for OPTIONS, Miss::Options (204, Allow)
//! ```
//! Always true:
//! 1. Paths are compared as they came, percent-encoded; parameters are decoded when they are asked for. So an encoded slash
//!    never makes a segment of its own.
//! 2. A lookup takes time by the path's length, not by the number of routes. It allocates nothing, but once for more than
//!    three parameters, and once where fixed text was taken and a parameter stands beside it (`/users/me`, `/users/{id}`).
//! 3. Everything about a route that could be wrong is found when it is added.
//!
//! Not here: what a handler is. A router holds values of any one type, functions, boxes, numbers, and finds one.

mod miss;
mod params;

pub use miss::Miss;
pub use params::{ParamError, Params};

use http::{HeaderValue, Method};
use std::{error::Error, fmt};

/// Routes to values of one type.
///
/// ```
/// use http::Method;
/// use netwright_http::web::{Miss, Params, Router};
///
/// type Handler = fn(&Params<'_, '_>) -> String;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let users = Router::new()
///     .get("/", (|_| "all users".into()) as Handler)?
///     .get("/{id}", |params| format!("user {}", params.parse::<u32>("id").unwrap_or(0)))?;
/// let router = Router::new()
///     .get("/", (|_| "hello".into()) as Handler)?
///     .get("/files/{*path}", |params| params.text("path").unwrap_or_default().into_owned())?
///     .nest("/users", users)?;
///
/// let found = router.find(&Method::GET, "/users/7").unwrap();
/// assert_eq!((found.handler)(&found.params), "user 7");
/// assert_eq!(found.pattern, "/users/{id}");
///
/// let miss = router.find(&Method::POST, "/users/7").unwrap_err();
/// assert_eq!(miss.reply().status(), 405);
/// assert_eq!(miss.reply().headers()["allow"], "GET, HEAD, OPTIONS");
/// # Ok(())
/// # }
/// ```
///
/// Patterns: `/fixed`, `/{name}` for one segment, `/{*rest}` for all that follows, `{{` and `}}` for braces. Fixed text comes
/// before parameters. `/a` and `/a/` are different paths.
pub struct Router<T> {
    paths: matchit::Router<usize>,
    routes: Vec<Route<T>>,
    /// All methods that any route knows, for `OPTIONS *`.
    allow: HeaderValue,
}

struct Route<T> {
    pattern: String,
    methods: Vec<(Method, T)>,
    any: Option<T>,
    allow: HeaderValue,
}

impl<T> Default for Router<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Router<T> {
    /// No routes.
    pub fn new() -> Self {
        Self { paths: matchit::Router::new(), routes: Vec::new(), allow: HeaderValue::from_static("OPTIONS") }
    }

    /// Adds a handler for `GET`, and for `HEAD` unless that has one of its own.
    pub fn get(self, path: &str, handler: T) -> Result<Self, RouteError> {
        self.route(Method::GET, path, handler)
    }

    /// Adds a handler for `POST`.
    pub fn post(self, path: &str, handler: T) -> Result<Self, RouteError> {
        self.route(Method::POST, path, handler)
    }

    /// Adds a handler for `PUT`.
    pub fn put(self, path: &str, handler: T) -> Result<Self, RouteError> {
        self.route(Method::PUT, path, handler)
    }

    /// Adds a handler for `PATCH`.
    pub fn patch(self, path: &str, handler: T) -> Result<Self, RouteError> {
        self.route(Method::PATCH, path, handler)
    }

    /// Adds a handler for `DELETE`.
    pub fn delete(self, path: &str, handler: T) -> Result<Self, RouteError> {
        self.route(Method::DELETE, path, handler)
    }

    /// Adds a handler for one method.
    pub fn route(mut self, method: Method, path: &str, handler: T) -> Result<Self, RouteError> {
        let place = self.place(path)?;
        let route = &mut self.routes[place];
        if route.methods.iter().any(|(known, _)| *known == method) {
            return Err(RouteError {
                path: path.to_owned(),
                what: format!("{method} has a handler already"),
            });
        }
        route.methods.push((method, handler));
        self.renew_allow(place);
        Ok(self)
    }

    /// Adds a handler for all methods that have none of their own.
    pub fn any(mut self, path: &str, handler: T) -> Result<Self, RouteError> {
        let place = self.place(path)?;
        if self.routes[place].any.replace(handler).is_some() {
            let what = "there is a handler for any method already".to_owned();
            return Err(RouteError { path: path.to_owned(), what });
        }
        Ok(self)
    }

    /// Adds all routes of another router below a prefix. Its `/` becomes the prefix itself.
    pub fn nest(mut self, prefix: &str, inner: Self) -> Result<Self, RouteError> {
        let error = |what: &str| RouteError { path: prefix.to_owned(), what: what.to_owned() };
        if !prefix.starts_with('/') || prefix.ends_with('/') {
            return Err(error("a prefix begins with a slash and does not end with one"));
        }
        for route in inner.routes {
            let path = match route.pattern.as_str() {
                "/" => prefix.to_owned(),
                below => format!("{prefix}{below}"),
            };
            for (method, handler) in route.methods {
                self = self.route(method, &path, handler)?;
            }
            if let Some(handler) = route.any {
                self = self.any(&path, handler)?;
            }
        }
        Ok(self)
    }

    /// The handler for a request, with what its pattern has named.
    pub fn find<'r, 'p>(&'r self, method: &Method, path: &'p str) -> Result<Match<'r, 'p, T>, Miss<'r>> {
        if path == "*" && method == Method::OPTIONS {
            return Err(Miss::Options { allow: &self.allow });
        }
        let Ok(at) = self.paths.at(path) else { return Err(Miss::Path) };
        let route = &self.routes[*at.value];
        let of =
            |wanted: &Method| route.methods.iter().find(|(known, _)| known == wanted).map(|(_, found)| found);
        let handler = of(method)
            .or_else(|| if method == Method::HEAD { of(&Method::GET) } else { None })
            .or(route.any.as_ref());
        match handler {
            Some(handler) => {
                Ok(Match { handler, pattern: &route.pattern, params: Params { inner: at.params } })
            }
            None if method == Method::OPTIONS => Err(Miss::Options { allow: &route.allow }),
            None => Err(Miss::Method { allow: &route.allow }),
        }
    }

    /// Patterns and their methods, in the order in which they were added.
    pub fn routes(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &Method>)> {
        self.routes
            .iter()
            .map(|route| (route.pattern.as_str(), route.methods.iter().map(|(method, _)| method)))
    }

    fn place(&mut self, path: &str) -> Result<usize, RouteError> {
        let error = |what: String| RouteError { path: path.to_owned(), what };
        if let Some(place) = self.routes.iter().position(|route| route.pattern == path) {
            return Ok(place);
        }
        if !path.starts_with('/') {
            return Err(error("a path begins with a slash".to_owned()));
        }
        self.paths.insert(path, self.routes.len()).map_err(|refused| error(refused.to_string()))?;
        let allow = HeaderValue::from_static("OPTIONS");
        self.routes.push(Route { pattern: path.to_owned(), methods: Vec::new(), any: None, allow });
        Ok(self.routes.len() - 1)
    }

    fn renew_allow(&mut self, place: usize) {
        self.routes[place].allow = allow(self.routes[place].methods.iter().map(|(method, _)| method));
        self.allow =
            allow(self.routes.iter().flat_map(|route| route.methods.iter().map(|(method, _)| method)));
    }
}

/// The value of an `Allow` header: what is there, and what comes for nothing with it.
fn allow<'a>(methods: impl Iterator<Item = &'a Method>) -> HeaderValue {
    let mut names: Vec<&str> = Vec::new();
    let mut add = |name| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for method in methods {
        add(method.as_str());
        if method == Method::GET {
            add("HEAD");
        }
    }
    add("OPTIONS");
    // Methods are tokens, so they are text that a header can have.
    HeaderValue::from_str(&names.join(", ")).unwrap_or_else(|_| HeaderValue::from_static("OPTIONS"))
}

impl<T> fmt::Debug for Router<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.routes.iter().map(|route| (&route.pattern, route.allow.to_str().unwrap_or_default())),
            )
            .finish()
    }
}

/// What [`Router::find`] has found.
///
/// ```
/// use netwright_http::web::Router;
///
/// let router = Router::new().get("/orders/{id}", "one order")?;
/// let found = router.find(&http::Method::GET, "/orders/7").unwrap();
/// assert_eq!((*found.handler, found.pattern), ("one order", "/orders/{id}"));
/// # Ok::<(), netwright_http::web::RouteError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Match<'r, 'p, T> {
    /// What was put in for this route.
    pub handler: &'r T,
    /// The route as it was written: a good name for figures, because there are as many as there are routes.
    pub pattern: &'r str,
    /// What the pattern has named.
    pub params: Params<'r, 'p>,
}

/// Why a route cannot be added.
///
/// ```
/// use netwright_http::web::Router;
///
/// let error = Router::new().get("/orders/{", ()).unwrap_err();
/// println!("{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteError {
    /// The route.
    pub path: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {:?}: {}", self.path, self.what)
    }
}

impl Error for RouteError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(router: &Router<u32>, method: Method, path: &str) -> Option<u32> {
        router.find(&method, path).ok().map(|found| *found.handler)
    }

    fn sample() -> Router<u32> {
        let inner = Router::new().get("/", 10).unwrap().delete("/{id}", 11).unwrap();
        let router = Router::new().get("/", 1).unwrap().post("/", 2).unwrap().get("/a/{x}/b/{y}", 3).unwrap();
        router
            .route(Method::HEAD, "/own", 4)
            .unwrap()
            .get("/own", 5)
            .unwrap()
            .any("/all", 6)
            .unwrap()
            .nest("/in", inner)
            .unwrap()
    }

    #[test]
    fn methods_and_paths_lead_to_their_handler() {
        let router = sample();
        assert_eq!(found(&router, Method::GET, "/"), Some(1));
        assert_eq!(found(&router, Method::POST, "/"), Some(2));
        assert_eq!(found(&router, Method::HEAD, "/"), Some(1), "HEAD falls back to GET");
        assert_eq!(found(&router, Method::HEAD, "/own"), Some(4), "unless it has a handler of its own");
        assert_eq!(found(&router, Method::PATCH, "/all"), Some(6));
        assert_eq!(found(&router, Method::GET, "/in"), Some(10));
        assert_eq!(found(&router, Method::DELETE, "/in/7"), Some(11));
        assert_eq!(router.routes().count(), 6);
    }

    #[test]
    fn misses_say_what_would_be_there() {
        let router = sample();
        assert_eq!(router.find(&Method::GET, "/nowhere").unwrap_err(), Miss::Path);
        for path in ["", "relative", "//", "/a//b/", "*", "/in/"] {
            assert_eq!(router.find(&Method::GET, path).unwrap_err().reply().status(), 404, "{path:?}");
        }
        let reply = router.find(&Method::PUT, "/").unwrap_err().reply();
        assert_eq!(
            (reply.status().as_u16(), &reply.headers()["allow"]),
            (405, &"GET, HEAD, POST, OPTIONS".parse().unwrap())
        );
        let reply = router.find(&Method::OPTIONS, "/in/1").unwrap_err().reply();
        assert_eq!(
            (reply.status().as_u16(), &reply.headers()["allow"]),
            (204, &"DELETE, OPTIONS".parse().unwrap())
        );
        assert_eq!(
            router.find(&Method::OPTIONS, "*").unwrap_err().reply().headers()["allow"],
            "GET, HEAD, POST, DELETE, OPTIONS"
        );
    }

    #[test]
    fn parameters_are_decoded_once_and_read_as_what_is_wanted() {
        let router = sample();
        let found = router.find(&Method::GET, "/a/1%2F%252e/b/-7").unwrap();
        assert_eq!(found.params.raw("x"), Some("1%2F%252e"));
        assert_eq!(found.params.text("x").unwrap(), "1/%2e");
        assert_eq!(found.params.parse::<i32>("y"), Ok(-7));
        let wrong = found.params.parse::<u32>("y").unwrap_err().to_string();
        assert!(wrong.contains("\"y\" is \"-7\": invalid digit"), "{wrong}");
        assert_eq!(found.params.text("z"), Err(ParamError::Missing { name: "z" }));
        let found = router.find(&Method::GET, "/a/%/b/1").unwrap();
        assert!(found.params.text("x").unwrap_err().to_string().contains("the % at byte 0"));
    }

    #[test]
    fn routes_that_cannot_be_are_refused_when_they_are_added() {
        let router = || Router::new().get("/a/{x}", 1).unwrap();
        for (path, what) in [
            ("/a/{x}", "GET has a handler already"),
            ("/a/{y}", "nflict"),
            ("relative", "begins with a slash"),
            ("/b/{", "valid name"),
        ] {
            let error = router().get(path, 2).unwrap_err().to_string();
            assert!(error.to_lowercase().contains(&what.to_lowercase()), "{error}");
        }
        assert!(
            router().nest("/api/", Router::new()).unwrap_err().to_string().contains("does not end with one")
        );
        assert!(router().any("/", 1).unwrap().any("/", 2).is_err());
    }
}
