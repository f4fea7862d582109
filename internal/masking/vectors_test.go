package masking

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

var update = flag.Bool("update", false, "write the test vectors again")

// octets are bytes in hex.
type octets []byte

func (o octets) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(o)), nil }

// vectors are one round of five members, each with two partners. The third is lost. They are for other implementations
// to check; docs/masked-protocol.md describes them.
type vectors struct {
	Run       string         `json:"run"`
	Spec      octets         `json:"spec_sha256"`
	Quorum    int            `json:"quorum"`
	Colluding int            `json:"colluding"`
	Members   []memberVector `json:"members"`
	Round     roundVector    `json:"round"`
	Pairs     []pairVector   `json:"pairs"`
	Answers   []answerVector `json:"answers"`
	Agreed    agreedVector   `json:"agreed"`
	Revealed  []revealVector `json:"revealed"`
	Total     []int64        `json:"total"`
}

type memberVector struct {
	Site        string `json:"site"`
	Certificate octets `json:"certificate_private_key"` // Ed25519, the seed of RFC 8032
	Identity    octets `json:"identity"`
	Fingerprint octets `json:"fingerprint"`
	Private     octets `json:"run_private_key"`
	Exchange    octets `json:"exchange"`
	Signed      octets `json:"signed"`
	Signature   octets `json:"signature"`
}

type roundVector struct {
	Number   uint64    `json:"number"`
	Fence    uint64    `json:"fence"`
	Counter  uint64    `json:"counter"`
	Question octets    `json:"question_sha256"`
	Entries  int       `json:"entries"`
	Share    [3]uint64 `json:"share"` // t, w, q: the variance is t w/q
	Terms    octets    `json:"terms"`
	Digest   octets    `json:"terms_sha256"`
}

type pairVector struct {
	First  string `json:"first"`
	Second string `json:"second"`
	// Seed is that of the mask of two partners.
	Seed octets `json:"seed,omitempty"`
	// FirstTags is the key of the tags that the first member makes for the second; SecondTags is the reverse.
	FirstTags  octets `json:"first_tags"`
	SecondTags octets `json:"second_tags"`
}

type answerVector struct {
	Site   string  `json:"site"`
	Vector []int64 `json:"vector"`
	Noise  []int64 `json:"noise"`
	Own    octets  `json:"own_seed"`
	Masked octets  `json:"masked"` // 8 bytes an entry, little-endian
}

type agreedVector struct {
	Survivors []string `json:"survivors"`
	Hashed    octets   `json:"hashed"`
	Digest    octets   `json:"hashed_sha256"`
	// Tags are each survivor's tags for the others, in the order of survivors.
	Tags [][]octets `json:"tags"`
}

type revealVector struct {
	Site string   `json:"site"`
	Own  octets   `json:"own"`
	Lost []octets `json:"lost"`
}

func listed(raw [][]byte) []octets {
	list := make([]octets, len(raw))
	for i, b := range raw {
		list[i] = b
	}
	return list
}

// fixed are 32 bytes that a name stands for.
func fixed(name string) []byte {
	sum := sha256.Sum256([]byte("test vector: " + name))
	return sum[:]
}

// vectorRound is the round of the vectors, with the parties that take part in it.
func vectorRound(t *testing.T) (terms *Terms, parties []*Party, v vectors) {
	t.Helper()
	v = vectors{Run: "vectors", Spec: fixed("spec"), Quorum: 4, Colluding: 0}
	group := Group{Quorum: v.Quorum, Colluding: v.Colluding}
	spec := Digest(v.Spec)
	for _, site := range []string{"east", "north", "south", "upland", "west"} {
		signer := ed25519.NewKeyFromSeed(fixed("certificate of " + site))
		p := testkit.Value(NewParty(site, signer))
		key := testkit.Value(ecdh.X25519().NewPrivateKey(fixed("run key of " + site)))
		k := &conclavev1.RunKey{Site: site, Exchange: key.PublicKey().Bytes(), Identity: p.own.public}
		signed := signedKey(v.Run, spec, k)
		k.Signature = testkit.Value(sign(signer, signed))
		p.runs[v.Run] = &partyRun{spec: spec, own: p.own, key: key, wire: k, pairs: map[string]pair{}}
		fingerprint := sha256.Sum256(p.own.public)
		group.Members = append(group.Members, Member{site, fingerprint})
		v.Members = append(v.Members, memberVector{site, signer.Seed(), p.own.public, fingerprint[:], key.Bytes(),
			k.Exchange, octets(signed), k.Signature})
		parties = append(parties, p)
	}
	testkit.Must(t, group.Validate())
	share := testkit.Value(testkit.Value(gnmax.NewGaussianSum(1<<8, 2)).Share(group.Honest()))
	terms = &Terms{
		Run: v.Run, Spec: spec, Group: group, Round: 5, Fence: 7, Counter: 11, Question: Digest(fixed("question")),
		Entries: 4, Share: share,
	}
	for _, p := range parties {
		terms.Members = append(terms.Members, p.runs[v.Run].wire)
	}
	a, w, q := share.Parameters()
	digest := terms.Digest()
	v.Round = roundVector{terms.Round, terms.Fence, terms.Counter, terms.Question[:], terms.Entries,
		[3]uint64{a, w, q}, octets(terms.encoding()), digest[:]}
	return terms, parties, v
}

