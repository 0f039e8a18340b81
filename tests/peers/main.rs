//! Real clients that nobody here wrote: Stripe's SDKs for Node and Python, through `samekey serve`, to a service that
//! charges a card each time it is asked.

mod fixture;
mod sdk;
mod shop;
mod upstream_side;
mod way_back;
