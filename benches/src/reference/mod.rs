//! Servers to compare with.

pub mod epoll_echo;
pub mod epoll_http;
pub mod hyper_tokio;
pub mod tokio_echo;
pub mod udp_echo;
pub mod uring_echo;
pub mod uring_http;
