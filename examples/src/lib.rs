//! The programs are beside this file; see README.md in this folder for the order in which to read them.
