// Package hostile attacks an aggregator from outside: over its own port, with real TLS
// and an etcd of its own, by nodes and students that hold a certificate and do what they
// must not, and by those who hold none. It has tests only.
//
// Each case says what is sent, how the stream ends and under which name it is counted.
// Around it an honest round goes on, whose histogram before the noise has to be exactly
// what honest teachers voted.
package hostile
