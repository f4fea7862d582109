package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// hostile is an aggregator that sends arbitrary messages to real nodes. Each node is a member of one masked run.
type hostile struct {
	t     testing.TB
	sites []string
	nodes map[string]*Node
	group masking.Group
	terms *conclavev1.RoundTerms // of the run that was opened
	keys  []*conclavev1.RunKey   // of it
	tries uint64
}

// ofMasked is a policy that answers the runs of a group of peers.
func ofMasked(peers masking.Group) string {
	var list strings.Builder
	for _, m := range peers.Members {
		fmt.Fprintf(&list, "{site: %s, key: %s}, ", m.Site, m.Key.Hex())
	}
	return "datasets: [{name: d, epsilon: 5, delta: 1e-5, pipelines: [embed, dpgan], approval: automatic, peers: [" +
		list.String() + "]}]"
}

// newHostile makes nodes of sites, each with a policy, and has their keys of run r.
func newHostile(t testing.TB, quorum, colluding int, sites ...string) *hostile {
	t.Helper()
	h := &hostile{
		t: t, sites: sites, nodes: map[string]*Node{}, group: masking.Group{Quorum: quorum, Colluding: colluding},
	}
	folder := certstest.New(t)
	configOf := func(site string) Config {
		c := smallConfig(t, 2)
		c.Site, c.TLS = site, certs.IssuedFiles(folder, certs.RoleNode, site)
		return c
	}
	for _, site := range sites {
		if err := authority.Issue(folder, certs.RoleNode, site, nil, time.Hour); !errors.Is(err, certs.ErrExists) {
			testkit.Must(t, err)
		}
		h.group.Members = append(h.group.Members, memberOf(t, configOf(site)))
	}
	for i, site := range sites {
		c := policed(t, configOf(site), ofMasked(h.group))
		h.nodes[site] = start(t, c, questiontest.SmallTable(t, 40, uint64(i+1)))
	}
	h.terms = h.spec(nil)
	h.keys = h.keysUnder(h.terms)
	return h
}

// spec is what a run r of embeddings says of itself, after a change.
func (h *hostile) spec(change func(*conclavev1.RunSpec)) *conclavev1.RoundTerms {
	h.t.Helper()
	n := h.nodes[h.sites[0]]
	return termsFor(h.t, n, &conclavev1.Round{Run: "r"}, 1, func(s *conclavev1.RunSpec) {
		s.Pipeline, s.Masked = "embed", h.group.Wire()
		s.Plan = []*conclavev1.Planned{{Kind: "embedding",
			Mechanism: &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 20, Sensitivity: 1}}}
		if change != nil {
			change(s)
		}
	})
}

// permit asks a node for its run key.
func (h *hostile) permit(site string, terms *conclavev1.RoundTerms) *conclavev1.WorkRequest {
	h.t.Helper()
	r := embeddingRound(announcedBy(terms).GetName(), 0)
	r.Kind = announcedBy(terms).GetPlan()[0].GetKind()
	return inquire(h.t, h.nodes[site], permitFor(h.t, r), terms)
}

func (h *hostile) keysUnder(terms *conclavev1.RoundTerms) (keys []*conclavev1.RunKey) {
	h.t.Helper()
	for _, site := range h.sites {
		m := h.permit(site, terms)
		if m.GetPermitted().GetKey() == nil {
			h.t.Fatalf("%s gives no key: %v", site, m)
		}
		keys = append(keys, m.GetPermitted().GetKey())
	}
	return keys
}

// attempt is the next one among those who have keys.
func (h *hostile) attempt(keys ...*conclavev1.RunKey) *conclavev1.MaskedRound {
	h.tries++
	return &conclavev1.MaskedRound{Fence: 1, Counter: h.tries, Members: keys}
}

// ask asks a node a round.
func (h *hostile) ask(
	site string, r *conclavev1.Round, terms *conclavev1.RoundTerms, masked *conclavev1.MaskedRound,
) *conclavev1.WorkRequest {
	h.t.Helper()
	messages := messagesOf(h.t, r, terms, 7)
	messages[0].Masked = masked
	return h.say(site, messages...)
}

