package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/logging"
)

// helperVariable makes the test binary play one of the helpers: processes that
// a test needs and that are no product of Conclave.
const helperVariable = "E2E_HELPER"

func help(helper string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch helper {
	case "etcd":
		err = serveEtcd(ctx, os.Args[1], os.Args[2])
	case "crashing aggregator":
		err = serveCrashing(ctx, os.Args[1], os.Args[2], os.Args[3])
	default:
		err = fmt.Errorf("no helper %q", helper)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		return 1
	}
	return 0
}

// serveEtcd is an etcd of one member on plain TCP, for clusters whose etcd is
// not embedded.
func serveEtcd(ctx context.Context, dir, address string) error {
	c := embed.NewConfig()
	c.Dir = dir
	client := url.URL{Scheme: "http", Host: address}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}} // nobody listens there
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs, c.ElectionMs = 10, 100
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return err
	}
	fmt.Fprintln(os.Stderr, `{"level":"info","msg":"ready"}`)
	<-ctx.Done()
	return nil
}

// serveCrashing is an aggregator that kills itself at the planned moments, such
// as "before:2,after:5": before or after the charge of a round. Each moment
// comes once; a file in marks remembers it over restarts.
func serveCrashing(ctx context.Context, path, plan, marks string) error {
	config, err := aggregator.LoadConfig(path)
	if err != nil {
		return err
	}
	log, err := logging.New(config.Log)
	if err != nil {
		return err
	}
	at := func(when string) func(string, uint64) {
		return func(_ string, round uint64) {
			moment := when + ":" + strconv.FormatUint(round, 10)
			if !strings.Contains(","+plan+",", ","+moment+",") {
				return
			}
			mark, err := os.OpenFile(filepath.Join(marks, moment), os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return
			}
			mark.Close()
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	server, err := aggregator.New(ctx, config, aggregator.Options{
		Logger: log, Reducers: kinds.Reducers(),
		Hooks: aggregator.Hooks{BeforeCharge: at("before"), AfterCharge: at("after")},
	})
	if err != nil {
		return err
	}
	defer server.Close()
	return server.Serve(ctx)
}
