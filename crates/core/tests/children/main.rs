//! Children: channels that a stage of another one drives.
//!
//! | file | what is shown |
//! | --- | --- |
//! | `talk` | messages both ways, who is told what and when, credit |
//! | `ends` | every way in which a child or its parent ends |
//! | `handles` | what the outside sees of children: handles, parents, groups, timers, futures, workers |
//! | `many` | a hundred thousand of them |
//! | `store` | pipelines that start over |
#![cfg(not(loom))]

mod ends;
mod handles;
mod many;
mod store;
mod support;
mod talk;
