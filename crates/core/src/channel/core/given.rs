//! What was said of a channel when it was made, and holds for its life: set by the host from its settings, once; for a stage on a
//! worker, from what the loop knew.
//!
//! | what | read by |
//! | --- | --- |
//! | `half_closure` | the host and `ChannelView::allows_half_closure`: are the stages asked |
//! | `whole_messages` | the host, when a message reaches the line: is an empty one sent |
//! | `hold_back` | the host: do messages stand still while their answers pile up |

use super::super::HostSettings;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given {
    /// Whether the channel lives on when its peer sends no more, if it was said. Else the stages are asked.
    pub(crate) half_closure: Option<bool>,
    /// An empty message is something to send.
    pub(crate) whole_messages: bool,
    /// Messages stand still while their answers are more than the channel takes.
    pub(crate) hold_back: bool,
}

impl From<&HostSettings> for Given {
    fn from(settings: &HostSettings) -> Self {
        let HostSettings { half_closure, whole_messages, hold_back, .. } = *settings;
        Self { half_closure, whole_messages, hold_back }
    }
}
