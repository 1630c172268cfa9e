use netwright_core::ManualLoop;

fn main() {
    let manual = ManualLoop::new();
    std::thread::spawn(move || drop(manual));
}
