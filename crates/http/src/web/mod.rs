//! What lies on top of the codec: everything between "a request came" and "this is the reply".
//!
//! Always true: nothing in here trusts a peer. Every input has a limit with a finite default, and what is refused says which
//! value was refused, and by which limit.

mod accept;
mod cookie;
mod cors;
mod media_type;
mod multipart;
mod query;
mod reply;
mod router;
#[cfg(test)]
mod testing;
mod text;
mod turns;

pub use accept::{Coding, choose_type};
pub use cookie::{CookieError, SameSite, SetCookie, cookie, cookies};
pub use cors::{Cors, CorsDecision, CorsError, CorsStage};
pub use media_type::{MediaType, MediaTypeError};
pub use multipart::{FormPart, Multipart, MultipartError, MultipartEvent, PartHead};
pub use query::{FormError, FormLimits, Query, Urlencoded};
pub use reply::{RedirectError, Reply};
pub use router::{Match, Miss, ParamError, Params, RouteError, Router};
pub use text::{PercentError, is_field_value, is_token, percent_decode, percent_encode, percent_encode_path};
