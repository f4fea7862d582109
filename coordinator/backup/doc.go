// Package backup copies a cluster's keys in etcd to a file, and back into an empty etcd.
//
// A copy needs a user that may read the prefix, and a restore one that may also write it. Neither needs the role
// root, which etcd requires for its own snapshots.
//
// # The file
//
// The file has lines of JSON. The first has the format and the highest fence so far. Then comes one line per key in
// key order, all at one revision of etcd. The last has their number and the SHA-256 of the lines before it:
//
//	{"format":"conclave-backup/1","fence":812}
//	{"key":"datasets/flchain","created":3,"value":"eyJ..."}
//	{"keys":1,"sha256":"..."}
//
// Keys are without the prefix, created is the revision that made the key, and values are in base64. The digest
// protects against accidents only: anybody who can change the file can change the digest.
package backup
