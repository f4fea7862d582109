// Package e2e tests Conclave as it is used: the real binaries, one process per role, each with its YAML file and
// certificates, over TLS on loopback, against an embedded or an external etcd.
//
// Start with `go test ./test/e2e`. The tests kill processes with SIGKILL at chosen and at random moments; -seed
// repeats the random ones; -long kills more often.
//
// The seed repeats the moments of kills, but not what the processes do meanwhile: a failure may need several runs to
// show again.
package e2e
