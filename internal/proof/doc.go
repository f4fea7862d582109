// Package proof lists the released files of a run and their signers, and checks all of it: what is proven, by
// whose signature, and what is only stated.
//
// Three files accompany the released files. The manifest has the SHA-256 of each file; its own SHA-256 is in
// the ledger entry that closed the run. certificate.json has the guarantee, which follows from the ledger.
// signatures.json has two kinds of signatures: the ledger's last entry signed by the aggregator and by the
// sites that followed it, and manifest and certificate signed by the student.
package proof
