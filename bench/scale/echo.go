package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	encproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/monitor"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const echoRole = "echo"

func echoCommand() *cobra.Command {
	c := &cobra.Command{Use: echoRole, Hidden: true}
	dir := c.Flags().String("certs", "", "")
	c.RunE = func(c *cobra.Command, _ []string) error { return serveEcho(c.Context(), *dir) }
	return c
}

// serveEcho is a process with a bare gRPC server: it has the services, the TLS and the options of an aggregator,
// but does none of its work. A round goes to every node as bytes that were serialized once. When all nodes have
// answered, the student gets a release of the right size. gRPC decodes the answers, and nothing reads them. There
// is no ledger.
func serveEcho(ctx context.Context, dir string) error {
	config, err := tlsconfig.Server(certs.IssuedFiles(dir, certs.RoleAggregator, aggregatorName))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	watch, err := monitor.Start(ctx, monitor.Config{Listen: "127.0.0.1:0"}, monitor.Options{
		Ready:   func(context.Context) (string, error) { return echoRole, nil },
		Metrics: monitor.NewRegistry(), Log: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer watch.Close()
	server := grpc.NewServer(append(transport.Options(),
		grpc.Creds(credentials.NewTLS(config)),
		grpc.ForceServerCodecV2(rawCodec{encoding.GetCodecV2(encproto.Name)}))...)
	e := &echo{open: map[uint64]*waiting{}}
	rpc.RegisterTeacherServiceServer(server, echoTeachers{echo: e})
	rpc.RegisterStudentServiceServer(server, echoStudents{echo: e})
	fmt.Println(watch.Addr())
	fmt.Println(listener.Addr())
	go func() {
		// The measuring process closes the pipe, also when it ends.
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(listener)
}

// raw is a message that is serialized already.
type raw []byte

type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(raw); ok {
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// echo is what both services share.
type echo struct {
	mu      sync.Mutex
	streams []rpc.TeacherService_WorkServer
	attempt uint64              // of the last round
	open    map[uint64]*waiting // by attempt
}

// waiting is a round that is open.
type waiting struct {
	missing int           // answers
	all     chan struct{} // closed with the last of them
}

// begin opens a round and returns the streams to ask.
func (e *echo) begin() (uint64, []rpc.TeacherService_WorkServer, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attempt++
	w := &waiting{len(e.streams), make(chan struct{})}
	e.open[e.attempt] = w
	return e.attempt, e.streams, w.all
}

// took counts an answer.
func (e *echo) took(attempt uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.open[attempt]
	if w == nil {
		return
	}
	if w.missing--; w.missing == 0 {
		delete(e.open, attempt)
		close(w.all)
	}
}

type echoTeachers struct {
	rpc.UnimplementedTeacherServiceServer
	*echo
}

// Work welcomes a node and counts its answers.
func (e echoTeachers) Work(stream rpc.TeacherService_WorkServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&conclavev1.WorkResponse{
		Message: &conclavev1.WorkResponse_Welcome{Welcome: &conclavev1.Welcome{Aggregator: echoRole}}}); err != nil {
		return err
	}
	e.mu.Lock()
	e.streams = append(e.streams, stream)
	e.mu.Unlock()
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		e.took(m.GetAttempt())
	}
}

type echoStudents struct {
	rpc.UnimplementedStudentServiceServer
	*echo
}

// Ask sends a round to all nodes and waits for all answers.
func (e echoStudents) Ask(stream rpc.StudentService_AskServer) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	part := m.GetPart()
	if part.GetParts() != 1 {
		return errors.New("rounds of one part only")
	}
	attempt, streams, all := e.begin()
	encoded, err := proto.Marshal(&conclavev1.WorkResponse{
		Attempt: attempt, Message: &conclavev1.WorkResponse_Part{Part: part},
	})
	if err != nil {
		return err
	}
	for _, s := range streams {
		if err := s.SendMsg(raw(encoded)); err != nil {
			return err
		}
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		return errors.New("answers are missing")
	}
	return stream.Send(&conclavev1.AskResponse{
		Message: &conclavev1.AskResponse_Release{Release: sizedRelease(part.GetRun(), part.GetRound())}})
}

// sizedRelease has the fields, and about the bytes, of a release.
func sizedRelease(run string, round uint64) *conclavev1.Release {
	votes := &conclavev1.NoisyVotes{Classes: 2, Labels: make([]int32, queries), Histogram: make([]int64, 2*queries)}
	for i := range votes.Histogram {
		votes.Histogram[i] = int64(4000 + 37*i)
	}
	return &conclavev1.Release{
		Run: run, Round: round, Teachers: 1, EpsilonSpent: 1, LedgerSeq: round + 3, LedgerHash: schema,
		QuestionSha256: make([]byte, 32), Answer: &conclavev1.Release_Votes{Votes: votes},
	}
}
