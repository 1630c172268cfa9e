//! What goes wrong in a simulation is felt by the programs in it, and looked after at its end.

use super::programs::echo_server;
use bytes::{Bytes, BytesMut};
use netwright_core::{CloseCause, EventLoop, pipeline};
use netwright_testkit::sim::{Fault, FaultPlan, Sim, for_seeds};
use netwright_transport::{Client, ConnectError, Server};
use std::{
    net::IpAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn client() -> Client {
    Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap()
}

/// What a run that fails says.
pub(crate) fn failure(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it does not fail");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap()
}

#[test]
fn a_host_that_crashes_says_nothing_and_its_successor_resets_what_it_does_not_know() {
    Sim::seed(4).run(|sim| {
        let server = sim.host("server");
        server.start(echo_server).unwrap();
        sim.host("client").enter(|| {
            let client = client();
            let channel = client.connect("server:7").wait().unwrap();
            server.crash();
            sim.run_for(secs(30));
            assert!(channel.close_cause().is_none(), "who sends nothing learns nothing");
            server.restart().unwrap();
            channel.write_and_flush("still there?");
            assert!(sim.run_until(secs(10), || channel.close_cause().is_some()));
            assert!(matches!(channel.close_cause(), Some(CloseCause::Io(_))), "{:?}", channel.close_cause());
            client.connect("server:7").wait().unwrap();
        });
    });
}

#[test]
fn a_process_that_is_killed_has_its_connections_closed_by_the_system() {
    Sim::seed(5).run(|sim| {
        let server = sim.host("server");
        server.start(echo_server).unwrap();
        sim.host("client").enter(|| {
            let client = client();
            let channel = client.connect("server:7").wait().unwrap();
            server.kill();
            assert!(sim.run_until(secs(1), || channel.close_cause().is_some()));
            let refused = client.connect("server:7").wait();
            assert!(matches!(refused, Err(ConnectError::Refused(_))), "{refused:?}");
        });
    });
}

#[test]
fn a_connect_into_a_cut_times_out_by_the_clients_own_limit() {
    Sim::seed(6).run(|sim| {
        let (server, host) = (sim.host("server"), sim.host("client"));
        server.start(echo_server).unwrap();
        sim.cut(&server, &host); // what comes back does not
        host.enter(|| {
            let begun = sim.now();
            let client =
                Client::builder().connect_timeout(secs(3)).pipeline(|| pipeline().handle(|_, _| {})).unwrap();
            let refused = client.connect("server:7").wait();
            assert!(matches!(refused, Err(ConnectError::TimedOut { .. })), "{refused:?}");
            assert!((secs(3)..secs(4)).contains(&(sim.now() - begun)));
            sim.heal();
            client.connect("server:7").wait().unwrap();
        });
    });
}

#[test]
fn names_that_are_unknown_or_silent_are_errors_of_the_client() {
    Sim::seed(7).run(|sim| {
        sim.host("server").start(echo_server).unwrap();
        let nowhere: IpAddr = [10, 9, 9, 9].into();
        sim.name("two-ways", &[nowhere, sim.host("server").address()]);
        sim.silent_name("slow", secs(5));
        sim.host("client").enter(|| {
            let client = client();
            assert!(matches!(client.connect("nobody:7").wait(), Err(ConnectError::Resolve(_))));
            let begun = sim.now();
            assert!(matches!(client.connect("slow:7").wait(), Err(ConnectError::Resolve(_))));
            assert!(sim.now() - begun >= secs(5));
            let begun = sim.now();
            client.connect("two-ways:7").wait().unwrap(); // the second address joins after a quarter of a second
            assert!(sim.now() - begun < secs(1));
        });
    });
}

#[test]
fn a_host_without_descriptors_refuses_and_goes_on() {
    Sim::seed(8).run(|sim| {
        let server = sim.host("server");
        server.start(echo_server).unwrap();
        server.limit(|limits| limits.descriptors = 4); // the listener and three connections
        sim.host("client").enter(|| {
            let client = client();
            let channels: Vec<_> = (0..6).filter_map(|_| client.connect("server:7").wait().ok()).collect();
            sim.run_for(secs(5));
            let open = channels.iter().filter(|channel| channel.close_cause().is_none()).count();
            assert!((3..=6).contains(&open), "{open}");
            drop(channels.into_iter().map(|channel| channel.close()).collect::<Vec<_>>());
            sim.run_for(secs(5));
            client.connect("server:7").wait().unwrap();
        });
    });
}

#[test]
fn clocks_that_differ_are_seen_by_programs_and_timers_go_by_them() {
    Sim::seed(9).run(|sim| {
        let (fast, slow) = (sim.host("fast"), sim.host("slow"));
        fast.clock_drift_ppm(100_000);
        slow.clock_behind(secs(3600));
        let ends: Arc<Mutex<Vec<&str>>> = Arc::default();
        let timers = [("fast", &fast), ("slow", &slow)].map(|(name, host)| {
            let ends = ends.clone();
            host.event_loop().schedule(secs(100), move || ends.lock().unwrap().push(name)).unwrap()
        });
        sim.run_for(secs(95));
        assert_eq!(
            *ends.lock().unwrap(),
            ["fast"],
            "a clock that is too fast by a tenth is there after 91 s"
        );
        sim.run_for(secs(10));
        assert_eq!(*ends.lock().unwrap(), ["fast", "slow"]);
        drop(timers);
        let wall = |host: &netwright_testkit::sim::Host| host.enter(netwright_core::world::system_time);
        assert!(wall(&fast).duration_since(wall(&slow)).unwrap() > secs(3600));
    });
}

#[test]
fn a_scenario_may_wait_outside_of_its_hosts_and_build_nothing_there() {
    let outcome = Sim::seed(11).run(|sim| {
        let mut later = sim.host("a").event_loop().schedule(secs(60), || 7).unwrap();
        assert_eq!(later.wait().unwrap(), 7);
        sim.now()
    });
    assert!((secs(60)..secs(61)).contains(&outcome.value));
    let text = failure(|| {
        Sim::seed(12).run(|_| EventLoop::new());
    });
    assert!(text.contains("on none of its hosts"), "{text}");
}

#[test]
fn a_loop_that_is_never_let_go_of_is_a_failure() {
    let text = failure(|| {
        Sim::seed(10).run(|sim| {
            let kept = sim.host("leaky").enter(EventLoop::new);
            kept.execute(|| ()).unwrap();
            std::mem::forget(kept);
        });
    });
    assert!(text.contains("leaky never ended"), "{text}");
}

#[test]
fn a_failure_names_its_seed_and_the_only_fault_that_it_needs() {
    let text = failure(|| {
        for_seeds(0..100, |sim| {
            let server = sim.host("server");
            server.start(echo_server).unwrap();
            sim.host("client").enter(|| {
                let client = client();
                let channel = client.connect("server:7").wait().unwrap();
                sim.draw_faults(&FaultPlan::new(secs(5)).crashes(0).cuts(3).partitions(2).links(2));
                sim.at(secs(2), Fault::Reset { a: "server".into(), b: "client".into() });
                sim.run_for(secs(6));
                channel.write_and_flush(Bytes::from("x"));
                assert!(channel.close_cause().is_none(), "the connection has ended");
            });
        });
    });
    assert!(text.contains("the connection has ended"), "{text}");
    assert!(text.contains("these 1 of"), "{text}");
    assert!(text.contains("are reset"), "{text}");
    assert!(text.contains("NETWRIGHT_SIM_SEED="), "{text}");
}

#[test]
fn a_failure_that_needs_a_restart_shows_how_the_host_went_as_well() {
    let text = failure(|| {
        for_seeds(0..50, |sim| {
            let server = sim.host("server");
            let programs = Arc::new(Mutex::new(0));
            let begun = programs.clone();
            server
                .start(move || {
                    *begun.lock().unwrap() += 1;
                    echo_server()
                })
                .unwrap();
            sim.host("client");
            sim.draw_faults(&FaultPlan::new(secs(5)).cuts(3).crashes(1).kills(1).only(&["server"]));
            sim.run_for(secs(6));
            assert_eq!(*programs.lock().unwrap(), 1, "it was started again");
        });
    });
    assert!(text.contains("these 2 of"), "{text}");
    assert!(text.contains("server is back"), "{text}");
    assert!(text.contains("server crashes") || text.contains("server is killed"), "{text}");
}

#[test]
fn values_that_panic_when_a_failed_run_drops_them_do_not_hide_why_it_failed() {
    struct Broken(&'static str);
    impl Drop for Broken {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(self.0)); // as a panic, but without the hook's noise
        }
    }
    let text = failure(|| {
        for_seeds(0..1, |sim| {
            let server = sim.host("server");
            let program = || {
                let (of_factory, of_stage) = (Broken("of the factory"), || Broken("of a stage"));
                let server = Server::builder().pipeline(move |_| {
                    let (_, of_stage) = (&of_factory, of_stage());
                    pipeline().handle(move |cx, bytes: BytesMut| {
                        let _ = &of_stage;
                        cx.write_and_flush(bytes.freeze());
                    })
                });
                server.bind("0.0.0.0:7").wait()
            };
            server.start(program).unwrap();
            drop(server.spawn(async {
                let _of_task = Broken("of a task");
                std::future::pending::<()>().await
            }));
            let connects = || {
                let client = client();
                let channel = client.connect("server:7").wait().map_err(|error| error.to_string())?;
                Ok::<_, String>((client, channel, Broken("of a program")))
            };
            sim.host("client").start(connects).unwrap();
            sim.run_for(secs(1));
            panic!("why it failed");
        });
    });
    assert!(text.contains("failed: why it failed"), "{text}");
}

