// Package backup copies what a cluster keeps in etcd into a file, and back into an empty etcd.
//
// A copy needs a user who may read the prefix, and a restore one who may read and write it: neither needs the role
// root, which etcd asks for before it hands out a snapshot of its own.
//
// # The file
//
// Lines of JSON. The first has the format and the highest fence so far, then comes one for each key in the order of
// the keys, at one revision of etcd, and the last has their number and the SHA-256 of the lines before it:
//
//	{"format":"conclave-backup/1","fence":812}
//	{"key":"datasets/flchain","created":3,"value":"eyJ..."}
//	{"keys":1,"sha256":"..."}
//
// Keys are without the prefix, created is the revision that made the key, and values are in base64. The digest is
// against accidents: who can write to the file can write the digest.
package backup