// say sends messages to a node, and returns its one reply.
func (h *hostile) say(site string, messages ...*conclavev1.WorkResponse) *conclavev1.WorkRequest {
	h.t.Helper()
	all := h.sayAll(site, messages...)
	if len(all) != 1 {
		h.t.Fatalf("%d replies: %v", len(all), all)
	}
	return all[0]
}

func (h *hostile) sayAll(site string, messages ...*conclavev1.WorkResponse) (replies []*conclavev1.WorkRequest) {
	h.t.Helper()
	in, parts := newInbox(), assembly{}
	for _, m := range messages {
		testkit.Must(h.t, h.nodes[site].dispatch(m, &parts, in))
	}
	for todo, ok := in.take(); ok; todo, ok = in.take() {
		replies = append(replies, h.nodes[site].reply(todo))
	}
	for todo, ok := in.beside.take(); ok; todo, ok = in.beside.take() {
		replies = append(replies, h.nodes[site].reply(todo))
	}
	return replies
}

func (h *hostile) survivors(site, run string, round uint64, sites ...string) *conclavev1.WorkRequest {
	h.t.Helper()
	return h.say(site, &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Survivors{
		Survivors: &conclavev1.Survivors{Run: run, Round: round, Sites: sites}}})
}

func (h *hostile) agreement(site, run string, round uint64, tags ...[]byte) *conclavev1.WorkRequest {
	h.t.Helper()
	return h.say(site, &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Agreement{
		Agreement: &conclavev1.Agreement{Run: run, Round: round, Tags: tags}}})
}

// answers has nodes answer an attempt at a round.
func (h *hostile) answers(r *conclavev1.Round, masked *conclavev1.MaskedRound, sites ...string) (all [][]int64) {
	h.t.Helper()
	for _, site := range sites {
		m := h.ask(site, r, h.terms, masked)
		if m.GetSum() == nil {
			h.t.Fatalf("%s says %v", site, m)
		}
		all = append(all, m.GetSum().GetValues())
	}
	return all
}

// tags has nodes agree to a list of survivors.
func (h *hostile) tags(round uint64, survivors []string, sites ...string) (all [][][]byte) {
	h.t.Helper()
	for _, site := range sites {
		m := h.survivors(site, "r", round, survivors...)
		if m.GetAgreed() == nil {
			h.t.Fatalf("%s says %v", site, m)
		}
		all = append(all, m.GetAgreed().GetTags())
	}
	return all
}

// refused wants a refusal that says why, and holds nothing else.
func (h *hostile) refused(what string, m *conclavev1.WorkRequest, why string) {
	h.t.Helper()
	if !strings.Contains(m.GetRefusal().GetReason(), why) {
		h.t.Errorf("%s: the node says %v, want a refusal with %q", what, m, why)
	}
}

// opens has nodes agree to a list of survivors, and open their answers. It returns what the first one says.
func (h *hostile) opens(round uint64, survivors ...string) *conclavev1.WorkRequest {
	h.t.Helper()
	made := h.tags(round, survivors, survivors...)
	var first *conclavev1.WorkRequest
	for at, site := range survivors {
		if m := h.agreement(site, "r", round, masking.TagsFor(at, made)...); first == nil {
			first = m
		}
	}
	return first
}

// charges is how many openings a site's ledger was charged for.
func (h *hostile) charges(site string) int {
	h.t.Helper()
	raw, err := os.ReadFile(h.nodes[site].cfg.LedgerPath())
	if !errors.Is(err, fs.ErrNotExist) {
		testkit.Must(h.t, err)
	}
	return strings.Count(string(raw), `"question":"`)
}

