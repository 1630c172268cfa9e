//! The client of a connection: says its script, and checks what it is told.

use super::{
    draw::Draw,
    line::Script,
    moments::Moment,
    record::{Place, Record, Wrote},
    wire::{Answers, Asks, Request, Said},
};
use netwright::{
    AppContext, Application, Channel, Client, CloseCause, Outgoing, client::ConnectError, pipeline,
    pipeline::inbound, time,
};
use netwright_testkit::sim::Host;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A client that says its script by itself.
pub(crate) struct Talker {
    client: Client<Outgoing>,
    channel: Arc<Mutex<Option<Channel>>>,
}

impl Talker {
    /// Begins to connect, and to talk.
    pub(crate) fn start(host: &Host, draw: &Draw<'_>, script: &Script, record: &Record) -> Self {
        let channel = Arc::new(Mutex::new(None));
        let (told, reads, kept) = (record.clone(), script.approach.reads, channel.clone());
        let client = host.enter(|| {
            let make =
                move || pipeline().add(inbound(Answers::default())).app(Ear { record: told.clone(), reads });
            Client::builder().forsaken_after(Duration::from_secs(5)).pipeline(make).unwrap()
        });
        let connecting = host.enter(|| client.connect("server:7"));
        let (script, record) = (script.clone(), record.clone());
        let in_pieces = draw.one_in(3);
        let talk = async move {
            let connected: Result<Channel, ConnectError> = connecting.await;
            let Ok(channel) = connected else { return };
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel.clone());
            say(&channel, &script, &record, in_pieces).await;
        };
        drop(host.spawn(talk));
        Self { client, channel }
    }

    pub(crate) fn channel(&self) -> Option<Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The client itself, to be dropped on its host.
    pub(crate) fn into_client(self) -> Client<Outgoing> {
        self.client
    }
}

async fn say(channel: &Channel, script: &Script, record: &Record, in_pieces: bool) {
    if script.approach.requests.is_empty() && script.approach.part.is_none() {
        return record.reach(Moment::BeforeTheFirstByte);
    }
    for (request, padding, gap) in &script.approach.requests {
        if !gap.is_zero() {
            time::sleep(*gap).await;
        }
        let bytes = request.encode(*padding);
        if in_pieces {
            let middle = bytes.len() / 2;
            channel.write_and_flush(bytes.slice(..middle));
            time::sleep(Duration::from_micros(300)).await;
            record.tracks(Wrote::Request(request.number), channel.send(bytes.slice(middle..)));
        } else {
            record.tracks(Wrote::Request(request.number), channel.send(bytes));
        }
    }
    if let Some(part) = script.approach.part {
        let bytes = Request { asks: Asks::Answer, number: u32::MAX, amount: 0 }.encode(100);
        record.tracks(Wrote::Part, channel.send(bytes.slice(..part)));
        return record.reach(Moment::InTheMiddleOfAMessage);
    }
    record.reach(Moment::BetweenMessages);
    if !script.approach.reads {
        time::sleep(Duration::from_millis(50)).await;
        record.reach(Moment::WhileThePeerDoesNotRead);
    }
}

/// The client's last stage.
struct Ear {
    record: Record,
    reads: bool,
}

impl Application for Ear {
    type Read = Said;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.record.active(Place::Client);
        if !self.reads {
            cx.pause();
        }
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, said: Said) {
        self.record.between(Place::Client, "a message");
        self.record.hears(said);
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.record.inactive(Place::Client, &cause);
    }
    fn removed(&mut self) {
        self.record.removed(Place::Client);
    }
}
