// Package audit tests the privacy claim from outside. It repeats the same run a thousand times on two neighbouring
// datasets, on a real aggregator, and checks whether the releases distinguish the two better than the ledger's
// claim allows.
//
// Start with [Run]. It starts a cluster on loopback: an embedded etcd, an aggregator behind TLS 1.3 with client
// certificates, students that open, ask and close runs, and nodes. Only the nodes are not real: they give fixed
// votes, chosen so that one moved vote is as visible as possible. The two worlds differ only in the votes of one
// teacher (or in one unit of the class counts).
//
// In masked runs the nodes are real too, and the aggregator is an adversary. It observes everything that nodes
// send, and what it opens together with colluding sites. See [View].
//
// # What is compared
//
// Each run is one trial, observed as one number: the log-likelihood ratio of all its releases under the two
// worlds, or a number that increases with it. By Neyman and Pearson the best tests between the worlds are
// thresholds on it. For any event S of an (epsilon, delta)-DP program
//
//	P[S] <= e^epsilon Q[S] + delta, so epsilon >= log((P[S] - delta)/Q[S]),
//
// and with Clopper-Pearson bounds on both probabilities the right side is a lower bound on epsilon with the given
// confidence (Jagielski, Ullman, Oprea 2020; Nasr et al. 2021). See [LowerBound] for how the event is chosen.
//
// The claim is not written down here: it is what privacy.Account proves for the ledger's events of one run.
//
// # What it does not promise
//
// A bound below the claim does not prove privacy. It says that this test, with this number of runs, found no
// violation; docs/audit.md says what it can find. The audit does not examine timing, the code of students, or the
// code of nodes beyond class counts and masks.
package audit
