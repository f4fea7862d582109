package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

func frameOf(kind, flags byte, stream uint32, payload ...byte) []byte {
	n := len(payload)
	return append(binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream),
		payload...)
}

// messageOf starts a message of this length with n of its bytes.
func messageOf(length uint32, n int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, length), make([]byte, n)...)
}

// pipe returns a peer's connection and its other end.
func pipe(t *testing.T, q *quotas, certificate string) (c *conn, other net.Conn) {
	t.Helper()
	raw, other := net.Pipe()
	c, err := q.connect(raw, peer.Caller{Certificate: certificate})
	testkit.Must(t, err)
	t.Cleanup(func() {
		c.Close()
		other.Close()
	})
	c.read(make([]byte, prefaceBytes))
	return c, other
}

// The memory of a connection follows from its frames, however they are split.
func TestFramesTellWhatIsHeld(t *testing.T) {
	openOf := func(stream uint32) []byte { return frameOf(frameHeaders, 4, stream, 1, 2, 3) }
	open := openOf(1)
	data := func(length uint32, n int) []byte { return frameOf(frameData, 0, 1, messageOf(length, n)...) }
	half := data(900, 95)
	padded := append(append([]byte{9}, messageOf(2, 2)...), make([]byte, 9)...)
	two := frameOf(frameData, 0, 1, append(messageOf(2, 2), messageOf(2, 2)...)...)
	reset := frameOf(frameReset, 0, 1, 0, 0, 0, 8)
	all := func(frames ...[]byte) [][]byte { return frames }
	for name, c := range map[string]struct {
		received, sent [][]byte
		held           int
		taken          []int // messages, with their prefix
	}{
		"nothing":        {},
		"a call":         {received: all(open)},
		"two calls":      {received: all(open, openOf(3))},
		"three calls":    {received: all(open, openOf(3), openOf(5)), held: callCost},
		"half a message": {received: all(open, half), held: 100 + frameCost},
		"half a prefix":  {received: all(open, frameOf(frameData, 0, 1, 0, 0)), held: 2 + frameCost},
		"in several frames": {received: all(open, half, frameOf(frameData, 0, 1, make([]byte, 700)...)),
			held: 800 + 2*frameCost},
		"in a long frame":     {received: all(open, data(9000, 1020)), held: 2048 + frameCost},
		"whole":               {received: all(open, data(95, 95)), held: 100 + frameCost},
		"an empty one":        {received: all(open, data(0, 0)), held: 5 + frameCost},
		"taken":               {received: all(open, data(95, 95)), taken: []int{100}},
		"an empty one, taken": {received: all(open, data(0, 0)), taken: []int{5}},
		"one of two": {received: all(open, data(95, 95), data(95, 95)), taken: []int{100},
			held: 100 + frameCost},
		"two of two": {received: all(open, data(95, 95), data(5, 5)), taken: []int{100, 10}},
		// The frame counts once, also if two messages share it.
		"two in a frame": {received: all(open, two), held: 14 + frameCost + 7},
		"one of two in a frame, and half": {received: all(open, frameOf(frameData, 0, 1,
			append(messageOf(2, 2), messageOf(9, 2)...)...)), taken: []int{7}, held: 14 + frameCost},
		"many short ones": {received: append(all(open), slices.Repeat(all(data(1, 1)), 100)...),
			held: 100 * (6 + frameCost)},
		"on no stream": {received: all(frameOf(frameData, 0, 3, messageOf(900, 95)...))},
		"padded":       {received: all(open, frameOf(frameData, flagPadded, 1, padded...)), taken: []int{7}},
		"padded, not taken": {received: all(open, frameOf(frameData, flagPadded, 1, padded...)),
			held: 17 + frameCost},
		"reset":              {received: all(open, half, reset)},
		"reset, not taken":   {received: all(open, data(95, 95), reset)},
		"reset by this side": {received: all(open, half), sent: all(reset)},
		"answered":           {received: all(open, half), sent: all(frameOf(frameHeaders, flagEndStream|4, 1, 7))},
		"answered in part": {received: all(open, half), sent: all(frameOf(frameHeaders, 4, 1, 7)),
			held: 100 + frameCost},
		"with a reserved bit": {received: all(open, frameOf(frameData, 0, 1|1<<31, messageOf(900, 95)...)),
			held: 100 + frameCost},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			q := newQuotas(8, noMetrics{}, peer.AuditLog{})
			conn, _ := pipe(t, q, "a")
			pass := func(frames [][]byte, see func([]byte)) {
				for _, frame := range frames {
					for at := 0; at < len(frame); at += piece {
						see(frame[at:min(len(frame), at+piece)])
					}
				}
			}
			pass(c.received, func(p []byte) {
				if n := conn.read(p); n != len(p) {
					t.Errorf("%s, in pieces of %d: %d of %d bytes were seen", name, piece, n, len(p))
				}
			})
			for _, n := range c.taken {
				(&call{conn, conn.streams[1]}).took(n)
			}
			pass(c.sent, conn.write)
			conn.sum()
			if conn.held != c.held || conn.quota.held != c.held {
				t.Errorf("%s, in pieces of %d: %d bytes are held, and %d of the certificate, want %d", name, piece,
					conn.held, conn.quota.held, c.held)
			}
			conn.Close()
			if len(q.of) != 0 || conn.quota.held != 0 {
				t.Errorf("%s: %d certificates are remembered, with %d bytes", name, len(q.of), conn.quota.held)
			}
		}
	}
}

