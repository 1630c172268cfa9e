//! The loops of a group over time: who has died, who takes its place, when all have ended.
//!
//! ```text
//!   index        0      1      2
//!   loops      [alive][dead ][alive]      a loop dies: it ended, and nobody had asked it to
//!                        │
//!                        └─ vacant: [1] ── the recipe makes a new one ──▶ takes the place; the chooser is told
//!                                    └──── the driver cannot be made ──▶ tried again when the place is chosen
//! ```
//!
//! Always true:
//! 1. A loop that was shut down is not replaced, and none is once the group shuts down.
//! 2. `Ends` counts a place once: when its loop has ended and none will follow.
//! 3. The recipe runs without a lock: whoever replaces holds it meanwhile, and fills all places that fall vacant.
//! 4. Whoever hears of a loop's death later than its group finds the place filled, if it could be: listen to
//!    [`termination`](EventLoop::termination), then ask the group.
//! 5. Loops know of their members weakly, so a group with nothing but its own loops to hold it ends.

use super::{Chooser, WeakGroup};
use crate::{
    error::{BuildError, LoopError},
    event_loop::{EventLoop, Termination},
    promise::{Promise, SharedPromised, promise},
    task_error::{catch, tell},
    world,
};
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Makes the loop of a place.
pub(super) type Recipe = Box<dyn FnMut(usize) -> Result<EventLoop, BuildError> + Send>;

/// Between two tries to fill places for which no driver could be made.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long a dying loop waits for somebody else who is filling places.
const FILLING_MAX: Duration = Duration::from_secs(1);

pub(super) struct Members {
    pub(super) chooser: Box<dyn Chooser>,
    pub(super) died: AtomicU64,
    pub(super) replaced: AtomicU64,
    /// The group itself.
    group: WeakGroup,
    state: Mutex<State>,
    /// Somebody has stopped filling places.
    filled: Condvar,
    ends: Arc<Ends>,
}

struct State {
    loops: Arc<[EventLoop]>,
    /// The loops that died and have no successor yet, by place, with what they died of.
    vacant: Vec<(usize, LoopError)>,
    /// Not here while somebody fills places, or if none is to be filled.
    recipe: Option<Recipe>,
    retry_at: Option<Instant>,
    /// Whether the dead are replaced: until the group shuts down, if at all.
    replacing: bool,
}

impl Members {
    /// `recipe`: makes successors of loops that die, if they are to have any.
    pub(super) fn new(
        loops: Vec<EventLoop>,
        chooser: Box<dyn Chooser>,
        recipe: Option<Recipe>,
        group: WeakGroup,
    ) -> Arc<Self> {
        let members = Arc::new(Self {
            chooser,
            group,
            died: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            ends: Ends::of(loops.len()),
            filled: Condvar::new(),
            state: Mutex::new(State {
                loops: loops.into(),
                vacant: Vec::new(),
                replacing: recipe.is_some(),
                recipe,
                retry_at: None,
            }),
        });
        for (index, event_loop) in members.loops().iter().enumerate() {
            members.adopt(event_loop);
            members.watch(index, event_loop);
        }
        members
    }

    /// The loops as they are now.
    pub(super) fn loops(&self) -> Arc<[EventLoop]> {
        self.lock().loops.clone()
    }

    /// Resolves when all have ended.
    pub(super) fn termination(&self) -> Termination {
        self.ends.termination.clone()
    }

