//! Async functions at the end of a pipeline, woken from everywhere: by threads, workers, timers, loops and channels.

use netwright::{
    Channel, Client, CloseCause, EventLoop, EventLoopGroup, Peer, Server, Workers,
    codec::{LineFrames, Utf8},
    pipeline,
    promise::{Promise, PromiseError, Selected, promise, select},
    time,
};
use outside::{Asked, ask, dial, exchange, in_time, loops, settle, slow_thread};
use std::{
    io::{BufRead, BufReader, Read, Write},
    num::NonZeroUsize,
    pin::pin,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

type Lines = Peer<String, String>;

/// A server of lines on one loop, each connection served by this function.
fn serve<F, T>(group: &EventLoopGroup, tail: F) -> Server
where
    F: Fn(Lines) -> T + Clone + Send + Sync + 'static,
    T: Future<Output = Result<(), CloseCause>> + 'static,
{
    Server::builder()
        .group(group.clone())
        .half_closure(true)
        .pipeline(move |_| pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).serve(tail.clone()))
        .bind("127.0.0.1:0")
        .wait()
        .expect("it listens")
}

/// A server of lines on one loop that answers up to this many of them at a time.
fn answer<F, T>(group: &EventLoopGroup, at_a_time: usize, call: F) -> Server
where
    F: Fn(String) -> T + Clone + Send + Sync + 'static,
    T: Future<Output = String> + 'static,
{
    let at_a_time = NonZeroUsize::new(at_a_time).expect("one at least");
    Server::builder()
        .group(group.clone())
        .half_closure(true)
        .pipeline(move |_| {
            pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).service(at_a_time, call.clone())
        })
        .bind("127.0.0.1:0")
        .wait()
        .expect("it listens")
}

/// Says these lines one after the other, each when the one before is answered.
#[track_caller]
fn talk(server: &Server, lines: &[&str], answers: &[&str]) {
    let mut stream = BufReader::new(dial(server.local_addr()));
    for (line, answer) in lines.iter().zip(answers) {
        stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut heard = String::new();
        stream.read_line(&mut heard).expect("an answer");
        assert_eq!(heard.trim_end(), *answer);
    }
}

#[test]
fn a_served_peer_is_woken_by_another_thread() {
    in_time(|| {
        let group = loops(1);
        let other = slow_thread(&group);
        let server = serve(&group, move |mut peer: Lines| {
            let other = other.clone();
            async move {
                while let Some(line) = peer.read().await? {
                    let answer = ask(&other, line).await.expect("it is kept");
                    peer.write(answer).await?;
                }
                Ok(())
            }
        });
        talk(&server, &["one", "two", "three"], &["ONE", "TWO", "THREE"]);
    });
}

#[test]
fn a_served_peer_that_is_woken_before_it_has_read_anything_speaks_first() {
    in_time(|| {
        let group = loops(1);
        let other = slow_thread(&group);
        let server = serve(&group, move |mut peer: Lines| {
            let other = other.clone();
            async move { peer.write(ask(&other, "welcome").await.expect("it is kept")).await }
        });
        assert_eq!(exchange(dial(server.local_addr()), Vec::new()), b"WELCOME\n");
    });
}

#[test]
fn a_served_peer_is_woken_by_a_worker() {
    in_time(|| {
        let group = loops(1);
        let (workers, home) = (Workers::new(1).unwrap(), group.clone());
        let server = serve(&group, move |mut peer: Lines| {
            let (workers, home) = (workers.clone(), home.clone());
            async move {
                while let Some(line) = peer.read().await? {
                    let home = home.clone();
                    let work = move || {
                        settle(&home);
                        line.to_uppercase()
                    };
                    let Ok(done) = workers.submit(work) else { panic!("there is room") };
                    peer.write(done.await.expect("it does not panic")).await?;
                }
                Ok(())
            }
        });
        talk(&server, &["one", "two"], &["ONE", "TWO"]);
    });
}

