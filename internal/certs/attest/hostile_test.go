package attest_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Keys of sizes that no authority issues are refused without computation, anywhere in the chain: a signature of 60
// 000 bits takes seconds to check, and a file may have thousands.
func TestAHugeKeyIsNotUsed(t *testing.T) {
	modulus := new(big.Int).Lsh(big.NewInt(1), 60_000)
	huge := &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 1<<31 - 1}
	_, signer, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: time.Now().Add(-hour),
		NotAfter: time.Now().Add(hour), URIs: []*url.URL{(certs.Identity{Role: certs.RoleNode, Name: "north"}).URI()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, huge, signer)
	testkit.Must(t, err)
	g, _ := signed(t, hour)
	for name, g := range map[string]attest.Signature{
		"the signer's":   {Chain: [][]byte{der}, Value: make([]byte, 7501)},
		"an authority's": {Chain: [][]byte{g.Chain[0], der}, Value: g.Value},
	} {
		_, err := g.Check(statement)
		if !errors.Is(err, attest.ErrSignature) || !strings.Contains(err.Error(), "bits") {
			t.Errorf("%s: %v, want ErrSignature for its bits", name, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	g, roots := signed(f, hour)
	f.Add(g.Chain[0], g.Value)
	f.Add([]byte{0x30, 0x80}, []byte{})
	day := time.Now().UTC().Format(time.DateOnly)
	f.Fuzz(func(t *testing.T, der, value []byte) {
		for _, chain := range [][][]byte{{der}, {g.Chain[0], der}, {der, g.Chain[0]}} {
			by, err := attest.Signature{Chain: chain, Value: value}.Check(statement)
			if err == nil && by.Under(roots, day) == nil && by.Name != "north" {
				t.Errorf("%v is believed", by.Identity)
			}
		}
	})
}
