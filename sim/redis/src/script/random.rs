//! `math.random` and `math.randomseed`: Redis's own generator, whose state is the node's.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua};

use crate::script::arguments::function;
use crate::script::door::Running;

/// `math.random`: drawn as `redisLrand48() % REDIS_LRAND48_MAX / REDIS_LRAND48_MAX`.
pub fn random(lua: &Lua, door: &Rc<RefCell<Running>>) -> mlua::Result<Function> {
    const MAX: u64 = 0x7fff_ffff;
    let door = Rc::clone(door);
    function(lua, move |arguments| {
        let drawn = door.borrow_mut().node.scripts.dice.draw();
        let share = (drawn % MAX) as f64 / MAX as f64;
        let bound = |nth| arguments.integer(nth).map(|bound| bound as i32);
        let (low, high) = match arguments.count() {
            0 => return Ok(share),
            1 => (1, bound(1)?),
            2 => (bound(1)?, bound(2)?),
            _ => return Err(arguments.complain("wrong number of arguments")),
        };
        if low > high {
            return Err(arguments.refuse(arguments.count(), "interval is empty"));
        }
        let count = high.wrapping_sub(low).wrapping_add(1);
        Ok((share * f64::from(count)).floor() + f64::from(low))
    })
}

/// `math.randomseed`: `redisSrand48`.
pub fn seed(lua: &Lua, door: &Rc<RefCell<Running>>) -> mlua::Result<Function> {
    let door = Rc::clone(door);
    function(lua, move |arguments| {
        let seed = arguments.integer(1)? as u64;
        door.borrow_mut().node.scripts.dice.seed(seed);
        Ok(())
    })
}