// What a node refuses of an attempt that it is asked to answer. None of it is charged.
func TestNodesRefuseAttempts(t *testing.T) {
	sites := []string{"east", "north", "south", "west"}
	h := newHostile(t, 3, 1, sites...)
	const at = "north"
	r := embeddingRound("r", 3)
	h.answers(r, h.attempt(h.keys...), at)

	fresh := func(change func(*conclavev1.MaskedRound)) *conclavev1.MaskedRound {
		m := h.attempt(slices.Clone(h.keys)...)
		change(m)
		return m
	}
	with := func(at int, k *conclavev1.RunKey) func(*conclavev1.MaskedRound) {
		return func(m *conclavev1.MaskedRound) { m.Members[at] = k }
	}
	mixed := func(a, b *conclavev1.RunKey) *conclavev1.RunKey {
		return &conclavev1.RunKey{
			Site: a.GetSite(), Exchange: b.GetExchange(), Identity: a.GetIdentity(), Signature: a.GetSignature()}
	}
	other := h.spec(func(s *conclavev1.RunSpec) { s.Name = "q" })
	fewer := h.spec(func(s *conclavev1.RunSpec) { s.Masked.Colluding, s.Masked.Quorum = 0, 3 })
	less := h.spec(func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism.Sigma = 21 })
	strangers := newHostile(t, 3, 1, sites...) // other people's certificates of the same names
	second := start(t, h.nodes["west"].cfg, questiontest.SmallTable(t, 40, 4))
	again := inquire(t, second, permitFor(t, r), h.terms).GetPermitted().GetKey()
	another := questiontest.Change(embeddingRound("r", 3), func(q *conclavev1.EmbeddingSum) {
		q.Embedding.Parts[0].Weight = 0.5
	})
	for name, c := range map[string]struct {
		round  *conclavev1.Round
		terms  *conclavev1.RoundTerms
		masked *conclavev1.MaskedRound
		want   string
	}{
		"the same again": {r, h.terms, &conclavev1.MaskedRound{Fence: 1, Counter: h.tries, Members: h.keys},
			"is not newer"},
		"its number with another question": {another, h.terms,
			&conclavev1.MaskedRound{Fence: 1, Counter: h.tries, Members: h.keys}, "is not newer"},
		"its number with other members": {r, h.terms,
			&conclavev1.MaskedRound{Fence: 1, Counter: h.tries, Members: h.keys[:3]}, "is not newer"},
		"an older fence": {r, h.terms, fresh(func(m *conclavev1.MaskedRound) { m.Fence = 0 }), "is not newer"},
		"an earlier round": {embeddingRound("r", 2), h.terms, fresh(func(m *conclavev1.MaskedRound) {}),
			"is not newer"},
		"below the quorum": {r, h.terms, fresh(func(m *conclavev1.MaskedRound) { m.Members = m.Members[:2] }),
			"the quorum is 3"},
		"without the node": {r, h.terms, fresh(func(m *conclavev1.MaskedRound) {
			m.Members = slices.Delete(m.Members, 1, 2)
		}), "does not have this node's key"},
		"nobody":          {r, h.terms, h.attempt(), "the quorum is 3"},
		"an empty member": {r, h.terms, fresh(with(3, &conclavev1.RunKey{})), "in sorted order"},
		"a member twice":  {r, h.terms, fresh(with(3, h.keys[2])), "in sorted order"},
		"an invented site": {r, h.terms, fresh(with(3, &conclavev1.RunKey{
			Site: "xanadu", Exchange: h.keys[3].GetExchange(), Identity: h.keys[3].GetIdentity(),
			Signature: h.keys[3].GetSignature()})), "is not a member"},
		"a second certificate of a name": {r, h.terms, fresh(with(3, strangers.keys[3])), "is not a member"},
		"another's run key": {r, h.terms, fresh(with(3, mixed(h.keys[3], h.keys[2]))),
			"the signature does not"},
		"a run key that nobody signed": {r, h.terms, fresh(with(3, mixed(h.keys[3], &conclavev1.RunKey{
			Exchange: bytes.Repeat([]byte{9}, 32)}))), "the signature does not"},
		"keys of another run": {r, h.terms, h.attempt(h.keysOf("east", other)...), "the signature does not"},
		"keys of a lower bar": {r, h.terms, h.attempt(h.keysOf("east", fewer)...), "the signature does not"},
		"keys of other noise": {r, h.terms, h.attempt(h.keysOf("east", less)...), "the signature does not"},
		"fifty of one": {r, h.terms, fresh(func(m *conclavev1.MaskedRound) {
			m.Members = append(m.Members, slices.Repeat([]*conclavev1.RunKey{again}, 50)...)
		}), "in sorted order"},
		"without masks":           {r, h.terms, nil, "would reveal this node's sum"},
		"without masks and terms": {r, nil, nil, "is masked by the spec"},
		"as a run without masks": {r, h.spec(func(s *conclavev1.RunSpec) { s.Masked = nil }), nil,
			"is masked by the spec"},
		"masks in an unmasked run": {r, h.spec(func(s *conclavev1.RunSpec) { s.Masked = nil }),
			h.attempt(h.keys...), "lists no members"},
		"masks in no run":                  {r, nil, h.attempt(h.keys...), "lists no members"},
		"the same name with other noise":   {r, less, h.attempt(h.keys...), "does not have this node's key"},
		"the same name with other members": {r, fewer, h.attempt(h.keys...), "does not have this node's key"},
		"another kind":                     {voteRound("r", 3), h.terms, h.attempt(h.keys...), "does not pay for"},
		"votes": {voteRound("r", 3), h.spec(func(s *conclavev1.RunSpec) {
			s.Plan = []*conclavev1.Planned{{Kind: "votes", Mechanism: &conclavev1.PrivacyEvent{Kind: "lnmax",
				Lambda: 1}}}
		}), h.attempt(h.keys...), "which masked runs do not support"},
	} {
		h.refused(name, h.ask(at, c.round, c.terms, c.masked), c.want)
	}
	if n := h.charges(at); n != 0 {
		t.Errorf("the ledger was charged %d times, and nothing was opened", n)
	}
}

