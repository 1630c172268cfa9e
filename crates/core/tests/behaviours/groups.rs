//! Groups whose loops die, and whose choosers panic.

use super::*;
use netwright_core::{
    AutoScale, Chooser, EventLoopGroup, EventLoopGroupBuilder, LeastLoaded, LoopError, RoundRobin,
    driver::{Driver, DriverSeed, DriverWaker, Events, ParkSeed},
};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// A parking driver that panics when it is told to.
struct Mortal {
    park: Box<dyn Driver>,
    dies: Arc<AtomicBool>,
}

struct MortalSeed {
    park: ParkSeed,
    dies: Arc<AtomicBool>,
}

impl DriverSeed for MortalSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.park.waker()
    }
    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(Mortal { park: Box::new(self.park).start()?, dies: self.dies }))
    }
}

impl Driver for Mortal {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        assert!(!self.dies.swap(false, Ordering::Relaxed), "on purpose: the driver dies");
        self.park.poll(timeout, events)
    }
    fn rebuild(&mut self) -> io::Result<usize> {
        self.park.rebuild()
    }
    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        Err(self)
    }
}

/// How the loops of a group are killed, and how many drivers were made for them.
#[derive(Clone, Default)]
struct Fate {
    dies: [Arc<AtomicBool>; 3],
    made: Arc<AtomicUsize>,
    no_more_drivers: Arc<AtomicBool>,
}

impl Fate {
    /// A group of three.
    fn group(&self) -> EventLoopGroupBuilder {
        quiet_panics();
        let fate = self.clone();
        EventLoopGroup::builder().loops(3).name("mortal").driver(move |index| {
            if fate.no_more_drivers.load(Ordering::Relaxed) {
                return Err(io::Error::other("no more descriptors"));
            }
            fate.made.fetch_add(1, Ordering::Relaxed);
            Ok(MortalSeed { park: ParkSeed::new(), dies: fate.dies[index].clone() })
        })
    }

    /// Kills the loop at this place, and waits until its group knows.
    fn kill(&self, group: &EventLoopGroup, index: usize) -> EventLoop {
        let died = group.figures().died;
        let victim = group.iter().nth(index).unwrap();
        self.dies[index].store(true, Ordering::Relaxed);
        let _ = victim.execute(|| ());
        let end = victim.termination().wait_timeout(PATIENCE).expect("the loop dies");
        assert!(matches!(end, Err(LoopError::Panicked(_))), "{end:?}");
        eventually("the death is counted", || group.figures().died > died);
        victim
    }
}

#[test]
fn a_loop_that_dies_is_replaced_in_its_place_and_the_group_goes_on() {
    let fate = Fate::default();
    let group = fate.group().build().unwrap();
    let before: Vec<_> = group.iter().collect();
    for round in 1..=3 {
        let victim = fate.kill(&group, 1);
        eventually("a successor", || group.figures().replaced == round);
        let now: Vec<_> = group.iter().collect();
        assert_eq!((&now[0], &now[2]), (&before[0], &before[2]));
        assert_ne!(now[1], victim);
        assert_eq!(now[1].name(), "mortal-1");
        assert_eq!(on(&now[1], || 7), 7);
    }
    let figures = group.figures();
    assert_eq!((figures.alive, figures.died, figures.replaced), (3, 3, 3));
    assert_eq!(fate.made.load(Ordering::Relaxed), 6);
    // The end of the group waits for the successors, and those that were replaced do not spoil it.
    let end = group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    end.wait_timeout(PATIENCE).expect("the group ends").unwrap();
    assert!(group.iter().all(|event_loop| event_loop.is_terminated()));
}

#[test]
fn whoever_hears_of_a_death_after_the_group_finds_the_successor_in_its_place() {
    let fate = Fate::default();
    let group = fate.group().build().unwrap();
    for round in 0..20 {
        let (tell, told) = mpsc::channel();
        let victims: Vec<_> = group.iter().collect();
        for (index, victim) in victims.iter().enumerate() {
            let (tell, group, dead) = (tell.clone(), group.clone(), victim.clone());
            victim.termination().listen(move |_| {
                let now = group.iter().nth(index).unwrap();
                tell.send(now != dead && !now.is_shutting_down()).unwrap();
            });
        }
        // All at once: one of them fills the places of all, and the others wait for it.
        for (index, victim) in victims.iter().enumerate() {
            fate.dies[index].store(true, Ordering::Relaxed);
            let _ = victim.execute(|| ());
        }
        for _ in &victims {
            assert!(told.recv_timeout(PATIENCE).expect("the loops die"), "round {round}");
        }
    }
}

