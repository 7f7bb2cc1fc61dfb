use std::cell::{Cell, RefCell};
use std::convert::Infallible;

use actix::prelude::*;

use super::*;

/// Leaves when it is told to; nobody hears of what came behind that.
struct Leaves {
    heard: Arc<parking_lot::Mutex<Vec<u32>>>,
}

struct Leave;

impl Message for Leave {
    type Result = ();
}

struct Say(u32);

impl Message for Say {
    type Result = u32;
}

impl Actor for Leaves {
    type Context = Context<Self>;
}

impl Handler<Leave> for Leaves {
    type Result = ();

    fn handle(&mut self, _message: Leave, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

impl Handler<Placed<Say>> for Leaves {
    type Result = u32;

    fn handle(&mut self, Placed(Say(number), _place): Placed<Say>, _ctx: &mut Context<Self>) -> u32 {
        self.heard.lock().push(number);
        number + 1
    }
}

/// Brings a message to actors of which the first so many leave with it in their mailbox.
fn brought_when_so_many_leave(n: usize) -> (Option<u32>, Vec<u32>, usize) {
    actix_rt::System::new().block_on(async move {
        let heard = Arc::default();
        let live: RefCell<Option<Addr<Leaves>>> = RefCell::new(None);
        let n_started = Cell::new(0);
        let find = || {
            let mut live = live.borrow_mut();
            let actor = live.get_or_insert_with(|| {
                n_started.set(n_started.get() + 1);
                let actor = Leaves { heard: Arc::clone(&heard) }.start();
                if n_started.get() <= n {
                    actor.do_send(Leave);
                }
                actor
            });
            Ok::<_, Infallible>((actor.clone(), Arc::new(Semaphore::new(1))))
        };
        let forget = |gone: &Addr<Leaves>| {
            live.borrow_mut().take_if(|live| live == gone);
        };
        let Ok(answer) = hand_over(find, forget, || Say(7)).await;
        let heard = heard.lock().clone();
        (answer, heard, n_started.get())
    })
}

#[test]
fn what_an_actor_takes_with_it_is_given_to_its_successor_and_taken_once() {
    assert_eq!(brought_when_so_many_leave(0), (Some(8), vec![7], 1));
    assert_eq!(brought_when_so_many_leave(1), (Some(8), vec![7], 2));
    assert_eq!(brought_when_so_many_leave(TRIES - 1), (Some(8), vec![7], TRIES));
}

#[test]
fn where_all_leave_it_is_given_up() {
    assert_eq!(brought_when_so_many_leave(TRIES), (None, vec![], TRIES));
}
