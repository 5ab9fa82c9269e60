//! What a person sees: the model (the public JSON), its text form, and the unix socket it is asked over.

pub mod model;
