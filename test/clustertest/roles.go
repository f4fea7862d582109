package clustertest

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
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/logging"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// RoleVariable makes a test binary run as a role: a process that a test needs and that Conclave does not ship.
const RoleVariable = "CLUSTERTEST_ROLE"

// Roles of every test binary that calls [Play].
const (
	Etcd    = "etcd"                  // folder, addresses, members; see serveEtcd
	Trapped = "aggregator with traps" // configuration, folder of traps; see serveTrapped
)

// Play runs a role until it ends or is told to stop, and returns its exit code. own are roles that only this binary
// has.
func Play(role string, own map[string]func(context.Context) error) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case own[role] != nil:
		err = own[role](ctx)
	case role == Etcd:
		err = serveEtcd(ctx, os.Args[1], os.Args[2], os.Args[3])
	case role == Trapped:
		err = serveTrapped(ctx, os.Args[1], os.Args[2])
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// serveEtcd is an etcd member: folder is also its name, at has its client and peer addresses as
// "host:port,host:port", and cluster lists all members with their peer addresses. It logs "ready" once the members
// serve.
func serveEtcd(ctx context.Context, folder, at, cluster string) error {
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = filepath.Base(folder), folder, cluster
	clients, peers, _ := strings.Cut(at, ",")
	client, peer := url.URL{Scheme: "http", Host: clients}, url.URL{Scheme: "http", Host: peers}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.TickMs, c.ElectionMs = 50, 500
	c.UnsafeNoFsync = true // only processes are killed, not machines: written data stays
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(os.Stderr),
		zapcore.ErrorLevel)
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(core))
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	go func() {
		<-server.Server.ReadyNotify()
		fmt.Fprintln(os.Stderr, `{"msg":"ready"}`)
	}()
	select {
	case <-ctx.Done():
		return nil // Close would wait for all watchers
	case err := <-server.Err():
		return err
	}
}

// serveTrapped is the real aggregator with hooks. Before and after a charge it looks for a file before or after in
// traps, which tells it to stop or kill itself there, or to wait. It removes the file, and names the round in a file
// trapped; if it waits, then until that file is removed. It also writes how many votes it counted for each query of a
// round, which releases do not show.
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
			trapped := filepath.Join(traps, "trapped")
			_ = os.WriteFile(trapped, fmt.Appendf(nil, "%s %d", run, round), 0o600)
			if string(how) == "wait" {
				for err == nil {
					time.Sleep(5 * time.Millisecond)
					_, err = os.Stat(trapped)
				}
				return
			}
			s := syscall.SIGSTOP
			if string(how) == "kill" {
				s = syscall.SIGKILL
			}
			_ = syscall.Kill(os.Getpid(), s)
			time.Sleep(time.Second) // this thread continues until the signal has reached the whole process
		}
	}
	hooks := aggregator.Hooks{
		BeforeCharge: trap("before"), AfterCharge: trap("after"),
		Votes: func(run string, round uint64, counts []int64, release *conclavev1.NoisyVotes) {
			low, high := votesOf(counts, int(release.GetClasses()))
			fmt.Fprintf(counted, "%s %d %d %d\n", run, round, low, high)
		},
	}
	options := aggregator.Options{Logger: log, Level: &level, Reducers: kinds.Reducers(), Hooks: hooks}
	server, err := aggregator.New(ctx, config, options)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(server.Serve(ctx), server.Close())
}

// Trap makes an aggregator in role [Trapped] stop or kill itself, or wait, before or after its next charge.
func Trap(traps, when, how string) error {
	file := filepath.Join(traps, when)
	return errors.Join(os.WriteFile(file+".new", []byte(how), 0o600), os.Rename(file+".new", file))
}

// votesOf sums the counts of each query, and returns the smallest and the largest sum. Each is the number of teachers
// that voted.
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