#[test]
fn a_served_peer_is_woken_by_a_timer() {
    in_time(|| {
        let group = loops(1);
        let server = serve(&group, |mut peer: Lines| async move {
            while let Some(line) = peer.read().await? {
                time::sleep(Duration::from_millis(1)).await;
                peer.write(line.to_uppercase()).await?;
            }
            Ok(())
        });
        talk(&server, &["one", "two"], &["ONE", "TWO"]);
    });
}

#[test]
fn a_served_peer_is_woken_by_a_task_of_another_loop() {
    in_time(|| {
        let (group, others) = (loops(1), loops(1));
        let (asking, home) = (others.clone(), group.clone());
        let server = serve(&group, move |mut peer: Lines| {
            let (asking, home) = (asking.clone(), home.clone());
            async move {
                while let Some(line) = peer.read().await? {
                    let home = home.clone();
                    let task = async move {
                        settle(&home); // holds up the other loop, which has nothing else to do
                        line.to_uppercase()
                    };
                    let Ok(joined) = asking.next().spawn(task) else { panic!("it runs") };
                    peer.write(joined.await.expect("it does not panic")).await?;
                }
                Ok(())
            }
        });
        talk(&server, &["one", "two"], &["ONE", "TWO"]);
    });
}

#[test]
fn a_served_peer_is_woken_by_another_channel() {
    in_time(|| {
        let group = loops(2);
        let (waits, waiting) = mpsc::channel::<()>();
        let held: Arc<Mutex<Vec<Promise<String, PromiseError>>>> = Arc::default();
        // Who says "wait" is answered by what another one says later.
        let server = serve(&group, move |mut peer: Lines| {
            let (waits, held) = (waits.clone(), held.clone());
            async move {
                while let Some(line) = peer.read().await? {
                    if line == "wait" {
                        let (answer, answered) = promise();
                        held.lock().unwrap().push(answer);
                        waits.send(()).expect("somebody listens");
                        peer.write(answered.await.expect("it is kept")).await?;
                    } else {
                        let answer = held.lock().unwrap().pop().expect("somebody waits");
                        answer.succeed(line);
                        peer.write("told".to_owned()).await?;
                    }
                }
                Ok(())
            }
        });
        let mut stream = BufReader::new(dial(server.local_addr()));
        stream.get_mut().write_all(b"wait\n").unwrap();
        waiting.recv().unwrap();
        settle(&group);
        talk(&server, &["hello"], &["told"]);
        let mut heard = String::new();
        stream.read_line(&mut heard).expect("an answer");
        assert_eq!(heard, "hello\n");
    });
}

#[test]
fn a_served_peer_waits_for_several_things_at_once_and_takes_the_first() {
    in_time(|| {
        let group = loops(1);
        let other = slow_thread(&group);
        let server = serve(&group, move |mut peer: Lines| {
            let other = other.clone();
            async move {
                let first = match select(peer.read(), pin!(ask(&other, "quiet"))).await {
                    Selected::First(line) => line?.unwrap_or_default(),
                    Selected::Second(answer) => answer.expect("it is kept"),
                };
                peer.write(first).await
            }
        });
        let mut stream = BufReader::new(dial(server.local_addr()));
        let mut heard = String::new();
        stream.read_line(&mut heard).expect("an answer, though nothing is said");
        assert_eq!(heard, "QUIET\n");
    });
}

#[test]
fn halves_of_a_peer_are_woken_in_tasks_of_their_own() {
    in_time(|| {
        let group = loops(1);
        let other = slow_thread(&group);
        let server = serve(&group, move |peer: Lines| {
            let other = other.clone();
            async move {
                let (mut reader, mut writer) = peer.split();
                let writing = async move {
                    for word in ["one", "two", "three"] {
                        let word = ask(&other, word).await.expect("it is kept");
                        writer.write(word).await.expect("it is open");
                        writer.flush();
                    }
                };
                let here = EventLoop::current().expect("on a loop");
                let Ok(written) = here.spawn_local(writing) else { panic!("it runs") };
                while reader.read().await?.is_some() {}
                written.await.expect("it does not panic");
                Ok(())
            }
        });
        assert_eq!(exchange(dial(server.local_addr()), b"ignored\n".to_vec()), b"ONE\nTWO\nTHREE\n");
    });
}

