package parts

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// releaseBytes is the most that a part of a release holds.
	releaseBytes = 1 << 20
	// maxReleaseParts bounds a release to what an aggregator stores, and some more.
	maxReleaseParts = 40
)

// OfRelease returns a release as students are sent it: a large one in parts.
func OfRelease(r *conclavev1.Release) ([]*conclavev1.AskResponse, error) {
	if proto.Size(r) <= releaseBytes {
		return []*conclavev1.AskResponse{{Message: &conclavev1.AskResponse_Release{Release: r}}}, nil
	}
	raw, err := proto.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode a release: %w", err)
	}
	total := (len(raw) + releaseBytes - 1) / releaseBytes
	out := make([]*conclavev1.AskResponse, total)
	for i := range out {
		out[i] = &conclavev1.AskResponse{Message: &conclavev1.AskResponse_Part{Part: &conclavev1.ReleasePart{
			Part: uint32(i), Parts: uint32(total), Data: raw[i*releaseBytes : min((i+1)*releaseBytes, len(raw))],
		}}}
	}
	return out, nil
}

// Release puts the parts of a release together. The zero value is ready for use.
type Release struct {
	data []byte
	next uint32
	of   uint32
}

// Add takes a message of an aggregator. It returns the release that is whole with it, nil while
// there is none.
func (r *Release) Add(m *conclavev1.AskResponse) (*conclavev1.Release, error) {
	if whole := m.GetRelease(); whole != nil {
		return whole, nil
	}
	part := m.GetPart()
	if part == nil {
		return nil, nil
	}
	if part.GetPart() == 0 {
		r.of = part.GetParts()
	}
	if part.GetPart() != r.next || part.GetParts() != r.of || part.GetPart() >= part.GetParts() ||
		part.GetParts() > maxReleaseParts || len(part.GetData()) > releaseBytes {
		return nil, fmt.Errorf("got part %d of %d of a release, with %d bytes, want part %d of %d; install matching "+
			"versions of student and aggregator",
			part.GetPart(), part.GetParts(), len(part.GetData()), r.next, r.of)
	}
	r.data = append(r.data, part.GetData()...)
	if r.next++; r.next < r.of {
		return nil, nil
	}
	release := new(conclavev1.Release)
	if err := proto.Unmarshal(r.data, release); err != nil {
		return nil, fmt.Errorf("read a release of %d parts: %w", r.of, err)
	}
	return release, nil
}
