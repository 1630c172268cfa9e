//! TLS as a stage of a pipeline, by rustls.

#![forbid(unsafe_code)]
