//! Certificates from files, and new ones while servers run.

use crate::{files::Temporary, support::*};
use netwright_core::ManualLoop;
use netwright_tls::{Acceptor, Certificate, Connector, Reloadable, Roots, Tls, TlsError};
use std::{fs, time::Duration};

fn pair_for(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn der_of(pem: &str, key: &str) -> Vec<u8> {
    Certificate::from_pem(pem, key).unwrap().chain()[0].to_vec()
}

fn what_clients_get(acceptor: &Acceptor) -> Vec<u8> {
    let anybody = Connector::builder().dangerously_accept_any_certificate().build().unwrap();
    let mut client: End = End::new(Tls::client(&anybody, "localhost").unwrap());
    let mut server: End = End::new(Tls::server(acceptor));
    pump(&mut client, &mut server);
    client.agreed().peer_certificates[0].to_vec()
}

#[test]
fn a_reload_changes_what_new_clients_get_and_bad_files_change_nothing() {
    let (chain, key) = (Temporary::new("reload.pem"), Temporary::new("reload.key"));
    let (first, first_key) = pair_for("localhost");
    let (second, second_key) = pair_for("localhost");
    chain.write(&first);
    key.write(&first_key);
    let certificate = Reloadable::from_pem_files(&chain.0, &key.0).unwrap();
    let acceptor = Acceptor::new(&certificate).unwrap();
    assert_eq!(what_clients_get(&acceptor), der_of(&first, &first_key));

    chain.write(&second); // half done: the key does not fit
    let error = certificate.reload().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}:1: ", chain.0.display())), "{error}");
    assert_eq!(what_clients_get(&acceptor), der_of(&first, &first_key));
    key.write(&second_key);
    certificate.reload().unwrap();
    assert_eq!(what_clients_get(&acceptor), der_of(&second, &second_key));
    assert!(!certificate.reload_if_changed().unwrap());

    certificate.replace(Certificate::from_pem(&first, &first_key).unwrap());
    assert_eq!(what_clients_get(&acceptor), der_of(&first, &first_key));
}

#[test]
fn files_that_are_watched_are_reloaded_when_they_change() {
    let (chain, key) = (Temporary::new("watch.pem"), Temporary::new("watch.key"));
    let (first, first_key) = pair_for("localhost");
    let (second, second_key) = pair_for("a.longer.name.so.that.the.length.differs");
    chain.write(&first);
    key.write(&first_key);
    let certificate = Reloadable::from_pem_files(&chain.0, &key.0).unwrap();
    let mut manual = ManualLoop::new();
    let watching = certificate.watch(manual.handle(), Duration::from_secs(60)).unwrap();
    manual.advance(Duration::from_secs(120));
    manual.run_until_idle();
    assert_eq!(certificate.current().chain()[0].to_vec(), der_of(&first, &first_key));
    chain.write(&second);
    key.write(&second_key);
    manual.advance(Duration::from_secs(60));
    manual.run_until_idle();
    assert_eq!(certificate.current().chain()[0].to_vec(), der_of(&second, &second_key));
    drop(watching);
}

#[test]
fn errors_name_the_file_and_the_line() {
    let (chain, key) = (Temporary::new("bad.pem"), Temporary::new("bad.key"));
    let (pem, key_pem) = pair_for("localhost");
    let error = |chain: &Temporary, key: &Temporary| match Certificate::from_pem_files(&chain.0, &key.0) {
        Err(error @ TlsError::Pem(_)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    key.write(&key_pem);
    assert!(error(&chain, &key).starts_with(&format!("{}: ", chain.0.display())), "no file");
    chain.write(format!("# a comment\n\n{}", pem.replacen('M', "?", 1)));
    assert_eq!(error(&chain, &key), format!("{}:4: '?' is no character of base64", chain.0.display()));
    chain.write(&pem);
    key.write(&pem);
    assert_eq!(error(&chain, &key), format!("{}: no private key in it", key.0.display()));
    key.write(pair_for("other").1);
    assert!(error(&chain, &key).starts_with(&format!("{}:1: ", chain.0.display())), "of another pair");
    chain.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let roots = Roots::from_pem_file(&chain.0).unwrap_err().to_string();
    assert!(roots.starts_with(&format!("{}:1: ", chain.0.display())), "{roots}");
    fs::remove_file(&chain.0).unwrap();
}

#[test]
fn the_authorities_of_this_system_can_be_read_where_there_are_any() {
    match Roots::system() {
        Ok(roots) => assert!(roots.len() > 10),
        Err(error) => eprintln!("skipped: {error}"),
    }
}
