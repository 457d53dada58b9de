//! The search for plans that violate a lock, and what it finds.
//!
//! A request for a hunt, and its plans:
//! - [`quarry`]: the request for a hunt; [`wording`]: how its refusals name what the reader may set
//! - [`strategy`]: how a plan is drawn from a seed
//! - [`drawing`]: proptest strategies for faults and plans
//! - [`seeded`]: a hunt, and the plan that each of its seeds draws
//! - [`parameter`]: what is drawn besides faults; [`habits`] and [`deployment`] draw it
//!
//! The search, and its findings:
//! - [`search`]: runs the plans of seeds; [`tally`]: how much it has tested
//! - [`left_out`]: the faults that the lock assumes not to happen, so that no plan has them
//! - [`novelty`]: how many states they have shown
//! - [`group`]: the violations in groups
//! - [`pursuit`]: a violation drawn again, classified and shrunk
//! - [`shrink`]: a smaller plan with the same violation; [`smaller`]: plans one step smaller
//! - [`sound`]: what a correct lock of the same family does in a plan
//! - [`distinct`]: the distinct findings, each shrunk
//! - [`catch`]: the result of a hunt, its first finding explained
//! - [`campaign`]: a hunt in parts, on many machines
//! - [`matrix`]: every lock against every family of faults
//! - [`profile`]: what is known of one lock of the catalogue or of one library
//! - [`review`]: all of this for one lock as it is configured

pub mod campaign;
pub mod catch;
pub mod deployment;
pub mod distinct;
pub mod drawing;
pub mod group;
pub mod habits;
pub mod left_out;
pub mod matrix;
pub mod novelty;
pub mod parameter;
pub mod profile;
pub mod pursuit;
pub mod quarry;
pub mod review;
pub mod search;
pub mod seeded;
pub mod shrink;
pub mod smaller;
pub mod sound;
pub mod strategy;
pub mod tally;
pub mod wording;
