//! Whatever waits for its turn, its channel ends when its connection does, over every transport: the table of `netwright_testkit::contract::ends`.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("ignored: the contract is written for Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    use libtest_mimic::{Arguments, Completion, Trial, run};
    use netwright_testkit::contract::{
        Need, Transport,
        ends::{End, check},
    };

    let mut trials = Vec::new();
    for &transport in Transport::ALL {
        for way in ways::ALL {
            for &end in End::ALL {
                if end.needs_reset() && transport.lacks(Need::Reset).is_some() {
                    continue;
                }
                let sentence = format!("whoever_waits_for_{}_is_gone_when_{}", way.name, end.name());
                trials.push(Trial::ignorable_test(format!("{}::{sentence}", transport.name()), move || {
                    Ok(match transport.missing() {
                        Some(why) => Completion::ignored_with(why),
                        None => {
                            check(transport, way, end);
                            Completion::Completed
                        }
                    })
                }));
            }
        }
    }
    let mut arguments = Arguments::from_args();
    // They wait for the time of others, and not for the processor.
    arguments.test_threads.get_or_insert(16);
    run(&arguments, trials).exit();
}

#[cfg(target_os = "linux")]
mod ways {
    use bytes::BytesMut;
    use netwright_core::{Outgoing, Promised, pipeline};
    use netwright_handler::{Chaos, Shape, shape::Rate};
    use netwright_testkit::contract::ends::{ServerAt, Stream, Waiting};
    use netwright_transport::{BindError, Server};

    pub(crate) const ALL: &[Waiting] = &[
        Waiting { name: "its_turn_to_read", serve: a_turn_to_read, approach: hundred_bytes },
        Waiting { name: "its_turn_to_write", serve: a_turn_to_write, approach: hundred_bytes },
        Waiting { name: "a_slow_link", serve: a_slow_link, approach: hundred_bytes },
    ];

    type Bound = Promised<Server, BindError>;

    fn hundred_bytes(peer: &mut dyn Stream) {
        peer.write_all(&[b'x'; 100]).unwrap();
    }

    /// A hundred bytes take a second.
    fn slow() -> Rate {
        Rate::try_from(100).unwrap()
    }

    fn a_turn_to_read(place: ServerAt) -> Bound {
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let (watching, guard) = (watch.clone(), watch.guard());
                let stages = pipeline().add(watch.stage()).filter(Shape::bytes().read(slow()));
                stages.handle(move |_, _: BytesMut| {
                    let _ = &guard;
                    watching.waits(); // the rest has to wait
                })
            })
            .bind(place.at)
    }

    fn a_turn_to_write(place: ServerAt) -> Bound {
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let (watching, guard) = (watch.clone(), watch.guard());
                let stages = pipeline().add(watch.stage()).filter(Shape::bytes().write(slow()));
                stages.handle(move |cx, bytes: BytesMut| {
                    let _ = &guard;
                    cx.write_and_flush(Outgoing::from(bytes));
                    watching.waits();
                })
            })
            .bind(place.at)
    }

    fn a_slow_link(place: ServerAt) -> Bound {
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let chaos: Chaos = "write.latency=500ms,read.latency=50ms,split=30".parse().unwrap();
                let (watching, guard) = (watch.clone(), watch.guard());
                let stages = pipeline().add(watch.stage()).filter(chaos.stage(1));
                stages.handle(move |cx, bytes: BytesMut| {
                    let _ = &guard;
                    cx.write_and_flush(Outgoing::from(bytes));
                    watching.waits();
                })
            })
            .bind(place.at)
    }
}
