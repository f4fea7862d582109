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
	"runtime"
	"sync"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// seedBytes is the size of a seed, which is an AES-256 key.
const seedBytes = 32

// newSeed returns 32 fresh random bytes.
func newSeed() (seed [seedBytes]byte) {
	rand.Read(seed[:]) // never fails
	return seed
}

// pairSecret is the secret that two members share in a run: HKDF of their X25519 secret, over the run's spec and
// both run keys. Both compute the same secret. first is the member whose site comes first.
func pairSecret(own *ecdh.PrivateKey, other []byte, spec Digest, first, second *conclavev1.RunKey) (
	secret [seedBytes]byte, err error,
) {
	public, err := ecdh.X25519().NewPublicKey(other)
	if err != nil {
		return secret, fmt.Errorf("it is not an X25519 key: %w", err)
	}
	shared, err := own.ECDH(public) // fails if the result is all zeros
	if err != nil {
		return secret, fmt.Errorf("it cannot be used: %w", err)
	}
	return derive(shared, encode("pair").bytes(spec[:]).text(first.GetSite()).bytes(first.GetExchange()).
		text(second.GetSite()).bytes(second.GetExchange()))
}

// roundSeed is the seed that two members share in an attempt; it depends on the attempt's terms.
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

// maskChunk is the number of mask entries computed at a time.
const maskChunk = 1024

// zeros is the plaintext that is encrypted to get a mask.
var zeros [8 * maskChunk]byte

// mask is the key stream of a seed, to be added to a vector or subtracted from it.
type mask struct {
	seed     [seedBytes]byte
	subtract bool
}

// leastPart is the smallest number of entries worth a processor of their own.
const leastPart = 8 * maskChunk

// addMasks adds masks to a vector modulo 2^64. Each part of the vector is computed by one goroutine.
func addMasks(vector []int64, masks []mask) {
	parts := max(1, min(runtime.GOMAXPROCS(0), len(vector)/leastPart))
	size := (len(vector)/parts/maskChunk + 1) * maskChunk
	var work sync.WaitGroup
	for from := 0; from < len(vector); from += size {
		part := vector[from:min(from+size, len(vector))]
		work.Go(func() {
			for _, m := range masks {
				addMaskFrom(part, m.seed, m.subtract, from)
			}
		})
	}
	work.Wait()
}

// addMask adds the mask of a seed to a vector modulo 2^64, or subtracts it.
func addMask(vector []int64, seed [seedBytes]byte, subtract bool) {
	addMaskFrom(vector, seed, subtract, 0)
}

// addMaskFrom does the same to the part of a vector that starts at entry from, which must be even. It runs AES-256
// in counter mode from zero, two entries of eight little-endian bytes in each block. A seed makes only one mask,
// so starting the counter at zero repeats nothing.
func addMaskFrom(part []int64, seed [seedBytes]byte, subtract bool, from int) {
	block, err := aes.NewCipher(seed[:])
	if err != nil {
		panic(err) // the seed has the size of a key
	}
	var counter [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[8:], uint64(from/2))
	stream := cipher.NewCTR(block, counter[:])
	sign := int64(1)
	if subtract {
		sign = -1
	}
	var buffer [8 * maskChunk]byte
	for len(part) > 0 {
		n := min(len(part), maskChunk)
		chunk := buffer[:8*n]
		stream.XORKeyStream(chunk, zeros[:8*n])
		addBytes(part[:n], chunk, sign)
		part = part[n:]
	}
}

// addBytes adds eight-byte integers to a vector, or subtracts them. It takes four at a time, which halves the
// time. Sums wrap around, as intended.
func addBytes(part []int64, raw []byte, sign int64) {
	for len(part) >= 4 && len(raw) >= 32 {
		part[0] += sign * int64(binary.LittleEndian.Uint64(raw))
		part[1] += sign * int64(binary.LittleEndian.Uint64(raw[8:]))
		part[2] += sign * int64(binary.LittleEndian.Uint64(raw[16:]))
		part[3] += sign * int64(binary.LittleEndian.Uint64(raw[24:]))
		part, raw = part[4:], raw[32:]
	}
	for i := range part {
		part[i] += sign * int64(binary.LittleEndian.Uint64(raw[8*i:]))
	}
}
