// Package faults tests a whole cluster while parts of it fail: three aggregators, a real
// etcd of three members, nodes of four sites and students, every one a process of its own,
// are killed, paused, cut off and delayed at random, several at a time, while runs go on.
//
//	go test ./test/faults                                   one of each kind, 4 nodes
//	go test ./test/faults -run Faults -faults=200 -timeout 60m -v
//	                                                        200 faults, 20 nodes
//
// -seed repeats what was drawn. The moments repeat with it, what the processes do meanwhile
// does not: a failure may need several runs to show again.
//
// Where the machine allows it, the test runs itself in namespaces of its own, in which every
// aggregator, every etcd member and every site has a network stack: partitions are those of
// a network then. Whatever it makes is gone with it, however it ends. -loopback, or a machine
// that does not allow it, leaves those kinds of faults out.
//
// docs/faults.md says what is checked.
package faults
