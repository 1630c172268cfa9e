//! A room: what one says, all others hear. Some are here by lines of text, others by WebSocket.
//!
//! ```text
//!   nc, telnet ──▶ [ Chat ]  ──┐               ┌──▶ [ada] hello                          to those with lines
//!                              ├──▶ ( Room ) ──┤
//!   browser ────▶ [ Visitor ] ─┘               └──▶ {"kind":"say","who":"ada","text":…}  to those with a page
//! ```
//! Always true:
//! 1. A member is in the room from its first moment to its last. What is said reaches the members of that moment.
//! 2. A member that does not read is shown the door once the water mark's worth of lines waits for it. Others do not
//!    wait for it, and nothing is dropped silently.

use bytes::Bytes;
use netwright::{Channel, ChannelGroup, CloseCause, Fault, channel::ChannelId, websocket::Message};
use serde::Serialize;

/// Cheap to clone: all members hold it. Who closes leaves by itself.
#[derive(Clone, Default)]
pub(crate) struct Room {
    lines: ChannelGroup<Bytes>,
    pages: ChannelGroup<Message>,
}

/// What there is to hear.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum News<'a> {
    /// To oneself: under which name, and how many others are here.
    You {
        who: &'a str,
        others: usize,
    },
    Came {
        who: &'a str,
    },
    Left {
        who: &'a str,
    },
    Say {
        who: &'a str,
        text: &'a str,
    },
}

impl News<'_> {
    pub(crate) fn line(self) -> Bytes {
        Bytes::from(match self {
            Self::You { who, others } => format!("* you are {who}; others here: {others}"),
            Self::Came { who } => format!("* {who} came"),
            Self::Left { who } => format!("* {who} left"),
            Self::Say { who, text } => format!("[{who}] {text}"),
        })
    }

    pub(crate) fn message(self) -> Message {
        serde_json::to_string(&self).expect("names and texts are strings").into()
    }
}

impl Room {
    pub(crate) fn enter_by_lines(&self, member: Channel<Bytes>) {
        self.lines.add(member);
    }

    pub(crate) fn enter_by_page(&self, member: Channel<Message>) {
        self.pages.add(member);
    }

    /// How many are here besides one who is here.
    pub(crate) fn others(&self) -> usize {
        (self.lines.len() + self.pages.len()).saturating_sub(1)
    }

    /// Tells everybody but one.
    pub(crate) fn tell_others(&self, but: ChannelId, news: News<'_>) {
        tell(&self.lines, but, || news.line());
        tell(&self.pages, but, || news.message());
    }
}

fn tell<W: Clone + Send + 'static>(members: &ChannelGroup<W>, but: ChannelId, what: impl Fn() -> W) {
    let mut made = None;
    for member in members.members().iter().filter(|member| member.id() != but) {
        if member.is_writable() {
            member.write_and_flush(made.get_or_insert_with(&what).clone());
        } else {
            member.close_because(CloseCause::Fault(Fault::new("it reads more slowly than others write")));
        }
    }
}

/// What others' terminals should see: text, and no commands for them.
pub(crate) fn harmless(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_command_a_terminal() {
        assert_eq!(harmless(b"caf\xc3\xa9 \x1b[2J\x07!\xff"), "café [2J!\u{fffd}");
    }

    #[test]
    fn a_page_gets_what_its_script_can_read_whatever_is_said() {
        let news = News::Say { who: "a\"b", text: "</script>\n" };
        assert_eq!(news.message().as_text(), Some(r#"{"kind":"say","who":"a\"b","text":"</script>\n"}"#));
    }
}
