package main

import (
	"crypto/sha256"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/parts"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// summing is what a node without records does in rounds of sums: it sends ones, plainly or under masks.
type summing struct {
	party *masking.Party
	data  []byte // of the round, so far
	spec  *conclavev1.RunSpec
	raw   []byte         // the spec's bytes
	group *masking.Group // nil where the run is not masked
	asked *conclavev1.MaskedRound
}

func newSumming(dir string, index int) (*summing, error) {
	key, err := pemfile.LoadKey(certs.IssuedFiles(dir, certs.RoleNode, siteName(index)).Key)
	if err != nil {
		return nil, err
	}
	party, err := masking.NewParty(siteName(index), key)
	return &summing{party: party}, err
}

// read reads the spec of a round, and the group that masks it.
func (s *summing) read(terms *conclavev1.RoundTerms) error {
	s.raw, s.spec, s.group = terms.GetSpec(), new(conclavev1.RunSpec), nil
	if err := proto.Unmarshal(s.raw, s.spec); err != nil || s.spec.GetMasked() == nil {
		return err
	}
	g, err := masking.Parse(s.spec.GetMasked())
	s.group = &g
	return err
}

// permit is the node's key of a masked run.
func (s *summing) permit(m *conclavev1.WorkResponse) (*conclavev1.RunKey, error) {
	if err := s.read(m.GetTerms()); s.group == nil || err != nil {
		return nil, err
	}
	return s.party.Key(m.GetPermit().GetRun(), sha256.Sum256(s.raw), *s.group)
}

// answer answers a complete round, and the further messages of a masked one; nil if no answer is due.
func (s *summing) answer(m *conclavev1.WorkResponse) (*conclavev1.WorkRequest, error) {
	if u := m.GetSurvivors(); u != nil {
		tags, err := s.party.Agree(u.GetRun(), u.GetRound(), u.GetSites())
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Agreed{Agreed: &conclavev1.Agreed{
			Run: u.GetRun(), Round: u.GetRound(), Tags: tags,
		}}}, err
	}
	if a := m.GetAgreement(); a != nil {
		revealed, err := s.party.Reveal(a.GetRun(), a.GetRound(), a.GetTags())
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Revealed{Revealed: revealed}}, err
	}
	p := m.GetPart()
	if p == nil {
		return nil, nil
	}
	if p.GetPart() == 0 {
		s.data, s.asked = nil, m.GetMasked()
		if err := s.read(m.GetTerms()); err != nil {
			return nil, err
		}
	}
	s.data = append(s.data, p.GetData()...)
	if p.GetPart()+1 < p.GetParts() {
		return nil, nil
	}
	r := new(conclavev1.Round)
	if err := proto.Unmarshal(s.data, r); err != nil {
		return nil, err
	}
	values := make([]int64, r.GetSum().GetEntries())
	for i := range values {
		values[i] = 1
	}
	if s.asked != nil {
		masked, err := s.mask(r, values)
		if err != nil {
			return nil, err
		}
		values = masked
	}
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
		Run: r.GetRun(), Round: r.GetNumber(), Values: values,
	}}}, nil
}

// mask does what a node does with its vector.
func (s *summing) mask(r *conclavev1.Round, values []int64) ([]int64, error) {
	plan, err := runspec.Plan(s.spec)
	if err != nil {
		return nil, err
	}
	entries, share, err := masking.Asked(plan[r.GetPlanned()], r, *s.group)
	if err != nil {
		return nil, err
	}
	a, err := s.party.Begin(&masking.Terms{
		Run: r.GetRun(), Spec: sha256.Sum256(s.raw), Group: *s.group, Round: r.GetNumber(), Fence: s.asked.GetFence(),
		Counter: s.asked.GetCounter(), Question: sha256.Sum256(s.data), Entries: entries, Share: share,
		Members: s.asked.GetMembers(),
	}, func(masking.Digest) error { return nil })
	if err != nil {
		return nil, err
	}
	return a.Mask(values)
}

// sums answers rounds of sums until the stream ends.
func (n *lightNode) sums(s *summing) error {
	for {
		m, err := n.stream.Recv()
		if err != nil {
			return err
		}
		var out *conclavev1.WorkRequest
		if p := m.GetPermit(); p != nil {
			permitted := &conclavev1.Permitted{Run: p.GetRun(), Round: p.GetRound()}
			if permitted.Key, err = s.permit(m); err != nil {
				return err
			}
			out = &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Permitted{Permitted: permitted}}
		} else if out, err = s.answer(m); err != nil {
			return err
		}
		if out == nil {
			continue
		}
		out.Attempt = m.GetAttempt()
		for _, part := range parts.OfSum(out) {
			if err := n.stream.Send(part); err != nil {
				return errors.Join(errors.New("send an answer"), err)
			}
		}
	}
}
