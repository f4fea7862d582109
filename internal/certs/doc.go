// Package certs is the small certificate authority of a Conclave cluster and
// the TLS settings of its roles.
//
// Start with [CreateCA] and [Issue], which write PEM files into one folder:
//
//	ca.crt, ca.key                  the authority; keep ca.key away from the machines
//	aggregator-<name>.crt, .key     a server that nodes and students dial
//	node-<name>.crt, .key           a node; <name> is its site
//	student-<name>.crt, .key        a student
//	issued.jsonl                    the register of what was issued and revoked
//	revoked.crl                     the list of what was revoked, signed
//
// Keys need not be made there: [NewRequest] makes one at a site, [Approve] answers the
// request with a certificate, and [Install] puts that in its place. [Revoke] takes
// certificates back, [Inventory] lists them.
//
// A role loads its three files with [ServerTLS] or [ClientTLS]. Both sides
// always present a certificate, and speak TLS 1.3 only. Who a peer is stands in
// a URI of its certificate, conclave://<role>/<name>, and [PeerIdentity] reads
// it from an established connection.
//
// Files that were replaced on disk are used from the next handshake on;
// connections that stand keep what they were made with. Whether the other side's
// certificate is still good on them, a [Guard] knows, for every message.
//
// # What it does not promise
//
// A revoked certificate is refused by who reads the new list, and by nobody else. Keys are stored without a passphrase and
// protected by file permissions (0600) alone. Certificates of another authority
// work as well as these, if they carry the URI and the right key usages.
package certs
