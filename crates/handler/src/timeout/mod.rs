//! Closes channels whose peer says nothing, or takes nothing.

mod read;
mod write;

pub use read::ReadTimeout;
pub use write::WriteTimeout;
