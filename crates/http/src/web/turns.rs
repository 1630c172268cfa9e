//! Requests and replies in step, for stages that change replies by what their request said, or answer some themselves.
//!
//! ```text
//!   requests  ──▶  A      B (answered here)   C            ──▶ application sees A, C
//!   turns          [ note of A ][ reply to B ][ note of C ]
//!   replies   ◀──  A      B                   C            ◀── application writes A, C
//! ```
//! Always true:
//! 1. There is one turn for each request whose reply is not over, in the order of requests.
//! 2. A reply of our own is written when all before it are over, and not sooner.

use crate::{HttpPart, ReplyHead, ReplyPart};
use netwright_core::{Context, Handler, Place};
use std::collections::VecDeque;

pub(crate) struct Turns<T>(VecDeque<Turn<T>>);

enum Turn<T> {
    /// The application answers; what the stage wants to remember until then.
    Theirs(T),
    /// The stage answers.
    Ours(Box<ReplyPart>),
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Turns<T> {
    /// A request goes on to the application.
    pub(crate) fn expect(&mut self, note: T) {
        self.0.push_back(Turn::Theirs(note));
    }

    /// A request is answered here. Written at once if it is its turn.
    pub(crate) fn answer<H, P>(&mut self, cx: &mut Context<'_, H, P>, reply: ReplyPart)
    where
        H: Handler<P, WriteOut = ReplyPart>,
        P: Place,
    {
        let waits = !self.0.is_empty();
        self.0.push_back(Turn::Ours(Box::new(reply)));
        if !waits {
            self.write_ours(cx);
            cx.flush();
        }
    }

    /// The request that came last is answered here after all; its reply must not have begun. Written when it is its turn.
    #[cfg(feature = "compress")]
    pub(crate) fn answer_last<H, P>(&mut self, cx: &mut Context<'_, H, P>, reply: ReplyPart)
    where
        H: Handler<P, WriteOut = ReplyPart>,
        P: Place,
    {
        self.0.pop_back();
        self.answer(cx, reply);
    }

    /// What was noted of the request that is being answered.
    pub(crate) fn current(&mut self) -> Option<&mut T> {
        match self.0.front_mut() {
            Some(Turn::Theirs(note)) => Some(note),
            _ => None,
        }
    }

    /// What was noted of the request that came last.
    pub(crate) fn last(&mut self) -> Option<&mut T> {
        match self.0.back_mut() {
            Some(Turn::Theirs(note)) => Some(note),
            _ => None,
        }
    }

    /// The reply is over; replies of ours that are next are written behind it. Tells what was noted.
    pub(crate) fn done<H, P>(&mut self, cx: &mut Context<'_, H, P>) -> Option<T>
    where
        H: Handler<P, WriteOut = ReplyPart>,
        P: Place,
    {
        if !matches!(self.0.front(), Some(Turn::Theirs(_))) {
            return None; // somebody answers what was not asked; the codec has an opinion about that
        }
        let Some(Turn::Theirs(note)) = self.0.pop_front() else { return None };
        self.write_ours(cx);
        Some(note)
    }

    /// All notes whose replies never came to an end.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.0).into_iter().filter_map(|turn| match turn {
            Turn::Theirs(note) => Some(note),
            Turn::Ours(_) => None,
        })
    }

    fn write_ours<H, P>(&mut self, cx: &mut Context<'_, H, P>)
    where
        H: Handler<P, WriteOut = ReplyPart>,
        P: Place,
    {
        while matches!(self.0.front(), Some(Turn::Ours(_))) {
            if let Some(Turn::Ours(reply)) = self.0.pop_front() {
                cx.write(*reply);
            }
        }
    }
}

/// Whether this ends a reply.
pub(crate) fn ends(part: &ReplyPart) -> bool {
    matches!(part, HttpPart::Whole(..) | HttpPart::End(_))
}

/// The head of a reply, if this part has one; interim ones are not replies.
pub(crate) fn head_mut(part: &mut ReplyPart) -> Option<&mut ReplyHead> {
    match part {
        HttpPart::Head(head) | HttpPart::Whole(head, _) => Some(head),
        _ => None,
    }
}

impl<T> std::fmt::Debug for Turns<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} turns", self.0.len())
    }
}
