package faults

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/conclave-dp/conclave/internal/aggregator"
	questions "github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/logging"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Roles that the test binary plays, as processes of their own.
const (
	etcdRole    = "etcd"
	trappedRole = "aggregator with traps"
	readerRole  = "reader"
)

func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch role {
	case etcdRole:
		err = serveEtcd(ctx, os.Args[1], os.Args[2], os.Args[3])
	case trappedRole:
		err = serveTrapped(ctx, os.Args[1], os.Args[2])
	case readerRole:
		err = readOverAndOver(ctx, os.Args[1], os.Args[2])
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// etcdURLs reads "host:port,host:port", where a member answers clients and peers.
func etcdURLs(at string) (client, peer string) {
	hosts := strings.Split(at, ",")
	return "http://" + hosts[0], "http://" + hosts[1]
}

// serveEtcd is a member of an etcd: folder is its name too, at is where clients and where
// peers reach it, cluster names all members with their peers' addresses.
func serveEtcd(ctx context.Context, folder, at, cluster string) error {
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = filepath.Base(folder), folder, cluster
	client, peer := etcdURLs(at)
	for _, set := range []struct {
		to      *[]url.URL
		address string
	}{{&c.ListenClientUrls, client}, {&c.AdvertiseClientUrls, client}, {&c.ListenPeerUrls, peer},
		{&c.AdvertisePeerUrls, peer}} {
		u, err := url.Parse(set.address)
		if err != nil {
			return err
		}
		*set.to = []url.URL{*u}
	}
	c.TickMs, c.ElectionMs = 50, 500
	level := zap.NewAtomicLevelAt(zapcore.ErrorLevel)
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(os.Stderr),
		level))
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil // Close would wait for all who watch
	case err := <-server.Err():
		return err
	}
}

// serveTrapped is the aggregator as its program is, with two hooks. Before and after a charge
// it looks for a file before or after in traps, which tells it to stop or kill itself there, takes the
// file away, and names the round in a file trapped. And it writes down how many votes it
// counted for each query of a round, which no release tells.
func serveTrapped(ctx context.Context, path, traps string) error {
	config, err := aggregator.LoadConfig(path)
	if err != nil {
		return err
	}
	log, level, err := logging.NewLeveled(config.Log)
	if err != nil {
		return err
	}
	counted, err := os.OpenFile(filepath.Join(traps, "counted"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer counted.Close()
	trap := func(when string) func(string, uint64) {
		return func(run string, round uint64) {
			file := filepath.Join(traps, when)
			how, err := os.ReadFile(file)
			if err != nil || os.Remove(file) != nil {
				return
			}
			_ = os.WriteFile(filepath.Join(traps, "trapped"), fmt.Appendf(nil, "%s %d", run, round), 0o600)
			s := syscall.SIGSTOP
			if string(how) == "kill" {
				s = syscall.SIGKILL
			}
			_ = syscall.Kill(os.Getpid(), s)
			time.Sleep(time.Second) // this thread goes on until the signal has reached the whole process
		}
	}
	hooks := aggregator.Hooks{
		BeforeCharge: trap("before"), AfterCharge: trap("after"),
		Votes: func(run string, round uint64, counts []int64, release *conclavev1.NoisyVotes) {
			low, high := votesOf(counts, int(release.GetClasses()))
			fmt.Fprintf(counted, "%s %d %d %d\n", run, round, low, high)
		},
	}
	options := aggregator.Options{Logger: log, Level: &level, Reducers: questions.Reducers(), Hooks: hooks}
	server, err := aggregator.New(ctx, config, options)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(server.Serve(ctx), server.Close())
}

// votesOf adds the counts of each query up, and returns the smallest and the largest sum. Each is
// the number of teachers that voted.
func votesOf(counts []int64, classes int) (low, high int64) {
	for i := 0; i+classes <= len(counts); i += classes {
		sum := int64(0)
		for _, n := range counts[i : i+classes] {
			sum += n
		}
		if i == 0 {
			low, high = sum, sum
		}
		low, high = min(low, sum), max(high, sum)
	}
	return low, high
}
