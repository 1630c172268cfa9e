//! Pipelines are made on the threads of a server, of which there are several.
use netwright_core::{IntoPipeline, pipeline};
use std::{cell::Cell, rc::Rc};

fn serve<P: IntoPipeline<T>, T: Send + 'static>(_: impl Fn() -> P + Send + 'static) {}

fn main() {
    let count = Rc::new(Cell::new(0));
    serve(move || {
        let count = count.clone();
        pipeline().handle(move |_, _| count.set(count.get() + 1))
    });
}
