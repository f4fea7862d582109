package audit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// The sites. fixedSite hosts all teachers but one and votes the same in both worlds, except for a unit that is at
// both sites. movedSite hosts the teacher that differs. Units are divided in the same way.
const (
	fixedSite = "fixed"
	movedSite = "moved"
)

// protocolVersion is the version of the exchange that the scripted nodes speak.
const protocolVersion = 5

// script is a scripted node's answer to every question.
type script struct {
	votes  []byte  // one class for each teacher, on all queries
	counts []int64 // of its units, in fixed point
}

// scripts are the scripts of both sites in a world. The worlds differ only here.
func (s *scenario) scripts(world int) map[string]script {
	fixed := script{counts: []int64{(s.units[0] - 1) * countScale, s.units[1] * countScale}}
	for class, n := range []int64{s.votes[0] - 1, s.votes[1]} {
		for range n {
			fixed.votes = append(fixed.votes, byte(class))
		}
	}
	if world == 1 && s.overlap > 1 {
		fixed.votes[0] = 1
	}
	moved := script{votes: []byte{0}, counts: []int64{countScale, 0}}
	if world == 1 {
		moved = script{votes: []byte{1}, counts: []int64{0, 0}}
	}
	return map[string]script{fixedSite: fixed, movedSite: moved}
}

// dialSite opens the connection of a site, which its nodes' streams share.
func dialSite(address string, files certs.Files) (*grpc.ClientConn, error) {
	tlsConfig, err := tlsconfig.Client(files, "127.0.0.1")
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig)))
}

// join opens the stream of a site's node for a dataset and waits for the welcome. The stream ends with ctx.
func join(ctx context.Context, conn *grpc.ClientConn, site, dataset string,
	teachers int) (rpc.TeacherService_WorkClient, error) {
	stream, err := rpc.NewTeacherServiceClient(conn).Work(ctx)
	if err != nil {
		return nil, fmt.Errorf("node of site %s: %w", site, err)
	}
	hello := &conclavev1.Hello{
		Protocol: protocolVersion, Dataset: dataset, Site: site, Node: site, Teachers: uint32(teachers),
		SchemaSha256: schemaSHA256, Unit: unit, Manifest: "scripted-" + site,
	}
	// If the stream was already refused, reading it returns the reason.
	if err := stream.Send(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: hello}}); err != nil &&
		!errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("node of site %s: %w", site, err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("node of site %s: %w", site, err)
		}
		if m.GetWelcome() != nil {
			return stream, nil
		}
		if m.GetEntries() == nil {
			return nil, fmt.Errorf("node of site %s: the first message was not a welcome", site)
		}
	}
}

// replies returns a node's answer to a message; nil means no answer.
type replies func(m *conclavev1.WorkResponse) (*conclavev1.WorkRequest, error)

// work replies to messages until the stream ends, and returns the reason; nil if ctx ended.
func work(ctx context.Context, stream rpc.TeacherService_WorkClient, reply replies) error {
	for {
		m, err := stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stream of a scripted node: %w", err)
		}
		answer, err := reply(m)
		if err != nil {
			return err
		}
		if answer == nil {
			continue
		}
		answer.Attempt = m.GetAttempt()
		if err := stream.Send(answer); err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			return fmt.Errorf("answer of a scripted node: %w", err)
		}
	}
}

// reply permits every run, and answers every round.
func (s script) reply(m *conclavev1.WorkResponse) (*conclavev1.WorkRequest, error) {
	if p := m.GetPermit(); p != nil {
		return permitted(p, nil), nil
	}
	if m.GetPart() == nil {
		return nil, nil // a withdrawal, or entries of the ledger
	}
	round, err := whole(m.GetPart())
	if err != nil {
		return nil, err
	}
	return s.answer(round), nil
}

// permitted permits the run, with a key if it is masked.
func permitted(p *conclavev1.Permit, key *conclavev1.RunKey) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Permitted{
		Permitted: &conclavev1.Permitted{Run: p.GetRun(), Round: p.GetRound(), Key: key},
	}}
}

// whole decodes a round that came in one part.
func whole(part *conclavev1.RoundPart) (*conclavev1.Round, error) {
	if part.GetParts() != 1 {
		return nil, fmt.Errorf("round %d of run %q came in %d parts; the audit asks small ones",
			part.GetRound(), part.GetRun(), part.GetParts())
	}
	round := new(conclavev1.Round)
	if err := proto.Unmarshal(part.GetData(), round); err != nil {
		return nil, fmt.Errorf("read round %d of run %q: %w", part.GetRound(), part.GetRun(), err)
	}
	return round, nil
}

func (s script) answer(r *conclavev1.Round) *conclavev1.WorkRequest {
	if r.GetSum() != nil {
		return vector(r, s.counts)
	}
	queries := int(r.GetVotes().GetQueries())
	// One bit per vote, low bits first, in a row of whole bytes for each teacher.
	row := (queries + 7) / 8
	packed := make([]byte, row*len(s.votes))
	for t, class := range s.votes {
		for q := range queries {
			packed[t*row+q/8] |= class << (q % 8)
		}
	}
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
		Run: r.GetRun(), Round: r.GetNumber(), Teachers: uint32(len(s.votes)), Queries: uint32(queries), Packed: packed,
	}}}
}

// vector answers a round that asks for a sum.
func vector(r *conclavev1.Round, values []int64) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
		Run: r.GetRun(), Round: r.GetNumber(), Values: values,
	}}}
}
