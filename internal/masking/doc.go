// Package masking adds up vectors of several sites so that the aggregator sees only the noisy total. It is the
// protocol of Bonawitz and others (2017) without secret sharing: a sum opens only if all sites in it agree. The
// sites draw the noise, in shares.
//
// # The protocol
//
// The run's spec holds a [Group]: the members, each with the fingerprint of its certificate's key, the quorum q,
// and the number c of members that may collude. Vectors hold 64-bit integers, which are added modulo 2^64.
//
//  0. Each member makes an X25519 key for the run, signed with its certificate's key ([Party.Key]). It lives
//     in the memory of its process. A member that restarts has a new key, so that no answer, tag or seed from
//     before can be asked for again.
//  1. The aggregator announces an attempt at a round ([Terms]): what is asked, the noise, and the connected
//     members S with their signed keys. Each member checks all of it, and answers with x + e + PRG(b) + sum over
//     its partners of +-PRG(s), where x is its vector, e its share of the noise ([gnmax.Share]), b 32 fresh
//     random bytes, and s a seed that it shares with the partner: HKDF of the secret of their run keys and of the
//     hash of the terms. In each pair, the member whose site comes first adds and the other subtracts, so that
//     these masks cancel in the sum over S. Each member has enough partners in S for the proof below.
//  2. The aggregator names U, the members that answered. Each of them agrees to one U in an attempt, which
//     must contain itself and a quorum ([Party.Agree]). It makes a tag for each other member of U: an HMAC of the
//     terms and of U. Only the two members can derive its key, which differs in each direction. The aggregator
//     forwards the tags.
//  3. A member that has valid tags from all others in U, for the U that it agreed to, charges its site
//     ([Pay]). It then reveals its b, and the seeds that it shares with partners in S minus U ([Party.Reveal]).
//     Once all of U have done so, the aggregator opens the sum ([Terms.Open]).
//
// # Why this is private
//
// The adversary is the aggregator with up to c members that tell it everything they know. The guarantee is
// computational and rests on X25519 and AES:
//
//   - One answer is uniform. An honest member reveals its b for one U of one attempt, or never. Without b,
//     PRG(b) hides its answer. With b, the seeds that it shares with its honest partners in U hide it, and nobody
//     reveals those: a member reveals only seeds of S minus U, for the U that it agreed to. Honest members of one
//     U that revealed have agreed to the same U, as each verified the tags of all others. A valid tag from an
//     honest i to an honest j comes from i: nobody else has their secret, and j makes no tag with the key from i
//     to j. i makes tags for only one U in an attempt, and the tag covers terms and U.
//   - Only the sum over all honest members of U is opened, and no part of it. These members are the vertices of
//     a graph whose edges are pairs of partners. The graph is connected for every choice of colluding and lost
//     members: at most c collude and at most |S| - q are lost, and removing c + |S| - q members from S leaves it
//     connected (partners.go). The mask of an edge is added to one answer and subtracted from another. So all
//     answers with the same sum are equally likely: given all other masks, the masks on a spanning tree have
//     exactly one choice for each. If some honest members have not revealed their b, these hide even the sum.
//   - There is only one such U in an attempt: it has q members, at least q - c of them honest. Two without a
//     common honest member would need 2 (q - c) of the N - c honest ones, but 2q > N + c ([Group.Validate]).
//   - The sum over the honest members of U has at least q - c shares of noise, which are enough
//     ([gnmax.Share]).
//   - Each attempt has seeds, masks and noise of its own, because its number is in the terms and b is fresh.
//     Two attempts that open are therefore two noisy answers: a site is charged for each before it opens.
//   - A key that the aggregator made up has no signature by a key whose fingerprint is in the spec.
//
// # Why an attempt that a member does not open is free
//
// In such an attempt an honest member sent only x + e + PRG(b) + masks, and tags if it agreed. Its b is never
// revealed: it is drawn for this attempt only, and exists in the memory of one process only. To an adversary with
// everything else (all seeds of pairs, and the b of all others) PRG(b) is indistinguishable from uniform, and so
// is the answer, for all x and e. Tags depend on terms, U and keys of pairs, not on x and e. So everything sent
// could be simulated without x, and reveals nothing.
//
// This holds also for an adaptive aggregator, which decides whether a member continues after it has seen answers,
// all tags, and what others revealed. By then it has seen nothing of the member's x or e, so its choice depends on
// neither. If the member does not continue, the attempt reveals nothing; if it does, its site is charged first.
// The aggregator does not get a sum without the member either. Suppose an honest j of U revealed and an honest i
// of U did not: any sum of honest answers that includes j's is hidden. If i's answer is in the sum, its b hides
// it. Otherwise some pair of partners has one member in the sum and one outside, as the graph is connected, and
// both keep their seed secret. j is charged anyway. So the number of attempts is unbounded, and the number of
// openings is bounded ([Retries]).
//
// Not hidden: which sites take part, when, and how long they take. If a computation's time depends on x, as with a
// random sample, it must not be redrawn before it is paid for: otherwise a choice by time is a choice by x. Not
// defended: a member with a wrong answer spoils the total, and a later break of X25519 opens recorded traffic.
package masking
