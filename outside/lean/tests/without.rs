//! What is left out is missing, and whoever asks for it learns which feature has it.

use netwright::{Backend, Client, Server, pipeline};
use std::sync::mpsc;

#[test]
fn servers_and_clients_on_readiness_need_none_of_the_default_features() {
    let server = Server::builder()
        .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let (tell, told) = mpsc::channel();
    let client = Client::builder()
        .pipeline(move || {
            let tell = tell.clone();
            pipeline().handle(move |_, bytes| tell.send(bytes).unwrap())
        })
        .unwrap();
    let channel = client.connect(server.address()).wait().unwrap();
    channel.send(b"hello".as_slice()).wait().unwrap();
    assert_eq!(told.recv().unwrap(), "hello");
}

#[test]
fn backends_that_were_left_out_name_the_feature_that_has_them() {
    for (backend, feature) in [(Backend::Uring, "`uring`"), (Backend::Blocking, "`blocking`")] {
        let error = backend.event_loops(1).unwrap_err().to_string();
        assert!(error.contains(feature) || cfg!(not(target_os = "linux")), "{error}");
    }
    let server = Server::builder().backend(Backend::Blocking).pipeline(|_| pipeline().handle(|_, _| {}));
    let error = server.bind("127.0.0.1:0").wait().unwrap_err().to_string();
    assert!(error.contains("`blocking`"), "{error}");
}

#[test]
fn the_best_backend_is_readiness_where_io_uring_was_left_out() {
    let choice = Backend::choose();
    assert_eq!(choice.backend, Backend::Readiness);
    assert!(choice.why.contains("io_uring"), "{}", choice.why);
}

#[test]
fn names_within_the_process_are_a_scheme_that_is_not_known_and_name_the_feature_that_has_them() {
    let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {}));
    let error = server.bind("local:nobody").wait().unwrap_err().to_string();
    assert!(error.contains("\"local\"") && error.contains("only by: tcp, unix"), "{error}");
    assert!(error.contains("the feature `local`"), "{error}");
    let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
    let error = client.connect("local:nobody").wait().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("the feature `local`"), "{error}");
}