// A connection that stops in the middle of a message is closed; one that sends nothing, or paused only briefly,
// stays.
func TestWhoStopsInAMessageIsClosed(t *testing.T) {
	now, path := time.Now(), filepath.Join(t.TempDir(), "audit.log")
	log, err := auditlog.Open(path, "aggregator", "agg", zap.NewNop())
	testkit.Must(t, err)
	q := newQuotas(8, noMetrics{}, peer.AuditLog{Log: log})
	q.now = func() time.Time { return now }
	idle, _ := pipe(t, q, "a")
	done, _ := pipe(t, q, "a")
	short, _ := pipe(t, q, "a")
	long, _ := pipe(t, q, "b")
	for c, message := range map[*conn][]byte{
		idle: nil, done: messageOf(10, 10), short: messageOf(10, 9), long: messageOf(2<<20, 9)} {
		c.read(frameOf(frameHeaders, 4, 1))
		c.read(frameOf(frameData, 0, 1, message...))
	}
	stays := func(c *conn) bool { return c.ended == nil }
	now = now.Add(eachMiB)
	q.sweep()
	if !stays(short) || !stays(long) {
		t.Errorf("a message has no %v", eachMiB)
	}
	now = now.Add(time.Second)
	short.read(frameOf(frameData, 0, 1)) // it never progresses
	q.sweep()
	_, err = short.Read(make([]byte, 1))
	if !errors.Is(err, errStopped) || !stays(long) || !stays(idle) || !stays(done) {
		t.Errorf("after %v: %v", eachMiB, err)
	}
	now = now.Add(2 * eachMiB)
	long.read(frameOf(frameData, 0, 1, 7)) // a byte a minute
	q.sweep()
	if stays(long) || !stays(idle) || !stays(done) {
		t.Error("a message of 2 MiB takes longer than 3 minutes")
	}
	testkit.Must(t, log.Close())
	lines := string(testkit.Value(os.ReadFile(path)))
	if n := strings.Count(lines, errStopped.Error()); n != 2 {
		t.Errorf("%d lines say that a connection stopped, want 2: %s", n, lines)
	}
}

// taker is a service that takes rounds, and answers the last part.
type taker struct {
	rpc.UnimplementedStudentServiceServer
}

func (taker) Ask(stream rpc.StudentService_AskServer) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return stream.Send(&conclavev1.AskResponse{})
		} else if err != nil {
			return err
		}
	}
}

// served returns a port with takers, and a function that dials it as a student.
func served(t *testing.T, mostConns int) (port *Port, dial func(name string) *grpc.ClientConn) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "agg", []string{"127.0.0.1"}, time.Hour))
	for _, student := range []string{"lab", "eve"} {
		testkit.Must(t, authority.Issue(dir, certs.RoleStudent, student, nil, time.Hour))
	}
	own, err := tlsconfig.NewServerCredentials(certs.IssuedFiles(dir, certs.RoleAggregator, "agg"))
	testkit.Must(t, err)
	port = NewPort(own.ServerTLS(), mostConns, peer.NewSessions(own), noMetrics{}, peer.AuditLog{})
	rpc.RegisterStudentServiceServer(port, taker{})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	end := make(chan error, 1)
	go func() { end <- port.Serve(listener) }()
	t.Cleanup(func() {
		port.Stop()
		testkit.Must(t, testkit.Receive(t, end))
	})
	return port, func(name string) *grpc.ClientConn {
		t.Helper()
		config, err := tlsconfig.Client(certs.IssuedFiles(dir, certs.RoleStudent, name), "127.0.0.1")
		testkit.Must(t, err)
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
		testkit.Must(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}

// What gRPC reports as taken equals what this package counts. Honest students that send at full speed reach no bound,
// and leave nothing counted.
func TestHonestStreamsAreNotCounted(t *testing.T) {
	port, dial := served(t, 8)
	dialled := dial("lab")

	// One stream stays open and idle: its message is taken, though its window does not show it yet.
	student := rpc.NewStudentServiceClient(dialled)
	idle, err := student.Ask(testkit.Within(t))
	testkit.Must(t, err)
	for _, bytes := range []int{1 << 20, 100, 3 << 20, 70_000, 4<<20 - 100, 1} {
		part := &conclavev1.AskRequest{Part: &conclavev1.RoundPart{Data: make([]byte, bytes)}}
		testkit.Must(t, idle.Send(part))
		asked := make(chan error, 4)
		for range cap(asked) {
			go func() { asked <- askAll(testkit.Within(t), student, part, 8<<20/(bytes+1000)+1) }()
		}
		for range cap(asked) {
			testkit.Must(t, testkit.Receive(t, asked))
		}
	}
	quotas := port.gate.quotas
	testkit.Eventually(t, "all that was sent to be taken", func() bool {
		quotas.mu.Lock()
		defer quotas.mu.Unlock()
		for _, one := range quotas.of {
			one.mu.Lock()
			defer one.mu.Unlock()
			for c := range one.conns {
				return one.held == 0 && len(c.streams) == 1
			}
		}
		return false
	})
}

func askAll(ctx context.Context, student rpc.StudentServiceClient, part *conclavev1.AskRequest, n int) error {
	stream, err := student.Ask(ctx)
	for range n {
		if err == nil {
			err = stream.Send(part)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // then Recv has the reason
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}