#[test]
fn a_loop_that_died_is_passed_over_by_every_chooser_when_it_is_not_replaced() {
    fn alive_only(chooser: impl Chooser) {
        let fate = Fate::default();
        let group = fate.group().chooser(chooser).replace_dead(false).build().unwrap();
        let victim = fate.kill(&group, 1);
        let chosen: Vec<_> = (0..30).map(|_| group.next()).collect();
        assert!(!chosen.contains(&victim));
        for index in [0, 2] {
            let survivor = group.iter().nth(index).unwrap();
            assert!(chosen.contains(&survivor), "the others share what comes");
        }
        let figures = group.figures();
        assert_eq!((figures.alive, figures.died, figures.replaced), (2, 1, 0));
        // The end tells of the loop that died.
        let end = group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
        let end = end.wait_timeout(PATIENCE).expect("the group ends");
        assert!(matches!(end, Err(LoopError::Panicked(_))), "{end:?}");
    }
    alive_only(RoundRobin::new());
    alive_only(LeastLoaded::new());
    alive_only(AutoScale::builder().window(Duration::from_secs(3600)).build().unwrap());
    let turn = AtomicUsize::new(0);
    alive_only(move |loops: &[EventLoop]| turn.fetch_add(1, Ordering::Relaxed) % loops.len());
}

#[test]
fn a_loop_for_which_no_driver_can_be_made_stays_out_and_the_group_ends_all_the_same() {
    let fate = Fate::default();
    let group = fate.group().build().unwrap();
    fate.no_more_drivers.store(true, Ordering::Relaxed);
    let victim = fate.kill(&group, 2);
    for _ in 0..10 {
        assert_ne!(group.next(), victim);
    }
    assert_eq!(group.figures().replaced, 0);
    let end = group.termination();
    assert!(!end.is_done());
    drop(group);
    drop(victim);
    let end = end.wait_timeout(PATIENCE).expect("the group ends");
    assert!(matches!(end, Err(LoopError::Panicked(_))), "{end:?}");
}

#[test]
fn a_loop_that_was_shut_down_by_itself_is_passed_over_and_not_replaced() {
    let group = EventLoopGroup::new(2).unwrap();
    let first = group.iter().next().unwrap();
    first.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    for _ in 0..4 {
        assert_ne!(group.next(), first);
    }
    assert_eq!((group.figures().died, group.figures().replaced), (0, 0));
    let second = group.next();
    group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert!(second.is_terminated());
    group.next(); // one that has ended: there is no other
}

#[test]
fn loops_that_die_at_the_same_time_are_all_replaced() {
    let fate = Fate::default();
    let group = fate.group().build().unwrap();
    let victims: Vec<_> = group.iter().collect();
    for (victim, dies) in victims.iter().zip(&fate.dies) {
        on(victim, || ());
        dies.store(true, Ordering::Relaxed);
    }
    for victim in &victims {
        let _ = victim.execute(|| ());
    }
    eventually("three successors", || group.figures().replaced == 3);
    for successor in &group {
        assert_eq!(on(&successor, || 7), 7);
    }
}

#[test]
fn an_auto_scaled_group_whose_first_loop_died_is_sampled_on_its_successor() {
    let fate = Fate::default();
    let scale = AutoScale::builder().window(ms(1)).patience(1).build().unwrap();
    let group = fate.group().chooser(scale.clone()).build().unwrap();
    fate.kill(&group, 0);
    eventually("a successor", || group.figures().replaced == 1);
    eventually("samples find the loops idle", || scale.figures().active == 1);
    drop(group);
}

#[test]
fn a_chooser_that_panics_is_counted_and_the_loops_are_taken_in_turn() {
    quiet_panics();
    let (broken, calls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (is_broken, counted) = (broken.clone(), calls.clone());
    let chooser = move |_: &[EventLoop]| {
        counted.fetch_add(1, Ordering::Relaxed);
        assert!(!is_broken.load(Ordering::Relaxed), "on purpose: no choice");
        2
    };
    let group = EventLoopGroup::builder().loops(3).chooser(chooser).build().unwrap();
    let loops: Vec<_> = group.iter().collect();
    let chosen: Vec<_> = (0..3).map(|_| group.next()).collect();
    assert_eq!(chosen, loops);
    assert_eq!(group.figures().chooser_panics, 3);
    broken.store(false, Ordering::Relaxed);
    assert_eq!(group.next(), loops[2], "and it is asked again");
    assert_eq!((calls.load(Ordering::Relaxed), group.figures().chooser_panics), (4, 3));
}