#[test]
fn a_simulation_ends_with_its_reason_where_its_clock_does() {
    let year = secs(365 * 86_400);
    let outcome = Sim::seed(13).run(|sim| {
        let later = sim.host("a").event_loop().schedule(year * 200, || ()).unwrap();
        sim.run_for(year * 280);
        assert!(later.is_done(), "it came long ago");
        sim.now()
    });
    assert!(outcome.value >= year * 280);
    for time in [year * 400, year * 600, Duration::MAX] {
        let text = failure(|| Sim::seed(14).run(|sim| sim.run_for(time)).value);
        assert!(text.contains("its clock ends at"), "{time:?}: {text}");
        let text = failure(|| {
            Sim::seed(15).run(|sim| {
                sim.run_for(secs(1));
                let kept = sim.host("a").event_loop().schedule(secs(3), || ()).unwrap();
                sim.run_until(time, || false);
                drop(kept);
            });
        });
        assert!(text.contains("its clock ends at"), "{time:?}: {text}");
    }
    Sim::seed(16).run(|sim| {
        sim.at(Duration::MAX, Fault::Heal); // never
        let never = sim.host("a").event_loop().schedule(Duration::MAX, || ());
        sim.run_for(year);
        drop(never);
    });
}

/// A cut that is over, and a reset that the client does not survive.
#[test]
fn a_cut_is_not_left_without_its_end_to_make_a_shorter_script() {
    let text = failure(|| {
        for_seeds(0..1, |sim| {
            sim.host("server").start(echo_server).unwrap();
            let way = || ("client".to_owned(), "server".to_owned());
            let ((a, b), (from, to)) = (way(), way());
            sim.at(Duration::from_millis(500), Fault::Reset { a, b });
            sim.at(secs(1), Fault::Cut { from, to });
            let (from, to) = way();
            sim.at(secs(2), Fault::Mend { from, to });
            sim.at(secs(4), Fault::Partition(vec!["client".into()]));
            sim.at(secs(5), Fault::Heal);
            sim.host("client").enter(|| {
                let client = client();
                let channel = client.connect("server:7").wait().unwrap();
                sim.run_for(secs(10));
                let again = client.connect("server:7").wait();
                assert!(channel.close_cause().is_none() && again.is_ok(), "not connected");
            });
        });
    });
    assert!(text.contains("these 1 of 5") && text.contains("are reset"), "{text}");
}