// keysOf are the keys of the run, with that of one site for a run that it opened beside.
func (h *hostile) keysOf(site string, terms *conclavev1.RoundTerms) []*conclavev1.RunKey {
	h.t.Helper()
	keys := slices.Clone(h.keys)
	if keys[slices.Index(h.sites, site)] = h.permit(site, terms).GetPermitted().GetKey(); keys[0] == nil {
		h.t.Fatalf("%s gives no key", site)
	}
	return keys
}

// Nothing is agreed to or revealed out of turn, twice, or for a list that cannot stand.
func TestNodesRefuseToOpen(t *testing.T) {
	h := newHostile(t, 3, 1, "east", "north", "south", "west")
	const at = "north"
	all := h.sites
	good, other := []string{"east", "north", "south"}, []string{"north", "south", "west"}
	r := embeddingRound("r", 3)
	const notLast = "is not the one that this node answered last"
	// Each step without those before it, as if their messages were lost.
	h.refused("a list before the question", h.survivors(at, "r", 3, good...), notLast)
	h.refused("an agreement before the question", h.agreement(at, "r", 3), notLast)
	m := h.attempt(h.keys...)
	h.answers(r, m, all...)
	h.refused("an agreement before the list", h.agreement(at, "r", 3), "has not agreed")
	for name, c := range map[string]struct {
		list []string
		want string
	}{
		"nobody":           {nil, "the quorum is 3"},
		"below the quorum": {all[:2], "the quorum is 3"},
		"one twice":        {[]string{"east", "north", "north"}, "each once and in sorted order"},
		"out of order":     {[]string{"north", "east", "south"}, "each once and in sorted order"},
		"a stranger":       {[]string{"east", "north", "xanadu"}, "each once and in sorted order"},
		"without the node": {[]string{"east", "south", "west"}, "it reveals nothing"},
	} {
		h.refused(name, h.survivors(at, "r", 3, c.list...), c.want)
	}
	h.refused("another round", h.survivors(at, "r", 4, good...), notLast)
	h.refused("another run", h.survivors(at, "q", 3, good...), notLast)

	made := h.tags(3, good, good...)
	if again := h.tags(3, good, at)[0]; !slices.EqualFunc(again, made[1], bytes.Equal) {
		t.Error("a list that is named again has other tags")
	}
	h.refused("a second list", h.survivors(at, "r", 3, other...), "agreed to other members")
	h.refused("the list of all", h.survivors(at, "r", 3, all...), "agreed to other members")
	// The living one that is left out agrees to a list of its own, which opens nothing.
	west := h.tags(3, other, "west")[0]
	tags := masking.TagsFor(1, made) // of east and of south
	const notThose = "not for the members that this node agreed to"
	for name, c := range map[string]struct {
		tags    [][]byte
		want    string
		doubted []string
	}{
		"none":             {nil, "0 tags for 2 others", nil},
		"too few":          {tags[:1], "1 tags for 2 others", nil},
		"too many":         {append(slices.Clone(tags), west[0]), "3 tags for 2 others", nil},
		"nothing":          {[][]byte{nil, nil}, "a tag of 0 bytes", nil},
		"the other list's": {[][]byte{tags[0], west[0]}, notThose, []string{"south"}},
		"out of order":     {[][]byte{tags[1], tags[0]}, notThose, []string{"east", "south"}},
		"its own":          {made[1], notThose, []string{"east", "south"}},
		"one for all":      {[][]byte{tags[0], tags[0]}, notThose, []string{"south"}},
	} {
		m := h.agreement(at, "r", 3, c.tags...)
		if h.refused("tags: "+name, m, c.want); !slices.Equal(m.GetRefusal().GetDoubted(), c.doubted) {
			t.Errorf("tags: %s: doubted are %q, want %q", name, m.GetRefusal().GetDoubted(), c.doubted)
		}
	}
	h.refused("the one that is left out", h.agreement("west", "r", 3, tags...), notThose)

	if n := h.charges(at); n != 0 {
		t.Errorf("charged %d times, and nothing was revealed", n)
	}
	first := h.agreement(at, "r", 3, tags...).GetRevealed()
	if len(first.GetOwn()) != 32 || len(first.GetLost()) != 1 {
		t.Fatalf("revealed are %v", first)
	}
	again := h.agreement(at, "r", 3, tags[:1]...).GetRevealed()
	if !bytes.Equal(again.GetOwn(), first.GetOwn()) || !bytes.Equal(again.GetLost()[0], first.GetLost()[0]) {
		t.Error("something else is revealed the second time")
	}
	if n := h.charges(at); n != 1 {
		t.Errorf("charged %d times for one opening", n)
	}
	h.refused("a second list when the first is open", h.survivors(at, "r", 3, other...), "agreed to other members")
	// The next attempt has nothing of it.
	h.answers(r, h.attempt(h.keys...), at)
	h.refused("an agreement of the attempt before", h.agreement(at, "r", 3, tags...), "has not agreed")
	if again := h.tags(3, good, at)[0]; bytes.Equal(again[0], made[1][0]) || bytes.Equal(again[1], made[1][1]) {
		t.Error("the tags of another attempt")
	}
	h.refused("tags of the attempt before", h.agreement(at, "r", 3, tags...), notThose)
	h.refused("nobody's run", h.agreement(at, "", 0), notLast)
}