#[test]
fn a_clients_tail_is_woken_by_another_thread() {
    in_time(|| {
        let group = loops(1);
        let server = answer(&group, 1, |line: String| async move { line.to_lowercase() });
        let other = slow_thread(&group);
        let (heard, hears) = mpsc::channel();
        let client = Client::builder()
            .group(group.clone())
            .pipeline(move || {
                let (other, heard) = (other.clone(), heard.clone());
                let tail = async move |mut peer: Lines| {
                    for word in ["one", "two"] {
                        peer.write(ask(&other, word).await.expect("it is kept")).await?;
                        heard.send(peer.read().await?).expect("somebody listens");
                    }
                    Ok::<(), CloseCause>(())
                };
                pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).serve(tail)
            })
            .unwrap();
        client.connect(server.address()).wait().expect("it listens");
        assert_eq!(hears.recv().unwrap().as_deref(), Some("one"));
        assert_eq!(hears.recv().unwrap().as_deref(), Some("two"));
    });
}

#[test]
fn a_service_is_woken_by_another_thread() {
    in_time(|| {
        let group = loops(1);
        let other = slow_thread(&group);
        let server = answer(&group, 1, move |line: String| {
            let answered = ask(&other, line);
            async move { answered.await.expect("it is kept") }
        });
        talk(&server, &["one", "two", "three"], &["ONE", "TWO", "THREE"]);
    });
}

#[test]
fn a_service_that_works_on_several_requests_replies_in_order_whoever_is_woken_first() {
    in_time(|| {
        let group = loops(1);
        let (sender, asked) = mpsc::channel::<Asked>();
        let home = group.clone();
        // Answers three by three, the last one first.
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for asked in asked {
                held.push(asked);
                if held.len() == 3 {
                    settle(&home);
                    while let Some((question, answer)) = held.pop() {
                        answer.succeed(question.to_uppercase());
                        settle(&home);
                    }
                }
            }
        });
        let server = answer(&group, 3, move |line: String| {
            let answered = ask(&sender, line);
            async move { answered.await.expect("it is kept") }
        });
        let mut stream = dial(server.local_addr());
        stream.write_all(b"a\nb\nc\nd\ne\nf\n").unwrap();
        let mut heard = [0; 12];
        stream.read_exact(&mut heard).expect("six answers");
        assert_eq!(&heard, b"A\nB\nC\nD\nE\nF\n");
    });
}

/// Passes on what one channel reads to another, which says when it has taken it.
async fn pass_on(mut from: Peer, to: Channel) -> Result<(), CloseCause> {
    while let Some(bytes) = from.read().await? {
        if to.send(bytes.freeze()).await.is_err() {
            return Ok(()); // it has gone
        }
    }
    let _ = to.shut_down_output_tracked().await;
    to.closed().await; // the other direction may go on
    Ok(())
}

#[test]
fn a_proxy_of_two_tails_passes_on_every_byte_both_ways_and_holds_back_who_is_too_fast() {
    in_time(|| {
        let group = loops(2);
        let echo = Server::builder()
            .group(group.clone())
            .half_closure(true)
            .pipeline(|_| {
                pipeline().serve(async |mut peer: Peer| {
                    while let Some(bytes) = peer.read().await? {
                        peer.write(bytes.freeze()).await?;
                    }
                    Ok::<(), CloseCause>(())
                })
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let (target, loops) = (echo.address().clone(), group.clone());
        let proxy = Server::builder()
            .group(group.clone())
            .half_closure(true)
            .pipeline(move |_| {
                let (target, loops) = (target.clone(), loops.clone());
                pipeline().serve(async move |peer: Peer| {
                    let front = peer.channel();
                    let client = Client::builder().group(loops).half_closure(true).pipeline(move || {
                        let front = front.clone();
                        pipeline().serve(move |back| pass_on(back, front))
                    });
                    let back = client.expect("loops").connect(&target).await.expect("it listens");
                    pass_on(peer, back).await
                })
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let sent = outside::pattern(outside::MANY);
        let came = exchange(dial(proxy.local_addr()), sent.clone());
        outside::assert_same(&came, &sent);
    });
}
