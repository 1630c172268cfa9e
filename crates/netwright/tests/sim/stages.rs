//! Every kind of last stage against every kind of end of its connection, at every moment.
