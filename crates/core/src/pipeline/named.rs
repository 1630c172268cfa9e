//! Stages with a name: found from any thread, by name and type.
//!
//! ```text
//!   pipeline().add(frames).named("frames")      the builder notes the name
//!        └── linked ──▶ Stage ── added ──▶ the channel's table: "frames", its number, its type
//!                                                 ▲
//!   channel.stage::<Frames>("frames") ── asks ────┘ ──▶ StageCaller<Frames> ── call, ask ──▶ the stage, on its loop
//! ```
//! Always true:
//! 1. Of the stages that a channel has at one time, no two have one name: a second one closes the channel.
//! 2. A name is known from before `added` until its stage leaves.
//!
//! A name costs a place in that table, once for each channel, and nothing for a message.

use super::Place;
use std::{any::TypeId, fmt};

/// What calls to a stage are made for: its handler, or the one inside that wraps nothing.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    id: TypeId,
    name: &'static str,
    on_workers: bool,
}

impl Target {
    /// Calls for `H` where it runs.
    pub fn of<H: 'static, P: Place>() -> Self {
        Self { id: TypeId::of::<H>(), name: std::any::type_name::<H>(), on_workers: P::IS_WORKER }
    }

    /// No calls: there is no handler.
    pub(crate) fn nobody() -> Self {
        Self { id: TypeId::of::<()>(), name: "nothing", on_workers: false }
    }
}

/// A stage that can be found by its name.
#[derive(Debug)]
pub(crate) struct NamedStage {
    name: &'static str,
    pub(crate) stage: u32,
    target: Target,
}

impl NamedStage {
    pub(crate) fn new(name: &'static str, stage: u32, target: Target) -> Self {
        Self { name, stage, target }
    }

    /// Puts it beside those that are there, unless one of them has its name.
    pub(crate) fn enter(self, stages: &mut Vec<Self>) -> Result<(), StageError> {
        match stages.iter().find(|known| known.name == self.name) {
            Some(first) => {
                let (name, first, second) = (self.name, first.target.name, self.target.name);
                Err(StageError::Duplicate { name, first, second })
            }
            None => {
                stages.push(self);
                Ok(())
            }
        }
    }

    /// The number of the stage of this name, if it takes calls for `H` where that runs.
    pub(crate) fn find<H: 'static, P: Place>(stages: &[Self], name: &str) -> Result<u32, StageError> {
        let Some(found) = stages.iter().find(|known| known.name == name) else {
            let known = stages.iter().map(|known| (known.name, known.target.name)).collect();
            return Err(StageError::Unknown { name: name.to_owned(), known });
        };
        let wanted = Target::of::<H, P>();
        if found.target.id != wanted.id {
            let (name, found, wanted) = (found.name, found.target.name, wanted.name);
            return Err(StageError::OtherType { name, found, wanted });
        }
        if found.target.on_workers != wanted.on_workers {
            return Err(StageError::OtherPlace { name: found.name, on_workers: found.target.on_workers });
        }
        Ok(found.stage)
    }
}

/// Why there is no stage of a name.
///
/// ```
/// use netwright_core::{ClosureStage, EmbeddedChannel, StageError, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// let channel = EmbeddedChannel::new(pipeline().handle(|_, _| {}).named("last"));
/// let error = channel.channel().stage::<ClosureStage<BytesMut, Bytes>>("first").unwrap_err();
/// assert!(matches!(error, StageError::Unknown { .. }));
/// assert!(error.to_string().starts_with(r#"no stage is named "first"; there are: "last" ("#));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StageError {
    /// No stage has this name.
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that there are, each with the type of its handler.
        known: Vec<(&'static str, &'static str)>,
    },
    /// The stage of this name has another type.
    OtherType {
        /// The name.
        name: &'static str,
        /// What the stage is.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// The stage of this name runs elsewhere, so that calls to it have another context.
    OtherPlace {
        /// The name.
        name: &'static str,
        /// Whether it runs on workers, or on its channel's loop.
        on_workers: bool,
    },
    /// Two stages of one channel have the same name. The channel is closed with this as the cause.
    Duplicate {
        /// The name.
        name: &'static str,
        /// What the stage is that has it.
        first: &'static str,
        /// What the other one is.
        second: &'static str,
    },
    /// The channel has left its loop, and its stages with it.
    ChannelGone,
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } if known.is_empty() => {
                write!(f, "no stage is named {name:?}, nor has any other a name")
            }
            Self::Unknown { name, known } => {
                write!(f, "no stage is named {name:?}; there are: ")?;
                for (index, (name, handler)) in known.iter().enumerate() {
                    write!(f, "{}{name:?} ({handler})", if index > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Self::OtherType { name, found, wanted } => {
                write!(f, "the stage {name:?} is {found}, not {wanted}")
            }
            Self::OtherPlace { name, on_workers: true } => {
                write!(f, "the stage {name:?} runs on workers: it is found by `stage_on_workers`")
            }
            Self::OtherPlace { name, on_workers: false } => {
                write!(f, "the stage {name:?} runs on its channel's loop: it is found by `stage`")
            }
            Self::Duplicate { name, first, second } => {
                write!(f, "two stages are named {name:?}: {first} and {second}")
            }
            Self::ChannelGone => f.write_str("the channel has left its loop, and its stages with it"),
        }
    }
}

impl std::error::Error for StageError {}

/// The names that a pipeline under construction has given, and what else is said of its stages.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Names {
    /// How many stages there are.
    stages: usize,
    /// By the number of the stage, counted from the wire.
    given: Vec<(usize, &'static str)>,
    /// The last stage is known to keep nothing of a conversation.
    last_forgets: bool,
}

impl Names {
    /// A further stage.
    pub(super) fn one_more(mut self) -> Self {
        self.stages += 1;
        self
    }

    /// Names the last stage; the last name counts.
    pub(super) fn give(&mut self, name: &'static str) {
        self.given.retain(|(stage, _)| *stage != self.stages);
        self.given.push((self.stages, name));
    }

    /// The last stage, behind which there is none, keeps nothing of a conversation.
    pub(super) fn last_forgets(&mut self) {
        self.last_forgets = true;
    }

    /// Whether that is said of the stage that is taken off: the first one that is.
    pub(super) fn take_forgets(&mut self) -> bool {
        std::mem::take(&mut self.last_forgets)
    }

    /// The name of the last stage, which is taken off.
    pub(super) fn take_last(&mut self) -> Option<&'static str> {
        let last = self.stages;
        self.stages -= 1;
        self.given.pop_if(|(stage, _)| *stage == last).map(|(_, name)| name)
    }
}