// Two nodes that were told different things of an attempt agree to different terms: neither reveals a seed.
func TestTermsThatDifferOpenNothing(t *testing.T) {
	for name, change := range map[string]func(r *conclavev1.Round, m *conclavev1.MaskedRound){
		"another question": func(r *conclavev1.Round, _ *conclavev1.MaskedRound) {
			questiontest.Change(r, func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[0].Weight = 0.5 })
		},
		"another fence":   func(_ *conclavev1.Round, m *conclavev1.MaskedRound) { m.Fence++ },
		"another counter": func(_ *conclavev1.Round, m *conclavev1.MaskedRound) { m.Counter++ },
		"other members":   func(_ *conclavev1.Round, m *conclavev1.MaskedRound) { m.Members = m.Members[:3] },
		"more noise": func(r *conclavev1.Round, _ *conclavev1.MaskedRound) {
			questiontest.Change(r, func(q *conclavev1.EmbeddingSum) { q.Bound *= 2 })
			r.GetSum().Bound *= 2
		},
	} {
		h := newHostile(t, 3, 1, "east", "north", "south", "west")
		m := h.attempt(h.keys...)
		told := proto.Clone(m).(*conclavev1.MaskedRound)
		r, other := embeddingRound("r", 0), embeddingRound("r", 0)
		change(other, told)
		h.answers(r, m, "east", "south")
		h.answers(other, told, "north")
		u := h.sites[:3]
		made := h.tags(0, u, u...)
		for at, site := range u {
			h.refused(name+" at "+site, h.agreement(site, "r", 0, masking.TagsFor(at, made)...), "are not for the "+
				"members")
		}
	}
	// Noise and quorum stand in the spec: keys for one are none for another.
	h := newHostile(t, 3, 1, "east", "north", "south")
	for name, terms := range map[string]*conclavev1.RoundTerms{
		"sigma":  h.spec(func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism.Sigma = 10 }),
		"quorum": h.spec(func(s *conclavev1.RunSpec) { s.Masked.Quorum, s.Masked.Colluding = 2, 0 }),
	} {
		keys := h.keysOf("east", terms)
		h.refused(name, h.ask("north", embeddingRound("r", 0), h.terms, h.attempt(keys...)), "the signature does not")
		h.refused(name, h.ask("east", embeddingRound("r", 0), terms, h.attempt(keys...)), "")
		h.keysUnder(h.terms)
	}
	// Of a spec that does not name it a node is no part; and one that names nobody has no keys.
	h.refused("not a member", h.permit("north", h.spec(func(s *conclavev1.RunSpec) { s.Masked.Members[1].Key[0]++ })),
		"north with another key")
	h.refused("another key of a peer", h.permit("east", h.spec(func(s *conclavev1.RunSpec) {
		s.Masked.Members[2].Key[0]++
	})), "peers: ")
	h.refused("alone", h.permit("north", h.spec(func(s *conclavev1.RunSpec) {
		s.Masked.Members, s.Masked.Quorum, s.Masked.Colluding = s.Masked.Members[1:2], 1, 0
	})), "no valid description")
	h.refused("two could open", h.permit("north", h.spec(func(s *conclavev1.RunSpec) { s.Masked.Quorum = 2 })),
		"no valid description")
}

