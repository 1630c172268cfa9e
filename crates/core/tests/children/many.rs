//! A hundred thousand children of one connection, opened and closed at random from several threads.

use bytes::BytesMut;
use netwright_core::{
    Channel, Children, CloseCause, Context, EmbeddedChannel, Handler, Outgoing, Segment, StageCaller,
    WritePromise, Written, pipeline,
};
use std::{convert::Infallible, thread};

/// In all; at a time some tens of thousands.
const CHILDREN: usize = 100_000;
const THREADS: usize = 4;

/// Opens children for whoever asks, and takes what they say.
struct Nest<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> {
    children: Children<P, BytesMut, Outgoing>,
    build: fn() -> P,
    ended: usize,
}

impl<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> Nest<P> {
    fn open(&mut self, cx: &mut Context<'_, Self>) -> Channel<Outgoing> {
        let key = self.children.open(cx, self.build).unwrap();
        self.children.channel(key).unwrap()
    }
}

impl<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> Handler for Nest<P> {
    type Read = ();
    type ReadOut = Infallible;
    type Write = Infallible;
    type WriteOut = Outgoing;

    fn read(&mut self, _: &mut Context<'_, Self>, (): ()) {}
    fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
        while let Some(key) = self.children.next_ready() {
            let ended = self.children.end_if(key, |child| {
                while let Some((bytes, done)) = child.take_first() {
                    cx.write_with(bytes, done);
                }
                child.take_close()
            });
            self.ended += usize::from(ended.is_some());
        }
        cx.flush();
    }
    fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
        match never {}
    }
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

/// Opens its share, writes to some and closes some, in any order and in every way.
fn visit<P>(nest: &StageCaller<Nest<P>>, seed: u64) -> (Vec<Channel<Outgoing>>, Vec<Written>)
where
    P: Segment<BytesMut, Outgoing, Tail = Outgoing>,
{
    let (mut dice, mut open, mut all, mut written) = (Dice(seed), Vec::new(), Vec::new(), Vec::new());
    while all.len() < CHILDREN / THREADS {
        let asked: Vec<_> = (0..50).map(|_| nest.ask(Nest::open)).collect();
        for mut child in asked {
            let child = child.wait().unwrap();
            all.push(child.clone());
            open.push(child);
        }
        for _ in 0..60 {
            let index = dice.below(open.len());
            match dice.below(5) {
                0 => written.push(open[index].send("hello")),
                1 => drop(open.swap_remove(index).close()),
                2 => drop(open.swap_remove(index).reset(dice.below(100) as u64)),
                3 => {
                    written.push(open[index].send("goodbye"));
                    drop(open.swap_remove(index).close_when_flushed());
                }
                _ => open[index].write_and_flush("nobody waits for this"),
            }
            if open.is_empty() {
                break;
            }
        }
    }
    (all, written)
}

#[test]
fn nothing_is_lost_and_nothing_is_left_of_children_that_threads_open_and_close_at_random() {
    fn nest<P: Segment<BytesMut, Outgoing, Tail = Outgoing>>(build: fn() -> P) -> Nest<P> {
        Nest { children: Children::default(), build, ended: 0 }
    }
    fn run<P: Segment<BytesMut, Outgoing, Tail = Outgoing>>(nest: Nest<P>) {
        let mut parent = EmbeddedChannel::of_messages(pipeline().last(nest).named("nest"));
        let caller: StageCaller<Nest<P>> = parent.channel().stage("nest").unwrap();
        let visitors: Vec<_> = (1..=THREADS as u64)
            .map(|seed| {
                let caller = caller.clone();
                thread::spawn(move || visit(&caller, seed))
            })
            .collect();
        while !visitors.iter().all(thread::JoinHandle::is_finished) {
            parent.run();
            while parent.read_outbound().is_some() {}
        }
        let done: Vec<_> = visitors.into_iter().map(|visitor| visitor.join().unwrap()).collect();
        parent.run();
        let mut ended = caller.ask(|nest, _| (nest.ended, nest.children.len()));
        parent.run();
        let (ended, living) = ended.wait().unwrap();
        let opened: usize = done.iter().map(|(all, _)| all.len()).sum();
        assert_eq!(ended + living, opened);
        assert_eq!(parent.event_loop().handle().figures().sources, 1 + living as u64);
        let here = |child: &&Channel<Outgoing>| child.close_cause().is_none();
        assert_eq!(done.iter().flat_map(|(all, _)| all).filter(here).count(), living);
        parent.close_by_peer();
        assert_eq!(parent.event_loop().handle().figures().sources, 1, "nothing is left");
        for (all, written) in done {
            assert!(all.iter().all(|child| child.close_cause().is_some()));
            for mut written in written {
                assert!(written.try_take().is_some(), "every promise has ended");
            }
            let by_parent =
                |child: &&Channel<Outgoing>| matches!(child.close_cause(), Some(CloseCause::PeerClosed));
            assert!(all.iter().filter(by_parent).count() > 0);
        }
    }
    run(nest(|| {
        pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).starts_over().into_segment()
    }));
}
