// Package console serves a role's pages to the person at this machine and to nobody else: on a loopback address, to
// the one browser that opened the address with its one-time token. Package console/cluster has the pages of operators
// and students, console/site those of a site.
package console