// A process that starts again has another run key, with its state folder or an empty one: of an attempt of before
// nothing is answered, agreed to or revealed again, at any step.
func TestANodeThatStartsAgainOpensNothing(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, reached := range []string{"answer", "agreement", "seeds"} {
			h := newHostile(t, 3, 1, "east", "north", "south")
			const at = "north"
			r, m := embeddingRound("r", 0), h.attempt(h.keys...)
			h.answers(r, m, h.sites...)
			var tags [][]byte
			if reached != "answer" {
				tags = masking.TagsFor(1, h.tags(0, h.sites, h.sites...))
			}
			if reached == "seeds" && h.agreement(at, "r", 0, tags...).GetRevealed() == nil {
				t.Fatal("nothing is revealed")
			}
			c := h.nodes[at].cfg
			if lost {
				c = copyState(t, c) // with the partition alone
			}
			h.nodes[at] = start(t, c, questiontest.SmallTable(t, 40, 2))
			h.refused("before its key", h.ask(at, r, h.terms, m), "ask for the key again")
			if k := h.permit(at, h.terms).GetPermitted().GetKey(); bytes.Equal(k.GetExchange(),
				h.keys[1].GetExchange()) {
				t.Error("the run key of the process before")
			}
			h.refused("the same attempt", h.ask(at, r, h.terms, m), "not have this node's key")
			h.refused("the same attempt with another question", h.ask(at, embeddingRound("r", 1), h.terms, m),
				"does not have this node's key")
			h.refused("its list", h.survivors(at, "r", 0, h.sites...), "is not the one")
			h.refused("its agreement", h.agreement(at, "r", 0, tags...), "is not the one")
			// With its new key it takes part in new attempts, which are charged when they are opened.
			before := h.charges(at)
			h.keys = h.keysUnder(h.terms)
			h.answers(r, h.attempt(h.keys...), h.sites...)
			if h.opens(0, h.sites...).GetRevealed() == nil || h.charges(at) != before+1 {
				t.Errorf("charged %d times, before %d", h.charges(at), before)
			}
		}
	}
}

