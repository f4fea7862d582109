// Package attacks tries to harm an aggregator from outside: over its own port, with real TLS and its own etcd, by nodes
// and students that have a certificate and misbehave, and by peers without one. It has tests only.
//
// Each case says what is sent, how the stream ends and under which name it is counted. Meanwhile an honest round
// continues, whose histogram without noise must be exactly the honest teachers' votes.
package attacks
