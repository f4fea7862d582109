package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/monitor"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const (
	nodesRole = "nodes"
	// dialling bounds the handshakes under way: fewer than a listener lets wait.
	dialling = 32
	// joinTimeout bounds the time until a node is welcome.
	joinTimeout = time.Minute
)

func nodesCommand() *cobra.Command {
	c := &cobra.Command{Use: nodesRole, Hidden: true}
	dir := c.Flags().String("certs", "", "")
	nodes := c.Flags().Int("nodes", 1, "")
	teachers := c.Flags().Int("teachers", 1, "")
	sums := c.Flags().Bool("sums", false, "")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return serveNodes(c.Context(), crowd{*dir, *nodes, *teachers, *sums})
	}
	return c
}

// serveNodes is a process with all nodes of a measurement. They have no records and train nothing: each receives
// complete rounds, and sends votes of the right size at once.
//
// It reads lines from standard input, each an address that all nodes join. It answers with a line when all of them
// are welcome, and ends at the end of its input.
func serveNodes(ctx context.Context, all crowd) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wire := &traffic{}
	watch, err := monitor.Start(ctx, monitor.Config{Listen: "127.0.0.1:0"}, monitor.Options{
		Ready:   func(context.Context) (string, error) { return nodesRole, nil },
		Metrics: wire.registry(), Log: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer watch.Close()
	fmt.Println(watch.Addr())

	var group errgroup.Group
	defer func() {
		cancel()
		_ = group.Wait() // streams that ended because this process does
	}()
	broken := make(chan error, 1)
	for {
		var address string
		if _, err := fmt.Scanln(&address); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an address: %w", err)
		}
		count := &wire.aggregator
		if wire.joined.Load() > 0 {
			count = &wire.echo
		}
		if err := all.join(ctx, &group, count, address, broken); err != nil {
			return err
		}
		wire.joined.Add(1)
		select {
		case err := <-broken:
			return err
		default:
			fmt.Println("joined")
		}
	}
}

// crowd are the nodes of a process, with their certificates in dir. They answer votes, or sums.
type crowd struct {
	dir             string
	nodes, teachers int
	sums            bool
}

// join connects all nodes and leaves goroutines that answer rounds in the group.
func (c crowd) join(ctx context.Context, group *errgroup.Group, count *direction, address string,
	broken chan<- error) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	var dials errgroup.Group
	dials.SetLimit(dialling)
	for i := range c.nodes {
		dials.Go(func() error {
			config, err := tlsconfig.Client(certs.IssuedFiles(c.dir, certs.RoleNode, siteName(i)), host)
			if err != nil {
				return err
			}
			conn, err := grpc.NewClient("passthrough:///"+address, append(dial.TransportOptions(),
				grpc.WithTransportCredentials(credentials.NewTLS(config)),
				grpc.WithContextDialer(count.dial))...)
			if err != nil {
				return err
			}
			n := &lightNode{index: i, teachers: c.teachers, packed: packedVotes(i, c.teachers)}
			if c.sums {
				if n.summing, err = newSumming(c.dir, i); err != nil {
					return err
				}
			}
			if err := n.join(ctx, conn); err != nil {
				return errors.Join(fmt.Errorf("node %d at %s: %w; with \"too many open files\" raise ulimit -n", i,
					address, err), conn.Close())
			}
			group.Go(func() error {
				defer conn.Close()
				err := n.work()
				if ctx.Err() == nil {
					select {
					case broken <- fmt.Errorf("node %d at %s: %w", i, address, err):
					default:
					}
					fmt.Fprintf(os.Stderr, "node %d at %s: %v\n", i, address, err)
				}
				return nil
			})
			return nil
		})
	}
	return dials.Wait()
}

type lightNode struct {
	index, teachers int
	packed          []byte
	summing         *summing // of a node that answers sums
	stream          rpc.TeacherService_WorkClient
}

// join opens the stream and waits for the welcome.
func (n *lightNode) join(ctx context.Context, conn *grpc.ClientConn) (err error) {
	// The timer stops waiting for an aggregator that does not answer.
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(joinTimeout, func() { cancel(errors.New("no welcome in time")) })
	defer func() {
		if !timer.Stop() || err != nil {
			cancel(err)
		}
	}()
	if n.stream, err = rpc.NewTeacherServiceClient(conn).Work(ctx); err != nil {
		return err
	}
	if err := n.stream.Send(&conclavev1.WorkRequest{
		Message: &conclavev1.WorkRequest_Hello{Hello: hello(n.index, n.teachers)}}); err != nil &&
		!errors.Is(err, io.EOF) {
		return err
	}
	for {
		m, err := n.stream.Recv()
		if err != nil || m.GetWelcome() != nil {
			return err
		}
		if m.GetEntries() == nil {
			return errors.New("something came before the welcome")
		}
	}
}

// work answers rounds until the stream ends.
func (n *lightNode) work() error {
	if n.summing != nil {
		return n.sums(n.summing)
	}
	return n.answer()
}

// answer answers rounds of votes until the stream ends.
func (n *lightNode) answer() error {
	for {
		m, err := n.stream.Recv()
		if err != nil {
			return err
		}
		if p := m.GetPermit(); p != nil {
			if err := n.stream.Send(&conclavev1.WorkRequest{Attempt: m.GetAttempt(),
				Message: &conclavev1.WorkRequest_Permitted{Permitted: &conclavev1.Permitted{
					Run: p.GetRun(), Round: p.GetRound(),
				}}}); err != nil {
				return err
			}
		}
		p := m.GetPart()
		if p == nil || p.GetPart()+1 < p.GetParts() {
			continue
		}
		if err := n.stream.Send(&conclavev1.WorkRequest{Attempt: m.GetAttempt(),
			Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
				Run: p.GetRun(), Round: p.GetRound(), Teachers: uint32(n.teachers), Queries: queries, Packed: n.packed,
			}}}); err != nil {
			return err
		}
	}
}

// siteName is the site of node i; each has a certificate of its own.
func siteName(i int) string { return fmt.Sprintf("s%d", i) }

// direction counts what goes over the sockets to one server, TLS included.
type direction struct{ down, up atomic.Int64 }

func (d *direction) dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &counted{conn.(*net.TCPConn), d}, nil
}

// counted is a socket that counts bytes. gRPC must recognize it as a socket, to set its options.
type counted struct {
	*net.TCPConn
	sum *direction
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.sum.down.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	c.sum.up.Add(int64(n))
	return n, err
}
