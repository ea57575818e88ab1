//! Empty: see the tests.
