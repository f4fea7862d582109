package etcdserver

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errStopped is what a call is told when etcd stops; it counts as no answer.
var errStopped = status.Error(codes.Unavailable, "the embedded etcd is stopping")

// gatekeeper lets calls in until etcd stops, and then waits for those inside: they may be
// reading the database that is being closed.
type gatekeeper struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // set once no call is accepted; closed when none is in progress
}

func (g *gatekeeper) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return false
	}
	g.inside++
	return true
}

func (g *gatekeeper) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
	}
}

// shut lets nobody in; the channel is closed when nobody is inside.
func (g *gatekeeper) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty == nil {
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

// inProcess is the key-value part of an embedded etcd for a client in the same process: the
// functions that gRPC would call, without the socket, which takes longer than the rest of a
// small commit. Leases and watches keep to the socket.
type inProcess struct {
	etcdserverpb.KVClient
	gate    *gatekeeper
	observe func(method string, took time.Duration, err error)
}

// KV returns the server's keys and values for a client of this process. observe, which may be nil,
// is told of each call: its gRPC method, how long it took, and its error.
func (e *Server) KV(client *clientv3.Client, observe func(string, time.Duration, error)) clientv3.KV {
	if observe == nil {
		observe = func(string, time.Duration, error) {}
	}
	api := adapter.KvServerToKvClient(v3rpc.NewQuotaKVServer(e.server.Server))
	return clientv3.NewKVFromKVClient(inProcess{api, &e.gate, observe}, client)
}

func (p inProcess) Range(ctx context.Context, q *etcdserverpb.RangeRequest,
	_ ...grpc.CallOption) (*etcdserverpb.RangeResponse, error) {
	return call(ctx, p, etcdserverpb.KV_Range_FullMethodName, func() (*etcdserverpb.RangeResponse, error) {
		return p.KVClient.Range(ctx, q)
	})
}

func (p inProcess) Txn(ctx context.Context, q *etcdserverpb.TxnRequest,
	_ ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	return call(ctx, p, etcdserverpb.KV_Txn_FullMethodName, func() (*etcdserverpb.TxnResponse, error) {
		return p.KVClient.Txn(ctx, q)
	})
}

// call runs do on a goroutine of its own, because etcd's fatal errors end the goroutine that
// they occur on, and because some of what etcd does does not look at ctx.
func call[R any](ctx context.Context, p inProcess, method string, do func() (*R, error)) (*R, error) {
	type answer struct {
		r   *R
		err error
	}
	began := time.Now()
	answered := make(chan answer, 1)
	if !p.gate.enter() {
		return nil, errStopped
	}
	go func() {
		defer p.gate.leave()
		a := answer{err: errStopped} // where do never returns
		defer func() { answered <- a }()
		a.r, a.err = do()
	}()
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	p.observe(method, time.Since(began), a.err)
	return a.r, a.err
}
