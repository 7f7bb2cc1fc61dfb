//! Every order in which deliveries, actors that leave, and a shutdown can come. The locks make each call of
//! [`LiveThreads`] one step, so that an order of calls is all that can differ.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    NotSent,
    /// It is in a mailbox.
    Waits,
    Handled,
    /// It was in the mailbox of an actor that stopped.
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Works,
    /// It has taken itself out, and handles nothing more.
    Left,
    /// It panicked, and has not taken itself out.
    Broken,
    Stopped,
}

/// An actor as the others see it.
struct Mock {
    stage: Cell<Stage>,
    halts: Cell<bool>,
    /// Exists while the message for which it was started is not sent.
    expected: RefCell<Weak<()>>,
    mailbox: RefCell<VecDeque<Rc<Cell<Fate>>>>,
}

#[derive(Clone)]
struct Mocked(Rc<Mock>);

impl PartialEq for Mocked {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Address for Mocked {
    fn is_connected(&self) -> bool {
        matches!(self.0.stage.get(), Stage::Works | Stage::Left)
    }
}

impl Mocked {
    fn new() -> Self {
        let (stage, halts) = (Cell::new(Stage::Works), Cell::new(false));
        Self(Rc::new(Mock { stage, halts, expected: RefCell::default(), mailbox: RefCell::default() }))
    }

    /// It takes nothing any more: what is in its mailbox is dropped.
    fn stops(&self, stage: Stage) {
        self.0.stage.set(stage);
        self.0.mailbox.borrow_mut().drain(..).for_each(|message| message.set(Fate::Dropped));
    }

    /// Puts a message into the mailbox in a step of its own, and waits for its fate.
    async fn given(self, message: Rc<Cell<Fate>>, place: Option<Rc<()>>) -> Result<(), Self> {
        message.set(Fate::NotSent);
        let mut has_yielded = false;
        let end = poll_fn(|_| {
            if message.get() == Fate::NotSent && std::mem::replace(&mut has_yielded, true) {
                if self.is_connected() {
                    self.0.mailbox.borrow_mut().push_back(message.clone());
                    message.set(Fate::Waits);
                } else {
                    message.set(Fate::Dropped);
                }
            }
            match message.get() {
                Fate::NotSent | Fate::Waits => Poll::Pending,
                Fate::Handled | Fate::Dropped => Poll::Ready(message.get()),
            }
        });
        let end = end.await;
        drop(place);
        if end == Fate::Handled { Ok(()) } else { Err(self) }
    }
}

type Delivery<'a> = Pin<Box<dyn Future<Output = Result<(), RuntimeError>> + 'a>>;

/// What is to happen, in any order.
#[derive(Clone, Copy)]
struct Scene {
    n_deliveries: usize,
    /// How often an actor leaves by itself.
    n_leaves: usize,
    shuts_down: bool,
    /// Whether an actor panics once.
    panics: bool,
    /// Whether the thread begins beside the deliveries; otherwise the log has it.
    begins: bool,
    /// Whether an actor that is started for a message stays until that was sent.
    stays_for_message: bool,
}

/// The order of steps that is tried: which of those that were possible was taken.
#[derive(Default)]
struct Order {
    taken: Vec<(usize, usize)>,
    at: usize,
}

impl Order {
    fn choose(&mut self, n: usize) -> usize {
        if self.at == self.taken.len() {
            self.taken.push((0, n));
        }
        self.at += 1;
        assert_eq!(self.taken[self.at - 1].1, n, "the same order has the same steps");
        self.taken[self.at - 1].0
    }

    /// The next order; false after the last.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, n)) = self.taken.pop() {
            if choice + 1 < n {
                self.taken.push((choice + 1, n));
                return true;
            }
        }
        false
    }
}

enum Step {
    Begin,
    Deliver(usize),
    Handle(Mocked),
    Leave(Mocked),
    Stop(Mocked),
    Panic(Mocked),
    Close,
    Halt,
}

const THREAD: ThreadId = ThreadId::from_bytes([1; 16]);

