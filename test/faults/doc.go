// Package faults tests a whole cluster while parts of it fail. Three aggregators, a real etcd of three members, nodes
// of four sites and students, each in its own process, are killed, paused, disconnected and delayed at random,
// several at a time, while runs continue.
//
//	go test ./test/faults                                   one of each kind, 4 nodes
//	go test ./test/faults -run Faults -faults=200 -timeout 60m -v
//	                                                        200 faults, 20 nodes
//
// -seed repeats the draws. It repeats the moments, but not what the processes do meanwhile: a failure may need
// several runs to show again.
//
// Where the machine allows it, the test runs itself in its own namespaces, where every aggregator, every etcd member
// and every site has a network stack, so that partitions are real network partitions. Everything disappears with the
// test, however it ends. -loopback, or a machine that does not allow it, skips those kinds of faults.
//
// docs/faults.md says what is checked.
package faults
