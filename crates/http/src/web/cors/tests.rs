use super::*;
use crate::HttpPart;
use crate::web::testing::{HttpEmbedded, request, shown};

fn asked(method: &str, headers: &[(&str, &str)]) -> request::Parts {
    let mut builder = http::Request::builder().method(method).uri("/");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap().into_parts().0
}

const APP: (&str, &str) = ("origin", "https://app.example");
const OTHER: (&str, &str) = ("origin", "https://other.example");
const NULL: (&str, &str) = ("origin", "null");
const PUT: (&str, &str) = ("access-control-request-method", "PUT");

/// What a decision comes to: `pass`, `grant ORIGIN`, `preflight ORIGIN`, `refuse`; with `+c` for credentials.
fn outcome(cors: &Cors, request: &request::Parts) -> String {
    let allowed = |headers: &HeaderMap| {
        let origin = headers[header::ACCESS_CONTROL_ALLOW_ORIGIN].to_str().unwrap();
        let with = headers.get(header::ACCESS_CONTROL_ALLOW_CREDENTIALS).map_or("", |_| "+c");
        format!("{origin}{with}")
    };
    match cors.decide(request) {
        CorsDecision::Pass => "pass".into(),
        CorsDecision::Grant(headers) => format!("grant {}", allowed(&headers)),
        CorsDecision::Preflight(reply) => {
            assert_eq!(reply.status(), 204);
            format!("preflight {}", allowed(reply.headers()))
        }
        CorsDecision::Refuse(reply) => {
            assert_eq!(reply.status(), 403);
            assert!(!reply.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
            "refuse".into()
        }
    }
}

#[test]
fn the_matrix_of_origins_credentials_and_preflights() {
    let any = Cors::any();
    let list = Cors::origins(["https://app.example", "http://localhost:3000"]).unwrap();
    let with = list.clone().credentials().unwrap();
    let null = list.clone().null_origin();
    let strict = list.clone().strict();
    let matching = Cors::matching(|origin| origin.ends_with(".example")).credentials().unwrap();
    //                    rules      GET app                        GET other                       GET null       PUT? app                            PUT? other
    for (cors, expected) in [
        (&any, ["grant *", "grant *", "pass", "preflight *", "preflight *"]),
        (&list, ["grant https://app.example", "pass", "pass", "preflight https://app.example", "refuse"]),
        (&with, ["grant https://app.example+c", "pass", "pass", "preflight https://app.example+c", "refuse"]),
        (
            &null,
            ["grant https://app.example", "pass", "grant null", "preflight https://app.example", "refuse"],
        ),
        (
            &strict,
            ["grant https://app.example", "refuse", "refuse", "preflight https://app.example", "refuse"],
        ),
        (
            &matching,
            [
                "grant https://app.example+c",
                "grant https://other.example+c",
                "pass",
                "preflight https://app.example+c",
                "preflight https://other.example+c",
            ],
        ),
    ] {
        let requests = [
            asked("GET", &[APP]),
            asked("GET", &[OTHER]),
            asked("GET", &[NULL]),
            asked("OPTIONS", &[APP, PUT]),
            asked("OPTIONS", &[OTHER, PUT]),
        ];
        let outcomes: Vec<_> = requests.iter().map(|request| outcome(cors, request)).collect();
        assert_eq!(outcomes, expected, "{cors:?}");
        assert_eq!(outcome(cors, &asked("GET", &[])), "pass", "without an origin there is nothing to decide");
        assert_eq!(outcome(cors, &asked("OPTIONS", &[PUT])), "pass", "and nothing to ask");
    }
    assert_eq!(
        outcome(&list, &asked("OPTIONS", &[APP])),
        "grant https://app.example",
        "OPTIONS alone is no preflight"
    );
}

#[test]
fn preflights_are_answered_with_what_is_allowed() {
    let cors = Cors::origins(["https://app.example"])
        .unwrap()
        .methods([Method::GET, Method::PATCH])
        .headers([header::CONTENT_TYPE, HeaderName::from_static("x-token")])
        .expose([header::ETAG])
        .max_age(Duration::from_secs(60));
    let CorsDecision::Preflight(reply) = cors.decide(&asked("OPTIONS", &[APP, PUT])) else { panic!() };
    let headers = reply.headers();
    assert_eq!(headers["access-control-allow-methods"], "GET, PATCH");
    assert_eq!(headers["access-control-allow-headers"], "content-type, x-token");
    assert_eq!(headers["access-control-max-age"], "60");
    assert!(headers["vary"].to_str().unwrap().contains("access-control-request-headers"));
    assert!(!headers.contains_key("access-control-expose-headers"));
    let CorsDecision::Grant(headers) = cors.decide(&asked("GET", &[APP])) else { panic!() };
    assert_eq!(headers["access-control-expose-headers"], "etag");
}

#[test]
fn any_headers_gives_back_what_was_asked_if_it_is_names() {
    let cors = Cors::any().any_headers();
    for (names, given) in [("x-a, x-b", Some("x-a, x-b")), ("x a", None), ("x-a;q", None), ("", None)] {
        let request = asked("OPTIONS", &[APP, PUT, ("access-control-request-headers", names)]);
        let CorsDecision::Preflight(reply) = cors.decide(&request) else { panic!() };
        let allowed =
            reply.headers().get("access-control-allow-headers").map(|value| value.to_str().unwrap());
        assert_eq!(allowed, given, "{names:?}");
    }
    let many = vec!["a"; 65].join(",");
    let request = asked("OPTIONS", &[APP, PUT, ("access-control-request-headers", &many)]);
    let CorsDecision::Preflight(reply) = cors.decide(&request) else { panic!() };
    assert!(!reply.headers().contains_key("access-control-allow-headers"));
}

#[test]
fn private_networks_are_opened_only_if_told_so() {
    let private = ("access-control-request-private-network", "true");
    for (cors, answer) in [(Cors::any().private_network(), "true"), (Cors::any(), "false")] {
        let CorsDecision::Preflight(reply) = cors.decide(&asked("OPTIONS", &[APP, PUT, private])) else {
            panic!()
        };
        assert_eq!(reply.headers()["access-control-allow-private-network"], answer);
        let CorsDecision::Preflight(reply) = cors.decide(&asked("OPTIONS", &[APP, PUT])) else { panic!() };
        assert!(!reply.headers().contains_key("access-control-allow-private-network"), "unless asked");
    }
}

#[test]
fn rules_that_open_too_much_or_match_nothing_are_refused() {
    assert!(Cors::any().credentials().unwrap_err().to_string().contains("credentials need a list"));
    for wrong in [
        "*",
        "https://",
        "app.example",
        "https://app.example/",
        "https://App.example",
        "https://*.example",
        "null",
    ] {
        assert!(Cors::origins([wrong]).is_err(), "{wrong:?}");
    }
    // Two origins are none, and what is no origin never reaches a function.
    let list = Cors::origins(["https://app.example"]).unwrap().strict();
    assert_eq!(outcome(&list, &asked("GET", &[APP, APP])), "refuse");
    let matching = Cors::matching(|_| true).strict();
    assert_eq!(outcome(&matching, &asked("GET", &[("origin", "https://a b")])), "refuse");
    // Our own pages name their origin too.
    assert_eq!(
        outcome(&list, &asked("POST", &[("origin", "https://us.example"), ("host", "us.example")])),
        "pass"
    );
}

#[test]
fn the_stage_answers_preflights_in_their_turn() {
    let cors = Cors::origins(["https://app.example"]).unwrap();
    let mut channel = HttpEmbedded::new(|_| cors.stage());
    channel.ask(request("GET", "/1", &[APP]));
    channel.ask(request("OPTIONS", "/2", &[APP, PUT, ("content-length", "3")]));
    channel.ask(HttpPart::Data("abc".into()));
    channel.ask(HttpPart::End(None));
    channel.ask(request("GET", "/3", &[]));
    channel.ask(HttpPart::End(None));
    assert_eq!(
        channel.requests(),
        ["Head GET /1", "Head GET /3", "End"],
        "the preflight is not seen behind the stage"
    );
    assert!(channel.replies().is_empty(), "its answer waits for its turn");

    channel.reply(Reply::whole(Reply::text("one")));
    channel.reply(Reply::whole(Reply::text("three")));
    let replies = channel.replies();
    assert_eq!(
        replies.iter().map(shown).collect::<Vec<_>>(),
        ["Whole 200 one", "Whole 204 ", "Whole 200 three"]
    );
    let header = |place: usize, name: &str| match &replies[place] {
        HttpPart::Whole(head, _) => head.headers.get(name).map(|value| value.to_str().unwrap().to_owned()),
        _ => None,
    };
    assert_eq!(header(0, "access-control-allow-origin").as_deref(), Some("https://app.example"));
    assert_eq!(header(0, "vary").as_deref(), Some("origin"));
    assert_eq!(header(2, "access-control-allow-origin"), None);
    assert_eq!(header(2, "vary").as_deref(), Some("origin"), "a cache must not give this reply to a page");
}
