use bytes::Bytes;
use netwright_core::{Context, Handler, Switch, WritePromise, pipeline};

/// Reads text where the joint gives bytes.
struct Text;

impl Handler for Text {
    type Read = String;
    type ReadOut = String;
    type Write = Bytes;
    type WriteOut = Bytes;
    fn read(&mut self, _: &mut Context<'_, Self>, _: String) {}
    fn write(&mut self, _: &mut Context<'_, Self>, _: Bytes, _: WritePromise) {}
}

fn upgrade(switch: &Switch<Bytes>) {
    switch.to(pipeline().add(Text).handle(|_, _| {}));
}

fn main() {
    let _ = upgrade;
}