/// One run of a scene. Returns how each delivery ended.
fn run(scene: Scene, order: &mut Order) -> Vec<Result<(), RuntimeError>> {
    let live = LiveThreads::new(10);
    let started: RefCell<Vec<Mocked>> = RefCell::default();
    let start = || {
        let actor = Mocked::new();
        started.borrow_mut().push(actor.clone());
        Ok(actor)
    };
    let start_for_message = || {
        let (actor, place) = (start()?, Rc::new(()));
        if scene.stays_for_message {
            *actor.0.expected.borrow_mut() = Rc::downgrade(&place);
        }
        Ok((actor, place))
    };
    let messages: Vec<_> = (0..scene.n_deliveries).map(|_| Rc::new(Cell::new(Fate::NotSent))).collect();
    let deliver = |message: &Rc<Cell<Fate>>| -> Option<Delivery<'_>> {
        let message = message.clone();
        let give = move |actor: Mocked, place| actor.given(message.clone(), place);
        Some(Box::pin(live.hand_over(THREAD, start_for_message, give)))
    };
    let mut deliveries: Vec<_> = messages.iter().map(deliver).collect();
    let mut ended = Vec::new();
    let (mut n_leaves, mut panics, mut begins) = (scene.n_leaves, scene.panics, scene.begins);
    let (mut closes, mut halts) = (scene.shuts_down, false);
    loop {
        let mut steps = Vec::new();
        for (number, delivery) in deliveries.iter().enumerate() {
            if delivery.is_some() && messages[number].get() != Fate::Waits {
                steps.push(Step::Deliver(number));
            }
        }
        for actor in started.borrow().iter() {
            match actor.0.stage.get() {
                Stage::Works => {
                    if !actor.0.mailbox.borrow().is_empty() {
                        steps.push(Step::Handle(actor.clone()));
                    }
                    let is_expected = actor.0.expected.borrow().strong_count() > 0;
                    if n_leaves > 0 && !is_expected || actor.0.halts.get() {
                        steps.push(Step::Leave(actor.clone()));
                    }
                    if panics {
                        steps.push(Step::Panic(actor.clone()));
                    }
                }
                Stage::Left | Stage::Broken => steps.push(Step::Stop(actor.clone())),
                Stage::Stopped => {}
            }
        }
        if begins {
            steps.push(Step::Begin);
        }
        if closes {
            steps.push(Step::Close);
        }
        if halts {
            steps.push(Step::Halt);
        }
        if steps.is_empty() {
            break;
        }
        let chosen = order.choose(steps.len());
        match steps.swap_remove(chosen) {
            Step::Begin => {
                begins = false;
                let begun = live.begin(THREAD, true, start);
                assert!(
                    matches!(begun, Ok(()) | Err(RuntimeError::ShuttingDown | RuntimeError::Store(_))),
                    "{begun:?}"
                );
            }
            Step::Deliver(number) => {
                let delivery = deliveries[number].as_mut().unwrap();
                if let Poll::Ready(end) = delivery.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    deliveries[number] = None;
                    ended.push(end);
                }
            }
            Step::Handle(actor) => {
                let message = actor.0.mailbox.borrow_mut().pop_front().unwrap();
                assert_eq!(message.replace(Fate::Handled), Fate::Waits, "a message is handled once");
            }
            Step::Leave(actor) => {
                if !actor.0.halts.get() {
                    n_leaves -= 1;
                }
                live.forget(THREAD, |known| *known == actor);
                actor.0.stage.set(Stage::Left);
            }
            Step::Stop(actor) => {
                live.forget(THREAD, |known| *known == actor);
                actor.stops(Stage::Stopped);
            }
            Step::Panic(actor) => {
                panics = false;
                actor.stops(Stage::Broken);
            }
            Step::Close => {
                (closes, halts) = (false, true);
                assert!(live.close(), "it is closed once");
            }
            Step::Halt => {
                halts = false;
                live.all().iter().for_each(|actor| actor.0.halts.set(true));
            }
        }
        let n_working = started.borrow().iter().filter(|actor| actor.0.stage.get() == Stage::Works).count();
        assert!(n_working <= 1, "a thread has one actor at most");
    }
    assert_eq!(ended.len(), scene.n_deliveries, "each delivery ends");
    if scene.shuts_down {
        assert_eq!(live.len(), 0, "a shutdown misses no actor");
    }
    ended
}

/// Runs a scene in every order. Returns how many there are.
fn in_every_order(scene: Scene, check: impl Fn(&[Result<(), RuntimeError>])) -> usize {
    let (mut order, mut n) = (Order::default(), 0);
    loop {
        check(&run(scene, &mut order));
        n += 1;
        if !order.next() {
            return n;
        }
    }
}

#[test]
fn message_reaches_a_thread_whose_actors_leave() {
    let scene = Scene {
        n_deliveries: 2,
        n_leaves: 2,
        shuts_down: false,
        panics: false,
        begins: false,
        stays_for_message: false,
    };
    let n = in_every_order(scene, |ended| assert!(ended.iter().all(Result::is_ok), "{ended:?}"));
    assert!(n > 1_000, "{n}");
}

#[test]
fn message_reaches_a_thread_whose_actor_panics() {
    let scene =
        Scene { n_deliveries: 2, n_leaves: 0, shuts_down: false, panics: true, begins: false, stays_for_message: true };
    in_every_order(scene, |ended| assert!(ended.iter().all(Result::is_ok), "{ended:?}"));
}

#[test]
fn message_reaches_a_thread_that_begins() {
    let scene =
        Scene { n_deliveries: 2, n_leaves: 1, shuts_down: false, panics: false, begins: true, stays_for_message: true };
    in_every_order(scene, |ended| assert!(ended.iter().all(Result::is_ok), "{ended:?}"));
}

#[test]
fn shutdown_misses_no_actor_and_loses_no_delivery() {
    let alone =
        Scene { n_deliveries: 1, n_leaves: 1, shuts_down: true, panics: true, begins: true, stays_for_message: true };
    let together =
        Scene { n_deliveries: 2, n_leaves: 0, shuts_down: true, panics: false, begins: false, stays_for_message: true };
    for scene in [alone, together] {
        in_every_order(scene, |ended| {
            let is_told = |end: &Result<(), RuntimeError>| matches!(end, Ok(()) | Err(RuntimeError::ShuttingDown));
            assert!(ended.iter().all(is_told), "{ended:?}");
        });
    }
}

#[test]
fn message_reaches_a_thread_that_leaves_whenever_it_may() {
    let scene = Scene {
        n_deliveries: 1,
        n_leaves: 3 * TRIES,
        shuts_down: false,
        panics: false,
        begins: false,
        stays_for_message: true,
    };
    in_every_order(scene, |ended| assert!(ended.iter().all(Result::is_ok), "{ended:?}"));
}

#[test]
fn delivery_gives_up_after_so_many_actors() {
    let scene = Scene {
        n_deliveries: 1,
        n_leaves: TRIES,
        shuts_down: false,
        panics: false,
        begins: false,
        stays_for_message: false,
    };
    let n_given_up = Cell::new(0);
    in_every_order(scene, |ended| {
        let given_up = ended.iter().filter(|end| matches!(end, Err(RuntimeError::ActorStopped(_)))).count();
        n_given_up.set(n_given_up.get() + given_up);
    });
    assert!(n_given_up.get() > 0);
}