    /// Has every loop ended, by `end`, and replaces none any more.
    pub(super) fn end(&self, end: impl Fn(&EventLoop)) {
        let mut state = self.lock();
        state.replacing = false;
        let (recipe, vacant, loops) =
            (state.recipe.take(), std::mem::take(&mut state.vacant), state.loops.clone());
        drop(state);
        self.filled.notify_all();
        for event_loop in &*loops {
            end(event_loop);
        }
        vacant.into_iter().for_each(|(_, error)| self.ends.count(&Err(error)));
        drop_contained(recipe);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a new loop whose it is.
    fn adopt(&self, event_loop: &EventLoop) {
        let _ = event_loop.shared().parent.set(self.group.clone());
    }

    fn watch(self: &Arc<Self>, index: usize, event_loop: &EventLoop) {
        let (members, ends) = (Arc::downgrade(self), self.ends.clone());
        event_loop.termination().listen(move |end| match (Weak::upgrade(&members), end) {
            (Some(members), Err(error)) => members.lost(index, error),
            (_, end) => ends.count(end),
        });
    }

    /// A loop died. Runs on its thread, which has nothing else to do any more.
    fn lost(self: &Arc<Self>, index: usize, error: &LoopError) {
        self.died.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        if !state.replacing || state.loops[index].is_asked_to_end() {
            drop(state);
            return self.ends.count(&Err(error.clone()));
        }
        state.vacant.push((index, error.clone()));
        state.retry_at = None;
        let dead = state.loops[index].clone();
        drop(state);
        self.fill_vacancies();
        self.await_successor(index, &dead);
    }

    /// If somebody else is filling places, whoever hears of this death after us shall find this one filled as well. The dead loop's
    /// thread has time for that, but not for a recipe that never ends.
    fn await_successor(self: &Arc<Self>, index: usize, dead: &EventLoop) {
        let open = |state: &State| state.replacing && state.loops[index] == *dead;
        loop {
            let filling = |state: &mut State| open(state) && state.recipe.is_none();
            let waited = self.filled.wait_timeout_while(self.lock(), FILLING_MAX, filling);
            let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() || !open(&state) || state.retry_at.is_some() {
                return;
            }
            drop(state);
            self.fill_vacancies(); // whoever was at it has not seen this place
        }
    }

    /// Gives successors to the loops that died, unless that failed a moment ago.
    pub(super) fn fill_vacancies(self: &Arc<Self>) {
        while let Some((mut recipe, index, error)) = self.next_vacancy() {
            // The user's code: no lock is held.
            let made = catch(|| recipe(index));
            let mut state = self.lock();
            self.filled.notify_all(); // when the lock is let go
            if !state.replacing {
                drop(state);
                drop_contained((made, recipe));
                return self.ends.count(&Err(error));
            }
            state.recipe = Some(recipe);
            let failure = match made {
                Ok(Ok(event_loop)) => {
                    self.adopt(&event_loop);
                    let mut loops = state.loops.to_vec();
                    let dead = std::mem::replace(&mut loops[index], event_loop.clone());
                    state.loops = loops.into();
                    let loops = state.loops.clone();
                    drop(state);
                    drop(dead);
                    self.install(&loops, index, &event_loop);
                    continue;
                }
                Ok(Err(failure)) => failure.to_string(),
                Err(panic) => panic,
            };
            state.vacant.push((index, error));
            state.retry_at = world::now().checked_add(RETRY_PAUSE);
            drop(state);
            tell(|| tracing::error!(index, error = failure, "a loop that died could not be replaced"));
            return;
        }
    }

    /// Takes the recipe and a place to fill with it.
    fn next_vacancy(&self) -> Option<(Recipe, usize, LoopError)> {
        let mut state = self.lock();
        let too_soon = state.retry_at.is_some_and(|at| world::now() < at);
        if too_soon || state.vacant.is_empty() {
            return None;
        }
        let recipe = state.recipe.take()?; // somebody else is at it, and sees to this place too
        let (index, error) = state.vacant.pop()?;
        Some((recipe, index, error))
    }

    fn install(self: &Arc<Self>, loops: &[EventLoop], index: usize, event_loop: &EventLoop) {
        self.replaced.fetch_add(1, Ordering::Relaxed);
        self.watch(index, event_loop);
        tell(|| tracing::warn!(event_loop = %event_loop.name(), "a loop that died was replaced"));
        if let Err(panic) = catch(|| self.chooser.replaced(loops, index)) {
            tell(|| tracing::error!(panic, "a chooser panicked when it was told of a new loop"));
        }
    }
}

impl Drop for Members {
    /// The group is gone, and its loops end with it; places that are vacant have ended already.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, error) in std::mem::take(&mut state.vacant) {
            self.ends.count(&Err(error));
        }
    }
}

fn drop_contained<T>(value: T) {
    if let Err(panic) = catch(|| drop(value)) {
        tell(|| tracing::error!(panic, "dropping a driver that was never started panicked"));
    }
}

/// Counts the places of a group that have come to their end.
struct Ends {
    state: Mutex<EndsState>,
    termination: SharedPromised<(), LoopError>,
}

struct EndsState {
    left: usize,
    how: Result<(), LoopError>,
    promise: Option<Promise<(), LoopError>>,
}

impl Ends {
    fn of(places: usize) -> Arc<Self> {
        let (promise, promised) = promise();
        let state = EndsState { left: places, how: Ok(()), promise: Some(promise) };
        Arc::new(Self { state: Mutex::new(state), termination: promised.shared() })
    }

    /// One more has ended. The first error is the group's; the last end is the group's end.
    fn count(&self, end: &Result<(), LoopError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.left -= 1;
        if state.how.is_ok() {
            state.how = end.clone();
        }
        let finished = if state.left == 0 { state.promise.take() } else { None };
        let how = state.how.clone();
        drop(state);
        if let Some(promise) = finished {
            promise.complete(how);
        }
    }
}
