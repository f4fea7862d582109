// Command etcd is etcd's own server program, built for the tests in this folder from the module that the aggregator
// embeds, so the machine needs no image of it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
