package main

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/etcdserver"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// etcd runs an etcd until the script ends: etcd NAME [DATASET]. It puts its URL in the environment variable NAME, and
// opens the dataset.
func etcd(ts *testscript.TestScript, _ bool, args []string) {
	e, err := etcdserver.Start(context.Background(), etcdserver.Config{Dir: ts.MkAbs(args[0])})
	ts.Check(err)
	ts.Defer(func() { ts.Check(e.Close()) })
	ts.Setenv(args[0], e.Endpoints()[0])
	if len(args) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := coordinator.Open(ctx, coordinator.Config{Endpoints: e.Endpoints()})
	ts.Check(err)
	defer s.Close()
	l, err := s.Lead(ctx, "agg", time.Minute)
	ts.Check(err)
	ts.Check(s.OpenDataset(ctx, l, coordinator.Dataset{Name: args[1], SchemaSHA256: "ab", Unit: "record",
		Budget: privacy.Budget{Epsilon: 1, Delta: 1e-6}}))
	ts.Check(l.Resign(ctx))
}
