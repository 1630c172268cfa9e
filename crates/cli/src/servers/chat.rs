//! A room: what one says, all others hear, with the speaker's address in front.
//!
//! Always true:
//! 1. A member is in the room from its first moment to its last. What is said reaches the members of that moment.
//! 2. A member that does not read is shown the door once the water mark's worth of lines waits for it. Others do not
//!    wait for it, and nothing is dropped silently.

use bytes::Bytes;
use netwright::{
    AppContext, Application, BindError, ChannelGroup, CloseCause, Fault, Promised, Server, ServerBuilder,
    codec::LineFrames, pipeline,
};

/// A screen or two of text.
const LINE_MAX: usize = 4096;

pub(crate) fn bind(server: ServerBuilder, address: &str) -> Promised<Server, BindError> {
    let room = ChannelGroup::new();
    let chat = move || Chat { room: room.clone(), name: String::new() };
    let lines = || LineFrames::max(LINE_MAX).fail_fast(true);
    server.half_closure(true).pipeline(move |_| pipeline().add(lines()).app(chat())).bind(address)
}

struct Chat {
    /// Everybody who is here; who closes leaves by itself.
    room: ChannelGroup<Bytes>,
    name: String,
}

impl Chat {
    fn tell_others(&self, cx: &AppContext<'_, Self>, line: String) {
        let line = Bytes::from(line);
        for other in self.room.members().iter().filter(|other| other.id() != cx.id()) {
            if other.is_writable() {
                other.send(line.clone());
            } else {
                other.close_because(CloseCause::Fault(Fault::new("it reads more slowly than others write")));
            }
        }
    }
}

impl Application for Chat {
    type Read = Bytes;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.name = cx.peer_addr().map_or_else(|| cx.id().to_string(), |peer| peer.to_string());
        self.room.add(cx.channel());
        let others = self.room.len().saturating_sub(1);
        cx.write_and_flush(format!("* you are {}; others here: {others}", self.name).into());
        self.tell_others(cx, format!("* {} came", self.name));
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: Bytes) {
        self.tell_others(cx, format!("[{}] {}", self.name, harmless(&line)));
    }

    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.close_when_flushed();
    }

    fn error(&mut self, cx: &mut AppContext<'_, Self>, fault: Fault) {
        tracing::info!(peer = self.name, error = %fault, "closing");
        cx.write_and_flush(format!("* goodbye: lines have at most {LINE_MAX} bytes here").into());
        cx.close_when_flushed();
    }

    fn inactive(&mut self, cx: &mut AppContext<'_, Self>, cause: CloseCause) {
        tracing::info!(peer = self.name, %cause, "left");
        self.tell_others(cx, format!("* {} left", self.name));
    }
}

/// What others' terminals should see: text, and no commands for them.
fn harmless(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_command_a_terminal() {
        assert_eq!(harmless(b"caf\xc3\xa9 \x1b[2J\x07!\xff"), "café [2J!\u{fffd}");
    }
}