// A node answers whatever attempts it is asked, each with a sample of its own, and pays for none of them. It opens so
// many of a round, each charged to its site. An aggregator that ends the run for the node, or changes its spec, gets no
// more of them. The differences of what a node sends unopened are uniform, also where it agreed.
func TestOpeningsArePaidFor(t *testing.T) {
	const planned = 40
	h := newHostile(t, 2, 1, "east", "north")
	h.terms = h.spec(func(s *conclavev1.RunSpec) {
		s.Pipeline, s.Plan = "dpgan", []*conclavev1.Planned{{Kind: "discriminator", Count: planned,
			Mechanism: &conclavev1.PrivacyEvent{Kind: "subsampled-gaussian", NoiseMultiplier: 20, Rate: 0.5}}}
	})
	h.keys = h.keysUnder(h.terms)
	const at = "north"
	samples, asked, charged := 0, 0, 0
	h.nodes[at].site.Sample = func(gnmax.Rate) ([]int, error) { samples++; return []int{samples % 40}, nil }
	var differences []int64
	for number := range uint64(2) {
		r := discriminatorRound("r", number, nil)
		for opened := range 1 + masking.Retries {
			var sent [][]int64
			for attempt := range 3 {
				sent = append(sent, h.answers(r, h.attempt(h.keys...), h.sites...)[1])
				if attempt%2 == 0 { // the aggregator gets its word, and no seeds
					h.tags(number, h.sites, at)
				}
				if asked++; h.charges(at) != charged || samples != asked {
					t.Fatalf("%d attempts, %d of them opened: charged %d times for %d samples", asked, charged,
						h.charges(at), samples)
				}
			}
			for a := range sent {
				for b := range a {
					for i, v := range sent[a] {
						differences = append(differences, v-sent[b][i])
					}
				}
			}
			h.answers(r, h.attempt(h.keys...), h.sites...)
			asked++
			if m := h.opens(number, h.sites...); m.GetRevealed() == nil {
				t.Fatalf("opening %d: %v", opened, m)
			}
			if charged++; h.charges(at) != charged {
				t.Fatalf("%d openings are charged %d times", charged, h.charges(at))
			}
		}
		h.refused("one more attempt", h.ask(at, r, h.terms, h.attempt(h.keys...)), "were revealed 4 times")
	}
	wantUniform(t, "differences of attempts", differences)

	// The aggregator says that the run is over, and begins it again.
	over := &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Withdraw{
		Withdraw: &conclavev1.Withdraw{Run: "r", Over: true}}}
	h.sayAll(at, over)
	again := discriminatorRound("r", 1, nil)
	m := inquire(t, h.nodes[at], permitFor(t, again), h.terms)
	if m.GetPermitted() != nil {
		m = h.ask(at, again, h.terms, h.attempt(h.keys[0], m.GetPermitted().GetKey()))
	}
	h.refused("an attempt at a run that was said to be over", m, "were revealed 4 times here")
	if h.charges(at) != charged || samples != asked {
		t.Errorf("charged %d times for %d samples, want %d", h.charges(at), samples, charged)
	}
}

// Parts of rounds that come mixed up make none of them, whatever attempt they came with.
func TestMixedPartsMakeNoRound(t *testing.T) {
	h := newHostile(t, 3, 1, "east", "north", "south")
	const at = "north"
	parts := func(number uint64) []*conclavev1.WorkResponse {
		r := embeddingRound("r", number)
		var all []*conclavev1.WorkResponse
		for i, p := range partsOf(t, r, 20) {
			m := &conclavev1.WorkResponse{Attempt: number, Message: &conclavev1.WorkResponse_Part{Part: p}}
			if i == 0 {
				m.Terms, m.Masked = h.terms, h.attempt(h.keys...)
			}
			all = append(all, m)
		}
		return all
	}
	one, two := parts(1), parts(2)
	if len(one) < 3 {
		t.Fatalf("a round of %d parts", len(one))
	}
	mixed := [][]*conclavev1.WorkResponse{
		{one[0], two[0], one[1], two[1]},
		{one[0], two[1]},
		append(slices.Clone(one[:1]), two[1:]...),
		append(slices.Clone(two[:1]), one[1:]...),
		one[1:],
	}
	for i, messages := range mixed {
		for _, m := range h.sayAll(at, messages...) {
			h.refused("mixed parts "+string(rune('0'+i)), m, "out of order")
		}
	}
	// A first part without its attempt does not take that of the round before it.
	bare := parts(3)
	bare[0].Masked = nil
	for _, m := range h.sayAll(at, append(slices.Clone(one[:2]), bare...)...) {
		h.refused("the attempt of another round", m, "would reveal this node's sum")
	}
	if h.charges(at) != 0 {
		t.Errorf("charged %d times", h.charges(at))
	}
	h.answers(embeddingRound("r", 4), h.attempt(h.keys...), at)
}
