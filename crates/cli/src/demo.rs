//! `netwright` without a command: servers to play with, and a page to look at.

use crate::{
    failure::Failure,
    running,
    serve::{event_loops, raise_limit},
    servers::{chat, echo, front::Front, page, room::Room, time},
    stop::Stop,
    terminal::say,
};
use netwright::{
    Backend, EventLoopGroup, Promised, Server,
    server::{BindError, ServerBuilder},
};

/// Enough to show that connections are spread over loops.
const LOOPS: usize = 2;

const TIME_PORT: u16 = 7001;
const ECHO_PORT: u16 = 7002;
const CHAT_PORT: u16 = 7003;
const PAGE_PORT: u16 = 7004;

pub(crate) fn run() -> Result<(), Failure> {
    raise_limit();
    let stop = Stop::listen()?;
    let group = event_loops("loop", LOOPS)?;
    let bare = Front::default;
    let time = start(&group, TIME_PORT, |server, address| time::bind(server, address, bare()))?;
    let echo = start(&group, ECHO_PORT, |server, address| echo::bind(server, address, bare()))?;
    let room = Room::default(); // one for both: a browser and a terminal can talk to each other
    let chat = start(&group, CHAT_PORT, |server, address| chat::bind(room.clone(), server, address, bare()))?;
    let page = start(&group, PAGE_PORT, |server, address| page::bind(room.clone(), server, address))?;
    explain(&time, &echo, &chat, &page);
    running::until_stopped(&stop, &[time, echo, chat, page], &[group], Backend::Auto)
}

/// On its own port, or on any other if somebody has that one.
fn start(
    group: &EventLoopGroup,
    port: u16,
    bind: impl Fn(ServerBuilder, &str) -> Promised<Server, BindError>,
) -> Result<Server, BindError> {
    let on = |port| bind(Server::builder().group(group.clone()), &format!("127.0.0.1:{port}")).wait();
    match on(port) {
        Err(BindError::InUse(_)) => on(0),
        result => result,
    }
}

fn explain(time: &Server, echo: &Server, chat: &Server, page: &Server) {
    let port = |server: &Server| server.local_addr().map_or(0, |address| address.port());
    let (time, echo, chat, page) = (port(time), port(echo), port(chat), port(page));
    say!(
        "
Four servers run on {LOOPS} event loops. From another terminal:

time listens on 127.0.0.1:{time}, and tells the time to those who ask with QUERY TIME ORDER
    nc 127.0.0.1 {time}                then type QUERY TIME ORDER
    telnet 127.0.0.1 {time}            the same
    (exec 3<>/dev/tcp/127.0.0.1/{time}; echo QUERY TIME ORDER >&3; head -n 1 <&3)      bash alone

echo listens on 127.0.0.1:{echo}, and sends everything back
    nc 127.0.0.1 {echo}                then type anything
    telnet 127.0.0.1 {echo}            the same
    (exec 3<>/dev/tcp/127.0.0.1/{echo}; echo hello >&3; head -n 1 <&3)                 bash alone
    netwright load echo 127.0.0.1:{echo} --seconds 5      measures it and checks every byte

chat listens on 127.0.0.1:{chat}, and tells everybody what one says: open it twice
    nc 127.0.0.1 {chat}                in two terminals
    telnet 127.0.0.1 {chat}            the same
    (exec 3<>/dev/tcp/127.0.0.1/{chat}; cat <&3 & cat >&3; kill $!)                    bash alone

page listens on 127.0.0.1:{page}, and shows the same chat in a browser, by WebSocket: open it twice
    http://127.0.0.1:{page}/

`netwright connect 127.0.0.1:PORT` is a client for the first three; `cargo run --release -- connect …` if it is not installed.
Ctrl-C ends it.
"
    );
}
