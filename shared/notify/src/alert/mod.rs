//! From the states of objects to messages: which are sent, in which format.
