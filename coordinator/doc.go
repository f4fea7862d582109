// Package coordinator keeps in etcd what a cluster must not lose: who leads,
// which nodes belong to a dataset, which runs there are, and the ledger.
//
// Start with [etcdserver.Start] (or run an etcd of your own; 3.7 is what is tested), [Open] a [Store] on
// it, and [Store.Lead]. Everything that writes takes the [Leadership] and is
// fenced: each transaction compares the create revision of the leader's key, so
// that a leader that was deposed without noticing writes nothing.
//
// [Store.Charge] is where budget is spent. One transaction compares
//
//   - the leader's key (fence),
//   - the mod revision of the ledger's head, which also guards the totals that
//     the budget check was made on,
//   - the absence of a release for (run, round),
//
// and puts the ledger entry, the head, the run's total and the release. So a
// round is charged once and has one answer, also when requests race, time out
// after the commit, or are repeated by another process.
//
// A charge may drop the releases of earlier rounds of its run in the same
// transaction. Such a round is never charged again; see [ErrForgotten].
//
// A run whose budget has filter pld fixes beforehand all that it may release. Its
// plan is checked when it is opened, and each charge is within it.
//
// # Keys
//
// Under the prefix ("/conclave/" unless set), values in JSON:
//
//	leader                            name of the leader, under its lease
//	datasets/<dataset>                the dataset, its last ledger entry (the head) and total
//	ledger/<dataset>/<seq>            entries in canonical form; seq in 16 hex digits
//	runs/<run>                        spec, budget, plan and total of a run
//	releases/<run>/<round>            the stored answer; round in 16 hex digits
//	nodes/<dataset>/<site>/<node>     a node as first admitted
//	fence-base                        of a restored etcd: added to the revisions of leaders
//
// # What it does not promise
//
// Who can write to etcd can rewrite everything in it, consistently. The hash
// chain helps who kept an earlier head; see package privacy. Give the prefix to
// the aggregators alone. An embedded etcd has one member: its folder is the
// only copy of the ledger, so back it up.
//
// Two processes that call [Store.Lead] under one name take leadership from each
// other. That is safe, and useless: give each its own name.
package coordinator
