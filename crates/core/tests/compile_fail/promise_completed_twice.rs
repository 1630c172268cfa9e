use netwright_core::{PromiseError, WritePromise, promise};

fn main() {
    let (promise, _promised) = promise::<u32, PromiseError>();
    promise.succeed(1);
    promise.succeed(2);

    let (done, _written) = WritePromise::tracked();
    done.succeed();
    done.succeed();
}
