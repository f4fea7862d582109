package masking

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// seedBytes is the size of a seed: the key of AES-256.
const seedBytes = 32

// newSeed makes 32 fresh random bytes.
func newSeed() (seed [seedBytes]byte) {
	rand.Read(seed[:]) // never fails
	return seed
}

// pairSecret is what two members share in a run: HKDF of what X25519 gives them, over the run's spec and both run
// keys. Both compute the same. First is the one whose site comes first.
func pairSecret(own *ecdh.PrivateKey, other []byte, spec Digest, first, second *conclavev1.RunKey) (
	secret [seedBytes]byte, err error,
) {
	public, err := ecdh.X25519().NewPublicKey(other)
	if err != nil {
		return secret, fmt.Errorf("it is no X25519 key: %w", err)
	}
	shared, err := own.ECDH(public) // refuses what gives zeros
	if err != nil {
		return secret, fmt.Errorf("it cannot be used: %w", err)
	}
	return derive(shared, encode("pair").bytes(spec[:]).text(first.GetSite()).bytes(first.GetExchange()).
		text(second.GetSite()).bytes(second.GetExchange()))
}

// roundSeed is the seed that two members share in an attempt, by its terms.
func roundSeed(secret [seedBytes]byte, terms Digest) ([seedBytes]byte, error) {
	return derive(secret[:], encode("round").bytes(terms[:]))
}

func derive(secret []byte, info encoding) (out [seedBytes]byte, err error) {
	raw, err := hkdf.Key(sha256.New, secret, nil, string(info), seedBytes)
	if err != nil {
		return out, fmt.Errorf("derive a mask's seed: %w", err)
	}
	return [seedBytes]byte(raw), nil
}

// maskChunk is how many entries of a mask are made at a time.
const maskChunk = 1024

// zeros are what a mask is the encryption of.
var zeros [8 * maskChunk]byte

// addMask adds the mask of a seed to a vector modulo 2^64, or subtracts it: AES-256 in counter mode from zero, eight
// bytes an entry, little-endian. A seed makes one mask, so a counter from zero repeats nothing.
func addMask(vector []int64, seed [seedBytes]byte, subtract bool) {
	block, err := aes.NewCipher(seed[:])
	if err != nil {
		panic(err) // the seed has the size of a key
	}
	stream := cipher.NewCTR(block, make([]byte, aes.BlockSize))
	sign := int64(1)
	if subtract {
		sign = -1
	}
	var buffer [8 * maskChunk]byte
	for len(vector) > 0 {
		n := min(len(vector), maskChunk)
		chunk := buffer[:8*n]
		stream.XORKeyStream(chunk, zeros[:8*n])
		for i := range vector[:n] {
			// Sums wrap around, which is what is meant.
			vector[i] += sign * int64(binary.LittleEndian.Uint64(chunk[8*i:]))
		}
		vector = vector[n:]
	}
}