// The vectors are what is in testdata, and what parties do. Write them again, where the protocol changes, by
//
//	go test ./internal/masking -run Vectors -update
func TestVectors(t *testing.T) {
	terms, parties, v := vectorRound(t)
	v.Agreed.Survivors = []string{"east", "north", "upland", "west"}
	hashed := agreed(v.Run, terms.Digest(), v.Agreed.Survivors)
	v.Agreed.Hashed = octets(hashed)
	digest := hashed.digest()
	v.Agreed.Digest = digest[:]
	v.Total = make([]int64, terms.Entries)
	sum := make([]int64, terms.Entries)
	var revealed []*conclavev1.Revealed
	var made [][][]byte
	for i, p := range parties {
		a := testkit.Value(p.Begin(terms, free))
		for other := i + 1; other < len(parties); other++ {
			of := pairVector{First: p.site, Second: parties[other].site, FirstTags: a.pairs[other].says[:],
				SecondTags: a.pairs[other].hears[:]}
			if slices.Contains(a.partners, other) {
				of.Seed = a.seeds[other][:]
			}
			v.Pairs = append(v.Pairs, of)
		}
		a.own = [seedBytes]byte(fixed("own seed of " + p.site))
		answer := answerVector{Site: p.site, Own: a.own[:]}
		for entry := range terms.Entries {
			answer.Vector = append(answer.Vector, int64(1000*(i+1)-700*entry))
			answer.Noise = append(answer.Noise, int64(fixed("noise")[i*terms.Entries+entry])-128)
		}
		drawn := testkit.Value(a.Mask(answer.Vector)) // with noise that is drawn, in place of the fixed one
		masked := slices.Clone(answer.Vector)
		AddUp(masked, answer.Noise)
		addMask(masked, a.own, false)
		for _, other := range a.partners {
			addMask(masked, a.seeds[other], i > other)
		}
		for entry := range masked {
			if d := drawn[entry] - masked[entry]; max(d, -d) > int64(50*terms.Share.Sigma()) {
				t.Errorf("%s: entry %d is off by %d", p.site, entry, d)
			}
		}
		answer.Masked = bytesOf(masked)
		v.Answers = append(v.Answers, answer)
		if i == 2 { // it is lost
			continue
		}
		AddUp(sum, masked)
		AddUp(v.Total, answer.Vector)
		AddUp(v.Total, answer.Noise)
		tags := testkit.Value(p.Agree(v.Run, terms.Round, v.Agreed.Survivors))
		made = append(made, tags)
		v.Agreed.Tags = append(v.Agreed.Tags, listed(tags))
	}
	for at, p := range slices.Concat(parties[:2], parties[3:]) {
		m := testkit.Value(p.Reveal(v.Run, terms.Round, TagsFor(at, made)))
		revealed = append(revealed, m)
		v.Revealed = append(v.Revealed, revealVector{p.site, m.Own, listed(m.Lost)})
	}
	if terms.Open(sum, v.Agreed.Survivors, revealed); !slices.Equal(sum, v.Total) {
		t.Errorf("opened are %d, want %d", sum, v.Total)
	}
	raw := append(testkit.Value(json.MarshalIndent(v, "", "  ")), '\n')
	path := filepath.Join("testdata", "vectors.json")
	if *update {
		testkit.Must(t, os.WriteFile(path, raw, 0o644))
	}
	if !bytes.Equal(raw, testkit.Read(t, path)) {
		t.Errorf("%s is not what the protocol does now: nodes of two versions cannot take part in one run. If that is "+
			"meant, change version in encode.go and write the vectors again", path)
	}
}
