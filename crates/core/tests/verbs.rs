//! That `docs/verbs.md` says what the handles do: each call in its table compiles and gives back what the cell says, no verb is
//! missing there, and what is said to be flushed is.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, ByteSource, Channel, ChannelGroup, CloseCause, EmbeddedChannel, Fault,
    GroupWritten, Peer, Promised, WriteError, WritePromise, Written, pipeline,
};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    task::{Context as TaskContext, Poll},
};

type Closed = netwright_core::Closed<Bytes>;
/// What is said of a verb at a place: the verb without its arguments, the place, what comes back.
type Cells = BTreeMap<(String, String), String>;

struct Nothing;

impl ByteSource for Nothing {
    fn poll_piece(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        Poll::Ready(Ok(None))
    }
}

struct Silent;

impl Application for Silent {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

fn msg() -> Bytes {
    Bytes::from("m")
}

fn done() -> WritePromise {
    WritePromise::untracked()
}

/// Compiles each call, with the type that the page has for it, and lists them.
macro_rules! calls {
    ($name:ident($on:ident: $place:ty) as $column:literal; $($verb:ident -> $back:ty = $call:expr;)*) => {
        fn $name() -> Vec<((String, String), String)> {
            #[allow(dead_code, clippy::let_unit_value, clippy::unused_async)]
            async fn compiles($on: $place) {
                $(let _: $back = $call;)*
            }
            vec![$(((stringify!($verb).into(), $column.into()), stringify!($back).replace(' ', ""))),*]
        }
    };
}

calls! { context(cx: &mut AppContext<'_, Silent>) as "Context";
    write -> () = cx.write(msg());
    write_tracked -> Written = cx.write_tracked(msg());
    write_with -> () = cx.write_with(msg(), done());
    flush -> () = cx.flush();
    write_and_flush -> () = cx.write_and_flush(msg());
    send -> Written = cx.send(msg());
    write_from -> Promised<u64, WriteError> = cx.write_from(Nothing);
    shut_down_output -> () = cx.shut_down_output();
    shut_down_output_tracked -> Written = cx.shut_down_output_tracked();
    shut_down_output_with -> () = cx.shut_down_output_with(done());
    close -> () = cx.close();
    close_because -> () = cx.close_because(CloseCause::Requested);
    close_with -> () = cx.close_with(CloseCause::Requested, done());
    close_when_flushed -> () = cx.close_when_flushed();
}

calls! { channel(channel: &Channel<Bytes>) as "Channel";
    write -> () = channel.write(msg());
    write_tracked -> Written = channel.write_tracked(msg());
    write_with -> () = channel.write_with(msg(), done());
    flush -> () = channel.flush();
    write_and_flush -> () = channel.write_and_flush(msg());
    send -> Written = channel.send(msg());
    write_from -> Result<u64, CloseCause> = channel.write_from(Nothing).await;
    shut_down_output -> () = channel.shut_down_output();
    shut_down_output_tracked -> Written = channel.shut_down_output_tracked();
    shut_down_output_with -> () = channel.shut_down_output_with(done());
    close -> Closed = channel.close();
    close_because -> Closed = channel.close_because(CloseCause::Requested);
    close_when_flushed -> Closed = channel.close_when_flushed();
    close_now -> Closed = channel.close_now(CloseCause::Requested);
    reset -> Closed = channel.reset(8);
}

calls! { peer(peer: &mut Peer) as "Peer";
    write -> Result<(), CloseCause> = peer.write(msg()).await;
    write_tracked -> Result<Written, CloseCause> = peer.write_tracked(msg()).await;
    flush -> () = peer.flush();
    write_and_flush -> Result<(), CloseCause> = peer.write_and_flush(msg()).await;
    send -> Result<(), WriteError> = peer.send(msg()).await;
    write_from -> Result<u64, CloseCause> = peer.write_from(Nothing).await;
    shut_down_output -> () = peer.shut_down_output();
    shut_down_output_tracked -> Written = peer.shut_down_output_tracked();
    close -> () = peer.close();
    close_because -> () = peer.close_because(CloseCause::Requested);
    close_when_flushed -> () = peer.close_when_flushed();
}

calls! { group(group: &ChannelGroup<Bytes>) as "ChannelGroup";
    write -> () = group.write(msg());
    flush -> () = group.flush();
    write_and_flush -> () = group.write_and_flush(msg());
    send -> GroupWritten = group.send(msg());
    close -> GroupWritten = group.close();
    close_because -> GroupWritten = group.close_because(CloseCause::Requested);
    close_when_flushed -> GroupWritten = group.close_when_flushed();
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The rows of the page's table of verbs, cell by cell.
fn rows() -> Vec<Vec<String>> {
    let page = read("../../docs/verbs.md");
    let table = page.lines().skip_while(|line| !line.starts_with("| verb | flushes |"));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    table
        .take_while(|line| line.starts_with('|'))
        .filter(|line| !line.starts_with("| ---"))
        .map(cells)
        .collect()
}

fn page() -> Cells {
    let rows = rows();
    let mut cells = Cells::new();
    for row in &rows[1..] {
        let verb = row[0].split('(').next().unwrap();
        for (place, back) in rows[0].iter().zip(row).skip(3).filter(|(_, back)| *back != "-") {
            cells.insert((verb.into(), place.clone()), back.replace(' ', ""));
        }
    }
    cells
}

#[test]
fn the_page_has_what_each_verb_gives_back() {
    let compiled: Cells = [context(), channel(), peer(), group()].concat().into_iter().collect();
    assert_eq!(page(), compiled);
}

#[test]
fn the_page_has_every_verb_there_is() {
    let sources = [
        "src/pipeline/context.rs",
        "src/pipeline/write_from.rs",
        "src/channel/handle.rs",
        "src/channel/byte_source.rs",
        "src/channel/group.rs",
        "src/tail/peer.rs",
    ];
    let beside = ["closed", "close_cause", "write_now", "write_now_tracked"]; // no verbs, or named below the table
    let page = page();
    let mut found = Vec::new();
    for source in sources.map(read) {
        let mut of = String::new();
        for line in source.lines() {
            if let Some(block) = line.strip_prefix("impl") {
                let block = block.rsplit(" for ").next().unwrap_or(block);
                let name = ["Context<", "Channel<", "PeerWriter<", "Peer<", "ChannelGroup<"]
                    .into_iter()
                    .find(|name| block.contains(&format!(" {name}")));
                of = name.unwrap_or_default().trim_end_matches('<').replace("PeerWriter", "Peer");
                continue;
            }
            let Some(function) = line.trim_start().strip_prefix("pub ") else { continue };
            let Some(function) = function.trim_start_matches("async ").strip_prefix("fn ") else { continue };
            let name: String = function.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let is_verb = ["write", "flush", "send", "close", "shut_down", "reset"]
                .iter()
                .any(|verb| name == *verb || name.starts_with(&format!("{verb}_")));
            if of.is_empty() || !is_verb || name.ends_with("_if") || beside.contains(&&*name) {
                continue;
            }
            let cell = (name, of.clone());
            assert!(page.contains_key(&cell), "{cell:?} is not on the page");
            found.push(cell);
        }
    }
    for cell in page.keys() {
        assert!(found.contains(cell), "{cell:?} is on the page, and nobody found it in the source");
    }
}

#[test]
fn what_the_page_says_is_flushed_is_sent_and_nothing_else_is() {
    type InContext = fn(&mut AppContext<'_, OnRead>);
    type ByHandle = fn(&Channel<Bytes>);
    let in_context: [(&str, InContext); 5] = [
        ("write(msg)", |cx| cx.write(msg())),
        ("write_tracked(msg)", |cx| drop(cx.write_tracked(msg()).shared())),
        ("write_with(msg, promise)", |cx| cx.write_with(msg(), done())),
        ("write_and_flush(msg)", |cx| cx.write_and_flush(msg())),
        ("send(msg)", |cx| drop(cx.send(msg()))),
    ];
    let by_handle: [(&str, ByHandle); 5] = [
        ("write(msg)", |channel| channel.write(msg())),
        ("write_tracked(msg)", |channel| drop(channel.write_tracked(msg()).shared())),
        ("write_with(msg, promise)", |channel| channel.write_with(msg(), done())),
        ("write_and_flush(msg)", |channel| channel.write_and_flush(msg())),
        ("send(msg)", |channel| drop(channel.send(msg()))),
    ];
    let rows = rows();
    let flushes = |verb: &str| rows.iter().find(|row| row[0] == verb).map(|row| row[1] == "yes").unwrap();
    for ((verb, call), (same, by_handle)) in in_context.into_iter().zip(by_handle) {
        let mut inside = EmbeddedChannel::new(pipeline().app(OnRead(call)));
        inside.write_inbound("now");
        assert_eq!(inside.outbound_bytes() == b"m", flushes(verb), "{verb} of a context");
        inside.channel().flush();
        assert_eq!(inside.outbound_bytes() == b"m", !flushes(verb), "{verb} of a context, flushed");

        let mut outside = EmbeddedChannel::new(pipeline().app(Silent));
        by_handle(outside.channel());
        assert_eq!(outside.outbound_bytes() == b"m", flushes(same), "{same} of a channel");
    }
}

struct OnRead(fn(&mut AppContext<'_, Self>));

impl Application for OnRead {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
        (self.0)(cx);
    }
}

#[test]
fn behind_the_end_every_tracked_verb_says_why_and_every_close_is_ready() {
    let mut embedded = EmbeddedChannel::new(pipeline().app(Silent));
    let channel = embedded.channel().clone();
    let group = ChannelGroup::new();
    group.add(channel.clone());
    embedded.close_by_peer();
    for mut late in [channel.send(msg()), channel.write_tracked(msg()), channel.shut_down_output_tracked()] {
        let told = embedded.run().channel().is_closing().then(|| late.try_take());
        assert!(matches!(told, Some(Some(Err(WriteError::Closed(CloseCause::PeerClosed))))), "{told:?}");
    }
    for closed in [channel.close(), channel.close_when_flushed(), channel.close_now(CloseCause::ShutDown)] {
        assert!(matches!(closed.wait(), Ok(CloseCause::PeerClosed)));
    }
    assert!(group.send(msg()).try_take().unwrap().unwrap().is_empty());
}

#[test]
fn a_peer_that_closes_at_once_loses_what_it_has_not_sent_and_one_that_waits_does_not() {
    let closing = |close: fn(&mut Peer)| {
        let mut channel = EmbeddedChannel::new(pipeline().serve(move |mut peer: Peer| async move {
            peer.write(msg()).await?;
            close(&mut peer);
            Err::<(), _>(peer.closed().await)
        }));
        let sent = channel.run().outbound_bytes();
        assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Requested)));
        sent
    };
    assert_eq!(closing(Peer::close), b"");
    assert_eq!(closing(Peer::close_when_flushed), b"m");
}

#[test]
fn a_peer_is_told_when_its_output_is_shut_down_or_why_not() {
    let mut channel = EmbeddedChannel::new(pipeline().serve(|mut peer: Peer| async move {
        let first = peer.write_tracked(msg()).await?;
        peer.shut_down_output_tracked().await.expect("shut down");
        first.await.expect("sent in front of the end");
        let cause = peer.closed().await;
        let late = peer.shut_down_output_tracked().await;
        assert!(matches!(late, Err(WriteError::Closed(_))), "{late:?}");
        Err::<(), _>(cause)
    }));
    assert_eq!(channel.run().outbound_bytes(), b"m");
    channel.close_by_peer().run();
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
}

#[test]
fn a_group_closes_for_a_reason_and_when_flushed() {
    let mut members: Vec<_> = (0..3).map(|_| EmbeddedChannel::new(pipeline().app(Silent))).collect();
    let group = ChannelGroup::new();
    let join = |members: &[EmbeddedChannel<_, Bytes>]| {
        members.iter().for_each(|member| assert!(group.add(member.channel().clone())));
    };
    join(&members);
    members[0].block_output(true);
    group.write_and_flush(msg());
    let mut over = group.close_when_flushed();
    for member in &mut members {
        member.run();
    }
    assert!(members[0].is_open(), "what was flushed is not sent yet");
    members[0].block_output(false);
    assert!(over.try_take().unwrap().unwrap().is_success());
    assert!(members.iter_mut().all(|member| member.outbound_bytes() == b"m"));

    let mut members = [EmbeddedChannel::new(pipeline().app(Silent))];
    join(&members);
    let mut over = group.close_because(CloseCause::ShutDown);
    members[0].run();
    assert!(over.try_take().unwrap().unwrap().is_success());
    assert!(matches!(members[0].channel().close_cause(), Some(CloseCause::ShutDown)));
}
