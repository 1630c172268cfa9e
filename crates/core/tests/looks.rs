//! Looks: what a stage asks for that wants to see now and then whether something is over.
#![cfg(not(loom))]

use netwright_core::{EmbeddedChannel, Filter, FilterContext, Moment, StageTimer, pipeline};
use std::{cell::RefCell, rc::Rc, time::Duration};

type Seen = Rc<RefCell<Vec<u64>>>;

/// Looks again and again, and notes when that was.
struct Looks {
    every: Duration,
    seen: Seen,
}

fn looks(seconds: u64) -> (Looks, Seen) {
    let seen = Seen::default();
    (Looks { every: Duration::from_secs(seconds), seen: Rc::clone(&seen) }, seen)
}

fn since_start(moment: Moment) -> u64 {
    moment.duration_since(Moment::START).as_secs()
}

impl<R: 'static, W: 'static> Filter<R, W> for Looks {
    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
        cx.look_at(cx.moment().saturating_add(self.every * 7)); // the next one takes its place
        cx.look_at(cx.moment().saturating_add(self.every));
        cx.fire_active();
    }
    fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W>, _: StageTimer) {
        self.seen.borrow_mut().push(since_start(cx.moment()));
        cx.look_at(cx.moment().saturating_add(self.every));
    }
}

#[test]
fn a_stage_looks_when_it_said_and_the_last_word_counts() {
    let (looks, seen) = looks(2);
    let mut channel = EmbeddedChannel::of(pipeline().filter(looks).handle(|_, _| {}));
    for _ in 0..7 {
        channel.advance(Duration::from_secs(1));
    }
    assert_eq!(*seen.borrow(), [2, 4, 6]);
    assert_eq!(channel.channel().event_loop().figures().timers_pending, 1);
    channel.close_by_peer().advance(Duration::from_secs(100));
    assert_eq!(*seen.borrow(), [2, 4, 6]);
    assert_eq!(channel.channel().event_loop().figures().timers_pending, 0);
}

#[test]
fn stages_of_one_channel_look_without_each_other() {
    struct Once(Seen);
    impl<R: 'static, W: 'static> Filter<R, W> for Once {
        fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
            cx.look_at(cx.moment().saturating_add(Duration::from_secs(3)));
            cx.fire_active();
        }
        fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W>, _: StageTimer) {
            self.0.borrow_mut().push(since_start(cx.moment()));
        }
    }
    let (first, second) = (Seen::default(), Seen::default());
    let stages = pipeline().filter(Once(Rc::clone(&first))).filter(Once(Rc::clone(&second)));
    let mut channel = EmbeddedChannel::of(stages.handle(|_, _| {}));
    channel.advance(Duration::from_secs(3)).advance(Duration::from_secs(100));
    assert_eq!((&first.borrow()[..], &second.borrow()[..]), (&[3][..], &[3][..]));
}

#[test]
fn a_moment_that_has_passed_comes_in_a_later_turn_and_holds_nothing_up() {
    struct Past(Rc<RefCell<u32>>);
    impl<R: 'static, W: 'static> Filter<R, W> for Past {
        fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
            cx.look_at(Moment::START);
            cx.fire_active();
        }
        fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W>, _: StageTimer) {
            *self.0.borrow_mut() += 1;
            cx.look_at(Moment::START);
        }
    }
    let count = Rc::default();
    let mut channel = EmbeddedChannel::of(
        pipeline().filter(Past(Rc::clone(&count))).handle(|cx, bytes| cx.write_and_flush(bytes)),
    );
    for step in 1..=50 {
        channel.advance(Duration::from_millis(1)).write_inbound("x");
        assert!(*count.borrow() <= step + 1, "once in a tick");
    }
    assert!(*count.borrow() >= 25);
    assert_eq!(channel.outbound_bytes().len(), 50);
}

#[test]
fn channels_of_one_loop_look_one_after_the_other() {
    use bytes::BytesMut;
    use netwright_core::{
        Host, HostSettings, LocalLoop, ManualLoop, RefusedWhy,
        driver::{Event, Source},
    };
    use netwright_core::{Outgoing, Segment};

    struct Channel<P: Segment<BytesMut, Outgoing>>(Host<P, Outgoing>);
    impl<P: Segment<BytesMut, Outgoing>> Source for Channel<P> {
        fn ready(&mut self, _: Event) {}
        fn signal(&mut self, signal: u64) {
            self.0.signal(signal);
        }
        fn shut_down(&mut self) {}
    }
    let seen = Seen::default();
    let mut manual = ManualLoop::new();
    let tokens: Vec<_> = (0..500_u64)
        .map(|number| {
            let looks = Looks { every: Duration::from_secs(1 + number % 7), seen: Rc::clone(&seen) };
            let segment = pipeline().filter(looks).handle(|cx, bytes| cx.write(bytes)).into_segment();
            manual.enter(|| {
                let local = LocalLoop::current().unwrap();
                local.register_with(|token| {
                    let mut host = Host::new(local.clone(), segment, HostSettings::default());
                    host.register(token);
                    host.activate(None, None);
                    Ok::<_, RefusedWhy>(Channel(host))
                })
            })
        })
        .collect();
    assert!(tokens.iter().all(Result::is_ok));
    assert_eq!(manual.handle().figures().timers_pending, 1, "one for all");
    for _ in 0..420 {
        manual.advance(Duration::from_secs(1));
    }
    let all: u64 = (0..500).map(|number| 420 / (1 + number % 7)).sum();
    assert_eq!(seen.borrow().len() as u64, all);
    assert!(seen.borrow().is_sorted());
}
