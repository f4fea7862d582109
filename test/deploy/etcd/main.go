// Command etcd is etcd's own server program, built for the tests of this folder from the
// module that the aggregator embeds: the machine needs no image of it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
