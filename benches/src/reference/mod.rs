//! Echo servers written by hand, to compare with.

pub mod epoll_echo;
pub mod tokio_echo;
pub mod udp_echo;