/// Crashes of so many hosts, one in each tenth of a second.
fn crashes(sim: &Sim, hosts: u64) {
    for host in 0..hosts {
        let name = format!("host{host}");
        sim.host(&name);
        sim.at(Duration::from_millis(100 * (host + 1)), Fault::Crash(name));
    }
}

fn gone(sim: &Sim, hosts: u64) -> u64 {
    (0..hosts).filter(|host| !sim.host(&format!("host{host}")).is_up()).count() as u64
}

#[test]
fn another_assertion_with_the_same_words_is_another_failure() {
    let text = failure(|| {
        for_seeds(0..1, |sim| {
            crashes(sim, 2);
            sim.run_for(secs(1));
            match gone(sim, 2) {
                2 => assert_eq!(gone(sim, 2), 7),
                1 => assert_eq!(gone(sim, 2), 9),
                _ => {}
            }
        });
    });
    assert!(text.contains("these 2 of 2 faults:"), "{text}");
}

#[test]
fn a_run_that_never_ends_without_its_faults_is_stopped() {
    let text = failure(|| {
        for_seeds(0..1, |sim| {
            crashes(sim, 1);
            while gone(sim, 1) == 0 {
                sim.run_for(Duration::from_millis(1));
            }
            panic!("the host has gone");
        });
    });
    assert!(text.contains("these 1 of 1 faults:"), "{text}");
}

#[test]
fn a_failure_that_does_not_come_from_the_seed_is_called_that() {
    let runs = std::sync::atomic::AtomicU32::new(0);
    let text = failure(|| {
        for_seeds(0..1, |_| assert!(runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0, "once"));
    });
    assert!(text.contains("run again, it did not fail like that"), "{text}");
}
