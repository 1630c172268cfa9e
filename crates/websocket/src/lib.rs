//! WebSocket as stages of a pipeline.

#![forbid(unsafe_code)]
